"""Regularisation paths: every value against an independent optimum, and where they begin and end."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from path_problems import EXACT, PROBLEM, X, Y, quiet, tree_case
from problems import dense_weights, make_problem
from sklearn.exceptions import ConvergenceWarning

import crfqn
from crfqn import ChainCRF, MulticlassCRF, TaxonomyCRF, crf_path
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.objective import in_blocks
from crfqn.regularization_path import Grid
from crfqn.regularization_path.path import prepare_path, solve_path
from crfqn.solvers.unpenalised import largest_strength


class TestValues:
    @pytest.mark.parametrize("l2", [0.0, 0.3])
    def test_of_a_chain(self, l2):
        path = quiet(ChainCRF(l2=l2, **EXACT), X, Y, grid=Grid(7, ratio=0.05, inner_tol=1e-9))
        assert path.l1[0] == path.l1_max == pytest.approx(PROBLEM.l1_max, rel=1e-12)
        np.testing.assert_allclose(path.l1, PROBLEM.l1_max * np.geomspace(1, 0.05, 7))
        for model, value in zip(path.models, path.value, strict=True):
            best, w = PROBLEM.optimum(model.l1, l2)
            assert value == pytest.approx(best, rel=1e-7)
            found = dense_weights(PROBLEM, model.result_.coords, model.result_.weights)
            assert PROBLEM.value(found, model.l1, l2) == pytest.approx(value, rel=1e-12)
            np.testing.assert_allclose(found, w, atol=2e-3)
        assert path.n_nonzero[0] == 0 < path.n_nonzero[1]

    @pytest.mark.parametrize("shape", ["forest", "flat"])
    def test_of_single_items(self, shape):
        problem, tree, labels = tree_case(shape)
        model = (
            TaxonomyCRF(taxonomy=tree, **EXACT)
            if shape == "forest"
            else MulticlassCRF(fit_intercept=False, **EXACT)
        )
        path = quiet(model, problem.x, labels, grid=Grid(5, ratio=0.1, inner_tol=1e-9))
        assert path.l1_max == pytest.approx(problem.l1_max, rel=1e-12)
        for l1, value in zip(path.l1, path.value, strict=True):
            assert value == pytest.approx(problem.optimum(l1, 0.0)[0], rel=1e-7)

    def test_in_blocks(self):
        """Data whose scores do not fit into memory: the same numbers."""
        whole = quiet(ChainCRF(**EXACT), X, Y, grid=Grid(4, ratio=0.2, inner_tol=1e-9))
        with prepare_path(ChainCRF(**EXACT), X, Y) as prepared:
            objective = in_blocks(prepared.problem.objective.whole, 20)
            assert len(objective.parts) > 1
            point = objective.at(*prepared.point.sparse_weights)
            l1_max = largest_strength("l1", objective, prepared.problem.penalty, point)
            problem = replace(prepared.problem, objective=objective)
            blocks = replace(prepared, problem=problem, point=point, l1_max=l1_max)
            values = [step.model.result_.value for step in solve_path(blocks, whole.l1, Grid(inner_tol=1e-9))]
        np.testing.assert_allclose(values, whole.value, rtol=1e-8)
        assert l1_max == pytest.approx(whole.l1_max, rel=1e-12)

    def test_models_are_those_of_independent_fits(self):
        path = quiet(ChainCRF(**EXACT), X, Y, grid=Grid(l1=[0.5, 2.0, 1.0], inner_tol=1e-9))
        assert path.l1.tolist() == [2.0, 1.0, 0.5]
        for model in path.models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                alone = ChainCRF(l1=model.l1, **EXACT).fit(X, Y)
            np.testing.assert_allclose(model.coef_.toarray(), alone.coef_.toarray(), atol=1e-4)
            np.testing.assert_allclose(
                model.transition_coef_.toarray(), alone.transition_coef_.toarray(), atol=1e-4
            )
            assert model.get_params() == alone.get_params()

    def test_a_model_can_be_saved(self, tmp_path):
        path = crf_path(ChainCRF(), X, Y, grid=Grid(3))
        path.models[2].save(tmp_path / "m")
        loaded = crfqn.load(tmp_path / "m")
        assert loaded.l1 == path.l1[2]
        assert loaded.result_.n_proved_zeros == path.models[2].result_.n_proved_zeros

    def test_tolerances(self):
        path = crf_path(ChainCRF(tol=1e-4), X, Y, grid=Grid(6, inner_tol=0.1))
        assert path.gap[-1] <= 1e-4
        assert (path.gap <= 0.1).all()

    def test_the_data_is_stored_once(self, monkeypatch):
        calls, build = [], FeatureStore.from_matrix
        monkeypatch.setattr(
            FeatureStore, "from_matrix", lambda *args, **options: calls.append(1) or build(*args, **options)
        )
        crf_path(ChainCRF(), X, Y, grid=Grid(6))
        assert len(calls) == 1

    def test_passes(self):
        problem = make_problem(3, n_items=300, n_features=40, n_states=5)
        path = crf_path(ChainCRF(), problem.sequences, problem.labels, grid=Grid(20, ratio=0.02))
        alone = ChainCRF(l1=path.l1[-1]).fit(problem.sequences, problem.labels)
        assert path.passes.sum() < 5 * alone.result_.passes
        assert path.passes.sum() < 250

    def test_the_estimator_is_left_alone(self):
        model = ChainCRF(l1=7.0, tol=1e-2)
        crf_path(model, X, Y, grid=Grid(2))
        assert model.l1 == 7.0
        assert not hasattr(model, "coef_")


class TestAutomatic:
    def test_the_default_grid_ends_below_it(self):
        path = crf_path(ChainCRF(), X, Y, grid=Grid(4))
        automatic = ChainCRF(l2=0.0).fit(X, Y).l1_  # on a path the penalty is the strength that varies
        assert path.l1[-1] == pytest.approx(min(0.1 * automatic, 0.01 * path.l1_max), rel=1e-9)

    def test_rare_features_of_texts_come_in(self):
        """A constant feature makes l1_max large; the gradients of words that occur once are below its hundredth."""
        items = [[["constant", f"word{i}"]] for i in range(200)]
        labels = [["y" if i % 10 == 0 else "n"] for i in range(200)]
        path = crf_path(ChainCRF(), items, labels, grid=Grid(5))
        assert path.models[-1].score(items, labels) == 1.0
        at_a_hundredth = crf_path(ChainCRF(), items, labels, grid=Grid(5, ratio=0.01))
        assert at_a_hundredth.models[-1].score(items, labels) == 0.9

    def test_it_stands_for_strengths_beside_the_one_that_varies(self):
        problem, _, labels = tree_case("flat")
        model = MulticlassCRF(penalty="sparse-group", tol=1e-6)
        path = crf_path(model, problem.x, labels, grid=Grid(2, ratio=0.3))
        expected = MulticlassCRF(penalty="sparse-group", group_l1=path.group_l1[-1], tol=1e-6).fit(
            problem.x, labels
        )
        assert path.models[-1].l1_ == expected.l1_ > 0
        np.testing.assert_allclose(path.models[-1].coef_.toarray(), expected.coef_.toarray(), atol=1e-4)

    def test_values_of_models_are_numbers(self):
        path = crf_path(ChainCRF(l1="auto"), X, Y, grid=Grid(2))
        assert [model.l1_ for model in path.models] == path.l1.tolist() == [model.l1 for model in path.models]


class TestLargestValue:
    @pytest.mark.parametrize("seed", range(4))
    def test_it_is_the_smallest_that_leaves_nothing(self, seed):
        problem = make_problem(seed, is_binary=seed % 2 == 0)
        model = ChainCRF(tol=1e-11)
        path = crf_path(model, problem.items, problem.labels, grid=Grid(1))
        assert path.n_nonzero.tolist() == [0]
        assert path.gap[0] <= 1e-12
        below = quiet(model, problem.items, problem.labels, grid=Grid(l1=[(1 - 1e-3) * path.l1_max]))
        assert below.n_nonzero[0] > 0

    def test_intercepts_come_first(self):
        """Those of the label's shares; then the largest gradient of the others."""
        problem, _, labels = tree_case("flat")
        path = crf_path(MulticlassCRF(tol=1e-6), problem.x, labels, grid=Grid(2, ratio=0.99))
        onehot = np.array(labels)[:, None] == np.unique(labels)
        gradient = (onehot.mean(axis=0) - onehot).T @ problem.x
        assert path.l1_max == pytest.approx(np.abs(gradient).max(), rel=1e-8)
        first, second = path.models
        assert first.coef_.nnz == 0 < second.coef_.nnz
        expected = np.log(onehot.mean(axis=0))
        np.testing.assert_allclose(first.intercept_, expected - expected.mean(), atol=1e-7)
        assert (path.gap <= 1e-6).all()

    def test_intercepts_of_equal_shares_are_zero(self):
        x = np.random.default_rng(0).normal(size=(30, 5))
        labels = np.arange(30) % 3
        x[:, 0] += labels
        path = quiet(MulticlassCRF(tol=1e-6), x, labels, grid=Grid(5, inner_tol=1e-6))
        alone = MulticlassCRF(l1=path.l1[-1], tol=1e-6).fit(x, labels)
        assert (path.violation <= 1e-5).all()
        assert path.value[-1] == pytest.approx(alone.result_.value, rel=1e-8)

    def test_nothing_to_learn(self):
        with pytest.raises(InputError, match="no weight would change"):
            crf_path(ChainCRF(), X[:3], [["a"] * len(y) for y in Y[:3]])
