"""The separable penalty: l1 |w_j| + l2/2 w_j^2, with unpenalised coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.kernels.subproblem.coordinates import descend
from crfqn.penalties.blocks import Blocks
from crfqn.threads import Pool

NO_COORDS = np.empty(0, np.int64)


def check_strengths(penalty: Any, *names: str) -> None:
    """Refuse strengths that are negative or not finite."""
    for name in names:
        strength = getattr(penalty, name)
        if not (np.isfinite(strength) and strength >= 0):
            raise InputError(f"{name}: expected a finite number >= 0, got {strength!r}")


def strength_of(
    coords: NDArray[np.int64], strength: float, unpenalised: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The strength of each coordinate, 0 of the unpenalised ones."""
    return (
        np.where(np.isin(coords, unpenalised), 0.0, strength)
        if unpenalised.size
        else np.full(coords.size, strength)
    )


@dataclass(frozen=True, eq=False)
class ElasticNet:
    """l1 ||w||_1 + l2/2 ||w||^2 over all coordinates but those `unpenalised`.

    Parameters
    ----------
    l1, l2 : float >= 0, in nats a unit of weight: the loss is a sum over items, not a mean.
    unpenalised : sorted ndarray of int64: coordinates without penalty (intercepts).
    """

    l1: float = 0.0
    l2: float = 0.0
    unpenalised: NDArray[np.int64] = field(default_factory=lambda: NO_COORDS)

    def __post_init__(self) -> None:
        check_strengths(self, "l1", "l2")

    @property
    def dual_radius(self) -> float:
        """What the gradient of a zero may be: the measure of a violation."""
        return self.l1

    @property
    def is_separable(self) -> bool:
        return True

    def scaled(self, factor: float) -> ElasticNet:
        """The penalty that belongs to a loss over a share of the items."""
        return ElasticNet(factor * self.l1, factor * self.l2, self.unpenalised)

    def l1_of(self, coords: NDArray[np.int64]) -> NDArray[np.float64]:
        """The L1 strength of each coordinate."""
        return strength_of(coords, self.l1, self.unpenalised)

    def l2_of(self, coords: NDArray[np.int64]) -> NDArray[np.float64]:
        """The L2 strength of each coordinate."""
        return strength_of(coords, self.l2, self.unpenalised)

    def at(self, coords: NDArray[np.int64]) -> LocalElasticNet:
        """The penalty at some coordinates."""
        return LocalElasticNet(self.l1_of(coords), self.l2_of(coords))

    def value(self, coords: NDArray[np.int64], w: NDArray[np.float64]) -> float:
        """The penalty of weights w at `coords`."""
        return self.at(coords).value(w)

    def prox(self, coords: NDArray[np.int64], w: NDArray[np.float64], step: float) -> NDArray[np.float64]:
        """argmin_v 1/2 ||v - w||^2 + step * penalty(v): soft-threshold, then scale."""
        shrunk = np.sign(w) * np.maximum(np.abs(w) - step * self.l1_of(coords), 0.0)
        return shrunk / (1.0 + step * self.l2_of(coords))

    def violation(
        self, coords: NDArray[np.int64], w: NDArray[np.float64], g: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Distance of -g to the subdifferential at w, a coordinate each (|.| of the paper's equation 16)."""
        return self.at(coords).violation(w, g)

    def screen(self, point: Any) -> Any:
        """The coordinates with |gradient| above l1: the zeros that may move, the unpenalised ones perhaps left out."""
        return point.screen(self.l1)

    def conjugate(self, coords: NDArray[np.int64], g: NDArray[np.float64]) -> float:
        """The conjugate at -g: what a dual point with this gradient costs; infinite where it is infeasible.

        `coords` must hold every coordinate with |g| above its L1 strength.
        """
        l1, l2 = self.l1_of(coords), self.l2_of(coords)
        excess = np.maximum(np.abs(g) - l1, 0.0)
        # A few roundings above the bound are the rounding of the scale that put the gradient on it.
        excess[excess <= 1e-14 * l1] = 0.0
        if np.any((l2 == 0) & (excess > 0)):
            return np.inf
        return float(np.sum(excess**2 / np.where(l2 > 0, 2 * l2, 1.0)))

    def dual_scales(self, coords: NDArray[np.int64], g: NDArray[np.float64]) -> list[float]:
        """Factors s worth trying in a certificate: s g is feasible, or costs little."""
        l1 = self.l1_of(coords)
        above = np.abs(g) > l1
        largest_ratio = float(
            np.max(np.abs(g[above]) / np.where(l1[above] > 0, l1[above], np.nan), initial=1.0)
        )
        scales = [1.0 / largest_ratio] if np.isfinite(largest_ratio) else []
        if self.l2 > 0:
            scales += [1.0, *(0.5 * (1.0 + s) for s in scales)]
        return scales


@dataclass(frozen=True, eq=False)
class LocalElasticNet:
    """The elastic net at some coordinates, its strengths looked up once.

    Parameters
    ----------
    l1, l2 : float64 (n,)
    """

    l1: NDArray[np.float64]
    l2: NDArray[np.float64]

    @property
    def blocks(self) -> Blocks:
        """Every coordinate is a block of its own."""
        return Blocks.single(self.l1.size)

    @property
    def threshold(self) -> NDArray[np.float64]:
        """What `pull` of each zero has to exceed before it moves."""
        return self.l1

    def dual_norm(self, w: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
        """|g| of zeros, infinite for other weights."""
        return np.where(w != 0, np.inf, np.abs(g))

    def value(self, w: NDArray[np.float64]) -> float:
        """The penalty of weights w."""
        return float(self.l1 @ np.abs(w) + 0.5 * (self.l2 @ (w * w)))

    def violation(self, w: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance of -g to the subdifferential at w, a coordinate each."""
        slope = g + self.l2 * w
        return np.where(
            w != 0, np.abs(slope + np.sign(w) * self.l1), np.maximum(np.abs(slope) - self.l1, 0.0)
        )

    def largest_violation(self, w: NDArray[np.float64], g: NDArray[np.float64]) -> float:
        """The largest of them."""
        return float(self.violation(w, g).max(initial=0.0))

    def derivatives(self, w: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradient (n,) and Hessian (n, n) at weights of which none is zero but unpenalised ones."""
        return np.sign(w) * self.l1 + self.l2 * w, np.diag(self.l2)

    def descend(
        self,
        model: tuple[NDArray, ...],
        damping: NDArray[np.float64],
        g: NDArray[np.float64],
        w: NDArray[np.float64],
        max_sweeps: int,
        tolerance: float,
        d: NDArray[np.float64],
        base_d: NDArray[np.float32],
        pool: Pool,
    ) -> int:
        """Solve the quadratic model for d, by coordinate (`kernels.descent`): too little each for several threads."""
        return descend(*model, damping, g, w, self.l1, self.l2, max_sweeps, tolerance, d, base_d)
