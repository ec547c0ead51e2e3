"""Base of the losses of the scores, the evaluation of a loss at some scores, and its dual.

A loss knows the labels of its positions, but neither features nor weights. Shapes: I items, N positions, K states, E
edge weights, F features; scores and residual float64 (K, N), edges float64 (E,), weights of the items float64 (I,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.intercept_bound import label_difference_bounds
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.structure import Ancestors, Decoded, Structure
from crfqn.threads import Pool

NO_EDGES = np.empty(0)
NO_SETS = np.zeros(1, np.int64), np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class DualLoss:
    """The dual loss along the mixtures by which a point proves bounds. This one is that of a maximum of linear
    functions: along s (q - y) the conjugate is linear in s. Subclasses have other terms.

    amount : the term in proportion to the scale
    """

    amount: float

    def value(self, scale: float) -> float:
        """Return the dual loss at `scale` times the point's own dual variables; its gradient is scale * g."""
        return scale * self.amount

    def at(self, scale: float) -> DualLoss:
        """Return the dual loss at `scale` alone: a number or two, which can be added to those of other parts."""
        return DualValue(self.value(scale))

    def __add__(self, other: Self) -> Self:
        """Return the dual loss of the items of both: numbers add up, arrays over the items are concatenated."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        sums: list[Any] = [np.append(a, b) if isinstance(a, np.ndarray) else a + b for a, b in pairs]
        return type(self)(*sums)

    def around(self, fixed: float) -> Self:
        """Return the dual loss if fixed scores are added to those of the weights; fixed: <residual, fixed scores>.
        The loss is sup_q <q - y, scores> - conjugate(q), so its dual increases by <q - y, fixed scores>."""
        return replace(self, amount=self.amount + fixed)


@dataclass(frozen=True, eq=False)
class DualValue(DualLoss):
    """The value of a dual loss at one scale, `amount`."""

    def value(self, scale: float) -> float:
        """Return the value, whatever the scale."""
        return self.amount


NO_DUAL = DualValue(-np.inf)  # of a loss without a known conjugate: it proves nothing


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss at some scores; subclasses have further arrays of their losses.

    Attributes
    ----------
    item_losses : float64 (I,), unweighted, in nats
    residual : float64 (K, N): the weighted derivative by the node scores
    edge_residual : float64 (E,): the weighted derivative by the edge scores
    """

    item_losses: Vector
    residual: Vector
    edge_residual: Vector


