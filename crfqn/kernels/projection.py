"""Projections of the rows of a matrix, each onto a simplex of its own.

All need the level t of a projection onto a simplex, found by sorting, by random pivots, or by bisection:

    sum_m max(v_m - t, 0) = mass + slope t

With slope 0 the projection of v onto {b >= 0, sum b = mass} is max(v - t, 0); with slope 1 and mass = -height the
projection of (v, height) onto the epigraph of the largest entry is (min(v, t), t) (Chierchia et al. 2015, proposition
3.3). The left side falls in t and the right side does not, so the level is unique where mass + slope max(v) > 0.

All is done with d = v - max(v), so that no digit of the mass is lost beside large entries: only entries with
d > -mass can be above the level. Blondel, Fujino and Ueda (2014) number the algorithms.

Shapes: n rows, k columns; v and the workspaces float64 (k,); random : uint64 (1,), the state of a generator; x, out
float64 (n, k), which may be the same array; radii float64 (n,).
"""

import numpy as np

from crfqn.kernels import IN_ORDER, inner, kernel, subkernel

SORT, PIVOT, BISECTION = range(3)
NEWTON_STEPS = 6  # each costs a sweep in registers, and leaves half of the entries of a uniform distribution
# Rows that are first rid of what Newton's level shows to be below; wider ones are sorted as printed.
NARROW = 128
MOST_HALVINGS = 1100  # of an interval of doubles, until none lies within
SEED = 1  # of the pivots
ALL_FINE = -1  # instead of the number of a row out of range
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's MMIX


@inner
def draw(random, n):
    """Return a random number from 0 to n - 1 by a linear congruential generator, of its upper 32 bits."""
    random[0] = random[0] * MULTIPLIER + INCREMENT
    return np.int64(((random[0] >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@inner(sums=IN_ORDER)
def difference(x, y):
    """Return x - y as it stands: (x - y) - z is another number than x - (y + z), into which it may be turned else."""
    return x - y


@inner
def largest_and_sum(v):
    """Return max(v) and sum(v - v[0]), which is not finite where an entry is not."""
    largest, total, first = v[0], 0.0, v[0]
    for i in range(v.size):
        largest = v[i] if v[i] > largest else largest
        total += difference(v[i], first)
    return largest, total


@inner
def gather_above(v, shift, level, out):
    """out <- the d = v - shift that are > level, in their order; return their number. out may be v."""
    n = 0
    for i in range(v.size):
        d = difference(v[i], shift)
        out[n] = d
        n += 1 if d > level else 0
    return n


@inner
def excess_at(v, shift, level, mass, slope):
    """Return sum max(d - level, 0) - mass - slope level over d = v - shift, and how many d are above the level."""
    total, count = 0.0, 0
    for i in range(v.size):
        above = difference(difference(v[i], shift), level)
        total += above if above > 0.0 else 0.0
        count += np.int64(above > 0.0)
    return total - mass - slope * level, count


@inner
def lower_level(v, largest, level, mass, slope):
    """Return a higher level from below by Newton's method (Michelot 1986), and whether it is the level itself."""
    before, is_exact = v.size + 1, False
    for _ in range(NEWTON_STEPS):
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
    """Return pi(rho) for the last rho with mu_rho > pi(rho), mu being u in descending order (Algorithm 2); permutes u.
    A heap hands out one mu after another: none beyond rho + 1 is asked for."""
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
    """Return the level by random pivots in expected O(k) (Duchi et al. 2008, figure 2); permutes u. The open entries
    are u[first] ... u[last - 1]; `total` is the sum of the `count` that are known to be above."""
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
    """Return a level whose sum is within tol * mass (Algorithm 3); exact rounding ends it too.

    The paper starts from [0, U]. As u is what entries lack of the largest one, [below, 0] with below = -mass is
    [max - mass, max]: it holds the level as well, and is no wider for large entries."""
    low, high, level = below, 0.0, below
    for _ in range(MOST_HALVINGS):
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
    """Return max(v) and the level less it: their sum is the level, but for its rounding; nan where v is not finite.
    Where mass + slope max(v) <= 0 none is below the largest entry: the sum is -mass / slope, or max(v)."""
    largest, total = largest_and_sum(v)
    if not abs(total) < np.inf:
        return np.nan, np.nan
    mass += slope * largest  # now of the d
    if not mass > 0.0:
        return largest, -mass / slope if slope > 0.0 else 0.0
    level = -np.inf
    if method != SORT or v.size <= NARROW:
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
    """out[i] <- the projection of x[i] onto {b >= 0, sum b = radii[i]}; returns the first row out of range, or -1."""
    workspace, random = np.empty(x.shape[1] + 1), np.full(1, SEED, np.uint64)
    for i in range(x.shape[0]):
        row, target = x[i], out[i]
        largest, level = simplex_level(row, radii[i], 0.0, method, tol, workspace, random)
        if np.isnan(level):
            return i
        for j in range(row.size):
            b = difference(difference(row[j], largest), level)
            target[j] = b if b > 0.0 else 0.0
    return ALL_FINE
