"""All code that depends on internals of numba and LLVM, so that a new version can only break this file.

    compilation   without garbage collection: saves a tenth of the time of a first fit
    linked code   no separate machine code for kernels that only kernels call: saves another tenth
    disk cache    machine code with a checksum, stale after any edit of a kernel: saves the compilation of later fits
    registers     vectors as values: forward-backward over lanes is 2 to 15 times as fast, exponentials 5 times
    sums of rows  a block of columns stays in registers for all rows: 2 to 6 times as fast, screening 1.5 times
    hinge rows    the same for slopes and updates of margins: 1.2 to 2.3 times as fast for up to 64 states
    threads       atomic numbers for barriers: row descent and group descent on more than one core

`tests/kernels/test_numba_internals.py` has a test of each and lists the versions that have been tried.
"""

import gc
import hashlib
import inspect
import operator
import os
import pickle
import warnings
from contextlib import suppress
from functools import cache, update_wrapper
from pathlib import Path

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
from numba.core.typed_passes import InlineOverloads
from numba.core.untyped_passes import InlineClosureLikes
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

# ---------------------------------------------------------------------------------------------------- Compilation


UNUSED_PASSES = {InlineClosureLikes, InlineOverloads}  # of numba: kernels have nothing that these change
ENTRY_PREFIX = "_ZN7cpython"  # of the names that numba gives to entries from Python


class KernelLibrary(JITCodeLibrary):
    """Code of a kernel. Numba optimises the linked code twice, the first time cheaply, so that counts of references
    meet and cancel out: kernels that count none do not need that. Nor do entries from Python need passes of their own.
    """

    counts_references = True

    def _optimize_functions(self, module):
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration and not function.name.startswith(ENTRY_PREFIX):
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self):
        if self.counts_references:
            super()._optimize_final_module()
        else:
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)


