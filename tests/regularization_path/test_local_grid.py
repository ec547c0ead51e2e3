"""Strengths around a default: which they are, what is chosen among them, and what is said of it."""

import warnings

import numpy as np
import pytest
from path_problems import X, Y, quiet, tree_case

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, crf_path
from crfqn.errors import InputError
from crfqn.regularization_path import Grid, LocalGrid
from crfqn.result import Status

CENTRE = {"l1": 2.0, "l2": 4.0, "group_l1": 0.0}


class TestValues:
    def test_nine_pairs_are_a_square_around_the_first(self):
        values = LocalGrid(factor=2.0).values(CENTRE, "l1")
        assert values[0] == {"l1": 2.0, "l2": 4.0}
        assert sorted((value["l1"], value["l2"]) for value in values) == [
            (l1, l2) for l1 in (1.0, 2.0, 4.0) for l2 in (2.0, 4.0, 8.0)
        ]

    def test_one_strength(self):
        values = LocalGrid(4, factor=2.0).values(CENTRE | {"l2": 0.0}, "l1")
        assert values == [{"l1": 2.0}, {"l1": 4.0}, {"l1": 1.0}, {"l1": 8.0}]
        assert LocalGrid(2).values(CENTRE, "l2") == [{"l2": 4.0}, {"l2": 12.0}]

    def test_nothing_to_vary(self):
        with pytest.raises(InputError, match="expected l1 > 0 or l2 > 0 to vary"):
            LocalGrid().values(dict.fromkeys(CENTRE, 0.0), "l1")

    @pytest.mark.parametrize(("settings", "message"), [
        ({"n_values": 0}, "n_values: expected an integer >= 1"),
        ({"factor": 1.0}, "factor: expected a finite number > 1"),
    ])  # fmt: skip
    def test_bad_settings(self, settings, message):
        with pytest.raises(InputError, match=message):
            LocalGrid(**settings)


class TestModels:
    def test_the_first_is_the_default(self):
        path = quiet(ChainCRF(), X, Y, grid=LocalGrid(5), validation=(X, Y))
        for model in path.models:
            alone = ChainCRF(model.l1_, model.l2_, tol=1e-6).fit(X, Y)
            assert model.result_.value == pytest.approx(alone.result_.value, rel=2 * ChainCRF.DEFAULT_TOL)
        default = ChainCRF().fit(X, Y)
        assert (path.l1[0], path.l2[0]) == pytest.approx((default.l1_, default.l2_))
        assert path.l2[0] > 0

    def test_items_to_score_by_ask_for_it(self):
        assert quiet(ChainCRF(), X, Y, validation=(X, Y)).varied == ("l1", "l2")
        assert not crf_path(ChainCRF(), X, Y, grid=Grid(2)).has_default

    def test_the_best_is_proved_to_the_tolerance(self):
        model = ChainCRF(l1=0.3, group_l1=0.3, group_norm="linf")  # which Newton's method does not solve
        path = quiet(model, X, Y, grid=LocalGrid(3), cv=2, scoring=lambda model, *_: -model.l1_)
        assert path.best_index == path.l1.argmin() == 2
        assert path.best_model.result_.status is Status.CONVERGED
        assert path.best_model.result_.gap <= 1e-3
        assert path.gap.max() > 1e-3

    def test_scores_are_those_of_fit(self):
        for settings in ({}, {"tol": 1e-6}):
            path = quiet(ChainCRF(**settings), X, Y, grid=LocalGrid(1), validation=(X, Y),
                         scoring=lambda model, *_: model.result_.value)  # fmt: skip
            alone = ChainCRF(path.l1[0], path.l2[0], **settings).fit(X, Y)
            assert path.score[0] == pytest.approx(alone.result_.value, rel=1e-9)

    @pytest.mark.parametrize("model", [MulticlassClassifier(penalty="l2"), MulticlassCRF(2.0)], ids=str)
    def test_other_penalties(self, model):
        problem, _, labels = tree_case("flat")
        path = quiet(model, problem.x, labels, grid=LocalGrid(3), cv=2)
        assert path.varied == (("l2",) if path.l1[0] == 0 else ("l1",))
        assert [path.values[n] / path.values[0] for n in (1, 2)] == pytest.approx([3, 1 / 3])
        assert next(iter(path.rows()[0])) == path.path_parameter

    def test_features_are_encoded_once(self, monkeypatch):
        from crfqn.data import encoding

        calls, encode = [], encoding._encode_items
        monkeypatch.setattr(encoding, "_encode_items", lambda *args: calls.append(1) or encode(*args))
        items = [[{f"f{t % 3}": 1.0} for t in range(len(labels))] for labels in Y]
        quiet(ChainCRF(), items, Y, grid=LocalGrid(2), cv=3)
        assert len(calls) == 1


def chosen(scores, **settings):
    """The path of a chain whose models have these scores by value and fold."""
    calls = iter(np.ravel(scores))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the best score is (that of|at an end)", UserWarning)
        return crf_path(ChainCRF(), X, Y, grid=LocalGrid(3), scoring=lambda *_: next(calls), **settings)


class TestChoice:
    def test_within_noise_the_default_stays(self):
        path = chosen([[0.5, 0.7, 0.6], [0.7, 0.65, 0.6], [0.1, 0.1, 0.1]], cv=3)
        assert path.score[1] > path.score[0]
        assert path.best_index == 0
        assert path.comparison.startswith("the default is kept: l1 = ")
        assert "scores +0.0500, which is within noise (standard error" in path.comparison
        assert path.note == ""

    def test_what_is_better_in_all_folds_is_chosen(self):
        path = chosen([[0.5, 0.7, 0.6], [0.6, 0.82, 0.71], [0.1, 0.1, 0.1]], cv=3)
        assert path.best_index == 1
        assert path.comparison.startswith(
            "better than the default by 0.1100 (standard error 0.0058 over 3 folds)"
        )
        assert "larger l1" in path.note
        assert [row["is_best"] for row in path.rows()] == [False, True, False]

    def test_a_default_that_nothing_beats(self):
        path = chosen([[0.5, 0.7], [0.5, 0.7], [0.4, 0.7]], cv=2)
        assert path.best_index == 0
        assert path.comparison == "the default is kept: none of the 2 others scores better"

    def test_one_set_of_items_knows_no_noise(self):
        path = chosen([0.5, 0.4, 0.6, 0.0], validation=(X, Y))
        assert path.best_index == 2
        assert "by 0.1000 (on one set of items): l1" in path.comparison
        assert path.best_model.result_.status is not Status.CALLBACK
