"""Classifiers by least squares: their base, and GeneralizedLeastSquares, trained by Algorithm 1.

Targets lie on the simplex or the hypercube, the penalty is a ridge. Shapes: I items, K labels; tables float64 (K, I).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import Vector
from crfqn.data.inputs import ItemsLike
from crfqn.errors import InputError
from crfqn.estimators.automatic import AUTO, SolverTable
from crfqn.estimators.estimator import available_if
from crfqn.estimators.item_estimator import ItemEstimator, ItemParameters
from crfqn.estimators.multilabel_targets import MultilabelTargets
from crfqn.estimators.settings import Settings
from crfqn.model.label_index import LabelIndex
from crfqn.model.model import Decoding
from crfqn.objectives.losses.likelihood import MultinomialLogistic
from crfqn.objectives.losses.potentials import LINKS, LogSumExp, Potential, named_link
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.papers.agarwal2014.gls import GLS, Link
from crfqn.parameters import PARAMETERS
from crfqn.projections import project_simplex
from crfqn.solvers.quasi_newton.lbfgs import LBFGS

LINK_OF = {True: "softmax", False: "sigmoid"}  # by whether an item has one label
# Lower bound on the probability of a label if items may have several, so that its logarithm is finite.
MIN_LABEL_PROBABILITY = float(np.finfo(np.float64).eps)
LABEL_THRESHOLD = 0.5  # items have the labels of at least this probability


def clipped(table: Vector, is_exclusive: bool) -> Vector:
    """Return predictions (K, N) projected onto the simplex if an item has one label, else onto [0, 1]^K."""
    if is_exclusive:
        return np.ascontiguousarray(project_simplex(table.T).T)
    return np.clip(table, 0.0, 1.0)


def has_one_label(model: Any) -> bool:
    """Return True if items have one label each; AttributeError, as scikit-learn requires, if not."""
    if model.is_fitted and not model.is_exclusive:
        raise AttributeError("items have several labels: predict_proba has the probability of each")
    return True


def potential_of(link: str | Potential, is_exclusive: bool) -> Potential:
    """Return Phi of a link for items with one label, or with several."""
    return named_link(LINK_OF[is_exclusive] if isinstance(link, str) and link == AUTO else link)


class LeastSquaresPredictions:
    """Methods of the classifiers by least squares: probabilities of labels, and label sets from them."""

    TAKES_SETS: ClassVar[bool] = True

    classes_: Any
    class_scores: Any
    current_model: Any

    def _probabilities(self, scores: Vector) -> Vector:
        """Return the predicted probability of each label, (K, items), from scores (K, items)."""
        raise NotImplementedError

    @property
    def is_exclusive(self) -> bool:
        """Whether an item has one label."""
        return self.current_model.labels.has_one_label

    def targets_of_sets(self, sets: MultilabelTargets) -> Vector:
        """Return the label sets as vertices of the simplex or of the hypercube, (K, I)."""
        return np.ascontiguousarray(sets.table.toarray().T)

    def chosen_labels(self, scores: Vector) -> NDArray[np.bool_]:
        return self._probabilities(scores.T).T >= LABEL_THRESHOLD

    def predict_proba(self, X: ItemsLike) -> Vector:
        """Return the probability of each label, float64 (n_items, n_labels); X and errors as in `predict`.

        Rows sum to 1 if an item has one label.
        """
        check_is_fitted(self)
        return np.concatenate([self._shown(scores) for scores in self.class_scores(X)])

    def _shown(self, scores: Vector) -> Vector:
        """Return probabilities, (items, K), from scores; none is exactly 0 or 1 if items may have several labels."""
        probabilities = self._probabilities(scores).T
        return (
            probabilities
            if self.is_exclusive
            else np.clip(probabilities, MIN_LABEL_PROBABILITY, 1.0 - MIN_LABEL_PROBABILITY)
        )

    def predict_log_proba(self, X: ItemsLike) -> Vector:
        """Return the logarithms of `predict_proba`, (n_items, n_labels), in nats; -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @available_if(has_one_label)
    def decode(self, X: ItemsLike) -> Decoding:
        """Return the best label of each item and the logarithm of its probability; X and errors as in `predict`."""
        check_is_fitted(self)
        codes, best = [], []
        for scores in self.class_scores(X):
            codes.append(scores.argmax(axis=0))
            best.append(np.take_along_axis(self._probabilities(scores), codes[-1][None], axis=0)[0])
        with np.errstate(divide="ignore"):
            return Decoding(self.classes_[np.concatenate(codes)], np.log(np.concatenate(best)))


LEAST_SQUARES_PARAMETERS = {
    **PARAMETERS,
    **{name: replace(PARAMETERS[name], words=()) for name in ("l2", "tol")},
}


