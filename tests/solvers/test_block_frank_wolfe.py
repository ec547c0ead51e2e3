"""Block-coordinate Frank-Wolfe on structured hinges: the paper's steps, the optimum, bounds that hold, estimators.

The references enumerate the labellings of each item. The optimum is that of scipy's SLSQP with slacks as variables,
which knows no dual; the steps are pairwise ones over the shares of all labellings.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.optimize
from problems import Problem, TreeProblem, dense_weights, labellings, make_problem, make_tree_problem
from sklearn.datasets import load_digits

import crfqn
from crfqn import ChainCRF, MulticlassClassifier, TaxonomyCRF
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.losses.score_loss import StructuralHinge
from crfqn.objectives.objective import Objective, build_objective, in_blocks
from crfqn.objectives.support import observed_support
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.dual.frank_wolfe_state import FrankWolfeState
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run

L2 = 0.7
PENALTY = ElasticNet(0.0, L2)
PROBLEMS: dict[str, Problem | TreeProblem] = {
    "chains": make_problem(1),
    "real chains": make_problem(3, is_binary=False),
    "weighted chains": replace(make_problem(6), weights=np.array([0.5, 3, 0, 2, 0.1, 1, 0, 2, 1, 2, 0.3, 1])),
    "nine labels": make_problem(2, n_items=8, n_states=9, longest=2, is_binary=False),
    "forest": make_tree_problem("forest", 1),
    "inner labels": make_tree_problem("labels at inner nodes", 2, is_binary=True),
    "flat": make_tree_problem("flat", 3, n_features=12),
    "weighted forest": make_tree_problem("forest", 4, n_features=8, has_weights=True),
}


def hinge(problem: Problem | TreeProblem, support=None) -> Objective:
    """The library's loss over the problem's features."""
    likelihood = problem.objective()
    loss = StructuralHinge(likelihood.whole.loss.structure, likelihood.whole.loss.targets)
    return build_objective(likelihood.whole.map, loss, likelihood.whole.weights, support)


def candidates(problem: Problem | TreeProblem, i: int) -> tuple[np.ndarray, int, float, np.ndarray]:
    """Features of each labelling, the observed one, the item's weight, and L of each labelling."""
    phi, observed, weight, distances = labellings(problem, i)
    if isinstance(problem, TreeProblem):
        paths = problem.forest.is_on_path.astype(float)
        distances = 0.5 * np.abs(paths - paths[observed]).sum(axis=1)
    return phi, observed, weight, distances


def value(problem: Problem | TreeProblem, w: np.ndarray, l2: float = L2) -> float:
    """The objective by enumeration."""
    total = 0.5 * l2 * (w @ w)
    for i in range(problem.n_items):
        phi, observed, weight, distances = candidates(problem, i)
        total += weight * np.max(distances + (phi - phi[observed]) @ w)
    return float(total)


