"""Messages: short forms of values, with their type and without control characters, and the stream for messages."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

# C0, DEL and C1; the separators of lines and paragraphs; embeddings, overrides and isolates of direction.
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


# Characters of a message: enough for what was expected (at its beginning) and what to do (at its end).
MAX_MESSAGE_LENGTH, KEPT_BEGINNING, KEPT_END = 1_500, 1_000, 400


def describe(value: Any) -> str:
    """Return a value as text with its type, "None" for None."""
    return "None" if value is None else f"{shorten(value)} of type {type(value).__name__}"


def shorten(value: Any) -> str:
    """Return the representation of a value, cut to 60 characters."""
    is_long = isinstance(value, int) and abs(value) >= 10**40
    text = "an integer of 40 digits or more" if is_long else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def hint(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean NAME?" with the known name that is most similar to a text, or "" if none is similar."""
    import difflib  # which takes milliseconds that labelling does not need

    names = {each.lower(): each for each in map(str, known)}
    close = difflib.get_close_matches(str(name).lower(), names, n=1)
    return f"; did you mean {names[close[0]]}?" if close else ""


# Returns the place of an item, or of one of its positions, in words.
Where = Callable[[int, int | None], str]


def numbered(item: int, position: int | None = None) -> str:
    """Return the numbers of an item and of a position in it, `item 3, position 7` (both from 0)."""
    return f"item {item}" if position is None else f"item {item}, position {position}"


TRAINING_PART, VALIDATION_PART = "training", "validation"  # parts of the data of a training
# How messages name the items of each part; the part at hand is that of TRAINING_PART.
_places: ContextVar[Mapping[str, Where]] = ContextVar("_places", default={})  # noqa: B039


def place_of(item: int, position: int | None = None) -> str:
    """Return the place of an item, or of one of its positions: by number, or as set by `named_places`."""
    return _places.get().get(TRAINING_PART, numbered)(int(item), None if position is None else int(position))


@contextmanager
def named_places(where: Where | None, validation: Where | None = None) -> Iterator[None]:
    """Let `place_of` name the items of the data that are at hand, and those of a training's validation part, by other
    functions than their numbers; None: by numbers. A `with` must not contain a `yield`, whose caller would use them."""
    parts = {TRAINING_PART: where, VALIDATION_PART: validation}
    token = _places.set({part: place for part, place in parts.items() if place is not None})
    try:
        yield
    finally:
        _places.reset(token)


def places_among(items: Any, where: Where | None = None) -> Where:
    """Return the places of a selection, whose item i is the one of number items[i] of all; `where` are the places of
    all, by default those of the data at hand."""
    of_all = where or _places.get().get(TRAINING_PART, numbered)
    return lambda item, position: of_all(int(items[item]), position)


def validation_places() -> Where:
    """Return the places of the validation part of the training at hand."""
    return _places.get().get(
        VALIDATION_PART, lambda item, position: f"{VALIDATION_PART}: {numbered(item, position)}"
    )


def printable(text: Any) -> str:
    r"""Return the text with its control characters written out, `\x1b`, `\u2028`; other text stays as it is."""
    return CONTROL_CHARACTERS.sub(written_out, str(text))


def written_out(match: re.Match[str]) -> str:
    r"""Return a control character of a match as Python writes it, `\x1b`."""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def bounded(text: str) -> str:
    """Return a message without its middle if it is too long, for example if it quotes a line of the input."""
    if len(text) <= MAX_MESSAGE_LENGTH:
        return text
    n_left_out = len(text) - KEPT_BEGINNING - KEPT_END
    return f"{text[:KEPT_BEGINNING]} ... ({n_left_out:,} characters left out) ... {text[-KEPT_END:]}"


class MessageStream:
    """`sys.stderr` for messages and displays. Text that cannot be written is dropped, so that no training ends if
    stderr is a pipe without a reader, on a full disk, closed, None (programs with windows), or an object of the program
    that lacks a method."""

    @property
    def encoding(self) -> str:
        """The encoding of stderr."""
        return getattr(sys.stderr, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write a text, if that can be done."""
        with suppress(Exception):
            try:
                sys.stderr.write(text)
            except UnicodeError:
                sys.stderr.write(text.encode("ascii", "backslashreplace").decode())
        return len(text)

    def flush(self) -> None:
        """Flush what was written, if that can be done."""
        with suppress(Exception):
            sys.stderr.flush()

    def isatty(self) -> bool:
        """Return whether stderr is a terminal."""
        with suppress(Exception):
            return sys.stderr.isatty()
        return False

    def fileno(self) -> int:
        """Return the number of stderr's file; OSError without one."""
        try:
            return sys.stderr.fileno()
        except (AttributeError, ValueError) as error:
            raise OSError("stderr is no file") from error


MESSAGES = MessageStream()


def tell(text: str) -> None:
    """Print a message to stderr, if it can be shown."""
    print(text, file=MESSAGES, flush=True)
