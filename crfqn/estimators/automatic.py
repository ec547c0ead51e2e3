"""Solvers and strengths by their names, strengths that are "auto", and the data by feature of a penalty.

Strengths are chosen by the noise of gradients (`crfqn.objectives.gradient_noise`):

    l1 = 0.1 noise,    group_l1 = 0.2 noise,    that of a single weight
    l2 = 2 x unit information,    and beside it, of sequences, l1 = 0.25 noise

Among K labels the gradient of a whole row of weights is sqrt(K) times as long, but a useful feature matters to a few
labels: a strength in proportion to the row's noise is too strong for these where there are many labels. The noise
follows the number of items, the scale and the density of the features, the loss and the weights of the items. Theory
asks for shares from 1 on, which remove nearly every uninformative feature; smaller shares predict better, as keeping
such a feature costs less than shrinking the others.

`l2="auto"` is Laplace's rule: as if each feature had been seen twice more, once with a label and once without. It
matters where features are rare, as in text, and hardly where they are dense.

Flat classifiers have penalties by name (`crfqn/choices.py`), l1 ||W||_1 + l2/2 ||W||^2 + group_l1 sum_f ||w_f||, w_f
the weights of feature f; those over rows other than L1/L2 are in section 4.7 of Blondel, Seki and Uehara (2013).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
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
from crfqn.solvers.protocols import Penalty
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.perceptron import AROW, AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1

AUTO = "auto"

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
FROM_MISTAKES = ("averaged-perceptron", "passive-aggressive", "arow")
SEEDS = ("random_state", "seed")  # what solvers call theirs


def named_solver(solver: Any, known: SolverTable, random_state: Any) -> Any:
    """Return the solver that one of the `known` names stands for, or a solver object; InputError for anything else."""
    if hasattr(solver, "steps"):
        return solver
    check_solver(solver, known)
    row = known[solver]
    return seeded((find(row) if isinstance(row, str) else row)(), random_state)


def check_solver(solver: Any, known: SolverTable) -> None:
    """Raise InputError for what is neither one of the `known` names nor a solver object."""
    if not hasattr(solver, "steps") and (not isinstance(solver, str) or solver not in known):
        raise InputError(
            f"solver: expected one of {sorted(known)} or a solver object, got {shorten(solver)}{hint(solver, known)}"
        )


def learns_from_mistakes(solver: Any) -> bool:
    """Return whether a solver, or the one of this name, corrects mistakes: no penalty takes part in what it learns."""
    return isinstance(solver, AveragedPerceptron) or (isinstance(solver, str) and solver in FROM_MISTAKES)


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


Strengths: TypeAlias = dict[str, Any]  # a float or "auto" by name: l1, l2, group_l1
# docs/choosing-strengths.md: from .07 to .25, and from .11 to .33, all sets are within a point of their tuned strength.
SHARES = {"l1": 0.1, "group_l1": 0.2}
# The same page: from .1 to .5 scores of sequences are the same, and the models ever smaller; texts as one item lose.
SHARE_WITH_L2 = 0.25
SEEN = 2  # positions that l2 = "auto" is worth
AUTOMATIC = tuple(SHARES)


def is_auto(value: Any) -> bool:
    """Return whether a strength is left to the data."""
    return isinstance(value, str) and value == AUTO


def chosen_strengths(
    strengths: Strengths, objective: Any, unpenalised: Coords, dense: Coords = NO_COORDS
) -> Strengths:
    """Return the strengths as numbers: those that are "auto" chosen for the loss that is to be minimised, by the
    features without those of a `dense` block."""
    if not any(map(is_auto, strengths.values())):
        return strengths
    noise = gradient_noise(objective, unpenalised, dense)
    chosen = {name: share * noise for name, share in SHARES.items()}
    if is_auto(strengths.get("l2")):
        chosen["l1"] = (SHARE_WITH_L2 if objective.operations.has_sequences else SHARES["l1"]) * noise
        chosen["l2"] = SEEN * unit_information(objective, np.union1d(unpenalised, dense))
    return {name: chosen[name] if is_auto(value) else value for name, value in strengths.items()}


def described(strengths: Strengths) -> str:
    """Return words for strengths: "l1 = 0.13, l2 = 0"; group_l1 where it is not 0."""
    return ", ".join(
        f"{name} = {value if is_auto(value) else format(value, 'g')}"
        for name, value in strengths.items()
        if value or name != "group_l1"
    )


# Of estimators whose penalty has a name: strengths that are not given have the default of the name.
_BY_PENALTY = "By default 0 where the penalty's name does not have it, else"
LINEAR_PARAMETERS = {
    **PARAMETERS,
    "l1": replace(PARAMETERS["l1"], is_optional=True, details=f'In nats. {_BY_PENALTY} "auto": a tenth of the standard '
        "deviation that the gradient of an uninformative feature has (docs/choosing-strengths.md). It suits a first "
        "fit; `crf_path` tries others."),
    "group_l1": replace(PARAMETERS["group_l1"], is_optional=True, details=f'In nats. {_BY_PENALTY} "auto", as of l1. '
        'Under the penalty "l1/l2" a feature has weights for all classes or for none.'),
    "l2": replace(PARAMETERS["l2"], words=(), is_optional=True, details=f"In nats. {_BY_PENALTY} 1. It may be added to "
        'every penalty; under the penalty "l1" with the logistic loss, and an l1 that is automatic, it is by default '
        "worth two items with a feature; l2=0 leaves it out."),
    "loss": replace(PARAMETERS["loss"], details='For an item of class y. "squared-hinge": the sum over r != y of '
        "max(1 - (s_y - s_r), 0)^2 (equation 2 of the paper). \"multitask-squared-hinge\": the squared hinge losses of "
        'one classifier against the rest for each class (11). "logistic": -log P(y), P(k) ~ exp(s_k) (12). "hinge": '
        'the '
        "largest of max(1 - (s_y - s_r), 0), as Crammer and Singer (2002) have it. Choose the logistic loss for "
        "probabilities."),
    "solver": replace(PARAMETERS["solver"], details='"auto" is "l-bfgs" where only l2 is not 0, and "prox-qn" for "l1" '
        'and "elastic-net". Over rows it is "prox-qn" for up to 2,000 weights and for dense features (where half of '
        'the entries are not zero; 5 % of them, unless the loss is the squared hinge), else "bcd". "bcd" is block '
        'coordinate descent over rows with a line search, "bcd-constant" with constant steps and rows at random. '
        '"fobos" goes item by item and never reaches a small gap. "dual" (with "l2") and "fbpd" are dual decomposition '
        'and forward-backward primal-dual splitting (Chierchia et al. 2015), which the loss "hinge" needs. Those of '
        '`ChainCRF` but "block-frank-wolfe" train flat labels, too.'),
    "random_state": replace(PARAMETERS["random_state"], details='It orders the rows ("bcd" and its variants) and the '
        'items ("fobos"). None is a seed as well: results are reproducible.'),
    "max_iter": replace(PARAMETERS["max_iter"], details="Sweeps over the rows, or steps. Raise it where a warning says "
        "that the training has not converged."),
}  # fmt: skip
# Of strengths that the penalty's name has; "l1" has an l2 beside it, too, where l1 is not given.
DEFAULTS = {"l1": AUTO, "l2": 1.0, "group_l1": AUTO}


def named_penalty(name: object) -> PenaltySpec:
    """Return the penalty of this name; InputError for another name."""
    if not isinstance(name, str) or name not in PENALTIES:
        raise InputError(f"penalty: expected one of {[*PENALTIES]}, got {name!r}")
    return PENALTIES[name]


def strengths_of(name: str, is_likelihood: bool = False, **given: float | str | None) -> Strengths:
    """Return every strength by name: as given, or the default where the penalty has it, else 0. Each may have an L2
    term; InputError for any other strength > 0 that the penalty does not have. Of a likelihood (Laplace's rule) l2 is
    "auto" beside an automatic l1 alone: a penalty that is given is the whole penalty."""
    known = named_penalty(name).strengths
    if (
        is_likelihood
        and name == "l1"
        and given["l2"] is None
        and (given["l1"] is None or is_auto(given["l1"]))
    ):
        given["l2"] = AUTO
    strengths: Strengths = {}
    for strength in STRENGTHS:
        value: Any = given[strength]
        if value is None:
            value = DEFAULTS[strength] if strength in known else 0.0
        if (is_auto(value) or value > 0) and strength not in (*known, "l2"):
            others = [other for other, kind in PENALTIES.items() if strength in kind.strengths]
            raise InputError(
                f"{strength}: the penalty {name!r} has none, its strength is {known[0]}; "
                f"{' and '.join(map(repr, others))} have {strength}, got {value!r}"
            )
        strengths[strength] = value if is_auto(value) else float(value)
    return strengths


def make_penalty(name: str, strengths: Strengths, layout: Layout, norm: str | None = None) -> Penalty:
    """Return the penalty of a name, with the norm of rows that its row of the table has, or another one."""
    row = named_penalty(name)
    class_name = row.class_name if layout.feature_groups is None else row.with_groups
    penalty: Penalty = find(class_name).from_strengths(strengths, layout._replace(norm=norm or row.norm))
    return penalty


def given(settings: Any) -> dict[str, ByFeatureRow]:
    """Return the rows of the parameters that are set, by name."""
    return {name: row for name, row in BY_FEATURE.items() if getattr(settings, name, None) is not None}


def check_by_feature(settings: Any) -> None:
    """Raise InputError for data that the solver or the penalty does not take, or that exclude each other. A solver that
    cannot train the loss is refused elsewhere; solver objects refuse most data when they see the penalty."""
    solver, alone, rows = settings.solver, settings.capable_solvers, given(settings)
    trains = [name for name in settings.SOLVERS if not alone or name in (AUTO, *alone)]
    for name, row in rows.items():
        able = [other for other in trains if other in row.solvers]
        is_named, penalty = isinstance(solver, str), getattr(settings, "penalty", None)
        cannot = solver in trains and solver not in able if is_named else learns_from_mistakes(solver)
        if cannot or able == [AUTO]:
            shown = repr(solver) if is_named else type(solver).__name__
            others = f"{', '.join(map(repr, able))} do" if able != [AUTO] else "no solver of this loss does"
            raise InputError(
                f"{name}: {shown} takes no {row.noun}, {others}; expected None or another solver"
            )
        if penalty is not None and not getattr(named_penalty(penalty), row.penalties):
            having = [other for other, kind in PENALTIES.items() if getattr(kind, row.penalties)]
            raise InputError(
                f"{name}: the penalty {penalty!r} has no {row.noun}; expected None, or one of the penalties {having}"
            )
        for other in rows.keys() & row.without:
            raise InputError(f"{name}: with {other} expected None, {row.without[other]}")


def with_data_by_feature(settings: Any, space: Space, layout: Layout) -> Layout:
    """Return the layout of a penalty with the data that are set, for all columns of a training; InputError where they
    do not fit the features."""
    for name, row in given(settings).items():
        if space.n_dense and not row.takes_dense:
            raise InputError(f"{name}: expected items without a dense block, got crfqn.Features")
        in_columns, in_layout = find(row.in_columns), find(row.in_layout)
        by_column = in_columns(getattr(settings, name), space.axes.features, space.n_features)
        layout = layout._replace(**{row.place: in_layout(by_column, space, layout)})
    return layout


def values_by_feature(settings: Any) -> dict[str, Any]:
    """Return the data that are set, as the JSON values of a model file, by the parameter's name."""
    out: dict[str, Any] = {}
    for name, row in given(settings).items():
        value, kind = getattr(settings, name), np.float64 if row.is_numeric else None
        values = [*value.values()] if isinstance(value, Mapping) else value
        values = np.asarray(values, kind).tolist()
        out[name] = dict(zip(map(str, value), values, strict=True)) if isinstance(value, Mapping) else values
    return out
