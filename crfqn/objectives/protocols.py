"""Protocols of objectives, points and rays: all that solvers, penalties and wrappers know of a problem.

A problem answers eight messages: its facts, `at`, `along`, value and dual value, gradient, screening (with proofs),
curvature, `sample`. Points are handles: scores and residuals stay where the items are. What one method keeps over the
items is a *state*, asked for by its class. A solver names what it `requires`, and `minimize` asks for it first. Shapes:
I items, N positions, F features, K states; coordinates as in `linear/coordinates.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.errors import ViewError

STATE = 16.0  # of a position's messages, for each state: exponentials, scaling, marginals
RARE = 50.0  # positions that have a feature, on average over the features: OCR 2,500, CoNLL-2000 11
OVERHEAD = 1e6  # of a step beside its pass, however small the problem: half a millisecond
FETCHED = 3.0  # of a number added to or taken from scores somewhere in memory
Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # a metric: dense, or compressed by rows


class Operations(NamedTuple):
    """Operations of the passes over a problem: what solvers weigh their choices by, the same on every machine.

    Counts and no clocks: a choice by seconds would depend on the machine's mood, and the result with it. The unit is a
    multiplication and addition in registers; what is fetched from all over memory counts for several.
    inference, entries : messages and marginals of all items; numbers of the data that are not zero
    has_sequences : whether items have several positions, on average
    """

    inference: float
    entries: float
    n_features: int
    n_states: int
    has_sequences: bool

    @classmethod
    def of(
        cls, n_items: int, n_positions: int, n_edges: int, entries: float, n_features: int, n_states: int
    ) -> Operations:
        """Count those of a problem with so many items, positions, edge weights, entries, features and states."""
        inference = n_positions * (STATE * n_states + n_edges)
        return cls(inference, entries, n_features, n_states, n_positions >= 2 * n_items)

    @property
    def has_rare_features(self) -> bool:
        """Whether the data are like text: active features seldom meet, and a sample knows nothing of most of them."""
        return self.entries <= RARE * self.n_features

    @property
    def of_pass(self) -> float:
        """Image, inference and gradient, where about one weight of each entry is active."""
        return self.inference + 2.0 * FETCHED * self.entries

    @property
    def of_epoch(self) -> float:
        """Scores, inference, penalty and step, item by item: all weights of each entry."""
        return self.inference + FETCHED * self.entries * self.n_states


class Curvature(NamedTuple):
    """Curvature of single coordinates at a point: the diagonal of the token-wise model of the Hessian; majorant : how
    much one may meet on its way to a fit."""

    diagonal: Vector
    majorant: Vector


class ItemBound(NamedTuple):
    """A lower bound on the optimum, and the shares of the items that prove it, (I,)."""

    dual_value: float
    shares: Vector


class MethodState:
    """Base of what a method keeps over the items: dual variables, dense rows, margins that follow every step.

    It lives in the method's folder and is made by `objective.state(kind, ...)`, of items that are at hand.

    Attributes
    ----------
    is_constrained : whether it is made of a bound on the loss, in the place of the loss
    takes_blocks : whether it is made of items that come in blocks, too
    """

    is_constrained: ClassVar[bool] = False
    takes_blocks: ClassVar[bool] = False

    def __init__(self, objective: Any, *arguments: Any) -> None:
        raise NotImplementedError

    @classmethod
    def make(cls, objective: Any, *arguments: Any) -> Any:
        """Return the state of an objective; arguments as of the class."""
        return cls(objective, *arguments)

    @classmethod
    def check(cls, objective: Any) -> None:
        """Raise ViewError for objectives, sums of `objective.parts`, of which it cannot be made."""


S = TypeVar("S", bound=MethodState)


class Point(Protocol):
    """An evaluated w: the loss and its derivatives, from one pass over the data."""

    coords: Coords
    weights: Vector

    @property
    def sparse_weights(self) -> SparseWeights:
        """The weights, which may be kept longer than the point: it is as large as the data."""

    @property
    def value(self) -> float: ...

    @property
    def told(self) -> Coords:
        """The coordinates whose gradient the first pass over the items has told, where later answers depend on it."""

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""

    def gradient(self, coords: Coords) -> Vector: ...

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return the rows with || max(|gradient| - inside, 0) || > bound and the point's own, whole; perhaps others."""

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""

    def curvature(self, coords: Coords) -> Curvature:
        """Return the curvature of coordinates; of objectives with `has_curvature`."""

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature, max x^2; 1 for edges."""

    def hessian_model(
        self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0, passes: float = np.inf
    ) -> Matrix | None:
        """Return the token-wise model from about n_sampled positions; None where it would be too large, or dearer than
        so many passes."""

    def intercept_bound(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on the unpenalised weights of some optimum, infinite where there is none.

        value : the objective at any point, in nats: no item's loss at an optimum can be more
        norms : bounds on the sums of the penalised weights' sizes and on the root of the sum of their squares
        """

    def item_bound(self, penalty: Any) -> ItemBound | None:
        """Bound the optimum by mixtures with a share for each item; None where they are no help."""

    def at_shares(self, shares: Vector) -> Point:
        """Return the point with the gradient of such mixtures."""

    def count_within(self, bound: float, scale: float, radius: float, besides: Coords) -> int:
        """Count the coordinates j, not those `besides` (sorted), with scale |g_j| + radius range_j < bound.

        range_j = sqrt(sum_i weight_i r_ij^2), r_ij how far j's count can move within item i; of objectives that
        `proves_zeros`.
        """


