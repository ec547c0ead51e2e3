"""Precision, recall and F1 of chunks (phrases, names) in IOB labels, as the shared tasks of CoNLL count them.

A label is `O` (outside), `B-<type>` (first of a chunk) or `I-<type>` (in a chunk). A chunk counts as found only if its
first position, its last and its type are all right. The rules are those of the tasks' program `conlleval`: a chunk
begins at every B, and at an I that begins an item or stands behind an O or another type. So one definition serves
IOB2, where every chunk begins with B, IOB1, where B only parts neighbours of one type, and labels that are wrong in
both.

Shapes: I items, N positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import make_scorer

from crfqn.data.labels import encode_labels
from crfqn.data.wording import describe, shorten
from crfqn.errors import InputError
from crfqn.metrics.measures import PrecisionRecallF1


@dataclass(frozen=True)
class ChunkCounts:
    """Numbers of chunks: given ones, predicted ones, and right ones among the predicted.

    precision, recall and f1 are in [0, 1]; a ratio without cases (0/0) is 0, as in conlleval.
    """

    n_true: int
    n_predicted: int
    n_right: int

    @property
    def precision(self) -> float:
        """Fraction of the predicted chunks that are right, in [0, 1]."""
        return self.n_right / max(self.n_predicted, 1)

    @property
    def recall(self) -> float:
        """Fraction of the given chunks that are found, in [0, 1]."""
        return self.n_right / max(self.n_true, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in [0, 1]."""
        return 2 * self.n_right / max(self.n_true + self.n_predicted, 1)


def chunk_counts(y_true: Any, y_pred: Any) -> dict[str, ChunkCounts]:
    """Count chunks by their type.

    Parameters
    ----------
    y_true, y_pred : list of I label sequences
        Equally long, item by item. A flat list of N labels is taken as one item.

    Returns
    -------
    dict
        The types that were given or predicted, sorted; `B` and `I` without a type have the type "".

    Raises
    ------
    InputError (a ValueError)
        No positions, lengths that differ (the item is named), labels that are none of O, B, I, B-..., I-....

    Notes
    -----
    O(N), a pass over the labels in NumPy.

    References
    ----------
    Tjong Kim Sang, Buchholz: Introduction to the CoNLL-2000 shared task: chunking. CoNLL 2000. Their program:
    conlleval, 2004.
    """
    (true, true_offsets), (predicted, predicted_offsets) = _flat("y_true", y_true), _flat("y_pred", y_pred)
    _check_lengths(true_offsets, predicted_offsets)
    tags = _Tags.of(np.concatenate([true, predicted]))
    n, n_types = true.size, len(tags.types)
    is_first = np.zeros(n + 1, bool)
    is_first[true_offsets] = True
    chunks = [_chunks(*tags.part(slice(0, n)), is_first), _chunks(*tags.part(slice(n, None)), is_first)]
    _, of_true, of_predicted = np.intersect1d(chunks[0].starts, chunks[1].starts, True, return_indices=True)
    ours, theirs = chunks[0].take(of_true), chunks[1].take(of_predicted)
    right = ours.types[(ours.ends == theirs.ends) & (ours.types == theirs.types)]
    counts = (np.bincount(types, minlength=n_types) for types in (chunks[0].types, chunks[1].types, right))
    return {
        name: ChunkCounts(*map(int, row))
        for name, *row in zip(tags.types, *counts, strict=True)
        if row[0] or row[1]
    }


def chunk_precision_recall_f1(y_true: Any, y_pred: Any, *, average: str = "micro") -> PrecisionRecallF1:
    """Return precision, recall and F1 of all chunks, as conlleval's line for all types has them (divided by 100).

    Parameters and errors as in `chunk_counts`, and

    average : {"micro", "macro"}, default "micro"
        "micro" sums the counts of all types; "macro" is the mean of the types' own precisions, recalls and F1s.

    Examples
    --------
    >>> found = chunk_precision_recall_f1([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "B-NP", "I-VP"]])
    >>> found.recall, round(found.precision, 3)
    (1.0, 0.667)
    """
    if average not in ("micro", "macro"):
        raise InputError(f"average: expected 'micro' or 'macro', got {describe(average)}")
    counts = list(chunk_counts(y_true, y_pred).values())
    if average == "micro":
        counts = [sum_counts(counts)]
    ratios = np.array([[count.precision, count.recall, count.f1] for count in counts]).reshape(-1, 3)
    return PrecisionRecallF1(*(ratios.mean(axis=0) if counts else np.zeros(3)).tolist())