class KernelCompiler(Compiler):
    """Numba's compiler without passes that change nothing here, and without garbage collection, which would visit all
    objects repeatedly and free nothing."""

    code_class = KernelLibrary

    def define_pipelines(self):
        """Return numba's passes that are needed, which write to a library of this compiler's class."""
        codegen = self.state.targetctx.codegen()
        library = self.state["library"] = self.code_class(codegen, self.state.func_id.func_qualname)
        library.enable_object_caching()
        library.counts_references = self.state.flags.nrt
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [step for step in pipeline.passes if step[0] not in UNUSED_PASSES]
        return pipelines

    def compile_extra(self, function):
        """Compile the function and what it calls; numba's lock admits one thread at a time."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if was_enabled:
                gc.enable()


class NoEnvironment:
    """The code generator of a `LinkedLibrary`: it sets no environment, since Python does not enter such code."""

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, name, environment):
        """Ignore the environment."""


class LinkedLibrary(KernelLibrary):
    """Code of a function that only other kernels call: it is optimised and compiled as part of its callers."""

    @property
    def codegen(self):
        return NoEnvironment(self._codegen)

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        """Return 0: there is no function to call."""
        self._ensure_finalized()
        return 0


class LinkedCompiler(KernelCompiler):
    """The compiler of functions that only kernels call."""

    code_class = LinkedLibrary


# --------------------------------------------------------------------------------------------------- Cache on disk
# Numba's cache compares the date of a function's own file. But the code of a kernel contains the kernels that it calls,
# and files that are copied into a container image get new dates. Therefore this cache compares the content of all
# kernel files. Code that cannot be read is compiled again and replaced; code that cannot be written is used by this
# process only. Each of the two causes one warning a process.

CODE_FOLDER_VARIABLE = "CRFQN_CODE"  # environment variable with the path of a folder of machine code

_warned: set[str] = set()


def warn_once(message, details):
    """Warn of a fault of the cache, unless this process has done so."""
    if message not in _warned:
        _warned.add(message)
        with suppress(OSError, ValueError, AttributeError):  # of stderr
            warnings.warn(f"{message} ({details})", RuntimeWarning, stacklevel=4)


def warn_not_kept(error):
    """Warn once that machine code cannot be written to disk."""
    reason = (
        "compiled code cannot be written to disk, so every process compiles it again; set the environment variable "
        "NUMBA_CACHE_DIR to a folder that can be written"
    )
    if CODE_FOLDER_VARIABLE in os.environ:
        reason = (
            f"the folder of {CODE_FOLDER_VARIABLE} has no compiled code for this training, processor, numba or crfqn, "
            "and cannot be written, so every process compiles it again; `crfqn compile --to` fills a folder"
        )
    warn_once(reason, str(error))


class CarriedFolder(UserProvidedCacheLocator):
    """Folder of the environment variable CRFQN_CODE, for all users and installations; it may be read-only."""

    def __init__(self, function, path):
        super().__init__(function, path)
        self._cache_path = str(
            Path(os.environ[CODE_FOLDER_VARIABLE]).joinpath(*function.__module__.split(".")[1:-1])
        )

    @classmethod
    def from_function(cls, function, path):
        return cls(function, path) if os.environ.get(CODE_FOLDER_VARIABLE) else None


class KernelCode(CompileResultCacheImpl):
    """Machine code as numba stores it, in the folder of CRFQN_CODE if the variable is set."""

    _locator_classes = (CarriedFolder, *CompileResultCacheImpl._locator_classes)


class KernelFiles(IndexDataCacheFile):
    """Numba's index and machine code files of one function. The code has its owner and a checksum: after a full disk
    the index may be newer than the code."""

    def save(self, key, data):
        """Write the machine code of a signature and processor, without the environments of numba's own functions:
        loading these would import half of numba."""
        *code, _environments = data
        content = self._dump((self._source_stamp, key, (*code, ())))
        super().save(key, (hashlib.sha256(content).digest(), content))

    def load(self, key):
        """Return the machine code of a signature and processor, or None if there is none or it is damaged."""
        try:
            stored = super().load(key)
            if stored is None:
                return None
            digest, content = stored
            if hashlib.sha256(content).digest() != digest:
                raise ValueError("wrong checksum")
            *owner, data = pickle.loads(content)
        except Exception as error:  # damaged pickles raise anything
            return self._warn_damaged(error)
        return data if owner == [self._source_stamp, key] else None

    def _load_index(self):
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}  # written by another version of numba: obsolete, not damaged
        except Exception as error:
            self._warn_damaged(error)
            return {}

    def _warn_damaged(self, error):
        details = f"{self._cache_path}: {error or type(error).__name__}"
        warn_once("compiled code on disk cannot be read, so it is compiled again", details)


class KernelCache(FunctionCache):
    """Numba's cache of one function of this package, stale after a change of any kernel's source.

    The folder is the first that can be used of CRFQN_CODE, NUMBA_CACHE_DIR, the folder of the source and the user's
    cache folder; RuntimeError if none can be written.
    """

    _impl_class = KernelCode

    def __init__(self, function):
        super().__init__(function)
        folder = self._impl.locator.get_cache_path()
        self._cache_file = KernelFiles(folder, self._impl.filename_base, hash_of_kernels())

    def can_be_filled(self) -> bool:
        """Return whether there is no machine code yet, and the folder, or the first one above it that exists, can be
        written."""
        folder = Path(self._cache_path)
        above = next(path for path in (folder, *folder.parents) if path.exists())
        return os.access(above, os.W_OK) and not self._cache_file._load_index()

    def load_overload(self, sig, target_context):
        """Return the machine code of a signature, or None. Numba's own method first imports the modules of a
        compilation, for a third of a second in each process."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig, data):
        """Write machine code to disk; warn once if that fails."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_not_kept(error)


@cache
def hash_of_kernels() -> str:
    """Return the SHA-256 of the names and contents of all kernel files, those of solvers and papers included."""
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted([*folder.rglob("kernels/**/*.py"), *folder.rglob("*_kernels.py")]):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------ Vector registers
# The compiler must assume that two arrays overlap: it keeps sums in memory and often does not vectorise. A kernel that
# uses `Lanes` determines what stays in a register. a + b, a - b, a * b, a / b, `larger` and `smaller` act lane by lane,
# each rounded like a single number; a * b + c is contracted to one rounding if the processor can. On processors with
# shorter registers the compiler uses two or four of them. Numbers are float64, indices of arrays are in C order.

LANES = 8  # float64 numbers of a 512-bit register
DOUBLE, INTEGER, INT32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
VECTOR, INTEGERS = ir.VectorType(DOUBLE, LANES), ir.VectorType(INTEGER, LANES)
SHUFFLE_MASK = ir.VectorType(INT32, LANES)  # type of the numbers of lanes that a shuffle takes
ZEROS, ONES = (ir.Constant(VECTOR, [number] * LANES) for number in (0.0, 1.0))
ALIGNMENT = 8  # bytes of a float64: vectors may begin at any number of an array
CONTRACT_FLAGS, SUM_FLAGS = ("contract",), ("reassoc", "contract")
INDEX = types.intp


class LanesType(types.Opaque):
    """The type of LANES float64 numbers in one register."""


Lanes = LanesType("Lanes")


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """Lanes are an LLVM vector, passed by value."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, VECTOR)


