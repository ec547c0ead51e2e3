"""Items that stages are fitted to, in one piece or in blocks that are read anew in every pass, and items held out.

Shapes: I items, K labels; tables are float64 (K, I), a column an item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_consistent_length, column_or_1d

from crfqn.arrays import Vector
from crfqn.data.label_codes import encode_known_labels, item_labels
from crfqn.data.matrices import canonical
from crfqn.errors import InputError
from crfqn.estimators.checks import check_classes, validated
from crfqn.estimators.items import Targets
from crfqn.estimators.labels import LabelSets, are_sets
from crfqn.model.labels import LabelSpace
from crfqn.papers.agarwal2014.base import HALF
from crfqn.threads import Pool

Blocks = Iterable[tuple[Any, Any]]  # (X, y), the same ones each time


@dataclass(eq=False)
class ItemStream:
    """Rows, targets and weights of the items that a model is trained on."""

    blocks: Callable[[], Iterator[Any]]  # the rows, block by block, the same ones at each call
    targets: Vector  # (K, I), points of the simplex or the hypercube
    weights: Vector  # (I,)
    is_whole: bool  # all rows come in one block that stays in memory
    pool: Pool

    def parts(self) -> Iterator[tuple[Any, slice]]:
        """Yield the rows of each block, and the slice of the items that they are."""
        first, n_items = 0, self.targets.shape[1]
        for rows in self.blocks():
            part = slice(first, first + rows.shape[0])
            first = part.stop
            yield rows, part
        if first != n_items:
            raise InputError(
                f"blocks: expected the same {n_items:,} items in every pass, got {first:,} this time"
            )


def checked_rows(model: Any, X: Any, is_first: bool = False) -> Any:
    """Return rows, checked; a model takes the columns' names from the first and compares others."""
    return validated(model, canonical(X), reset=is_first, accept_sparse=("csr", "csc"), dtype="numeric")


def check_blocks(blocks: Any) -> None:
    """Raise InputError for a generator, or whatever else can be iterated over only once."""
    if not hasattr(blocks, "__iter__") or isinstance(blocks, Iterator):
        raise InputError(
            "blocks: expected an iterable of (X, y) that can be read again and again, such as a list or an object "
            f"with __iter__, got {type(blocks).__name__}"
        )


def read_labels(blocks: Blocks, checked: Any) -> LabelSets:
    """Read all blocks once; return their labels. `checked` takes the columns' names."""
    labels: list[Any] = []
    for X, y in blocks:
        X = checked_rows(checked, X, is_first=not labels)
        check_consistent_length(X, y)
        labels.append(y)
    if not labels:
        raise InputError("blocks: expected at least one block (X, y), got none")
    sets = LabelSets.of(joined(labels))
    check_classes(sets.classes)
    return sets


def joined(labels: list[Any]) -> Any:
    """Return the labels of all blocks as those of a single one."""
    if all(are_sets(y) for y in labels):
        return list(chain.from_iterable(labels))
    if any(hasattr(y, "tocsr") for y in labels):
        return scipy.sparse.vstack(labels).tocsr()
    return np.concatenate([np.asarray(item_labels(y)) for y in labels])


@dataclass(eq=False)
class Held:
    """Held-out items, with their predictions after the stages so far."""

    rows: Any
    targets: Vector  # (K, I), of 0 and 1
    is_exclusive: bool  # an item has one label
    _predictions: Vector = field(init=False)
    _prepared: Any = field(default=None, init=False)
    _number: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._predictions = np.zeros(self.targets.shape)

    @classmethod
    def of(cls, checked: Any, space: LabelSpace, X: Any, y: Any) -> Held:
        """Return items with labels of the space, and columns as those of `checked`; InputError for others."""
        X = checked_rows(checked, X)
        if not space.has_one_label:
            sets = LabelSets.among(y, space.classes)
            check_consistent_length(X, sets.table)
            return cls(X, sets.table.toarray().T, False)
        names = column_or_1d(item_labels(y))
        check_consistent_length(X, names)
        codes = encode_known_labels(names, np.arange(names.size + 1), space.classes)
        return cls(X, np.eye(space.classes.size)[codes].T, True)

    def score(self, stages: Any, pool: Pool) -> float:
        """Return the share of the items whose labels are all right, after taking predictions on to the latest stage."""
        if self._prepared is None:
            self._prepared = stages.prepare(self.rows, pool)
        for number in range(self._number, stages.n_stages):
            self._predictions = stages.advance(self._prepared, number, self._predictions)
        self._number = stages.n_stages
        if self.is_exclusive:
            found = self._predictions.argmax(axis=0)
            return float(np.mean(self.targets[found, np.arange(found.size)] > 0))
        chosen = stages.probabilities(self._predictions) >= HALF
        return float(np.mean((chosen == (self.targets > 0)).all(axis=0)))


def split_off(X: Any, targets: Targets, fraction: float, seed: int) -> tuple[Any, Targets, Held]:
    """Return the items without a random part of them, and this part as held-out items, in which every label has its
    share where items have one each, unless one is too rare for that."""
    table, space = targets.labels, targets.space
    codes = table.argmax(axis=0)
    is_exclusive = space.has_one_label
    n_held = max(1, round(fraction * codes.size))
    rarest = np.bincount(codes).min() if is_exclusive else 0
    can_be_even = is_exclusive and rarest >= 2 and len(table) <= n_held <= codes.size - len(table)
    train, test = train_test_split(
        np.arange(codes.size), test_size=n_held, random_state=seed, stratify=codes if can_be_even else None
    )
    train, test = np.sort(train), np.sort(test)
    weights = None if targets.weights is None else targets.weights[train]
    rest = Targets(space, np.ascontiguousarray(table[:, train]), weights)
    return X[train], rest, Held(X[test], table[:, test], is_exclusive)
