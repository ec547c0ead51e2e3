"""Eight numbers in a vector register, as a type for kernels: the arithmetic of one lane is that of all.

The compiler keeps what a loop stores in an array in memory, since it cannot know that no other array overlaps it, and
often finds no vector form. With `Lanes` a kernel says itself what stays in a register; a + b, a - b, a * b, a / b
and `larger` and `smaller` act lane by lane, and every lane is rounded as a lone number would be. On
processors with shorter registers the compiler takes two or four of them.

Numbers are float64; `a * b + c` is contracted to one rounding where the processor can.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from crfqn.kernels.rows import ALIGNMENT, CONTRACT, LANES, VECTOR, array_at, broadcast

INTEGERS = ir.VectorType(ir.IntType(64), LANES)


class LanesType(types.Type):
    """The type of LANES float64 numbers in one register."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


Lanes = LanesType()


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """How the compiler holds it: as a vector, by value."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _define(symbol: Any, instruction: str) -> None:
    """Let an operator act on registers, lane by lane."""

    @type_callable(symbol)
    def type_of(context: Any) -> Any:
        return lambda a, b: Lanes if isinstance(a, LanesType) and isinstance(b, LanesType) else None

    @lower_builtin(symbol, LanesType, LanesType)
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args, flags=CONTRACT)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_symbol, _instruction)


def _place(builder: Any, array: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(array.data, [index]), VECTOR.as_pointer())


@intrinsic
def load(typing: Any, numbers: Any, index: Any) -> Any:
    """Return numbers[index] ... numbers[index + LANES - 1] of a float64 array, its places counted in C order."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(builder, array_at(context, builder, signature, args, 0), args[1])
        return builder.load(place, align=ALIGNMENT)

    return Lanes(numbers, types.intp), generate


@intrinsic
def store(typing: Any, numbers: Any, index: Any, value: Any) -> Any:
    """Write a register to numbers[index] ..., places counted as in `load`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(builder, array_at(context, builder, signature, args, 0), args[1])
        builder.store(args[2], place, align=ALIGNMENT)
        return context.get_dummy_value()

    return types.void(numbers, types.intp, Lanes), generate


@intrinsic
def spread(typing: Any, number: Any) -> Any:
    """Return a register that has the number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return broadcast(builder, args[0])

    return Lanes(types.float64), generate


def _less(builder: Any, a: Any, b: Any) -> Any:
    return builder.fcmp_ordered("<", a, b)


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """Return the larger of two numbers, lane by lane; a, where one of them is NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(_less(builder, *args), args[1], args[0])

    return Lanes(Lanes, Lanes), generate


@intrinsic
def smaller(typing: Any, a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, lane by lane; a, where one of them is NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args
        return builder.select(_less(builder, b, a), b, a)

    return Lanes(Lanes, Lanes), generate


@intrinsic
def is_less(typing: Any, a: Any, b: Any) -> Any:
    """Return 1 in the lanes where a < b, 0 in the others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(
            _less(builder, *args), ir.Constant(VECTOR, [1.0] * LANES), ir.Constant(VECTOR, [0.0] * LANES)
        )

    return Lanes(Lanes, Lanes), generate


@intrinsic
def shift_exponent(typing: Any, a: Any, n: Any) -> Any:
    """Return a * 2**n, n an integer held as ROUND + n (`exp.py`), by adding to the exponents' bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, power = (builder.bitcast(value, INTEGERS) for value in args)
        places = ir.Constant(INTEGERS, [52] * LANES)
        return builder.bitcast(builder.add(number, builder.shl(power, places)), VECTOR)

    return Lanes(Lanes, Lanes), generate


@intrinsic
def mantissa(typing: Any, a: Any) -> Any:
    """Return the mantissa of positive normal numbers, within 1 ... 2."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], INTEGERS)
        kept = builder.and_(bits, ir.Constant(INTEGERS, [(1 << 52) - 1] * LANES))
        return builder.bitcast(builder.or_(kept, ir.Constant(INTEGERS, [1023 << 52] * LANES)), VECTOR)

    return Lanes(Lanes), generate


@intrinsic
def exponent(typing: Any, a: Any) -> Any:
    """Return the exponent of positive normal numbers, as a number: a = mantissa * 2**exponent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.lshr(builder.bitcast(args[0], INTEGERS), ir.Constant(INTEGERS, [52] * LANES))
        unbiased = builder.sub(bits, ir.Constant(INTEGERS, [1023] * LANES))
        return builder.sitofp(unbiased, VECTOR)

    return Lanes(Lanes), generate


def _mask(builder: Any, count: Any) -> Any:
    """Return the lanes below `count`."""
    lanes = ir.Constant(INTEGERS, list(range(LANES)))
    whole = builder.insert_element(ir.Constant(INTEGERS, ir.Undefined), count, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    spread_count = builder.shuffle_vector(whole, ir.Constant(INTEGERS, ir.Undefined), zeros)
    return builder.icmp_signed("<", lanes, spread_count)


def load_first(builder: Any, place: Any, count: Any) -> Any:
    """Load the first `count` numbers from a place, 0 in the other lanes; nothing behind them is read."""
    mask = _mask(builder, count)
    arguments = [VECTOR.as_pointer(), ir.IntType(32), mask.type, VECTOR]
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(VECTOR, arguments), f"llvm.masked.load.v{LANES}f64.p0"
    )
    return builder.call(
        function, [place, ir.IntType(32)(ALIGNMENT), mask, ir.Constant(VECTOR, [0.0] * LANES)]
    )


def store_first(builder: Any, value: Any, place: Any, count: Any) -> None:
    """Store the first `count` lanes to a place; nothing behind them is written.

    A masked store takes some processors ten times as long as a plain one: for what is not whole only.
    """
    is_whole = builder.icmp_signed(">=", count, count.type(LANES))
    with builder.if_else(is_whole) as (whole, partly):
        with whole:
            builder.store(value, place, align=ALIGNMENT)
        with partly:
            _store_masked(builder, value, place, count)


def _store_masked(builder: Any, value: Any, place: Any, count: Any) -> None:
    mask = _mask(builder, count)
    arguments = [VECTOR, VECTOR.as_pointer(), ir.IntType(32), mask.type]
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), arguments), f"llvm.masked.store.v{LANES}f64.p0"
    )
    builder.call(function, [value, place, ir.IntType(32)(ALIGNMENT), mask])


def transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose LANES registers: entry j of register i becomes entry i of register j.

    Blocks of 1, 2 and 4 lanes are exchanged between registers that are as far apart (Eklundh 1972).
    """
    step = 1
    while step < LANES:
        keeps = [i if not i & step else i - step + LANES for i in range(LANES)]
        takes = [place + step for place in keeps]
        found = list(rows)
        for i in range(LANES):
            if not i & step:
                for target, chosen in ((i, keeps), (i + step, takes)):
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), chosen)
                    found[target] = builder.shuffle_vector(rows[i], rows[i + step], mask)
        rows, step = found, 2 * step
    return rows


