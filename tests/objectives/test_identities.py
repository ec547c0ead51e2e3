"""One model in three structures: flat = star taxonomy = chains of length one, and a root that has a name is no matter.

Value, gradient, every number that a solver asks for, the path of its iterates and the weights that it ends with. Where
the kernels differ the last digits may.
"""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from problems import SHAPES, curvature_at, make_likelihood, make_tree_problem

from crfqn.data.features import FeatureStore
from crfqn.objectives.marginals import Marginals
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import (
    CostAwareSweeps,
    Diagonal,
    Identity,
    ProxQN,
    Stage,
    TokenWise,
    TopViolators,
    WarmStart,
)  # fmt: skip
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy, flat
from crfqn.taxonomy.tree import LabelTree

N_CLASSES, N_FEATURES, N_ITEMS = 12, 40, 250


def rooted(parents, is_label):
    """The same forest under one node that has a name: node k becomes k + 1."""
    below = np.where(parents < 0, 0, parents + 1)
    return np.concatenate([[-1], below]).astype(np.int32), np.concatenate([[False], is_label])


def star_tree():
    tree = LabelTree.star([f"class {k}" for k in range(N_CLASSES)])
    return Taxonomy(tree.parents, tree.is_leaf, N_ITEMS)


STRUCTURES = {
    "flat": flat(N_CLASSES, N_ITEMS),
    "star": star_tree(),
    "named root": Taxonomy(*rooted(np.full(N_CLASSES, -1), np.ones(N_CLASSES, bool)), N_ITEMS),
    "chains": Chain(np.arange(N_ITEMS + 1), N_CLASSES),
}
OTHERS = [name for name in STRUCTURES if name != "flat"]
FIRST = {name: int(name == "named root") for name in STRUCTURES}  # the state of the first class


@cache
def data(kind):
    """x (N, F), classes (N,) that depend on it, item weights (N,)."""
    random = np.random.default_rng(0)
    x = (random.random((N_ITEMS, N_FEATURES)) < 0.2).astype(float)
    if kind == "real":
        x *= random.normal(size=x.shape)
    x[:, 0] = 1.0
    scores = x @ random.normal(size=(N_FEATURES, N_CLASSES)) + random.gumbel(size=(N_ITEMS, N_CLASSES))
    return x, scores.argmax(axis=1).astype(np.int32), random.choice([0.0, 0.5, 1.0, 1.0, 3.0], N_ITEMS)


@pytest.fixture(params=["binary", "real"])
def kind(request):
    return request.param


def objective(name, kind):
    x, classes, weights = data(kind)
    store = FeatureStore.from_matrix(x, np.arange(N_ITEMS + 1))
    targets = classes + np.int32(FIRST[name])
    return make_likelihood(store, STRUCTURES[name], targets, weights, n_threads=1)


def shift(name):
    """What the coordinates of the classes have been moved by."""
    return FIRST[name] * N_FEATURES


