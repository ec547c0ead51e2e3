"""Views of the weights by rows, for row descent."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.objectives.protocols.objective import Point


class LineSearch(NamedTuple):
    """Settings of the search along a row's step (equation 7); by default the paper's.

    sigma, omega : the share of the predicted decrease that is asked for, and the backtracking factor
    least_share : of the row's largest second derivative, what that of each state counts at least
    """

    sigma: float = 0.01
    omega: float = 0.5
    least_share: float = 1.0


class Swept(NamedTuple):
    """Findings of a sweep over rows, (steps,): violations (equation 9), and the excess of zero rows, inf for others.

    The excess is the gradient's dual norm less the threshold that it may reach while the row stays zero.
    """

    violations: Vector
    kkt_excess: Vector


class RowGradients(Protocol):
    """Result of a full gradient scan by rows: rows that are not zero or may leave zero, and a certificate."""

    @property
    def value(self) -> float: ...

    @property
    def features(self) -> NDArray[np.int64]: ...

    @property
    def dual_norms(self) -> Vector: ...

    @property
    def violation(self) -> float: ...

    def dual_scales(self) -> list[float]: ...

    def conjugate(self, scale: float) -> float: ...

    def dual_value(self, scale: float) -> float: ...


class RowHistory(Protocol):
    """The points of some sweeps, for Anderson acceleration."""

    @property
    def next_margins(self) -> Vector: ...

    def restart(self, first: RowBlocks) -> None: ...

    def add(self, blocks: RowBlocks) -> None: ...

    def extrapolated(self, blocks: RowBlocks) -> RowBlocks | None: ...


class RowBlocks(Protocol):
    """Rows of the weights, the others being zero, and margins that follow every change of one.

    Attributes
    ----------
    objective : whose rows they are
    stored_rows : sorted int64, features, among them all whose rows are not zero
    row_weights : float64 (stored rows, K)
    state : what the kernels know of each position
    """

    objective: Any
    stored_rows: NDArray[np.int64]
    row_weights: Vector
    state: Any

    @property
    def n_rows(self) -> int: ...

    def store(self, features: NDArray[np.int64]) -> None: ...

    def shuffled(self, features: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]: ...

    def interleaved(self, order: NDArray[np.int64], penalty: Any, share: float) -> NDArray[np.int64]: ...

    def sweep(
        self,
        order: NDArray[np.int64],
        penalty: Any,
        search: LineSearch | None,
        margins_out: Vector | None,
    ) -> Swept:
        """Update rows one after another; search: None for constant steps.

        margins_out : out, a copy of the margins after the sweep
        """

    def value(self, penalty: Any) -> float: ...

    def screen(self, penalty: Any) -> RowGradients: ...

    def point(self) -> Point: ...

    def history(self, n_points: int) -> RowHistory: ...

    def with_weights(self, weights: Vector, margins: Vector) -> RowBlocks: ...


class RowView(Protocol):
    """Rows of the weights with margins that follow them, for block coordinate descent over rows."""

    def at(self, point: Any) -> RowBlocks: ...
