"""MulticlassClassifier: sparse multiclass classification; MulticlassCRF: the same with the logistic loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from crfqn.arrays import Labels, Vector
from crfqn.choices import FLAT, LOSSES
from crfqn.data.inputs import ItemsLike
from crfqn.errors import InputError
from crfqn.estimators.automatic import (
    AUTO,
    LINEAR_PARAMETERS,
    LINEAR_SOLVERS,
    by_feature_parameters,
    linear_solver,
    named_solver,
)
from crfqn.estimators.item_classifier import ClassProbabilities
from crfqn.estimators.item_estimator import ItemEstimator, ItemParameters
from crfqn.estimators.problem import InMemory, Source
from crfqn.estimators.settings import Settings
from crfqn.model.label_index import LabelIndex
from crfqn.parameters import with_parameter_documentation
from crfqn.registry import find
from crfqn.solvers.automatic.auto_solver import ROW_PENALTY_SOLVERS
from crfqn.solvers.protocols import Solver


@dataclass(eq=False, repr=False, kw_only=True)
class MulticlassSettings(ItemParameters, Settings):
    """Parameters of `MulticlassClassifier` and `MulticlassCRF`."""

    l1: float | str | None = field(default=None, kw_only=False)
    l2: float | None = field(default=None, kw_only=False)
    group_l1: float | str | None = None
    dense_l2: float = 1.0
    penalty: str = "l1/l2"
    max_iter: int = 1000
    loss: str = "squared-hinge"
    feature_groups: ArrayLike | None = None
    loss_bound: float | None = None
    margin: float = 0.0

    PARAMETERS: ClassVar = LINEAR_PARAMETERS
    SOLVERS: ClassVar = LINEAR_SOLVERS
    LOSS_VARIANTS: ClassVar = FLAT

    @property
    def capable_solvers(self) -> tuple[str, ...]:
        """Names of the solvers for the loss under the penalty, the default first, if these are not all solvers; else
        ()."""
        return ("fbpd",) if self.loss_bound is not None else self.loss_variant.solvers.get(self.penalty, ())

    def is_centered(self, labels: LabelIndex) -> bool:
        return LOSSES[self.loss].is_shift_invariant

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.loss_bound is not None and not self.loss_variant.bounded:
            bounded = " or ".join(repr(name) for name, form in FLAT.items() if form.bounded)
            raise InputError(
                f"loss_bound: a bound on the loss needs loss={bounded}, got loss={self.loss!r}; expected None"
            )
        if self.margin and self.loss != "logistic":
            raise InputError(f"margin: with loss={self.loss!r} it is 1; expected 0, got {self.margin!r}")
        names = (AUTO, *self.capable_solvers)
        if self.capable_solvers and isinstance(self.solver, str) and self.solver not in names:
            raise InputError(
                f"solver: with loss={self.loss!r} and penalty={self.penalty!r} expected one of {[*names]}, "
                f"got {self.solver!r}"
            )

    def make_solver(self) -> Solver:
        if not self.capable_solvers or not isinstance(self.solver, str):
            dense, full = LOSSES[self.loss].dense_solvers
            return linear_solver(self, ROW_PENALTY_SOLVERS[dense], ROW_PENALTY_SOLVERS[full])
        if self.loss_bound is not None:
            return find("ConstrainedFBPD")()
        rows = by_feature_parameters(self).values()
        able = [name for name in self.capable_solvers if all(name in row.solvers for row in rows)]
        name = able[0] if self.solver == AUTO else self.solver
        return named_solver(name, self.SOLVERS, self.random_state)

    def adapted_source(self, source: InMemory, targets: Labels) -> Source:
        """Return the source with the offset of `margin`, which is added to the scores of all other labels of an item,
        and under the bound `loss_bound`."""
        if self.margin:
            n_items = source.features.n_items
            offset = np.full((source.loss.n_states, n_items), float(self.margin))
            offset[targets, np.arange(n_items)] = 0.0
            source = replace(source, offset=offset)
        if self.loss_bound is None:
            return source
        bounded: Source = find(self.loss_variant.bounded)(source, float(self.loss_bound))
        return bounded


@with_parameter_documentation
@dataclass(eq=False, repr=False, kw_only=True)
class MulticlassClassifier(MulticlassSettings, ClassProbabilities, ItemEstimator):
    """A linear classifier with row-sparse weights, trained by block coordinate descent with a certificate.

    Minimises, over weights W (classes x features) and intercepts b (classes),

        sum_i c_i loss(s_i, y_i) + group_l1 sum_f ||w_f|| + l1 ||W||_1 + l2/2 ||W||^2,    s_ik = w_k . x_i + b_k,

    where w_f are the weights of feature f. Under the penalty "l1/l2" a feature has weights for all classes or for none.
    The loss is a sum over the items. For a strength a of a paper with a mean over n items, set group_l1 = n a.
    scikit-learn's C is 1 / l1 or 1 / l2.

    Examples
    --------
    >>> from crfqn import MulticlassClassifier
    >>> X = [[2, 0, 0, 1], [1, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 1], [0, 0, 3, 1], [0, 0, 1, 0]]
    >>> model = MulticlassClassifier(group_l1=2).fit(X, ["a", "a", "b", "b", "c", "c"])
    >>> model.predict([[1, 0, 0, 0], [0, 0, 2, 1]]).tolist()
    ['a', 'c']
    >>> model.kept_features_.tolist()
    [0, 1, 2]

    Parameters
    ----------
    {l1}
    {l2}
    {group_l1}
    {loss}
    {penalty}
    {class_weight}

    Other Parameters
    ----------------
    {others}

    Attributes
    ----------
    model_ : crfqn.Model, as in `ChainCRF`
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    n_dense_ : int, D, the columns of a dense block, 0 without one
    dense_coef_ : ndarray, shape (n_classes, D), only with a dense block
    intercept_ : ndarray, shape (n_classes,), zeros without intercept
    kept_features_ : ndarray of int, the features with a weight, the only ones that prediction reads
    l1_, l2_, group_l1_, temperature_, n_features_in_, feature_names_in_, result_, n_iter_, extra_
        As in `MulticlassCRF`.

    Notes
    -----
    `predict_proba` and other methods with probabilities exist for the logistic loss only, as in `MulticlassCRF`.
    Training allocates several arrays of items x classes. `crf_path` varies group_l1, or l1 if the penalty has no
    groups.

    References
    ----------
    Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.
    Blondel, Seki, Uehara: Block coordinate descent algorithms for large-scale sparse multiclass classification. Machine
    Learning 93, 2013.
    """

    KIND = "multiclass-classifier"


@with_parameter_documentation
@dataclass(eq=False, repr=False, kw_only=True)
class MulticlassCRF(MulticlassSettings, ClassProbabilities, ItemEstimator):
    """Multinomial logistic regression with sparse weights, trained to a certified distance from the optimum.

    `MulticlassClassifier` with the logistic loss and, by default, the penalty "l1". Minimises, over weights W (classes
    x features) and intercepts b (classes),

        sum_i c_i (-log P(y_i | x_i)) + l1 |W|_1 + l2/2 |W|^2,    P(k | x) ~ exp(w_k . x + b_k),

    a sum over the items i, not a mean: l1 is 1/C of scikit-learn. Every class has its own weights, also if there are
    two classes: `coef_` has two rows then, and the penalty differs from that of a binary model with one row.

    Examples
    --------
    >>> from crfqn import MulticlassCRF
    >>> X = [[2, 0, 0], [1, 0, 0], [0, 2, 0], [0, 1, 1], [0, 0, 3], [0, 0, 1]]
    >>> model = MulticlassCRF(l1=0.1).fit(X, ["a", "a", "b", "b", "c", "c"])
    >>> model.predict([[1, 0, 0], [0, 0, 2]]).tolist()
    ['a', 'c']

    Parameters
    ----------
    {l1}
    {l2}
    {penalty}
    {class_weight}
    {fit_intercept}
    {tol}

    Other Parameters
    ----------------
    {others}

    Attributes
    ----------
    model_ : crfqn.Model, as in `ChainCRF`
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    n_dense_ : int, D, the columns of a dense block, 0 without one
    dense_coef_ : ndarray, shape (n_classes, D), only with a dense block
    intercept_ : ndarray, shape (n_classes,), zeros without intercept
    l1_, l2_, group_l1_ : float, the strengths of the training
    temperature_ : float, found by `calibrate`, else 1
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if X had names
    result_ : Result
        Its status, value, gap, passes and trace.
    n_iter_ : int
    extra_ : dict, the argument `extra` of `save`; only after `crfqn.load`

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014.
    """

    KIND = "multiclass-crf"
    DEFAULT_TOL: ClassVar[float] = 0.03

    loss: str = field(default="logistic", init=False)
    margin: float = field(default=0.0, init=False)
    penalty: str = "l1"

    def predict_marginals(self, X: ItemsLike) -> Vector:
        """Return the probabilities of the classes, as `predict_proba` does."""
        return self.predict_proba(X)
