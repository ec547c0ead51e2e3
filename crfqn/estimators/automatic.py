"""Solvers and strengths by their names, and what "auto" stands for.

The solver behind `solver="auto"` is chosen by penalty, number of weights and density. Strengths are chosen by the noise
of gradients (`crfqn.objectives.gradient_noise`):

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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from crfqn.arrays import NO_COORDS, Coords
from crfqn.choices import PENALTIES, STRENGTHS, PenaltySpec, load_class
from crfqn.errors import InputError
from crfqn.messages import hint, shorten
from crfqn.objectives.gradient_noise import gradient_noise, unit_information
from crfqn.objectives.objective import has_state
from crfqn.parameters import PARAMETERS
from crfqn.penalties.penalty import Layout
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.coordinate.row_state import RowBlocks
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, Solver, State, requirements
from crfqn.solvers.prox_qn import CostAwareSweeps, ProxQN, TokenWise, TopViolators
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.perceptron import AROW, AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1

AUTO = "auto"
PAPERS = "crfqn.papers"  # methods that only reproduce a paper stand as names, and are imported when asked for
# Weights. scikit-learn's digits (640): Prox-QN 0.6 s, block coordinate descent 0.8 s, or 2.1 s and 1,000 sweeps without
# an end with intercepts; iris and wine: 20 to 80 steps, 500 to 1,000 sweeps; 20 newsgroups (2.6 million): 60 s, 10 s.
FEW = 2000
# Of the entries. MNIST (19 %) to 1e-3 of the optimum by Prox-QN and by block coordinate descent: 4 s and 31 s
# (logistic, one core), 2 s and 9 s (multitask hinge, two cores), 5 s and 4 s (squared hinge, one core).
DENSE = 0.05
FULL = 0.5  # of the entries: dense arrays are not turned into index arrays, and rows need these
# What a Gram matrix may cost in steps of L-BFGS. It saves a third of the steps or more; its products are faster than
# those of a step, with few columns, by some factor of 4. Seconds without and with it, at l2 = 1 and .01, one core:
# breast cancer (569 x 30) .38 and .15, 1.2 and .20; wine .29 and .10, .91 and .17; digits .55 and .66 (.01); made-up
# ones with the condition number 1e4: 4,000 x 100 .13 and .05, .60 and .06; 3,000 x 600 .41 and .24, 2.5 and .25.
GRAM_STEPS = 60
SMOOTH, SEPARABLE, NONCONVEX, NONCONVEX_GROUPS = LBFGS(), ProxQN(), OWLQN(), SpaRSA()
# Passes over flat items are cheap and a metric of many weights is not: 20 newsgroups to 1e-4 in .7 instead of .9 s.
FOR_FLAT = ProxQN(entry=TopViolators(500))
# What a sample of the items says is worth less where most of them have no loss at the optimum, and rows of a dense
# metric cost more than what the last sweeps win.
FOR_LIKELIHOODS = ProxQN(sweeps=CostAwareSweeps(most=20))
FOR_MARGINS = ProxQN(
    warm_start=None, metric=TokenWise(n_positions=6000), sweeps=CostAwareSweeps(20), entry=TopViolators(1000)
)

# For losses over rows of dense features, by the names that the table of losses has for them.
TUNED: Mapping[str, Solver] = {"rows": RowDescent(), "margins": FOR_MARGINS, "likelihoods": FOR_LIKELIHOODS}


@dataclass(frozen=True)
class AutoSolver(Solver):
    """Solver that passes each problem on to the method that suits it, chosen once objective and penalty are known.

    smooth, smooth_narrow, smooth_text : for L2 only; the second where a Gram matrix saves more than it costs
        (`is_narrow`), the third where less than 5 % of the entries are not zero and its dual variables can be made
    separable : for penalties that are a sum over single weights (L1, elastic net)
    few, sparse, dense, full : for penalties with groups: up to `few_weights` weights; with more, by the share of the
        entries that are not zero: less than 5 %, less than 50 %, and from 50 % on
    nonconvex, nonconvex_groups : for losses that are not convex, under L2 or without curvature, and under groups:
        gradients are enough
    """

    smooth: Solver = SMOOTH
    smooth_narrow: Solver | None = None
    smooth_text: Solver | None = None
    separable: Solver = SEPARABLE
    few: Solver = SEPARABLE
    sparse: Solver = SEPARABLE
    dense: Solver = SEPARABLE
    full: Solver = SEPARABLE
    nonconvex: Solver = NONCONVEX
    nonconvex_groups: Solver = NONCONVEX_GROUPS
    few_weights: int = FEW

    def chosen(self, objective: Objective, penalty: Penalty) -> Solver:
        """Return the solver for this objective and penalty."""
        if not penalty.is_separable:
            if not objective.is_convex:
                return self.nonconvex_groups
            if objective.n_coords <= self.few_weights:
                return self.few
            has_rows = penalty.is_row_separable and penalty.is_uniform and has_state(objective, RowBlocks)
            share = objective.mean_occurrence / max(objective.n_positions, 1)
            if share >= FULL or not has_rows:
                return self.full
            return self.dense if share >= DENSE else self.sparse
        if not objective.is_convex and (penalty.is_quadratic or not objective.has_curvature):
            return self.nonconvex
        if not penalty.is_quadratic:
            return self.separable
        # With dual variables a pass over few entries is as cheap as one of L-BFGS, and 10 to 20 passes are enough where
        # L-BFGS takes 60 to 80 and vectors as long as all weights.
        is_sparse = self.smooth_text and objective.mean_occurrence < DENSE * objective.n_positions
        if self.smooth_text and is_sparse and penalty.is_uniform and has_state(objective, DualItems):
            return self.smooth_text
        return self.smooth_narrow if self.smooth_narrow and is_narrow(objective) else self.smooth

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return the requirements of the chosen solver."""
        return requirements(self.chosen(objective, penalty), objective, penalty)

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Return the states of the chosen solver's steps."""
        return self.chosen(objective, penalty).steps(objective, penalty, start)


