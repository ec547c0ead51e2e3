"""Short ways to write patterns: windows, forms of a word, and the features of a first tagger.

The window `w[-1]|w[0]` is the pair of the word before and the word here: in the text `the dog` it gives the position of
`dog` the feature `w[-1]|w[0]=the|dog`, and none if it reaches beyond the item. Names, and the markers of the first and
the last position, are those of CRFsuite's examples (Okazaki, CRFsuite tutorial: chunking). A form of a column follows a
dot, `w.suffix3[0]`: `patterns.COLUMN_FORMS` has them all.

The features of a first tagger, as dicts (`word_features`) or patterns (`word_patterns`), are the word, its first and
last letters, shape and kind, and the words around it, as in Ratnaparkhi, "A maximum entropy model for part-of-speech
tagging" (1996), Table 1. The texts of other columns, such as tags, and of their neighbours are features too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from crfqn.data.templates.patterns import (
    COLUMN_FORMS,
    FIRST_POSITION,
    LAST_POSITION,
    SHAPE_FORMS,
    Macro,
    Pattern,
    View,
)
from crfqn.errors import InputError
from crfqn.messages import describe, shorten

END_PATTERNS = (
    Pattern(("__BOS__",), restricted_to=FIRST_POSITION),
    Pattern(("__EOS__",), restricted_to=LAST_POSITION),
)
WINDOW_PART = re.compile(r"([^\s|=\[\]]+)\[([+-]?[0-9]+)\]")

# Of a first tagger.
WORD_FORMS = {
    "w": "lower",
    "s3": "last3",
    "s2": "last2",
    "p3": "first3",
    "p2": "first2",
    "shape": "short-shape",
    "upper": "is-upper",
    "title": "is-title",
    "digit": "is-digits",
    "hyphen": "has-hyphen",
}  # forms of a word by the names of the features
WORD_FLAGS = ("upper", "title", "digit", "hyphen")
NEIGHBOUR_FORMS = ("w", "title", "upper", "s3", "shape")  # forms of a neighbouring word
WINDOW_RADIUS = 2  # distance in positions of the words around
# Offsets of the words around, and their forms.
FORMS_BY_OFFSET = (
    (-2, NEIGHBOUR_FORMS[:1]),
    (-1, NEIGHBOUR_FORMS),
    (1, NEIGHBOUR_FORMS),
    (2, NEIGHBOUR_FORMS[:1]),
)
BIAS_NAME, FIRST_NAME, LAST_NAME = "bias", "BOS", "EOS"


def parse_windows(text: str, columns: Sequence[str], has_ends: bool = True) -> tuple[Pattern, ...]:
    """Read window templates separated by white space, `w[0] w[-1]|w[0]`; `has_ends` adds one feature each for the first
    and the last position. InputError for none, or one that is malformed, repeated or of an unknown column."""
    patterns: list[Pattern] = []
    for word in text.split():
        matches = [WINDOW_PART.fullmatch(part) for part in word.split("|")]
        parts = [(match[1], int(match[2])) for match in matches if match]
        if len(parts) < len(matches):
            raise InputError(f"expected templates like w[0] or w[-1]|w[0], got {shorten(word)}")
        shown = "|".join(f"{name}[{offset}]" for name, offset in parts)
        macros = []
        for name, offset in parts:
            column, _, form = name.rpartition(".")
            if name not in columns and not (column in columns and form in COLUMN_FORMS):
                forms = f", each with a form such as .suffix3 or .shape ({', '.join(COLUMN_FORMS)})"
                raise InputError(
                    f"the template {shorten(word)} asks for a column {name!r}; there are: {', '.join(columns)}"
                    f"{forms if column in columns else ''}"
                )
            macros.append(Macro(View(name) if name in columns else View(column, form), offset))
        pattern = _joined(f"{shown}=", *macros)
        if pattern in patterns:
            raise InputError(f"the template {shorten(word)} comes twice")
        patterns.append(pattern)
    if not patterns:
        raise InputError("expected at least one template like w[0] or w[-1]|w[0], got none")
    return (*patterns, *(END_PATTERNS if has_ends else ()))


def word_shapes(column: str, around: int = 1) -> tuple[Pattern, ...]:
    """Return the patterns of a word's form: prefixes and suffixes to 4 letters, digits, capitals, hyphens, ...; and of
    the shapes (`shape`, `runs`) of the words within `around` positions."""
    names = [f"{column}.{form}[0]" for form in SHAPE_FORMS]
    others = [offset for offset in range(-around, around + 1) if offset]
    names += [f"{column}.{form}[{offset}]" for offset in others for form in ("shape", "runs")]
    return parse_windows(" ".join(names), [column], has_ends=False)


def word_features(words: Sequence[str]) -> list[dict[str, str | float | bool]]:
    """Return the features of each word of an item, a dict `name -> value` a position, without those that are false.

    `w` is the word in small letters; `s3`, `s2`, `p3`, `p2` its last and first letters; `shape` as `word_shape`
    has it; `upper`, `title`, `digit`, `hyphen` what it is or has; `BOS` and `EOS` the first and the last word of the
    item; `-1:w` and so on the same of a neighbour: the word up to two positions away, and the last letters, shape and
    case of an adjacent word. InputError for a text instead of its words.
    """
    if isinstance(words, (str, bytes)):
        raise InputError(f"expected a list of words, got {describe(words)}; cut it: sentence.split()")
    if not words:
        return []
    if not isinstance(words[0], str):
        advice = ""
        if words[0] and isinstance(words[0], dict):
            advice = f"; take a column: [row[{next(iter(words[0]))!r}] for row in item]"
        raise InputError(f"position 0: expected a word, got {describe(words[0])}{advice}")
    word_values: list[
        dict[str, str | float | bool]
    ] = []  # of each word alone, no empty texts, no false flags
    for word in words:
        values = {name: COLUMN_FORMS[form](word) for name, form in WORD_FORMS.items()}
        word_values.append(
            {name: True if name in WORD_FLAGS else value for name, value in values.items() if value}
        )
    features = []
    for i, values_here in enumerate(word_values):
        position = {BIAS_NAME: 1.0, **values_here}
        for offset, names in FORMS_BY_OFFSET:
            if 0 <= i + offset < len(words):
                other = word_values[i + offset]
                position |= {f"{offset}:{name}": other[name] for name in names if name in other}
        features.append(position)
    features[0][FIRST_NAME] = features[-1][LAST_NAME] = True
    return features


def word_patterns(word: str, others: Sequence[str] = ()) -> tuple[Pattern, ...]:
    """Return these patterns for a column of words, named as in `word_features` (a flag with its value, `title=true`),
    and for other columns up to two positions away, alone and with a neighbour: `pos[-1]=DT`, `pos[-1]|pos[0]=DT|NN`."""
    first, last = (
        Pattern((FIRST_NAME,), restricted_to=FIRST_POSITION),
        Pattern((LAST_NAME,), restricted_to=LAST_POSITION),
    )
    patterns = [Pattern((BIAS_NAME,)), first, last]
    patterns += [_joined(f"{name}=", Macro(View(word, WORD_FORMS[name]), 0)) for name in WORD_FORMS]
    for offset, names in FORMS_BY_OFFSET:
        patterns += [
            _joined(f"{offset}:{name}=", Macro(View(word, WORD_FORMS[name]), offset)) for name in names
        ]
    for column in others:
        patterns += neighbour_patterns(column)
    return tuple(patterns)


def neighbour_patterns(column: str) -> tuple[Pattern, ...]:
    """Return the patterns of the texts of a column up to two positions away, and of pairs of neighbours."""
    macros = [Macro(View(column), offset) for offset in range(-WINDOW_RADIUS, WINDOW_RADIUS + 1)]
    patterns = [_joined(f"{column}[{macro.offset}]=", macro) for macro in macros]
    for one, next_one in pairwise(macros):
        start = f"{column}[{one.offset}]|{column}[{next_one.offset}]="
        patterns.append(_joined(start, one, next_one))
    return tuple(patterns)


def _joined(start: str, *macros: Macro) -> Pattern:
    """Return the pattern of `start` and the values of the macros, with bars between."""
    return Pattern((start, *["|"] * (len(macros) - 1), ""), macros, has_marks=False)
