"""Which rows of a plan a sweep visits, in the order of the plan."""

from crfqn.kernels import bare_kernel

ABSENT = -1
IS_LISTED, IS_UNKNOWN, IS_TWICE = range(3)


@bare_kernel
def list_visits(order, rank, number, visits, colours, bounds, turn, own_colours, own_bounds):
    """List the features `order` as `row_plan.Plan` does; says whether all of them are planned, and none comes twice.

    rank : int64 (F,), the number of each feature's visit, ABSENT for others
    number : int64 (rows planned,), ABSENT before and after
    visits : int64 (rows planned,), those rows in the order of visits; colours, bounds : of each row planned
    turn, own_colours, own_bounds : out, of each of `order`
    """
    found = IS_LISTED
    for i in range(order.size):
        visit = rank[order[i]]
        if visit == ABSENT or number[visit] != ABSENT:
            found = IS_UNKNOWN if visit == ABSENT else IS_TWICE
            break
        number[visit] = i
    n = 0
    for visit in range(number.size):
        if number[visit] != ABSENT:
            row = visits[visit]
            turn[n], own_colours[n] = number[visit], colours[row]
            for cut in range(bounds.shape[1]):
                own_bounds[n, cut] = bounds[row, cut]
            n, number[visit] = n + 1, ABSENT
    return found