OPERATOR_INSTRUCTIONS = {
    operator.add: "fadd",
    operator.sub: "fsub",
    operator.mul: "fmul",
    operator.truediv: "fdiv",
}
for _symbol in OPERATOR_INSTRUCTIONS:

    @type_callable(_symbol)
    def _type_of(context):
        return lambda a, b: Lanes if isinstance(a, LanesType) and isinstance(b, LanesType) else None

    @lower_builtin(_symbol, LanesType, LanesType)
    def _generate(context, builder, signature, args, emit=OPERATOR_INSTRUCTIONS[_symbol]):
        return getattr(builder, emit)(*args, flags=CONTRACT_FLAGS)


def instruction(result=types.void, **kinds):
    """Decorate emit(builder, *arguments), which writes LLVM instructions, so that kernels can call it.

    kinds : types of arguments by name; the others are arrays, which `emit` receives with the fields data and shape
    """

    def decorate(emit):
        signature = inspect.signature(emit)
        names = [*signature.parameters][1:]

        def generate(context, builder, call, args):
            values = [
                context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
                for kind, value in zip(call.args, args, strict=True)
            ]
            value = emit(builder, *values)
            return context.get_dummy_value() if result == types.void else value

        def definition(typing, *args):
            return result(*map(kinds.get, names, args)), generate

        update_wrapper(definition, emit).__signature__ = signature
        return intrinsic(definition)

    return decorate


def vectors_at(builder, array, start, n_vectors):
    """Return pointers to n_vectors neighbouring vectors from array[start] on."""
    places = [builder.add(start, start.type(i * LANES)) for i in range(n_vectors)]
    return [builder.bitcast(builder.gep(array.data, [place]), VECTOR.as_pointer()) for place in places]


def number_at(builder, array, index):
    """Return array[index]; integers are widened to 64 bits."""
    number = builder.load(builder.gep(array.data, [index]))
    is_narrow = isinstance(number.type, ir.IntType) and number.type.width < INTEGER.width
    return builder.zext(number, INTEGER) if is_narrow else number


def broadcast(builder, number, vector=VECTOR):
    """Return a vector with the number in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(SHUFFLE_MASK, None))


def call_llvm(builder, name, result, *arguments, **flags):
    """Call one of LLVM's own functions."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, **flags)


def cells_at(builder, places):
    """Return variables with the vectors at some pointers; the compiler keeps them in registers."""
    return [cgutils.alloca_once_value(builder, builder.load(place, align=ALIGNMENT)) for place in places]


def add_to_cells(builder, cells, vectors):
    """Add vectors to variables."""
    for cell, vector in zip(cells, vectors, strict=True):
        builder.store(builder.fadd(builder.load(cell), vector, CONTRACT_FLAGS), cell)


def store_cells(builder, cells, places):
    """Write variables to pointers."""
    for cell, place in zip(cells, places, strict=True):
        builder.store(builder.load(cell), place, align=ALIGNMENT)


@instruction(Lanes, index=INDEX)
def load_lanes(builder, numbers, index):
    """Return numbers[index] ... numbers[index + LANES - 1] of a float64 array."""
    return builder.load(vectors_at(builder, numbers, index, 1)[0], align=ALIGNMENT)


