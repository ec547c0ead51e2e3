"""Solvers and penalties by name, strengths of the penalty for "auto", and parameters of a penalty by feature.

"auto" is proportional to the noise of the gradient of a single weight (`crfqn.objectives.gradient_noise`), which
depends on the number of items, the scale and density of features, the loss and the weights of items:

    l1 = 0.1 noise,    group_l1 = 0.2 noise;    l2 = 2 x unit information, then l1 = 0.25 noise for sequences

The gradient of a row of weights for K labels is sqrt(K) times as long, but a useful feature matters to few labels, and
their strength must not grow with K. In theory a factor of 1 removes nearly every uninformative feature; smaller factors
predict better, because keeping such a feature costs less than shrinking the others. `l2="auto"` is Laplace's rule: it
adds two occurrences of each feature, one with a label and one without, which matters for rare features, as in text.

The penalties of flat classifiers (`crfqn/choices.py`) are l1 ||W||_1 + l2/2 ||W||^2 + group_l1 sum_f ||w_f||, w_f the
weights of feature f; other penalties over rows are in section 4.7 of Blondel, Seki and Uehara (2013).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from crfqn.arrays import NO_COORDS, Coords
from crfqn.choices import BY_FEATURE, PENALTIES, STRENGTHS, ByFeatureRow, PenaltySpec
from crfqn.errors import InputError
from crfqn.messages import hint, shorten
from crfqn.model.space import Space
from crfqn.objectives.gradient_noise import gradient_noise, unit_information
from crfqn.parameters import PARAMETERS
from crfqn.penalties.penalty import Layout
from crfqn.registry import find
from crfqn.solvers.automatic.auto_solver import FOR_FLAT, AutoSolver, for_items
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.protocols import Objective, Penalty, Solver
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.perceptron import AROW, AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1

AUTO = "auto"
RandomStateLike: TypeAlias = "int | np.random.RandomState | None"

# The function that makes each solver, or its name in `crfqn.registry`.
SolverTable = dict[str, Callable[[], Any] | str]
SOLVERS: SolverTable = {
    AUTO: AutoSolver,
    "prox-qn": ProxQN,
    "prox-qn-paper": ProxQN.paper,
    "owl-qn": OWLQN,
    "prox-gd": "ProxGD",
    "fista": "FISTA",
    "spa-rsa": SpaRSA,
    "l-bfgs": LBFGS,
    "sgd": SGDL1,
    "averaged-perceptron": AveragedPerceptron,
    "passive-aggressive": PassiveAggressive,
    "arow": AROW,
    "feature-bcd": "FeatureBCD",
}
STRUCTURED_SOLVERS: SolverTable = {**SOLVERS, "block-frank-wolfe": BlockFrankWolfe}
LINEAR_SOLVERS: SolverTable = {
    **SOLVERS,
    AUTO: for_items,
    "prox-qn": lambda: FOR_FLAT,
    "bcd": RowDescent,
    "bcd-constant": partial(RowDescent, step="constant"),
    "dual": DualDecomposition,
    "fbpd": "FBPD",
    "fobos": "FOBOS",
    "l-bfgs": partial(LBFGS, warm_up=False),
    "gls": "GLS",
}
MISTAKE_SOLVERS = ("averaged-perceptron", "passive-aggressive", "arow")
SEED_PARAMETERS = ("random_state", "seed")  # the names of this parameter in solvers


def named_solver(solver: str | Solver, known: SolverTable, random_state: RandomStateLike) -> Solver:
    """Return the solver of one of the `known` names, or a solver object unchanged; InputError for anything else."""
    if not isinstance(solver, str) and hasattr(solver, "steps"):
        return solver
    check_solver(solver, known)
    row = known[str(solver)]
    return seeded((find(row) if isinstance(row, str) else row)(), random_state)


def check_solver(solver: object, known: SolverTable) -> None:
    """Raise InputError for anything but one of the `known` names or a solver object."""
    if not hasattr(solver, "steps") and (not isinstance(solver, str) or solver not in known):
        raise InputError(
            f"solver: expected one of {sorted(known)} or a solver object, got {shorten(solver)}{hint(solver, known)}"
        )


def learns_from_mistakes(solver: str | Solver) -> bool:
    """Return whether a solver, or the solver of this name, corrects mistakes and ignores the penalty."""
    return isinstance(solver, AveragedPerceptron) or (isinstance(solver, str) and solver in MISTAKE_SOLVERS)


def seeded(solver: Any, random_state: RandomStateLike) -> Any:
    """Return the solver, with a seed drawn from `random_state` if it has a seed and `random_state` is not None."""
    name = next((name for name in SEED_PARAMETERS if hasattr(solver, name)), None)
    if random_state is None or name is None:
        return solver
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return replace(solver, **{name: seed})


def linear_solver(settings: BaseEstimator, dense: Solver, full: Solver) -> Solver:
    """Return the solver of a linear classifier. For penalties over rows, "auto" takes `dense` if 5 % or more of the
    entries are not zero, `full` if 50 % or more."""
    if not (isinstance(settings.solver, str) and settings.solver == AUTO):
        return named_solver(settings.solver, settings.SOLVERS, settings.random_state)
    return for_items(seeded(RowDescent(), settings.random_state), seeded(dense, settings.random_state), full)


Strengths: TypeAlias = dict[str, Any]  # a float or "auto" by name: l1, l2, group_l1
# Strengths in units of the gradient's noise. docs/choosing-strengths.md: with l1 from 0.07 to 0.25 and group_l1 from
# 0.11 to 0.33, the score on each data set is within one point of the score under the tuned strength.
NOISE_FACTORS = {"l1": 0.1, "group_l1": 0.2}
# The factor of l1 for sequences with an automatic l2. On the same page, factors from 0.1 to 0.5 have equal scores, and
# larger factors have smaller models.
NOISE_FACTOR_WITH_L2 = 0.25
LAPLACE_POSITIONS = 2  # positions added by l2 = "auto", one with a label and one without (Laplace's rule)


def is_auto(value: object) -> bool:
    """Return whether a strength is "auto"."""
    return isinstance(value, str) and value == AUTO


def chosen_strengths(
    strengths: Strengths, objective: Objective, unpenalised: Coords, dense: Coords = NO_COORDS
) -> Strengths:
    """Return the strengths as numbers, with "auto" chosen for the objective; `dense` are the coordinates of a dense
    block, which are not considered."""
    if not any(map(is_auto, strengths.values())):
        return strengths
    noise = gradient_noise(objective, unpenalised, dense)
    chosen = {name: factor * noise for name, factor in NOISE_FACTORS.items()}
    if is_auto(strengths.get("l2")):
        is_chain = objective.operations.has_sequences
        chosen["l1"] = (NOISE_FACTOR_WITH_L2 if is_chain else NOISE_FACTORS["l1"]) * noise
        chosen["l2"] = LAPLACE_POSITIONS * unit_information(objective, np.union1d(unpenalised, dense))
    return {name: chosen[name] if is_auto(value) else value for name, value in strengths.items()}


def described(strengths: Strengths) -> str:
    """Return strengths as text, such as "l1 = 0.13, l2 = 0"; group_l1 only if it is not 0."""
    return ", ".join(
        f"{name} = {value if is_auto(value) else format(value, 'g')}"
        for name, value in strengths.items()
        if value or name != "group_l1"
    )


# Parameters of estimators with a parameter `penalty`: a strength that is None has the default of the penalty.
_BY_PENALTY = "By default 0 if the penalty does not have it, else"
LINEAR_PARAMETERS = {
    **PARAMETERS,
    "l1": replace(PARAMETERS["l1"], is_optional=True, details=f'In nats. {_BY_PENALTY} "auto": a tenth of the standard '
        "deviation that the gradient of an uninformative feature has (docs/choosing-strengths.md). It suits a first "
        "fit; `crf_path` tries others."),
    "group_l1": replace(PARAMETERS["group_l1"], is_optional=True, details=f'In nats. {_BY_PENALTY} "auto", as of l1. '
        'Under the penalty "l1/l2" a feature has weights for all classes or for none.'),
    "l2": replace(PARAMETERS["l2"], words=(), is_optional=True, details=f"In nats. {_BY_PENALTY} 1. It may be added to "
        'every penalty; under the penalty "l1" with the logistic loss, and an l1 that is automatic, it is by default '
        'chosen by Laplace\'s rule (two more items with each feature); with l2=0 there is no L2 penalty.'),
    "loss": replace(PARAMETERS["loss"], details='For an item of class y. "squared-hinge": the sum over r != y of '
        "max(1 - (s_y - s_r), 0)^2 (equation 2 of the paper). \"multitask-squared-hinge\": the squared hinge losses of "
        'one classifier against the rest for each class (11). "logistic": -log P(y), P(k) ~ exp(s_k) (12). "hinge": '
        "the largest of max(1 - (s_y - s_r), 0), as Crammer and Singer (2002) have it. Choose the logistic loss for "
        "probabilities."),
    "solver": replace(PARAMETERS["solver"], details='"auto" is "l-bfgs" if only l2 is not 0, and "prox-qn" for "l1" '
        'and "elastic-net". Over rows it is "prox-qn" for up to 2,000 weights and for dense features (if half of '
        'the entries are not zero; 5 % of them, unless the loss is the squared hinge), else "bcd". "bcd" is block '
        'coordinate descent over rows with a line search, "bcd-constant" with constant steps and rows at random. '
        '"fobos" updates after each item and does not reach a small gap. "dual" (with "l2") and "fbpd" are dual '
        'decomposition and forward-backward primal-dual splitting (Chierchia et al. 2015), which the loss "hinge" '
        'needs. The solvers of `ChainCRF` except "block-frank-wolfe" can be chosen, too.'),
    "random_state": replace(PARAMETERS["random_state"], details='It orders the rows ("bcd" and its variants) and the '
        'items ("fobos"). With None results are reproducible, too.'),
    "max_iter": replace(PARAMETERS["max_iter"], details="Sweeps over the rows, or steps. Increase it if a warning says "
        "that the training has not converged."),
}  # fmt: skip
# Defaults of the strengths that a penalty has.
DEFAULT_STRENGTHS = {"l1": AUTO, "l2": 1.0, "group_l1": AUTO}


def named_penalty(name: object) -> PenaltySpec:
    """Return the penalty of this name; InputError for another name."""
    if not isinstance(name, str) or name not in PENALTIES:
        raise InputError(f"penalty: expected one of {[*PENALTIES]}, got {name!r}")
    return PENALTIES[name]


def strengths_of(name: str, is_likelihood: bool = False, **values: float | str | None) -> Strengths:
    """Return all strengths by name. A strength that is None has its default if the penalty has it, else 0.

    Every penalty may have an L2 term; InputError for any other strength > 0 that the penalty does not have. For a
    likelihood with an automatic l1, the default of l2 is "auto" (Laplace's rule).
    """
    known = named_penalty(name).strengths
    if (
        is_likelihood
        and name == "l1"
        and values["l2"] is None
        and (values["l1"] is None or is_auto(values["l1"]))
    ):
        values["l2"] = AUTO
    strengths: Strengths = {}
    for strength in STRENGTHS:
        value: Any = values[strength]
        if value is None:
            value = DEFAULT_STRENGTHS[strength] if strength in known else 0.0
        if (is_auto(value) or value > 0) and strength not in (*known, "l2"):
            others = [other for other, kind in PENALTIES.items() if strength in kind.strengths]
            raise InputError(
                f"{strength}: the penalty {name!r} has none, its strength is {known[0]}; "
                f"{' and '.join(map(repr, others))} have {strength}, got {value!r}"
            )
        strengths[strength] = value if is_auto(value) else float(value)
    return strengths


def make_penalty(name: str, strengths: Strengths, layout: Layout, norm: str | None = None) -> Penalty:
    """Return the penalty of this name. `norm` is the norm of a row of weights, by default that of the penalty."""
    row = named_penalty(name)
    class_name = row.class_name if layout.feature_groups is None else row.with_groups
    penalty: Penalty = find(class_name).from_strengths(strengths, layout._replace(norm=norm or row.norm))
    return penalty


def by_feature_parameters(settings: BaseEstimator) -> dict[str, ByFeatureRow]:
    """Return the specifications of the parameters by feature that are set, by name."""
    return {name: row for name, row in BY_FEATURE.items() if getattr(settings, name, None) is not None}


def check_by_feature(settings: BaseEstimator) -> None:
    """Raise InputError for parameters by feature that the solver or the penalty does not support, or that exclude each
    other. Solver objects check the penalty when they train."""
    solver, capable, rows = settings.solver, settings.capable_solvers, by_feature_parameters(settings)
    usable = [name for name in settings.SOLVERS if not capable or name in (AUTO, *capable)]
    for name, row in rows.items():
        supporting = [other for other in usable if other in row.solvers]
        is_named, penalty = isinstance(solver, str), getattr(settings, "penalty", None)
        is_unsupported = (
            solver in usable and solver not in supporting if is_named else learns_from_mistakes(solver)
        )
        if is_unsupported or supporting == [AUTO]:
            shown = repr(solver) if is_named else type(solver).__name__
            others = (
                f"{', '.join(map(repr, supporting))} do"
                if supporting != [AUTO]
                else "no solver of this loss does"
            )
            raise InputError(
                f"{name}: {shown} takes no {row.noun}, {others}; expected None or another solver"
            )
        if penalty is not None and not getattr(named_penalty(penalty), row.penalties):
            penalties = [other for other, kind in PENALTIES.items() if getattr(kind, row.penalties)]
            raise InputError(
                f"{name}: the penalty {penalty!r} has no {row.noun}; expected None, or one of the penalties {penalties}"
            )
        for other in rows.keys() & row.without:
            raise InputError(f"{name}: with {other} expected None, {row.without[other]}")


def with_data_by_feature(settings: BaseEstimator, space: Space, layout: Layout) -> Layout:
    """Return the layout of a penalty with the parameters by feature that are set, for all columns of a training;
    InputError if they do not match the features."""
    for name, row in by_feature_parameters(settings).items():
        if space.n_dense and not row.takes_dense:
            raise InputError(f"{name}: expected items without a dense block, got crfqn.Features")
        in_columns, in_layout = find(row.in_columns), find(row.in_layout)
        by_column = in_columns(getattr(settings, name), space.axes.features, space.n_features)
        layout = layout._replace(**{row.place: in_layout(by_column, space, layout)})
    return layout


def values_by_feature(settings: BaseEstimator) -> dict[str, Any]:
    """Return the parameters by feature that are set, as JSON values by name."""
    out: dict[str, Any] = {}
    for name, row in by_feature_parameters(settings).items():
        value, dtype = getattr(settings, name), np.float64 if row.is_numeric else None
        values = [*value.values()] if isinstance(value, Mapping) else value
        values = np.asarray(values, dtype).tolist()
        out[name] = dict(zip(map(str, value), values, strict=True)) if isinstance(value, Mapping) else values
    return out
