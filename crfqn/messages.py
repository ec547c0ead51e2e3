"""Messages: short representations of values without control characters, places of items, and the message stream."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# C0, DEL and C1; the separators of lines and paragraphs; embeddings, overrides and isolates of direction.
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


# Characters of a message: enough for the expected value at its beginning and the advice at its end.
MAX_MESSAGE_LENGTH, KEPT_BEGINNING, KEPT_END = 1_500, 1_000, 400


def describe(value: object) -> str:
    """Return a value as text with its type, "None" for None."""
    return "None" if value is None else f"{shorten(value)} of type {type(value).__name__}"


def shorten(value: object) -> str:
    """Return the representation of a value, cut to 60 characters."""
    is_long = isinstance(value, int) and abs(value) >= 10**40
    text = "an integer of 40 digits or more" if is_long else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def hint(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean NAME?" with a known name that is similar to a text, or "" if none is similar."""
    import difflib  # imported here, as it takes milliseconds

    names = {each.lower(): each for each in map(str, known)}
    close = difflib.get_close_matches(str(name).lower(), names, n=1)
    return f"; did you mean {names[close[0]]}?" if close else ""


# Returns the place of an item, or of a position in it, in words.
Where = Callable[[int, int | None], str]


def numbered(item: int, position: int | None = None) -> str:
    """Return the place of an item, or of a position in it, by numbers from 0: `item 3, position 7`."""
    return f"item {item}" if position is None else f"item {item}, position {position}"


TRAINING_PART, VALIDATION_PART = "training", "validation"  # parts of the training data
# The functions that name the items of each part in messages; TRAINING_PART is also used for the data of predictions.
_places: ContextVar[Mapping[str, Where]] = ContextVar("_places", default={})  # noqa: B039


def place_of(item: int, position: int | None = None) -> str:
    """Return the place of an item, or of one of its positions: by number, or as set by `named_places`."""
    return _places.get().get(TRAINING_PART, numbered)(int(item), None if position is None else int(position))


@contextmanager
def named_places(where: Where | None, validation: Where | None = None) -> Iterator[None]:
    """Set the functions by which `place_of` and `validation_places` name items, None for their numbers.

    where, validation : for the current data, and for the validation part of a training

    The `with` block must not contain a `yield`, because the caller would use these functions, too.
    """
    parts = {TRAINING_PART: where, VALIDATION_PART: validation}
    token = _places.set({part: place for part, place in parts.items() if place is not None})
    try:
        yield
    finally:
        _places.reset(token)


def places_among(items: Sequence[int] | NDArray[np.integer], where: Where | None = None) -> Where:
    """Return the function that names the items of a selection, in which item i is item items[i] of all.

    where : names the items of all, by default those of the current data
    """
    of_all = where or _places.get().get(TRAINING_PART, numbered)
    return lambda item, position: of_all(int(items[item]), position)


def validation_places() -> Where:
    """Return the function that names the items of the validation part of the current training."""
    return _places.get().get(
        VALIDATION_PART, lambda item, position: f"{VALIDATION_PART}: {numbered(item, position)}"
    )


def printable(text: object) -> str:
    r"""Return the text with its control characters escaped, `\x1b`, `\u2028`."""
    return CONTROL_CHARACTERS.sub(written_out, str(text))


def written_out(match: re.Match[str]) -> str:
    r"""Return the escape sequence of a matched control character, `\x1b`."""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def bounded(text: str) -> str:
    """Return a message, without its middle if it is too long, as when it quotes a line of the input."""
    if len(text) <= MAX_MESSAGE_LENGTH:
        return text
    n_left_out = len(text) - KEPT_BEGINNING - KEPT_END
    return f"{text[:KEPT_BEGINNING]} ... ({n_left_out:,} characters left out) ... {text[-KEPT_END:]}"


class MessageStream:
    """`sys.stderr` for messages and displays; text that cannot be written is dropped.

    So a training does not fail if stderr is a pipe without a reader, on a full disk, closed, None (in programs with
    windows), or an object that lacks a method.
    """

    @property
    def encoding(self) -> str:
        """The encoding of stderr."""
        return getattr(sys.stderr, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write a text, if possible."""
        with suppress(Exception):
            try:
                sys.stderr.write(text)
            except UnicodeError:
                sys.stderr.write(text.encode("ascii", "backslashreplace").decode())
        return len(text)

    def flush(self) -> None:
        """Flush stderr, if possible."""
        with suppress(Exception):
            sys.stderr.flush()

    def isatty(self) -> bool:
        """Return whether stderr is a terminal."""
        with suppress(Exception):
            return sys.stderr.isatty()
        return False

    def fileno(self) -> int:
        """Return the file descriptor of stderr; OSError if there is none."""
        try:
            return sys.stderr.fileno()
        except (AttributeError, ValueError) as error:
            raise OSError("stderr is no file") from error


MESSAGES = MessageStream()


def tell(text: str) -> None:
    """Print a message to stderr, if possible."""
    print(text, file=MESSAGES, flush=True)