@instruction(index=INDEX, value=Lanes)
def store_lanes(builder, numbers, index, value):
    """Write a register to numbers[index] ..."""
    builder.store(value, vectors_at(builder, numbers, index, 1)[0], align=ALIGNMENT)


@instruction(Lanes, number=types.float64)
def spread(builder, number):
    """Return a register with the number in all lanes."""
    return broadcast(builder, number)


@instruction(Lanes, a=Lanes, b=Lanes)
def larger(builder, a, b):
    """Return the larger of two numbers, lane by lane; a if one of them is NaN."""
    return builder.select(builder.fcmp_ordered("<", a, b), b, a)


@instruction(Lanes, a=Lanes, b=Lanes)
def smaller(builder, a, b):
    """Return the smaller of two numbers, lane by lane; a if one of them is NaN."""
    return builder.select(builder.fcmp_ordered("<", b, a), b, a)


@instruction(Lanes, a=Lanes, b=Lanes)
def is_less(builder, a, b):
    """Return 1 if a < b, otherwise 0, lane by lane."""
    return builder.select(builder.fcmp_ordered("<", a, b), ONES, ZEROS)


def same(number):
    """Return a constant with an integer in all lanes."""
    return ir.Constant(INTEGERS, [number] * LANES)


@instruction(Lanes, a=Lanes, n=Lanes)
def shift_exponent(builder, a, n):
    """Return a * 2**n for an integer n stored as ROUNDING_SHIFT + n (`rows.py`), by adding to the bits of the
    exponents."""
    number, power = (builder.bitcast(value, INTEGERS) for value in (a, n))
    return builder.bitcast(builder.add(number, builder.shl(power, same(52))), VECTOR)


@instruction(Lanes, a=Lanes)
def mantissa(builder, a):
    """Return the mantissas of positive normal numbers, from 1 to 2."""
    digits = builder.and_(builder.bitcast(a, INTEGERS), same((1 << 52) - 1))
    return builder.bitcast(builder.or_(digits, same(1023 << 52)), VECTOR)


@instruction(Lanes, a=Lanes)
def exponent(builder, a):
    """Return the exponents of positive normal numbers: a = mantissa * 2**exponent."""
    bits = builder.lshr(builder.bitcast(a, INTEGERS), same(52))
    return builder.sitofp(builder.sub(bits, same(1023)), VECTOR)


# --------------------------------------------------------------------------------- Items into lanes, and out of them


def first_lanes(builder, count):
    """Return a mask of the first `count` lanes."""
    lanes = ir.Constant(INTEGERS, list(range(LANES)))
    return builder.icmp_signed("<", lanes, broadcast(builder, count, INTEGERS))


def transposed(builder, rows):
    """Transpose LANES registers, so that entry j of register i becomes entry i of register j: exchange blocks of 1, 2
    and 4 lanes between registers at the same distance (Eklundh 1972)."""
    step = 1
    while step < LANES:
        own = [i if not i & step else i - step + LANES for i in range(LANES)]
        other, exchanged = [place + step for place in own], list(rows)
        for i in range(LANES):
            if not i & step:
                for target, lanes in ((i, own), (i + step, other)):
                    pair = rows[i], rows[i + step]
                    exchanged[target] = builder.shuffle_vector(*pair, ir.Constant(SHUFFLE_MASK, lanes))
        rows, step = exchanged, 2 * step
    return rows


def run_of(builder, array, origin, runs, lane, t):
    """Return a pointer to array[origin + runs[0, lane] + t], and runs[1, lane] - t, the length of the rest.

    runs : int64 (2, LANES), the first position and the length of each lane's item
    """
    start, length = (number_at(builder, runs, t.type(place)) for place in (lane, LANES + lane))
    (place,) = vectors_at(builder, array, builder.add(origin, builder.add(start, t)), 1)
    return place, builder.sub(length, t)


