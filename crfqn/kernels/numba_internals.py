"""Everything that leans on numba's insides, and on LLVM's: where numba moves, this file is what breaks.

    compilation   no collections of garbage meanwhile: a tenth of the time of a first fit
    linked code   kernels that only kernels call, without machine code of their own: a quarter of it
    disk cache    machine code that any edit of a kernel makes stale, whose damage is noticed: all of a second fit's
    registers     vectors as values: forward-backward over lanes 2 to 15 times as fast, exponentials 5
    sums of rows  a block of columns in registers while rows go by: 2 to 6 times, screening 1.5
    hinge rows    the same for slopes and moves of margins: 1.2 to 2.3 times up to 64 states
    threads       counts that threads watch at barriers: row descent and group descent on more than one core
    prefetching   a tenth of row descent

`tests/kernels/test_numba_internals.py` tries each by itself.
"""

import gc
import hashlib
import operator
import os
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

# ---------------------------------------------------------------------------------------------------- Compilation

NO_ENTRIES = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class KernelCompiler(Compiler):
    """Numba's compiler without the garbage collector, which would walk over all objects again and again in vain."""

    def compile_extra(self, function: Any) -> Any:
        """Compile the function, and what it calls; one thread at a time is here, as numba holds its lock."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if was_enabled:
                gc.enable()


class _NoEnvironment:
    """What a function without machine code has in the place of the compiler's engine: nothing to set up there."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Leave out the address of an object that only entries from Python read."""


class LinkedLibrary(JITCodeLibrary):
    """Optimised code of a function that only other kernels call, for these to link; no machine code is made of it."""

    @property
    def codegen(self) -> Any:
        """The code generator, without an engine."""
        return _NoEnvironment(self._codegen)

    def _optimize_final_module(self) -> None:
        """Leave the optimisation to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no function to call."""
        self._ensure_finalized()
        return 0


class LinkedCompiler(KernelCompiler):
    """The compiler of kernels, which leaves the code to the callers."""

    def define_pipelines(self) -> Any:
        """Return the passes, to be run with a `LinkedLibrary`."""
        name = self.state.func_id.func_qualname
        self.state["library"] = LinkedLibrary(self.state.targetctx.codegen(), name)
        return super().define_pipelines()


# --------------------------------------------------------------------------------------------------- Cache on disk
# Numba's own cache of a function only notices changes of the function's file, by its date. But a kernel's code holds
# that of the kernels that it calls, and constants of other files: an edit there has to compile it anew too. And dates
# change where files are copied, as into the image of a container, whose machine code would be lost. So content decides.
# The processor and the version of numba are in numba's own key. The cache is a convenience: what cannot be read is
# compiled anew and replaced, and what cannot be written stays with its process. Each is said once a process.

CARRIED = "CRFQN_CODE"  # the environment variable that names a folder of machine code

_said: set[str] = set()


def warn_once(what: str, details: str) -> None:
    """Warn of a fault of the cache, the first time in this process."""
    if what not in _said:
        _said.add(what)
        warnings.warn(f"{what} ({details})", RuntimeWarning, stacklevel=4)


def warn_not_kept(error: Exception) -> None:
    """Warn, once, that machine code cannot be written to disk."""
    if CARRIED in os.environ:
        reason = (
            f"the folder that {CARRIED} names lacks compiled code for this training, processor, numba or crfqn, and "
            "cannot be written, so every process compiles anew; `crfqn compile --to` fills a folder"
        )
    else:
        reason = (
            "compiled code cannot be kept, so every process compiles anew; name a folder that can be written in the "
            "environment variable NUMBA_CACHE_DIR"
        )
    warn_once(reason, str(error))


