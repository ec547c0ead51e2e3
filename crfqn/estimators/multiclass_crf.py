"""MulticlassCRF: flat classification, L1-penalised multinomial logistic regression with a certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from crfqn.arrays import Vector
from crfqn.estimators.base import LIKELIHOOD
from crfqn.estimators.multiclass import MulticlassClassifier


@dataclass(eq=False, repr=False, kw_only=True)
class MulticlassCRF(MulticlassClassifier):
    """Multinomial logistic regression with sparse weights, trained to a certified distance from the optimum.

    `MulticlassClassifier` with the logistic loss and, by default, the penalty "l1". Minimises, over weights W (classes
    x features) and intercepts b (classes),

        sum_i c_i (-log P(y_i | x_i)) + l1 |W|_1 + l2/2 |W|^2,    P(k | x) ~ exp(w_k . x + b_k),

    a sum over the items i, not a mean: l1 means what 1/C means in scikit-learn. Every class has weights of its own, and
    of two classes both have: `coef_` keeps two rows, and the penalty is another than that of a binary model with one.

    Parameters
    ----------
    l1, l2 : float >= 0, or "auto" for l1, optional
        Strengths of the penalties, in nats; by default "auto" (as in `ChainCRF`) and 1 where the penalty's name has
        them, else 0.
    penalty : {"l1", "elastic-net", "l2", "l1/l2", "l1/linf", "sparse-group"}, default "l1"
    group_l1 : float >= 0 or "auto", optional
        As in `MulticlassClassifier`: under the penalty "l1/l2" a feature has weights for all classes or for none.
    fit_intercept : bool, default True
    penalize_intercept : bool, default False
        Penalise b as W. Without, b sums up to 0.
    class_weight : None, "balanced" or dict of label -> weight, optional
        A factor to `sample_weight`. "balanced" lets every class count the same in total; labels that a dict leaves
        out have 1.
    tol : float, default 1e-3
        Stop when objective - optimum <= tol * objective. Small problems are solved on by Newton's method, until
        rounding is all that is left.
    stop : {"estimate", "certificate"}, default "estimate"
        What has to say so: an estimate from what the steps have won, or the certified duality gap, a proof.
    solver, feature_groups, max_iter, random_state, warm_start
        As in `MulticlassClassifier`.
    constraint : None
        For the loss "hinge" of `MulticlassClassifier` alone.
    max_seconds, n_threads, verbose, callback, scoring, patience
        As in `ChainCRF`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    intercept_ : ndarray, shape (n_classes,), zeros without intercept
    l1_, l2_, group_l1_ : float, the strengths that it was trained with
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if X had names
    result_ : Result
        Its status, value, gap, passes and trace.
    n_iter_ : int
    extra_ : dict, what was given to `save`; only after `crfqn.load`

    Examples
    --------
    >>> from crfqn import MulticlassCRF
    >>> X = [[2, 0, 0], [1, 0, 0], [0, 2, 0], [0, 1, 1], [0, 0, 3], [0, 0, 1]]
    >>> model = MulticlassCRF(l1=0.1).fit(X, ["a", "a", "b", "b", "c", "c"])
    >>> model.predict([[1, 0, 0], [0, 0, 2]]).tolist()
    ['a', 'c']

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014.
    """

    KIND = "multiclass-crf"

    loss: str = field(default=LIKELIHOOD, init=False)
    penalty: str = "l1"

    def predict_marginals(self, X: Any) -> Vector:
        """Return the same as `predict_proba`."""
        return self.predict_proba(X)

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return an estimator with these parameters; earlier files hold strengths and a norm, no penalty's name."""
        if "penalty" not in settings:
            rows = {"l2": "l1/l2", "linf": "l1/linf"}[settings["group_norm"]]
            settings = {**settings, "penalty": "l1"}
            if settings["group_l1"] and settings["l1"]:
                settings["penalty"] = "sparse-group"
            elif settings["group_l1"]:
                settings["penalty"] = rows
        return super()._from_settings(settings)
