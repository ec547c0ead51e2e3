"""F1 of chunks for the judge: conlleval's definition once more, one position after the other, none of crfqn's code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Items = Sequence[Sequence[str]]


def chunk_f1(given: Items, predicted: Items) -> float:
    """2 right / (given + predicted), where a chunk is right if its first position, its last and its type are."""
    true, found = _chunks(given), _chunks(predicted)
    return 2 * len(true & found) / max(len(true) + len(found), 1)


def _chunks(items: Items) -> set[tuple[int, int, int, str]]:
    """Item, first position, end and type of every chunk."""
    chunks = set()
    for number, labels in enumerate(items):
        start = 0
        for t, (before, here) in enumerate(pairwise(["O", *labels, "O"])):
            if _goes_on(before, here):
                continue
            if before != "O":
                chunks.add((number, start, t, before.partition("-")[2]))
            start = t
    return chunks


def _goes_on(before: str, here: str) -> bool:
    """Whether the second of two positions is in the chunk of the first."""
    return here.startswith("I") and before != "O" and here[1:] == before[1:]
