"""The full gradient scan by rows: the same evaluation, rows, violations and bounds as coordinate by coordinate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from margin_problems import (
    NAMES,
    PENALTIES,
    F,
    K,
    flat_objective,
    make_problem,
    objective_of,
    penalty_of,
    point_at,
    weights_like,
)
from margin_references import MarginProblem

from crfqn.objectives.losses.hinges import MulticlassSquaredHinge
from crfqn.penalties import GroupLasso
from crfqn.solvers.coordinate.row_state import RowBlocks
from crfqn.solvers.screened_point import screen_point


def rows_at(point):
    """The rows of a point, for row descent."""
    return point.objective.state(RowBlocks, point)


every_loss = pytest.mark.parametrize("name", NAMES)


@every_loss
def test_margins_tell_what_scores_do(name):
    problem = make_problem(name)
    point = point_at(problem, weights_like(problem), objective_of(problem))
    scored, expected = rows_at(point).scored_point(), point.whole.evaluation
    np.testing.assert_allclose(scored.whole.evaluation.residual, expected.residual, atol=1e-12)
    np.testing.assert_allclose(scored.whole.evaluation.item_losses, expected.item_losses, atol=1e-12)
    for scale in (0.3, 1.0):
        assert scored.dual_value(scale) == pytest.approx(point.dual_value(scale), rel=1e-11)


@every_loss
@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("n_free", [0, 2])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_rows_tell_what_coordinates_do(name, kind, n_free, scale):
    problem = make_problem(name)
    unpenalised = np.sort((np.arange(n_free)[:, None] * 3 + F * np.arange(K)).reshape(-1))
    penalty = replace(penalty_of(kind, scale), unpenalised=unpenalised)
    w = weights_like(problem)
    w[2:6] = 0.0
    agree(point_at(problem, w, objective_of(problem)), penalty)


@every_loss
@pytest.mark.parametrize("n_states", [8, 70])
@pytest.mark.parametrize("group_l1", [0.0, 2.0])
def test_any_number_of_states(name, n_states, group_l1):
    """Whole registers, and more states than a tile of other scans has; a group penalty of nothing has groups still."""
    problem = make_problem(name, n_items=60, n_states=n_states)
    penalty = GroupLasso(group_l1, 0.3, n_features=F, n_states=n_states)
    w = weights_like(problem, scale=0.1)
    w[2:4] = 0.0
    agree(point_at(problem, w, objective_of(problem)), penalty)


def agree(point, penalty):
    """Compare both scans of a point."""
    blocks, expected = rows_at(point), screen_point(penalty, point)
    blocks.sweep(np.empty(0, np.int64), penalty)
    view = screen_point(penalty, blocks.scored_point())
    np.testing.assert_array_equal(np.unique(view.coords % F), np.unique(expected.coords % F))
    state, expected_state = view.state(), expected.state()
    assert state.value == pytest.approx(blocks.value(penalty), rel=1e-12)
    assert state.value == pytest.approx(expected_state.value, rel=1e-12)
    assert state.violation == pytest.approx(expected_state.violation, rel=1e-9, abs=1e-9)
    assert view.dual_value == pytest.approx(expected.dual_value, rel=1e-9)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_many_shares_of_features(n_threads):
    """Of wide data: shares come back in their order, and most zeros stay out."""
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 3000)) * (random.random((3000,)) + 0.2)
    labels = random.integers(0, 3, 40)
    problem = MarginProblem("multiclass", x, np.eye(3, dtype=int)[labels], np.ones(40))
    store = point_at(problem, np.zeros((3000, 3))).objective.whole.map.store
    objective = flat_objective(store, MulticlassSquaredHinge(labels, 3), n_threads=n_threads)
    blocks = rows_at(objective.at(np.empty(0, np.int64), np.empty(0)))
    norms = np.linalg.norm(problem.evaluate(np.zeros((3000, 3)))[1], axis=1)
    bound = float(np.median(norms))
    penalty = replace(penalty_of("L1/L2"), group_l1=bound, n_features=3000, n_states=3)
    view = screen_point(penalty, blocks.scored_point())
    np.testing.assert_array_equal(np.unique(view.coords % 3000), np.flatnonzero(norms > bound))
    np.testing.assert_allclose(view.local.dual_norms(view.g), norms[norms > bound], rtol=1e-10)
    assert view.violation == pytest.approx(norms.max() - bound, rel=1e-10)