@cache
def optimum(name: str) -> float:
    problem = PROBLEMS[name]
    d, n = problem.n_coords, problem.n_items
    rows, bounds, cost = [], [], np.zeros(d + n)
    for i in range(n):
        phi, observed, cost[d + i], distances = candidates(problem, i)
        slack = np.zeros((len(phi), n))
        slack[:, i] = 1.0
        rows.append(np.hstack([phi[observed] - phi, slack]))
        bounds.append(distances)
    a, b, h = np.vstack(rows), np.concatenate(bounds), np.append(np.full(d, L2), np.zeros(n))
    found = scipy.optimize.minimize(
        lambda z: 0.5 * z @ (h * z) + cost @ z,
        np.append(np.zeros(d), np.full(n, b.max())),
        jac=lambda z: h * z + cost,
        constraints=[{"type": "ineq", "fun": lambda z: a @ z - b, "jac": lambda z: a}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("name", PROBLEMS)
class TestLoss:
    def test_is_the_largest_violation(self, name):
        problem = PROBLEMS[name]
        w = np.random.default_rng(0).normal(size=problem.n_coords)
        point = hinge(problem).at(np.arange(w.size), w)
        losses, gradient = np.empty(problem.n_items), np.zeros(w.size)
        for i in range(problem.n_items):
            phi, observed, weight, distances = candidates(problem, i)
            violations = distances + (phi - phi[observed]) @ w
            losses[i], worst = violations.max(), violations.argmax()
            gradient += weight * (phi[worst] - phi[observed])
        np.testing.assert_allclose(point.item_losses, losses, atol=1e-12)
        np.testing.assert_allclose(point.gradient(np.arange(w.size)), gradient, atol=1e-12)

    def test_its_dual_is_a_bound_at_every_scale(self, name):
        problem = PROBLEMS[name]
        for size in (0.01, 0.3):
            w = size * np.random.default_rng(1).normal(size=problem.n_coords)
            point = hinge(problem).at(np.arange(w.size), w)
            g = point.gradient(np.arange(w.size))
            for scale in (0.05, 0.5, 1.0):
                assert point.dual_value(scale) - (scale * g) @ (scale * g) / (2 * L2) <= optimum(name) + 1e-9


def shares_of(problem, planes):
    """The share of each labelling in the order of `candidates`, an array an item."""
    found = []
    for i in range(problem.n_items):
        phi, *_ = candidates(problem, i)
        begin, n = planes.first[i], planes.n_used[i]
        length = 1 if isinstance(problem, TreeProblem) else len(problem.labels[i])
        labels = planes.labels[planes.heads[i] : planes.heads[i] + n * length].reshape(n, length)
        if isinstance(problem, TreeProblem):
            rows = [int(problem.forest.index(label)) for label in labels[:, 0]]
        else:
            rows = labels @ problem.n_states ** np.arange(length)[::-1]
        assert len({*map(int, rows)}) == n
        shares = np.zeros(len(phi))
        shares[rows] = planes.shares[begin : begin + n]
        found.append(shares)
    return found


def dual_point(problem, shares, allowed=1.0):
    """w and the dual objective of shares of all labellings."""
    w, distances = np.zeros(problem.n_coords), 0.0
    for i, share in enumerate(shares):
        phi, observed, weight, loss = candidates(problem, i)
        w += weight / L2 * allowed * (phi[observed] - share @ phi)
        distances += weight * (share @ loss)
    return w, distances - 0.5 * L2 * (w @ w)


def pairwise_step(problem, i, shares, allowed=1.0):
    """The gap of an item, and what pairwise steps of Osokin et al., Algorithm 4, win of the dual: one for each plane
    that is least violated, as far as rounding can tell."""
    w, _ = dual_point(problem, shares, allowed)
    phi, _, weight, distances = candidates(problem, i)
    violations = distances + phi @ w
    lead = violations.max() - violations
    in_use = shares[i] > 0
    gains = []
    for worst in np.flatnonzero(lead < 1e-10):
        for away in np.flatnonzero(in_use & (lead > lead[in_use].max() - 1e-10)):
            square = weight / L2 * np.sum((allowed * (phi[worst] - phi[away])) ** 2)
            gamma = min(shares[i][away], lead[away] / max(square, 1e-300))
            gains.append(weight * gamma * (lead[away] - 0.5 * gamma * square))
    return weight * (shares[i] @ lead), np.array(gains)


def counted(problem):
    return np.array([i for i in range(problem.n_items) if labellings(problem, i)[2] > 0])


@pytest.mark.parametrize("name", PROBLEMS)
def test_steps_are_those_of_the_paper(name):
    problem = PROBLEMS[name]
    blocks = hinge(problem).state(FrankWolfeState, PENALTY)
    items = counted(problem)
    for seed in range(3):
        blocks.make_room()
        for k in np.random.default_rng(seed).permutation(items.size):
            shares = shares_of(problem, blocks.planes[0])
            gap, gains = pairwise_step(problem, items[k], shares)
            _, gain = blocks.visit(np.array([k]))
            assert blocks.gaps[k] == pytest.approx(gap, abs=1e-9)
            assert np.abs(gain - gains).min() < 1e-9
            w, dual_value = dual_point(problem, shares_of(problem, blocks.planes[0]))
            assert dual_value == pytest.approx(dual_point(problem, shares)[1] + gain, abs=1e-9)
            assert blocks.dual_value() == pytest.approx(dual_value, abs=1e-9)
    np.testing.assert_allclose(dense_weights(problem, *blocks.point().sparse_weights), w, atol=1e-9)
    assert np.abs(w).max() > 0.01


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "chains" in name or "labels" in name])
def test_steps_among_planes_rise_and_need_no_other_labelling(name):
    """Where only planes are asked the dual ends at the optimum over the lattices, whose gaps are then all zero."""
    problem = PROBLEMS[name]
    blocks = hinge(problem).state(FrankWolfeState, PENALTY)
    if not blocks.has_lattices:
        return
    for seed in range(2):
        blocks.make_room()
        blocks.visit(np.random.default_rng(seed).permutation(blocks.n_items))
    before = blocks.dual_value()
    total = 0.0
    for seed in range(300):
        blocks.make_room()
        _, gain = blocks.visit(np.random.default_rng(seed).permutation(blocks.n_items), among_planes=True)
        assert gain >= 0.0
        total += gain
    assert blocks.dual_value() == pytest.approx(before + total, rel=1e-10)
    assert total > 1e-4
    assert gain < 1e-6 * total
    assert blocks.dual_value() <= optimum(name) * (1 + 1e-9)
    for planes in blocks.planes:
        np.testing.assert_allclose(np.add.reduceat(planes.shares, planes.first[:-1]), 1.0, atol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_gaps_of_all_items_add_up_to_the_gap(name):
    problem = PROBLEMS[name]
    objective = hinge(problem)
    blocks = objective.state(FrankWolfeState, PENALTY)
    for seed in range(4):
        blocks.visit(np.random.default_rng(seed).permutation(blocks.n_items))
    before, w = blocks.dual_value(), dense_weights(problem, *blocks.point().sparse_weights)
    gaps = np.empty(blocks.n_items)
    for k in range(gaps.size):
        copy = deepcopy(blocks)
        copy.visit(np.array([k]))
        gaps[k] = copy.gaps[k]
    assert before + gaps.sum() == pytest.approx(value(problem, w), rel=1e-12)
    assert before < optimum(name) < value(problem, w)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "solver",
    [BlockFrankWolfe(), BlockFrankWolfe(by_gaps=False, random_state=3)],
    ids=["default", "without gaps"],
)
def test_finds_the_optimum_and_proves_it(name, solver):
    problem, tol = PROBLEMS[name], 3e-3
    result = minimize(hinge(problem), PENALTY, solver, Run(tol=tol, max_iter=2000))
    assert result.status is Status.CONVERGED
    assert result.gap <= tol
    w = dense_weights(problem, result.coords, result.weights)
    assert result.value == pytest.approx(value(problem, w), rel=1e-12)
    assert result.value * (1 - result.gap) <= optimum(name) * (1 + 1e-9)
    assert optimum(name) * (1 - 1e-9) <= result.value <= optimum(name) * (1 + tol)


