"""Vector loops that inference and screening share: weighted sums of matrix rows, and exponentials of whole arrays.

    out[k] = sum_e w_e matrix[row_e, k]

Forward and backward messages, edge counts and the gradients of a feature are all of this form. Rows are `width` numbers
wide, a multiple of LANES; blocks of 4 registers of LANES numbers cover them, and what is left has 3, 2 or 1.
"""

from typing import Any

import numpy as np

from crfqn.kernels import exact_inner, exact_subkernel, inner, kernel
from crfqn.kernels.numba_internals import LANES as LANES
from crfqn.kernels.numba_internals import (
    larger,
    picks_1,
    picks_2,
    picks_3,
    picks_4,
    products_1,
    products_2,
    products_4,
    shift_exponent,
    spread,
    weighed_1,
    weighed_2,
    weighed_3,
    weighed_4,
)


@kernel
def aligned_rows(n_rows, width):
    """Return zeros, float64 (n_rows, width), on a cache line's boundary: a vector across two lines costs double."""
    numbers = np.zeros(n_rows * width + LANES)
    skip = (-numbers.ctypes.data // 8) % LANES
    return numbers[skip : skip + n_rows * width].reshape(n_rows, width)


@inner
def copy_rows(target, source):
    """target[: len(source)] = source, without the messages about shapes that a slice assigned compiles, for seconds."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


@inner
def add_products(out, matrix, begin, end, weights, offset, stride):
    """out += sum_e weights[offset + e * stride] matrix[e] over the rows e = begin ... end - 1; out : float64 (width,),
    matrix : float64 (rows, width), C order, width a multiple of LANES."""
    width, column = out.size, 0
    while column + 4 * LANES <= width:
        products_4(out, column, matrix, out, begin, end, weights, offset, stride)
        column += 4 * LANES
    if column + 2 * LANES <= width:
        products_2(out, column, matrix, out, begin, end, weights, offset, stride)
        column += 2 * LANES
    if column < width:
        products_1(out, column, matrix, out, begin, end, weights, offset, stride)


@inner
def add_picked(out, matrix, indices, begin, end, values):
    """out += sum_e values[e] matrix[indices[e]] over e = begin ... end - 1; without values, (0,), all are 1."""
    width, column = out.size, 0
    while column + 4 * LANES <= width:
        if values.size == 0:
            picks_4(out, column, matrix, indices, begin, end, values, 0, 1)
        else:
            weighed_4(out, column, matrix, indices, begin, end, values, 0, 1)
        column += 4 * LANES
    if column + 3 * LANES == width:
        if values.size == 0:
            picks_3(out, column, matrix, indices, begin, end, values, 0, 1)
        else:
            weighed_3(out, column, matrix, indices, begin, end, values, 0, 1)
    elif column + 2 * LANES == width:
        if values.size == 0:
            picks_2(out, column, matrix, indices, begin, end, values, 0, 1)
        else:
            weighed_2(out, column, matrix, indices, begin, end, values, 0, 1)
    elif column < width:
        if values.size == 0:
            picks_1(out, column, matrix, indices, begin, end, values, 0, 1)
        else:
            weighed_1(out, column, matrix, indices, begin, end, values, 0, 1)


# A scalar `exp` costs about 5 ns and would be a quarter of a forward-backward pass; this form, the range reduction of
# Cody and Waite ("Software manual for the elementary functions", 1980) with a polynomial, is branch-free and compiles
# to vector instructions.
LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
UNDERFLOW = -708.0


@exact_subkernel  # re-association would cancel ROUND
def exp_in_place(x: np.ndarray, exponents: np.ndarray) -> None:
    """Replace x by exp(x) for x <= 0; values under -708 give 3e-308 instead of a denormal.

    exp(x) = 2**n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2, exp(r) by its Taylor polynomial of degree 12 (error
    below 2 units in the last place). 2**n is put together in the bits of `exponents`, int64, as long as x at least.
    """
    powers = exponents.view(np.float64)
    for i in range(x.size):
        x[i] = UNDERFLOW if x[i] < UNDERFLOW else x[i]  # NaN passes
    for i in range(x.size):
        powers[i] = x[i] * LOG2_E + ROUND
    for i in range(x.size):
        n = powers[i] - ROUND
        r = (x[i] - n * LN2_HIGH) - n * LN2_LOW
        p = 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        x[i] = p * r + 1.0
    for i in range(x.size):
        exponents[i] = (exponents[i] + 1023) << 52
    for i in range(x.size):
        x[i] *= powers[i]


@exact_inner
def exp_lanes(x: Any) -> Any:
    """Return exp(x) of a register of numbers (`numba_internals.py`); as `exp_in_place`, to the last bit."""
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
