"""Trust in the quadratic model: the diagonal that is added to it, larger after steps that disappoint.

    D = coordinate damping + scale * diagonal of B0 + majorant_share * majorant curvature

The damping of a coordinate is what a step has met there beyond the model. Where a state is all but excluded the
model has no curvature, and a dozen features that meet at the same positions may raise it by ten nats together: the
gradient changes by a hundred times what was predicted, for these coordinates and no others. The trial's own gradient
says which: (y - B d)_j / d_j is the diagonal that would have stopped coordinate j in time. (Weights that leave zero
together have one for all: d'(y - B d) / d'd.) On CoNLL-2000 (l1 = 1) 55 passes to 1.5e-4 with it, and 120 with a
scale for all coordinates in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.solvers.protocols import Blocks, Vector

PATIENCE = 3  # failures of a step before all coordinates are held back: single ones alone give no guarantee
# Of the mean surprise of a block: what is below may be rounding, divided by next to nothing.
NOTICEABLE = 1e-4
SOFTENING = 0.25  # of the coordinates' damping, after a step that did what was predicted of it
FIRST_SCALE = 0.1
SMALLEST_SCALE = 1e-3
LEAST_SHARE = 0.01
WARM_SHARE = 0.25  # where there are weights to start from: MNIST takes 6 passes to 1e-3 with it, 8 with 1


class TriedStep(NamedTuple):
    """A trial w + d: y, the change of the gradient, and model_d = B d, (n,); the penalty's blocks."""

    d: Vector
    y: Vector
    model_d: Vector
    blocks: Blocks

    def excess_curvature(self) -> Vector:
        """Return the curvature beyond the model, one number for each block, spread over its coordinates (n,)."""
        surprise = np.maximum(self.blocks.total(self.d * (self.y - self.model_d)), 0.0)
        counts = surprise > NOTICEABLE * surprise.mean() if surprise.size else np.empty(0, bool)
        squares = self.blocks.total(self.d * self.d)
        per_block = np.zeros(surprise.size)
        np.divide(surprise, squares, out=per_block, where=counts & (squares > 0))
        return self.blocks.spread(per_block)


@dataclass
class Damping:
    """Diagonal that is added to B0.

    The majorant is the curvature that a coordinate may meet on its way to a fit (`metric.majorant_curvature`). It is
    needed while the model is poor: at w = 0 a rare label has hardly any curvature, and a Newton step sends its weights
    far beyond the optimum (LSHTC1, 2387 nodes: 145 passes to 1e-4 with a constant in its place, 51 with it). Where the
    model is good it would make the last digits linear: `majorant_share` falls with every step that does what was
    predicted of it, and comes back to `initial` with new coordinates.
    """

    uses_majorant: bool = True
    scale: float = 0.0
    initial: float = 1.0
    majorant_share: float = 1.0

    def open_epoch(self, n_active: int, is_complete: bool) -> None:
        """Begin with a new active set; `is_complete`: every violating coordinate is in it."""
        self.scale, self.n_failures = 0.0, 0
        self.by_coordinate = np.zeros(n_active)
        if not is_complete:
            self.majorant_share = max(self.majorant_share, self.initial)

    def restrict(self, keep: NDArray[np.bool_]) -> None:
        """Follow an active set that shrinks."""
        self.by_coordinate = self.by_coordinate[keep]

    def diagonal(self, diagonal: Vector, majorant: Vector) -> Vector:
        """Return the diagonal to add to B0, (n,)."""
        damping = self.by_coordinate + self.scale * diagonal
        return damping + self.majorant_share * majorant if self.uses_majorant else damping

    def after_failure(self, trial: TriedStep) -> None:
        """Damp more where a trial that has not decreased the objective enough met more curvature than the model."""
        self.by_coordinate = np.maximum(self.by_coordinate, trial.excess_curvature())
        self.n_failures += 1
        if self.n_failures >= PATIENCE:
            self.scale = max(FIRST_SCALE, 4.0 * self.scale)
            self.majorant_share = 1.0

    def after_step(self, ratio: float, trial: TriedStep) -> None:
        """Adapt by the trust-region rule; `ratio`: of the decrease to the predicted one."""
        self.n_failures = 0
        if ratio > 0.75:
            self.by_coordinate *= SOFTENING
            self.scale = 0.25 * self.scale if self.scale > SMALLEST_SCALE else 0.0
            self.majorant_share = max(LEAST_SHARE, 0.5 * self.majorant_share)
        elif ratio < 0.5:
            self.by_coordinate = np.maximum(self.by_coordinate, trial.excess_curvature())
