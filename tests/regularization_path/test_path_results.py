"""Regularisation paths that end early, their tables, and input that is refused."""

import csv

import numpy as np
import pytest
from path_problems import X, Y
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from crfqn import ChainCRF, crf_path
from crfqn.errors import InputError
from crfqn.regularization_path import Grid
from crfqn.result import Status


class TestEnds:
    def test_a_path_asks_for_the_optimum(self):
        path = crf_path(ChainCRF(), X, Y, grid=Grid(3))
        assert path.models[-1].result_.tol == path.models[-1].tol == 1e-3
        assert path.models[-1].result_.gap <= 1e-3

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


@pytest.mark.parametrize(("settings", "message"), [
    ({"l1": [1.0], "group_l1": [1.0]}, "expected values of l1 or of group_l1, got both$"),
    ({"group_l1": [-1.0]}, r"^group_l1: expected one or more finite numbers > 0"),
    ({"l1": []}, "l1: expected one or more finite numbers > 0"),
    ({"l1": [1.0, 0.0]}, "l1: expected one or more finite numbers > 0"),
    ({"l1": [np.nan]}, "l1: expected one or more finite numbers > 0"),
    ({"l1": "large"}, "l1: expected numbers > 0, got 'large'"),
    ({"n_values": 0}, "n_values: expected an integer >= 1, got 0"),
    ({"n_values": True}, "n_values: expected an integer >= 1"),
    ({"ratio": 1.0}, "ratio: expected None or a number between 0 and 1, got 1.0"),
    ({"smallest": 0.0}, "smallest: expected None or a finite number > 0"),
    ({"inner_tol": -1.0}, "inner_tol: expected None or a finite number >= 0"),
    ({"patience": 0}, "patience: expected None or an integer >= 1"),
])  # fmt: skip
def test_bad_grids(settings, message):
    with pytest.raises(InputError, match=message):
        Grid(**settings)


@pytest.mark.parametrize(("settings", "message"), [
    ({"grid": 20}, r"grid: expected a crfqn\.regularization_path\.Grid or LocalGrid, got int"),
    ({"grid": Grid(patience=2)}, "patience: expected validation items or cv to score by, got neither"),
    ({"validation": X}, r"validation: expected a pair \(X, y\), got list"),
    ({"validation": (X, Y), "cv": 3}, "got both"),
])  # fmt: skip
def test_bad_input(settings, message):
    with pytest.raises(InputError, match=message):
        crf_path(ChainCRF(), X, Y, **settings)


def test_bad_estimators():
    with pytest.raises(
        InputError, match="estimator: expected a ChainCRF, TaxonomyCRF or MulticlassCRF, got KFold"
    ):
        crf_path(KFold(), X, Y)
    with pytest.raises(InputError, match="l2: expected 'auto' or a finite number"):
        crf_path(ChainCRF(l2=-1.0), X, Y)