def chunk_f1_score(y_true: Any, y_pred: Any, *, average: str = "micro") -> float:
    """Return the F1 of `chunk_precision_recall_f1`, which has the same parameters and errors."""
    return chunk_precision_recall_f1(y_true, y_pred, average=average).f1


def chunk_scorer(average: str = "micro") -> Callable[..., float]:
    """Make a scorer for scikit-learn's `scoring=`: the F1 of chunks of an estimator that labels sequences.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from crfqn import ChainCRF
    >>> from crfqn.metrics import chunk_scorer
    >>> search = GridSearchCV(ChainCRF(), {"l1": [0.5, 1.0]}, scoring=chunk_scorer())
    """
    return make_scorer(chunk_f1_score, average=average)


def sum_counts(counts: list[ChunkCounts]) -> ChunkCounts:
    """Return the sums of the counts of all types."""
    return ChunkCounts(
        sum(count.n_true for count in counts),
        sum(count.n_predicted for count in counts),
        sum(count.n_right for count in counts),
    )


class _Chunks(NamedTuple):
    """First positions, last positions and types of chunks, in the order of the first positions."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    types: NDArray[np.int64]

    def take(self, rows: NDArray[np.integer]) -> _Chunks:
        return _Chunks(*(array[rows] for array in self))


def _chunks(is_outside: NDArray, is_b: NDArray, type_of: NDArray, is_first: NDArray) -> _Chunks:
    """Find the chunks by conlleval's rules; `is_first` has one entry more, for the position behind the last."""
    n = is_outside.size
    is_inside = ~is_outside
    goes_on = np.zeros(n + 1, bool)  # is in the same chunk as the position before
    goes_on[1:n] = is_inside[1:] & ~is_b[1:] & is_inside[:-1] & (type_of[1:] == type_of[:-1]) & ~is_first[1:n]
    starts = np.flatnonzero(is_inside & ~goes_on[:n])
    ends = np.flatnonzero(is_inside & ~goes_on[1:])
    return _Chunks(starts, ends, type_of[starts])


class _Tags(NamedTuple):
    """The labels of positions taken apart; `types` are the names, sorted."""

    is_outside: NDArray[np.bool_]
    is_b: NDArray[np.bool_]
    type_of: NDArray[np.int64]
    types: list[str]

    @classmethod
    def of(cls, labels: NDArray) -> _Tags:
        names, codes = np.unique(labels, return_inverse=True)
        parts = [_parse(name) for name in names.tolist()]
        types = sorted({kind for _, kind in parts})
        tags = np.array([tag for tag, _ in parts])
        numbers = np.array([types.index(kind) for _, kind in parts])
        return cls((tags == "O")[codes], (tags == "B")[codes], numbers[codes], types)

    def part(self, rows: slice) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        return self.is_outside[rows], self.is_b[rows], self.type_of[rows]


def _parse(label: Any) -> tuple[str, str]:
    """Return B, I or O, and the type, which may have hyphens."""
    tag, _, kind = str(label).partition("-")
    if tag not in ("O", "B", "I") or (tag == "O" and kind):
        raise InputError(f"expected labels O, B-<type> or I-<type>, got {shorten(label)}")
    return tag, kind


def _flat(name: str, y: Any) -> tuple[NDArray, NDArray[np.int64]]:
    """Return the labels by position, and where items end."""
    items = list(y)
    is_flat = all(isinstance(item, str) for item in items)
    lengths = [len(items)] if is_flat else [len(item) for item in items]
    offsets = np.cumsum([0, *lengths])
    if not offsets[-1]:
        raise InputError(f"{name}: expected at least one label to score, got none")
    try:
        classes, codes = encode_labels(items, offsets)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return classes[codes], offsets


def _check_lengths(true: NDArray[np.int64], predicted: NDArray[np.int64]) -> None:
    if true.size != predicted.size:
        raise InputError(
            f"expected as many predictions as true sequences, got {predicted.size - 1} and {true.size - 1}"
        )
    expected, got = np.diff(true), np.diff(predicted)
    differing = np.flatnonzero(expected != got)
    if differing.size:
        i = int(differing[0])
        raise InputError(
            f"item {i}: expected {expected[i]} predicted labels, one for each true one, got {got[i]}"
        )
