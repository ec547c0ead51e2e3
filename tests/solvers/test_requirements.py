"""What solvers ask of a problem: facts and single weights are asked for before the first step, and nothing else is.

`Strict` stands for an objective on another machine: it answers what is listed here, and fails a test that asks it for
anything more.
"""

from __future__ import annotations

from typing import Any

import margin_problems
import numpy as np
import pytest
from problems import make_problem, make_tree_problem

from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.objective import has_state, in_blocks
from crfqn.papers.blondel2013.fobos import FOBOS, FobosState
from crfqn.papers.zhong2014.feature_bcd import BlockState, FeatureBCD
from crfqn.papers.zhong2014.prox_gd import FISTA, ProxGD
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.automatic.auto_solver import AutoSolver
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stochastic.state import SGDState
from crfqn.solvers.stopping import Run
from crfqn.solvers.strong_rule import StrongRule

CHAIN, FLAT = make_problem(1), make_tree_problem("flat", 3, n_items=60, n_features=8)
ROWS = GroupLasso(1.0, n_features=8, n_states=4)
FACTS = "has_curvature", "is_smooth", "has_marginals"
STATES = SGDState, FobosState, BlockState  # row descent has tests of its own
WRAPPERS = {
    "alone": lambda solver: solver,
    "strong rule": lambda solver: StrongRule(solver, before=2.0, after=0.5, tol=1e-3),
    "automatic": lambda solver: AutoSolver(separable=solver, few=solver),
    "automatic within the strong rule": lambda solver: StrongRule(
        AutoSolver(separable=solver, few=solver), 2.0, 0.5, 1e-3
    ),
}
wrapped = pytest.mark.parametrize("wrapper", WRAPPERS)


# What solvers may ask of a problem, a point, a ray: the data may be on another machine.
OBJECTIVE = [
    "at", "check_state", "feature_scale", "fingerprints", "gram", "gram_product", "has_curvature", "has_gram",
    "is_smooth", "hessian_bound", "with_truncated_items", "intercept_bound", "is_convex", "has_dual",
    "mean_occurrence", "n_bytes", "n_coords", "n_features", "n_items", "n_node_coords", "n_passes",
    "n_positions", "operations", "pool", "has_marginals", "refusal", "sample", "state", "support",
    "total_weight", "without_bigram_features",
]  # fmt: skip
POINT = [
    "along", "coords", "count_within", "curvature", "dual_value", "gradient", "hessian_model", "objective", "screen",
    "screen_rows", "sparse_weights", "value", "weights",
]  # fmt: skip
RAY = ["at"]


class Strict:
    """Something that answers the names of a list; `wraps` are the methods whose answers are strict, too."""

    NAMES: list[str] = OBJECTIVE
    WRAPS: dict[str, type] = {}  # noqa: RUF012

    def __init__(self, inner: Any) -> None:
        self.__dict__["inner"] = inner

    def __getattr__(self, name: str) -> Any:
        if name not in self.NAMES:
            raise AssertionError(f"{type(self).__name__} was asked for {name}")
        found = getattr(self.inner, name)
        if name not in self.WRAPS:
            return found
        return lambda *arguments: self.WRAPS[name](found(*arguments))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)

    def check_state(self, kind: type) -> Any:
        raise UnsupportedObjectiveError(f"Strict has no {kind.__name__}")

    def refusal(self, fact: str) -> str:
        return f"Strict has no {fact}"

    has_curvature = is_smooth = has_gram = has_marginals = False
    whole = None


class StrictPoint(Strict):
    NAMES = POINT


class StrictRay(Strict):
    NAMES, WRAPS = RAY, {"at": StrictPoint}


Strict.WRAPS = {"at": StrictPoint, "sample": Strict}
StrictPoint.WRAPS = {"along": StrictRay}


def refused(objective, penalty, solver, error, message):
    """The run is refused before anything is evaluated, and before anyone is told of a step."""
    seen: list[Any] = []
    with pytest.raises(error, match=message):
        minimize(objective, penalty, solver, Run(callback=seen.append))
    assert not seen
    assert objective.n_passes == 0


