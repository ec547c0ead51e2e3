"""Images and sums of whole rows against products of dense matrices."""

import numpy as np
import pytest
from margin_problems import flat_objective
from problems import curvature_at

from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.linear.sparse_map import MAX_ROW_STATES, SparseMap, add_row_image, fills_rows
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.threads import Pool

N, F = 700, 40


def problem(n_states, is_binary=False, density=0.6, share=0.8):
    """Features (N, F), their store, and the coordinates of `share` of all weights."""
    random = np.random.default_rng(n_states)
    x = random.normal(size=(N, F)) * (random.random((N, F)) < density)
    x = (x != 0).astype(float) if is_binary else x
    store = FeatureStore.from_matrix(x.astype(bool) if is_binary else x, np.arange(N + 1))
    coords = np.flatnonzero(random.random(n_states * F) < share)
    return x, store, CoordinateParts.from_coords(coords, n_states, F), random


@pytest.mark.parametrize("n_states", [2, 8, 13, 40])
@pytest.mark.parametrize(("is_binary", "share"), [(False, 0.8), (True, 0.8), (False, 1.0)])
def test_against_dense_products(n_states, is_binary, share):
    x, store, split, random = problem(n_states, is_binary, share=share)
    assert fills_rows(store, split, n_states) == (n_states > 2)  # a register of eight for two numbers
    w = np.zeros((n_states, F))
    w[split.states, split.features] = weights = random.normal(size=split.n_nodes)
    by_state = random.normal(size=(n_states, N))
    found = []
    for n_threads in (1, 2):
        with Pool(n_threads) as pool:
            scores = np.ones((n_states, N))
            add_row_image(store, split, weights, scores, pool)
            features = SparseMap(store, pool)
            sums, squares = (features.node_sums(split, by_state, power) for power in (1, 2))
        np.testing.assert_allclose(scores, 1.0 + w @ x.T, atol=1e-12)
        np.testing.assert_allclose(sums, (by_state @ x)[split.states, split.features], atol=1e-10)
        np.testing.assert_allclose(squares, (by_state @ x**2)[split.states, split.features], atol=1e-10)
        found.append((scores.tobytes(), sums.tobytes(), squares.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("n_states", "change"),
    [(16, {"share": 0.2}), (16, {"density": 0.05}), (MAX_ROW_STATES + 1, {}), (1, {"share": 1.0})],
)
def test_where_it_does_not_pay(n_states, change):
    _, store, split, _ = problem(n_states, **change)
    assert not fills_rows(store, split, n_states)


def test_nothing_asked_for():
    _, store, _, _ = problem(16)
    assert not fills_rows(store, CoordinateParts.from_coords(np.empty(0, np.int64), 16, F), 16)


def by_state(split, n_states):
    """The same coordinates, those of one state at a time: too few for rows, so each is read as a column."""
    for state in range(n_states):
        own = split.states == state
        yield own, CoordinateParts(split.states[own], split.features[own], split.edges)


@pytest.mark.parametrize("is_binary", [False, True])
def test_rows_and_columns_are_two_ways_to_the_same(is_binary):
    _, store, split, random = problem(13, is_binary)
    assert fills_rows(store, split, 13)
    assert not any(fills_rows(store, part, 13) for _, part in by_state(split, 13))
    weights, table = random.normal(size=split.n_nodes), random.normal(size=(13, N))
    with Pool(2) as pool:
        linear = SparseMap(store, pool)
        scores = np.zeros((2, 13, N))
        linear.image(split, weights, scores[0])
        sums, squares = linear.adjoint(split, table), linear.squares(split, table)
        for own, part in by_state(split, 13):
            linear.image(part, weights[own], scores[1])
            np.testing.assert_allclose(sums[own], linear.adjoint(part, table), rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(squares[own], linear.squares(part, table), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-11, atol=1e-13)
    assert np.abs(scores).max() > 1


@pytest.mark.parametrize("loss", [MulticlassSquaredHinge, MultitaskSquaredHinge])
@pytest.mark.parametrize("is_binary", [False, True])
def test_curvatures_do_not_depend_on_the_way(loss, is_binary):
    _, store, split, random = problem(13, is_binary)
    labels = random.integers(0, 13, N).astype(np.int32)
    objective = flat_objective(store, loss(labels, 13), random.integers(0, 3, N).astype(float), n_threads=2)
    coords = split.states * F + split.features
    point = objective.at(coords, 0.1 * random.normal(size=coords.size))
    ways = [np.ones(coords.size, bool)], [own for own, _ in by_state(split, 13)]
    for question in ("diagonal", "majorant"):
        rows, columns = (
            np.concatenate([getattr(curvature_at(point), question)(coords[own]) for own in way])
            for way in ways
        )
        assert rows.all()
        np.testing.assert_allclose(rows, columns, rtol=1e-11)
