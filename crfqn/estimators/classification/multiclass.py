"""MulticlassClassifier: sparse direct multiclass classification, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils.metaestimators import available_if

from crfqn.errors import InputError
from crfqn.estimators.classification.items import Vector
from crfqn.estimators.classification.label_space import LabelSpace
from crfqn.estimators.classification.linear import AUTO, FOR_LIKELIHOODS, FOR_MARGINS, LinearClassifierBase
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.objectives.losses.logistic import MultinomialLogistic
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.protocols import Solver
from crfqn.structures.structure import Structure

LOSSES: dict[str, Callable[[Any, int], ScoreLoss]] = {
    "squared-hinge": MulticlassSquaredHinge,
    "multitask-squared-hinge": MultitaskSquaredHinge,
    "logistic": MultinomialLogistic.of_labels,
}
DENSE_SOLVERS: dict[str, Solver] = {
    "squared-hinge": RowDescent(),
    "multitask-squared-hinge": FOR_MARGINS,
    "logistic": FOR_LIKELIHOODS,
}


def _has_probabilities(model: MulticlassClassifier) -> bool:
    if model.loss != "logistic":
        raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {model.loss!r}")
    return True


class MulticlassClassifier(LinearClassifierBase):
    """A linear classifier with row-sparse weights, trained by block coordinate descent with a certificate.

    Minimises, over weights W (classes x features) and intercepts b (classes),

        sum_i c_i loss(s_i, y_i) + group_l1 sum_f ||w_f|| + l1 ||W||_1 + l2/2 ||W||^2,    s_ik = w_k . x_i + b_k,

    w_f being the weights of feature f: under the penalty "l1/l2" a feature has weights for all classes or for none.
    The loss is a sum over the items. Where a paper has a mean over n items and a strength a, set group_l1 = n a;
    scikit-learn's C is 1 / l1 or 1 / l2.

    Parameters
    ----------
    loss : {"squared-hinge", "multitask-squared-hinge", "logistic"}, default "squared-hinge"
        Of an item of class y: the sum over r != y of max(1 - (s_y - s_r), 0)^2 (equation 2 of the paper); the squared
        hinge losses of one classifier against the rest for each class (11); -log P(y), P(k) ~ exp(s_k) (12).
    penalty : {"l1/l2", "l1/linf", "sparse-group", "l1", "elastic-net", "l2"}, default "l1/l2"
        Which strengths there are: group_l1, with the Euclidean length or the largest size of a row; group_l1 and l1;
        l1; l1 and l2; l2.
    solver : str or solver object, default "auto"
        "bcd": block coordinate descent over rows with a line search; "bcd-constant": with constant steps, rows at
        random. "prox-qn"; "prox-gd", "fista", "spa-rsa"; "fobos": item by item,
        never to a small gap; "l-bfgs": the penalty "l2" only. "auto" is "l-bfgs" for "l2", "prox-qn" for "l1" and
        "elastic-net"; over rows it is "prox-qn" for up to 2,000 weights and, unless the loss is the squared hinge, for
        dense features, else "bcd".
    group_l1, l1, l2 : float >= 0, optional
        Strengths; those that the penalty's name has are 1 by default. l2 may be added to every penalty.
    fit_intercept : bool, default True
        The paper has none.
    penalize_intercept : bool, default False
        Penalise b as a feature that is always 1. Without, b is solved for given W whenever a certificate is due.
    class_weight : None, "balanced" or dict of label -> weight, optional
        As in `MulticlassCRF`.
    tol : float, default 1e-3
        Stop when the certified relative duality gap is below: objective - optimum <= tol * objective, proved. Small
        problems are solved on by Newton's method, until rounding is all that is left.
    max_iter : int, default 1000
        Sweeps over rows, or steps.
    warm_start : bool, default False
        Start from the last fit's weights, also after strengths, loss or penalty have changed; `fit(start=model)` starts
        from another model.
    random_state : int, RandomState or None
        Seeds the orders of rows ("bcd" and its variants) and of items ("fobos"); None is a seed too.
    max_seconds, n_threads, verbose, callback
        As in `ChainCRF`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    intercept_ : ndarray, shape (n_classes,), zeros without intercept
    kept_features_ : ndarray of int, the features with a weight; prediction reads no others
    n_features_in_, feature_names_in_, result_, n_iter_, data_fingerprint_, extra_
        As in `MulticlassCRF`.

    Notes
    -----
    `predict_proba` is there for the logistic loss only. Training holds a few arrays of items x classes.
    `crf_path` walks a descending grid of group_l1 (of l1, where the penalty has no groups).

    Examples
    --------
    >>> from crfqn import MulticlassClassifier
    >>> X = [[2, 0, 0, 1], [1, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 1], [0, 0, 3, 1], [0, 0, 1, 0]]
    >>> model = MulticlassClassifier(group_l1=2).fit(X, ["a", "a", "b", "b", "c", "c"])
    >>> model.predict([[1, 0, 0, 0], [0, 0, 2, 1]]).tolist()
    ['a', 'c']
    >>> model.kept_features_.tolist()
    [0, 1, 2]

    References
    ----------
    Blondel, Seki, Uehara: Block coordinate descent algorithms for large-scale sparse multiclass classification. Machine
    Learning 93, 2013.
    """

    KIND = "multiclass-classifier"
    SETTINGS: ClassVar[tuple[str, ...]] = ("loss", *LinearClassifierBase.SETTINGS)

    def __init__(
        self,
        loss: str = "squared-hinge",
        penalty: str = "l1/l2",
        solver: Any = AUTO,
        *,
        group_l1: float | None = None,
        l1: float | None = None,
        l2: float | None = None,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Mapping | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Callable[..., object] | None = None,
    ) -> None:
        super().__init__(
            penalty, solver, group_l1=group_l1, l1=l1, l2=l2, fit_intercept=fit_intercept,
            penalize_intercept=penalize_intercept, class_weight=class_weight, tol=tol, max_iter=max_iter,
            max_seconds=max_seconds, n_threads=n_threads, random_state=random_state, verbose=verbose,
            warm_start=warm_start, callback=callback,
        )  # fmt: skip
        self.loss = loss

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Vector:
        """log P(label | x) of each class, (I, n_classes), in nats; of the logistic loss."""
        return np.concatenate([log_softmax(scores, axis=0).T for scores in self._class_scores(X)])

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Vector:
        """P(label | x) of each class, (I, n_classes), rows that sum to 1; of the logistic loss."""
        return np.concatenate([softmax(scores, axis=0).T for scores in self._class_scores(X)])

    @property
    def _dense_solver(self) -> Solver:
        return DENSE_SOLVERS[self.loss]

    def _loss(self, structure: Structure, targets: Any) -> ScoreLoss:
        return LOSSES[self.loss](targets, structure.n_states)

    def _centred(self, space: LabelSpace, intercepts: Vector) -> Vector:
        """Classifiers against the rest each have an intercept of their own."""
        return intercepts if self.loss == "multitask-squared-hinge" else super()._centred(space, intercepts)

    def _check_parameters(self) -> None:
        if not isinstance(self.loss, str) or self.loss not in LOSSES:
            raise InputError(f"loss: expected one of {[*LOSSES]}, got {self.loss!r}")
        super()._check_parameters()