class Ray(Protocol):
    """A point and a direction."""

    def at(self, step: float) -> Point: ...


class Objective(Protocol):
    """A loss over sparse weights.

    Attributes
    ----------
    n_passes : float, inference passes over the data so far
    n_bytes : int, what has crossed the wire so far, where workers hold the data
    pool : the threads, for the penalty's part of a step
    n_coords, n_node_coords : int, the weights there may be, and K F of them or fewer
    n_features : int, F
    mean_occurrence : float, the positions that have a feature, on average over the features
    total_weight : float, the sum of the items' weights
    is_convex : bool; of a loss that is not, nothing is proved, and its runs end at stationary points
    is_nonnegative : bool; whether 0 is the smallest loss
    has_curvature, has_hessian_bound, has_gram, proves_zeros : bool, whether it has second-order information at points,
        a bound on it everywhere, that bound as a matrix over the features, and proofs that zeros are the optimum's
    is_roundable : bool, whether float32 products, and the proof that they will do, cost less than this matrix
    operations : Operations, what a pass takes
    makes_scores_anew : bool, set for a run that may be resumed: scores are those of a point's weights, to the bit, and
        not of where it was reached from
    asked : of the last gradient, most likely that of the next point: where a pass is dear the next one tells it
    """

    n_passes: float
    n_bytes: int
    pool: Any
    makes_scores_anew: bool
    asked: Coords

    @property
    def without_bigrams(self) -> Any: ...

    @property
    def in_segments(self) -> Any: ...

    @property
    def n_coords(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_positions(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_node_coords(self) -> int: ...

    @property
    def mean_occurrence(self) -> float: ...

    @property
    def total_weight(self) -> float: ...

    @property
    def is_convex(self) -> bool: ...

    @property
    def is_nonnegative(self) -> bool: ...

    @property
    def has_curvature(self) -> bool: ...

    @property
    def has_hessian_bound(self) -> bool: ...

    @property
    def has_gram(self) -> bool: ...

    @property
    def is_roundable(self) -> bool: ...

    @property
    def proves_zeros(self) -> bool: ...

    @property
    def operations(self) -> Operations: ...

    def refusal(self, fact: str) -> str:
        """Return why one of these facts does not hold."""

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data by what they are of: a run is resumed where all are the same."""

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Evaluate at sparse weights (sorted coordinates, values)."""

    def all_coords(self) -> Coords:
        """Return every coordinate that may have a weight, sorted: for methods that keep all of them."""

    def sample(self, stride: int) -> Objective:
        """Return the loss over every stride-th item: the same coordinates, about 1 / stride of the value."""

    def hessian_bound(self) -> float:
        """Return at least the largest eigenvalue of the Hessian, at all weights."""

    def gram(self, is_rounded: bool = False) -> Vector:
        """Return M, float64 (F, F): at all weights Hessian <= I_K (x) M; rounded as a map's `gram`."""

    def gram_product(self, table: Vector) -> Vector:
        """Return a table (k, F) times M, in float64 and without M."""

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise `ViewError` unless a method's state can be made over the items."""

    def state(self, kind: type[S], *arguments: Any) -> S:
        """Return what a method keeps over the items, or raise `ViewError`."""


def has_state(objective: Objective, kind: type[MethodState]) -> bool:
    """Return whether a method's state can be made of an objective."""
    try:
        objective.check_state(kind)
    except ViewError:
        return False
    return True
