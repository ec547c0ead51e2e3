"""What the commands print and write: messages to stderr, results to stdout, or to a file as a whole or not at all.

Text of model files and data may come from anyone: control codes are shown, not obeyed. Escape sequences could move
the cursor, retitle the window or hide lines, line ends could forge lines, marks of direction could change the order.
"""

import codecs
import json
import os
import re
import stat
import sys
from collections.abc import Iterable
from glob import escape, glob
from pathlib import Path
from typing import Any

from crfqn.atomic_write import check_writable, replace_file
from crfqn.data.files import BYTES_ENCODING, STANDARD_INPUT, Source, pack
from crfqn.errors import InputError
from crfqn.messages import CONTROL, bounded, tell, written_out

CONTROL_BUT_LINES = re.compile(CONTROL.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def printable_lines(text: str) -> str:
    """Return a text with its control characters written out, but for line ends."""
    return CONTROL_BUT_LINES.sub(written_out, text)


def to_json(content: Any) -> str:
    """Return JSON that a terminal can show: control characters are escaped, NaN and infinity are null."""
    from crfqn.data.model_file import null_for_nan

    text = json.dumps(null_for_nan(content), indent=2, ensure_ascii=False, allow_nan=False)
    text = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates
    return CONTROL_BUT_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def say(message: str = "") -> None:
    """Print a message for the person at the terminal, to stderr, if it can be shown."""
    tell(printable_lines(bounded(message)))


class LostInputError(InputError):
    """An output that would replace an input."""


class CommandFiles:
    """The files that the running command reads and writes: no output replaces an input or another output.

    `begin` notes the files that the command line names, and commands note those of recipes, of models and of defaults.
    Links and other spellings of a name are the same file.
    """

    def __init__(self) -> None:
        self.named: tuple[list[str], list[Path]] = [], []  # inputs and outputs of the command line
        self._inputs: set[Any] = set()
        self._outputs: dict[Any, str] = {}

    def begin(self) -> None:
        """Forget the files of an earlier command and note those that the command line names; errors as of both."""
        self._inputs, self._outputs = set(), {}
        (inputs, outputs), self.named = self.named, ([], [])
        for output in outputs:
            self.write(output)
        self.read(inputs)

    def read(self, names: Iterable[str | Path]) -> None:
        """Note inputs, given as names, folders, patterns or `-`; names without a file are left to whoever reads them.
        InputError where one of them is an output."""
        for name in map(str, names):
            files = [name] if os.path.exists(name) or name == STANDARD_INPUT else glob(name, recursive=True)
            if os.path.isdir(name):
                files = glob(os.path.join(escape(name), "*"))
            for status in filter(None, map(_status, files)):
                identity = status.st_dev, status.st_ino
                if identity in self._outputs:
                    raise LostInputError(_lost(self._outputs[identity]))
                self._inputs.add(identity)

    def write(self, output: str | Path) -> None:
        """Note an output and check that it can be written. InputError where it is an input or another output,
        ModelFileError where it cannot be written."""
        self.claim(output)
        if str(output) != STANDARD_INPUT and (
            _status(output) or os.path.isdir(output) or not os.path.exists(output)
        ):
            check_writable(output)

    def claim(self, output: str | Path) -> None:
        """Note an output whose folder may be made later; InputError where it is an input or another output."""
        name, status = str(output), _status(output)
        if name == STANDARD_INPUT or (status is None and os.path.exists(output)):  # pipes, devices, folders
            return
        identity = os.path.realpath(output) if status is None else (status.st_dev, status.st_ino)
        if identity in self._inputs:
            raise LostInputError(_lost(name))
        if identity in self._outputs:
            raise InputError(
                f"{name}: expected a file for each output, got {self._outputs[identity]} for another one already"
            )
        self._outputs[identity] = name


command_files = CommandFiles()


def _lost(output: str) -> str:
    return f"{output}: expected a new file for the output, got an input, which would be lost"


def _status(name: str | Path) -> os.stat_result | None:
    """Return what the system knows of a regular file, `-` for the one that standard input comes from; None for
    others."""
    try:
        status = os.fstat(sys.stdin.fileno()) if str(name) == STANDARD_INPUT else os.stat(name)
    except (OSError, ValueError, AttributeError):  # no such file, no name of a file, no standard input
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def write_text(
    output: Path | None, parts: str | Iterable[str | bytes], encoding: str = BYTES_ENCODING
) -> None:
    """Write text in an encoding to a file, compressed as its name says, or part by part to standard output (None and
    `-`); a terminal has an encoding of its own."""
    parts = [parts] if isinstance(parts, str) else parts
    source = Source(None, encoding)
    if output is None or str(output) == STANDARD_INPUT:
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with -o")
        takes_bytes = hasattr(sys.stdout, "buffer") and not sys.stdout.isatty()
        for part in source.encoded(parts) if takes_bytes and source.codec != "utf-8" else parts:
            if isinstance(part, str):
                sys.stdout.write(part)
            else:
                sys.stdout.buffer.write(part)
            sys.stdout.flush()
        return
    pieces = source.encoded(parts)
    if not output.exists() or output.is_file() or output.is_dir():
        replace_file(
            output, (pack(piece, str(output)) for piece in pieces)
        )  # each allows for several streams
        return
    try:
        with open(output, "wb") as stream:  # a pipe or a device
            for piece in pieces:
                stream.write(piece)
                stream.flush()
    except BrokenPipeError:  # nobody reads on, which is no error
        raise
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error


BYTES_OR_NUMBERS = (
    "crfqn.bytes_or_numbers"  # the name of `_bytes_or_numbers` among Python's handlers of errors
)


def prepare_stdout() -> None:
    """Write UTF-8 into files and pipes whatever the system's locale is; bytes that are no UTF-8 are written as they
    were read, and shown by their numbers on a terminal, as other lone surrogates always are."""
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            codecs.register_error(BYTES_OR_NUMBERS, _bytes_or_numbers)
            sys.stdout.reconfigure(encoding="utf-8", errors=BYTES_OR_NUMBERS)


def _bytes_or_numbers(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.backslashreplace_errors(error)


def close_streams() -> None:
    """Flush stdout and stderr now, so that a reader who left changes neither the messages nor the code of the exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by the caller
            continue
        try:
            stream.flush()
        except OSError:  # a full disk has been reported by then
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
