"""Projections of the rows of a matrix, each onto the simplex {b >= 0, sum b = radius of the row}.

The algorithms, sorting, random pivots and bisection (numbered as in Blondel, Fujino and Ueda 2014), compute the level t
with

    sum_m max(v_m - t, 0) = mass + slope t

With slope 0 the projection of v onto {b >= 0, sum b = mass} is max(v - t, 0). With slope 1 and mass = -height the
projection of (v, height) onto the epigraph of the largest entry is (min(v, t), t) (Chierchia et al. 2015, proposition
3.3). The left side decreases in t and the right side does not: the level is unique if mass + slope max(v) > 0.

Numerics: all computations use d = v - max(v), so that large entries cancel no digits of the mass. Only entries with
d > -mass can be above the level.

Shapes: n rows, k columns; v and the workspaces float64 (k,); random : uint64 (1,), the state of a generator; x, out :
float64 (n, k), possibly the same array; radii : float64 (n,).
"""

import numpy as np

from crfqn.kernels import IN_ORDER, inner, kernel, subkernel

SORT, PIVOT, BISECTION = range(3)
# Newton steps before sorting, pivots or bisection. A step is one sweep over the row and excludes about half of the
# remaining entries of a uniform distribution.
MAX_NEWTON_STEPS = 6
MAX_NEWTON_WIDTH = 128  # sorting begins with Newton steps in rows of up to so many entries
MAX_HALVINGS = 1100  # so many halvings of an interval of doubles leave no double inside
PIVOT_SEED = 1  # of the generator that chooses pivots: the same choices in every run
ALL_FINITE = -1  # returned instead of the number of a row that is out of range
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's MMIX


