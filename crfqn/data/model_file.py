"""Reading and writing of a trained model as one file: arrays, lists of strings and JSON metadata, never code.

The container is safetensors. Its header carries one text entry, `crfqn`: a JSON document with the format's
version, the kind of model, the metadata, the dtype and shape of every array and a sha256 over all of that and
the arrays' bytes. Every defect of a file raises a `ModelFileError` that names file and reason.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crfqn.atomic_write import StrPath, replace_file
from crfqn.data.files import check_regular, read_bytes, safe_size, safe_source, unpack
from crfqn.errors import DataError, DataUnavailableError, InputError, ModelFileError, ModelFileMissingError
from crfqn.messages import describe

FORMAT_VERSION = 1  # of the files that this version writes; a reader refuses later ones
HEADER_KEY = "crfqn"
HEADER_LIMIT = 100_000_000  # bytes; the limit of safetensors itself
# Extensions of formats that `convert` knows.
SUFFIXES_OF_OTHERS = (".crfsuite", ".json", ".onnx", ".wapiti", ".crfpp")
SUFFIXES_NEVER_WRITTEN = (".pkl", ".pickle", ".joblib", ".pmml")  # of other model files
# dtypes of both safetensors and numpy
INTEGER_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
STORED_DTYPES = frozenset(("bool", "float16", "float32", "float64", *INTEGER_DTYPES))
TEXT_SUFFIX, ENDS_SUFFIX = ".utf8", ".ends"
ModelSource = StrPath | bytes | bytearray | memoryview | BinaryIO


@dataclass(frozen=True)
class ModelFile:
    """Checked content of a model file: its kind ("chain-crf"), writable arrays in native byte order, lists of strings,
    JSON metadata, and the path that it was read from, for messages."""

    kind: str
    arrays: dict[str, NDArray[Any]]
    strings: dict[str, list[str]]
    metadata: dict[str, Any]
    path: str = ""

    def array(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Return the array `name`; ModelFileError if its dtype or shape (None: any length) differs."""
        if name not in self.arrays:
            raise ModelFileError(f"{self.path}: the model has no array {name!r}")
        array = self.arrays[name]
        fits = array.ndim == len(shape) and all(
            want is None or want == size for want, size in zip(shape, array.shape, strict=True)
        )
        if array.dtype != np.dtype(dtype) or not fits:
            raise ModelFileError(
                f"{self.path}: array {name!r} should be {dtype} of shape {shape}, "
                f"but it is {array.dtype} of shape {array.shape}"
            )
        return array

    def integers(self, name: str, shape: tuple[int | None, ...], below: int) -> NDArray[np.int64]:
        """Return integers 0 ... below - 1, stored in any width; otherwise raise ModelFileError."""
        array = self.arrays.get(name)
        dtype = "int64" if array is None or array.dtype.kind not in "iu" else array.dtype.name
        numbers = self.array(name, dtype, shape)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < below:
            raise ModelFileError(f"{self.path}: {name} is out of the range 0 ... {below - 1}")
        return numbers.astype(np.int64)

    def count(self, name: str, minimum: int = 0, maximum: int = 2**31 - 1) -> int:
        """Return the integer `name` of the metadata, or raise ModelFileError unless it is in minimum ... maximum."""
        number = self.metadata.get(name)
        if type(number) is not int or not minimum <= number <= maximum:
            raise ModelFileError(
                f"{self.path}: {name}: expected a whole number from {minimum} to {maximum}, got {describe(number)}"
            )
        return number

    def table(self, name: str) -> dict[str, Any]:
        """Return the table `name` of the metadata, or raise ModelFileError if it is none."""
        table = self.metadata.get(name)
        if not isinstance(table, dict):
            raise ModelFileError(f"{self.path}: {name}: expected a table, got {describe(table)}")
        return table

    @property
    def training(self) -> dict[str, Any]:
        """Settings of `crfqn train` for the data and their features: recipe, features, encoding, ...; {} without it."""
        return self.table("training") if "training" in self.metadata else {}

    def string_list(self, name: str) -> list[str]:
        """Return the list of strings `name`, or raise ModelFileError if there is none."""
        if name not in self.strings:
            raise ModelFileError(f"{self.path}: the model has no list of strings {name!r}")
        return self.strings[name]


