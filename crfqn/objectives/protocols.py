"""Protocols of objectives, points, rays and views: all that solvers, penalties and wrappers know of a problem.

Every solver may count on an `Objective`, its `Point`s and `Ray`s: that is all that a remote objective has to send over
a wire. What one family of solvers needs besides is a *view*, asked for by its type:

    curvature = objective.view(CurvatureView).at(point)

An objective that has no such view refuses with a `ViewError`; a solver names the views that it `requires`, and
`minimize` asks for them before the first step.

Shapes: I items, N positions, F features, K states; coordinates as in `coordinates.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.errors import ViewError
from crfqn.kernels.subproblem.feature_blocks import SweepRule
from crfqn.objectives.operations import Operations

Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # a metric: dense, or compressed by rows
V = TypeVar("V")


class Point(Protocol):
    """An evaluated w: the loss and its derivatives, from one pass over the data."""

    coords: Coords
    weights: Vector

    @property
    def sparse_weights(self) -> SparseWeights:
        """The weights, which may be kept longer than the point: it is as large as the data."""

    @property
    def value(self) -> float: ...

    def gradient(self, coords: Coords) -> Vector: ...

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return the rows with || max(|gradient| - inside, 0) || > bound and the point's own, whole; perhaps others."""

    def dual_value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """Return the ray w + step * direction."""

    def view(self, kind: type) -> Any:
        """Return what a view of the objective shows at this point."""


class Ray(Protocol):
    """A point and a direction."""

    def at(self, step: float) -> Point: ...


