"""Vector loops that inference and screening share: weighted sums of matrix rows, and exponentials of whole arrays.

    out[k] = sum_e w_e matrix[row_e, k]

Forward and backward messages, edge counts and the gradients of a feature are all of this form. Rows are `width` numbers
wide, a multiple of LANES; blocks of 4 registers of LANES numbers cover them, and what is left has 3, 2 or 1.
"""

from typing import Any

import numpy as np

from crfqn.kernels import FUSED, inner, subkernel
from crfqn.kernels.numba_internals import LANES as LANES
from crfqn.kernels.numba_internals import add_picked as add_picked
from crfqn.kernels.numba_internals import add_products as add_products
from crfqn.kernels.numba_internals import larger, load, shift_exponent, spread, store


def aligned_rows(n_rows: Any, width: Any) -> Any:
    """Return zeros, float64 (n_rows, width), on a cache line's boundary: a vector across two lines costs double.
    Kernels call `new_rows`."""
    numbers = np.zeros(n_rows * width + LANES)
    skip = (-numbers.ctypes.data // 8) % LANES
    return numbers[skip : skip + n_rows * width].reshape(n_rows, width)


new_rows = subkernel(aligned_rows)


@inner
def copy_rows(target, source):
    """target[: len(source)] = source, without the messages about shapes that a slice assigned compiles, for seconds."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


# A scalar `exp` costs about 5 ns and would be a quarter of a forward-backward pass; this form, the range reduction of
# Cody and Waite ("Software manual for the elementary functions", 1980) with a polynomial, is branch-free and compiles
# to vector instructions.
LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
UNDERFLOW = -708.0


@inner(sums=FUSED)
def exp_lanes(x: Any) -> Any:
    """Return exp(x) of a register of numbers x <= 0; values under -708 give 3e-308 instead of a denormal.

    exp(x) = 2**n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2, exp(r) by its Taylor polynomial of degree 12 (error
    below 2 units in the last place); re-association would cancel ROUND.
    """
    x = larger(x, spread(UNDERFLOW))
    power = x * spread(LOG2_E) + spread(ROUND)
    n = power - spread(ROUND)
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
        store(x, i, exp_lanes(load(x, i)))
    if whole < x.size:
        rest = np.zeros(LANES)
        for i in range(whole, x.size):
            rest[i - whole] = x[i]
        store(rest, 0, exp_lanes(load(rest, 0)))
        for i in range(whole, x.size):
            x[i] = rest[i - whole]
