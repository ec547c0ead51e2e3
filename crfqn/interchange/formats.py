"""The formats of model files that crfqn reads and writes: one table, and `read`, `write` and `convert` over it.

Unless a format is named, the first bytes of a file determine the format for reading, its extension that for writing.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crfqn.atomic_write import StrPath
from crfqn.data.files import PACKINGS
from crfqn.data.model_file import HEADER_LIMIT, ModelSource, at_hand, read_whole, shown_source, start_of
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.storage import load
from crfqn.interchange import crfsuite, json_file, onnx_file
from crfqn.interchange.text_models import CRFPP_MAGIC, begins_like_wapiti, read_crfpp, read_wapiti
from crfqn.model.crfsuite_model import FILE_START

OWN_FORMAT = "crfqn"
N_SNIFFED_BYTES = 4096  # from which a format is recognised: the first line of a dump of Wapiti is shorter


def _is_own(start: bytes) -> bool:
    """Return whether a file begins like safetensors: the size of a header, and the header, a JSON object."""
    return int.from_bytes(start[:8], "little") <= HEADER_LIMIT and start[8:9] == b"{"


@dataclass(frozen=True)
class ModelFormat:
    """A format of model files.

    Attributes
    ----------
    name : str
    title : str, the tool that it belongs to
    suffixes : tuple of str, the extensions that select it for writing
    begins : callable or None: whether a file begins like one of the format
    read : callable or None: path or bytes, and options -> fitted estimator
    write : callable or None: model, path and options -> None
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    begins: Callable[[bytes], bool] | None = None
    read: Callable[..., Any] | None = None
    write: Callable[..., None] | None = None


FORMATS: dict[str, ModelFormat] = {
    row.name: row
    for row in (
        ModelFormat(
            OWN_FORMAT, "crfqn's model files", (".crfqn",), _is_own, load,
            lambda model, path, dtype="float64": model.save(path, getattr(model, "extra_", None), dtype),
        ),
        ModelFormat(
            crfsuite.FORMAT_NAME, "CRFsuite's binary models", (".crfsuite",),
            lambda start: start.startswith(FILE_START), crfsuite.read, crfsuite.write,
        ),
        ModelFormat(
            json_file.JSON_NAME, "JSON with all weights", (".json",),
            lambda start: start.lstrip().startswith(b"{"), json_file.read, json_file.write,
        ),
        ModelFormat(onnx_file.ONNX_NAME, "ONNX, of classifiers and chains", (".onnx",), write=onnx_file.write),
        ModelFormat("wapiti", "Wapiti's models and dumps", (".wapiti",), begins_like_wapiti, read_wapiti),
        ModelFormat(
            "crfpp", "CRF++'s text models", (".crfpp",), lambda start: start.startswith(CRFPP_MAGIC), read_crfpp
        ),
    )
}  # fmt: skip


def read(path: ModelSource, format: str | None = None, **options: Any) -> Estimator:
    """Read a model file of any format: return a fitted estimator.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode
        The model file.
    format : {"crfqn", "crfsuite", "wapiti", "crfpp", "json"}, optional
        By default determined by the first bytes of the file.
    **options
        Of the format: `n_columns` of wapiti and crfpp, the number of columns before the label in the files that the
        model is for; without it there may be more than its templates use.

    Raises
    ------
    InputError
        Another format or option.
    ModelFileError
        The file is incomplete, damaged or of another format; also a FileNotFoundError if there is none.
    """
    source = at_hand(path)
    entry = _named(format, "read") if format is not None else _recognised(source)
    return _checked(entry, "read", options)(source, **options)


def write(model: Estimator, path: StrPath, format: str | None = None, **options: Any) -> None:
    """Write a fitted estimator to a model file, atomically.

    Parameters
    ----------
    model : estimator
        "crfsuite" takes a ChainCRF, "onnx" a ChainCRF or a classifier, the others any.
    path : str or path-like
    format : {"crfqn", "crfsuite", "json", "onnx"}, optional
        By default determined by the extension: .crfqn, .crfsuite, .json, .onnx.
    **options
        Of the format: `dtype` of crfqn, json and onnx, `feature_names` and `lossy` of crfsuite, `input` of onnx.

    Raises
    ------
    InputError
        Another format or option, a model that the format cannot store.
    ModelFileError
        The path cannot be written.
    """
    entry = _named(format, "write") if format is not None else _by_suffix(path)
    _checked(entry, "write", options)(model, path, **options)


def convert(
    source: ModelSource,
    target: StrPath,
    source_format: str | None = None,
    target_format: str | None = None,
    *,
    n_columns: int | None = None,
    **options: Any,
) -> Estimator:
    """Read a model file and write it in another format; return the model. Parameters and errors as of both."""
    entry = _named(target_format, "write") if target_format is not None else _by_suffix(target)
    model = read(source, source_format, **({} if n_columns is None else {"n_columns": n_columns}))
    write(model, target, entry.name, **options)
    return model


def _checked(entry: ModelFormat, verb: str, options: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of a format that reads or writes; InputError for options that it does not have."""
    function: Callable[..., Any] = getattr(entry, verb)
    known = [*inspect.signature(function).parameters][1 if verb == "read" else 2 :]
    if unknown := sorted(set(options) - set(known)):
        expected = f"one of the options {known}" if known else "no option, as this format has none"
        raise InputError(f"{entry.name}: {unknown[0]}: expected {expected}")
    return function


def _named(name: str, verb: str) -> ModelFormat:
    """Return the format with this name if it can be read, or written."""
    entry = FORMATS.get(name) if isinstance(name, str) else None
    if entry is None or getattr(entry, verb) is None:
        known = [entry.name for entry in FORMATS.values() if getattr(entry, verb) is not None]
        raise InputError(f"format: expected one of {known} to {verb}, got {name!r}")
    return entry


def _recognised(source: StrPath | bytes) -> ModelFormat:
    """Return the format of a file by its first bytes or its name; crfqn's for one that is empty or cannot be read,
    whose reader raises the error; ModelFileError for others."""
    try:
        start = start_of(source, N_SNIFFED_BYTES)
    except (OSError, ValueError):
        start = b""
    if not start:
        return FORMATS[OWN_FORMAT]
    if any(start.startswith(packing.magic) for packing in PACKINGS) and not _is_own(start):
        start = read_whole(source)[:N_SNIFFED_BYTES]
    for entry in FORMATS.values():
        if entry.begins is not None and entry.begins(start):
            return entry
    suffix = Path(shown_source(source)).suffix
    named = next((entry for entry in FORMATS.values() if suffix in entry.suffixes), None)
    if named is not None and named.read is None:
        raise ModelFileError(f"{shown_source(source)}: {named.title} are written only")
    if named is None:
        known = ", ".join(entry.title for entry in FORMATS.values() if entry.read is not None)
        raise ModelFileError(f"{shown_source(source)}: expected one of {known}; it begins like none of them")
    return named


def _by_suffix(path: StrPath) -> ModelFormat:
    writable = [entry for entry in FORMATS.values() if entry.write is not None]
    for entry in writable:
        if Path(path).suffix in entry.suffixes:
            return entry
    known = ", ".join(entry.suffixes[0] for entry in writable)
    raise InputError(f"{os.fspath(path)}: expected one of the extensions {known}, or format=")
