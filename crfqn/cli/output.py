"""Output of the commands: messages to stderr, results to stdout or, atomically, to a file.

Texts of model files and data may come from an attacker, so control characters are escaped. Escape sequences could move
the cursor, change the window's title or hide lines; line ends could add false lines; direction marks could change the
order in which a line is shown.
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
from typing import TypeAlias

from crfqn.atomic_write import check_writable, replace_file
from crfqn.data.files import BYTES_ENCODING, STANDARD_INPUT, Source, pack
from crfqn.errors import InputError
from crfqn.messages import CONTROL_CHARACTERS, bounded, tell, written_out

# Device and inode, or the real path of a file that does not exist yet.
FileIdentity: TypeAlias = tuple[int, int] | str
CONTROL_BUT_LINES = re.compile(CONTROL_CHARACTERS.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def printable_lines(text: str) -> str:
    """Return a text with its control characters escaped, except line ends."""
    return CONTROL_BUT_LINES.sub(written_out, text)


def to_json(content: object) -> str:
    """Return JSON that a terminal can show: control characters are escaped; NaN and infinity become null."""
    from crfqn.data.model_file import null_for_nan

    text = json.dumps(null_for_nan(content), indent=2, ensure_ascii=False, allow_nan=False)
    text = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates
    return CONTROL_BUT_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def say(message: str = "") -> None:
    """Print a message to stderr, if it can be written."""
    tell(printable_lines(bounded(message)))


class LostInputError(InputError):
    """Raised for an output that would replace an input."""


class CommandFiles:
    """Input and output files of the running command; an output may not replace an input or another output.

    `begin` registers the files of the command line; commands register those of recipes, models and defaults. Links and
    other spellings of a path are the same file.
    """

    def __init__(self) -> None:
        self.named: tuple[list[str], list[Path]] = [], []  # inputs and outputs on the command line
        self._inputs: set[FileIdentity] = set()
        self._outputs: dict[FileIdentity, str] = {}

    def begin(self) -> None:
        """Forget the files of an earlier command and register those of the command line."""
        self._inputs, self._outputs = set(), {}
        (inputs, outputs), self.named = self.named, ([], [])
        for output in outputs:
            self.write(output)
        self.read(inputs)

    def read(self, names: Iterable[str | Path]) -> None:
        """Register inputs: names, folders, patterns or `-`. Names of missing files are ignored.

        InputError if an input is an output.
        """
        for name in map(str, names):
            files = [name] if os.path.exists(name) or name == STANDARD_INPUT else glob(name, recursive=True)
            if os.path.isdir(name):
                files = glob(os.path.join(escape(name), "*"))
            for status in filter(None, map(_status, files)):
                identity = status.st_dev, status.st_ino
                if identity in self._outputs:
                    raise LostInputError(_lost_input(self._outputs[identity]))
                self._inputs.add(identity)

    def write(self, output: str | Path) -> None:
        """Register an output and check that it can be written.

        InputError if it is an input or another output, ModelFileError if it cannot be written.
        """
        self.claim(output)
        if str(output) != STANDARD_INPUT and (
            _status(output) or os.path.isdir(output) or not os.path.exists(output)
        ):
            check_writable(output)

    def claim(self, output: str | Path) -> None:
        """Register an output whose folder may not exist yet; InputError if it is an input or another output."""
        name, status = str(output), _status(output)
        if name == STANDARD_INPUT or (status is None and os.path.exists(output)):  # pipes, devices, folders
            return
        identity: FileIdentity = (
            os.path.realpath(output) if status is None else (status.st_dev, status.st_ino)
        )
        if identity in self._inputs:
            raise LostInputError(_lost_input(name))
        if identity in self._outputs:
            raise InputError(
                f"{name}: expected a file for each output, got {self._outputs[identity]} for another one already"
            )
        self._outputs[identity] = name


command_files = CommandFiles()


def _lost_input(output: str) -> str:
    return f"{output}: expected a new file for the output, got an input, which would be lost"


def _status(name: str | Path) -> os.stat_result | None:
    """Return the `stat` of a regular file, for `-` of the file that is standard input; None for other files."""
    try:
        status = os.fstat(sys.stdin.fileno()) if str(name) == STANDARD_INPUT else os.stat(name)
    except (OSError, ValueError, AttributeError):  # no such file, an invalid name, or no standard input
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def write_text(
    output: Path | None, parts: str | Iterable[str | bytes], encoding: str = BYTES_ENCODING
) -> None:
    """Write text in an encoding to a file, or part by part to standard output (None and `-`).

    The extension of the file's name determines the compression. Text for a terminal has the terminal's encoding.
    """
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
        # Compress each piece by itself: every format allows several streams in a file.
        replace_file(output, (pack(piece, str(output)) for piece in pieces))
        return
    try:
        with open(output, "wb") as stream:  # a pipe or a device
            for piece in pieces:
                stream.write(piece)
                stream.flush()
    except BrokenPipeError:  # not an error to report: the reader has closed the pipe
        raise
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error


BYTES_OR_NUMBERS = "crfqn.bytes_or_numbers"  # the name of `_bytes_or_numbers` as a codec error handler


def prepare_stdout() -> None:
    """Make stdout write UTF-8 to files and pipes in every locale.

    Bytes that are not UTF-8 are written unchanged. On a terminal they are escaped, as other lone surrogates always are.
    """
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            codecs.register_error(BYTES_OR_NUMBERS, _bytes_or_numbers)
            sys.stdout.reconfigure(encoding="utf-8", errors=BYTES_OR_NUMBERS)


def _bytes_or_numbers(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write the bytes that surrogateescape stands for; escape other characters as their numbers."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.backslashreplace_errors(error)


def close_streams() -> None:
    """Flush stdout and stderr, so that a closed pipe changes neither the messages nor the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by the caller
            continue
        try:
            stream.flush()
        except OSError:  # such as a full disk, which the failed write has reported
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
