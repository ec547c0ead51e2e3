"""The loss of chains and taxonomies, gradient, screening, rays and curvatures against enumeration and differences."""

import contextlib
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import (
    SHAPES,
    TreeProblem,
    curvature_at,
    ends_within,
    make_likelihood,
    make_tree_problem,
    objective_of,
    point_at,
)
from references import DenseProblem, finite_differences, random_problem

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.linear.feature_map import CoordinateParts, merge_weights
from crfqn.objectives.linear.sparse_map import SparseMap, possible_features
from crfqn.objectives.marginals import Marginals
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy
from crfqn.threads import Pool

WEIGHTS = (1.0, 0.0, 2.5, 0.3, 1.0, 4.0)
ALONE = Pool(1)


def random_weights(problem, seed=0, scale=1.0, density=0.7):
    random = np.random.default_rng(seed)
    return scale * random.normal(size=problem.n_coords) * (random.random(problem.n_coords) < density)


@pytest.fixture(params=["binary", "real"])
def is_binary(request):
    return request.param == "binary"


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def has_weights(request):
    return request.param


@pytest.fixture(params=["chain", *SHAPES])
def problem(request, is_binary, has_weights):
    if request.param == "chain":
        return random_problem(0, is_binary=is_binary, item_weights=WEIGHTS if has_weights else None)
    return make_tree_problem(request.param, 0, n_items=30, is_binary=is_binary, has_weights=has_weights)


