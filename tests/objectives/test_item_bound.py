"""Bounds by mixtures with a share for each item, against enumeration and against tight optima."""

import itertools

import numpy as np
import pytest
from problems import SHAPES, Problem, make_problem, make_tree_problem, objective_of

from crfqn.objectives.item_bound import ItemMixtures, item_bound
from crfqn.objectives.objective import build_objective
from crfqn.objectives.support import Support
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers.certificate import best_bound, count_proved_zeros
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run

PROBLEMS = ["chain", "real chain", *SHAPES]


def make(kind, seed):
    """A problem of a structure, with weights of items where it is odd."""
    if kind in SHAPES:
        problem = make_tree_problem(kind, seed, has_weights=bool(seed % 2))
        return problem, objective_of(problem)
    problem = make_problem(seed, n_items=14, n_features=7, longest=3, is_binary=kind == "chain")
    return problem, problem.objective()


def near(w, seed, scale):
    """A point near w: some weights moved, some gone."""
    random = np.random.default_rng(seed)
    moved = w + scale * random.normal(size=w.size) * (random.random(w.size) < 0.3)
    return np.where(random.random(w.size) < 0.95, moved, 0.0)


def point_of(objective, w):
    coords = np.flatnonzero(w)
    return objective.at(coords, w[coords])


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (0.4, 0.3)])
def test_no_bound_is_above_the_optimum(kind, l1, l2):
    """And most are closer to it than those with one share for all."""
    penalty, gains = ElasticNet(l1, l2), []
    for seed in range(2):
        problem, objective = make(kind, seed)
        best, w = problem.optimum(l1, l2)
        for scale in (1e-3, 0.02, 0.2, 1.0):
            point = point_of(objective, near(w, seed, scale))
            found = item_bound(point, penalty)
            assert found.dual_value <= best + 1e-9 * abs(best)
            value = point.value + penalty.value(point.coords, point.weights)
            one = best_bound(point, penalty, penalty.screen(point)).dual_value
            assert found.dual_value == pytest.approx(
                exact_dual(objective, point, found.shares, l1, l2), rel=1e-9
            )
            gains.append((value - one) / max(value - found.dual_value, 1e-12))
    assert l2 > 0 or np.median(gains) > 1.0


def exact_dual(objective, point, shares, l1, l2):
    """The dual value of the shares: entropies by inference, gradient by that of every coordinate."""
    view = ItemMixtures(point.whole)
    g = view.at_shares(shares).gradient(objective.support.coords())
    excess = np.maximum(np.abs(g) - l1, 0.0)
    if l2 == 0:
        assert excess.max() <= 1e-12 * l1
    return view.dual_value(shares) - (float(excess @ excess) / (2 * l2) if l2 > 0 else 0.0)


def test_entropies_and_gradients_by_enumeration():
    """Of mixtures with any shares, those above 1 too, around an offset as well."""
    problem = make_problem(4, n_items=8, n_features=5, longest=3)
    random = np.random.default_rng(0)
    w = random.normal(size=problem.n_coords)
    weights = random.choice([0.0, 0.5, 2.0], 8)
    plain = problem.objective()
    for offset in (None, random.normal(size=(3, plain.n_positions))):
        objective = build_objective(plain.whole.map, plain.whole.loss, weights, offset=offset)
        point = point_of(objective, w)
        view = ItemMixtures(point.whole)
        largest = 1.0 / -np.expm1(-point.item_losses)
        shares = np.minimum(random.uniform(0.1, 2.0, 8), largest)
        entropy, g = enumerated(problem, objective, point, shares)
        assert view.dual_value(shares) == pytest.approx(entropy, rel=1e-10)
        np.testing.assert_allclose(
            view.at_shares(shares).gradient(objective.support.coords()), g, rtol=1e-9, atol=1e-11
        )
        coords = np.arange(problem.n_coords)
        parts = view.parts(coords)
        sums = [parts.values[a:b] @ shares[parts.items[a:b]] for a, b in itertools.pairwise(parts.starts)]
        np.testing.assert_allclose(sums, g, rtol=1e-5, atol=1e-6)  # parts are float32


