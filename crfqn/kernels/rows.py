"""Weighted sums of matrix rows, in registers: the innermost loops of inference and of screening.

    out[k] = sum_e w_e matrix[row_e, k]

Forward and backward messages, edge counts and the gradients of a feature are all of this form. Compiled from plain
loops the sum is loaded and stored once a row, with a test for overlap before each. These intrinsics spell out the
vector instructions: a block of columns stays in registers while all rows go by. A 32 x 32 product takes 50 ns here,
110 ns in a plain loop over four rows at a time and 330 ns row by row; sums of 24 numbers wide rows that are picked
take 2.5 to 4 ns a row here, 4 to 6 ns in plain loops.

Rows are `width` numbers wide, a multiple of LANES; blocks of 4 registers of LANES numbers cover them, and what is left
has 3, 2 or 1.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from crfqn.kernels import inner, kernel

LANES = 8
DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
ALIGNMENT = 8  # bytes: rows start at any number
CONTRACT = ("contract",)  # multiply and add in one instruction


def array_at(context: Any, builder: Any, signature: Any, args: Any, place: int) -> Any:
    """Return the argument number `place`, an array, with its fields (data, shape) within reach."""
    return context.make_array(signature.args[place])(context, builder, args[place])


def registers(builder: Any, base: Any, start: Any, n_registers: int) -> list[Any]:
    """Return pointers to n_registers vectors from base[start] on."""
    size = start.type
    places = [builder.add(start, ir.Constant(size, i * LANES)) for i in range(n_registers)]
    return [builder.bitcast(builder.gep(base, [place]), VECTOR.as_pointer()) for place in places]


def broadcast(builder: Any, number: Any) -> Any:
    """Return a vector that has the number in all lanes."""
    lane = ir.IntType(32)
    single = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, lane(0))
    return builder.shuffle_vector(
        single, ir.Constant(VECTOR, ir.Undefined), ir.Constant(ir.VectorType(lane, LANES), None)
    )


def _row_sum(n_registers: int, is_indexed: bool, is_weighted: bool) -> Any:
    """Make an intrinsic that adds weighted rows e = begin ... end - 1 of a block of n_registers * LANES columns to out.

    Row e is matrix[indices[e]] (indexed) or matrix[e]; its weight is weights[offset + e * stride], or 1. The block
    begins at `column`.
    """

    @intrinsic
    def add_rows(typing: Any, out: Any, column: Any, matrix: Any, indices: Any, begin: Any, end: Any, weights: Any,
                 offset: Any, stride: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target = array_at(context, builder, signature, args, 0)
            source = array_at(context, builder, signature, args, 2)
            chosen = array_at(context, builder, signature, args, 3)
            weight = array_at(context, builder, signature, args, 6)
            column, begin, end, offset, stride = (args[i] for i in (1, 4, 5, 7, 8))
            size = column.type
            width = builder.extract_value(source.shape, 1)
            targets = registers(builder, target.data, column, n_registers)
            cells = [
                cgutils.alloca_once_value(builder, builder.load(place, align=ALIGNMENT)) for place in targets
            ]
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(size, 1), size) as (e, _):
                row = e
                if is_indexed:
                    row = builder.load(builder.gep(chosen.data, [e]))
                    row = builder.zext(row, size) if row.type.width < size.width else row
                start = builder.add(builder.mul(row, width), column)
                numbers = [
                    builder.load(place, align=ALIGNMENT)
                    for place in registers(builder, source.data, start, n_registers)
                ]
                if is_weighted:
                    place = builder.add(offset, builder.mul(e, stride))
                    scale = broadcast(builder, builder.load(builder.gep(weight.data, [place])))
                    numbers = [builder.fmul(scale, value, CONTRACT) for value in numbers]
                for cell, value in zip(cells, numbers, strict=True):
                    builder.store(builder.fadd(builder.load(cell), value, CONTRACT), cell)
            for place, cell in zip(targets, cells, strict=True):
                builder.store(builder.load(cell), place, align=ALIGNMENT)
            return context.get_dummy_value()

        index = types.intp
        return types.void(out, index, matrix, indices, index, index, weights, index, index), generate

    return add_rows


products_4, products_2, products_1 = (_row_sum(n, is_indexed=False, is_weighted=True) for n in (4, 2, 1))
picks_4, picks_3, picks_2, picks_1 = (_row_sum(n, is_indexed=True, is_weighted=False) for n in (4, 3, 2, 1))
weighed_4, weighed_3, weighed_2, weighed_1 = (
    _row_sum(n, is_indexed=True, is_weighted=True) for n in (4, 3, 2, 1)
)


def request(builder: Any, place: Any, is_written: bool) -> None:
    """Prefetch the cache line of a number that will soon be read, or also written."""
    address, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [address, integer, integer, integer])
    function = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
    to_stay, is_data = integer(3), integer(1)
    builder.call(function, [builder.bitcast(place, address), integer(int(is_written)), to_stay, is_data])


@intrinsic
def prefetch(typing: Any, matrix: Any, row: Any) -> Any:
    """Prefetch a row of float64 (rows, width) that will soon be written."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = array_at(context, builder, signature, args, 0)
        width = builder.extract_value(source.shape, 1)
        start = builder.mul(args[1], width)
        line = ir.Constant(start.type, LANES)
        with cgutils.for_range_slice(builder, start, builder.add(start, width), line, start.type) as (e, _):
            request(builder, builder.gep(source.data, [e]), is_written=True)
        return context.get_dummy_value()

    return types.void(matrix, types.intp), generate


@intrinsic
def prefetch_number(typing: Any, numbers: Any, place: Any) -> Any:
    """Prefetch the cache line of numbers[place] that will soon be read."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        request(
            builder, builder.gep(array_at(context, builder, sig, args, 0).data, [args[1]]), is_written=False
        )
        return context.get_dummy_value()

    return types.void(numbers, types.intp), generate


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
    """out += sum_e weights[offset + e * stride] matrix[e] over the rows e = begin ... end - 1.

    out: float64 (width,); matrix: float64 (rows, width), C order, width a multiple of LANES.
    """
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
