"""The noise of gradients: against its formula, against drawn labels, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
from problems import make_problem

from crfqn.arrays import NO_COORDS
from crfqn.data.features import FeatureStore
from crfqn.objectives.gradient_noise import gradient_noise
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge
from crfqn.objectives.losses.likelihood import MultinomialLogistic
from crfqn.objectives.objective import build_objective, in_blocks
from crfqn.structures.taxonomy import flat

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 4)) * [1.0, 0.1, 3.0, 1.0] * (RANDOM.random((60, 4)) < 0.5)
LABELS = RANDOM.integers(0, 3, 60).astype(np.int32)


def objective(x=X, labels=LABELS, weights=None, n_states=3):
    store = FeatureStore.from_matrix(np.ascontiguousarray(x), np.arange(len(x) + 1), allow_empty=True)
    structure = flat(n_states, len(x))
    return build_objective(SparseMap(store), MultinomialLogistic(structure, labels), weights)


def noise(*args, unpenalised=NO_COORDS, **settings):
    return gradient_noise(objective(*args, **settings), unpenalised)


def formula(x=X, labels=LABELS):
    shares = np.bincount(labels) / labels.size
    return np.sqrt((1.0 - np.sum(shares**2)) / 3) * np.sqrt((x**2).sum(axis=0)).mean()


def test_of_a_likelihood():
    assert noise() == pytest.approx(formula(), rel=1e-6)


def test_it_is_the_deviation_of_gradients_for_labels_that_mean_nothing():
    shares = np.bincount(LABELS) / LABELS.size
    lengths = []
    for _ in range(1000):
        drawn = np.eye(3)[RANDOM.choice(3, 60, p=shares)]
        lengths.append(np.square((shares - drawn).T @ X).mean(axis=0))
    assert noise() == pytest.approx(np.sqrt(np.mean(lengths, axis=0)).mean(), rel=0.03)


def test_of_a_squared_hinge():
    """Its residual at zero is 2 of another class, -2 (K - 1) of the item's own."""
    store = FeatureStore.from_matrix(X, np.arange(61), allow_empty=True)
    hinge = build_objective(SparseMap(store), MulticlassSquaredHinge(LABELS, 3))
    assert gradient_noise(hinge, NO_COORDS) == pytest.approx(2 * 3 * formula(), rel=1e-6)


def test_it_has_the_unit_of_the_features():
    assert noise(10.0 * X) == pytest.approx(10.0 * noise(), rel=1e-6)


def test_a_weight_is_a_number_of_repetitions():
    counts = RANDOM.integers(1, 4, 60)
    repeated = noise(np.repeat(X, counts, axis=0), np.repeat(LABELS, counts))
    assert noise(weights=counts.astype(np.float64)) == pytest.approx(repeated, rel=1e-6)


def test_features_that_never_occur_do_not_count():
    assert noise(np.column_stack([X, np.zeros(60)])) == pytest.approx(noise(), rel=1e-12)


def test_features_without_penalty_do_not_count():
    constant = np.column_stack([X, np.ones(60)])
    found = noise(constant, unpenalised=np.arange(1, 4) * 5 - 1)
    assert found == pytest.approx(formula(X - X.mean(axis=0)), rel=1e-6) != noise(constant)
    assert noise(constant + 5.0, unpenalised=np.arange(1, 4) * 5 - 1) == pytest.approx(found, rel=1e-9)


def test_it_is_zero_where_labels_do_not_vary_and_where_there_is_no_feature():
    assert noise(labels=np.zeros(60, np.int32)) == pytest.approx(0.0, abs=1e-7)
    assert noise(np.zeros((60, 2))) == 0.0


def test_of_dense_rows():
    dense = build_objective(DenseMap.from_matrix(X, np.arange(61)), MultinomialLogistic(flat(3, 60), LABELS))
    assert gradient_noise(dense, NO_COORDS) == pytest.approx(noise(), rel=1e-6)


def test_of_chains_whole_and_in_blocks():
    """Edges change nothing at zero weights: every position counts alike."""
    problem = make_problem(3, n_items=12)
    whole = problem.objective()
    shares = np.bincount(problem.targets, minlength=problem.n_states) / problem.targets.size
    lengths = np.sqrt((problem.matrix**2).sum(axis=0))
    expected = np.sqrt((1.0 - np.sum(shares**2)) / problem.n_states) * lengths[lengths > 0].mean()
    assert gradient_noise(whole, NO_COORDS) == pytest.approx(expected, rel=1e-6)
    blocks = in_blocks(whole.whole, 7)
    assert len(blocks.parts) > 2
    assert gradient_noise(blocks, NO_COORDS) == pytest.approx(expected, rel=1e-6)