def test_a_run_that_is_stopped_is_evaluated():
    problem = PROBLEMS["real chains"]
    result = minimize(hinge(problem), PENALTY, BlockFrankWolfe(), Run(tol=0.0, max_iter=15))
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 15
    w = dense_weights(problem, result.coords, result.weights)
    assert result.value == pytest.approx(value(problem, w), rel=1e-12)
    assert 0 < result.gap < 1


def test_on_a_support_only_its_weights_move():
    problem = PROBLEMS["real chains"]
    store = problem.objective().whole.map.store
    support = observed_support(store, problem.targets, problem.n_states, False, False)
    allowed = np.isin(np.arange(problem.n_coords), support.coords())
    blocks = hinge(problem, support).state(FrankWolfeState, PENALTY)
    order = np.random.default_rng(0).permutation(problem.n_items)
    blocks.visit(order)
    w, dual_value = dual_point(problem, shares_of(problem, blocks.planes[0]), allowed)
    assert blocks.dual_value() == pytest.approx(dual_value, abs=1e-9)
    np.testing.assert_allclose(dense_weights(problem, *blocks.point().sparse_weights), w, rtol=0, atol=1e-9)
    assert not allowed.all()
    assert not w[~allowed].any()


def test_blocks_of_items_are_the_whole():
    problem = PROBLEMS["real chains"]
    whole = hinge(problem)
    blocked = in_blocks(hinge(problem).whole, 10)
    assert len(blocked.parts) > 2
    sides = [objective.state(FrankWolfeState, PENALTY) for objective in (whole, blocked)]
    for side in sides:
        side.visit(np.arange(problem.n_items))
    np.testing.assert_array_equal(sides[0].rows.weights, sides[1].rows.weights)
    np.testing.assert_array_equal(sides[0].gaps, sides[1].gaps)
    assert sides[0].dual_value() == pytest.approx(sides[1].dual_value(), rel=1e-13)
    result = minimize(blocked, PENALTY, BlockFrankWolfe(), Run(tol=3e-3, max_iter=2000))
    assert result.value == pytest.approx(optimum("real chains"), rel=3e-3)


@pytest.mark.parametrize(
    "penalty", [ElasticNet(0.1, 1.0), ElasticNet(0.0, 0.0), ElasticNet(0.0, 1.0, np.array([2]))]
)
def test_other_penalties_are_refused(penalty):
    with pytest.raises(
        InputError, match=r"needs a penalty l2/2 \|\|w\|\|\^2 with(out L1| l2 > 0 on all weights)"
    ):
        minimize(hinge(PROBLEMS["chains"]), penalty, BlockFrankWolfe())


