"""Dual variables of structured hinges: each item's distribution over its labellings, and the weights.

Kept are the labellings with a share, its planes, some of the K^T of an item. The kernels (`frank_wolfe_kernels.py`)
have the equations. Shapes: I items, N positions, F features, K states; width = K rounded up to LANES.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError, ViewError
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.solvers.dual.frank_wolfe_kernels import GAIN, OPERATIONS, Planes, improve
from crfqn.solvers.stochastic.state import LearnedRows

FEWEST_PLACES = 4  # of an item at first, as most have one to three planes


class FrankWolfeState(LearnedRows):
    """Dual variables of the items, and the weights that they make; all expect at first what is observed, w = 0.

    owner, penalty : the objective with structured hinges; l2/2 ||w||^2 with l2 > 0, InputError for others
    rows : AveragedRows, w
    planes : Planes of each part
    """

    method = "block-coordinate Frank-Wolfe"

    def __init__(self, owner: Objective, penalty: Any) -> None:
        if not penalty.l2 > 0 or penalty.unpenalised.size:
            raise InputError(
                "block-coordinate Frank-Wolfe needs a penalty l2/2 ||w||^2 with l2 > 0 on all weights, got "
                f"l2 = {penalty.l2:g} and {penalty.unpenalised.size} weights without penalty"
            )
        super().__init__(owner)
        self.l2 = penalty.l2
        self.rows = self.averaged_rows(has_mean=False)
        self.planes = [observed_planes(part) for part in self.parts]
        self._gaps = np.full(owner.n_items, np.inf)
        self._gaps_of_planes = self._gaps.copy()
        self._masses = [part.weights / self.l2 for part in self.parts]

    @classmethod
    def check_loss(cls, loss: Any) -> None:
        """Raise ViewError for other losses than structured hinges, and for structures without compiled updates."""
        if not loss.has_violations:
            raise ViewError(f"{cls.method} needs a structured hinge; the loss is {type(loss).__name__}")
        cls.check_structure(loss.structure)

    @property
    def gaps(self) -> Vector:
        """Each item's part of the duality gap when it was last visited, infinite before, (n_items,)."""
        return self.l2 * self._gaps[self.items]

    def make_room(self) -> None:
        """Give items whose places are all in use as many again."""
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

    def visit(
        self, order: NDArray[np.integer], moves: bool = True, among_planes: bool = False
    ) -> tuple[float, float]:
        """Measure the gaps of the items `order`, numbers below `n_items`, and take a step on each if it moves, towards
        the worst of all labellings or, in chains, of those of its planes. Sequential, whatever the number of threads.

        Returns about how many multiplications it took, and by how much the dual objective has risen.
        """
        totals = np.zeros(2)
        for which, items in self.runs(order):
            planes = self.planes[which]
            measured = self._gaps_of_planes if among_planes else self._gaps
            gaps = measured[self.bounds[which] : self.bounds[which + 1]]
            data = self.item_data(which)._replace(weights=self._masses[which])
            improve(items, data, self.item_structure, planes, among_planes, moves, gaps, self.rows, totals)
        if not among_planes:
            self._gaps_of_planes[self.items[order]] = self._gaps[self.items[order]]
            self.owner.n_passes += order.size / max(self.n_items, 1)
        return float(totals[OPERATIONS]), self.l2 * float(totals[GAIN])

    def promising(self) -> NDArray[np.intp]:
        """Return the items that steps among planes are worth: the others have at most a tenth of these gaps together,
        as they were last seen."""
        gaps = self._gaps_of_planes[self.items]
        return np.flatnonzero(gaps > 0.1 * gaps.mean())

    @property
    def has_lattices(self) -> bool:
        """Whether steps among planes ask for less than all labellings."""
        return self.item_structure.is_chain

    def dual_value(self) -> float:
        """Return sum_i c_i (expected L) - l2/2 ||w||^2."""
        total = -0.5 * self.l2 * float(np.einsum("fk,fk->", self.rows.weights, self.rows.weights))
        for part, planes in zip(self.parts, self.planes, strict=True):
            total += float(np.repeat(part.weights, np.diff(planes.first)) @ (planes.shares * planes.losses))
        return total

    def point(self) -> Point:
        """Return the point of the weights."""
        return self.owner.at(*self.sparse(self.rows.weights))


def observed_planes(part: Any) -> Planes:
    """Return the observed labelling of each item with all of its share."""
    first = FEWEST_PLACES * np.arange(part.n_items + 1)
    shares, losses = np.zeros((2, first[-1]))
    shares[first[:-1]] = 1.0
    heads = FEWEST_PLACES * part.map.offsets[:-1].astype(np.int64)
    labels = np.zeros(FEWEST_PLACES * part.n_positions, np.int32)
    labels[ranges_of(heads, np.diff(part.map.offsets))] = part.loss.targets
    return Planes(first, np.ones(part.n_items, np.int64), shares, losses, heads, labels)


def ranges_of(begins: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the indices begins[i] ... begins[i] + lengths[i] - 1 of all i."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(begins - ends + lengths, lengths)
