"""Losses over chains and taxonomies, whose labellings are compared by inference, and the hinge among them.

The structured hinge, of max-margin Markov networks, is the largest violation of a margin that grows with the mistake:

    loss_i = max_y (L(y_i, y) + score_i(y)) - score_i(y_i)    (Taskar, Guestrin and Koller 2003)

L is half the number of states that hold under one of the labellings alone. For chains that is the Hamming loss, the
number of wrong positions; for taxonomies half the length of the way from label to label through the tree (Dekel, Keshet
and Singer 2004): without a taxonomy, 1 for another label. L is a sum over nodes, so that the largest violation is found
by the best labelling of other scores. Shapes as in `score_loss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.objectives.losses.score_loss import Evaluation, LinearDual, ScoreLoss
from crfqn.structures.structure import Decoded, Structure
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class OverStructure(ScoreLoss):
    """Base of the losses over a structure."""

    structure: Structure

    n_states = cached_property(attrgetter("structure.n_states"))  # type: ignore[assignment]
    n_items = cached_property(attrgetter("structure.n_items"))  # type: ignore[assignment]
    edge_layout = cached_property(attrgetter("structure.edge_layout"))
    ancestors = cached_property(attrgetter("structure.ancestors"))
    position_labels = cached_property(attrgetter("structure.labels"))

    @property
    def without_bigram_features(self) -> OverStructure:
        return replace(self, structure=self.structure.without_bigram_features)

    def may_cut(self) -> NDArray[np.bool_]:
        return self.structure.may_cut(self.targets)


@dataclass(frozen=True, eq=False)
class StructuredLoss(OverStructure):
    """Base of losses that compare with one label a position.

    Parameters
    ----------
    structure : Structure over I items and N positions
    targets : ndarray of int32, shape (N,), the observed labels

    Raises
    ------
    InputError
        For targets of another number, outside of 0 ... K - 1, or that the structure has no labels for.
    """

    targets: Labels

    def __post_init__(self) -> None:
        targets = self.targets
        if targets.size and not 0 <= targets.min() <= targets.max() < self.n_states:
            raise InputError(
                f"expected targets within 0 ... {self.n_states - 1}, got {targets.min()} ... {targets.max()}"
            )
        self.structure.check_targets(targets)
        object.__setattr__(self, "targets", np.ascontiguousarray(targets, np.int32))

    @classmethod
    def over(cls, structure: Structure, targets: Labels) -> Self:
        return cls(structure, targets)

    @property
    def n_positions(self) -> int:
        return self.targets.size

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Self:
        return type(self)(self.structure.over(offsets, positions), self.targets[positions])

    def states_of(self, labels: Labels) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        """Return the states that labels make true, and which of the labels each belongs to."""
        starts, states = self.ancestors
        lengths = np.diff(starts)[labels]
        first = np.cumsum(lengths) - lengths
        entry = np.arange(lengths.sum()) + np.repeat(starts[labels] - first, lengths)
        return states[entry], np.repeat(np.arange(labels.size), lengths)

    def observed_at(self, positions: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        return self.states_of(self.targets[positions])

    def observed_edges(self, weights: Vector) -> Vector:
        """Return the weighted observed transitions, (E,)."""
        return self.structure.counts(self.targets, weights)


@dataclass(frozen=True, eq=False)
class ViolationEvaluation(Evaluation):
    """A loss and a subgradient, those of the labellings that violate their margins most, L being `distances`, (I,)."""

    distances: Vector


@dataclass(frozen=True, eq=False)
class StructuralHinge(StructuredLoss):
    """max_y (L(y_i, y) + score_i(y)) - score_i(y_i) under a structure; parameters as of `StructuredLoss`."""

    has_violations = True

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> ViolationEvaluation:
        worst = self.loss_augmented_decode(scores, edges, pool)
        label_scores = self.structure.label_scores(self.targets, scores, edges)
        by_position = np.repeat(weights, np.diff(self.structure.offsets))
        residual = np.zeros_like(scores)
        for labels, sign in ((worst.states, 1.0), (self.targets, -1.0)):
            states, positions = self.states_of(labels)
            residual[states, positions] += sign * by_position[positions]
        edge_residual = self.structure.counts(worst.states, weights)
        return ViolationEvaluation(
            np.maximum(worst.score - label_scores, 0.0),  # rounding may leave less than that of y_i itself
            residual,
            edge_residual - self.observed_edges(weights),
            self.distances(worst.states),
        )

    def loss_augmented_decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        """Return the labelling of every item that violates its margin most, and L + score of it, (I,)."""
        raised = scores + 0.5
        states, positions = self.observed_at(np.arange(self.n_positions))
        raised[states, positions] -= 1.0
        worst = self.structure.decode(raised, edges, pool)
        return Decoded(worst.states, worst.score + 0.5 * self._by_item(positions))

    def distances(self, labels: Labels) -> Vector:
        """Return L(y_i, y) of labellings y, int32 (N,): (I,)."""
        states, positions = self.states_of(labels)
        observed, at = self.observed_at(np.arange(self.n_positions))
        n = max(self.n_positions, 1)
        shared = np.intersect1d(states * n + positions, observed * n + at, assume_unique=True) % n
        return 0.5 * (self._by_item(positions) + self._by_item(at)) - self._by_item(shared)

    def _by_item(self, positions: NDArray[np.integer], terms: Vector | None = None) -> Vector:
        """Sum terms (1 by default) at positions over their items, (I,)."""
        item_of = np.repeat(np.arange(self.n_items), np.diff(self.structure.offsets))
        return np.bincount(item_of[positions], terms, self.n_items).astype(np.float64)

    def dual(self, evaluation: ViolationEvaluation, weights: Vector) -> LinearDual:
        return LinearDual(float(weights @ evaluation.distances))
