"""Vector loops of inference and screening: weighted sums of matrix rows, and exponentials of whole arrays.

    out[k] = sum_e w_e matrix[row_e, k]

Forward and backward messages, edge counts and the gradients of a feature have this form. Rows are `width` numbers wide,
a multiple of LANES. Columns are summed in blocks of 4 registers of LANES numbers, and a last block of 3, 2 or 1.
"""

import numpy as np

from crfqn.kernels import FUSED, inner, subkernel
from crfqn.kernels.numba_internals import LANES as LANES
from crfqn.kernels.numba_internals import add_picked as add_picked
from crfqn.kernels.numba_internals import add_products as add_products
from crfqn.kernels.numba_internals import larger, load_lanes, shift_exponent, spread, store_lanes


def aligned_rows(n_rows: int, width: int) -> np.ndarray:
    """Return zeros, float64 (n_rows, width), that begin at a cache line: reading a vector across two lines costs twice
    as much. Kernels call `new_rows`."""
    numbers = np.zeros(n_rows * width + LANES)
    skip = (-numbers.ctypes.data // 8) % LANES
    return numbers[skip : skip + n_rows * width].reshape(n_rows, width)


new_rows = subkernel(aligned_rows)


@inner
def copy_rows(target, source):
    """target[: len(source)] = source. Numba compiles the assignment of a slice for seconds, for its error messages."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


# The range reduction of Cody and Waite ("Software manual for the elementary functions", 1980) with a polynomial has no
# branches and vectorises. A scalar `exp` takes about 5 ns, and would take a quarter of a forward-backward pass.
LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts: n LN2_HIGH is exact for every n that occurs
LN2_LOW = 1.90821492927058770002e-10  # ln 2 - LN2_HIGH
ROUNDING_SHIFT = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
MIN_EXPONENT = -708.0  # exp(-708) = 3e-308 is the smallest result, still a normal number


@inner(sums=FUSED)
def exp_lanes(x):
    """Return exp(x) of a register of numbers x <= 0; 3e-308 for x < MIN_EXPONENT.

    exp(x) = 2**n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; exp(r) is its Taylor polynomial of degree 12, with an
    error below 2 units in the last place. Re-association would cancel ROUNDING_SHIFT.
    """
    x = larger(x, spread(MIN_EXPONENT))
    power = x * spread(LOG2_E) + spread(ROUNDING_SHIFT)
    n = power - spread(ROUNDING_SHIFT)
    r = (x - n * spread(LN2_HIGH)) - n * spread(LN2_LOW)
    p = spread(2.08767569878681e-09) * r + spread(2.505210838544172e-08)
    p = p * r + spread(2.755731922398589e-07)
    p = p * r + spread(2.7557319223985893e-06)
    p = p * r + spread(2.48015873015873e-05)
    p = p * r + spread(0.0001984126984126984)
    p = p * r + spread(0.001388888888888889)
    p = p * r + spread(0.008333333333333333)
    p = p * r + spread(0.041666666666666664)
    p = p * r + spread(0.16666666666666666)
    p = p * r + spread(0.5)
    p = p * r + spread(1.0)
    p = p * r + spread(1.0)
    return shift_exponent(p, power)


@subkernel(sums=FUSED)
def exp_in_place(x):
    """Replace the numbers x by exp(x), for x <= 0."""
    whole = x.size // LANES * LANES
    for i in range(0, whole, LANES):
        store_lanes(x, i, exp_lanes(load_lanes(x, i)))
    if whole < x.size:
        rest = np.zeros(LANES)
        for i in range(whole, x.size):
            rest[i - whole] = x[i]
        store_lanes(rest, 0, exp_lanes(load_lanes(rest, 0)))
        for i in range(whole, x.size):
            x[i] = rest[i - whole]
