"""Views of weights that learn item by item."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.objectives.protocols.objective import Point


class SGDState(Protocol):
    """Dense weights that learn an item at a time.

    Attributes
    ----------
    n_items : int, the items whose weight is not 0
    item_square : float, the mean over these of weight * sum_t |x_t|^2: a step's curvature is in proportion
    """

    @property
    def n_items(self) -> int: ...

    @property
    def item_square(self) -> float: ...

    def restart(self, start: tuple[Coords, Vector]) -> None:
        """Forget what was learned, and begin at these weights."""

    def learn(self, order: NDArray[np.int64], eta0: float) -> None:
        """Take a step on each of the items `order`, numbers below `n_items`, at rates that begin with eta0."""

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""


class OnlineView(Protocol):
    """Learning item by item under l1 ||w||_1 + l2/2 ||w||^2 with unpenalised coordinates, for stochastic gradients."""

    def start(
        self, start: tuple[Coords, Vector], l1: float, l2: float, unpenalised: Coords, share: float = 1.0
    ) -> SGDState: ...


class Learned(NamedTuple):
    """What `AveragedState` has learned, for more items of the same states, and perhaps of more features.

    Attributes
    ----------
    weights, corrections : float64 (F + K, width), dense rows of features and then of labels
    counters : float64, of items and of mistakes
    n_features : int, F
    """

    weights: NDArray[np.float64]
    corrections: NDArray[np.float64]
    counters: NDArray[np.float64]
    n_features: int


class AveragedState(Protocol):
    """Dense weights that learn from the mistakes of the best labellings, and the mean of all that they have been."""

    @property
    def n_items(self) -> int: ...

    def correct(self, order: NDArray[np.int64], aggressiveness: float) -> int:
        """Label the items and learn from the mistakes; returns the number of wrong positions."""

    def learned(self) -> Learned:
        """Return all that has been learned."""

    def resume(self, learned: Learned) -> None:
        """Go on from what was learned before; further features begin at zero."""

    def point(self) -> Point:
        """Return the point of the mean of the weights, which costs a pass only if it is asked for values."""


class MistakeView(Protocol):
    """Learning from mistakes item by item, for the averaged perceptron and passive-aggressive learning."""

    def start(self, start: tuple[Coords, Vector]) -> AveragedState: ...


class FobosState(Protocol):
    """Dense rows of weights that take forward-backward steps on single items; methods as of `SGDState`."""

    @property
    def n_items(self) -> int: ...

    def learn(self, order: NDArray[np.int64], eta0: float) -> None: ...

    def weights(self) -> tuple[Coords, Vector]: ...


class RowLearningView(Protocol):
    """Learning item by item under penalties of rows, for stochastic forward-backward splitting."""

    def start(self, start: tuple[Coords, Vector], penalty: Any, share: float = 1.0) -> FobosState: ...