class CarriedFolder(UserProvidedCacheLocator):
    """The folder that the environment names, as an image of a container carries one: for any user, wherever the package
    is installed, and to be read where it cannot be written."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        super().__init__(function, path)
        self._cache_path = str(Path(os.environ[CARRIED]).joinpath(*function.__module__.split(".")[1:-1]))

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> Any:
        """Return where code of a function is, or None where the environment names no folder."""
        return cls(function, path) if os.environ.get(CARRIED) else None


class KernelCode(CompileResultCacheImpl):
    """Machine code as numba stores it, in a carried folder if there is one."""

    _locator_classes = (CarriedFolder, *CompileResultCacheImpl._locator_classes)


class KernelFiles(IndexDataCacheFile):
    """Numba's files of one function, index and machine code, the latter with what it belongs to and a checksum: where
    the disk is full, an index may be new and the code that it names old."""

    def save(self, key: Any, data: Any) -> None:
        """Write the machine code `data` of a signature and processor, in the place of what was there: without the
        environments of numba's functions in it, for which loading would import half of numba."""
        *code, _environments = data
        content = self._dump((self._source_stamp, key, (*code, ())))
        super().save(key, (hashlib.sha256(content).digest(), content))

    def load(self, key: Any) -> Any:
        """Return the machine code of a signature and processor, or None where there is none that is sound."""
        try:
            found = super().load(key)
            if found is None:
                return None
            digest, content = found
            if hashlib.sha256(content).digest() != digest:
                raise ValueError("wrong checksum")
            *owner, data = pickle.loads(content)
        except Exception as error:  # to unpickle what is damaged raises anything
            return self._warn_damaged(error)
        return data if owner == [self._source_stamp, key] else None

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}  # of a version whose types stand elsewhere: obsolete, not damaged
        except Exception as error:
            self._warn_damaged(error)
            return {}  # as if obsolete: the next code that is kept replaces it

    def _warn_damaged(self, error: Exception) -> None:
        warn_once(
            "compiled code on disk cannot be read, so it is compiled anew",
            f"{self._cache_path}: {error or type(error).__name__}",
        )


