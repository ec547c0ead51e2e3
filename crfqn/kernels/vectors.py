"""Eight numbers in a vector register, as a type for kernels: the arithmetic of one lane is that of all.

The compiler keeps what a loop stores in an array in memory, since it cannot know that no other array overlaps it, and
re-orders lanes as it likes. With `Lanes` a kernel says itself what stays in a register; a + b, a - b, a * b, a / b
and comparisons by `larger` and `smaller` act lane by lane, and every lane is rounded as a lone number would be. On
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
        return builder.select(_less(builder, *args), ir.Constant(VECTOR, [1.0] * LANES), ir.Constant(VECTOR, [0.0] * LANES))

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
