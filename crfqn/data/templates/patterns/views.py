r"""Views of a column: the text itself, a regular expression's result on it, or a part of a word's form.

A view is computed once for each distinct text of a column. Wapiti's regular expressions are a small language of
their own, which becomes one of Python's: `.` any character, `\a` letter, `\d` digit, `\l` small and `\u` capital
letter, `\w` letter or digit, `\p` punctuation, `\s` space, capitals of these for all others, `^` and `$`, `*` and
`?` behind a character.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from crfqn.data.templates.patterns.forms import FALSE, FORMS, TRUE
from crfqn.errors import InputError
from crfqn.wording import shorten

TEXT, TEST, MATCH = "x", "t", "m"
PUNCTUATION = r"!-/:-@\[-`{-~"
CLASSES = {
    "a": "a-zA-Z",
    "d": "0-9",
    "l": "a-z",
    "u": "A-Z",
    "w": "a-zA-Z0-9",
    "p": PUNCTUATION,
    "s": r" \t-\r",
}


class View(NamedTuple):
    """View of a column.

    Attributes
    ----------
    column : str
    kind : str
        "x", "t" (test), "m" (match), or a name out of `forms.FORMS`.
    expression : str
        Wapiti's regular expression, of "t" and "m".
    is_lower : bool
        Whether the result is put in small letters.
    """

    column: str
    kind: str = TEXT
    expression: str = ""
    is_lower: bool = False

    def function(self) -> Callable[[str], str | None]:
        """Return what makes the value of a text, None where there is no feature."""
        if self.kind in FORMS:
            return FORMS[self.kind]
        if self.kind == TEXT:
            return str.lower if self.is_lower else str
        search = translate(self.expression).search
        if self.kind == TEST:
            return lambda text: TRUE if search(text) else FALSE
        if self.is_lower:
            return lambda text: found[0].lower() if (found := search(text)) else ""
        return lambda text: found[0] if (found := search(text)) else ""


@lru_cache(maxsize=1000)
def translate(expression: str) -> re.Pattern[str]:
    """Return one of Wapiti's regular expressions as one of Python's; InputError for one that is malformed."""
    pieces: list[str] = []
    rest = expression
    if rest.startswith("^"):
        pieces.append(r"\A")
        rest = rest[1:]
    while rest:
        if rest == "$":
            pieces.append(r"\Z")
            break
        if rest[0] in "*?":
            raise InputError(
                f"expected a character before {rest[0]!r} in the expression {shorten(expression)}"
            )
        if rest[0] == "\\" and len(rest) == 1:
            raise InputError(
                f"expected a character behind the last \\ in the expression {shorten(expression)}"
            )
        size = 2 if rest[0] == "\\" else 1
        pieces.append(_one(rest[:size]))
        rest = rest[size:]
        if rest[:1] and rest[0] in "*?":
            # The first way to match that Wapiti tries: as few repetitions as will do, the optional one if it can be.
            pieces.append("*?" if rest[0] == "*" else "?")
            rest = rest[1:]
    return re.compile("".join(pieces), re.DOTALL)


def _one(piece: str) -> str:
    """Return the expression of one character."""
    if piece == ".":
        return "."
    if len(piece) == 1:
        return re.escape(piece)
    name = piece[1]
    if name.lower() in CLASSES:
        return f"[{'^' if name.isupper() else ''}{CLASSES[name.lower()]}]"
    return re.escape(name)
