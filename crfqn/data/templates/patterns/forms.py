"""Forms of words: what a template or a first tagger makes of the text of a column, such as its shape or its ending.

A form is computed once for each distinct text of a column; None is no feature.
"""

from __future__ import annotations

import re
from collections.abc import Callable

TRUE, FALSE = "true", "false"
KINDS = (("A-Z", "X"), ("a-z", "x"), ("0-9", "d"))  # of characters that `word_shape` keeps apart


def word_shape(word: str) -> str:
    """Return the kinds of a word's characters, runs of more than two cut to two: `Zeeland-1944` is `Xxx-dd`.

    Letters beyond a to z stay as they are.
    """
    for characters, kind in KINDS:
        word = re.sub(f"[{characters}]", kind, word)
    return re.sub(r"(.)\1{2,}", r"\1\1", word)


def _shape(text: str) -> str:
    """Return the kinds of a text's characters: X capital, x small, d digit, others as they are."""
    return "".join("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)


def _runs(text: str) -> str:
    """Return the shape with runs of one kind as one character."""
    return re.sub(r"(.)\1+", r"\1", _shape(text), flags=re.DOTALL)


def _affix(start: int | None, stop: int | None, length: int) -> Callable[[str], str | None]:
    """Return what cuts the affix of texts that are so long."""
    return lambda text: text[start:stop] if len(text) >= length else None


def _end(start: int | None, stop: int | None) -> Callable[[str], str]:
    """Return what cuts the first or last letters in small letters, all of them of a short text."""
    return lambda text: text.lower()[start:stop]


def _flag(test: Callable[[str], bool]) -> Callable[[str], str | None]:
    return lambda text: TRUE if test(text) else None


SHAPES: dict[str, Callable[[str], str | None]] = {
    "lower": str.lower,
    **{f"prefix{n}": _affix(None, n, n) for n in (1, 2, 3, 4)},
    **{f"suffix{n}": _affix(-n, None, n) for n in (1, 2, 3, 4)},
    "shape": _shape,
    "runs": _runs,
    "has-digit": _flag(lambda text: any(map(str.isdigit, text))),
    "has-hyphen": _flag(lambda text: "-" in text),
    "has-capital": _flag(lambda text: any(map(str.isupper, text))),
    "is-capitalized": _flag(lambda text: text[:1].isupper()),
    "is-upper": _flag(str.isupper),
    "is-number": _flag(lambda text: bool(re.fullmatch(r"[+-]?[0-9][0-9.,]*", text))),
    "is-punctuation": _flag(lambda text: bool(text) and not any(map(str.isalnum, text))),
}  # those that `word_shapes` takes together
FORMS = SHAPES | {
    **{f"first{n}": _end(None, n) for n in (2, 3)},
    **{f"last{n}": _end(-n, None) for n in (2, 3)},
    "short-shape": word_shape,
    "is-title": _flag(str.istitle),
    "is-digits": _flag(str.isdigit),
}