def is_narrow(objective: Objective) -> bool:
    """Return whether features are dense and so few that their Gram matrix, N F^2 operations and F^3 / 3 for its factor,
    pays within GRAM_STEPS steps of L-BFGS, 4 N F K each."""
    if objective.mean_occurrence < FULL * objective.n_positions or not objective.has_gram:
        return False
    n, n_features = float(objective.n_positions), float(objective.n_features)
    n_states = objective.n_node_coords / n_features
    return n_features + n_features**2 / (3.0 * n) <= 4.0 * n_states * GRAM_STEPS


def for_items(
    sparse: Solver | None = None, dense: Solver | None = None, full: Solver | None = None
) -> AutoSolver:
    """Return the automatic solver of flat classifiers; `sparse`, `dense` and `full` replace its defaults for groups."""
    return AutoSolver(
        smooth=LBFGS(warm_up=False),
        smooth_narrow=LBFGS(warm_up=False, in_gram_metric=True),
        smooth_text=DualDecomposition(),
        separable=FOR_FLAT,
        sparse=sparse or RowDescent(),
        dense=dense or FOR_MARGINS,
        full=full or FOR_MARGINS,
    )


SolverTable = dict[
    str, Callable[[], Any] | str
]  # a class or function that makes a solver, or its dotted name
SOLVERS: SolverTable = {
    AUTO: AutoSolver,
    "prox-qn": ProxQN,
    "prox-qn-paper": ProxQN.paper,
    "owl-qn": OWLQN,
    "prox-gd": f"{PAPERS}.zhong2014.prox_gd.ProxGD",
    "fista": f"{PAPERS}.zhong2014.prox_gd.FISTA",
    "spa-rsa": SpaRSA,
    "l-bfgs": LBFGS,
    "sgd": SGDL1,
    "averaged-perceptron": AveragedPerceptron,
    "passive-aggressive": PassiveAggressive,
    "arow": AROW,
    "feature-bcd": f"{PAPERS}.zhong2014.feature_bcd.FeatureBCD",
}
STRUCTURED_SOLVERS: SolverTable = {**SOLVERS, "block-frank-wolfe": BlockFrankWolfe}
LINEAR_SOLVERS: SolverTable = {
    **SOLVERS,
    AUTO: for_items,
    "prox-qn": lambda: FOR_FLAT,
    "bcd": RowDescent,
    "bcd-constant": partial(RowDescent, step="constant"),
    "dual": DualDecomposition,
    "fbpd": f"{PAPERS}.chierchia2015.regularised.FBPD",
    "fobos": f"{PAPERS}.blondel2013.fobos.FOBOS",
    "l-bfgs": partial(LBFGS, warm_up=False),
    "gls": f"{PAPERS}.agarwal2014.gls.GLS",
}
FROM_MISTAKES = ("averaged-perceptron", "passive-aggressive", "arow")
SEEDS = ("random_state", "seed")  # what solvers call theirs


def named_solver(solver: Any, known: SolverTable, random_state: Any) -> Any:
    """Return the solver that one of the `known` names stands for, or a solver object; InputError for anything else."""
    if hasattr(solver, "steps"):
        return solver
    check_solver(solver, known)
    row = known[solver]
    return seeded((load_class(row) if isinstance(row, str) else row)(), random_state)


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
    class_path = row.class_path if layout.feature_groups is None else row.with_groups
    penalty: Penalty = load_class(class_path).from_strengths(
        strengths, layout._replace(norm=norm or row.norm)
    )
    return penalty
