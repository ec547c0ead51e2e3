"""MultilabelRanker: ranks labels for items with several labels, and predicts label sets by thresholds.

Section 4.7 of Blondel, Seki and Uehara (2013) refers to two kinds of thresholds. By item (Elisseeff and Weston 2001),
linear regression predicts the threshold of an item from its scores; its targets have the minimum number of labels on
the wrong side. By label (SCut, studied by Fan and Lin 2007), the threshold maximises F1 over the items.

Shapes: I items, K labels; scores float64 (I, K), relevant bool (I, K), weights float64 (I,).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import SparseWeights, Vector
from crfqn.data.inputs import ItemsLike
from crfqn.errors import check_count
from crfqn.estimators.automatic import LINEAR_PARAMETERS, LINEAR_SOLVERS, Strengths, linear_solver
from crfqn.estimators.item_estimator import ItemEstimator, ItemParameters
from crfqn.estimators.multilabel_targets import MultilabelTargets
from crfqn.estimators.problem import (
    Callbacks,
    Encoded,
    InMemory,
    Problem,
    pass_on_interrupt,
    pose,
    run_training,
)
from crfqn.estimators.settings import Settings
from crfqn.model.answers import SET_ANSWERS
from crfqn.model.item_model import ItemModel, Thresholds
from crfqn.model.label_index import LabelIndex
from crfqn.model.trained import Fitted
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap, centered_weights
from crfqn.objectives.losses.ranking import MultilabelRanking
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.parameters import with_parameter_documentation
from crfqn.result import Result, Status
from crfqn.solvers.automatic.auto_solver import FOR_MARGINS
from crfqn.solvers.protocols import Solver
from crfqn.threads import Pool, single_threaded_blas

# Distance of a threshold from the largest or smallest score if it is above or below all: half of the loss's margin of
# 1.
HALF_MARGIN = 0.5
# Singular values below this fraction of the largest count as 0 in least squares (a numerical guard): one is always 0.
MIN_SINGULAR_VALUE = 1e-10


@with_parameter_documentation
@dataclass(eq=False, repr=False, kw_only=True)
class MultilabelRanker(ItemParameters, Settings, ItemEstimator):
    """Scores that put the relevant labels of an item above the others, and thresholds for label sets.

    Minimises, over weights W (labels x features) and intercepts b (labels),

        sum_i c_i sum over r in Y_i, r' not in Y_i of max(1 - (s_ir - s_ir'), 0)^2 + penalty(W),  s_ik = w_k . x_i + b_k

    (section 4.7 of the paper, as a sum over the items), with the penalties of `MulticlassClassifier`. An item has a
    label if its score exceeds a threshold, which is learned after the scores.

    Examples
    --------
    >>> from crfqn import MultilabelRanker
    >>> X = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]]
    >>> model = MultilabelRanker(group_l1=0.1).fit(X, X)
    >>> model.predict([[1, 0, 0], [1, 1, 0]]).tolist()
    [[1, 0, 0], [1, 1, 0]]

    Parameters
    ----------
    {l1}
    {l2}
    {group_l1}
    {penalty}
    threshold : {"item", "label"}, default "item"
        One threshold for each item, predicted from its scores by linear regression (Elisseeff and Weston 2001); or one
        for each label, which maximises its F1 (SCut; Fan and Lin 2007).
    cv : int, scikit-learn splitter or iterable of (train, test), optional
        Learn thresholds by cross-validation, which takes a further training for each fold: from the scores of all
        held-out items together, or by label as the mean over the folds. None: from the scores of the training items.
    class_weight : None, "balanced" or dict of label -> weight, optional
        The mean over the labels of an item is multiplied with `sample_weight`.

    Other Parameters
    ----------------
    {others}

    Attributes
    ----------
    model_ : crfqn.Model, as in `ChainCRF`
    classes_ : ndarray, shape (n_labels,)
        The labels that occur, sorted; for a table the numbers of its columns.
    coef_ : scipy.sparse.csr_array, shape (n_labels, n_features)
    intercept_ : ndarray, shape (n_labels,); without penalty their sum is 0
    threshold_coef_, threshold_intercept_ : ndarray, shape (n_labels,)
        The threshold of label k for an item of scores s is `threshold_intercept_[k] + threshold_coef_ . s`.
    l1_, l2_, group_l1_, kept_features_, n_features_in_, feature_names_in_, result_, n_iter_, extra_
        As in `MulticlassClassifier`.

    Notes
    -----
    If `y` has one label an item, the model is that of `MulticlassClassifier`: it has no thresholds, and `predict`
    returns labels.

    References
    ----------
    Blondel, Seki, Uehara: Block coordinate descent algorithms for large-scale sparse multiclass classification.
    Machine Learning 93, 2013, section 4.7. Elisseeff, Weston: A kernel method for multi-labelled classification. NIPS
    2001. Fan, Lin: A study on threshold selection for multi-label classification. National Taiwan University, 2007.
    """

    KIND = "multilabel-ranker"
    ANSWERS = SET_ANSWERS
    NOT_SAVED: ClassVar[tuple[str, ...]] = (*Settings.NOT_SAVED, "cv")

    l1: float | str | None = field(default=None, kw_only=False)
    l2: float | None = field(default=None, kw_only=False)
    group_l1: float | str | None = None
    penalty: str = "l1/l2"
    max_iter: int = 1000
    threshold: str = "item"
    cv: int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]] | None = None

    threshold_coef_ = Fitted("thresholds.coef")
    threshold_intercept_ = Fitted("thresholds.intercept")

    TAKES_SETS: ClassVar[bool] = True
    PARAMETERS: ClassVar = LINEAR_PARAMETERS
    SOLVERS: ClassVar = LINEAR_SOLVERS

    def make_solver(self) -> Solver:
        return linear_solver(self, FOR_MARGINS, FOR_MARGINS)

    def chosen_labels(self, scores: Vector) -> NDArray[np.bool_]:
        thresholds = self.current_model.thresholds
        return scores > (scores @ thresholds.coef)[:, None] + thresholds.intercept

    def rank(self, X: ItemsLike, k: int | None = None) -> NDArray:
        """Return the k labels with the largest scores of each item, (n_items, k), the largest first; by default all.

        X and errors as in `predict`; InputError also for a k that is not from 1 to the number of labels.
        """
        check_is_fitted(self)
        k = len(self.classes_) if k is None else k
        check_count("k", k, len(self.classes_))
        order = [np.argsort(-scores.T, axis=1, kind="stable")[:, :k] for scores in self.class_scores(X)]
        return self.classes_[np.concatenate(order)]

    def targets_of_sets(self, sets: MultilabelTargets) -> MultilabelRanking:
        return MultilabelRanking(sets.table.indptr, sets.table.indices, sets.classes.size)

    def make_loss(self, labels: LabelIndex, n_items: int, targets: MultilabelRanking) -> ScoreLoss:
        return targets

    def trained_model(self, problem: Problem, result: Result, strengths: Strengths) -> ItemModel:
        """Return the model with the weights of a result, and the thresholds of label sets, if the items have
        several."""
        model: ItemModel = super().trained_model(problem, result, strengths)
        if problem.source is None:
            return model
        return replace(model, thresholds=thresholds_of(problem, problem.source, model, self))

    def stored_parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON values, without a splitter."""
        return super().stored_parameters() | {"cv": self.cv if isinstance(self.cv, Integral) else None}

    @classmethod
    def from_stored(cls, settings: dict[str, Any]) -> Self:
        return super().from_stored(settings).set_params(cv=settings["cv"])


