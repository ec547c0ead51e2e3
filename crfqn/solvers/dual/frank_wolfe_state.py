"""State of block-coordinate Frank-Wolfe: each item's distribution over its labellings, and the weights.

Of the K^T labellings of an item the state stores those with a positive share, the planes. The equations are in
`solvers/stochastic/frank_wolfe_kernels.py`. Shapes: I items, N positions, F features, K states; width = K rounded up to
LANES.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import Point
from crfqn.penalties.penalty import Penalty
from crfqn.solvers.stochastic.frank_wolfe_kernels import GAIN, OPERATIONS, PairwiseSteps, Planes
from crfqn.solvers.stochastic.item_kernels import ItemData, ItemSpace
from crfqn.solvers.stochastic.state import LearnedRows

INITIAL_PLACES = 4  # memory for planes of an item at the start; usually there are one to three
MIN_GAP_RATIO = 0.1  # steps among planes visit items whose gap is above this ratio of the mean


class FrankWolfeState(LearnedRows):
    """Dual variables of the items, and the weights; at the start all shares are at the observed labellings, w = 0.

    owner, penalty : the objective with structured hinges; l2/2 ||w||^2 with l2 > 0, InputError for others
    rows : LearnedWeights, w
    planes : Planes of each part
    """

    method = "block-coordinate Frank-Wolfe"

    def __init__(self, owner: Objective, penalty: Penalty) -> None:
        if not penalty.l2 > 0 or penalty.unpenalised.size:
            raise InputError(
                "block-coordinate Frank-Wolfe needs a penalty l2/2 ||w||^2 with l2 > 0 on all weights, got "
                f"l2 = {penalty.l2:g} and {penalty.unpenalised.size} weights without penalty"
            )
        super().__init__(owner)
        self.l2 = penalty.l2
        self.rows = self.new_weights()
        self.planes = [observed_planes(part) for part in self.parts]
        self._gaps = np.full(owner.n_items, np.inf)
        self._gaps_of_planes = self._gaps.copy()
        self._violations = np.empty(INITIAL_PLACES)  # scratch for the planes of an item
        # Steps among planes then need not decode all labellings.
        self.has_lattices = self.item_structure.is_chain
        self._masses = [part.weights / self.l2 for part in self.parts]

    @classmethod
    def check_loss(cls, loss: ScoreLoss) -> None:
        """Raise UnsupportedObjectiveError unless the loss is a structured hinge with compiled updates."""
        if not loss.has_violations:
            raise UnsupportedObjectiveError(
                f"{cls.method} needs a structured hinge; the loss is {type(loss).__name__}"
            )
        cls.check_structure(loss.structure)

    @property
    def gaps(self) -> Vector:
        """Each item's part of the duality gap at its last visit, infinite before, (n_items,)."""
        return self.l2 * self._gaps[self.items]

    def make_room(self) -> None:
        """Double the memory of items whose places are all in use."""
        for which, planes in enumerate(self.planes):
            places = np.diff(planes.first)
            is_full = planes.n_used == places
            if not is_full.any():
                continue
            lengths = np.diff(self.parts[which].map.offsets)
            first = np.concatenate([[0], np.cumsum(np.where(is_full, 2 * places, places))])
            heads = np.concatenate([[0], np.cumsum(np.diff(first) * lengths)])
            shares, losses = np.zeros((2, first[-1]))
            labels = np.zeros(heads[-1], np.int32)
            used = ranges_of(first[:-1], places)
            shares[used], losses[used] = planes.shares, planes.losses
            labels[ranges_of(heads[:-1], places * lengths)] = planes.labels
            self.planes[which] = Planes(first, planes.n_used, shares, losses, heads[:-1], labels)
            self._violations = np.empty(max(self._violations.size, int(np.diff(first).max())))

    def visit(self, order: NDArray[np.integer], among_planes: bool = False) -> tuple[float, float]:
        """Compute the gap of each of the items `order` and take a step towards the labelling with the largest violation
        of all or, with `among_planes`, of its planes.

        Returns the approximate number of multiplications, and the increase of the dual objective.
        """
        totals = self.rows.counters
        totals[:] = 0.0
        self.step(order, (self._gaps_of_planes if among_planes else self._gaps, among_planes))
        if not among_planes:
            self._gaps_of_planes[self.items[order]] = self._gaps[self.items[order]]
            self.owner.n_passes += order.size / max(self.n_items, 1)
        return float(totals[OPERATIONS]), self.l2 * float(totals[GAIN])

    def item_data(self, which: int) -> ItemData:
        return super().item_data(which)._replace(weights=self._masses[which])

    def new_space(self, longest: int) -> ItemSpace:
        lattice = np.empty((2, longest if self.has_lattices else 0, self.n_states), np.int32)
        return super().new_space(longest)._replace(lattice=lattice)

    def steps(self, which: int, settings: Any, entries: Any, space: ItemSpace) -> tuple[Any, ...]:
        planes, (measured, among_planes) = self.planes[which], settings
        pairwise = PairwiseSteps(planes, measured[self.bounds[which] : self.bounds[which + 1]], among_planes)
        return None, pairwise, None, entries, space._replace(numbers=self._violations)

    def promising(self) -> NDArray[np.intp]:
        """Return the items whose last gaps are large enough for steps among planes."""
        gaps = self._gaps_of_planes[self.items]
        return np.flatnonzero(gaps > MIN_GAP_RATIO * gaps.mean())

    def dual_value(self) -> float:
        """Return sum_i c_i (expected L) - l2/2 ||w||^2."""
        total = -0.5 * self.l2 * float(np.einsum("fk,fk->", self.rows.weights, self.rows.weights))
        for part, planes in zip(self.parts, self.planes, strict=True):
            total += float(np.repeat(part.weights, np.diff(planes.first)) @ (planes.shares * planes.losses))
        return total

    def point(self) -> Point:
        """Return the point of the weights."""
        return self.owner.at(*self.sparse(self.rows.weights))


def observed_planes(part: Part) -> Planes:
    """Return the observed labelling of each item with a share of 1."""
    first = INITIAL_PLACES * np.arange(part.n_items + 1)
    shares, losses = np.zeros((2, first[-1]))
    shares[first[:-1]] = 1.0
    heads = INITIAL_PLACES * part.map.offsets[:-1].astype(np.int64)
    labels = np.zeros(INITIAL_PLACES * part.n_positions, np.int32)
    labels[ranges_of(heads, np.diff(part.map.offsets))] = part.loss.targets
    return Planes(first, np.ones(part.n_items, np.int64), shares, losses, heads, labels)


def ranges_of(begins: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the indices begins[i] ... begins[i] + lengths[i] - 1 of all i."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(begins - ends + lengths, lengths)
