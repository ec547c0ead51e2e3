"""Views of blocks of weights that change one after the other, by feature."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.kernels.subproblem.feature_blocks import SweepRule
from crfqn.objectives.protocols.objective import Point


class BlockSweep(NamedTuple):
    """Findings of the updates of B blocks.

    Attributes
    ----------
    violations : float64 (B,), the largest KKT violation of each block before its update
    is_kept : bool (B,), whether each stays after shrinking
    n_moved, n_failed : blocks that have moved, and whose line search found no step
    """

    violations: Vector
    is_kept: NDArray[np.bool_]
    n_moved: int
    n_failed: int


class BlockState(Protocol):
    """The loss while blocks of weights, all states of a feature or the edges, change one after the other.

    Attributes
    ----------
    blocks : int64, all blocks, by number
    weights : the weights that are not 0
    value : float, the loss in nats; rounding : float, the size of the numbers that its changes are sums of
    """

    @property
    def blocks(self) -> Coords: ...

    @property
    def weights(self) -> SparseWeights: ...

    @property
    def value(self) -> float: ...

    @property
    def rounding(self) -> float: ...

    def point(self) -> Point:
        """Return the point at the present weights, from scratch."""

    def blocks_of(self, coords: Coords) -> Coords:
        """Return the blocks that hold some of the coordinates, ascending."""

    def coords(self, blocks: Coords) -> Coords:
        """Return the coordinates of the blocks, one block after the other."""

    def weights_of(self, block: int) -> Vector:
        """Return all weights of a block, zeros included."""

    def derivatives(self, block: int) -> tuple[Vector, Vector]:
        """Return gradient and curvature of a block's weights."""

    def try_move(self, block: int, delta: Vector, step: float = 1.0) -> float:
        """Return the change of the loss if the block moves by step * delta; then `accept`, `reject` or try again."""

    def accept(self) -> None:
        """Take over the move that was tried last."""

    def reject(self) -> None:
        """Forget the move that was tried last."""

    def batches(self, blocks: Coords) -> list[Coords]:
        """Cut blocks, in their order, into what one call of `descend` may take."""

    def descend(self, blocks: Coords, l1: Vector, l2: Vector, rule: SweepRule) -> BlockSweep:
        """Update blocks one after the other under the strengths l1 and l2 of their coordinates."""


class FeatureBlockView(Protocol):
    """The loss while blocks of weights change, for block coordinate descent by feature."""

    def at(self, point: Any) -> BlockState: ...
