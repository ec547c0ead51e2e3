"""What one would write first for the words of a sentence: the word, its affixes and its shape, and its neighbours'."""

from __future__ import annotations

import re
from typing import Any

NEIGHBOURS = (-2, -1, 1, 2)
NEAREST = (-1, 1)


def shape(word: str) -> str:
    """Letters and digits by their kind (Xx, dd-dd), no kind more than twice in succession."""
    kinds = "".join("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1{2,}", r"\1\1", kinds)


def sentence_features(words: list[str]) -> list[dict[str, Any]]:
    """The features of each word, a dict that leaves out what is not so."""
    return [
        {name: value for name, value in word_features(words, i).items() if value} for i in range(len(words))
    ]


def word_features(words: list[str], i: int) -> dict[str, Any]:
    """Those of the word at a place, with its neighbours'."""
    word, lower = words[i], words[i].lower()
    found: dict[str, Any] = {
        "bias": True,
        "word": lower,
        "prefix 2": lower[:2],
        "prefix 3": lower[:3],
        "suffix 2": lower[-2:],
        "suffix 3": lower[-3:],
        "shape": shape(word),
        "upper": word.isupper(),
        "title": word.istitle(),
        "digit": word.isdigit(),
        "hyphen": "-" in word,
        "first": i == 0,
        "last": i == len(words) - 1,
    }
    for offset in NEIGHBOURS:
        if not 0 <= i + offset < len(words):
            continue
        other = words[i + offset]
        found[f"{offset}: word"] = other.lower()
        if offset in NEAREST:
            found[f"{offset}: suffix 3"] = other.lower()[-3:]
            found[f"{offset}: shape"] = shape(other)
            found[f"{offset}: title"] = other.istitle()
            found[f"{offset}: upper"] = other.isupper()
    return found
