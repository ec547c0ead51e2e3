"""What the estimators of Blondel, Seki and Uehara (2013) share: one loss for all classes, a penalty by its name.

A subclass says which loss; reading the data, prediction and model files are those of `items.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.estimators.base import pass_on_interrupt
from crfqn.estimators.classification.flat_labels import FlatLabels
from crfqn.estimators.named_penalties import make_penalty, named_penalty, strengths_of
from crfqn.objectives.protocols import RowView, has_view
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.first_order.sparsa import SpaRSA
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, Solver, State, requirements
from crfqn.solvers.prox_qn import MostPromising, ProxQN, TokenWise, UntilSolved
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.stochastic.fobos import FOBOS

AUTO = "auto"  # the solver that suits penalty, size and density best
# Weights. scikit-learn's digits (640): Prox-QN 0.6 s, block coordinate descent 0.8 s, or 2.1 s and 1,000 sweeps without
# an end with intercepts; iris and wine: 20 to 80 steps, 500 to 1,000 sweeps; 20 newsgroups (2.6 million): 60 s, 10 s.
FEW = 2000
# Of the entries. MNIST (19 %) to 1e-3 of the optimum by Prox-QN and by block coordinate descent: 4 s and 31 s
# (logistic, one core), 2 s and 9 s (multitask hinge, two cores), 5 s and 4 s (squared hinge, one core).
DENSE = 0.05
# What a sample of the items says is worth less where most of them have no loss at the optimum, and rows of a dense
# metric cost more than what the last sweeps win.
FOR_LIKELIHOODS = ProxQN(sweeps=UntilSolved(most=20))
FOR_MARGINS = ProxQN(
    warm_start=None,
    metric=TokenWise(n_positions=6000),
    sweeps=UntilSolved(20, tolerance=0.2),
    entry=MostPromising(1000),
)


@dataclass(frozen=True)
class AutoSolver:
    """Proximal quasi-Newton for few weights, `dense` for dense features, block coordinate descent otherwise."""

    few: Solver = field(default_factory=ProxQN)
    dense: Solver = FOR_MARGINS
    sparse: Solver = field(default_factory=RowDescent)

    def chosen(self, objective: Objective) -> Solver:
        """Return one of the three; where the objective shows no rows, one of the first two."""
        if objective.n_coords <= FEW:
            return self.few
        is_dense = objective.mean_occurrence >= DENSE * objective.n_positions
        return self.dense if is_dense or not has_view(objective, RowView) else self.sparse

    def requires(self, objective: Objective) -> Requirements:
        """Return what the chosen one asks for."""
        return requirements(self.chosen(objective), objective)

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Return the steps of the chosen one."""
        return self.chosen(objective).steps(objective, penalty, start)


class LinearClassifierBase(FlatLabels):
    """Base of the estimators that minimise a loss of `objectives.losses` under a penalty that is chosen by its name."""

    SOLVERS: ClassVar[dict[str, Callable[[], Any]]] = {
        AUTO: AutoSolver,
        "bcd": RowDescent,
        "bcd-constant": partial(RowDescent, step="constant"),
        "prox-qn": ProxQN,
        "prox-gd": ProxGD,
        "fista": FISTA,
        "spa-rsa": SpaRSA,
        "fobos": FOBOS,
        "l-bfgs": partial(LBFGS, warm_up=False),
    }
    SETTINGS: ClassVar[tuple[str, ...]] = (
        "penalty", "l1", "l2", "group_l1", "fit_intercept", "penalize_intercept", "tol", "max_iter", "max_seconds",
        "n_threads", "verbose", "warm_start",
    )  # fmt: skip

    penalty: str

    @property
    def _dense_solver(self) -> Solver:
        """For rows of dense features."""
        return FOR_MARGINS

    def __init__(
        self,
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
        self.penalty = penalty
        self.solver = solver
        self.group_l1 = group_l1
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted: what prediction reads of its data."""
        return np.unique(self.coef_.indices).astype(np.int64)

    def sparsify(self) -> Self:
        """Nothing to do, as `coef_` is sparse from the start; for code that asks linear models of scikit-learn."""
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None, start: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
            Booleans or real numbers; CSR, CSC and dense arrays are read as they are, without a copy.
        y : array-like of labels, shape (n_items,)
            Strings, whole numbers or booleans; of `MultilabelRanker` also tables of 0 and 1, and label sets.
        sample_weight : array-like, shape (n_items,), optional
            How often each item counts; 0 is the same as leaving it out.
        start : fitted MulticlassClassifier, MultilabelRanker or MulticlassCRF, optional
            Start from its weights, of the labels and features (by name where both have names) in common, others from
            zero; its loss and penalty may be others. It goes before `warm_start`. `verbose` says how much was kept.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
            Says what was expected and what came.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback; the model has the best weights so far, and is usable.
        """
        self._check_parameters()
        checked = copy(self)  # takes the columns' names: a fit that fails leaves the last model as it was
        X, targets = self._read(checked, X, y, sample_weight)
        check_classes(targets.space.classes)
        weights = self._start(checked, targets, start)
        store = self._store(X)
        del X  # so that a caller who does not keep it gets its memory back
        self._keep(self._learn(checked, store, targets, weights))
        self._finish(store, targets.labels, targets.weights)
        pass_on_interrupt(self.result_)
        return self

    def _penalty(
        self, n_features: int, n_states: int, unpenalised: NDArray[np.int64]
    ) -> ElasticNet | GroupLasso:
        return make_penalty(self.penalty, self._strengths, n_features, n_states, unpenalised)

    @property
    def _strengths(self) -> dict[str, float]:
        return strengths_of(self.penalty, l1=self.l1, l2=self.l2, group_l1=self.group_l1)

    @property
    def _path_parameter(self) -> str:
        return named_penalty(self.penalty).strengths[0]

    def _make_solver(self) -> Any:
        if isinstance(self.solver, str) and self.solver == AUTO:
            named = named_penalty(self.penalty).solver
            if named != AUTO:
                return self.SOLVERS[named]()
            return AutoSolver(dense=self._seeded(self._dense_solver), sparse=self._seeded(RowDescent()))
        return super()._make_solver()

    def _check_strengths(self) -> None:
        _ = self._strengths


def check_classes(classes: NDArray) -> None:
    """Refuse what leaves nothing to tell apart."""
    if classes.size < 2:
        found = f"one class: {classes.tolist()[0]!r}" if classes.size else "none"
        raise InputError(f"expected items of at least two classes, got {found}")