def test_value_and_gradient_against_enumeration(problem):
    objective = objective_of(problem)
    n_edges = 0 if isinstance(problem, TreeProblem) else 9
    assert objective.n_coords == problem.n_coords == problem.n_states * problem.x.shape[1] + n_edges
    assert objective.whole.map.store.is_binary == bool(np.isin(problem.x, (0, 1)).all())
    everything = np.arange(problem.n_coords)
    for seed in range(5):
        w = random_weights(problem, seed, scale=(0.0, 0.1, 1.0, 1.0, 10.0)[seed])
        point = point_at(objective, w)
        assert point.value == pytest.approx(problem.loss(w), rel=1e-12)
        np.testing.assert_allclose(point.item_losses, -problem.log_likelihoods(w), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(point.gradient(everything), problem.gradient(w), atol=1e-11)


def test_marginals_of_some_states_at_some_positions(problem):
    random = np.random.default_rng(1)
    n_positions = problem.targets.size
    for seed in range(6):
        w = random_weights(problem, seed)
        expected = problem.marginals(w) * (problem.position_weights > 0)
        states = np.sort(random.choice(problem.n_states, random.integers(0, problem.n_states + 1), False))
        positions = random.permutation(n_positions)[: random.integers(0, n_positions + 1)]
        found = Marginals(point_at(objective_of(problem), w).whole).at(states, positions)
        assert found.shape == (states.size, positions.size)
        np.testing.assert_allclose(found, expected[np.ix_(states, positions)], atol=1e-12)


def test_marginal_variance(problem):
    """Sum of p (1 - p) over some states at each position; 0 where the weight is 0."""
    w = random_weights(problem)
    p = problem.marginals(w) * (problem.position_weights > 0)
    point = point_at(objective_of(problem, 2), w)
    for states in (np.arange(problem.n_states), np.array([1, 2]), np.array([], np.int64)):
        expected = (p * (1 - p))[states].sum(axis=0)
        np.testing.assert_allclose(Marginals(point.whole).variance(states), expected, atol=1e-12)


def test_gradient_against_finite_differences(problem):
    objective = objective_of(problem)
    w = random_weights(problem)
    found = point_at(objective, w).gradient(np.arange(w.size))
    differences = finite_differences(lambda v: point_at(objective, v).value, w)
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(differences, finite_differences(problem.loss, w), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("coords", [[], [0], [11], [12], [19], [3, 7, 11], [12, 16], [0, 5, 11, 12, 18]])
def test_gradient_of_some_coordinates(problem, coords):
    w = random_weights(problem)
    coords = np.array(coords, np.int64)
    found = point_at(objective_of(problem), w).gradient(coords)
    np.testing.assert_allclose(found, problem.gradient(w)[coords], atol=1e-12)


QUESTIONS = {
    "value": lambda point: point.value,
    "gradient": lambda point: point.gradient(np.arange(5)),
    "screen": lambda point: point.screen(0.1),
    "dual_value": lambda point: point.dual_value(0.5),
    "curvature": lambda point: curvature_at(point).diagonal(np.arange(5)),
    "roughness": lambda point: curvature_at(point).majorant(np.arange(5)),
    "undecided": lambda point: Marginals(point.whole).variance(np.arange(3)),
    "marginals_at": lambda point: Marginals(point.whole).at(np.arange(3), np.arange(4)),
    "token_model": lambda point: curvature_at(point).matrix(np.arange(5), 7, 100),
    "large token_model": lambda point: curvature_at(point).matrix(np.arange(5), 7, 2),
}


@pytest.mark.parametrize("kind", ["chain", "forest"])
def test_a_point_costs_one_pass(kind):
    problem = random_problem(1) if kind == "chain" else make_tree_problem(kind, 1)
    objective = objective_of(problem)
    point = point_at(objective, random_weights(problem))
    assert objective.n_passes == 0
    for _ in range(2):
        for question in QUESTIONS.values():
            question(point)
    assert objective.n_passes == 1


@pytest.mark.parametrize("question", QUESTIONS)
def test_any_question_may_be_the_first_with_any_number_of_threads(question):
    """An inference that starts within a thread's share would wait for threads that wait for it."""
    problem = make_tree_problem("forest", 1, n_items=3000)
    w = random_weights(problem)
    for n_threads in (2, 3, 7):
        objective = objective_of(problem, n_threads)
        with ends_within():
            QUESTIONS[question](point_at(objective, w))
        assert objective.n_passes == 1


class TestItems:
    def test_must_be_those_of_the_store(self):
        problem = random_problem(2)
        store = FeatureStore.from_matrix(problem.x, problem.offsets)
        chain = Chain(np.array([0, store.n_positions]), problem.n_states)
        with pytest.raises(InputError, match=rf"over {store.n_items} items .* got 1 items and 14 positions$"):
            make_likelihood(store, chain, problem.targets)

    @pytest.mark.parametrize("wrong", [1e-310, -1.0, np.nan, np.inf])
    def test_weights_must_have_an_inverse(self, wrong):
        problem = random_problem(2)
        store = FeatureStore.from_matrix(problem.x, problem.offsets)
        structure, weights = Chain(store.offsets, problem.n_states), np.ones(store.n_items)
        weights[:2] = 0.0, np.finfo(float).tiny
        assert np.isfinite(
            make_likelihood(store, structure, problem.targets, weights).whole.inverse_weights
        ).all()
        weights[2] = wrong
        with pytest.raises(InputError, match=rf"at least 2.23e-308, got {wrong} for item 2$"):
            make_likelihood(store, structure, problem.targets, weights)
        with pytest.raises(InputError, match=r"weights, one an item, got shape"):
            make_likelihood(store, structure, problem.targets, weights[1:])


class TestTargets:
    def test_must_fit(self):
        problem = random_problem(2)
        store = FeatureStore.from_matrix(problem.x, problem.offsets)
        with pytest.raises(InputError, match=r"over 6 items and 14 positions, .* 6 items and 13 positions$"):
            make_likelihood(store, Chain(store.offsets, 3), problem.targets[1:])

    @pytest.mark.parametrize(("wrong", "span"), [(10, r"2 \.\.\. 10"), (-1, r"-1 \.\.\. 9")])
    def test_must_be_states(self, wrong, span):
        problem = make_tree_problem()
        targets = problem.targets.copy()
        targets[3] = wrong
        store = FeatureStore.from_matrix(problem.x, problem.offsets)
        with pytest.raises(InputError, match=rf"^expected targets within 0 \.\.\. 9, got {span}$"):
            make_likelihood(store, problem.structure(), targets)

    def test_must_be_labels(self):
        problem = make_tree_problem()
        targets = problem.targets.copy()
        targets[[7, 9]] = 5
        store = FeatureStore.from_matrix(problem.x, problem.offsets)
        with pytest.raises(InputError, match=r"^expected labels as targets, but item 7 has node 5$"):
            make_likelihood(store, problem.structure(), targets)


def random_forest(random, n_nodes):
    """Parents before children, about four to one, and the leaves as labels."""
    parents = np.array([-1, *random.integers(-1, np.arange(1, n_nodes) // 4 + 1)], np.int32)
    return parents, np.isin(np.arange(n_nodes), parents, invert=True)


def wide_problem(n_states, n_features, n_positions, is_binary, seed=3, n_threads=2):
    """Too large for the enumeration: a point, and its full gradient from the point's residual and x.

    Chains of 5 positions up to 30 states, a taxonomy beyond.
    """
    random = np.random.default_rng(seed)
    x = sp.random_array(
        (n_positions, n_features), density=0.01 if n_features > 1 else 0.5, rng=random, format="csr"
    )
    x.data = np.ones(x.nnz) if is_binary else random.normal(size=x.nnz)
    if n_states <= 30:
        store = FeatureStore.from_matrix(x, np.arange(0, n_positions + 1, 5))
        structure, labels = Chain(store.offsets, n_states), np.arange(n_states)
    else:
        store = FeatureStore.from_matrix(x, np.arange(n_positions + 1))
        structure = Taxonomy(*random_forest(random, n_states), n_positions)
        labels = np.flatnonzero(structure.is_label)
    targets = random.choice(labels, n_positions).astype(np.int32)
    weights = random.choice([0.0, 0.5, 1.0, 1.0, 2.0], structure.n_items)
    objective = make_likelihood(store, structure, targets, weights, n_threads)
    coords = np.sort(random.choice(objective.n_coords, min(40, objective.n_coords), replace=False))
    point = objective.at(coords, random.normal(size=coords.size))
    gradient = np.concatenate(
        [(x.T @ point.whole.evaluation.residual.T).T.ravel(), point.whole.evaluation.edge_residual]
    )
    return point, gradient


# A block holds 2048 numbers: 256 features up to 8 states, 128 up to 16, 64 up to 32; tiles of 2048 positions;
# and a tile 64 states.
@pytest.mark.parametrize(
    ("n_states", "n_features", "n_positions"),
    [
        (3, 1, 50), (3, 255, 500), (3, 256, 500), (3, 257, 500), (8, 700, 500), (9, 300, 500), (30, 150, 4500),
        (64, 300, 500), (65, 300, 500), (72, 1, 50), (128, 33, 2500), (200, 300, 300),
    ],
)  # fmt: skip
def test_screening_finds_what_stands_out(is_binary, n_states, n_features, n_positions):
    point, gradient = wide_problem(n_states, n_features, n_positions, is_binary)
    size = np.abs(gradient)
    steps = np.unique(size)
    steps = steps[np.diff(steps, prepend=-1.0) > 1e-9]  # no two sums of one value in another order
    places = (steps.size // 2, steps.size * 9 // 10, steps.size * 99 // 100, -1)
    thresholds = [0.0, *(0.5 * (steps[i - 1] + steps[i]) for i in places)]
    for threshold in thresholds:
        found = point.screen(threshold)
        expected = np.flatnonzero(size > threshold)
        if threshold == 0:  # a sum in another order may be 0 or a rounding
            certain = np.flatnonzero(size > 1e-12)
            assert np.isin(certain, found.coords).all()
            assert np.abs(gradient[found.coords]).min() > 0 or size.min() < 1e-12
            expected = found.coords
        np.testing.assert_array_equal(found.coords, expected)
        np.testing.assert_allclose(found.gradient, gradient[expected], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.gradient, point.gradient(found.coords), rtol=1e-10, atol=1e-11)
    assert point.screen(size.max() * 1.001).coords.size == 0
    # strictly above: a coordinate on the threshold stays out
    largest = np.abs(point.screen(0.99 * size.max()).gradient).max()
    assert point.screen(largest).coords.size == 0


@st.composite
def residuals(draw):
    """A small store, any residual of up to 150 states, and a threshold on or beside one of its gradients."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_states, n_positions, n_features = draw(st.integers(1, 150)), draw(st.integers(1, 12)), 9
    x = random.integers(-2, 3, (n_positions, n_features)) * (random.random((n_positions, n_features)) < 0.4)
    x = x if draw(st.booleans()) else np.abs(np.sign(x))
    kind = draw(st.sampled_from(["even", "whole", "few", "real"]))
    residual = random.normal(size=(n_states, n_positions))
    if kind == "even":  # every ceiling is attained
        residual = np.full_like(residual, draw(st.sampled_from([1.0, -0.1, 0.3])))
    elif kind == "whole":
        residual = np.round(residual)
    elif kind == "few":
        residual *= random.random(residual.shape) < 0.05
    gradients = np.abs(residual @ x).ravel()
    threshold = draw(st.sampled_from(sorted(set(gradients.tolist()))))
    threshold = float(np.nextafter(threshold, draw(st.sampled_from([-1.0, threshold, 1e9]))))
    return x.astype(float), residual, max(threshold, 0.0)


@given(residuals())
@settings(max_examples=200, deadline=None)
def test_skipped_features_never_hide_a_coordinate(case):
    """The same coordinates and gradients, bit for bit, as with every feature looked at; and they are the right ones."""
    x, residual, threshold = case
    features = SparseMap(FeatureStore.from_matrix(x, np.arange(len(x) + 1)), ALONE)
    found = features.screen(residual, threshold)
    whole = features.row_sums(residual).ravel()
    assert found.coords.tobytes() == np.flatnonzero(np.abs(whole) > threshold).tobytes()
    assert found.gradient.tobytes() == whole[found.coords].tobytes()
    gradient = (residual @ x).ravel()
    certain = np.flatnonzero(np.abs(gradient) > threshold * (1 + 1e-12) + 1e-14)
    assert np.isin(certain, found.coords).all()
    np.testing.assert_allclose(found.gradient, gradient[found.coords], atol=1e-13)
    assert (np.abs(found.gradient) > threshold).all()


def test_features_that_cannot_reach_the_threshold_are_skipped():
    """Otherwise the ceilings cost time and save none."""
    point, gradient = wide_problem(200, 300, 300, is_binary=False)
    store, residual = point.objective.whole.map.store, point.whole.evaluation.residual
    largest = np.abs(residual[:64]).max(axis=0)
    x = sp.csc_array((store.values, store.indices, store.indptr), (300, 300))
    ceilings = np.abs(x).T @ largest
    for share in (0.2, 0.5, 0.9):
        threshold = np.quantile(ceilings, share)
        found = possible_features(store, ALONE, largest, threshold * (1 + 1e-8))
        np.testing.assert_array_equal(found, np.flatnonzero(ceilings > threshold))
    assert (np.abs(gradient.reshape(200, 300)[:64]).max(axis=0) <= ceilings * (1 + 1e-12)).all()


def test_screening_sees_edges():
    problem = random_problem(4)
    point = point_at(objective_of(problem), np.zeros(problem.n_coords))
    gradient = problem.gradient(np.zeros(problem.n_coords))
    edges = np.flatnonzero(np.abs(gradient) > 0.3)
    edges = edges[edges >= problem.n_node_coords]
    assert edges.size > 0
    found = point.screen(0.3).coords
    np.testing.assert_array_equal(found[found >= problem.n_node_coords], edges)


@pytest.mark.parametrize("step", [1.0, 0.3, -0.5, 0.0])
def test_points_on_a_ray(problem, step):
    objective = objective_of(problem)
    random = np.random.default_rng(5)
    w, direction = random_weights(problem), random_weights(problem, 1)
    direction[3] = -w[3] if w[3] else 1.0
    coords = np.flatnonzero(direction)
    start = point_at(objective, w)
    before = start.whole.scores.copy(), start.whole.edges.copy()
    found = start.along(coords, direction[coords]).at(step)
    expected = point_at(objective, w + step * direction)
    assert found.value == pytest.approx(problem.loss(w + step * direction), rel=1e-12)
    np.testing.assert_allclose(found.whole.scores, expected.whole.scores, atol=1e-13)
    np.testing.assert_allclose(found.whole.edges, expected.whole.edges, atol=1e-13)
    np.testing.assert_array_equal(found.coords, expected.coords)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-14)
    np.testing.assert_array_equal(start.whole.scores, before[0])
    np.testing.assert_array_equal(start.whole.edges, before[1])
    some = np.sort(random.choice(problem.n_coords, 7, replace=False))
    np.testing.assert_allclose(found.gradient(some), expected.gradient(some), atol=1e-11)


def part_of(problem, items):
    """The problem of some items."""
    positions = np.concatenate([np.arange(*problem.offsets[i : i + 2]) for i in items])
    parts = {"x": problem.x[positions], "targets": problem.targets[positions]}
    if isinstance(problem, DenseProblem):
        parts["offsets"] = np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[items])])
    return replace(problem, item_weights=problem.item_weights[items], **parts)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_a_sample_is_the_loss_over_its_items(problem, stride):
    w = random_weights(problem)
    found = point_at(objective_of(problem).sample(stride), w)
    part = part_of(problem, np.arange(stride // 2, problem.offsets.size - 1, stride))
    assert found.value == pytest.approx(part.loss(w), rel=1e-12)
    np.testing.assert_allclose(found.gradient(np.arange(w.size)), part.gradient(w), atol=1e-12)


def test_any_items_may_be_taken(problem):
    w, items = random_weights(problem), np.array([0, 1, 4])
    found = point_at(objective_of(problem).with_parts(lambda part: part.take(items)), w)
    part = part_of(problem, items)
    assert found.value == pytest.approx(part.loss(w), rel=1e-12)
    np.testing.assert_allclose(found.gradient(np.arange(w.size)), part.gradient(w), atol=1e-12)


def edge_variances(problem, p, c):
    """Of the number of each transition, were positions independent: of a position's own share, and of pairs."""
    if isinstance(problem, TreeProblem):
        return np.empty(0)
    k, ends, starts = problem.n_states, set(problem.offsets[1:] - 1), set(problem.offsets[:-1])
    result = np.zeros((k, k))
    for t in range(p.shape[1]):
        before = np.zeros(k) if t in starts else p[:, t - 1]
        after = np.zeros(k) if t in ends else p[:, t + 1]
        for i, j in np.ndindex(k, k):
            v = after[j] * (np.arange(k) == i) + before[i] * (np.arange(k) == j)
            own = v**2 @ p[:, t] - (v @ p[:, t]) ** 2
            result[i, j] += c[t] * (own + p[i, t] * (1 - p[i, t]) * after[j] * (1 - after[j]))
    return result.ravel()


def test_curvature(problem):
    w = random_weights(problem)
    p, c = problem.marginals(w), problem.position_weights
    edges = edge_variances(problem, p, c)
    expected = np.concatenate([((p * (1 - p) * c) @ problem.x**2).ravel(), edges])
    coords = np.array([0, 1, 4, 7, 11, 12, 15, 19])
    point = point_at(objective_of(problem), w)
    np.testing.assert_allclose(curvature_at(point).diagonal(coords), expected[coords], rtol=1e-10, atol=1e-12)
    if isinstance(problem, TreeProblem):
        everything = np.arange(w.size)
        np.testing.assert_allclose(
            curvature_at(point).diagonal(everything), np.diag(problem.hessian(w)), atol=1e-11
        )


def test_majorant_curvature_is_the_curvature_on_the_way_to_a_fit(problem):
    w = random_weights(problem)
    residual = np.abs(problem.marginals(w) - problem_observed(problem)) * problem.position_weights
    edges = np.abs(problem.gradient(w)[problem.n_node_coords :])
    expected = np.concatenate([(residual @ problem.x**2).ravel(), edges])
    point, everything = point_at(objective_of(problem), w), np.arange(w.size)
    np.testing.assert_allclose(curvature_at(point).majorant(everything), expected, rtol=1e-10, atol=1e-12)
    nodes = np.arange(problem.n_node_coords)
    assert (
        curvature_at(point).majorant(nodes) >= curvature_at(point).diagonal(nodes) - 1e-12
    ).all()  # |r| >= |r| (1 - |r|)


def test_what_was_asked_before_does_not_matter(problem):
    """Curvature and roughness are kept for the subsets that a shrinking active set asks for."""
    w = random_weights(problem)
    objective, random = objective_of(problem), np.random.default_rng(2)
    curvature = curvature_at(point_at(objective, w))
    sets = [
        np.arange(0, 19, 3),
        np.arange(0, 19, 6),
        np.array([3]),
        np.array([4]),
        np.array([], int),
        np.arange(19),
    ]
    for coords in [*sets, *(np.sort(random.choice(19, 8, replace=False)) for _ in range(5)), *sets]:
        fresh = curvature_at(point_at(objective, w))
        np.testing.assert_array_equal(curvature.diagonal(coords), fresh.diagonal(coords))
        fresh = curvature_at(point_at(objective, w))
        np.testing.assert_array_equal(curvature.majorant(coords), fresh.majorant(coords))
        with contextlib.suppress(ValueError):  # what is handed out is not what is kept, or cannot be written
            curvature.diagonal(coords)[:] = -1.0


def problem_observed(problem):
    """The states that are true at each position, (K, N)."""
    if isinstance(problem, TreeProblem):
        return problem.forest.observed(problem.targets)
    return np.arange(problem.n_states)[:, None] == problem.targets


def test_units(problem):
    everything = np.arange(problem.n_coords)
    expected = np.concatenate(
        [
            np.tile((problem.x**2).max(axis=0), problem.n_states),
            np.ones(problem.n_coords - problem.n_node_coords),
        ]
    )
    np.testing.assert_allclose(objective_of(problem).feature_scale(everything), expected)


@pytest.mark.parametrize("kind", ["chain", "taxonomy"])
def test_bit_identical_for_any_number_of_threads(kind):
    def run(n_threads):
        point, _ = wide_problem(5 if kind == "chain" else 100, 400, 480, False, n_threads=n_threads)
        objective = point.objective
        coords = np.arange(0, objective.n_coords, 3)
        screening = point.screen(0.5)
        assert screening.coords.size
        trial = point.along(coords, np.linspace(-1, 1, coords.size)).at(0.3)
        states = np.arange(0, objective.whole.loss.structure.n_states, 2)
        return [
            np.array(point.value), point.gradient(coords), screening.coords, screening.gradient,
            curvature_at(point).diagonal(coords), curvature_at(point).majorant(coords),
            Marginals(point.whole).variance(states), trial.whole.scores, np.array(trial.value),
            np.array(point.dual_value(0.5)), objective.sample(3).at(coords, 1.0 * coords).whole.scores,
        ]  # fmt: skip

    first = [array.tobytes() for array in run(1)]
    for n_threads in (1, 2, 7):
        assert [array.tobytes() for array in run(n_threads)] == first


def test_no_array_of_features_by_states():
    """80 MB for the numbers of one such array; a pass, a screening and a model need a fraction."""
    n_features, n_states, n_positions = 200_000, 50, 300
    random = np.random.default_rng(9)
    columns = random.integers(0, n_features, 20 * n_positions)
    x = sp.csr_array(
        (np.ones(columns.size), columns, np.arange(n_positions + 1) * 20), (n_positions, n_features)
    )
    store = FeatureStore.from_matrix(x, np.arange(0, n_positions + 1, 10))
    targets = random.integers(0, n_states, n_positions).astype(np.int32)
    objective = make_likelihood(store, Chain(store.offsets, n_states), targets, n_threads=2)

    def screening_of_a_step():
        point = objective.at(np.array([5, 100_000]), np.ones(2))
        screening = point.screen(0.97)
        curvature_at(point).matrix(screening.coords[:200], n_positions, 6000)
        point.along(screening.coords, -screening.gradient).at(0.5).gradient(screening.coords)
        return screening

    screening_of_a_step()  # compiles, which takes memory too
    tracemalloc.start()
    try:
        screening = screening_of_a_step()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 100 < screening.coords.size < 20_000
    assert peak < n_features * n_states * 8 / 8


def test_merge_weights():
    coords, values = np.array([1, 4, 9]), np.array([1.0, -2.0, 3.0])
    merged = merge_weights(coords, values, np.array([0, 4, 9, 12]), np.array([0.5, 2.0, 1.0, -1.0]))
    np.testing.assert_array_equal(merged[0], [0, 1, 9, 12])
    np.testing.assert_array_equal(merged[1], [0.5, 1.0, 4.0, -1.0])
    np.testing.assert_array_equal(coords, [1, 4, 9])
    np.testing.assert_array_equal(values, [1.0, -2.0, 3.0])
    nothing = np.empty(0, np.int64), np.empty(0)
    np.testing.assert_array_equal(merge_weights(*nothing, coords, values)[1], values)
    np.testing.assert_array_equal(merge_weights(coords, values, *nothing)[0], coords)
    assert merge_weights(coords, values, coords, -values)[0].size == 0
    assert merge_weights(*nothing, np.array([3]), np.array([0.0]))[0].size == 0
    tiny = merge_weights(coords, values, np.array([1]), np.array([1e-300 - 1.0]))
    assert tiny[0].size == 2  # 1 + (1e-300 - 1) is exactly 0


def test_coordinate_parts():
    split = CoordinateParts.from_coords(np.array([0, 4, 5, 14, 15, 18, 23]), n_states=3, n_features=5)
    np.testing.assert_array_equal(split.states, [0, 0, 1, 2])
    np.testing.assert_array_equal(split.features, [0, 4, 0, 4])
    np.testing.assert_array_equal(split.edges, [0, 3, 8])
    assert split.n_nodes == 4
    only_edges = CoordinateParts.from_coords(np.array([0, 3]), n_states=2, n_features=0)
    np.testing.assert_array_equal(only_edges.edges, [0, 3])
