"""Views for bounds on the optimum: proved zeros, mixtures of items, the reach of unpenalised weights."""

from __future__ import annotations

from typing import Any, Protocol

from crfqn.arrays import Coords, Vector


class ZeroProofView(Protocol):
    """Ranges within which gradients can move, for proofs that zeros are zeros of the optimum."""

    def range_of(self, coords: Coords) -> Vector:
        """Return sqrt(sum_i weight_i r_ij^2), r_ij how far the count of j can move within item i."""

    def count_within(self, point: Any, bound: float, scale: float, radius: float) -> int:
        """Count the coordinates j with scale |g_j| + radius spread_j < bound."""


class ItemMixtures(Protocol):
    """Mixtures s_i p_i + (1 - s_i) delta(y_i) of a point's distributions with the observed labels, a share an item."""

    def start(self) -> Any:
        """Return the state of the kernels in which all shares are 1."""

    def entries(self, coords: Coords) -> float:
        """Return the size of the parts of some coordinates, as a share of what is allowed."""

    def parts(self, coords: Coords) -> Any:
        """Return each item's part of the gradient by sorted coordinates, compressed by coordinate."""

    def dual_value(self, shares: Vector) -> float:
        """Return the dual loss of the mixtures."""

    def at_shares(self, shares: Vector) -> Any:
        """Return the point with the gradient of the mixtures."""


class ItemMixturesView(Protocol):
    """Dual points with a share for each item."""

    def at(self, point: Any) -> ItemMixtures: ...


class UnpenalisedReachView(Protocol):
    """Bounds on weights without penalty at an optimum, for dual points whose gradient there is not 0."""

    def at(self, point: Any) -> UnpenalisedReachView:
        """Return itself: the bounds are those of an optimum, whatever the point."""

    def reach(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on the unpenalised weights of some optimum, infinite where there is none.

        Parameters
        ----------
        value : the objective at any point, in nats: no item's loss at an optimum can be more
        norms : bounds on the sums of the penalised weights' sizes and on the root of the sum of their squares
        """