@instruction(origin=INDEX, t=INDEX, place=INDEX, stride=INDEX)
def interleave_block(builder, numbers, runs, origin, t, out, place, stride):
    """Write out[place + i stride + lane] = numbers[origin + start + t + i], i < LANES, and 0 for t + i >= length;
    runs[:, lane] are start and length."""
    rows = []
    for lane in range(LANES):
        source, count = run_of(builder, numbers, origin, runs, lane, t)
        name = f"llvm.masked.load.v{LANES}f64.p0"  # does not read beyond the item's end
        mask = first_lanes(builder, count)
        rows.append(call_llvm(builder, name, VECTOR, source, INT32(ALIGNMENT), mask, ZEROS))
    for i, row in enumerate(transposed(builder, rows)):
        index = builder.add(place, builder.mul(stride, stride.type(i)))
        builder.store(row, vectors_at(builder, out, index, 1)[0], align=ALIGNMENT)


@instruction(place=INDEX, stride=INDEX, origin=INDEX, t=INDEX)
def separate_block(builder, numbers, place, stride, runs, origin, t, out):
    """Write out[origin + start + t + i] = numbers[place + i stride + lane] for i < LANES and t + i < length.

    Only stores at the end of an item are masked: on some processors a masked store takes ten times as long.
    """
    rows = []
    for i in range(LANES):
        index = builder.add(place, builder.mul(stride, stride.type(i)))
        rows.append(builder.load(vectors_at(builder, numbers, index, 1)[0], align=ALIGNMENT))
    for lane, row in enumerate(transposed(builder, rows)):
        target, count = run_of(builder, out, origin, runs, lane, t)
        with builder.if_else(builder.icmp_signed(">=", count, count.type(LANES))) as (whole, partly):
            with whole:
                builder.store(row, target, align=ALIGNMENT)
            with partly:
                name, mask = f"llvm.masked.store.v{LANES}f64.p0", first_lanes(builder, count)
                call_llvm(builder, name, ir.VoidType(), row, target, INT32(ALIGNMENT), mask)


@instruction(place=INDEX, first_a=INDEX, first_b=INDEX, stride=INDEX, n=INDEX)
def add_outer_4_2(builder, numbers, place, first_a, first_b, stride, n):
    """Add to 4 x 2 registers at `place` the products of 4 registers at first_a and 2 at first_b, summed over n
    positions that are `stride` numbers apart. All are in one array."""
    rows = [builder.add(place, builder.mul(stride, stride.type(i))) for i in range(4)]
    targets = [target for row in rows for target in vectors_at(builder, numbers, row, 2)]
    cells = cells_at(builder, targets)
    with cgutils.for_range(builder, n) as loop:
        shift = builder.mul(loop.index, stride)
        x, y = (
            [
                builder.load(at, align=ALIGNMENT)
                for at in vectors_at(builder, numbers, builder.add(first, shift), count)
            ]
            for first, count in ((first_a, 4), (first_b, 2))
        )
        add_to_cells(builder, cells, [builder.fmul(p, q, CONTRACT_FLAGS) for p in x for q in y])
    store_cells(builder, cells, targets)


# ---------------------------------------------------------------------------------------------------- Sums of rows
# A 32 x 32 product takes 50 ns; a plain loop takes 110 ns with four rows at a time, and 330 ns row by row. Sums of
# selected rows of 24 numbers take 2.5 to 4 ns a row, in plain loops 4 to 6 ns.


def rows_at(builder, matrix, row, column, n_registers):
    """Return pointers to n_registers vectors from matrix[row, column] on."""
    width = builder.extract_value(matrix.shape, 1)
    return vectors_at(builder, matrix, builder.add(builder.mul(row, width), column), n_registers)


def each_block(builder, width, emit):
    """Write a loop that calls emit(column, n) for blocks of n registers of columns: 4, and 3, 2 or 1 at the end."""
    block = INTEGER(4 * LANES)
    remainder = builder.srem(width, block)
    whole = builder.sub(width, remainder)
    with cgutils.for_range_slice(builder, INTEGER(0), whole, block, INTEGER) as (column, _):
        emit(column, 4)
    for n in (3, 2, 1):
        with builder.if_then(builder.icmp_signed("==", remainder, INTEGER(n * LANES))):
            emit(whole, n)


