"""Hinge losses seen from one row of the weights, in registers: the innermost loops of block coordinate descent.

Compiled from plain loops, the sums over the entries go to memory and back at every entry, and each has two horizontal
sums. Here the sums stay in registers while all entries go by, and the change of the loss is summed across a register
once, at the end. With 8 to 104 states and rows of 3 to 1,000 entries plain loops take 1.1 to 2.8 times as long for the
slopes, and 1.2 to 2.3 times for the move, but 0.8 to 1.1 times where rows of 3 entries meet 64 states or more. Slopes
prefetch margins some entries ahead, a tenth less for both together.

For multiclass margins as in `losses.py`: float64 (N, width), width a multiple of LANES. An entry e belongs to the
position i = indices[e] and has the value x = values[e * stride].
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from crfqn.kernels import inner
from crfqn.kernels.rows import (
    ALIGNMENT,
    CONTRACT,
    DOUBLE,
    LANES,
    VECTOR,
    array_at,
    broadcast,
    registers,
    request,
)

INTEGER, BITS = ir.IntType(64), ir.IntType(LANES)
ZEROS = ir.Constant(VECTOR, [ir.Constant(DOUBLE, 0.0)] * LANES)
SUM = ("reassoc", "contract")
AHEAD = 8  # entries from a prefetch to its use: the time goes into waiting for margins, not into reading them
INDEX = types.intp
ONE = np.ones(1)  # the value of every entry where all are 1


def number_at(builder: Any, array: Any, place: Any) -> Any:
    """Return array[place], integers widened to 64 bits."""
    number = builder.load(builder.gep(array.data, [place]))
    if isinstance(number.type, ir.IntType) and number.type.width < INTEGER.width:
        return builder.zext(number, INTEGER)
    return number


def row_at(builder: Any, matrix: Any, row: Any, column: Any, n_registers: int) -> list[Any]:
    """Return pointers to n_registers vectors from matrix[row, column] on."""
    width = builder.extract_value(matrix.shape, 1)
    return registers(builder, matrix.data, builder.add(builder.mul(row, width), column), n_registers)


def loaded(builder: Any, places: list[Any]) -> list[Any]:
    """Return the vectors at some pointers."""
    return [builder.load(place, align=ALIGNMENT) for place in places]


def total_of(builder: Any, vectors: list[Any]) -> Any:
    """Return the sum of all numbers in some vectors."""
    together = vectors[0]
    for vector in vectors[1:]:
        together = builder.fadd(together, vector, SUM)
    kind = ir.FunctionType(DOUBLE, [DOUBLE, VECTOR])
    reduce = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f64")
    return builder.call(reduce, [ir.Constant(DOUBLE, 0.0), together], fastmath=SUM)


def add_to(builder: Any, array: Any, place: Any, number: Any) -> None:
    """array.flat[place] += number."""
    target = builder.gep(array.data, [place])
    builder.store(builder.fadd(builder.load(target), number, CONTRACT), target)


def positive_part(builder: Any, vector: Any) -> tuple[Any, Any]:
    """Return where a vector is above 0, as bits, and max(vector, 0)."""
    is_above = builder.fcmp_ordered(">", vector, ZEROS)
    return is_above, builder.select(is_above, vector, ZEROS)


def _slopes(n_registers: int) -> Any:
    """Make an intrinsic that adds c x max(a, 0) and c x^2 [a > 0] of a column block to g and h; c the weight.

    Minus the sum of the former over the block's states is added to own[0, y], the sum of the latter to own[1, y].
    """

    @intrinsic
    def add_slopes(typing: Any, g: Any, h: Any, own: Any, column: Any, margins: Any, indices: Any, begin: Any,
                   end: Any, values: Any, stride: Any, labels: Any, weights: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = {p: array_at(context, builder, signature, args, p) for p in (0, 1, 2, 4, 5, 8, 10, 11)}
            column, begin, end, stride = (args[place] for place in (3, 6, 7, 9))
            targets = [registers(builder, arrays[p].data, column, n_registers) for p in (0, 1)]
            cells = [[cgutils.alloca_once_value(builder, v) for v in loaded(builder, t)] for t in targets]
            count_kind = ir.FunctionType(BITS, [BITS])
            count = cgutils.get_or_insert_function(builder.module, count_kind, f"llvm.ctpop.i{LANES}")
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(INTEGER, 1), INTEGER) as (e, _):
                i = number_at(builder, arrays[5], e)
                later = builder.add(e, ir.Constant(INTEGER, AHEAD))
                later = builder.select(builder.icmp_signed("<", later, end), later, e)
                soon = number_at(builder, arrays[5], later)
                for place in row_at(builder, arrays[4], soon, column, n_registers):
                    request(builder, place, is_written=False)
                x = number_at(builder, arrays[8], builder.mul(e, stride))
                first = builder.fmul(number_at(builder, arrays[11], i), x)
                second = builder.fmul(first, x)
                sizes = [broadcast(builder, number) for number in (first, second)]
                slacks, n_violated = [], ir.Constant(INTEGER, 0)
                for r, a in enumerate(loaded(builder, row_at(builder, arrays[4], i, column, n_registers))):
                    is_above, slack = positive_part(builder, a)
                    slacks.append(slack)
                    more = (
                        builder.fmul(sizes[0], slack, CONTRACT),
                        builder.select(is_above, sizes[1], ZEROS),
                    )
                    for cell, vector in zip((cells[0][r], cells[1][r]), more, strict=True):
                        builder.store(builder.fadd(builder.load(cell), vector, CONTRACT), cell)
                    bits = builder.call(count, [builder.bitcast(is_above, BITS)])
                    n_violated = builder.add(n_violated, builder.zext(bits, INTEGER))
                y = number_at(builder, arrays[10], i)
                width = builder.extract_value(arrays[2].shape, 1)
                lost = builder.fneg(builder.fmul(first, total_of(builder, slacks)))
                add_to(builder, arrays[2], y, lost)
                gained = builder.fmul(second, builder.uitofp(n_violated, DOUBLE))
                add_to(builder, arrays[2], builder.add(width, y), gained)
            for places, block in zip(targets, cells, strict=True):
                for place, cell in zip(places, block, strict=True):
                    builder.store(builder.load(cell), place, align=ALIGNMENT)
            return context.get_dummy_value()

        arrays = (g, h, own, INDEX, margins, indices, INDEX, INDEX, values, INDEX, labels, weights)
        return types.void(*arrays), generate

    return add_slopes


def _move(n_registers: int) -> Any:
    """Make an intrinsic that adds step x (d - d_y) to the margins of a column block; returns the change of the loss."""

    @intrinsic
    def move_rows(typing: Any, d: Any, column: Any, margins: Any, indices: Any, begin: Any, end: Any, values: Any,
                  stride: Any, labels: Any, weights: Any, step: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = {p: array_at(context, builder, signature, args, p) for p in (0, 2, 3, 6, 8, 9)}
            column, begin, end, stride, step = (args[place] for place in (1, 4, 5, 7, 10))
            changes = [cgutils.alloca_once_value(builder, ZEROS) for _ in range(n_registers)]
            direction = loaded(builder, registers(builder, arrays[0].data, column, n_registers))
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(INTEGER, 1), INTEGER) as (e, _):
                i = number_at(builder, arrays[3], e)
                x = builder.fmul(step, number_at(builder, arrays[6], builder.mul(e, stride)))
                size, weight = broadcast(builder, x), broadcast(builder, number_at(builder, arrays[9], i))
                own = broadcast(builder, number_at(builder, arrays[0], number_at(builder, arrays[8], i)))
                steps = [builder.fsub(vector, own) for vector in direction]
                places = row_at(builder, arrays[2], i, column, n_registers)
                for place, old, vector, change in zip(
                    places, loaded(builder, places), steps, changes, strict=True
                ):
                    new = builder.fadd(old, builder.fmul(size, vector, CONTRACT), CONTRACT)
                    builder.store(new, place, align=ALIGNMENT)
                    before, after = (positive_part(builder, a)[1] for a in (old, new))
                    rise = builder.fsub(
                        builder.fmul(after, after, CONTRACT), builder.fmul(before, before, CONTRACT), CONTRACT
                    )
                    builder.store(
                        builder.fadd(builder.load(change), builder.fmul(weight, rise, CONTRACT), CONTRACT),
                        change,
                    )
            return total_of(builder, [builder.load(change) for change in changes])

        arrays = (d, INDEX, margins, indices, INDEX, INDEX, values, INDEX, labels, weights, types.float64)
        return types.float64(*arrays), generate

    return move_rows


slopes_4, slopes_3, slopes_2, slopes_1 = (_slopes(n) for n in (4, 3, 2, 1))
move_4, move_3, move_2, move_1 = (_move(n) for n in (4, 3, 2, 1))


@inner
def add_hinge_slopes(state, begin, end, g, h, own):
    """Add half of equations 5 and 6: c x max(A_r, 0) to g_r, c x^2 [A_r > 0] to h_r, the label's terms to own.

    state : a `losses.MarginState`
    """
    _, indices, values, labels, weights, margins = state[:6]
    numbers, stride = (values, 1) if values.size > 0 else (ONE, 0)
    width, column = margins.shape[1], 0
    while column + 4 * LANES <= width:
        slopes_4(g, h, own, column, margins, indices, begin, end, numbers, stride, labels, weights)
        column += 4 * LANES
    if column + 3 * LANES == width:
        slopes_3(g, h, own, column, margins, indices, begin, end, numbers, stride, labels, weights)
    elif column + 2 * LANES == width:
        slopes_2(g, h, own, column, margins, indices, begin, end, numbers, stride, labels, weights)
    elif column < width:
        slopes_1(g, h, own, column, margins, indices, begin, end, numbers, stride, labels, weights)


@inner
def move_hinge(state, begin, end, step, d):
    """A_r += step (d_r - d_y) x; returns the change of the loss."""
    _, indices, values, labels, weights, margins = state[:6]
    numbers, stride = (values, 1) if values.size > 0 else (ONE, 0)
    width, column, change = margins.shape[1], 0, 0.0
    while column + 4 * LANES <= width:
        change += move_4(d, column, margins, indices, begin, end, numbers, stride, labels, weights, step)
        column += 4 * LANES
    if column + 3 * LANES == width:
        change += move_3(d, column, margins, indices, begin, end, numbers, stride, labels, weights, step)
    elif column + 2 * LANES == width:
        change += move_2(d, column, margins, indices, begin, end, numbers, stride, labels, weights, step)
    elif column < width:
        change += move_1(d, column, margins, indices, begin, end, numbers, stride, labels, weights, step)
    return change