@dataclass(eq=False, repr=False, kw_only=True)
class GeneralizedLeastSquares(ItemParameters, Settings, LeastSquaresPredictions, ItemEstimator):
    """A generalised linear model E[y | x] = g(W x + b), trained by repeated least squares.

    Minimises, over weights W (labels x features) and intercepts b (labels),

        sum_i c_i (Phi(s_i) - <y_i, s_i>) + l2/2 ||W||^2,    s_i = W x_i + b,    g = grad Phi,

    y_i having a 1 for each label of item i. Every step solves a least-squares problem with one factorisation of the
    features' second moments (Algorithm 1), so the number of steps does not grow with their condition number: for
    dense, ill-conditioned features such as images and embeddings, up to some thousands of them.

    Parameters
    ----------
    l2 : float >= 0, default 1.0
        Ridge. The loss is a sum over the items: with link="identity" this is `Ridge(alpha=l2)`, with "softmax"
        `LogisticRegression(C=1 / l2)`.
    link : {"auto", "identity", "softmax", "sigmoid"} or Potential, default "auto"
        g: least squares; multinomial logit; logits. "auto" is "softmax" if items have one label,
        else "sigmoid". A `crfqn.objectives.losses.potentials.Potential` is a convex Phi with its gradient.
    solver : {"auto", "gls", "gls-plain", "l-bfgs"} or solver object, default "auto"
        "auto" is "gls", with Nesterov's acceleration; "gls-plain" is Algorithm 1 as printed.
    fit_intercept : bool, default True
    penalize_intercept : bool, default False
    class_weight : None, "balanced" or dict of label -> weight, optional
        A factor to `sample_weight`: the mean over the item's labels.
    penalty_factors : dict of name -> factor, or array-like, shape (n_features,), optional
        Factors >= 0 of l2 by feature, as in `ChainCRF`; 0 leaves a feature unpenalised.
    tol : float, default 1e-3
        Stop when the certified relative duality gap is below: objective - optimum <= tol * objective, proved.
    max_iter : int, default 500
        Steps.
    warm_start : bool, default False
    stop, max_seconds, n_threads, random_state, verbose, callback, checkpoint, checkpoint_every, scoring, patience
        As in `ChainCRF`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,), sorted; of a table of 0 and 1 the numbers of its columns
    coef_ : scipy.sparse.csr_array, shape (n_labels, n_features)
    intercept_ : ndarray, shape (n_labels,)
    n_features_in_, feature_names_in_, result_, n_iter_, extra_
        As in `MulticlassCRF`.

    Notes
    -----
    Time O(I F^2 + F^3) once, and O(I F K) a step; memory F^2 numbers besides the data. An item may have several labels
    (y a table of 0 and 1, or label sets): `predict` gives those of probability 1/2 and more.

    Examples
    --------
    >>> from crfqn import GeneralizedLeastSquares
    >>> X = [[2.0, 0.1], [1.0, 0.3], [0.2, 2.0], [0.1, 1.0]]
    >>> model = GeneralizedLeastSquares(l2=0.1).fit(X, ["a", "a", "b", "b"])
    >>> model.predict([[1.5, 0.2], [0.0, 1.5]]).tolist()
    ['a', 'b']

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least squares revisited: scalable approaches for multi-class
    prediction. ICML 2014.
    """

    KIND = "generalized-least-squares"
    SOLVERS: ClassVar[SolverTable] = {
        AUTO: GLS,
        "gls": GLS,
        "gls-plain": partial(GLS, accelerated=False),
        "l-bfgs": partial(LBFGS, warm_up=False),
    }

    PARAMETERS: ClassVar = LEAST_SQUARES_PARAMETERS

    l1: float | str | None = field(default=0.0, init=False)
    l2: float | None = field(default=1.0, kw_only=False)
    group_l1: float | str | None = field(default=0.0, init=False)
    penalty: str = field(default="l2", init=False)
    tol: float = 1e-3
    link: str | Potential = AUTO

    def make_loss(self, labels: LabelIndex, n_items: int, targets: Vector) -> ScoreLoss:
        potential = potential_of(self.link, labels.has_one_label)
        if isinstance(potential, LogSumExp) and not labels.has_one_label:
            raise InputError(
                'link: "softmax" is for one label an item; use "sigmoid" or "identity" for several'
            )
        if potential == LINKS["softmax"]:  # the same loss, compiled
            return MultinomialLogistic.of_labels(targets.argmax(axis=0).astype(np.int32), len(targets))
        return Link(potential, targets)

    def _probabilities(self, scores: Vector) -> Vector:
        potential = potential_of(self.current_model.trained.settings["link"], self.is_exclusive)
        return clipped(potential.gradient(scores), self.is_exclusive)

    def is_centered(self, labels: LabelIndex) -> bool:
        """The softmax is the only link of the table that ignores a constant added to all scores."""
        return isinstance(potential_of(self.link, labels.has_one_label), LogSumExp)

    def check_parameters(self) -> None:
        super().check_parameters()
        if not (isinstance(self.link, str) and self.link == AUTO):
            named_link(self.link)

    def stored_parameters(self) -> dict[str, Any]:
        named = (name for name, known in LINKS.items() if known == self.link)
        return super().stored_parameters() | {"link": next(named, self.link)}

    @staticmethod
    def check_stored(settings: Mapping[str, Any]) -> None:
        if not isinstance(settings["link"], str):
            raise InputError(f"link: a model file holds links by name, {[*LINKS]}, got {settings['link']!r}")
