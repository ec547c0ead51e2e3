"""Regularisation paths: every value against an independent optimum, the strong rule where it fails, scores and ends."""

import csv
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from command_line import run_here
from problems import dense_weights, make_problem, make_tree_problem
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

import crfqn
from crfqn import ChainCRF, MulticlassCRF, MultilabelRanker, TaxonomyCRF, crf_path
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.blocks import BlockedObjective
from crfqn.penalties import ElasticNet
from crfqn.regularization_path import Grid
from crfqn.regularization_path.prepared import largest_gradient, prepare_path
from crfqn.regularization_path.walking import Waiting, walk
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.screening.strong_rule import StrongRule, strong_threshold
from crfqn.taxonomy.tree import LabelTree

EXACT = {"tol": 1e-9}
PROBLEM = make_problem(1, n_items=30)
X, Y = PROBLEM.items, PROBLEM.labels


def tree_case(shape="forest"):
    problem = make_tree_problem(shape, 1, n_items=40, n_features=4)
    names = tuple(f"n{k}" for k in range(problem.n_states))
    tree = LabelTree(names, problem.parents)
    return problem, tree, [names[k] for k in problem.targets]


def quiet(*args, **settings):
    """A path whose values may end at the last digit before a gap of 1e-9, and whose best may be at an end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "the best score is that of the", UserWarning)
        return crf_path(*args, **settings)


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
            objective = BlockedObjective.of_blocks(prepared.objective, 20)
            assert len(objective.parts) > 1
            point = objective.at(*prepared.point.sparse_weights)
            l1_max = largest_gradient(objective, prepared.penalty, point)
            in_blocks = replace(prepared, objective=objective, point=point, l1_max=l1_max)
            values = [step.model.result_.value for step in walk(in_blocks, whole.l1, Grid(inner_tol=1e-9))]
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
            np.testing.assert_allclose(model.edge_coef_.toarray(), alone.edge_coef_.toarray(), atol=1e-4)
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


class TestStrongRule:
    def test_threshold(self):
        assert strong_threshold(0.9, 1.0) == pytest.approx(0.8)
        assert strong_threshold(0.6, 1.0) == 0.0  # so long a step would let in too many

    @pytest.mark.parametrize("l1", [1.0, 2.0])
    def test_weights_that_break_it_are_found(self, l1):
        """Started at zero as if that were the optimum of nearly the same l1, it leaves out most of the weights."""
        objective, penalty = PROBLEM.objective(), ElasticNet(l1)
        start = objective.at(np.empty(0, np.int64), np.empty(0))
        candidates = np.abs(start.gradient(np.arange(PROBLEM.n_coords))) > l1 * (1 - 1e-6)
        _, w = PROBLEM.optimum(l1, 0.0)
        assert ((np.abs(w) > 1e-3) & ~candidates).any()
        rule = StrongRule(ProxQN(), l1 * (1 + 1e-6), 0.0, 1e-9)
        result = minimize(objective, penalty, rule, tol=1e-9)
        plain = minimize(PROBLEM.objective(), penalty, ProxQN(), tol=1e-9)
        assert rule.n_broken >= ((np.abs(w) > 1e-3) & ~candidates).sum()
        assert rule.n_checks >= 2
        assert result.value == pytest.approx(plain.value, rel=1e-9)
        assert result.gap == pytest.approx(plain.gap, abs=1e-7)
        np.testing.assert_array_equal(result.coords, plain.coords)

    def test_full_gradient_scans_are_the_start_and_the_checks(self):
        objective = PROBLEM.objective()
        rule = StrongRule(ProxQN(), 1.05 * PROBLEM.l1_max, 0.0, 1e-4)
        result = minimize(objective, ElasticNet(0.9 * PROBLEM.l1_max), rule, tol=1e-4)
        assert result.status is Status.CONVERGED
        assert result.trace.is_screening.sum() == 1 + rule.n_checks
        assert result.n_iter == (~result.trace.is_screening).sum()
        assert result.trace.is_screening[-1]
        assert objective.n_passes == result.passes
        assert rule.point.coords is result.coords

    def test_it_ends_where_rounding_does(self):
        rule = StrongRule(ProxQN(), 2.2, 0.0, 0.0)
        result = minimize(PROBLEM.objective(), ElasticNet(2.0), rule, tol=0.0)
        assert result.status is Status.STALLED
        assert result.gap < 1e-6

    def test_limits(self):
        rule = StrongRule(ProxQN(), 2.2, 0.0, 0.0)
        result = minimize(PROBLEM.objective(), ElasticNet(2.0), rule, tol=0.0, max_iter=2)
        assert result.status is Status.MAX_ITER
        assert result.n_iter == 2

    @pytest.mark.parametrize("solver", ["owl-qn", "fista"])
    def test_with_other_solvers(self, solver):
        path = quiet(
            ChainCRF(solver=solver, tol=1e-6, max_iter=3000), X, Y, grid=Grid(4, ratio=0.3, inner_tol=1e-6)
        )
        plain = quiet(ChainCRF(tol=1e-6), X, Y, grid=Grid(4, ratio=0.3, inner_tol=1e-6))
        np.testing.assert_allclose(path.value, plain.value, rtol=1e-6)

    def test_rows_take_no_strong_rule(self):
        path = quiet(ChainCRF(group_l1=0.5, tol=1e-6), X, Y, grid=Grid(4, ratio=0.3, inner_tol=1e-6))
        alone = ChainCRF(l1=path.l1[-1], group_l1=0.5, tol=1e-6).fit(X, Y)
        assert path.n_nonzero[0] == 0
        assert path.value[-1] == pytest.approx(alone.result_.value, rel=1e-5)


class TestScores:
    def test_validation(self):
        path = crf_path(ChainCRF(), X[:20], Y[:20], grid=Grid(6), validation=(X[20:], Y[20:]))
        assert path.score.tolist() == [model.score(X[20:], Y[20:]) for model in path.models]
        assert path.best_index == np.argmax(path.score)
        assert path.best_model is path.models[path.best_index]
        assert path.best_model.result_.gap <= 1e-3
        assert path.fold_scores.shape == (6, 0)

    @pytest.mark.parametrize("is_flat", [False, True])
    def test_folds_are_those_of_scikit_learn(self, is_flat):
        labels = np.concatenate(Y).tolist() if is_flat else Y
        folds = KFold(3, shuffle=True, random_state=0)
        path = quiet(ChainCRF(tol=1e-5), X, labels, grid=Grid(l1=[3.0, 1.0], inner_tol=1e-5), cv=folds)
        for l1, scores, mean in zip(path.l1, path.fold_scores, path.score, strict=True):
            expected = cross_val_score(
                ChainCRF(l1=l1, tol=1e-5), np.array(X, object), np.array(Y, object), cv=folds
            )
            np.testing.assert_allclose(scores, expected, atol=1e-12)
            assert mean == pytest.approx(expected.mean())

    def test_folds_of_groups_and_weights(self):
        groups, weights = np.arange(30) // 6, np.tile([1.0, 2.0, 0.0], 10)
        seen = []

        def scorer(model, items, labels):
            seen.append(len(items))
            return model.score(items, labels)

        path = crf_path(
            ChainCRF(), PROBLEM.sequences, Y, grid=Grid(l1=[2.0]), cv=GroupKFold(5), groups=groups, scoring=scorer,
            sample_weight=weights,
        )  # fmt: skip
        assert seen == [6] * 5
        assert path.fold_scores.shape == (1, 5)
        train = np.flatnonzero(weights > 0)
        alone = ChainCRF(l1=2.0).fit(
            [X[i] for i in train], [Y[i] for i in train], sample_weight=weights[train]
        )
        assert path.value[0] == pytest.approx(alone.result_.value, rel=1e-3)

    def test_stratified_folds_of_a_classifier(self):
        problem, _, labels = tree_case("flat")
        model = MulticlassCRF(tol=1e-6, fit_intercept=False)
        path = crf_path(model, problem.x, labels, grid=Grid(l1=[2.0]), cv=2)
        expected = cross_val_score(MulticlassCRF(2.0, tol=1e-6, fit_intercept=False), problem.x, labels, cv=2)
        np.testing.assert_allclose(path.fold_scores[0], expected)

    def test_folds_of_label_sets(self):
        x = np.random.default_rng(0).normal(size=(30, 3))
        sets = [{"abc"[k] for k in np.flatnonzero(row > -0.5)} for row in x]
        path = crf_path(MultilabelRanker(), x, sets, grid=Grid(group_l1=[1.0]), cv=KFold(3))
        expected = []
        for train, test in KFold(3).split(x):
            alone = MultilabelRanker(group_l1=1.0).fit(x[train], [sets[i] for i in train])
            expected.append(alone.score(x[test], [sets[i] for i in test]))
        np.testing.assert_allclose(path.fold_scores[0], expected)

    def test_metrics_by_name(self):
        problem, _, labels = tree_case("flat")
        path = quiet(
            MulticlassCRF(),
            problem.x,
            labels,
            grid=Grid(3, ratio=0.01),
            validation=(problem.x, labels),
            scoring="neg_log_loss",
        )
        assert (np.diff(path.score) > 0).all()

    def test_patience(self):
        scripted = [0.1, 0.1, 0.1, 0.3, 0.2, 0.3, 0.2, 0.9, 0.9]
        calls = iter(scripted)
        path = crf_path(
            ChainCRF(), X, Y, grid=Grid(9, patience=3), validation=(X, Y), scoring=lambda *_: next(calls)
        )
        assert path.score[:3].tolist() == scripted[:3]
        assert len(path) == 7
        assert path.best_index == 3

    def test_waiting_begins_with_the_first_better_score(self):
        waiting = Waiting(2)
        assert [waiting.is_over(score) for score in (0.5, 0.4, 0.5, 0.6, 0.6, 0.5)] == [False] * 5 + [True]

    def test_patience_is_with_the_mean_over_folds(self):
        """The second fold alone would have stopped after the fourth value."""
        scripted = np.array(
            [[0.1, 0.2], [0.1, 0.3], [0.3, 0.2], [0.6, 0.1], [0.5, 0.1], [0.4, 0.1], [0.9, 0.9]]
        )
        calls = iter(scripted.ravel())
        path = crf_path(ChainCRF(), X, Y, grid=Grid(9, patience=2), cv=2, scoring=lambda *_: next(calls))
        np.testing.assert_array_equal(path.fold_scores, scripted[:6])
        np.testing.assert_allclose(path.score, scripted[:6].mean(axis=1))
        assert path.best_index == 3

    def test_without_patience_folds_come_one_after_the_other(self):
        calls = iter(range(6))
        with pytest.warns(UserWarning, match="the best score is that of the smallest of the 3 values"):
            path = crf_path(ChainCRF(), X, Y, grid=Grid(3), cv=2, scoring=lambda *_: float(next(calls)))
        assert path.fold_scores.tolist() == [[0, 3], [1, 4], [2, 5]]

    def test_folds_side_by_side_find_the_same(self):
        alone, together = (quiet(ChainCRF(), X, Y, grid=Grid(l1=[3.0, 1.0, 0.5, 0.3], patience=patience), cv=3)
                           for patience in (None, 9))  # fmt: skip
        np.testing.assert_array_equal(alone.fold_scores, together.fold_scores)

    @pytest.mark.parametrize(
        ("scores", "end"),
        [([0.1, 0.2, 0.3], "smallest"), ([0.1, 0.3, 0.2], None), ([0.3, 0.1, 0.1], "largest")],
    )
    def test_the_best_may_lie_beyond_the_grid(self, scores, end):
        calls = iter(scores)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            path = crf_path(
                ChainCRF(),
                X,
                Y,
                grid=Grid(l1=[3.0, 2.0, 1.0]),
                validation=(X, Y),
                scoring=lambda *_: next(calls),
            )
        assert [str(each.message) for each in caught] == [path.note] * (end is not None)
        assert path.best_end == end
        expected = {
            "smallest": "that of the smallest of the 3 values, l1 = 1: smaller ones may be better still",
            "largest": "that of the largest of the 3 values, l1 = 3: larger ones may be better still",
        }
        assert path.note == (f"the best score is {expected[end]}" if end else "")

    def test_above_the_largest_value_there_is_nothing(self):
        path = crf_path(ChainCRF(), X, Y, grid=Grid(3), validation=(X, Y), scoring=lambda *_: 0.5)
        assert path.best_index == 0
        assert path.best_end is None
        alone = crf_path(ChainCRF(), X, Y, grid=Grid(l1=[2.0]), validation=(X, Y))
        assert alone.best_end is None

    def test_no_best_without_scores(self):
        path = crf_path(ChainCRF(), X, Y, grid=Grid(2))
        assert np.isnan(path.score).all()
        with pytest.raises(InputError, match="without validation"):
            _ = path.best_model
        assert path.best_end is None


class TestEnds:
    def test_a_callback_ends_the_path(self):
        rows = []
        model = ChainCRF(tol=1e-9, callback=lambda row: rows.append(row) or len(rows) > 12)
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            path = crf_path(model, X, Y, grid=Grid(10))
        assert len(path) < 10
        assert path.models[-1].result_.status is Status.CALLBACK
        assert len(rows) == 13

    def test_one_warning_for_all_values(self):
        with pytest.warns(ConvergenceWarning, match=r"3 of 4 values did not converge, first l1 = ") as caught:
            crf_path(ChainCRF(max_iter=1, tol=1e-9), X, Y, grid=Grid(4))
        assert len(caught) == 1

    def test_an_interrupt_keeps_what_there_is(self):
        def interrupt(row):
            if row.n_nonzero > 4:
                raise KeyboardInterrupt

        path = crf_path(ChainCRF(callback=interrupt), X, Y, grid=Grid(10))
        assert 1 < len(path) < 10
        assert path.models[-1].result_.status is Status.INTERRUPTED


@pytest.fixture(scope="module")
def path_parameter():
    return crf_path(ChainCRF(), X[:20], Y[:20], grid=Grid(4), validation=(X[20:], Y[20:]))


class TestTable:
    def test_rows(self, path_parameter):
        rows = path_parameter.rows()
        assert [row["l1"] for row in rows] == path_parameter.l1.tolist()
        assert [row["n_nonzero"] for row in rows] == [
            model.result_.n_nonzero for model in path_parameter.models
        ]
        assert {row["status"] for row in rows} == {"converged"}

    def test_of_rows_whose_best_was_refined(self, tmp_path):
        """The strength that was walked, not l1, which is 0."""
        path = crf_path(
            ChainCRF(l1=0.0, group_l1=1.0), X, Y, grid=Grid(group_l1=[4.0, 2.0, 1.0], inner_tol=0.5), validation=(X, Y),
            scoring=lambda model, *_: -abs(model.group_l1 - 2.0),
        )  # fmt: skip
        assert path.best_index == 1
        assert path.gap[1] <= 1e-3 < path.gap[0]  # which is what was refined
        assert path.path_parameter == "group_l1"
        assert [row["group_l1"] for row in path.rows()] == [4.0, 2.0, 1.0]
        path.write_csv(tmp_path / "path.csv")
        assert (tmp_path / "path.csv").read_text().startswith("group_l1,")

    def test_csv(self, path_parameter, tmp_path):
        path_parameter.write_csv(tmp_path / "path.csv")
        with open(tmp_path / "path.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["l1"]) for row in rows] == path_parameter.l1.tolist()
        assert [float(row["score"]) for row in rows] == path_parameter.score.tolist()

    def test_unknown_numbers_are_left_empty(self, tmp_path):
        crf_path(ChainCRF(), X, Y, grid=Grid(2)).write_csv(tmp_path / "path.csv")
        with open(tmp_path / "path.csv", newline="") as file:
            assert [row["score"] for row in csv.DictReader(file)] == ["", ""]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"l1": [1.0], "group_l1": [1.0]}, "expected values of l1 or of group_l1, got both$"),
        ({"group_l1": [-1.0]}, r"^group_l1: expected finite numbers > 0"),
        ({"l1": []}, "l1: expected finite numbers > 0, at least one"),
        ({"l1": [1.0, 0.0]}, "l1: expected finite numbers > 0"),
        ({"l1": [np.nan]}, "l1: expected finite numbers > 0"),
        ({"l1": "large"}, "l1: expected numbers > 0, got 'large'"),
        ({"n_values": 0}, "n_values: expected an integer >= 1, got 0"),
        ({"n_values": True}, "n_values: expected an integer >= 1"),
        ({"ratio": 1.0}, "ratio: expected None or a number between 0 and 1, got 1.0"),
        ({"smallest": 0.0}, "smallest: expected None or a finite number > 0"),
        ({"inner_tol": -1.0}, "inner_tol: expected None or a number >= 0"),
        ({"patience": 0}, "patience: expected an integer >= 1"),
    ],
)
def test_bad_grids(settings, message):
    with pytest.raises(InputError, match=message):
        Grid(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": 20}, r"grid: expected a crfqn\.regularization_path\.Grid, got int"),
        ({"grid": Grid(patience=2)}, "patience: expected validation items or cv to score by, got neither"),
        ({"validation": X}, r"validation: expected a pair \(X, y\), got list"),
        ({"validation": (X, Y), "cv": 3}, "got both"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(InputError, match=message):
        crf_path(ChainCRF(), X, Y, **settings)


def test_bad_estimators():
    with pytest.raises(
        InputError, match="estimator: expected a ChainCRF, TaxonomyCRF or MulticlassCRF, got KFold"
    ):
        crf_path(KFold(), X, Y)
    with pytest.raises(InputError, match="l2: expected a finite number"):
        crf_path(ChainCRF(l2=-1.0), X, Y)


class TestCommand:
    @pytest.fixture
    def here(self, monkeypatch, tmp_path):
        return lambda *arguments: run_here(monkeypatch, tmp_path, "path", *arguments, "--threads", 1)

    def test_table_files_and_model(self, here, tmp_path):
        pytest.importorskip("matplotlib")
        run = here("digits", "--values", 4, "--l1", 100, "-o", "best", "--csv", "p.csv", "--plot", "p.png")
        assert run.returncode == 0, run.stderr
        lines = run.stdout.splitlines()
        assert lines[0].split() == ["l1", "accuracy", "non-zeros", "gap", "passes", "seconds"]
        rows = [line.split() for line in lines[1:5]]
        assert float(rows[-1][0]) == 100
        assert rows[0][2] == "0"
        assert rows[-1][-1] == "best"
        assert lines[5].startswith("    together")
        assert "(test part)" in run.stdout
        *values, note = run.stderr.splitlines()
        assert len(values) == 4
        assert "the smallest of the 4 values, l1 = 100: smaller ones may be better" in note
        assert note.endswith("`--l1 10` walks on to them.")
        assert crfqn.load(tmp_path / "best").l1 == 100
        assert (tmp_path / "p.csv").read_text().count("\n") == 5
        assert (tmp_path / "p.png").stat().st_size > 1000

    def test_folds_as_json(self, here, tmp_path):
        run = here("digits", "--values", 3, "--l1", 300, "--cv", 2, "--json", "-q", "--tol", 0.01)
        assert run.returncode == 0, run.stderr
        content = json.loads(run.stdout)
        assert len(content["path"]) == 3
        assert content["path"][content["best"]]["score"] == max(row["score"] for row in content["path"])
        assert content["best_end"] == "smallest"
        assert run.stderr == ""
        assert list(tmp_path.iterdir()) == []

    def test_rows(self, here, tmp_path):
        (tmp_path / "train.txt").write_text("a 0:1\nb 1:1\nc 2:1\n" * 10)
        (tmp_path / "recipe.toml").write_text(
            'name = "mine"\ntitle = "Mine"\n[data]\ntrain = "train.txt"\ntest = "train.txt"\n'
            '[features]\nkind = "given"\n'
            '[structure]\nkind = "flat"\n[objective]\nloss = "squared-hinge"\npenalty = "l1/l2"\n'
        )
        run = here("recipe.toml", "--values", 3, "--csv", "p.csv")
        assert run.returncode == 0, run.stderr
        lines = run.stdout.splitlines()
        assert lines[0].split()[0] == "group_l1"
        assert "best       group_l1 = " in run.stdout
        assert run.stderr.startswith("group_l1 = ")
        values = [float(line.split(",")[0]) for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
        assert [float(line.split()[0]) for line in lines[1:4]] == pytest.approx(values, rel=1e-5)
        assert values[0] >= 99.9 * values[-1]

    def test_time_is_up(self, here):
        run = here("digits", "--values", 4, "--max-time", 0.01, "-q")
        assert run.returncode == 4
        assert "callback" in run.stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("digits", "--holdout", 1), "--holdout 1 leaves none of the 1500 training items"),
            (("unknown",), "no recipe 'unknown'"),
            (("digits", "--csv", "no/folder/p.csv"), "no/folder/p.csv"),
            (("digits", "--plot", "p.doc"), "expected a picture's file"),
        ],
    )
    def test_bad_input(self, here, arguments, message):
        if "--plot" in arguments:
            pytest.importorskip("matplotlib")
        run = here(*arguments)
        assert run.returncode == 2
        assert message in run.stderr