class KernelCache(FunctionCache):
    """Numba's cache of one function of this package, stale once any kernel's source has changed. The folder: that of
    CRFQN_CODE, else NUMBA_CACHE_DIR, else beside the source, else the user's; RuntimeError if the last three cannot be
    written."""

    _impl_class = KernelCode

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = KernelFiles(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=hash_of_kernels(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code of a signature, or None. Numba's own way first loads all that a compilation may need,
        a third of a second in each process; what compiles does so for itself."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to disk; where that fails, warn once."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_not_kept(error)


@cache
def hash_of_kernels() -> str:
    """Return the SHA-256 of all kernels' source files, here and beside their solvers, with their names; read once."""
    folder, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted([*folder.rglob("kernels/**/*.py"), *folder.rglob("*_kernels.py")]):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


# ------------------------------------------------------------------------------------------------ Vector registers
# The compiler keeps what a loop stores in an array in memory, since it cannot know that no other array overlaps it, and
# often finds no vector form. With `Lanes` a kernel says itself what stays in a register; a + b, a - b, a * b, a / b,
# `larger` and `smaller` act lane by lane, and every lane is rounded as a lone number would be; a * b + c is contracted
# to one rounding where the processor can. On processors with shorter registers the compiler takes two or four of them.
# Numbers are float64. The places of an array are counted in C order.

LANES = 8
DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)
VECTOR, INTEGERS = ir.VectorType(DOUBLE, LANES), ir.VectorType(INTEGER, LANES)
CHOICE = ir.VectorType(ir.IntType(32), LANES)  # of lanes that a shuffle takes
ZEROS, ONES = (ir.Constant(VECTOR, [number] * LANES) for number in (0.0, 1.0))
ALIGNMENT = 8  # bytes: rows start at any number
CONTRACT = ("contract",)  # multiply and add in one instruction
SUM = ("reassoc", "contract")
AHEAD = 8  # entries from a prefetch to its use: the time goes into waiting for margins, not into reading them
INDEX = types.intp


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


def arrays_at(context: Any, builder: Any, signature: Any, args: Any, *places: int) -> list[Any]:
    """Return the arguments of some numbers, arrays, with their fields (data, shape) within reach."""
    return [context.make_array(signature.args[place])(context, builder, args[place]) for place in places]


def _vector_at(builder: Any, array: Any, index: Any) -> Any:
    """Return a pointer to the vector from array[index] on."""
    return builder.bitcast(builder.gep(array.data, [index]), VECTOR.as_pointer())


def _vectors_at(builder: Any, array: Any, start: Any, n_vectors: int) -> list[Any]:
    """Return pointers to n_vectors neighbouring vectors from array[start] on."""
    return [_vector_at(builder, array, builder.add(start, start.type(i * LANES))) for i in range(n_vectors)]


def _load(builder: Any, place: Any) -> Any:
    return builder.load(place, align=ALIGNMENT)


def _number_at(builder: Any, array: Any, place: Any) -> Any:
    """Return array[place], integers widened to 64 bits."""
    number = builder.load(builder.gep(array.data, [place]))
    is_narrow = isinstance(number.type, ir.IntType) and number.type.width < INTEGER.width
    return builder.zext(number, INTEGER) if is_narrow else number


def _broadcast(builder: Any, number: Any, vector: Any = VECTOR) -> Any:
    """Return a vector that has the number in all lanes."""
    nothing = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(single, nothing, ir.Constant(CHOICE, None))


def _call(builder: Any, name: str, result: Any, *arguments: Any, **flags: Any) -> Any:
    """Call one of LLVM's intrinsics."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, **flags)


def _add_to_cells(builder: Any, cells: list[Any], vectors: list[Any]) -> None:
    """Add vectors to cells, which the compiler keeps in registers."""
    for cell, vector in zip(cells, vectors, strict=True):
        builder.store(builder.fadd(builder.load(cell), vector, CONTRACT), cell)


def _cells_at(builder: Any, places: list[Any]) -> list[Any]:
    """Return cells that begin with the vectors at some places."""
    return [cgutils.alloca_once_value(builder, _load(builder, place)) for place in places]


def _store_cells(builder: Any, cells: list[Any], places: list[Any]) -> None:
    for cell, place in zip(cells, places, strict=True):
        builder.store(builder.load(cell), place, align=ALIGNMENT)


@intrinsic
def load(typing: Any, numbers: Any, index: Any) -> Any:
    """Return numbers[index] ... numbers[index + LANES - 1] of a float64 array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (array,) = arrays_at(context, builder, signature, args, 0)
        return _load(builder, _vector_at(builder, array, args[1]))

    return Lanes(numbers, INDEX), generate


@intrinsic
def store(typing: Any, numbers: Any, index: Any, value: Any) -> Any:
    """Write a register to numbers[index] ..."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (array,) = arrays_at(context, builder, signature, args, 0)
        builder.store(args[2], _vector_at(builder, array, args[1]), align=ALIGNMENT)
        return context.get_dummy_value()

    return types.void(numbers, INDEX, Lanes), generate


@intrinsic
def spread(typing: Any, number: Any) -> Any:
    """Return a register that has the number in all lanes."""
    return Lanes(types.float64), lambda context, builder, signature, args: _broadcast(builder, args[0])


def _of_one(emit: Callable[[Any, Any], Any]) -> Any:
    """Make a function of a register."""

    @intrinsic
    def function(typing: Any, a: Any) -> Any:
        return Lanes(Lanes), lambda context, builder, signature, args: emit(builder, args[0])

    return function


def _of_two(emit: Callable[[Any, Any, Any], Any]) -> Any:
    """Make a function of two registers."""

    @intrinsic
    def function(typing: Any, a: Any, b: Any) -> Any:
        return Lanes(Lanes, Lanes), lambda context, builder, signature, args: emit(builder, *args)

    return function


def _less(builder: Any, a: Any, b: Any) -> Any:
    return builder.fcmp_ordered("<", a, b)


def _same(number: int) -> Any:
    return ir.Constant(INTEGERS, [number] * LANES)


def _shift_exponent(builder: Any, a: Any, n: Any) -> Any:
    number, power = (builder.bitcast(value, INTEGERS) for value in (a, n))
    return builder.bitcast(builder.add(number, builder.shl(power, _same(52))), VECTOR)


def _mantissa(builder: Any, a: Any) -> Any:
    kept = builder.and_(builder.bitcast(a, INTEGERS), _same((1 << 52) - 1))
    return builder.bitcast(builder.or_(kept, _same(1023 << 52)), VECTOR)


def _exponent(builder: Any, a: Any) -> Any:
    bits = builder.lshr(builder.bitcast(a, INTEGERS), _same(52))
    return builder.sitofp(builder.sub(bits, _same(1023)), VECTOR)


# The larger and the smaller of two numbers, lane by lane; a, where one of them is NaN.
larger = _of_two(lambda builder, a, b: builder.select(_less(builder, a, b), b, a))
smaller = _of_two(lambda builder, a, b: builder.select(_less(builder, b, a), b, a))
is_less = _of_two(
    lambda builder, a, b: builder.select(_less(builder, a, b), ONES, ZEROS)
)  # 1 where a < b, else 0
# a * 2**n, n an integer held as ROUND + n (`rows.py`), by adding to the exponents' bits.
shift_exponent = _of_two(_shift_exponent)
mantissa = _of_one(_mantissa)  # of positive normal numbers, within 1 ... 2
exponent = _of_one(_exponent)  # of positive normal numbers: a = mantissa * 2**exponent


# --------------------------------------------------------------------------------- Items into lanes, and out of them


def _first_lanes(builder: Any, count: Any) -> Any:
    """Return which lanes are below `count`."""
    lanes = ir.Constant(INTEGERS, list(range(LANES)))
    return builder.icmp_signed("<", lanes, _broadcast(builder, count, INTEGERS))


def _store_first(builder: Any, value: Any, place: Any, count: Any) -> None:
    """Store the first `count` lanes to a place, for what is not whole only: some processors take ten times as long for
    a masked store as for a plain one. Nothing behind them is written."""
    with builder.if_else(builder.icmp_signed(">=", count, count.type(LANES))) as (whole, partly):
        with whole:
            builder.store(value, place, align=ALIGNMENT)
        with partly:
            alignment, mask = ir.IntType(32)(ALIGNMENT), _first_lanes(builder, count)
            _call(builder, f"llvm.masked.store.v{LANES}f64.p0", ir.VoidType(), value, place, alignment, mask)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose LANES registers: entry j of register i becomes entry i of register j, by exchanging blocks of 1, 2 and
    4 lanes between registers that are as far apart (Eklundh 1972)."""
    step = 1
    while step < LANES:
        keeps = [i if not i & step else i - step + LANES for i in range(LANES)]
        takes = [place + step for place in keeps]
        found = list(rows)
        for i in range(LANES):
            if not i & step:
                for target, chosen in ((i, keeps), (i + step, takes)):
                    found[target] = builder.shuffle_vector(
                        rows[i], rows[i + step], ir.Constant(CHOICE, chosen)
                    )
        rows, step = found, 2 * step
    return rows


def _run_of(builder: Any, array: Any, origin: Any, starts: Any, lengths: Any, lane: int, t: Any) -> Any:
    """Return a pointer to array[origin + starts[lane] + t], and lengths[lane] - t."""
    start, length = (builder.load(builder.gep(each.data, [t.type(lane)])) for each in (starts, lengths))
    return _vector_at(builder, array, builder.add(origin, builder.add(start, t))), builder.sub(length, t)


@intrinsic
def interleave_block(typing: Any, numbers: Any, starts: Any, lengths: Any, origin: Any, t: Any, out: Any, place: Any,
                     stride: Any) -> Any:  # fmt: skip
    """Write out[place + i stride + lane] = numbers[origin + starts[lane] + t + i], 0 from lengths[lane] on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, starts, lengths, out = arrays_at(context, builder, signature, args, 0, 1, 2, 5)
        origin, t, place, stride = (args[i] for i in (3, 4, 6, 7))
        rows = []
        for lane in range(LANES):
            source, count = _run_of(builder, numbers, origin, starts, lengths, lane, t)
            alignment, mask = ir.IntType(32)(ALIGNMENT), _first_lanes(builder, count)
            name = f"llvm.masked.load.v{LANES}f64.p0"  # nothing behind the item's end is read
            rows.append(_call(builder, name, VECTOR, source, alignment, mask, ZEROS))
        for i, row in enumerate(_transposed(builder, rows)):
            at = builder.add(place, builder.mul(stride, stride.type(i)))
            builder.store(row, _vector_at(builder, out, at), align=ALIGNMENT)
        return context.get_dummy_value()

    return types.void(numbers, starts, lengths, INDEX, INDEX, out, INDEX, INDEX), generate


@intrinsic
def separate_block(typing: Any, numbers: Any, place: Any, stride: Any, starts: Any, lengths: Any, origin: Any, t: Any,
                   out: Any) -> Any:  # fmt: skip
    """Write out[origin + starts[lane] + t + i] = numbers[place + i stride + lane], t + i < lengths[lane]; i < LANES."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, starts, lengths, out = arrays_at(context, builder, signature, args, 0, 3, 4, 7)
        place, stride, origin, t = (args[i] for i in (1, 2, 5, 6))
        rows = []
        for i in range(LANES):
            at = builder.add(place, builder.mul(stride, stride.type(i)))
            rows.append(_load(builder, _vector_at(builder, numbers, at)))
        for lane, row in enumerate(_transposed(builder, rows)):
            target, count = _run_of(builder, out, origin, starts, lengths, lane, t)
            _store_first(builder, row, target, count)
        return context.get_dummy_value()

    return types.void(numbers, INDEX, INDEX, starts, lengths, INDEX, INDEX, out), generate


@intrinsic
def add_outer_4_2(typing: Any, out: Any, place: Any, a: Any, first_a: Any, b: Any, first_b: Any, stride: Any,
                  n: Any) -> Any:  # fmt: skip
    """Add the products of 4 registers of a and 2 of b over n positions, `stride` numbers apart, to 4 x 2 of out."""
    n_rows, n_columns = 4, 2

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, a, b = arrays_at(context, builder, signature, args, 0, 2, 4)
        place, first_a, first_b, stride, n = (args[i] for i in (1, 3, 5, 6, 7))
        rows = [builder.add(place, builder.mul(stride, stride.type(i))) for i in range(n_rows)]
        targets = [target for row in rows for target in _vectors_at(builder, out, row, n_columns)]
        cells = _cells_at(builder, targets)
        with cgutils.for_range(builder, n) as loop:
            shift = builder.mul(loop.index, stride)
            x, y = (
                [_load(builder, at) for at in _vectors_at(builder, array, builder.add(first, shift), count)]
                for array, first, count in ((a, first_a, n_rows), (b, first_b, n_columns))
            )
            _add_to_cells(builder, cells, [builder.fmul(p, q, CONTRACT) for p in x for q in y])
        _store_cells(builder, cells, targets)
        return context.get_dummy_value()

    return types.void(out, INDEX, a, INDEX, b, INDEX, INDEX, INDEX), generate


# ---------------------------------------------------------------------------------------------------- Sums of rows
# Compiled from plain loops a sum of rows is loaded and stored once a row, with a test for overlap before each. A
# 32 x 32 product takes 50 ns here, 110 ns in a plain loop over four rows at a time and 330 ns row by row; sums of 24
# numbers wide rows that are picked take 2.5 to 4 ns a row here, 4 to 6 ns in plain loops.


def _rows_at(builder: Any, matrix: Any, row: Any, column: Any, n_registers: int) -> list[Any]:
    """Return pointers to n_registers vectors from matrix[row, column] on."""
    width = builder.extract_value(matrix.shape, 1)
    return _vectors_at(builder, matrix, builder.add(builder.mul(row, width), column), n_registers)


def _each_block(builder: Any, width: Any, emit: Callable[[Any, int], None]) -> None:
    """Have emit(column, n) generate what is done with n registers of columns: 4 at a time, and what is left."""
    most = INTEGER(4 * LANES)
    rest = builder.srem(width, most)
    whole = builder.sub(width, rest)
    with cgutils.for_range_slice(builder, INTEGER(0), whole, most, INTEGER) as (column, _):
        emit(column, 4)
    for n in (3, 2, 1):
        with builder.if_then(builder.icmp_signed("==", rest, INTEGER(n * LANES))):
            emit(whole, n)


def _sum_rows(builder: Any, out: Any, matrix: Any, begin: Any, end: Any, row_of: Callable[[Any], Any],
              weight_of: Callable[[Any], Any] | None) -> None:  # fmt: skip
    """Add weight_of(e) matrix[row_of(e)] to out for e = begin ... end - 1; None: all weights are 1."""

    def add(column: Any, n_registers: int) -> None:
        targets = _vectors_at(builder, out, column, n_registers)
        cells = _cells_at(builder, targets)
        with cgutils.for_range_slice(builder, begin, end, INTEGER(1), INTEGER) as (e, _):
            places = _rows_at(builder, matrix, row_of(e), column, n_registers)
            numbers = [_load(builder, at) for at in places]
            if weight_of is not None:
                scale = _broadcast(builder, weight_of(e))
                numbers = [builder.fmul(scale, value, CONTRACT) for value in numbers]
            _add_to_cells(builder, cells, numbers)
        _store_cells(builder, cells, targets)

    _each_block(builder, builder.extract_value(out.shape, 0), add)


@intrinsic
def add_products(typing: Any, out: Any, matrix: Any, begin: Any, end: Any, weights: Any, offset: Any,
                 stride: Any) -> Any:  # fmt: skip
    """out += sum_e weights[offset + e * stride] matrix[e] over the rows e = begin ... end - 1; out : float64 (width,),
    matrix : float64 (rows, width), C order, width a multiple of LANES."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source, weight = arrays_at(context, builder, signature, args, 0, 1, 4)
        _, _, begin, end, _, offset, stride = args

        def weight_of(e: Any) -> Any:
            return _number_at(builder, weight, builder.add(offset, builder.mul(e, stride)))

        _sum_rows(builder, target, source, begin, end, lambda e: e, weight_of)
        return context.get_dummy_value()

    return types.void(out, matrix, INDEX, INDEX, weights, INDEX, INDEX), generate


@intrinsic
def add_picked(typing: Any, out: Any, matrix: Any, indices: Any, begin: Any, end: Any, values: Any) -> Any:
    """out += sum_e values[e] matrix[indices[e]] over e = begin ... end - 1; without values, (0,), all are 1."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source, chosen, value = arrays_at(context, builder, signature, args, 0, 1, 2, 5)
        rows = target, source, *args[3:5], lambda e: _number_at(builder, chosen, e)
        n_values = builder.extract_value(value.shape, 0)
        with builder.if_else(builder.icmp_signed("==", n_values, INTEGER(0))) as (plain, weighted):
            with plain:
                _sum_rows(builder, *rows, None)
            with weighted:
                _sum_rows(builder, *rows, lambda e: _number_at(builder, value, e))
        return context.get_dummy_value()

    return types.void(out, matrix, indices, INDEX, INDEX, values), generate


# ------------------------------------------------------------------------------------------------------ Hinge rows
# The innermost loops of row descent under the multiclass squared hinge: margins as in `margins.py`, float64 (N, width),
# width a multiple of LANES; an entry e belongs to the position i = indices[e] and has the value x = values[e * stride].
# Compiled from plain loops, the sums over the entries go to memory and back at every entry, and each has two horizontal
# sums. Here the sums stay in registers while all entries go by, and the change of the loss is summed across a register
# once, at the end. With 8 to 104 states and rows of 3 to 1,000 entries plain loops take 1.1 to 2.8 times as long for
# the slopes, and 1.2 to 2.3 times for the move, but 0.8 to 1.1 times where rows of 3 entries meet 64 states or more.


def _total_of(builder: Any, vectors: list[Any]) -> Any:
    """Return the sum of all numbers in some vectors."""
    together = vectors[0]
    for vector in vectors[1:]:
        together = builder.fadd(together, vector, SUM)
    name = f"llvm.vector.reduce.fadd.v{LANES}f64"
    return _call(builder, name, DOUBLE, DOUBLE(0.0), together, fastmath=SUM)


def _add_to_number(builder: Any, array: Any, place: Any, number: Any) -> None:
    """array.flat[place] += number."""
    target = builder.gep(array.data, [place])
    builder.store(builder.fadd(builder.load(target), number, CONTRACT), target)


def _positive_part(builder: Any, vector: Any) -> tuple[Any, Any]:
    """Return where a vector is above 0, as bits, and max(vector, 0)."""
    is_above = builder.fcmp_ordered(">", vector, ZEROS)
    return is_above, builder.select(is_above, vector, ZEROS)


@intrinsic
def hinge_slopes(typing: Any, g: Any, h: Any, own: Any, margins: Any, indices: Any, begin: Any, end: Any, values: Any,
                 stride: Any, labels: Any, weights: Any) -> Any:  # fmt: skip
    """Add c x max(a, 0) and c x^2 [a > 0] to g and h, (width,), c the weight, and subtract the sums over the states of
    the former from own[0, y], add those of the latter to own[1, y]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        g, h, own, margins, indices, values, labels, weights = arrays_at(
            context, builder, signature, args, 0, 1, 2, 3, 4, 7, 9, 10
        )
        begin, end, stride = (args[place] for place in (5, 6, 8))
        width, bits = builder.extract_value(own.shape, 1), ir.IntType(LANES)

        def add(column: Any, n_registers: int) -> None:
            targets = [_vectors_at(builder, array, column, n_registers) for array in (g, h)]
            cells = [_cells_at(builder, places) for places in targets]
            with cgutils.for_range_slice(builder, begin, end, INTEGER(1), INTEGER) as (e, _):
                i = _number_at(builder, indices, e)
                later = builder.add(e, INTEGER(AHEAD))
                later = builder.select(builder.icmp_signed("<", later, end), later, e)
                soon = _number_at(builder, indices, later)
                for place in _rows_at(builder, margins, soon, column, n_registers):
                    _request(builder, place, is_written=False)
                x = _number_at(builder, values, builder.mul(e, stride))
                first = builder.fmul(_number_at(builder, weights, i), x)
                second = builder.fmul(first, x)
                sizes = [_broadcast(builder, number) for number in (first, second)]
                slacks, n_violated = [], INTEGER(0)
                for r, place in enumerate(_rows_at(builder, margins, i, column, n_registers)):
                    is_above, slack = _positive_part(builder, _load(builder, place))
                    slacks.append(slack)
                    slope = builder.fmul(sizes[0], slack, CONTRACT)
                    bend = builder.select(is_above, sizes[1], ZEROS)
                    _add_to_cells(builder, [cells[0][r], cells[1][r]], [slope, bend])
                    count = _call(builder, f"llvm.ctpop.i{LANES}", bits, builder.bitcast(is_above, bits))
                    n_violated = builder.add(n_violated, builder.zext(count, INTEGER))
                y = _number_at(builder, labels, i)
                lost = builder.fneg(builder.fmul(first, _total_of(builder, slacks)))
                _add_to_number(builder, own, y, lost)
                gained = builder.fmul(second, builder.uitofp(n_violated, DOUBLE))
                _add_to_number(builder, own, builder.add(width, y), gained)
            for block, places in zip(cells, targets, strict=True):
                _store_cells(builder, block, places)

        _each_block(builder, width, add)
        return context.get_dummy_value()

    return types.void(g, h, own, margins, indices, INDEX, INDEX, values, INDEX, labels, weights), generate


@intrinsic
def hinge_move(typing: Any, d: Any, margins: Any, indices: Any, begin: Any, end: Any, values: Any, stride: Any,
               labels: Any, weights: Any, step: Any) -> Any:  # fmt: skip
    """Add step x (d - d_y) to the margins; returns the change of the loss."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        d, margins, indices, values, labels, weights = arrays_at(
            context, builder, signature, args, 0, 1, 2, 5, 7, 8
        )
        begin, end, stride, step = (args[place] for place in (3, 4, 6, 9))
        total = cgutils.alloca_once_value(builder, DOUBLE(0.0))

        def move(column: Any, n_registers: int) -> None:
            changes = [cgutils.alloca_once_value(builder, ZEROS) for _ in range(n_registers)]
            direction = [_load(builder, at) for at in _vectors_at(builder, d, column, n_registers)]
            with cgutils.for_range_slice(builder, begin, end, INTEGER(1), INTEGER) as (e, _):
                i = _number_at(builder, indices, e)
                x = builder.fmul(step, _number_at(builder, values, builder.mul(e, stride)))
                size, weight = (
                    _broadcast(builder, number) for number in (x, _number_at(builder, weights, i))
                )
                own = _broadcast(builder, _number_at(builder, d, _number_at(builder, labels, i)))
                rises = []
                places = _rows_at(builder, margins, i, column, n_registers)
                found = [_load(builder, place) for place in places]
                for place, old, vector in zip(places, found, direction, strict=True):
                    change = builder.fmul(size, builder.fsub(vector, own), CONTRACT)
                    new = builder.fadd(old, change, CONTRACT)
                    builder.store(new, place, align=ALIGNMENT)
                    before, after = (_positive_part(builder, a)[1] for a in (old, new))
                    squares = (builder.fmul(part, part, CONTRACT) for part in (after, before))
                    rises.append(builder.fmul(weight, builder.fsub(*squares, CONTRACT), CONTRACT))
                _add_to_cells(builder, changes, rises)
            rise = _total_of(builder, [builder.load(change) for change in changes])
            builder.store(builder.fadd(builder.load(total), rise), total)

        _each_block(builder, builder.extract_value(margins.shape, 1), move)
        return builder.load(total)

    arrays = (d, margins, indices, INDEX, INDEX, values, INDEX, labels, weights, types.float64)
    return types.float64(*arrays), generate