def test_other_losses_and_offsets_are_refused():
    problem = PROBLEMS["chains"]
    objective = problem.objective()
    with pytest.raises(UnsupportedObjectiveError, match="needs a structured hinge; the loss is Likelihood"):
        minimize(objective, PENALTY, BlockFrankWolfe())
    loss = hinge(problem).whole.loss
    offset = np.zeros((problem.n_states, problem.targets.size))
    with pytest.raises(UnsupportedObjectiveError, match="offset"):
        minimize(build_objective(objective.whole.map, loss, offset=offset), PENALTY, BlockFrankWolfe())


def digits(n=600):
    X, y = load_digits(return_X_y=True)
    paths = np.array([f"{'low' if label < 5 else 'high'}/{label}" for label in y])
    return X[:n] / 16, y[:n], paths[:n]


@pytest.mark.filterwarnings("error")
class TestEstimators:
    def words(self):
        rng = np.random.default_rng(0)
        X = [
            [{"w": str(rng.integers(6)), "v": rng.random()} for _ in range(rng.integers(1, 6))]
            for _ in range(60)
        ]
        return X, [["abc"[int(position["w"]) % 3] for position in item] for item in X]

    def test_chains(self, tmp_path):
        X, y = self.words()
        model = ChainCRF(l1=0, l2=0.1, loss="hinge", random_state=0).fit(X, y)
        assert model.result_.status is Status.CONVERGED
        assert model.score(X, y) == 1.0
        again = ChainCRF(l1=0, l2=0.1, loss="hinge", random_state=0, n_threads=1).fit(X, y)
        np.testing.assert_array_equal(model.coef_.toarray(), again.coef_.toarray())
        model.save(tmp_path / "model.crfqn")
        loaded = crfqn.load(tmp_path / "model.crfqn")
        assert loaded.loss == "hinge"
        assert loaded.predict(X).tolist() == model.predict(X).tolist()

    @pytest.mark.parametrize("name", ["decode", "predict_marginals", "log_likelihood"])
    def test_chains_have_no_probabilities(self, name):
        X, y = self.words()
        model = ChainCRF(l1=0, l2=1, loss="hinge").fit(X, y)
        with pytest.raises(AttributeError):
            getattr(model, name)
        assert hasattr(ChainCRF(), name)

    def test_without_a_taxonomy_it_is_the_multiclass_hinge(self):
        X, y, _ = digits()
        tree = TaxonomyCRF(l1=0, l2=10, loss="hinge", tol=3e-3).fit(X, y)
        flat = MulticlassClassifier(loss="hinge", penalty="l2", l2=10, fit_intercept=False).fit(X, y)
        assert tree.result_.value == pytest.approx(flat.result_.value, rel=4e-3)
        assert tree.result_.gap <= 3e-3
        assert np.mean(tree.predict(X) == flat.predict(X)) > 0.98

    def test_taxonomies(self):
        X, _, paths = digits()
        model = TaxonomyCRF(
            l1=0, l2=3, loss="hinge", fit_intercept=True, penalize_intercept=True, tol=1e-2
        ).fit(X[:400], paths[:400])
        assert model.score(X[400:], paths[400:]) > 0.77  # the likelihood's .80
        for name in ("predict_nodes", "predict_marginals", "predict_proba", "decode"):
            assert not hasattr(model, name)
        with pytest.raises(AttributeError, match="the loss is 'hinge'"):
            model.predict(X, threshold=0.5)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({}, "loss='hinge': expected l2 > 0 with l1 = 0 and group_l1 = 0, got l2=0, l1=0, group_l1=0.0"),
            ({"l1": 0}, "got l2=0, l1=0"),
            ({"l1": 0, "l2": 1, "group_l1": 2}, "group_l1=2"),
            ({"l1": 0, "l2": 1, "solver": "l-bfgs"}, "expected 'auto' or 'block-frank-wolfe', got 'l-bfgs'"),
            (
                {"loss": "squared-hinge"},
                r"loss: expected one of \['logistic', 'hinge'\], got 'squared-hinge'",
            ),
        ],
        ids=str,
    )
    def test_refusals(self, settings, message):
        X, y = self.words()
        with pytest.raises(InputError, match=message):
            ChainCRF(**{"loss": "hinge", **settings}).fit(X, y)

    def test_intercepts_without_penalty_are_refused(self):
        X, y, _ = digits(100)
        with pytest.raises(InputError, match="penalize_intercept: with loss='hinge' expected True"):
            TaxonomyCRF(l1=0, l2=1, loss="hinge", fit_intercept=True).fit(X, y)
