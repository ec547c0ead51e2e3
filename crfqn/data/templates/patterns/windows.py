"""Window templates, a short way to write patterns: `w[-1]|w[0]` is the pair of the word before and the word here.

In the text `the dog` it gives the position of `dog` the feature `w[-1]|w[0]=the|dog`. A template that reaches beyond
the item gives nothing. Names, and the markers of the first and the last position, are those of CRFsuite's examples
(Okazaki, CRFsuite tutorial: chunking). Behind a dot stands a form of a column, `w.suffix3[0]`: `forms.FORMS` has
them all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crfqn.data.templates.patterns.forms import FORMS, SHAPES
from crfqn.data.templates.patterns.pattern import FIRST_POSITION, LAST_POSITION, Macro, Pattern
from crfqn.data.templates.patterns.views import View
from crfqn.errors import InputError
from crfqn.wording import shorten

# Words and tags within two positions, pairs of neighbouring words, pairs and triples of neighbouring tags.
CHUNKING = """
w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1]
pos[-2] pos[-1] pos[0] pos[1] pos[2] pos[-2]|pos[-1] pos[-1]|pos[0] pos[0]|pos[1] pos[1]|pos[2]
pos[-2]|pos[-1]|pos[0] pos[-1]|pos[0]|pos[1] pos[0]|pos[1]|pos[2]
"""
FIRST, LAST = "__BOS__", "__EOS__"
ENDS = (Pattern((FIRST,), only=FIRST_POSITION), Pattern((LAST,), only=LAST_POSITION))
PART = re.compile(r"([^\s|=\[\]]+)\[([+-]?[0-9]+)\]")


def parse_windows(text: str, columns: Sequence[str], has_ends: bool = True) -> tuple[Pattern, ...]:
    """Read window templates, separated by white space: `w[0] w[-1]|w[0]`.

    Parameters
    ----------
    text : str
    columns : sequence of str
    has_ends : bool
        Whether the first and the last position of an item have a feature of their own.

    Raises
    ------
    InputError
        There is none, one is malformed or comes twice, or asks for a column that is none of `columns`.
    """
    patterns: list[Pattern] = []
    for word in text.split():
        matches = [PART.fullmatch(part) for part in word.split("|")]
        parts = [(match[1], int(match[2])) for match in matches if match]
        if len(parts) < len(matches):
            raise InputError(f"expected templates like w[0] or w[-1]|w[0], got {shorten(word)}")
        macros = tuple(Macro(_view(name, columns, word), offset) for name, offset in parts)
        shown = "|".join(f"{name}[{offset}]" for name, offset in parts)
        pattern = Pattern((f"{shown}=", *["|"] * (len(parts) - 1), ""), macros, has_marks=False)
        if pattern in patterns:
            raise InputError(f"the template {shorten(word)} comes twice")
        patterns.append(pattern)
    if not patterns:
        raise InputError("expected at least one template like w[0] or w[-1]|w[0], got none")
    return (*patterns, *(ENDS if has_ends else ()))


def word_shapes(column: str, around: int = 1) -> tuple[Pattern, ...]:
    """Return the patterns of a word's form: prefixes and suffixes to 4 letters, shape, digits, capitals, hyphens, ...

    Shapes (`shape`, `runs`) are those of the words within `around` positions too.
    """
    names = [f"{column}.{form}[0]" for form in SHAPES]
    names += [
        f"{column}.{form}[{offset}]"
        for offset in range(-around, around + 1)
        if offset
        for form in ("shape", "runs")
    ]
    return parse_windows(" ".join(names), [column], has_ends=False)


def _view(name: str, columns: Sequence[str], word: str) -> View:
    if name in columns:
        return View(name)
    column, _, form = name.rpartition(".")
    if column in columns and form in FORMS:
        return View(column, form)
    forms = f", each with a form such as .suffix3 or .shape ({', '.join(FORMS)})" if column in columns else ""
    raise InputError(
        f"the template {shorten(word)} asks for a column {name!r}; there are: {', '.join(columns)}{forms}"
    )