@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("name", OTHERS)
def test_every_number_of_a_point(name, kind, scale):
    random = np.random.default_rng(1)
    coords = np.sort(random.choice(N_CLASSES * N_FEATURES, 150, replace=False))
    weights = scale * random.normal(size=150)
    one = objective("flat", kind).at(coords, weights)
    other = objective(name, kind).at(coords + shift(name), weights)
    assert other.value == pytest.approx(one.value, rel=1e-13)
    np.testing.assert_allclose(other.item_losses, one.item_losses, rtol=1e-12, atol=1e-12)
    everything = np.arange(N_CLASSES * N_FEATURES)
    questions = other.gradient, one.gradient
    for question in ("diagonal", "majorant", "feature_scale"):
        questions += getattr(curvature_at(other), question), getattr(curvature_at(one), question)
    for found, expected in zip(questions[::2], questions[1::2], strict=True):
        np.testing.assert_allclose(
            found(everything + shift(name)), expected(everything), rtol=1e-11, atol=1e-11
        )
    for s in (1.0, 0.7, 0.01):
        assert other.dual_value(s) == pytest.approx(one.dual_value(s), rel=1e-11, abs=1e-10)
    found, expected = other.screen(0.8), one.screen(0.8)
    np.testing.assert_array_equal(found.coords - shift(name), expected.coords)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-11)
    states, positions = np.array([0, 3, 11]), np.arange(0, N_ITEMS, 7)
    np.testing.assert_allclose(
        Marginals(other.whole).at(states + FIRST[name], positions),
        Marginals(one.whole).at(states, positions),
        atol=1e-13,
    )
    np.testing.assert_allclose(
        Marginals(other.whole).variance(states + FIRST[name]),
        Marginals(one.whole).variance(states),
        atol=1e-13,
    )
    some = everything[::3]
    for n_sampled in (60, N_ITEMS):
        models = [
            curvature_at(point).matrix(place, n_sampled, 6000)
            for point, place in [(one, some), (other, some + shift(name))]
        ]
        expected, found = (model.toarray() if sp.issparse(model) else model for model in models)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_other_structures_have_more_of_is_never_of_use(name, kind):
    """The edges of chains of length one, and the weights of a root that every label has: no gradient, no curvature."""
    whole = objective(name, kind)
    n_weights = N_CLASSES * N_FEATURES
    more = np.setdiff1d(np.arange(whole.n_coords), np.arange(n_weights) + shift(name))
    assert more.size == {"star": 0, "named root": N_FEATURES, "chains": N_CLASSES**2}[name]
    point = whole.at(np.arange(0, n_weights, 5) + shift(name), np.linspace(-2, 2, n_weights // 5))
    np.testing.assert_allclose(point.gradient(more), 0.0, atol=1e-12)
    np.testing.assert_allclose(curvature_at(point).diagonal(more), 0.0, atol=1e-12)


UNPRICED = CostAwareSweeps(
    is_cost_aware=False
)  # passes over equal problems in other forms take other numbers of operations
SOLVERS = {
    "default": ProxQN(sweeps=UNPRICED),
    "diagonal": ProxQN(metric=Diagonal(), sweeps=UNPRICED),
    "identity": ProxQN(metric=Identity(), sweeps=UNPRICED),
    # All but the sweeps: the paper has the more of them the more weights there are that are not active.
    "paper": replace(ProxQN.paper(), sweeps=CostAwareSweeps(10, is_cost_aware=False)),
    "warm-up": ProxQN(
        warm_start=WarmStart((Stage(4, 3.0), Stage(2, 1.0)), fewest_positions=1), sweeps=UNPRICED
    ),
    "few may enter": ProxQN(entry=TopViolators(20), sweeps=UNPRICED),
    "sampled metric": ProxQN(metric=TokenWise(60, refresh=5), sweeps=UNPRICED),
}


TINY = {
    "few weights": 10**6,
    "as if large": 0,
}  # the few weights more of a structure must not decide on which it is


@cache
def trained(name, kind, size, solver, penalty):
    """A run; those of the flat structure are asked for again and again."""
    asked = PENALTIES[penalty]
    moved = replace(asked, unpenalised=asked.unpenalised + shift(name))
    settings = replace(SOLVERS[solver], few_weights=TINY[size])
    tol = 1e-6 if settings.metric.is_full else 1e-4
    return minimize(objective(name, kind), moved, settings, Run(tol=tol, max_iter=400))


FIRST_ROWS = 20  # of the trace; roundings have not grown until then


def assert_same_path(name, solver, found, expected, is_free=False):
    """The same iterates, as far as the trace tells: values, sizes and cost of the steps; and the same end.

    Chains sum up in another order, and a metric in float32 rounds the difference up.
    """
    is_float32 = SOLVERS[solver].metric.is_full
    digits = 1e-12 if name != "chains" else 1e-6 if is_float32 else 1e-10
    rows = slice(FIRST_ROWS if name == "chains" else None)
    np.testing.assert_allclose(found.trace.value[rows], expected.trace.value[rows], rtol=digits)
    for column in ("n_active", "n_nonzero", "is_screening"):
        own, reference = getattr(found.trace, column)[rows], getattr(expected.trace, column)[rows]
        if (
            column == "n_active" and solver == "paper"
        ):  # which opens with all coordinates, of whatever structure
            own, reference = own[own < own.max()], reference[reference < reference.max()]
        np.testing.assert_array_equal(own, reference)
    np.testing.assert_allclose(found.trace.passes[rows], expected.trace.passes[rows], rtol=1e-12)
    np.testing.assert_allclose(found.trace.gap[rows], expected.trace.gap[rows], rtol=0.02, atol=1e-8)
    # What bounds unpenalised weights is another proof for each structure, and the loosest may not reach the tolerance.
    ends = (Status.CONVERGED, Status.STALLED) if is_free else (Status.CONVERGED,)
    assert found.status in ends
    assert expected.status in ends
    assert found.n_iter == pytest.approx(expected.n_iter, rel=0.3)
    np.testing.assert_array_equal(found.coords - shift(name), expected.coords)
    assert found.value == pytest.approx(expected.value, rel=1e-8)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-3, atol=1e-4)


PENALTIES = {
    "l1": ElasticNet(0.8),
    "l1 and l2": ElasticNet(0.5, 0.3),
    "free": ElasticNet(
        0.8, 0.1, np.arange(0, N_CLASSES * N_FEATURES, N_FEATURES)
    ),  # the first feature of each class
}


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("size", TINY)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("name", OTHERS)
def test_path_of_iterates(name, kind, size, penalty):
    expected = trained("flat", kind, size, "default", penalty)
    assert expected.status is Status.CONVERGED
    found = trained(name, kind, size, "default", penalty)
    assert_same_path(name, "default", found, expected, is_free=penalty == "free")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("kind", "solver"),
    [
        *itertools.product(["binary"], ["default", "warm-up", "few may enter", "sampled metric"]),
        *itertools.product(["real"], ["diagonal", "identity", "paper", "few may enter"]),
    ],
)
@pytest.mark.parametrize("name", OTHERS)
def test_path_of_every_solver(name, kind, solver):
    expected = trained("flat", kind, "as if large", solver, "l1")
    assert expected.n_nonzero > 50
    assert (expected.trace.passes[0] == 1) == (solver != "warm-up")
    assert_same_path(name, solver, trained(name, kind, "as if large", solver, "l1"), expected)


