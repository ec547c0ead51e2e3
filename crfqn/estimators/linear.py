"""Linear classifiers without a taxonomy: any loss of scores, a penalty by its name, and the choice of a solver.

A subclass says which losses there are; reading the data, training, prediction and model files are those of `items.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords
from crfqn.estimators.automatic_solver import AUTO, FOR_FLAT, FOR_MARGINS, for_items
from crfqn.estimators.base import SOLVERS
from crfqn.estimators.flat_labels import FlatLabels
from crfqn.estimators.named_penalties import make_penalty, named_penalty, strengths_of
from crfqn.estimators.strengths import Strengths
from crfqn.parameters import PARAMETERS
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.solvers.coordinate.feature_bcd import FeatureBCD
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.fbpd import FBPD
from crfqn.solvers.least_squares.generalized import GLS
from crfqn.solvers.protocols import Solver
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.stochastic.fobos import FOBOS


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(FlatLabels):
    """Base class of linear classifiers: a weight for each class and feature, under a penalty chosen by its name."""

    l1: float | str | None = field(default=None, kw_only=False)
    l2: float | None = field(default=None, kw_only=False)
    penalty: str = "l1/l2"
    group_l1: float | str | None = None
    max_iter: int = 1000

    PARAMETERS: ClassVar = {
        **PARAMETERS,
        **{name: replace(PARAMETERS[name], is_optional=True) for name in ("l1", "group_l1")},
        "l2": replace(PARAMETERS["l2"], words=(), is_optional=True),
    }
    SOLVERS: ClassVar[dict[str, Callable[[], Any]]] = {
        **SOLVERS,
        AUTO: for_items,
        "prox-qn": lambda: FOR_FLAT,
        "bcd": RowDescent,
        "bcd-constant": partial(RowDescent, step="constant"),
        "bcd-single": FeatureBCD,
        "dual": DualDecomposition,
        "fbpd": FBPD,
        "fobos": FOBOS,
        "l-bfgs": partial(LBFGS, warm_up=False),
        "gls": GLS,
    }

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted: what prediction reads of its data."""
        return np.unique(self.coef_.indices).astype(np.int64)

    def sparsify(self) -> Self:
        """Do nothing, as `coef_` is sparse from the start; for code that asks linear models of scikit-learn."""
        return self

    @property
    def _dense_solvers(self) -> tuple[Solver, Solver]:
        """Solvers for penalties over rows where at least 5 %, and at least 50 %, of the entries are not zero."""
        return FOR_MARGINS, FOR_MARGINS

    def _make_solver(self) -> Any:
        if not (isinstance(self.solver, str) and self.solver == AUTO):
            return super()._make_solver()
        dense, full = self._dense_solvers
        return for_items(self._seeded(RowDescent()), self._seeded(dense), full)

    def _penalty(self, n_features: int, n_states: int, unpenalised: Coords) -> ElasticNet | GroupLasso:
        return make_penalty(self.penalty, self._strengths, n_features, n_states, unpenalised)

    @property
    def _strengths(self) -> Strengths:
        return strengths_of(self.penalty, l1=self.l1, l2=self.l2, group_l1=self.group_l1)

    @property
    def _path_parameter(self) -> str:
        return named_penalty(self.penalty).strengths[0]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _ = self._strengths  # those that the penalty has