# ----------------------------------------------------------------------------------------------------- Prefetching


def _request(builder: Any, place: Any, is_written: bool) -> None:
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
        (source,) = arrays_at(context, builder, signature, args, 0)
        width = builder.extract_value(source.shape, 1)
        start = builder.mul(args[1], width)
        stop, line = builder.add(start, width), start.type(LANES)
        with cgutils.for_range_slice(builder, start, stop, line, start.type) as (e, _):
            _request(builder, builder.gep(source.data, [e]), is_written=True)
        return context.get_dummy_value()

    return types.void(matrix, INDEX), generate


# --------------------------------------------------------------------------------- Numbers that threads watch


def _place_in(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return a pointer to group[place]."""
    (group,) = arrays_at(context, builder, signature, args, 0)
    return builder.gep(group.data, [args[1]])


@intrinsic
def load_acquire(typing: Any, group: Any, place: Any) -> Any:
    """Return group[place]; what its writer had written before is visible from here on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place_in(context, builder, signature, args), "acquire", 8)

    return types.int64(group, INDEX), generate


@intrinsic
def store_release(typing: Any, group: Any, place: Any, number: Any) -> Any:
    """group[place] = number; who reads it sees all that this thread has written before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _place_in(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(group, INDEX, types.int64), generate


@intrinsic
def exchange(typing: Any, group: Any, expected: Any, number: Any) -> Any:
    """group[0] = number if it is as expected, in one atomic step; returns whether it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (array,) = arrays_at(context, builder, signature, args, 0)
        pair = builder.cmpxchg(array.data, args[1], args[2], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(group, types.int64, types.int64), generate
