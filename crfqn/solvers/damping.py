"""How far a step trusts the quadratic model: the diagonal that is added to it, larger after steps that disappoint."""

from __future__ import annotations

from dataclasses import dataclass

from crfqn.solvers.protocols import Vector

FIRST_SCALE = 0.1
SMALLEST_SCALE = 1e-3
LEAST_CAUTION = 0.01
WARM_CAUTION = 0.25  # where there are weights to start from: MNIST takes 6 passes to 1e-3 with it, 8 with 1


@dataclass
class Damping:
    """D = scale * diagonal of B0 + caution * roughness.

    The roughness is the curvature that a coordinate may meet on its way to a fit (`ActiveSet.measure_roughness`). It is
    needed while the model is poor: at w = 0 a rare label has hardly any curvature, and a Newton step sends its weights
    far beyond the optimum (LSHTC1, 2387 nodes: 145 passes to 1e-4 with a constant in its place, 51 with it). Where the
    model is good it would make the last digits linear: `caution` falls with every step that does what was predicted of
    it, and comes back to `opening` with new coordinates.
    """

    is_cautious: bool = True
    scale: float = 0.0
    opening: float = 1.0
    caution: float = 1.0

    def open_epoch(self, is_complete: bool) -> None:
        """A new active set; `is_complete`: every violating coordinate is in it."""
        self.scale = 0.0
        if not is_complete:
            self.caution = max(self.caution, self.opening)

    def of(self, diagonal: Vector, roughness: Vector) -> Vector:
        """The diagonal to add to B0."""
        damping = self.scale * diagonal
        return damping + self.caution * roughness if self.is_cautious else damping

    def after_failure(self) -> None:
        """The trial did not decrease the objective enough."""
        self.scale = max(FIRST_SCALE, 4.0 * self.scale)
        self.caution = 1.0

    def after_step(self, ratio: float) -> None:
        """The trust-region rule; `ratio`: of the decrease to the predicted one."""
        if ratio > 0.75:
            self.scale = 0.25 * self.scale if self.scale > SMALLEST_SCALE else 0.0
            self.caution = max(LEAST_CAUTION, 0.5 * self.caution)
        elif ratio < 0.25:
            self.scale = max(FIRST_SCALE, 2.0 * self.scale)
            self.caution = min(1.0, 4.0 * self.caution)
