"""Features of the words of a text: what a first model for tags, names and addresses is made of.

The word, its first and last letters, its shape and kind, and the words around it: what Ratnaparkhi, "A maximum entropy
model for part-of-speech tagging" (1996), Table 1, and the examples of CRF tools since then use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

KINDS = (("A-Z", "X"), ("a-z", "x"), ("0-9", "d"))  # of characters that a shape keeps apart
FURTHEST = 2  # positions from which the words around are seen


def word_shape(word: str) -> str:
    """Return the kinds of a word's characters, runs of more than two cut to two: `Zeeland-1944` is `Xxx-dd`."""
    for characters, kind in KINDS:
        word = re.sub(f"[{characters}]", kind, word)
    return re.sub(r"(.)\1{2,}", r"\1\1", word)


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
        item = {"bias": 1.0, **features}
        for offset in range(-FURTHEST, FURTHEST + 1):
            if offset and 0 <= i + offset < len(own):
                names = ("w", "title", "upper", "s3", "shape") if abs(offset) == 1 else ("w",)
                other = own[i + offset]
                item |= {f"{offset}:{name}": other[name] for name in names if name in other}
        found.append(item)
    found[0]["BOS"] = found[-1]["EOS"] = True
    return found


def _of_word(word: str) -> dict[str, str | float | bool]:
    """Return what a word has alone; empty texts and false answers are left out."""
    lower = word.lower()
    features: dict[str, str | float | bool] = {
        "w": lower, "s3": lower[-3:], "s2": lower[-2:], "p3": lower[:3], "p2": lower[:2], "shape": word_shape(word),
        "upper": word.isupper(), "title": word.istitle(), "digit": word.isdigit(), "hyphen": "-" in word,
    }  # fmt: skip
    return {name: value for name, value in features.items() if value}
