"""Solvers by the names that estimators know them by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from crfqn.errors import InputError
from crfqn.estimators.automatic_solver import AUTO, FOR_FLAT, AutoSolver, for_items
from crfqn.solvers.coordinate.block_cd import FeatureBCD
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.first_order.sparsa import SpaRSA
from crfqn.solvers.least_squares.generalized import GLS
from crfqn.solvers.primal_dual.regularised import FBPD
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.fobos import FOBOS
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1

SOLVERS: dict[str, Callable[[], Any]] = {
    AUTO: AutoSolver,
    "prox-qn": ProxQN,
    "prox-qn-paper": ProxQN.paper,
    "owl-qn": OWLQN,
    "prox-gd": ProxGD,
    "fista": FISTA,
    "spa-rsa": SpaRSA,
    "l-bfgs": LBFGS,
    "sgd": SGDL1,
    "averaged-perceptron": AveragedPerceptron,
    "passive-aggressive": PassiveAggressive,
    "bcd": FeatureBCD,
}
STRUCTURED_SOLVERS: dict[str, Callable[[], Any]] = {**SOLVERS, "block-frank-wolfe": BlockFrankWolfe}
LINEAR_SOLVERS: dict[str, Callable[[], Any]] = {
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
SEEDS = ("random_state", "seed")  # what solvers call theirs


def named_solver(solver: Any, known: dict[str, Callable[[], Any]], random_state: Any) -> Any:
    """Return the solver that one of the `known` names stands for, or a solver object; InputError for anything else."""
    if hasattr(solver, "steps"):
        return solver
    if not isinstance(solver, str) or solver not in known:
        raise InputError(f"solver: expected one of {sorted(known)} or a solver object, got {solver!r}")
    return seeded(known[solver](), random_state)


def seeded(solver: Any, random_state: Any) -> Any:
    """Return the solver, with a seed drawn from `random_state` if it takes one and `random_state` is not None."""
    name = next((name for name in SEEDS if hasattr(solver, name)), None)
    if random_state is None or name is None:
        return solver
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return replace(solver, **{name: seed})


def linear_solver(model: Any, dense: Any, full: Any) -> Any:
    """Return the solver of a linear classifier under a penalty with a name; `dense` and `full` are for penalties over
    rows where at least 5 % and 50 % of the entries are not zero."""
    if not (isinstance(model.solver, str) and model.solver == AUTO):
        return named_solver(model.solver, model.SOLVERS, model.random_state)
    sparse, dense = (seeded(solver, model.random_state) for solver in (RowDescent(), dense))
    return for_items(sparse, dense, full)
