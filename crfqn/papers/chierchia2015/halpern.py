"""Halpern's iteration over the steps of FBPD, with restarts (Applegate et al. 2021; Lu and Yang 2024).

If a problem is nearly a linear programme, such as a sparse hinge, the steps F of FBPD circle around the optimum. The
iteration

    z <- a (2 F(z) - z) + (1 - a) z0,   a = (k + 1) / (k + 2)

converges faster. It restarts from a new anchor z0 when the residual ||F(z) - z|| has fallen enough; omega then moves
towards ||y - y0|| / ||x - x0|| (Applegate et al. 2021, section 3; Lu and Yang 2024, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from crfqn.arrays import SparseWeights, Vector
from crfqn.result import Status
from crfqn.solvers.screened_point import aligned

# Restart if the residual has fallen to the first ratio of its value at the anchor, or to the second one and rises
# again, or if the epoch has this share of all steps: the constants of cuPDLP (Lu and Yang 2023).
RESTART_DECREASE, RESTART_DECREASE_WHEN_RISING, MAX_EPOCH_SHARE = 0.2, 0.8, 0.36


class Iterate(NamedTuple):
    """An iterate of FBPD.

    x : the weights
    images : T x and, in Algorithm 2, zeta
    duals : their dual variables, y and xi
    """

    x: SparseWeights
    images: tuple[Vector, ...]
    duals: tuple[Vector, ...]


class StepSizes(NamedTuple):
    """tau and sigma, for which tau sigma ||T||^2 = 1."""

    tau: float
    sigma: float


class FBPDIteration:
    """The iteration of either algorithm: its steps F as printed, or Halpern's iteration over them with restarts.

    z, moved : the start of the next step, and the result of the last step
    anchor, n_steps, k : z0; the number of steps, and of those since the anchor
    omega : sigma ||T||; adapted at restarts if it was not given
    end : `RULE_MET` if the last step has met the paper's stopping rule, else None
    """

    def __init__(self, z: Iterate, norm: float, omega: float | None, weights: Vector, restarts: bool) -> None:
        """norm : ||T||; weights : of the items, which give the first omega if none is given: a step then moves y_i by
        up to its bound c_i at a margin of 1."""
        self.z = self.moved = self.anchor = z
        self.norm, self.omega = norm, omega or norm * float(np.sqrt(np.mean(weights**2)))
        self.restarts, self.adapts = restarts, omega is None
        self.end: Status | None = None
        self.n_steps = self.k = 0
        self.first = self.before = np.inf  # residuals

    @property
    def size(self) -> StepSizes:
        return StepSizes(1.0 / (self.omega * self.norm), self.omega / self.norm)

    def advance(
        self, step: Callable[[Iterate, StepSizes], Iterate], n_steps: int, change: float | None
    ) -> None:
        """Take `n_steps` steps; end early if the relative change of the weights is up to `change`, the paper's rule."""
        for _ in range(n_steps):
            before, self.moved = self.moved.x, step(self.z, self.size)
            self.z = self._following() if self.restarts else self.moved
            x = self.moved.x
            self.end = None
            if change is not None and 0.0 < distance(x, before) <= change * float(np.linalg.norm(x.weights)):
                self.end = Status.RULE_MET
                break

    def _following(self) -> Iterate:
        """Return the start of the next step, after one from z to F(z)."""
        z, moved, (tau, sigma) = self.z, self.moved, self.size
        # The residual ||F(z) - z|| in the norm in which F is firmly non-expansive.
        total = distance(z.x, moved.x) ** 2 / tau
        for n, pair in enumerate(zip(z.images, moved.images, z.duals, moved.duals, strict=True)):
            image, dual = pair[1] - pair[0], pair[3] - pair[2]
            total += float(np.vdot(dual, dual)) / sigma - 2.0 * float(np.vdot(image, dual))
            if n:  # zeta, with a separate tau
                total += sigma * float(np.vdot(image, image))
        residual = float(np.sqrt(max(total, 0.0)))
        self.n_steps += 1
        if self.k == 0:
            self.first = residual
        has_fallen = residual <= RESTART_DECREASE * self.first or (
            self.before < residual <= RESTART_DECREASE_WHEN_RISING * self.first
        )
        self.before = residual
        if self.k == 0 or not (has_fallen or self.k >= MAX_EPOCH_SHARE * self.n_steps):
            a = (self.k + 1.0) / (self.k + 2.0)
            self.k += 1
            return combined((2.0 * a, -a, 1.0 - a), (moved, z, self.anchor))
        far_x = distance(moved.x, self.anchor.x)
        changes = (after - before for before, after in zip(self.anchor.duals, moved.duals, strict=True))
        far_y = np.sqrt(sum(float(np.vdot(change, change)) for change in changes))
        if self.adapts and far_x > 0.0 and far_y > 0.0:
            self.omega = float(np.sqrt(self.omega * far_y / far_x))
        self.anchor, self.k, self.before = moved, 0, np.inf
        return moved


def combined(shares: tuple[float, ...], iterates: tuple[Iterate, ...]) -> Iterate:
    """Return the sum of shares of iterates."""

    def mixed(parts: Sequence[Vector]) -> Vector:
        return sum((share * part for share, part in zip(shares, parts, strict=True)), np.zeros(()))

    coords, weights = aligned(*((z.x.coords, z.x.weights) for z in iterates))
    images = tuple(map(mixed, zip(*(z.images for z in iterates), strict=True)))
    duals = tuple(map(mixed, zip(*(z.duals for z in iterates), strict=True)))
    return Iterate(SparseWeights(coords, mixed(weights)), images, duals)


def distance(a: SparseWeights, b: SparseWeights) -> float:
    """Return ||a - b||."""
    _, (at_a, at_b) = aligned((a.coords, a.weights), (b.coords, b.weights))
    return float(np.linalg.norm(at_a - at_b))