class Objective(Protocol):
    """A loss over sparse weights.

    Attributes
    ----------
    n_passes : float, inference passes over the data so far
    pool : the threads, for the penalty's part of a step
    n_coords, n_node_coords : int, the weights there may be, and K F of them or fewer
    mean_occurrence : float, the positions that have a feature, on average over the features
    total_weight : float, the sum of the items' weights
    operations : Operations, what a pass takes
    """

    n_passes: float
    pool: Any

    @property
    def n_coords(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_positions(self) -> int: ...

    @property
    def n_node_coords(self) -> int: ...

    @property
    def mean_occurrence(self) -> float: ...

    @property
    def total_weight(self) -> float: ...

    @property
    def operations(self) -> Operations: ...

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Evaluate at sparse weights (sorted coordinates, values)."""

    def all_coords(self) -> Coords:
        """Return every coordinate that may have a weight, sorted: for methods that keep all of them."""

    def sample(self, stride: int) -> Objective:
        """Return the loss over every stride-th item: the same coordinates, about 1 / stride of the value."""

    def view(self, kind: type[V]) -> V:
        """Return what a family of solvers needs besides, or raise `ViewError`."""


class Curvature(Protocol):
    """Models of the Hessian at a point, by coordinates."""

    def diagonal(self, coords: Coords) -> Vector:
        """Return the diagonal of the token-wise model."""

    def majorant(self, coords: Coords) -> Vector:
        """Return how much curvature a coordinate may meet on its way to a fit."""

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature, max x^2."""

    def matrix(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Matrix | None:
        """Return the token-wise model from about n_sampled positions; None where it would be too large."""


class CurvatureView(Protocol):
    """Second-order information, for quasi-Newton metrics."""

    def at(self, point: Any) -> Curvature: ...


class LipschitzView(Protocol):
    """A bound on the curvature that holds at all weights, for constant steps."""

    def bound(self) -> float:
        """Return at least the largest eigenvalue of the Hessian."""


class GramView(Protocol):
    """A matrix over the features that bounds the Hessian everywhere, for steps in its metric.

    Attributes
    ----------
    n_features : F; coordinates are those of K states with F features each, and there are no others
    """

    n_features: int

    def matrix(self) -> Vector:
        """Return M, float64 (F, F): at all weights Hessian <= I_K (x) M."""


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


class AveragedState(Protocol):
    """Dense weights that learn from the mistakes of the best labellings, and the mean of all that they have been."""

    @property
    def n_items(self) -> int: ...

    def correct(self, order: NDArray[np.int64], aggressiveness: float) -> int:
        """Label the items and learn from the mistakes; returns the number of wrong positions."""

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

    def sweep(
        self,
        order: NDArray[np.int64],
        penalty: Any,
        search: tuple[float, float] | None,
        margins_out: Vector | None,
    ) -> Swept:
        """Update rows one after another; search: sigma and omega of equation 7, None for constant steps.

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


class ItemSweep(NamedTuple):
    """Findings of a sweep over items with dual variables.

    violation : the largest v_i met (equation 5); gap : the sum of the items' parts of the duality gap, each when it was
    visited; n_updates; slacks : float64 (items,), how far each that is at a vertex is from leaving it, -inf for others
    """

    violation: float
    gap: float
    n_updates: int
    slacks: Vector


class Certified(NamedTuple):
    """The objective at the weights, a lower bound on the optimum, and what a sweep without updates has met."""

    value: float
    dual_value: float
    seen: ItemSweep


class DualBlocks(Protocol):
    """Dual variables of the items, a block each, and scores that follow every change of one.

    Attributes
    ----------
    items : int64, the items that count
    n_variables : int, of the items that count
    alpha : float64 (N, K), the dual variables
    """

    items: NDArray[np.int64]

    @property
    def n_variables(self) -> int: ...

    @property
    def alpha(self) -> Vector: ...

    def sweep(self, order: NDArray[np.int64]) -> ItemSweep:
        """Solve the sub-problem of one item after another."""

    def certify(self, order: NDArray[np.int64]) -> Certified:
        """Evaluate both objectives at the present variables, which are first made feasible; order : of all items."""

    def dual_value(self) -> float:
        """Return the lower bound that the variables prove; -inf where `certify` has to make them feasible first."""

    def point(self) -> Point:
        """Return the weights as a point; it is to be read before the next sweep."""


class DualView(Protocol):
    """Dual variables of a loss that is the largest of linear functions, for dual decomposition."""

    def start(self, penalty: Any, method: str, tol: float) -> DualBlocks:
        """Return variables of zero under a penalty l2/2 ||w||^2; method: how sub-problems are solved."""


class Splitting(Protocol):
    """The multiclass hinge h(T x), T x the differences of scores from the label's: for primal-dual splitting.

    h_i(u) = max_k u_k + margin_k is the loss of item i; y, its dual variables, are in (S_c)^I, positive with the sum
    c_i, the weight of the item.

    Attributes
    ----------
    margins : float64 (N, K), r: 1, and 0 at the label; the offset's differences are in it
    weights : float64 (N,), c
    """

    margins: Vector
    weights: Vector

    def norm(self, of: str) -> float:
        """Return ||T|| by a power iteration, or (of="scores") that of the map to the scores themselves."""

    def image(self, coords: Coords, weights: Vector) -> Vector:
        """Return T x, (N, K)."""

    def labels(self) -> Vector:
        """Return the dual variables that are c at the label, (N, K): T'y = 0."""

    def project(self, y: Vector) -> Vector:
        """Return the projection onto (S_c)^I, in place."""

    def point(self, x: SparseWeights, y: Vector) -> Point:
        """Return x as a point whose gradient is T'y; nothing else is known of it."""

    def certified(self, x: SparseWeights, image: Vector, y: Vector, balanced: bool) -> Point:
        """Return x with its loss, and the bound that y proves.

        balanced : move y to where T'y is zero by intercepts, which have no penalty
        """


class SplittingView(Protocol):
    """Primal-dual splitting of a loss without curvature: Algorithm 1 of Chierchia et al. (2015)."""

    def start(self) -> Splitting: ...


class EpigraphSplitting(Splitting, Protocol):
    """The multiclass hinge under a bound eta on its sum, split into epigraphs and a half-space.

    Attributes
    ----------
    bound : float, eta
    """

    bound: float

    def project_budget(self, losses: Vector) -> Vector:
        """Return the projection onto V = {sum_i c_i loss_i <= eta}, (N,)."""

    def project_epigraphs(self, y: Vector, losses: Vector) -> tuple[Vector, Vector]:
        """Return the projection of (y_i, losses_i) onto the epigraph of h_i for each item."""

    def excess(self, image: Vector) -> float:
        """Return how far the loss at T x is above eta, as a share of it."""

    def priced(self, x: SparseWeights, y: Vector, xi: Vector, balanced: bool) -> Point:
        """Return x with the bound that y and xi prove: xi by one price mu of a unit of loss, y within (S_mu c)^I."""


class EpigraphView(Protocol):
    """Primal-dual splitting under a bound on the loss: Algorithm 2 of Chierchia et al. (2015)."""

    def start(self) -> EpigraphSplitting: ...


class FrankWolfeState(Protocol):
    """Dual variables of the items under a structured hinge, and the weights that they make.

    Attributes
    ----------
    n_items : int, the items whose weight is not 0
    gaps : float64 (n_items,), each item's part of the duality gap when it was last visited, infinite before
    """

    @property
    def n_items(self) -> int: ...

    @property
    def gaps(self) -> Vector: ...

    def visit(self, order: NDArray[np.int64], moves: bool = True) -> None:
        """Measure the gaps of the items `order`, numbers below `n_items`, and take a step on each if asked."""

    def dual_value(self) -> float:
        """Return the lower bound on the optimum that the variables prove."""

    def point(self, is_averaged: bool) -> Point:
        """Return the point of the weights, or of their weighted average over the steps; it is lazy."""


class FrankWolfeView(Protocol):
    """Dual variables of a structured hinge, for block-coordinate Frank-Wolfe."""

    def start(self, penalty: Any) -> FrankWolfeState:
        """Return variables that expect what is observed, and so weights of 0, under a penalty l2/2 ||w||^2."""


def has_view(objective: Objective, kind: type) -> bool:
    """Return whether an objective has a view."""
    try:
        objective.view(kind)
    except ViewError:
        return False
    return True