@wrapped
class TestRefusals:
    @pytest.mark.parametrize("solver", [OWLQN(), SGDL1()], ids=["OWL-QN", "SGD"])
    def test_groups_where_single_weights_are_asked_for(self, solver, wrapper):
        penalty = GroupLasso(1.0, n_features=8, n_states=4)
        message = r"needs a penalty of single weights, .* got GroupLasso"
        refused(FLAT.objective(), penalty, WRAPPERS[wrapper](solver), InputError, message)

    @pytest.mark.parametrize("name", margin_problems.HINGES)
    @pytest.mark.parametrize("solver", [SGDL1(), FeatureBCD()], ids=["SGD", "FeatureBCD"])
    def test_hinges_where_a_likelihood_is_asked_for(self, name, solver, wrapper):
        objective = margin_problems.objective_of(margin_problems.make_problem(name))
        message = f"cannot train this: .* needs? a likelihood.*{type(objective.whole.loss).__name__}"
        refused(objective, ElasticNet(1.0), WRAPPERS[wrapper](solver), UnsupportedObjectiveError, message)

    def test_likelihoods_where_margins_are_asked_for(self, wrapper):
        message = "cannot train this: learning rows needs a loss of margins"
        refused(
            CHAIN.objective(), ElasticNet(1.0), WRAPPERS[wrapper](FOBOS()), UnsupportedObjectiveError, message
        )

    @pytest.mark.parametrize(
        ("solver", "view"),
        [
            (ProxQN(), "has_curvature"),
            (LBFGS(), "has_curvature"),
            (ProxGD(lipschitz="bound"), "is_smooth"),
            (FISTA(lipschitz="bound"), "is_smooth"),
            (SGDL1(), "SGDState"),
            (FeatureBCD(), "BlockState"),
            (FOBOS(), "FobosState"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )
    def test_an_objective_without_views(self, solver, view, wrapper):
        """Whatever else it may have: it is asked for the view only."""
        objective = Strict(FLAT.objective())
        refused(
            objective,
            ElasticNet(1.0),
            WRAPPERS[wrapper](solver),
            UnsupportedObjectiveError,
            f"Strict has no {view}$",
        )


class TestWhatIsAskedFor:
    @pytest.mark.parametrize(
        "solver", [OWLQN(), ProxGD(), FISTA(), SpaRSA(), ProxQN.paper()], ids=lambda s: type(s).__name__
    )
    @wrapped
    def test_the_protocol_is_enough(self, solver, wrapper):
        """Values, gradients, screenings and rays: the same iterates as of the objective itself."""
        runs = [
            minimize(objective, ElasticNet(1.0, 0.1), WRAPPERS[wrapper](solver), Run(tol=1e-5, max_iter=900))
            for objective in (Strict(FLAT.objective()), FLAT.objective())
        ]
        assert [run.status for run in runs] == [Status.CONVERGED] * 2
        assert runs[0].trace.value.tobytes() == runs[1].trace.value.tobytes()
        assert runs[0].n_proved_zeros is None

    def test_groups_ask_for_screenings_of_rows(self):
        penalty = GroupLasso(1.5, n_features=8, n_states=4)
        found = minimize(Strict(FLAT.objective()), penalty, FISTA(), Run(tol=1e-5, max_iter=900))
        assert found.status is Status.CONVERGED

    def test_the_automatic_solver_looks_for_rows_by_their_state(self):
        solver = AutoSolver(few=OWLQN(), full=ProxGD(), sparse=FISTA())
        small = Strict(FLAT.objective())
        assert isinstance(solver.chosen(small, ROWS), OWLQN)
        large = Strict(make_tree_problem("flat", 3, n_items=40, n_features=600, density=0.02).objective())
        assert isinstance(solver.chosen(large, ROWS), ProxGD)  # which needs no rows


class TestWhoHasWhat:
    LIKELIHOOD = (*FACTS, SGDState, BlockState)
    HINGE = ("has_curvature", "is_smooth", FobosState)

    def facts(self, objective):
        facts = {name for name in FACTS if getattr(objective, name)}
        return facts | {kind for kind in STATES if has_state(objective, kind)}

    @pytest.mark.parametrize("problem", [CHAIN, FLAT], ids=["chain", "flat"])
    def test_likelihoods(self, problem):
        objective = problem.objective()
        assert self.facts(objective) == set(self.LIKELIHOOD)
        blocks = in_blocks(objective.whole, 10)
        assert self.facts(blocks) == set(self.LIKELIHOOD) - {BlockState}

    @pytest.mark.parametrize("name", margin_problems.NAMES)
    def test_losses_of_margins(self, name):
        objective = margin_problems.objective_of(margin_problems.make_problem(name))
        both = set(self.LIKELIHOOD) | set(self.HINGE) if name == "logistic" else set(self.HINGE)
        assert self.facts(objective) == both
        blocks = in_blocks(objective.whole, 10)
        assert self.facts(blocks) == both - {BlockState, FobosState}

    def test_points_answer(self):
        objective = FLAT.objective()
        point = objective.at(np.empty(0, np.int64), np.empty(0))
        assert point.curvature(objective.support.coords()).diagonal.size == objective.n_coords
        assert objective.state(BlockState, point) is not None
