"""Places in files: where each item of a reader's result came from, for messages and for whoever looks something up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Returns a text that begins with the line of a position or document, with other labels in it, and all else as it is.
Relabel = Callable[[str, Sequence[str]], str]


def in_line(relabel: Relabel) -> Relabel:
    """Return what puts labels into a text from what puts them into its first line, which is given without its end."""

    def relabel_text(text: str, labels: Sequence[str]) -> str:
        line = text.partition("\n")[0].removesuffix("\r")
        return relabel(line, labels) + text[len(line) :]

    return relabel_text


@dataclass(frozen=True, eq=False)
class Places:
    """Places of items, and how other labels are written there.

    Parameters
    ----------
    file : str
        Name of the file, as messages show it.
    lines : ndarray of int64
        Line (from 1) of each document, or of each position of sequences, item after item.
    offsets : ndarray of int64, shape (I + 1,), or None
        Item i has lines[offsets[i]] ... ; None: an item has one line.
    relabel : callable, or None
        `relabel(text, labels)` for a text that begins at one of the lines, and the labels of what stands in it.
    title : str, or None
        The title of the labels' column, where the file has titles and lacks that one.
    """

    file: str
    lines: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None
    relabel: Relabel | None = None
    title: str | None = None

    @classmethod
    def of_items(cls, file: str, lines: Sequence[Sequence[int]], relabel: Relabel | None = None) -> Places:
        """Return the places of sequences: a list of lines an item."""
        offsets = np.cumsum([0, *map(len, lines)], dtype=np.int64)
        return cls(file, np.array([line for item in lines for line in item], np.int64), offsets, relabel)

    def line(self, item: int, position: int = 0) -> int:
        """Return the line (from 1) of an item, or of one of its positions."""
        return int(self.lines[item if self.offsets is None else self.offsets[item] + position])

    def where(self, item: int, position: int = 0) -> str:
        """Return the place in words, "train.txt, line 17"."""
        return f"{self.file}, line {self.line(item, position)}"
