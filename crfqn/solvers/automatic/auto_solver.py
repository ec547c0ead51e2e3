"""`solver="auto"`: the choice of a solver by loss, penalty, number of weights and density of the features."""

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

# Weights up to which Prox-QN solves group penalties; block coordinate descent is faster with more. Measured by fits of
# both (docs/mechanisms.md, single sets).
FEW_WEIGHTS = 2000
# Fraction of the entries that are not zero from which features are dense, so that Prox-QN solves group penalties and
# L-BFGS L2. Measured by fits of both (docs/mechanisms.md, single sets).
DENSE_FRACTION = 0.05
# The same for arrays that are not converted to sparse ones, which block coordinate descent needs.
FULL_FRACTION = 0.5
SMOOTH, SEPARABLE, NONCONVEX, NONCONVEX_GROUPS = LBFGS(), ProxQN(), OWLQN(), SpaRSA()
# Passes over flat items take little time compared to the metric of a large active set.
FOR_FLAT = ProxQN(entry=TopViolators(500))
# The last sweeps over a dense metric decrease the model too little for their time. There is no start from samples for
# margin losses, which are zero at the optimum for many items.
FOR_LIKELIHOODS = ProxQN(sweeps=CostAwareSweeps(most=20))
FOR_MARGINS = ProxQN(
    warm_start=None, metric=TokenWise(n_positions=6000), sweeps=CostAwareSweeps(20), entry=TopViolators(1000)
)

# The solvers of losses for group penalties over rows of dense features, by the names in `choices.py`.
ROW_PENALTY_SOLVERS: Mapping[str, Solver] = {
    "rows": RowDescent(),
    "margins": FOR_MARGINS,
    "likelihoods": FOR_LIKELIHOODS,
}


@dataclass(frozen=True)
class AutoSolver(Solver):
    """Solver that chooses one of its solvers for each objective and penalty.

    smooth, smooth_text : for L2 only; the second if less than 5 % of the entries are not zero and the loss has dual
        variables
    separable : for sums over single weights (L1, elastic net)
    few, sparse, dense, full : for penalties with groups: the first for up to `few_weights` weights; the others if less
        than 5 %, 5 to 50 %, or 50 % and more of the entries are not zero
    nonconvex, nonconvex_groups : for losses that are not convex, under L2 or without curvature, and under groups; these
        solvers need gradients only
    few_weights : int, in weights
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
    few_weights: int = FEW_WEIGHTS

    def chosen(self, objective: Objective, penalty: Penalty) -> Solver:
        """Return the solver for this objective and penalty."""
        if not penalty.is_separable:
            if not objective.is_convex:
                return self.nonconvex_groups
            if objective.n_coords <= self.few_weights:
                return self.few
            has_rows = penalty.is_row_separable and penalty.is_uniform and has_state(objective, RowBlocks)
            share = objective.mean_occurrence / max(objective.n_positions, 1)
            if share >= FULL_FRACTION or not has_rows:
                return self.full
            return self.dense if share >= DENSE_FRACTION else self.sparse
        if not objective.is_convex and (penalty.is_quadratic or not objective.has_curvature):
            return self.nonconvex
        if not penalty.is_quadratic:
            return self.separable
        # On sparse features the dual solver takes a quarter of the passes of L-BFGS, which are of the same length.
        is_sparse = self.smooth_text and objective.mean_occurrence < DENSE_FRACTION * objective.n_positions
        if self.smooth_text and is_sparse and penalty.is_uniform and has_state(objective, DualItems):
            return self.smooth_text
        return self.smooth

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return the requirements of the chosen solver."""
        return requirements(self.chosen(objective, penalty), objective, penalty)

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield the states of the chosen solver."""
        return self.chosen(objective, penalty).steps(objective, penalty, start)


def for_items(
    sparse: Solver | None = None, dense: Solver | None = None, full: Solver | None = None
) -> AutoSolver:
    """Return the automatic solver of flat classifiers; `sparse`, `dense`, `full` : for groups, None for defaults."""
    return AutoSolver(
        smooth=LBFGS(warm_up=False),
        smooth_text=DualDecomposition(),
        separable=FOR_FLAT,
        sparse=sparse or RowDescent(),
        dense=dense or FOR_MARGINS,
        full=full or FOR_MARGINS,
    )
