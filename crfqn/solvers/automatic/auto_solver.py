"""The solver behind `solver="auto"`: it is chosen by penalty, number of weights and density."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from crfqn.objectives.objective import has_state
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.coordinate.row_state import RowBlocks
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, Solver, State, requirements
from crfqn.solvers.prox_qn import CostAwareSweeps, ProxQN, TokenWise, TopViolators
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA

# Weights. scikit-learn's digits (640): Prox-QN 0.6 s, block coordinate descent 0.8 s, or 2.1 s and 1,000 sweeps without
# an end with intercepts; iris and wine: 20 to 80 steps, 500 to 1,000 sweeps; 20 newsgroups (2.6 million): 60 s, 10 s.
FEW = 2000
# Of the entries. MNIST (19 %) to 1e-3 of the optimum by Prox-QN and by block coordinate descent: 4 s and 31 s
# (logistic, one core), 2 s and 9 s (multitask hinge, two cores), 5 s and 4 s (squared hinge, one core).
DENSE = 0.05
FULL = 0.5  # of the entries: dense arrays are not turned into index arrays, and rows need these
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

    smooth, smooth_text : for L2 only; the second if less than 5 % of the entries are not zero and the loss has dual
        variables
    separable : for penalties that are a sum over single weights (L1, elastic net)
    few, sparse, dense, full : for penalties with groups: up to `few_weights` weights; with more, by the share of the
        entries that are not zero: less than 5 %, less than 50 %, and from 50 % on
    nonconvex, nonconvex_groups : for losses that are not convex, under L2 or without curvature, and under groups:
        gradients are enough
    """

    smooth: Solver = SMOOTH
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
        return self.smooth

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return the requirements of the chosen solver."""
        return requirements(self.chosen(objective, penalty), objective, penalty)

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Return the states of the chosen solver's steps."""
        return self.chosen(objective, penalty).steps(objective, penalty, start)


def for_items(
    sparse: Solver | None = None, dense: Solver | None = None, full: Solver | None = None
) -> AutoSolver:
    """Return the automatic solver of flat classifiers; `sparse`, `dense` and `full` replace its defaults for groups."""
    return AutoSolver(
        smooth=LBFGS(warm_up=False),
        smooth_text=DualDecomposition(),
        separable=FOR_FLAT,
        sparse=sparse or RowDescent(),
        dense=dense or FOR_MARGINS,
        full=full or FOR_MARGINS,
    )