def sum_rows(builder, out, matrix, begin, end, row_of, weight_of):
    """Add weight_of(e) matrix[row_of(e)] to out for e = begin ... end - 1; without `weight_of` all weights are 1."""

    def add(column, n_registers):
        targets = vectors_at(builder, out, column, n_registers)
        cells = cells_at(builder, targets)
        with cgutils.for_range_slice(builder, begin, end, INTEGER(1), INTEGER) as (e, _):
            places = rows_at(builder, matrix, row_of(e), column, n_registers)
            numbers = [builder.load(place, align=ALIGNMENT) for place in places]
            if weight_of is not None:
                scale = broadcast(builder, weight_of(e))
                numbers = [builder.fmul(scale, value, CONTRACT_FLAGS) for value in numbers]
            add_to_cells(builder, cells, numbers)
        store_cells(builder, cells, targets)

    each_block(builder, builder.extract_value(out.shape, 0), add)


@instruction(begin=INDEX, end=INDEX, offset=INDEX, stride=INDEX)
def add_products(builder, out, matrix, begin, end, weights, offset, stride):
    """out += sum_e weights[offset + e * stride] matrix[e] over the rows e = begin ... end - 1; out : float64 (width,),
    matrix : float64 (rows, width), C order, width a multiple of LANES."""
    sum_rows(
        builder, out, matrix, begin, end, lambda e: e,
        lambda e: number_at(builder, weights, builder.add(offset, builder.mul(e, stride))),
    )  # fmt: skip


@instruction(begin=INDEX, end=INDEX)
def add_picked(builder, out, matrix, indices, begin, end, values):
    """out += sum_e values[e] matrix[indices[e]] over e = begin ... end - 1; values (0,) means that all are 1."""
    rows = out, matrix, begin, end, lambda e: number_at(builder, indices, e)
    n_values = builder.extract_value(values.shape, 0)
    with builder.if_else(builder.icmp_signed("==", n_values, INTEGER(0))) as (plain, weighted):
        with plain:
            sum_rows(builder, *rows, None)
        with weighted:
            sum_rows(builder, *rows, lambda e: number_at(builder, values, e))


# ------------------------------------------------------------------------------------------------------ Hinge rows
# The inner loops of row descent under the multiclass squared hinge. Margins are those of `margins.py`, float64
# (N, width), width a multiple of LANES. Entry e belongs to the position i = indices[e] and has the value
# x = values[e * stride]. Sums stay in registers for all entries; the change of the loss is summed across a register
# once, at the end. With 8 to 104 states and rows of 3 to 1,000 entries plain loops take 1.1 to 2.8 times as long for
# the slopes and 1.2 to 2.3 times for the update, but 0.8 to 1.1 times for rows of 3 entries and 64 states or more.


