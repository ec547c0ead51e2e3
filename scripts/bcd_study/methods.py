"""The solvers of section 5.2, the objectives of section 5.3, how each is drawn, and the paper's constants.

Colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.items import ItemProblem
from studies.drawing import Look
from studies.report import LEVELS

from bcd_study.judge import Judge
from crfqn.data.features import FeatureStore
from crfqn.objectives import objective as objectives
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.objectives.losses.logistic import MultinomialLogistic
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.first_order.prox_gd import FISTA
from crfqn.solvers.first_order.sparsa import SpaRSA
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stochastic.fobos import FOBOS
from crfqn.threads import Pool

__all__ = ["LEVELS", "OBJECTIVES", "OMEGA", "SIGMA", "SOLVERS", "SWEEPS", "TAU"]
SIGMA, OMEGA = 0.01, 0.5  # of the line search, section 4.4.1
TAU, SWEEPS = 1e-3, 200  # of the stopping rule (equation 10), and K: section 5.3
LOSSES: Mapping[str, Any] = {
    "multiclass squared hinge": MulticlassSquaredHinge,
    "multitask squared hinge": MultitaskSquaredHinge,
    "multiclass logistic": MultinomialLogistic.of_labels,
}
STRAIGHT = "multiclass squared hinge"
PAPER_BCD, STOCHASTIC = "BCD (LS)", "FOBOS"
OURS, PROX_QN = "BCD, the library's", "Prox-QN"
OF_THE_LIBRARY = (OURS, PROX_QN)  # not in the paper's comparison


def paper_bcd(step: str, tau: float | None = None) -> RowDescent:
    """Algorithm 1: every row in every sweep, nothing extrapolated."""
    return RowDescent(
        step=step,
        sigma=SIGMA,
        omega=OMEGA,
        least_share=1.0,
        free_share=0.0,
        tau=tau,
        shrink=False,
        memory=0,
        shuffle=False,
        max_sweeps=20,
    )


@dataclass(frozen=True, kw_only=True)
class Method(Look):
    """A solver: what makes it, and the look of its curve."""

    make: Callable[[], Any]


SOLVERS: Mapping[str, Method] = {
    PAPER_BCD: Method(make=lambda: paper_bcd("line search"), colour="#d55e00", marker="o"),
    "BCD (CST)": Method(make=lambda: paper_bcd("constant"), colour="#e69f00", marker="v"),
    "FISTA (LS)": Method(make=lambda: FISTA(restart=None), colour="#0072b2", marker="s"),
    "FISTA (CST)": Method(make=lambda: FISTA(lipschitz="bound", restart=None), colour="#56b4e9", marker="X"),
    "SpaRSA": Method(make=lambda: SpaRSA(), colour="#009e73", marker="^"),
    STOCHASTIC: Method(make=lambda: FOBOS(), colour="#cc79a7", marker="P"),
    OURS: Method(make=lambda: RowDescent(), colour="#000000", marker="D", is_dashed=True),
    PROX_QN: Method(make=lambda: ProxQN(), colour="#777777", marker="*", is_dashed=True),
}


@dataclass(frozen=True, kw_only=True)
class Objective(Look):
    """An objective: its loss, whether whole rows are penalised, the steps that minimise it, the look of its curve."""

    loss: str
    step: str = "line search"
    is_grouped: bool = True


OBJECTIVES: Mapping[str, Objective] = {
    "MC Squared Hinge": Objective(loss=STRAIGHT, colour="#d55e00", marker="o"),
    "MT Squared Hinge": Objective(loss="multitask squared hinge", colour="#0072b2", marker="s"),
    "MC Logistic": Objective(loss="multiclass logistic", step="constant", colour="#009e73", marker="^"),
    "MC Squared Hinge, L1": Objective(
        loss=STRAIGHT, is_grouped=False, colour="#cc79a7", marker="X", is_dashed=True
    ),
    "MC Logistic, line search": Objective(
        loss="multiclass logistic", colour="#009e73", marker="v", is_dashed=True
    ),
}
TIMED = ("MC Squared Hinge", "MT Squared Hinge", "MC Logistic", "MC Logistic, line search")  # table 2
COMPARED = ("MC Squared Hinge", "MT Squared Hinge", "MC Logistic", "MC Squared Hinge, L1")  # figure 5


@dataclass(frozen=True, eq=False)
class Task:
    """A loss over a problem's training items as a sum, a penalty for sums, and the judge."""

    objective: objectives.Objective
    penalty: GroupLasso | ElasticNet
    judge: Judge

    @classmethod
    def of(
        cls, problem: ItemProblem, strength: float, loss: str = STRAIGHT, is_grouped: bool = True,
        n_threads: int | None = 1,
    ) -> Task:  # fmt: skip
        """strength: the paper's lambda, for means."""
        judge = Judge(problem)
        n_items, n_states = judge.train.size, judge.labels.size
        store = FeatureStore.from_matrix(problem.X_train, np.arange(n_items + 1))
        made = LOSSES[loss](judge.train.astype(np.int32), n_states)
        whole = n_items * strength
        penalty = (
            GroupLasso(whole, n_features=store.n_features, n_states=n_states)
            if is_grouped
            else ElasticNet(whole)
        )
        return cls(objectives.Objective(SparseMap(store, Pool(n_threads)), made), penalty, judge)