def test_flat_is_the_star_to_the_last_bit(kind):
    expected, found = (trained(name, kind, "few weights", "default", "l1") for name in ("flat", "star"))
    assert found is not expected
    assert found.trace.value.tobytes() == expected.trace.value.tobytes()
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.coords.tobytes() == expected.coords.tobytes()


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_taxonomy_with_a_named_root_is_the_one_without(shape):
    without = make_tree_problem(shape, 5, n_items=80, n_features=8, has_weights=True)
    parents, is_label = rooted(without.parents, without.is_label)
    named = replace(without, parents=parents, is_label=is_label, targets=without.targets + np.int32(1))
    expected, found = (
        minimize(problem.objective(), ElasticNet(0.5), ProxQN(few_weights=0, sweeps=UNPRICED), Run(tol=1e-7))
        for problem in (without, named)
    )
    assert expected.status is Status.CONVERGED
    np.testing.assert_allclose(found.trace.value, expected.trace.value, rtol=1e-9)
    np.testing.assert_array_equal(found.trace.n_active, expected.trace.n_active)
    np.testing.assert_array_equal(found.coords - without.x.shape[1], expected.coords)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-5, atol=1e-7)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("strengths", [(0.5, 0.0), (0.2, 0.0)], ids=str)
def test_an_only_child_changes_nothing(strengths):
    """Under L1 a weight may be shared by a node and its only child as they like: the value is the same."""
    problem = make_tree_problem("forest", 6, n_items=60)
    parents = np.append(problem.parents, np.int32(9)).astype(
        np.int32
    )  # leaf 9 gets a child, which is the label now
    is_label = np.append(problem.is_label, True)
    is_label[9] = False
    longer = replace(
        problem,
        parents=parents,
        is_label=is_label,
        targets=np.where(problem.targets == 9, 10, problem.targets).astype(np.int32),
    )
    values = [
        minimize(one.objective(), ElasticNet(*strengths), ProxQN(), Run(tol=1e-8)).value
        for one in (problem, longer)
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-7)
    assert values[0] == pytest.approx(problem.optimum(*strengths)[0], rel=1e-7)