@inner
def draw(random, n):
    """Return a random number from 0 to n - 1 by a linear congruential generator, of its upper 32 bits."""
    random[0] = random[0] * MULTIPLIER + INCREMENT
    return np.int64(((random[0] >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@inner(sums=IN_ORDER)
def difference(x, y):
    """Return x - y, rounded. Without IN_ORDER the compiler may turn (x - y) - z into x - (y + z), another number."""
    return x - y


@inner
def largest_and_sum(v):
    """Return max(v) and sum(v - v[0]), which is finite only if all entries are."""
    largest, total, first = v[0], 0.0, v[0]
    for i in range(v.size):
        largest = v[i] if v[i] > largest else largest
        total += difference(v[i], first)
    return largest, total


@inner
def gather_above(v, shift, level, out):
    """Write the d = v - shift with d > level to out, in their order; return their number. out may be v."""
    n = 0
    for i in range(v.size):
        d = difference(v[i], shift)
        out[n] = d
        n += 1 if d > level else 0
    return n


@inner
def excess_at(v, shift, level, mass, slope):
    """Return sum max(d - level, 0) - mass - slope level over d = v - shift, and the number of d above the level."""
    total, count = 0.0, 0
    for i in range(v.size):
        above = difference(difference(v[i], shift), level)
        total += above if above > 0.0 else 0.0
        count += np.int64(above > 0.0)
    return total - mass - slope * level, count


@inner
def lower_level(v, largest, level, mass, slope):
    """Increase a lower bound of the level by Newton's method (Michelot 1986); return it and whether it is the level."""
    before, is_exact = v.size + 1, False
    for _ in range(MAX_NEWTON_STEPS):
        excess, count = excess_at(v, largest, level, mass, slope)
        step = excess / (count + slope)
        if count == before or not step > 0.0:
            is_exact = True
            break
        level += step
        before = count
    return level, is_exact


@inner
def sift_down(heap, root, n):
    """Move heap[root] down until no child among the first n entries is larger."""
    x = heap[root]
    child = 2 * root + 1
    while child < n:
        if child + 1 < n and heap[child + 1] > heap[child]:
            child += 1
        if not heap[child] > x:
            break
        heap[root] = heap[child]
        root, child = child, 2 * child + 1
    heap[root] = x


@subkernel(counts=False)
def level_by_sorting(u, mass, slope):
    """Return pi(rho) for the last rho with mu_rho > pi(rho); mu is u in descending order (Algorithm 2). Permutes u. A
    heap yields the mu one by one, up to rho + 1."""
    n, total, level = u.size, 0.0, -mass
    for root in range(n // 2 - 1, -1, -1):
        sift_down(u, root, n)
    for m in range(u.size):
        mu = u[0]
        pi = (total + mu - mass) / (m + 1 + slope)
        if not mu > pi:
            break
        total += mu
        level = pi
        n -= 1
        u[0] = u[n]
        sift_down(u, 0, n)
    return level


@subkernel(counts=False)
def level_by_pivots(u, mass, slope, random):
    """Return the level by random pivots in expected O(k) (Duchi et al. 2008, figure 2). Permutes u. Undecided entries
    are u[first] ... u[last - 1]; `total` is the sum of the `count` entries that are above the level."""
    first, last, total, count = 0, u.size, 0.0, 0
    while first < last:
        chosen = first + draw(random, last - first)
        pivot = u[chosen]
        u[chosen], u[first] = u[first], pivot
        sum_above, end = pivot, first + 1  # those not below the pivot move to the front
        for i in range(first + 1, last):
            x = u[i]
            is_above = x >= pivot
            u[i] = u[end]
            u[end] = x
            sum_above += x if is_above else 0.0
            end += 1 if is_above else 0
        n_above = end - first
        if total + sum_above - (count + n_above + slope) * pivot < mass:
            total += sum_above
            count += n_above
            first = end
        else:
            first, last = first + 1, end
    return (total - mass) / (count + slope) if count + slope > 0 else -mass


@subkernel(counts=False)
def level_by_bisection(u, below, mass, slope, tol):
    """Return a level whose sum is right within tol * mass, or the closest double to the level (Algorithm 3).

    The paper starts from [0, U]. As u has the differences to the largest entry, [below, 0] with below = -mass is
    [max - mass, max]. It contains the level, and its width does not depend on the size of the entries.
    """
    low, high, level = below, 0.0, below
    for _ in range(MAX_HALVINGS):
        level = 0.5 * (low + high)
        excess, _ = excess_at(u, 0.0, level, mass, slope)
        if abs(excess) <= tol * mass or level <= low or level >= high:
            break
        if excess < 0.0:
            high = level
        else:
            low = level
    return level


@inner
def simplex_level(v, mass, slope, method, tol, workspace, random):
    """Return max(v) and the level minus max(v), or NaN twice if v is not finite.

    If mass + slope max(v) <= 0, no entry exceeds the level, and the sum of the two is -mass / slope (or max(v)).
    """
    largest, total = largest_and_sum(v)
    if not abs(total) < np.inf:
        return np.nan, np.nan
    mass += slope * largest  # the mass of the d
    if not mass > 0.0:
        return largest, -mass / slope if slope > 0.0 else 0.0
    level = -np.inf
    if method != SORT or v.size <= MAX_NEWTON_WIDTH:
        mean = (total + v.size * difference(v[0], largest) - mass) / (v.size + slope)
        level, is_exact = lower_level(v, largest, max(-mass, mean), mass, slope)
        if is_exact:
            return largest, level
    u = workspace[: gather_above(v, largest, level, workspace)]
    if method == SORT:
        return largest, level_by_sorting(u, mass, slope)
    if method == PIVOT:
        return largest, level_by_pivots(u, mass, slope, random)
    return largest, level_by_bisection(u, level, mass, slope, tol)


@kernel
def simplex_rows(x, radii, method, tol, out):
    """Write the projections of x[i] onto {b >= 0, sum b = radii[i]} to out[i]; return the number of the first row that
    is out of range, or ALL_FINITE."""
    workspace, random = np.empty(x.shape[1] + 1), np.full(1, PIVOT_SEED, np.uint64)
    for i in range(x.shape[0]):
        row, target = x[i], out[i]
        largest, level = simplex_level(row, radii[i], 0.0, method, tol, workspace, random)
        if np.isnan(level):
            return i
        for j in range(row.size):
            b = difference(difference(row[j], largest), level)
            target[j] = b if b > 0.0 else 0.0
    return ALL_FINITE