class ScoreLoss:
    """Base of the losses of the scores. Solvers read its fields, never its class.

    A subclass has `n_states`, `n_positions`, `take` and `evaluate`, and `n_items` if an item may have several
    positions. Fields say which optional methods it has:

    is_convex : whether a small gradient can prove how far the optimum is
    has_dual : whether the conjugate is known (`dual`): certificates exist, and 0 is the smallest loss
    is_smooth : whether the Hessian is bounded, for fixed steps: `score_bounds`, and `hessian_bounds` if an item may
        have several positions
    has_curvature : whether there are second derivatives, `curvature` and `mixed`, for models of the Hessian
    has_margins : whether row descent can update its margins: `code`, `labels`, `label_sets`, `margins`,
        `score_bounds`, `constants`
    has_marginals : whether it is a likelihood, whose residual is expected - observed (`targets`, `states_of`), or has
        the residual of one (`marginal_residual`)
    has_position_weights : whether positions of an item may have different weights (`position_weights`)
    has_label_duals : whether the dual variables of an item are a polytope, one variable a label (multiclass hinge)
    has_pair_duals : whether they are one variable >= 0 for each pair of the label and another (squared hinge)
    has_violations : whether it finds the labellings that violate their margins the most: `loss_augmented_decode`
    """

    is_convex: ClassVar[bool] = True
    has_dual: bool = True  # a property if it depends on the loss's parameters
    is_smooth: ClassVar[bool] = False
    has_curvature: ClassVar[bool] = False
    has_margins: ClassVar[bool] = False
    has_marginals: ClassVar[bool] = False
    has_position_weights: ClassVar[bool] = False
    has_label_duals: ClassVar[bool] = False
    has_pair_duals: ClassVar[bool] = False
    has_violations: ClassVar[bool] = False
    code: ClassVar[int]  # its number among the kernels' losses of margins (`kernels/margins.py`)

    # Fields of the subclasses.
    n_states: int
    n_positions: int
    structure: Structure
    targets: Labels
    labels: Labels

    n_items = cached_property(lambda self: self.n_positions)  # by default each item has one position
    # The numbering of the E weights of edges; none if positions have no neighbours.
    edge_layout = cached_property(lambda self: EdgeLayout(self.n_states, 0))
    n_edges = cached_property(lambda self: self.edge_layout.size)
    # The states that are true if a state is: itself alone; and the states that can label a position, ascending.
    ancestors = cached_property(
        lambda self: Ancestors(np.arange(self.n_states + 1), np.arange(self.n_states))
    )
    position_labels = cached_property(lambda self: np.arange(self.n_states))
    # If positions have sets of labels: the start of each set, (N + 1,), and all sets; and 1 for their labels, (N, K).
    label_sets: tuple[NDArray[np.int64], NDArray[np.int32]] = NO_SETS
    relevance = cached_property(lambda self: np.empty((0, self.n_states)))
    # The factors of the item's weight at each position, (N,), or 1.
    position_weights: Vector | float = 1.0

    # The methods of subclasses, with their answers.
    # from_structure(structure, targets), a classmethod: the loss of targets, int32 (N,), as estimators make it.
    from_structure: ClassVar[Callable[..., ScoreLoss]]
    # take(items, positions, offsets): the loss of some items, of their positions, cut at new offsets.
    take: Callable[[NDArray[np.integer], NDArray[np.int64], NDArray[np.int64]], ScoreLoss]
    # evaluate(scores, edges, weights, pool): the loss and its derivatives, in the only pass over the scores of a point.
    evaluate: Callable[[Vector, Vector, Vector, Pool], Evaluation]
    # curvature(scores, evaluation, weights): the weighted diagonal of the Hessian by the scores, (K, N).
    curvature: Callable[..., Vector]
    # mixed(r, s, scores): the unweighted second derivatives by the scores of two states, (N,).
    mixed: Callable[[int, int, Vector], Vector]
    # Upper bound on the eigenvalues of the unweighted Hessian by a position's scores, (N,), or one number for all.
    score_bounds: Vector | float
    # states_of(labels): the states that labels make true, and which of the labels each belongs to.
    states_of: Callable[[Labels], tuple[NDArray[np.integer], NDArray[np.intp]]]

    @property
    def without_bigram_features(self) -> ScoreLoss:
        """The loss over edges whose weights are the same at all positions."""
        return self

    def truncation_points(self) -> NDArray[np.bool_]:
        """Return before which positions an item may be cut in two, both parts having a labelling, (N,)."""
        return np.zeros(self.n_positions, bool)

    def dual(self, evaluation: Any, weights: Vector) -> DualLoss:
        """Return the dual loss of an evaluation with the same weights; by default one that proves nothing."""
        return NO_DUAL

    def hessian_bounds(self, weights: Vector) -> tuple[Vector, float]:
        """Return c, (N,), with Hessian <= I_K (x) X' diag(c) X at all weights, and a bound for the edges."""
        if self.n_items != self.n_positions:
            raise NotImplementedError  # the Hessian of an item couples its positions
        return weights * self.score_bounds, 0.0

    def marginal_residual(self, evaluation: Any, weights: Vector) -> Vector:
        """Return weight_t (p_t - [observed]) of the marginals p of the token-wise model, (K, N); weights : (N,)."""
        return evaluation.residual

    def margins(self, scores: Vector) -> Vector:
        """Return the margins that the kernels update, (N, K); by default the scores."""
        return scores.T.copy()

    def scores_of(self, margins: Vector) -> Vector:
        """Return scores, (K, N), that have these margins, (N, K), up to constants of positions that change no loss."""
        return margins.T.copy()

    def constants(self, features: FeatureMap, weights: Vector, are_papers: bool = False) -> Vector:
        """Return a Lipschitz constant of each feature's row of the gradient, (F,);
        are_papers : those of Blondel, Seki and Uehara (2013) instead of the smallest known ones."""
        return features.weighted_squares(weights * self.score_bounds)

    def difference_bounds(self, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return bounds on differences of intercepts, each the smallest that a position proves (`intercept_bound.py`).

        losses : upper bound on the unweighted loss of each position's item, (N,), infinite for items without weight
        change, x : upper bound on what the other weights add to the difference of two labels' scores; the constant
            feature; (N,) each
        """
        if self.excess is None:
            return np.full(1, np.inf)
        return label_difference_bounds(self.labels, self.n_states, self.excess(losses) + change, x)

    # excess(losses): upper bound on the difference of any score to that of the label, by the position's loss, (N,);
    # None if it is not known.
    excess: Callable[[Vector], Vector] | None = None
    # intercept_bound(table, step) returns a bound on |b| at some optimum from the minimum of the `difference_bounds` of
    # all parts; infinite if they prove nothing. step : the largest (1 + change) / x, infinite if an x is not positive
    intercept_bound: Callable[..., float] = staticmethod(lambda table, step: np.inf)


def checked_labels(labels: NDArray, n_states: int) -> Labels:
    """Return labels, one a position, as int32 (N,), or raise InputError: they must be 0 ... K - 1, K >= 1."""
    if n_states < 1:
        raise InputError(f"n_states: expected an integer >= 1, got {n_states!r}")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"expected labels as a 1-D array of integers, got shape {labels.shape} and dtype {labels.dtype}"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < n_states:
        raise InputError(
            f"expected labels within 0 ... {n_states - 1}, got {labels.min()} ... {labels.max()}"
        )
    return np.ascontiguousarray(labels, np.int32)


@dataclass(frozen=True, eq=False)
class SingleLabel(ScoreLoss):
    """A loss whose positions have one label each.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,), 0 ... K - 1
    n_states : int, K >= 1

    Raises
    ------
    InputError
        For labels of another shape or outside of 0 ... K - 1, and for no states.
    """

    labels: Labels
    n_states: int
    n_positions: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", checked_labels(self.labels, self.n_states))
        object.__setattr__(self, "n_positions", self.labels.size)

    @classmethod
    def from_structure(cls, structure: Structure, targets: Labels) -> Self:
        return cls(targets, structure.n_states)

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Self:
        return type(self)(self.labels[positions], self.n_states)

    def own(self, table: Vector) -> Vector:
        """Return the entries of the labels in a (K, N) table, (N,)."""
        return table[self.labels, np.arange(self.labels.size)]


@dataclass(frozen=True, eq=False)
class StructuredLoss(ScoreLoss):
    """Base of losses that compare with one label a position.

    Parameters
    ----------
    structure : Structure over I items and N positions
    targets : ndarray of int32, shape (N,), the observed labels

    Raises
    ------
    InputError
        For targets of another number, outside of 0 ... K - 1, or that the structure has no labels for.
    """

    structure: Structure
    targets: Labels
    labels: Labels = field(init=False)  # the targets
    n_positions: int = field(init=False)

    n_states = cached_property(lambda self: self.structure.n_states)  # type: ignore[assignment]
    n_items = cached_property(lambda self: self.structure.n_items)
    edge_layout = cached_property(lambda self: self.structure.edge_layout)
    ancestors = cached_property(lambda self: self.structure.ancestors)
    position_labels = cached_property(lambda self: self.structure.labels)

    def __post_init__(self) -> None:
        targets = self.targets
        if targets.size and not 0 <= targets.min() <= targets.max() < self.n_states:
            raise InputError(
                f"expected targets within 0 ... {self.n_states - 1}, got {targets.min()} ... {targets.max()}"
            )
        self.structure.check_targets(targets)
        self._set_targets(targets)

    def _set_targets(self, targets: NDArray[np.integer]) -> None:
        labels = np.ascontiguousarray(targets, np.int32)
        for name, value in (("targets", labels), ("labels", labels), ("n_positions", labels.size)):
            object.__setattr__(self, name, value)  # frozen otherwise

    @classmethod
    def from_structure(cls, structure: Structure, targets: Labels) -> Self:
        return cls(structure, targets)

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Self:
        return type(self)(self.structure.over(offsets, positions), self.targets[positions])

    @property
    def without_bigram_features(self) -> Self:
        return replace(self, structure=self.structure.without_bigram_features)

    def truncation_points(self) -> NDArray[np.bool_]:
        return self.structure.truncation_points(self.targets)

    def states_of(self, labels: Labels) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        """Return the states that labels make true, and which of the labels each belongs to."""
        starts, states = self.ancestors
        lengths = np.diff(starts)[labels]
        first = np.cumsum(lengths) - lengths
        entry = np.arange(lengths.sum()) + np.repeat(starts[labels] - first, lengths)
        return states[entry], np.repeat(np.arange(labels.size), lengths)


@dataclass(frozen=True, eq=False)
class ViolationEvaluation(Evaluation):
    """A loss and a subgradient, those of the labellings that violate their margins the most; distances : L, (I,)."""

    distances: Vector


@dataclass(frozen=True, eq=False)
class StructuralHinge(StructuredLoss):
    """max_y (L(y_i, y) + score_i(y)) - score_i(y_i) under a structure; parameters as of `StructuredLoss`."""

    has_violations = True

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> ViolationEvaluation:
        worst = self.loss_augmented_decode(scores, edges, pool)
        label_scores = self.structure.label_scores(self.targets, scores, edges)
        by_position = np.repeat(weights, np.diff(self.structure.offsets))
        residual = np.zeros_like(scores)
        for labels, sign in ((worst.states, 1.0), (self.targets, -1.0)):
            states, positions = self.states_of(labels)
            residual[states, positions] += sign * by_position[positions]
        edge_residual = self.structure.counts(worst.states, weights)
        return ViolationEvaluation(
            np.maximum(worst.score - label_scores, 0.0),  # rounding can make it smaller than that of y_i
            residual,
            edge_residual - self.structure.counts(self.targets, weights),
            self.distances(worst.states),
        )

    def loss_augmented_decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        """Return the labelling of every item that violates its margin the most, and its L + score, (I,)."""
        raised = scores + 0.5
        states, positions = self.states_of(self.targets)
        raised[states, positions] -= 1.0
        worst = self.structure.decode(raised, edges, pool)
        return Decoded(worst.states, worst.score + 0.5 * self._by_item(positions))

    def distances(self, labels: Labels) -> Vector:
        """Return L(y_i, y) of labellings y, int32 (N,): (I,)."""
        states, positions = self.states_of(labels)
        observed, at = self.states_of(self.targets)
        n = max(self.n_positions, 1)
        shared = np.intersect1d(states * n + positions, observed * n + at, assume_unique=True) % n
        return 0.5 * (self._by_item(positions) + self._by_item(at)) - self._by_item(shared)

    def _by_item(self, positions: NDArray[np.integer], terms: Vector | None = None) -> Vector:
        """Sum terms (1 by default) at positions over their items, (I,)."""
        item_of = np.repeat(np.arange(self.n_items), np.diff(self.structure.offsets))
        return np.bincount(item_of[positions], terms, self.n_items).astype(np.float64)

    def dual(self, evaluation: ViolationEvaluation, weights: Vector) -> DualLoss:
        return DualLoss(float(weights @ evaluation.distances))