def _run(builder: Any, starts: Any, lengths: Any, lane: int, t: Any) -> tuple[Any, Any]:
    """Return starts[lane] + t and lengths[lane] - t."""
    start, length = (builder.load(builder.gep(array.data, [t.type(lane)])) for array in (starts, lengths))
    return builder.add(start, t), builder.sub(length, t)


@intrinsic
def interleave_block(typing: Any, numbers: Any, starts: Any, lengths: Any, origin: Any, t: Any, out: Any, place: Any,
                     stride: Any) -> Any:  # fmt: skip
    """Write out[place + i stride + lane] = numbers[origin + starts[lane] + t + i], 0 from lengths[lane] on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, starts, lengths, out = (array_at(context, builder, signature, args, i) for i in (0, 1, 2, 5))
        origin, t, place, stride = (args[i] for i in (3, 4, 6, 7))
        rows = []
        for lane in range(LANES):
            at, count = _run(builder, starts, lengths, lane, t)
            rows.append(load_first(builder, _place(builder, numbers, builder.add(origin, at)), count))
        for i, row in enumerate(transposed(builder, rows)):
            at = builder.add(place, builder.mul(stride, stride.type(i)))
            builder.store(row, _place(builder, out, at), align=ALIGNMENT)
        return context.get_dummy_value()

    size = types.intp
    return types.void(numbers, starts, lengths, size, size, out, size, size), generate


@intrinsic
def separate_block(typing: Any, numbers: Any, place: Any, stride: Any, starts: Any, lengths: Any, origin: Any, t: Any,
                   out: Any) -> Any:  # fmt: skip
    """Write out[origin + starts[lane] + t + i] = numbers[place + i stride + lane], t + i < lengths[lane]; i < LANES."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, starts, lengths, out = (array_at(context, builder, signature, args, i) for i in (0, 3, 4, 7))
        place, stride, origin, t = (args[i] for i in (1, 2, 5, 6))
        rows = []
        for i in range(LANES):
            at = builder.add(place, builder.mul(stride, stride.type(i)))
            rows.append(builder.load(_place(builder, numbers, at), align=ALIGNMENT))
        for lane, row in enumerate(transposed(builder, rows)):
            at, count = _run(builder, starts, lengths, lane, t)
            store_first(builder, row, _place(builder, out, builder.add(origin, at)), count)
        return context.get_dummy_value()

    size = types.intp
    return types.void(numbers, size, size, starts, lengths, size, size, out), generate


def _outer(n_rows: int, n_columns: int) -> Any:
    """Make an intrinsic that adds the products of n_rows registers and n_columns others over some positions."""

    @intrinsic
    def add_outer(typing: Any, out: Any, place: Any, a: Any, first_a: Any, b: Any, first_b: Any, stride: Any,
                  n: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            out, a, b = (array_at(context, builder, signature, args, i) for i in (0, 2, 4))
            place, first_a, first_b, stride, n = (args[i] for i in (1, 3, 5, 6, 7))
            size = stride.type

            def registers_at(array: Any, at: Any, count: int) -> list[Any]:
                return [_place(builder, array, builder.add(at, size(i * LANES))) for i in range(count)]

            targets = [
                target
                for i in range(n_rows)
                for target in registers_at(out, builder.add(place, builder.mul(stride, size(i))), n_columns)
            ]
            cells = [cgutils.alloca_once_value(builder, builder.load(at, align=ALIGNMENT)) for at in targets]
            with cgutils.for_range(builder, n) as loop:
                shift = builder.mul(loop.index, stride)
                rows, columns = (
                    [
                        builder.load(at, align=ALIGNMENT)
                        for at in registers_at(array, builder.add(first, shift), count)
                    ]
                    for array, first, count in ((a, first_a, n_rows), (b, first_b, n_columns))
                )
                for i, row in enumerate(rows):
                    for j, column in enumerate(columns):
                        cell = cells[i * n_columns + j]
                        product = builder.fmul(row, column, CONTRACT)
                        builder.store(builder.fadd(builder.load(cell), product, CONTRACT), cell)
            for at, cell in zip(targets, cells, strict=True):
                builder.store(builder.load(cell), at, align=ALIGNMENT)
            return context.get_dummy_value()

        size = types.intp
        return types.void(out, size, a, size, b, size, size, size), generate

    return add_outer


add_outer_4_2 = _outer(4, 2)