def enumerated(problem: Problem, objective, point, shares):
    """The dual loss of the mixtures and their gradient, labelling by labelling."""
    total, g = 0.0, np.zeros(problem.n_coords)
    edges = point.whole.edges.reshape(3, 3)
    for i, (start, end) in enumerate(itertools.pairwise(problem.offsets)):
        labellings = list(itertools.product(range(3), repeat=end - start))
        scores = np.array(
            [sum(point.whole.scores[k, start + t] for t, k in enumerate(y)) for y in labellings]
        )
        scores += [sum(edges[a, b] for a, b in itertools.pairwise(y)) for y in labellings]
        q = np.exp(scores - scores.max())
        q *= shares[i] / q.sum()
        observed = labellings.index(tuple(problem.targets[start:end]))
        q[observed] += 1.0 - shares[i]
        assert q.min() >= -1e-12
        positive = q[q > 0]
        part = -float(positive @ np.log(positive))
        counts = np.array([count(problem, start, y) for y in labellings])
        moved = q - np.eye(len(labellings))[observed]
        if objective.whole.offset is not None:
            fixed = [sum(objective.whole.offset[k, start + t] for t, k in enumerate(y)) for y in labellings]
            part += float(moved @ fixed)
        total += objective.whole.weights[i] * part
        g += objective.whole.weights[i] * (moved @ counts)
    return total, g


def count(problem, start, labels):
    """f(x, y) of one labelling."""
    node, edge = np.zeros((3, problem.n_features)), np.zeros((3, 3))
    for t, k in enumerate(labels):
        node[k] += problem.matrix[start + t]
    for a, b in itertools.pairwise(labels):
        edge[a, b] += 1
    return np.concatenate([node.ravel(), edge.ravel()])


def test_on_a_support():
    """Coordinates that may have no weight bound nothing."""
    problem, objective = make("chain", 3)
    best, w = problem.optimum(0.5, 0.0)
    kept = np.flatnonzero(np.random.default_rng(0).random(21) < 0.6)
    support = Support(21, 9, kept, np.arange(0, 9, 2))
    restricted = build_objective(objective.whole.map, objective.whole.loss, objective.whole.weights, support)
    inside = np.where(support.contains(np.arange(30)), w, 0.0)
    found = item_bound(point_of(restricted, inside), ElasticNet(0.5))
    tight = minimize(restricted, ElasticNet(0.5), ProxQN(), Run(tol=1e-9))
    assert tight.value >= best * (1 - 1e-9)
    assert found.dual_value <= tight.value * (1 + 1e-9)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_zeros_proved_by_items_are_zeros_of_the_optimum(kind):
    problem, objective = make(kind, 1)
    l1 = 0.3 * problem.l1_max
    _, w = problem.optimum(l1, 0.0)
    point = point_of(objective, np.where(np.abs(w) > 1e-6, w, 0.0) * (1 + 1e-5))
    penalty = ElasticNet(l1)
    bound = item_bound(point, penalty)
    value = point.value + penalty.value(point.coords, point.weights)
    n_proved = count_proved_zeros(objective, penalty, point, value, bound)
    assert 0 < n_proved <= int((np.abs(w) < 1e-6).sum())


def test_where_shares_are_of_no_help():
    problem, objective = make("chain", 0)
    point = objective.at(np.arange(3), np.ones(3))
    assert item_bound(point, ElasticNet(0.0, 1.0)) is None
    assert item_bound(point, ElasticNet(0.5, unpenalised=np.array([2]))) is None
    assert item_bound(point, GroupLasso(1.0, n_features=problem.n_features, n_states=3)) is None


def test_many_items_with_features_of_their_own():
    """The largest violation, all that one share for all items can see, says little about the whole."""
    problem, penalty = make_problem(2, n_items=300, n_features=60, longest=2), ElasticNet(0.7)
    objective = problem.objective()
    tight = minimize(objective, penalty, ProxQN(), Run(tol=1e-9))
    stopped = minimize(objective, penalty, ProxQN(), Run(tol=0.0, max_iter=12, counts_proved_zeros=False))
    point = objective.at(stopped.coords, stopped.weights)
    one, items = best_bound(point, penalty, penalty.screen(point)), item_bound(point, penalty)
    assert items.dual_value <= tight.value * (1 + 1e-9)
    assert tight.value - items.dual_value <= (tight.value - one.dual_value) / 2
    value = point.value + penalty.value(point.coords, point.weights)
    proved = [count_proved_zeros(objective, penalty, point, value, bound) for bound in (None, items)]
    assert proved[1] >= proved[0]


def test_a_run_to_a_certificate_uses_them():
    problem = make_problem(2, n_items=300, n_features=60, longest=2)
    result = minimize(problem.objective(), ElasticNet(0.7), ProxQN(), Run(tol=1e-5))
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-5
    assert (
        result.value * (1 - result.gap)
        <= minimize(problem.objective(), ElasticNet(0.7), ProxQN(), Run(tol=1e-9)).value
    )