def thresholds_of(
    problem: Problem, source: InMemory, model: ItemModel, settings: MultilabelRanker
) -> Thresholds:
    """Return thresholds for the scores of the items of a problem, by cross-validation if `cv` is given."""
    features, labels, weights = source.features, source.loss, source.weights
    weights = np.ones(features.n_items) if weights is None else weights
    relevant = labels.relevance == 1.0
    if settings.cv is None or model.result_.status is Status.INTERRUPTED:
        scores = training_scores(features, problem.space.weights(model), labels.n_states, settings)
        return learn_thresholds(settings.threshold, scores, relevant, weights)
    parts = [
        (held_out_scores(problem, source, model, np.sort(train), test, settings), test)
        for train, test in check_cv(settings.cv).split(np.empty((features.n_items, 1)))
    ]
    if settings.threshold == "item":  # one regression over all held-out items
        fold_scores, tests = zip(*parts, strict=True)
        parts = [(np.concatenate(fold_scores), np.concatenate(tests))]
    thresholds = [
        learn_thresholds(settings.threshold, scores, relevant[test], weights[test]) for scores, test in parts
    ]
    return Thresholds(*(np.mean(column, axis=0) for column in zip(*thresholds, strict=True)))


def held_out_scores(
    problem: Problem,
    source: InMemory,
    model: ItemModel,
    train: NDArray,
    test: NDArray,
    settings: MultilabelRanker,
) -> Vector:
    """Return the scores of the items `test`, in this order, by a model of the items `train`; its training starts from
    the weights of all items."""
    fold = settings.with_model(None)
    fold.callback, fold.verbose, fold.checkpoint = None, 0, None
    fold.__dict__.pop("_callback_fit_ctx", None)  # tasks of scikit-learn's callbacks
    assert model.trained is not None
    for name, value in model.trained.strengths.items():  # the strengths of the model that has the thresholds
        setattr(fold, name, value)
    space, features = problem.space, copy(source.features)
    features.pool = Pool(1)
    weights = np.ones(features.n_items) if source.weights is None else source.weights
    kept, positions = features.take(train)
    part = InMemory(kept, source.loss.take(train, positions, kept.offsets), weights[train])
    posed = pose(Encoded(space, part, train.size), fold, space.weights(model))
    result = run_training(posed, fold, Callbacks(fold)).result
    pass_on_interrupt(result)
    learnt = space.weights(space.model(posed.uncentered_weights(result)))
    order = np.argsort(test, kind="stable")
    scores = np.empty((test.size, source.loss.n_states))
    scores[order] = training_scores(features.take(test[order])[0], learnt, source.loss.n_states, settings)
    return scores