def narrowed(numbers: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return nonnegative numbers in the narrowest unsigned type that can hold them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def check_model_name(path: StrPath) -> None:
    """Raise InputError for a model file named like another format, whose tools would refuse it."""
    name = os.path.basename(path)
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in SUFFIXES_NEVER_WRITTEN:
        raise InputError(
            f"{os.fspath(path)}: expected a name for crfqn's own model file, such as {stem}.crfqn, got the extension "
            "of a format that crfqn does not write"
        )
    if suffix.lower() in SUFFIXES_OF_OTHERS:
        raise InputError(
            f"{os.fspath(path)}: expected a name for crfqn's own model file, such as {stem}.crfqn, got the extension "
            f"of another format; save the model first, then `crfqn convert {stem}.crfqn {name}`, or in Python "
            "crfqn.interchange.write, makes a file of that format"
        )


def write_model(
    path: StrPath,
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    strings: Mapping[str, Sequence[str]],
    metadata: Mapping[str, Any],
) -> None:
    """Write a model file in one atomic step, following a symbolic link; numpy's numbers in `metadata` become JSON (NaN
    and infinity are kept).

    InputError for arrays of other than numbers and booleans, metadata that is not JSON, one name used twice, or the
    name of another format's file (`check_model_name`); ModelFileError if it cannot be written: no partial file remains,
    and an existing file is unchanged.
    """
    from safetensors.numpy import save

    check_model_name(path)
    tensors: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.name not in STORED_DTYPES:
            raise InputError(
                f"array {name!r} has dtype {array.dtype}; a model file stores {', '.join(sorted(STORED_DTYPES))}"
            )
        tensors[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    for name, values in strings.items():
        # surrogatepass: a name read from a badly decoded file must not cost a finished training
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        ends = narrowed(np.cumsum([0, *map(len, encoded)], dtype=np.int64)[1:])
        for key, array in ((name + TEXT_SUFFIX, text), (name + ENDS_SUFFIX, ends)):
            if key in tensors:
                raise InputError(f"the list of strings {name!r} needs the array name {key!r}, which is taken")
            tensors[key] = array
    document: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "metadata": plain_json(metadata),
        "arrays": {name: [array.dtype.name, list(array.shape)] for name, array in tensors.items()},
        "strings": sorted(strings),
    }
    document["sha256"] = _fingerprint(document, tensors)
    replace_file(path, save(tensors, {HEADER_KEY: json.dumps(document, sort_keys=True)}))


def at_hand(source: ModelSource) -> StrPath | bytes:
    """Return the path of a model file unchanged, or the content of one in memory: of bytes, or of a file that is open
    in binary mode; InputError for anything else."""
    if isinstance(source, (str, os.PathLike)):
        return source
    content = source.read() if hasattr(source, "read") else source
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InputError(
            "expected the path of a model file, its bytes, or a file open in binary mode, got "
            + describe(source)
        )
    return bytes(content)


def shown_source(source: StrPath | bytes) -> str:
    """Return the name of a model file in messages: its path, <bytes> for one in memory."""
    return "<bytes>" if isinstance(source, bytes) else os.fspath(source)


def start_of(source: StrPath | bytes, size: int) -> bytes:
    """Return the first bytes of a model file, none if there is no regular file."""
    if isinstance(source, bytes):
        return source[:size]
    if not os.path.isfile(source):  # opening a named pipe blocks until it has a writer
        return b""
    with open(source, "rb") as stream:
        return stream.read(size)


def read_model(source: ModelSource) -> ModelFile:
    """Read a model file, checked in a single pass; ModelFileError if it is missing, unreadable, truncated, damaged,
    foreign or of a newer format."""
    source = at_hand(source)
    shown = shown_source(source)
    try:
        # Before opening, since opening a named pipe blocks until it has a writer.
        if not isinstance(source, bytes) and not stat.S_ISREG(os.stat(shown).st_mode):
            raise ModelFileError(f"{shown}: not a file (a folder or a device); expected a crfqn model file")
        with BytesIO(source) if isinstance(source, bytes) else open(shown, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            document, content = _read_checked(stream, size)
        tensors = _load_tensors(document, content)
        strings = {name: _unpack_strings(name, tensors) for name in document["strings"]}
    except FileNotFoundError as error:
        raise ModelFileMissingError(f"{shown}: there is no such file") from error
    except OSError as error:
        raise ModelFileError(f"{shown}: cannot be read: {error.strerror or error}") from error
    except _Damage as damage:
        raise ModelFileError(f"{shown}: {damage}") from damage.__cause__
    return ModelFile(document["kind"], tensors, strings, document["metadata"], shown)


class _Damage(Exception):
    """Error with the reason why a file is not a usable model; the caller adds the path."""


def _unpack_strings(name: object, tensors: dict[str, NDArray[Any]]) -> list[str]:
    """Take the two arrays of a list of strings out of `tensors`."""
    if not isinstance(name, str) or not {name + TEXT_SUFFIX, name + ENDS_SUFFIX} <= tensors.keys():
        raise _Damage(f"the file is damaged: the list of strings {name!r} is missing")
    text, ends = tensors.pop(name + TEXT_SUFFIX), tensors.pop(name + ENDS_SUFFIX)
    sizes_fit = (
        text.dtype == np.uint8
        and ends.dtype.kind in "iu"
        and text.ndim == ends.ndim == 1
        and (ends[-1] if ends.size else 0) == text.size
        and bool(np.all(np.diff(ends.astype(np.int64), prepend=0) >= 0))
    )
    if not sizes_fit:
        raise _Damage(f"the list of strings {name!r} has impossible lengths")
    data = text.tobytes()
    starts = [0, *ends[:-1].tolist()] if ends.size else []
    if data.isascii():  # a character a byte
        characters = data.decode()
        return [characters[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
    try:
        return [
            data[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip(starts, ends.tolist(), strict=True)
        ]
    except UnicodeDecodeError as error:
        raise _Damage(f"the list of strings {name!r} is not UTF-8") from error


def plain_json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as JSON, numpy's scalars and arrays as numbers and lists; InputError for other types."""

    def plain(value: object) -> object:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        raise TypeError(f"a value of type {type(value).__name__} is not JSON")

    try:
        return json.loads(json.dumps(dict(metadata), default=plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the model's metadata cannot be written as JSON: {error}") from error


def null_for_nan(value: Any) -> Any:
    """Return JSON content with None for NaN and infinity, which JSON lacks."""
    if isinstance(value, dict):
        return {name: null_for_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [null_for_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _fingerprint(document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the sha256 over the document (without its own `sha256`) and the arrays' bytes, arrays in order of name."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(np.asarray(tensors[name], dtype=tensors[name].dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _read_checked(stream: BinaryIO, size: int) -> tuple[dict[str, Any], bytes]:
    """Read header, then content; a foreign file of any size is refused after its first bytes."""
    start = stream.read(8)
    if not start:
        raise _Damage("the file is empty")
    header_size = int.from_bytes(start, "little")
    if len(start) < 8 or header_size > HEADER_LIMIT:
        raise _Damage(
            "this is not a crfqn model file; `crfqn convert` turns those of other tools and JSON into one"
        )
    if header_size + 8 > size:
        raise _Damage(
            f"not a crfqn model file, or a truncated one: a header of {header_size} bytes in a file of {size}"
        )
    header_bytes = stream.read(header_size)
    header = _parse_json(header_bytes, "the header")
    entries = header.get("__metadata__")
    text = entries.get(HEADER_KEY) if isinstance(entries, dict) else None
    if not isinstance(text, str):
        raise _Damage(f"a safetensors file, but not a crfqn model (its header has no {HEADER_KEY!r} entry)")
    document = _parse_json(text, f"the header's {HEADER_KEY!r} entry")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise _Damage(f"the file is damaged: format version {version!r:.40}")
    if version > FORMAT_VERSION:
        raise _Damage(
            f"the file has format version {version}, newer than this crfqn reads "
            f"({FORMAT_VERSION}): upgrade crfqn"
        )
    fields = {"kind": str, "metadata": dict, "arrays": dict, "strings": list, "sha256": str}
    for field, expected in fields.items():
        if not isinstance(document.get(field), expected):
            raise _Damage(
                f"the file is damaged: the header's field {field!r} is missing or of the wrong type"
            )
    spans = [entry.get("data_offsets") for entry in header.values() if isinstance(entry, dict)]
    ends = [
        span[1] for span in spans if isinstance(span, list) and len(span) == 2 and isinstance(span[1], int)
    ]
    whole = 8 + header_size + max(ends, default=0)
    if size < whole:
        raise _Damage(f"the file is truncated: it has {size} bytes of {whole}")
    if size > whole:
        raise _Damage(f"the file is damaged: it has {size} bytes instead of {whole}")
    return document, start + header_bytes + stream.read()


def _parse_json(data: bytes | str, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _Damage(f"not a crfqn model file, or a damaged one: {what} is not JSON") from error
    if not isinstance(parsed, dict):
        raise _Damage(f"not a crfqn model file, or a damaged one: {what} is not a JSON object")
    return parsed


def _load_tensors(document: Mapping[str, Any], content: bytes) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        # copies: aligned, writable and independent of the file's buffer
        tensors = {name: np.array(array) for name, array in load(content).items()}
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise _Damage(f"the file is damaged: {error}") from error
    stored = {name: [array.dtype.name, list(array.shape)] for name, array in tensors.items()}
    listed = document["arrays"]
    if stored != listed:
        wrong = sorted(name for name in {*stored, *listed} if stored.get(name) != listed.get(name))
        name = wrong[0]
        raise _Damage(
            f"the file is damaged: array {name!r} is {stored.get(name, 'missing')}, "
            f"but the header lists {listed.get(name, 'none')}"
        )
    if _fingerprint(document, tensors) != document["sha256"]:
        raise _Damage("the file is damaged: its content does not match its checksum")
    return tensors


def read_whole(source: ModelSource) -> bytes:
    """Return the content of another tool's file, unpacked if it is compressed; ModelFileError if that fails."""
    source = at_hand(source)
    try:
        if isinstance(source, bytes):
            return unpack(source, shown_source(source), safe_size(len(source)))
        check_regular(os.fspath(source))
        return read_bytes(safe_source(os.fspath(source)))
    except DataUnavailableError as error:
        raise ModelFileMissingError(str(error)) from error
    except DataError as error:
        raise ModelFileError(str(error)) from error
