"""Text results to standard output or to a file: a file is written as a whole, or not at all."""

import sys
from collections.abc import Iterable
from pathlib import Path

from crfqn.data.files.lines import STANDARD_INPUT
from crfqn.data.files.whole_file import replace_file
from crfqn.errors import InputError


def write_text(output: Path | None, parts: str | Iterable[str]) -> None:
    """Write text to a file; None and `-` are standard output.

    Raises
    ------
    ModelFileError, InputError
        It cannot be written; nothing has changed then.
    """
    parts = [parts] if isinstance(parts, str) else parts
    if output is None or str(output) == STANDARD_INPUT:
        sys.stdout.writelines(parts)
        return
    if output.exists() and not (output.is_file() or output.is_dir()):  # a pipe or a device
        try:
            with open(output, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.writelines(parts)
        except OSError as error:
            raise InputError(f"cannot write {output}: {error.strerror or error}") from error
        return
    replace_file(output, "".join(parts).encode("utf-8", "surrogateescape"))
