"""The study of block coordinate descent, end to end on made-up texts; its numbers recomputed from its files.

What the scripts measure is not looked at here, but that they write what they have measured.
"""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
import reproduce_bcd
import scipy.sparse
from harness.data import DATA, QUICK_SHAPE, Source
from harness.judging import LOSSES, judge
from harness.pages import Optimum
from harness.problems import Problem
from reproduce_bcd import CONSTANTS, OBJECTIVES, Case, Paper, Task  # fmt: skip
from typer.testing import CliRunner

from crfqn.objectives.losses.likelihood import MultinomialLogistic
from crfqn.penalties import GroupLasso

SHOWN = ("BCD (LS)", "FOBOS")  # the more, the more there is to compile
SECONDS = 0.2
STRONG, WEAK = (Case(Source(DATA["sector"], is_quick=True), strength) for strength in (1e-3, 1e-5))


@pytest.fixture(autouse=True, scope="module")
def _no_data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CRFQN_DATA", raising=False)
        patch.setenv("CRFQN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory, _no_data):
    """All figures and the table, with two solvers and two lambdas."""
    path = tmp_path_factory.mktemp("study")
    paper = Paper(path, [], is_quick=True, seconds=SECONDS, n_splits=1, solvers=SHOWN, step=9)
    for name in ("2", "4", "5"):
        paper.figure(name)
    paper.table("2")
    return path


@pytest.fixture(scope="module")
def rows(folder):
    return rows_of(folder, "figure-4")


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "page.md").read_text()


def rows_of(folder, name):
    with (folder / f"{name}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def column(rows, name, **given):
    """Numbers of a column, nan where it is empty, of the rows with the given cells."""
    return np.array(
        [float(row[name] or "nan") for row in rows if all(row[key] == cell for key, cell in given.items())]
    )


def tables(page, title):
    """The rows of the table of a title, as dictionaries."""
    text = re.split(r"\n#+ ", page.partition(f"### {title}\n")[2])[0]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


class TestFolder:
    def test_all_files_and_nothing_else(self, folder):
        stems = ("figure-2", "figure-4", "figure-5")
        pictures = {f"{stem}.svg" for stem in stems}
        texts = {f"{stem}.csv" for stem in (*stems, "table-2")} | {"optima.json", "page.md", "sections.json"}
        assert {file.name for file in folder.iterdir()} == pictures | texts

    def test_page_has_commands_constants_and_what_stands_in(self, page):
        assert CONSTANTS in page
        for number in ("sigma = 0.01", "omega = 0.5", "tau = 0.001", "K = 200"):
            assert number in CONSTANTS
        command = f"reproduce_bcd.py --figure 5 --splits 1 --quick --max-seconds {SECONDS:g}\n"
        assert command in page
        assert "Sector: the publisher's files are not on this machine." in page
        for library in ("processor", "Python", "numba", "matplotlib"):
            assert library in page


class TestCurves:
    def test_runs_begin_at_zero_weights(self, rows):
        for case in (STRONG, WEAK):
            for solver in SHOWN:
                first = next(row for row in rows if (row["problem"], row["solver"]) == (str(case), solver))
                assert (
                    float(first["objective"]) == QUICK_SHAPE["n_classes"] - 1
                )  # margins of 1 over all others
                assert float(first["rows"]) == 0

    def test_time_and_differences(self, folder, rows):
        optima = {
            key: Optimum(**each) for key, each in json.loads((folder / "optima.json").read_text()).items()
        }
        for case in (STRONG, WEAK):
            known = optima[str(case)]
            for solver in SHOWN:
                given = {"problem": str(case), "solver": solver}
                assert np.all(np.diff(column(rows, "seconds", **given)) >= 0)
                objective = column(rows, "objective", **given)
                difference = column(rows, "relative_difference", **given)
                np.testing.assert_allclose(difference, objective / known.value - 1, atol=1e-12)
                assert objective.min() >= known.value > known.lower_bound

    def test_objectives_are_recomputed(self, page):
        found = re.findall(r"recomputes all final objectives to (\S+)\.\n", page)
        assert len(found) == 3
        assert max(map(float, found)) < 1e-9


SECTOR_ENDS = (1e-2, 1e-4)
NO_WEIGHTS = np.empty(0, np.int64), np.empty(0)


class TestJudge:
    @pytest.fixture
    def problem(self):
        random = np.random.default_rng(0)
        matrix = scipy.sparse.random_array((12, 5), density=0.6, rng=random, format="csr")
        labels = np.array(["a", "b", "c"])[np.arange(12) % 3]
        return Problem(matrix[:9], labels[:9], matrix[9:], labels[9:])

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("is_grouped", [True, False])
    def test_objective_by_loops(self, problem, loss, is_grouped):
        table = np.random.default_rng(1).normal(size=(5, 3)) * np.array([[1], [0], [1], [1], [0]])
        total, scores = 0.0, problem.X_train.toarray() @ table
        for i, label in enumerate(problem.y_train):
            y = "abc".index(label)
            others = [r for r in range(3) if r != y]
            total += {
                "squared-hinge": sum(max(1 - (scores[i, y] - scores[i, r]), 0) ** 2 for r in others),
                "multitask-squared-hinge": max(1 - scores[i, y], 0) ** 2
                + sum(max(1 + scores[i, r], 0) ** 2 for r in others),
                "logistic": np.log(1 + sum(np.exp(scores[i, r] - scores[i, y]) for r in others)),
            }[loss]
        penalty = sum(np.sqrt(row @ row) if is_grouped else abs(row).sum() for row in table)
        verdict = judge(problem, table.T, loss=loss, **{"group_l1" if is_grouped else "l1": 0.3})
        assert verdict.objective == pytest.approx(total + 0.3 * penalty, rel=1e-12)
        right = (problem.X_test.toarray() @ table).argmax(axis=1) == ["abc".index(y) for y in problem.y_test]
        assert (verdict.accuracy, verdict.n_rows) == (right.mean(), 3)

    def test_task_is_a_sum_under_lambda_times_the_items(self, problem):
        task = Task(problem, 0.1, OBJECTIVES["MC Logistic"])
        assert isinstance(task.penalty, GroupLasso)
        assert task.penalty.group_l1 == pytest.approx(0.9)
        assert isinstance(task.objective.loss, MultinomialLogistic)
        assert task.objective.at(*NO_WEIGHTS).value == pytest.approx(9 * np.log(3))


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--figure", "6"], "'6' is not one of"),
            (["--table", "1"], "'1' is not one of"),
            (["--data", "letters"], "'letters' is not one of"),
            (["--figure", "5", "--splits", "0"], "--splits"),
        ],
    )
    def test_wrong_choice(self, arguments, message, tmp_path):
        result = CliRunner().invoke(reproduce_bcd.app, [*arguments, "--output", str(tmp_path / "out")])
        assert result.exit_code == 2
        assert message in " ".join(result.output.replace("│", " ").split())
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(("name", "how"), [("mnist", "crfqn data get mnist"), ("amazon7", "by hand")])
    def test_data_that_is_asked_for_and_not_here(self, tmp_path, name, how):
        result = CliRunner().invoke(
            reproduce_bcd.app, ["--figure", "2", "--data", name, "--output", str(tmp_path / "out")]
        )
        assert result.exit_code == 3
        assert how in result.output
        assert not (tmp_path / "out").exists()