def training_scores(
    features: FeatureMap, weights: SparseWeights, n_labels: int, settings: MultilabelRanker
) -> Vector:
    """Return the scores of training items, (I, K), by weights for features before centring."""
    weights = centered_weights(features, weights)
    scores = np.zeros((n_labels, features.n_positions))
    nodes = CoordinateParts.from_coords(weights.coords, n_labels, features.n_features)
    features = copy(features)
    with single_threaded_blas(), Pool(settings.n_threads) as pool:
        features.pool = pool
        features.image(nodes, weights.weights, scores)
    return scores.T


def learn_thresholds(kind: str, scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Thresholds:
    """Return the thresholds of a kind for these scores; O(I K log K), by label O(I K log I)."""
    if kind == "item":
        return item_thresholds(scores, relevant, weights)
    return Thresholds(np.zeros(scores.shape[1]), largest_f1(scores.T, relevant.T, weights))


def item_thresholds(scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Thresholds:
    """Return the thresholds by item: weighted linear regression of their best thresholds on their scores and a
    constant. The mean of an item's scores, on which rankings do not depend, is subtracted (it is often 0 up to
    rounding)."""
    n_items, n_labels = scores.shape
    mean = scores.mean(axis=1)
    root = np.sqrt(weights)
    design = root[:, None] * np.column_stack([scores - mean[:, None], np.ones(n_items)])
    best = root * (error_minimizing_thresholds(scores, relevant) - mean)
    solution = np.linalg.lstsq(design, best, rcond=MIN_SINGULAR_VALUE)[0]
    coef = solution[:-1] + (1.0 - solution[:-1].sum()) / n_labels
    return Thresholds(coef, np.full(n_labels, solution[-1]))


def error_minimizing_thresholds(scores: Vector, relevant: NDArray[np.bool_]) -> Vector:
    """Return for each row the threshold with the minimum number of scores on the wrong side, (rows,)."""
    ordered, is_relevant, _ = ranked_scores(scores, relevant)
    n_wrong_above = counts_above((~is_relevant).astype(np.float64))
    n_right_above = counts_above(is_relevant.astype(np.float64))
    n_relevant = n_right_above[:, -1:]
    return best_cuts(ordered, n_wrong_above + n_relevant - n_right_above)


def largest_f1(scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Vector:
    """Return the threshold of each row with the largest F1 = 2 tp / (above + relevant); weights: of the columns."""
    ordered, is_relevant, order = ranked_scores(scores, relevant)
    counted = weights[order]
    above, right_above = counts_above(counted), counts_above(counted * is_relevant)
    both = above + right_above[:, -1:]
    return best_cuts(ordered, -2.0 * right_above / np.where(both > 0, both, 1.0))


def ranked_scores(
    scores: Vector, relevant: NDArray[np.bool_]
) -> tuple[Vector, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the scores of each row in descending order, `relevant` in the same order, and the order."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(relevant, order, axis=1), order


def counts_above(counted: Vector) -> Vector:
    """Return the sums of the first c of n entries of each row, c = 0 ... n, (rows, n + 1)."""
    return np.concatenate([np.zeros((len(counted), 1)), np.cumsum(counted, axis=1)], axis=1)


def best_cuts(ordered: Vector, costs: Vector) -> Vector:
    """Return for each row of n descending scores the threshold of minimum cost, where `costs` (rows, n + 1) are those
    of 0 ... n scores above the threshold.

    A threshold is the midpoint of two different scores (Elisseeff and Weston's choice), or half a margin beyond all. Of
    equal costs, the two scores with the largest difference are chosen, and thresholds beyond all scores last.
    """
    gaps = -np.diff(ordered, axis=1)
    space = np.pad(gaps, ((0, 0), (1, 1)), constant_values=0.0)
    is_possible = np.pad(gaps > 0, ((0, 0), (1, 1)), constant_values=True)
    costs = np.where(is_possible, costs, np.inf)
    is_cheapest = costs <= costs.min(axis=1, keepdims=True)
    cut = np.where(is_cheapest, space, -1.0).argmax(axis=1)
    edges = np.concatenate(
        [ordered[:, :1] + 2 * HALF_MARGIN, ordered, ordered[:, -1:] - 2 * HALF_MARGIN], axis=1
    )
    row = np.arange(len(ordered))
    return 0.5 * (edges[row, cut] + edges[row, cut + 1])