def total_of(builder, vectors):
    """Return the sum of all numbers in some vectors."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = builder.fadd(total, vector, SUM_FLAGS)
    return call_llvm(
        builder, f"llvm.vector.reduce.fadd.v{LANES}f64", DOUBLE, DOUBLE(0.0), total, fastmath=SUM_FLAGS
    )


def add_to_number(builder, array, index, number):
    """array.flat[index] += number."""
    target = builder.gep(array.data, [index])
    builder.store(builder.fadd(builder.load(target), number, CONTRACT_FLAGS), target)


def positive_part(builder, vector):
    """Return the mask of the positive lanes of a vector, and max(vector, 0)."""
    is_above = builder.fcmp_ordered(">", vector, ZEROS)
    return is_above, builder.select(is_above, vector, ZEROS)


@instruction(begin=INDEX, end=INDEX, stride=INDEX)
def hinge_slopes(builder, g, h, own, margins, indices, begin, end, values, stride, labels, weights):
    """Add c x max(a, 0) to g and c x^2 [a > 0] to h, (width,), a the margins and c the weight of a position; subtract
    the sum of the former over the states from own[0, y], and add the sum of the latter to own[1, y]."""
    width, bits = builder.extract_value(own.shape, 1), ir.IntType(LANES)

    def add(column, n_registers):
        targets = [vectors_at(builder, array, column, n_registers) for array in (g, h)]
        cells = [cells_at(builder, places) for places in targets]
        with cgutils.for_range_slice(builder, begin, end, INTEGER(1), INTEGER) as (e, _):
            i, x = number_at(builder, indices, e), number_at(builder, values, builder.mul(e, stride))
            first = builder.fmul(number_at(builder, weights, i), x)
            second = builder.fmul(first, x)
            sizes = [broadcast(builder, number) for number in (first, second)]
            slacks, n_violated = [], INTEGER(0)
            for r, place in enumerate(rows_at(builder, margins, i, column, n_registers)):
                is_above, slack = positive_part(builder, builder.load(place, align=ALIGNMENT))
                slacks.append(slack)
                slope = builder.fmul(sizes[0], slack, CONTRACT_FLAGS)
                add_to_cells(
                    builder, [cells[0][r], cells[1][r]], [slope, builder.select(is_above, sizes[1], ZEROS)]
                )
                count = call_llvm(builder, f"llvm.ctpop.i{LANES}", bits, builder.bitcast(is_above, bits))
                n_violated = builder.add(n_violated, builder.zext(count, INTEGER))
            y = number_at(builder, labels, i)
            add_to_number(builder, own, y, builder.fneg(builder.fmul(first, total_of(builder, slacks))))
            curvature = builder.fmul(second, builder.uitofp(n_violated, DOUBLE))
            add_to_number(builder, own, builder.add(width, y), curvature)
        for block, places in zip(cells, targets, strict=True):
            store_cells(builder, block, places)

    each_block(builder, width, add)


@instruction(types.float64, begin=INDEX, end=INDEX, stride=INDEX, step=types.float64)
def hinge_move(builder, d, margins, indices, begin, end, values, stride, labels, weights, step):
    """Add step x (d - d_y) to the margins; return the change of the loss."""
    total = cgutils.alloca_once_value(builder, DOUBLE(0.0))

    def move(column, n_registers):
        changes = [cgutils.alloca_once_value(builder, ZEROS) for _ in range(n_registers)]
        direction = [builder.load(at, align=ALIGNMENT) for at in vectors_at(builder, d, column, n_registers)]
        with cgutils.for_range_slice(builder, begin, end, INTEGER(1), INTEGER) as (e, _):
            i = number_at(builder, indices, e)
            x = builder.fmul(step, number_at(builder, values, builder.mul(e, stride)))
            size, weight = (broadcast(builder, number) for number in (x, number_at(builder, weights, i)))
            of_label = broadcast(builder, number_at(builder, d, number_at(builder, labels, i)))
            places = rows_at(builder, margins, i, column, n_registers)
            olds, rises = [builder.load(place, align=ALIGNMENT) for place in places], []
            for place, old, vector in zip(places, olds, direction, strict=True):
                change = builder.fmul(size, builder.fsub(vector, of_label), CONTRACT_FLAGS)
                new = builder.fadd(old, change, CONTRACT_FLAGS)
                builder.store(new, place, align=ALIGNMENT)
                before, after = (positive_part(builder, a)[1] for a in (old, new))
                squares = (builder.fmul(part, part, CONTRACT_FLAGS) for part in (after, before))
                rises.append(builder.fmul(weight, builder.fsub(*squares, CONTRACT_FLAGS), CONTRACT_FLAGS))
            add_to_cells(builder, changes, rises)
        rise = total_of(builder, [builder.load(change) for change in changes])
        builder.store(builder.fadd(builder.load(total), rise), total)

    each_block(builder, builder.extract_value(margins.shape, 1), move)
    return builder.load(total)


# ------------------------------------------------------------------------------------- Atomic numbers of threads


@instruction(types.int64, place=INDEX)
def load_acquire(builder, group, place):
    """Return group[place]; all that its writer has written before is visible afterwards."""
    return builder.load_atomic(builder.gep(group.data, [place]), "acquire", 8)


@instruction(place=INDEX, number=types.int64)
def store_release(builder, group, place, number):
    """group[place] = number; a thread that reads it sees all that this thread has written before."""
    builder.store_atomic(number, builder.gep(group.data, [place]), "release", 8)


@instruction(types.boolean, expected=types.int64, number=types.int64)
def exchange(builder, group, expected, number):
    """group[0] = number if group[0] == expected, in one atomic step; return whether it was."""
    return builder.extract_value(builder.cmpxchg(group.data, expected, number, "acq_rel", "acquire"), 1)
