"""Features of the words of a text: what a first model for tags, names and addresses is made of.

The word, its first and last letters, its shape and kind, and the words around it: what Ratnaparkhi, "A maximum entropy
model for part-of-speech tagging" (1996), Table 1, and the examples of CRF tools since then use. Other columns, such as
tags, count as they are, with their neighbours. As dicts (`word_features`), or as patterns of templates.
"""

from __future__ import annotations

from collections.abc import Sequence

from crfqn.data.templates.patterns.forms import FORMS, word_shape
from crfqn.data.templates.patterns.pattern import FIRST_POSITION, LAST_POSITION, Macro, Pattern
from crfqn.data.templates.patterns.views import View

__all__ = ["word_features", "word_patterns", "word_shape"]

OWN = {
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
FLAGS = ("upper", "title", "digit", "hyphen")
BESIDE = ("w", "title", "upper", "s3", "shape")  # those of a word that stands beside
FURTHEST = 2  # positions from which the words around are seen
BIAS, FIRST, LAST = "bias", "BOS", "EOS"


def word_features(words: Sequence[str]) -> list[dict[str, str | float | bool]]:
    """Return the features of each word of an item, a dict `name -> value` a position, without those that are false.

    `w` is the word in small letters; `s3`, `s2`, `p3`, `p2` its last and first letters; `shape` as `word_shape`
    has it; `upper`, `title`, `digit`, `hyphen` what it is or has; `BOS` and `EOS` the first and the last word of the
    item; `-1:w` and so on the same of a neighbour: the word up to two positions away, and its last letters, shape and
    case where it stands beside.
    """
    if not words:
        return []
    own = [_of_word(word) for word in words]
    found = []
    for i, features in enumerate(own):
        item = {BIAS: 1.0, **features}
        for offset, names in _around():
            if 0 <= i + offset < len(own):
                other = own[i + offset]
                item |= {f"{offset}:{name}": other[name] for name in names if name in other}
        found.append(item)
    found[0][FIRST] = found[-1][LAST] = True
    return found


def word_patterns(word: str, others: Sequence[str] = ()) -> tuple[Pattern, ...]:
    """Return the patterns of these features for a column of words, and of the texts in other columns.

    Names are those of `word_features`, a flag's with its value (`title=true`). Another column's text counts up to two
    positions away, `pos[-1]=DT`, and with its neighbour's, `pos[-1]|pos[0]=DT|NN`.
    """
    patterns = [
        Pattern((BIAS,)),
        Pattern((FIRST,), only=FIRST_POSITION),
        Pattern((LAST,), only=LAST_POSITION),
    ]
    patterns += [_of_column(f"{name}=", View(word, OWN[name]), 0) for name in OWN]
    for offset, names in _around():
        patterns += [_of_column(f"{offset}:{name}=", View(word, OWN[name]), offset) for name in names]
    offsets = range(-FURTHEST, FURTHEST + 1)
    for column in others:
        view = View(column)
        patterns += [_of_column(f"{column}[{offset}]=", view, offset) for offset in offsets]
        for offset in offsets[:-1]:
            start = f"{column}[{offset}]|{column}[{offset + 1}]="
            patterns.append(_of_column(start, view, offset, offset + 1))
    return tuple(patterns)


def _around() -> list[tuple[int, Sequence[str]]]:
    """Return the offsets of the words around, and which of their features count."""
    offsets = [offset for offset in range(-FURTHEST, FURTHEST + 1) if offset]
    return [(offset, BESIDE if abs(offset) == 1 else BESIDE[:1]) for offset in offsets]


def _of_column(start: str, view: View, *offsets: int) -> Pattern:
    """Return the pattern `start`, and what the view shows at the offsets, with bars between."""
    bars = "|" * (len(offsets) - 1)
    return Pattern((start, *bars, ""), tuple(Macro(view, offset) for offset in offsets), has_marks=False)


def _of_word(word: str) -> dict[str, str | float | bool]:
    """Return what a word has alone; empty texts and false answers are left out."""
    values = {name: FORMS[form](word) for name, form in OWN.items()}
    return {name: True if name in FLAGS else value for name, value in values.items() if value}
