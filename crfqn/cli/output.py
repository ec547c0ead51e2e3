"""Results to standard output or to a file: a file is written as a whole, or not at all."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from crfqn.atomic_write import replace_file
from crfqn.data.files.lines import STANDARD_INPUT
from crfqn.data.files.packing import pack
from crfqn.errors import InputError


def write_text(output: Path | None, parts: str | Iterable[str | bytes]) -> None:
    """Write text to a file, compressed as its name says, or part by part to standard output (None and `-`).

    Raises
    ------
    ModelFileError, InputError
        It cannot be written; a file has not changed then.
    """
    parts = [parts] if isinstance(parts, str) else parts
    if output is None or str(output) == STANDARD_INPUT:
        _print(parts)
        return
    pieces = map(_encoded, parts)
    if output.exists() and not (output.is_file() or output.is_dir()):  # a pipe or a device
        _feed(output, pieces)
        return
    replace_file(
        output, (pack(piece, str(output)) for piece in pieces)
    )  # each packing allows for several streams


def _encoded(part: str | bytes) -> bytes:
    return part if isinstance(part, bytes) else part.encode("utf-8", "surrogateescape")


def _print(parts: Iterable[str | bytes]) -> None:
    if sys.stdout is None:
        raise InputError("standard output is closed; name a file with -o")
    for part in parts:
        if isinstance(part, str):
            sys.stdout.write(part)
        else:
            sys.stdout.buffer.write(part)
        sys.stdout.flush()


def _feed(output: Path, pieces: Iterator[bytes]) -> None:
    try:
        with open(output, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
                stream.flush()
    except BrokenPipeError:  # nobody reads on, which is no error
        raise
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error
