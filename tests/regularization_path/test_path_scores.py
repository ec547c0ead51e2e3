"""Scores along a regularisation path: validation items, folds, patience, and the best value."""

import warnings

import numpy as np
import pytest
from path_problems import PROBLEM, X, Y, quiet, tree_case
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from crfqn import ChainCRF, MulticlassCRF, MultilabelRanker, crf_path
from crfqn.errors import InputError
from crfqn.regularization_path import Grid
from crfqn.result import Status


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
        with pytest.raises(InputError, match=r"cv: .*n_splits=50"):
            crf_path(model, problem.x, labels, cv=50)

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

    def test_folds_take_a_value_before_the_next_comes(self):
        calls = iter(range(6))
        with pytest.warns(UserWarning, match="the best score is that of the smallest of the 3 values"):
            path = crf_path(ChainCRF(), X, Y, grid=Grid(3), cv=2, scoring=lambda *_: float(next(calls)))
        assert path.fold_scores.tolist() == [[0, 1], [2, 3], [4, 5]]

    def test_what_is_cut_off_is_no_row(self):
        """The callback ends everything while the second fold is at the third value."""
        calls = []

        def scorer(*_):
            calls.append(None)
            return float(len(calls))

        model = ChainCRF(callback=lambda row: len(calls) >= 5)
        path = quiet(model, X, Y, grid=Grid(6), cv=2, scoring=scorer)
        assert path.fold_scores.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert {model.result_.status for model in path.models} == {Status.CONVERGED}

    @pytest.mark.parametrize(("scores", "end"), [
        ([0.1, 0.2, 0.3], "smallest"), ([0.1, 0.3, 0.2], None), ([0.3, 0.1, 0.1], "largest"),
    ])  # fmt: skip
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
