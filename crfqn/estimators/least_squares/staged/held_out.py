"""Held-out items on which stages are scored: given ones, or a part of the training items.

Shapes: I items, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_consistent_length, column_or_1d

from crfqn.arrays import Vector
from crfqn.data.labels.codes import encode_known_labels
from crfqn.estimators.classification.items import Targets
from crfqn.estimators.least_squares.base import HALF
from crfqn.estimators.ranking.label_sets import LabelSets, SetSpace
from crfqn.threads import Pool


@dataclass(eq=False)
class Held:
    """Held-out items, with their predictions after the stages so far.

    Attributes
    ----------
    rows : matrix of I rows
    targets : float64 (K, I), of 0 and 1
    is_exclusive : bool, whether an item has one label
    """

    rows: Any
    targets: Vector
    is_exclusive: bool
    _predictions: Vector = field(init=False)
    _prepared: Any = field(default=None, init=False)
    _number: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._predictions = np.zeros(self.targets.shape)

    @classmethod
    def of(cls, X: Any, y: Any, space: SetSpace) -> Held:
        """Return the items X (checked) with labels y of the space; InputError for other labels."""
        if space.form != "labels":
            sets = LabelSets.among(y, space.classes)
            check_consistent_length(X, sets.table)
            return cls(X, sets.table.toarray().T, False)
        names = column_or_1d(y)
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
    """Return the items without a random part of them, and this part as held-out items.

    Where items have one label each, every label has its share of the part, unless one is too rare for that.
    """
    table, space = targets.labels, targets.space
    assert isinstance(space, SetSpace)
    codes = table.argmax(axis=0)
    is_exclusive = space.form == "labels"
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
