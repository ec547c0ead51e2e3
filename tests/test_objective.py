"""The loss, its gradient, screening, rays and curvature models against enumeration and finite differences."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from references import DenseProblem, finite_differences, random_problem

from crfqn.errors import InputError
from crfqn.features import FeatureStore
from crfqn.objectives.coordinates import merge_weights, split_coords
from crfqn.objectives.crf import CRFObjective
from crfqn.objectives.token_model import sample_positions
from crfqn.structures.chain import Chain

WEIGHTS = (1.0, 0.0, 2.5, 0.3, 1.0, 4.0)


def objective_of(problem: DenseProblem, n_threads=1) -> CRFObjective:
    store = FeatureStore.from_matrix(problem.x, problem.offsets)
    chain = Chain(store.offsets, problem.n_states)
    return CRFObjective(store, chain, problem.targets, problem.item_weights, n_threads)


def point_at(objective, w):
    """The point at a dense w, given by its non-zeros."""
    coords = np.flatnonzero(w)
    return objective.at(coords, w[coords])


def random_weights(problem, seed=0, scale=1.0, density=0.7):
    random = np.random.default_rng(seed)
    return scale * random.normal(size=problem.n_coords) * (random.random(problem.n_coords) < density)


@pytest.fixture(params=["binary", "real"])
def is_binary(request):
    return request.param == "binary"


@pytest.fixture(params=[None, WEIGHTS], ids=["unweighted", "weighted"])
def problem(request, is_binary):
    return random_problem(0, is_binary=is_binary, item_weights=request.param)


def test_value_and_gradient_against_enumeration(problem):
    objective = objective_of(problem)
    assert objective.n_coords == problem.n_coords == 3 * 4 + 9
    assert objective.store.is_binary == bool(np.isin(problem.x, (0, 1)).all())
    everything = np.arange(problem.n_coords)
    for seed in range(5):
        w = random_weights(problem, seed, scale=(0.0, 0.1, 1.0, 1.0, 10.0)[seed])
        point = point_at(objective, w)
        assert point.value == pytest.approx(problem.loss(w), rel=1e-12)
        np.testing.assert_allclose(point.item_losses, -problem.log_likelihoods(w), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(point.gradient(everything), problem.gradient(w), atol=1e-11)
        np.testing.assert_allclose(
            point.marginals(), problem.marginals(w) * (problem.position_weights > 0), atol=1e-12
        )


def test_gradient_against_finite_differences(problem):
    objective = objective_of(problem)
    w = random_weights(problem)
    found = point_at(objective, w).gradient(np.arange(w.size))
    differences = finite_differences(lambda v: point_at(objective, v).value, w)
    np.testing.assert_allclose(found, differences, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(differences, finite_differences(problem.loss, w), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("coords", [[], [0], [11], [12], [20], [3, 7, 11], [12, 16], [0, 5, 11, 12, 20]])
def test_gradient_of_some_coordinates(problem, coords):
    w = random_weights(problem)
    coords = np.array(coords, np.int64)
    found = point_at(objective_of(problem), w).gradient(coords)
    np.testing.assert_allclose(found, problem.gradient(w)[coords], atol=1e-12)


def test_a_point_costs_one_pass():
    problem = random_problem(1)
    objective = objective_of(problem)
    point = point_at(objective, random_weights(problem))
    assert objective.n_passes == 0
    for _ in range(2):
        point.value, point.gradient(np.arange(5)), point.screen(0.1), point.dual_value(0.5)
        point.curvature(np.arange(5)), point.token_model(np.arange(5), 7)
    assert objective.n_passes == 1


def test_targets_must_fit():
    problem = random_problem(2)
    store = FeatureStore.from_matrix(problem.x, problem.offsets)
    with pytest.raises(InputError, match=r"expected 14 targets, one a position, got shape \(13,\)"):
        CRFObjective(store, Chain(store.offsets, 3), problem.targets[1:])


def wide_problem(n_states, n_features, n_positions, is_binary, seed=3):
    """Too large for the enumeration: a point, its full gradient from the point's residual, and x."""
    random = np.random.default_rng(seed)
    x = sp.random_array(
        (n_positions, n_features), density=0.01 if n_features > 1 else 0.5, rng=random, format="csr"
    )
    x.data = np.ones(x.nnz) if is_binary else random.normal(size=x.nnz)
    lengths = np.full(n_positions // 5, 5)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    store = FeatureStore.from_matrix(x, offsets)
    targets = random.integers(0, n_states, n_positions).astype(np.int32)
    objective = CRFObjective(store, Chain(store.offsets, n_states), targets, n_threads=2)
    coords = np.sort(random.choice(objective.n_coords, min(40, objective.n_coords), replace=False))
    point = objective.at(coords, random.normal(size=coords.size))
    gradient = np.concatenate([(x.T @ point.inference.residual.T).T.ravel(), point.inference.edge_residual])
    return point, gradient, x.toarray()


# A block holds 2048 numbers: 256 features up to 8 states, 128 up to 16, 64 up to 32; slabs of 2048 positions.
@pytest.mark.parametrize(
    ("n_states", "n_features", "n_positions"),
    [(3, 1, 50), (3, 255, 500), (3, 256, 500), (3, 257, 500), (8, 700, 500), (9, 300, 500), (30, 150, 4500)],
)
def test_screening_finds_what_stands_out(is_binary, n_states, n_features, n_positions):
    point, gradient, _ = wide_problem(n_states, n_features, n_positions, is_binary)
    size = np.abs(gradient)
    steps = np.sort(np.unique(size))
    thresholds = [
        0.0,
        *(0.5 * (steps[i - 1] + steps[i]) for i in (steps.size // 2, steps.size * 9 // 10, -1)),
    ]
    for threshold in thresholds:
        found = point.screen(threshold)
        assert found.largest == pytest.approx(size.max(), rel=1e-12)
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
    assert point.screen(found.largest).coords.size == 0


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
    before = start.scores.copy(), start.edges.copy()
    found = start.along(coords, direction[coords]).at(step)
    expected = point_at(objective, w + step * direction)
    assert found.value == pytest.approx(problem.loss(w + step * direction), rel=1e-12)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-13)
    np.testing.assert_allclose(found.edges, expected.edges, atol=1e-13)
    np.testing.assert_array_equal(found.coords, expected.coords)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-14)
    np.testing.assert_array_equal(start.scores, before[0])
    np.testing.assert_array_equal(start.edges, before[1])
    some = np.sort(random.choice(problem.n_coords, 7, replace=False))
    np.testing.assert_allclose(found.gradient(some), expected.gradient(some), atol=1e-11)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_a_sample_is_the_loss_over_its_items(problem, stride):
    w = random_weights(problem)
    found = point_at(objective_of(problem).sample(stride), w)
    items = np.arange(stride // 2, 6, stride)
    positions = np.concatenate([np.arange(*problem.offsets[i : i + 2]) for i in items])
    lengths = np.diff(problem.offsets)[items]
    part = DenseProblem(
        problem.x[positions],
        np.concatenate([[0], np.cumsum(lengths)]),
        problem.targets[positions],
        problem.item_weights[items],
        problem.n_states,
    )
    assert found.value == pytest.approx(part.loss(w), rel=1e-12)
    np.testing.assert_allclose(found.gradient(np.arange(w.size)), part.gradient(w), atol=1e-12)


def test_curvature(problem):
    w = random_weights(problem)
    p, c = problem.marginals(w), problem.position_weights
    expected = np.concatenate([((p * (1 - p) * c) @ problem.x**2).ravel(), problem.expected_edges(w)])
    coords = np.array([0, 1, 4, 7, 11, 12, 15, 20])
    found = point_at(objective_of(problem), w).curvature(coords)
    np.testing.assert_allclose(found, expected[coords], rtol=1e-10, atol=1e-12)


EVERY = 10**15  # so many positions asked for that each is taken


def dense_token_model(problem, w, c):
    """With the diagonal of the edges below and right of it."""
    model = np.diag(np.concatenate([np.zeros(problem.n_node_coords), problem.expected_edges(w)]))
    model[: problem.n_node_coords, : problem.n_node_coords] = problem.token_model(w, c)
    return model


def scaled_to_diagonal(model, diagonal):
    seen = np.diag(model)
    scale = np.sqrt(np.divide(diagonal, seen, out=np.zeros_like(seen), where=seen > 0))
    scaled = model * scale * scale[:, None]
    np.fill_diagonal(scaled, diagonal)
    return scaled


def test_token_model_of_all_positions(problem):
    w = random_weights(problem)
    expected = dense_token_model(problem, w, problem.position_weights)
    for coords in (
        np.arange(problem.n_coords),
        np.array([1, 3, 4, 11]),
        np.array([0, 13, 14]),
        np.array([5]),
    ):
        found = point_at(objective_of(problem), w).token_model(coords, EVERY)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected[np.ix_(coords, coords)], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("n_sampled", [1, 3, 6, 10])
def test_token_model_of_a_sample_keeps_the_diagonal(problem, n_sampled):
    w = random_weights(problem)
    sampled, stands_for = sample_positions(problem.marginals(w), problem.position_weights, n_sampled)
    assert 0 < sampled.size < problem.targets.size
    c = np.zeros(problem.targets.size)
    c[sampled] = stands_for
    diagonal = np.diag(dense_token_model(problem, w, problem.position_weights))
    expected = scaled_to_diagonal(dense_token_model(problem, w, c), diagonal)
    found = point_at(objective_of(problem), w).token_model(np.arange(w.size), n_sampled)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * diagonal.max())
    assert np.linalg.eigvalsh(found.astype(float)).min() > -1e-5 * diagonal.max()


@pytest.mark.parametrize("n_sampled", [1, 10, 100, 300])
def test_undecided_positions_are_drawn_more_often_and_count_less(n_sampled):
    random = np.random.default_rng(10)
    p = random.dirichlet(np.full(4, 0.3), 1000).T
    weights = random.choice([0.5, 1.0, 3.0], 1000)
    undecided = weights * (1 - (p**2).sum(axis=0))
    sampled, stands_for = sample_positions(p, weights, n_sampled)
    assert np.all(np.diff(sampled) > 0)
    assert 0.6 * n_sampled <= sampled.size <= n_sampled + 1
    share = weights[sampled] / stands_for  # the probability of being drawn
    assert 0 < share.min() <= share.max() <= 1
    for weight in np.unique(weights):
        same = weights[sampled] == weight
        by_doubt = np.argsort(undecided[sampled][same])
        assert np.all(np.diff(share[same][by_doubt]) >= -1e-12)
    if n_sampled >= 100:
        assert undecided[sampled].mean() > 1.1 * undecided.mean()
        estimate = stands_for @ (undecided / weights)[sampled]
        assert estimate == pytest.approx(undecided.sum(), rel=0.1)


def test_nothing_is_drawn_where_all_is_decided():
    sampled, stands_for = sample_positions(np.eye(3), np.ones(3), 10)
    assert sampled.size == stands_for.size == 0
    problem = random_problem(11, item_weights=(0.0,) * 6)
    point = point_at(objective_of(problem), random_weights(problem))
    np.testing.assert_array_equal(point.token_model(np.arange(15), 10), 0.0)


@pytest.mark.parametrize("n_sampled", [EVERY, 100])
def test_token_model_of_many_coordinates(n_sampled):
    """More than one tile of 256 rows, all states in each."""
    point, _, x = wide_problem(5, 150, 600, is_binary=False)
    coords = np.sort(np.random.default_rng(6).choice(750 + 25, 600, replace=False))
    nodes = coords[coords < 750]
    states, features = np.divmod(nodes, 150)
    assert nodes.size > 2 * 256
    t, c = sample_positions(point.marginals(), np.ones(600), n_sampled)
    assert t.size == 600 or n_sampled == 100
    p, rows = point.marginals()[states][:, t], x[t][:, features].T
    model = ((rows * p * c) @ rows.T) * (states[:, None] == states) - (rows * p * c) @ (rows * p).T
    diagonal = point.curvature(coords)
    expected = scaled_to_diagonal(model, diagonal[: nodes.size])
    found = point.token_model(coords, n_sampled)
    np.testing.assert_allclose(found[: nodes.size, : nodes.size], expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(np.diag(found), diagonal, rtol=1e-6)
    np.testing.assert_allclose(found, found.T, rtol=1e-5, atol=1e-6)
    assert not (found - np.diag(np.diag(found)))[nodes.size :].any()
    assert np.linalg.eigvalsh(found.astype(float)).min() > -1e-4


@pytest.mark.parametrize("item_weights", [None, (1.0, 0.0, 2.5, 0.3, 1.0, 4.0, 1.0)])
def test_token_model_of_single_positions_is_the_hessian(item_weights):
    """For items of length 1 there is no covariance between positions to ignore."""
    problem = random_problem(7, lengths=(1,) * 7, item_weights=item_weights)
    w = random_weights(problem)
    hessian = finite_differences(problem.gradient, w)
    found = point_at(objective_of(problem), w).token_model(np.arange(w.size), EVERY)
    np.testing.assert_allclose(found, hessian, rtol=1e-5, atol=2e-6)


def test_token_model_is_not_the_hessian_of_longer_items():
    """The test above can tell the difference."""
    problem = random_problem(7)
    w = random_weights(problem)
    hessian = finite_differences(problem.gradient, w)
    found = point_at(objective_of(problem), w).token_model(np.arange(w.size), EVERY)
    assert np.abs(found - hessian).max() > 0.01


def test_bit_identical_for_any_number_of_threads():
    problem = random_problem(8, n_states=5, n_features=400, lengths=(4, 1, 9, 2) * 30)

    def run(n_threads):
        objective = objective_of(problem, n_threads)
        point = point_at(objective, random_weights(problem, density=0.3))
        coords = np.arange(0, problem.n_coords, 3)
        screening = point.screen(1.0)
        trial = point.along(coords, np.linspace(-1, 1, coords.size)).at(0.3)
        return [
            np.array(point.value), point.gradient(coords), screening.coords, screening.gradient,
            point.curvature(coords), point.token_model(coords, 200), trial.scores, np.array(trial.value),
            np.array(point.dual_value(0.5)),
        ]  # fmt: skip

    first = [array.tobytes() for array in run(1)]
    for n_threads in (1, 2, 3):
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
    objective = CRFObjective(store, Chain(store.offsets, n_states), targets, n_threads=2)
    tracemalloc.start()
    try:
        point = objective.at(np.array([5, 100_000]), np.ones(2))
        screening = point.screen(0.97)
        point.token_model(screening.coords[:200], n_positions)
        point.along(screening.coords, -screening.gradient).at(0.5).gradient(screening.coords)
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


def test_split_coords():
    split = split_coords(np.array([0, 4, 5, 14, 15, 18, 23]), n_states=3, n_features=5)
    np.testing.assert_array_equal(split.states, [0, 0, 1, 2])
    np.testing.assert_array_equal(split.features, [0, 4, 0, 4])
    np.testing.assert_array_equal(split.edges, [0, 3, 8])
    assert split.n_nodes == 4
    only_edges = split_coords(np.array([0, 3]), n_states=2, n_features=0)
    np.testing.assert_array_equal(only_edges.edges, [0, 3])
