"""Images and sums of whole rows against products of dense matrices."""

import numpy as np
import pytest
from crfqn.objectives.by_feature import MOST_STATES, Rows
from crfqn.objectives.flat import FlatObjective
from problems import curvature_at

from crfqn.features import FeatureStore
from crfqn.objectives import by_feature
from crfqn.objectives.coordinates import split_coords
from crfqn.objectives.losses import MulticlassSquaredHinge, MultitaskSquaredHinge
from crfqn.threads import Pool

N, F = 700, 40


def problem(n_states, is_binary=False, density=0.6, share=0.8):
    """Features (N, F), their store, and the coordinates of `share` of all weights."""
    random = np.random.default_rng(n_states)
    x = random.normal(size=(N, F)) * (random.random((N, F)) < density)
    x = (x != 0).astype(float) if is_binary else x
    store = FeatureStore.from_matrix(x.astype(bool) if is_binary else x, np.arange(N + 1))
    coords = np.flatnonzero(random.random(n_states * F) < share)
    return x, store, split_coords(coords, n_states, F), random


@pytest.mark.parametrize("n_states", [2, 8, 13, 40])
@pytest.mark.parametrize("is_binary", [False, True])
def test_against_dense_products(n_states, is_binary):
    x, store, split, random = problem(n_states, is_binary)
    rows = Rows.of(store, split, n_states)
    if n_states == 2:  # a register of eight for two numbers
        assert rows is None
        return
    w = np.zeros((n_states, F))
    w[split.states, split.features] = weights = random.normal(size=split.n_nodes)
    by_state = random.normal(size=(n_states, N))
    found = []
    for n_threads in (1, 2):
        with Pool(n_threads) as pool:
            scores = np.ones((n_states, N))
            rows.add_image(weights, scores, pool)
            sums, squares = rows.sums(by_state, pool), rows.sums(by_state, pool, of_squares=True)
        np.testing.assert_allclose(scores, 1.0 + w @ x.T, atol=1e-12)
        np.testing.assert_allclose(sums, (by_state @ x)[split.states, split.features], atol=1e-10)
        np.testing.assert_allclose(squares, (by_state @ x**2)[split.states, split.features], atol=1e-10)
        found.append((scores.tobytes(), sums.tobytes(), squares.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("n_states", "change"),
    [(16, {"share": 0.2}), (16, {"density": 0.05}), (MOST_STATES + 1, {}), (1, {"share": 1.0})],
)
def test_where_it_does_not_pay(n_states, change):
    _, store, split, _ = problem(n_states, **change)
    assert Rows.of(store, split, n_states) is None


def test_nothing_asked_for():
    _, store, _, _ = problem(16)
    assert Rows.of(store, split_coords(np.empty(0, np.int64), 16, F), 16) is None


@pytest.mark.parametrize("loss", [MulticlassSquaredHinge, MultitaskSquaredHinge])
@pytest.mark.parametrize("is_binary", [False, True])
def test_curvatures_do_not_depend_on_the_way(loss, is_binary, monkeypatch):
    _, store, split, random = problem(13, is_binary)
    labels = random.integers(0, 13, N).astype(np.int32)
    objective = FlatObjective(store, loss(labels, 13), random.integers(0, 3, N).astype(float), n_threads=2)
    coords = split.states * F + split.features
    weights, found = 0.1 * random.normal(size=coords.size), []
    for fewest in (by_feature.FEWEST_ENTRIES, np.inf):
        monkeypatch.setattr(by_feature, "FEWEST_ENTRIES", fewest)
        assert (Rows.of(store, split, 13) is None) == (fewest == np.inf)
        point = objective.at(coords, weights)
        found.append(np.array([curvature_at(point).diagonal(coords), curvature_at(point).majorant(coords)]))
    assert found[0].all()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-11)
