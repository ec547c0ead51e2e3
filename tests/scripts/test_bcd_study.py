"""The study of block coordinate descent, end to end on made-up texts; its numbers recomputed from its files.

What the scripts measure is not looked at here, but that they write what they have measured.
"""

from __future__ import annotations

import csv
import json
import pickle
import re
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import reproduce_bcd
import scipy.sparse
from harness.curves import Curve, Limits, Recording, Stopping
from harness.data import DATA, QUICK_SHAPE, RCV1, SECTOR, Source, made_up_texts
from harness.judging import LOSSES, judge
from harness.pages import Optimum
from harness.problems import Problem
from reproduce_bcd import (
    COMPARED,
    CONSTANTS,
    OBJECTIVES,
    OF_THE_PAPER,
    SOLVERS,
    TIMED,
    Case,
    Paper,
    Task,
    accuracy_note,
    averages,
    chosen,
    order_table,
    paper_bcd,
    podium,
    rows_table,
)  # fmt: skip
from typer.main import get_command
from typer.testing import CliRunner

from crfqn.datasets import dataset
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

    @pytest.mark.parametrize(
        ("name", "looks"),
        [
            ("figure-2", [SOLVERS[name] for name in SHOWN]),
            ("figure-4", [SOLVERS[name] for name in SHOWN]),
            ("figure-5", [OBJECTIVES[name] for name in COMPARED]),
        ],
    )
    def test_pictures_have_every_colour(self, folder, name, looks):
        picture = (folder / f"{name}.svg").read_text(encoding="utf-8")
        assert "Sector (made-up texts)" in picture
        for look in looks:
            assert f"stroke: {look.colour}" in picture

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

    def test_order_is_that_of_the_rows(self, folder, page):
        rows = rows_of(folder, "figure-2")
        times = {}
        for solver in SHOWN:
            near = column(rows, "relative_difference", solver=solver) <= 1e-2
            if near.any():
                times[solver] = column(rows, "seconds", solver=solver)[near][0]
        assert times
        cell = tables(page, "Order of the solvers")[0]["first to 1e-2"]
        winner = min(times, key=times.get)
        assert cell.startswith(f"**{winner}** {times[winner]:.2f} s")

    def test_rows_at_equal_time(self, rows, page):
        line = next(
            row for row in tables(page, "Non-zero rows at equal time") if row["BCD (LS) gets"] == "its end"
        )
        end = column(rows, "seconds", problem=line[""], solver="BCD (LS)").max()
        for solver in SHOWN:
            given = {"problem": line[""], "solver": solver}
            share, seconds = column(rows, "rows", **given), column(rows, "seconds", **given)
            last = share[np.isfinite(share) & (seconds <= end)][-1]
            assert f"({last:.2g} %)" in line[f"rows of {solver}"]


class TestGrid:
    def test_every_objective_at_every_lambda(self, folder):
        for name, objectives in (("figure-5", COMPARED), ("table-2", TIMED)):
            rows = rows_of(folder, name)
            found = [(row["objective_name"], float(row["strength"])) for row in rows]
            assert found == [(each, pytest.approx(s)) for each in objectives for s in SECTOR_ENDS]

    def test_more_penalty_leaves_fewer_rows_and_a_larger_value(self, folder):
        rows = rows_of(folder, "figure-5")
        for name in COMPARED:
            assert np.all(np.diff(column(rows, "value", objective_name=name)) < 0)
            share = column(rows, "share", objective_name=name)
            assert share[0] < share[1] <= 100

    def test_table_beside_the_papers(self, folder, page):
        rows, lines = rows_of(folder, "table-2"), tables(page, "Training times")
        assert [line["objective"] for line in lines] == list(TIMED)
        for line in lines:
            seconds = column(rows, "seconds", objective_name=line["objective"])
            expected = [f"{number:.2f}" for number in (seconds.min(), np.median(seconds), seconds.max())]
            assert [line["min, s"], line["median, s"], line["max, s"]] == expected
        assert [line["paper: min"] for line in lines] == ["62.01", "251.57", "149.09", "-"]

    def test_rule_of_the_paper(self, folder):
        rows = [row for row in rows_of(folder, "table-2") if row["objective_name"] == "MC Squared Hinge"]
        problem = STRONG.load()
        for row in rows:
            if row["is_finished"] == "True" and int(row["sweeps"]) < 200:
                task = Task(problem, float(row["strength"]))
                solver = paper_bcd("line search")
                states = solver.steps(task.objective, task.penalty, task.objective.at(*NO_WEIGHTS))
                sweeps = (state for state in states if not state.is_screening)
                value = list(islice(sweeps, int(row["sweeps"])))[-1].value
                assert value / task.objective.n_items == pytest.approx(float(row["value"]), rel=1e-9)


SECTOR_ENDS = (1e-2, 1e-4)
NO_WEIGHTS = np.empty(0, np.int64), np.empty(0)


class TestData:
    @pytest.mark.parametrize("name", DATA)
    def test_a_case_goes_to_a_process_of_its_own(self, name):
        case = Case(Source(DATA[name]), 1e-3)
        assert repr(pickle.loads(pickle.dumps(case))) == repr(case)

    def test_stand_ins_have_the_papers_sizes(self):
        shape = DATA["rcv1"].stand_in
        assert (shape.n_items, shape.n_words, shape.n_classes) == (534_135, 47_236, 52)
        assert (SECTOR.n_items, SECTOR.n_words, SECTOR.n_classes) == (9_619, 55_197, 105)
        for shape, density in ((SECTOR, 0.003), (RCV1, 0.001)):
            matrix, _ = made_up_texts(replace(shape, n_items=300))
            assert matrix.nnz / np.prod(matrix.shape) == pytest.approx(density, rel=0.15)
            np.testing.assert_allclose(scipy.sparse.linalg.norm(matrix, axis=1), 1.0)

    def test_splits_are_stratified_and_differ(self):
        problems = [Source(DATA["sector"], split, is_quick=True).load() for split in (0, 1)]
        for problem in problems:
            assert len(problem.y_test) == QUICK_SHAPE["n_items"] / 5
            counts = [np.unique(y, return_counts=True)[1] for y in (problem.y_train, problem.y_test)]
            assert np.all(np.abs(counts[0] / 4 - counts[1]) < 1)
        assert problems[0].fingerprint != problems[1].fingerprint

    def test_lambdas(self):
        np.testing.assert_allclose(np.diff(np.log10(DATA["mnist"].lambdas)), -2 / 9)
        assert [DATA["sector"].lambdas[i] for i in (0, -1)] == pytest.approx([1e-2, 1e-4])

    def test_files_of_a_publisher(self, tmp_path, monkeypatch):
        lines = [f"{label} 1:{value} 3:1\n" for label in (7, 9) for value in range(1, 6)]
        entry = dataset("amazon7")
        small = replace(entry, content=replace(entry.content, n_items=10, n_labels=2))
        monkeypatch.setattr("harness.data.dataset", lambda name: small)
        assert not DATA["amazon7"].is_possible
        (tmp_path / "amazon7.svmlight").write_text("".join(lines))
        monkeypatch.setenv("CRFQN_DATA", str(tmp_path))
        assert DATA["amazon7"].is_here
        problem = Source(DATA["amazon7"]).load()
        assert (problem.X_train.shape, problem.X_test.shape) == ((8, 3), (2, 3))
        assert sorted(problem.y_test) == ["7", "9"]

    def test_what_is_not_here_is_left_out_and_said(self, capsys):
        assert [data.name for data in chosen([])] == ["sector", "rcv1"]
        assert "not on this machine: News20, MNIST, Amazon7" in capsys.readouterr().err

    def test_the_command_knows_all_data(self):
        (option,) = (each for each in get_command(reproduce_bcd.app).params if each.name == "data")
        assert option.metavar == f"[{'|'.join(DATA)}]"
        assert set(OF_THE_PAPER) == set(DATA) - {"news20-counts"}


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


def curve(values, seconds, rows=None, solver="BCD (LS)"):
    n = len(values)
    nothing = np.full(n, np.nan)
    shares = nothing if rows is None else np.array(rows, float)
    return Curve(
        solver, "F* reached", np.arange(n), np.array(seconds), np.arange(2.0, n + 2), np.array(values), nothing,
        shares, nothing, objective=min(values), accuracy=0.5, n_nonzero=3, n_features=200,
    )  # fmt: skip


class TestReport:
    def test_podium(self):
        assert podium({}) == "-"
        assert podium({"A": 3.0, "B": 1.5, "C": 2.0}) == "**B** 1.50 s; C x1.3, A x2.0"

    def test_the_librarys_solvers_do_not_compete(self):
        ours = curve([2.0, 1.0], [0.0, 0.1], solver="Prox-QN")
        paper = curve([2.0, 1.0], [0.0, 0.4])
        line = order_table({"x": (1.0, [ours, paper])}).rows[0]
        assert line[1:] == ["**BCD (LS)** 0.40 s"] * 3

    def test_rows_at_equal_time(self):
        bcd = curve([9.0, 1.009, 1.0], [0.0, 1.0, 2.0], [0, 30, 20])
        fobos = curve([9.0, 5.0, 5.0, 5.0], [0.0, 0.5, 1.5, 2.5], [0, 90, 150, 160], "FOBOS")
        lines = rows_table({"x": (1.0, [bcd, fobos])}).rows
        assert lines[0] == ["x", "to 1e-2", "1.00", "30 (15 %)", "90 (45 %)", "3.0"]
        assert lines[-1] == ["x", "its end", "2.00", "20 (10 %)", "150 (75 %)", "7.5"]

    def test_when_a_model_is_good(self):
        slow = replace(curve([2.0, 1.5, 1.0], [0.0, 1.0, 2.0]), accuracies=np.array([0.1, np.nan, 0.798]))
        never = replace(slow, solver="FOBOS", accuracies=np.full(3, 0.2))
        note = accuracy_note(Optimum("", 1.0, 1.0, "", 3, 0.8), [slow, never])
        assert note == "Accuracy at F*: 0.8000. To 99 % of it: BCD (LS) 2.00 s, FOBOS -."

    def test_means_over_splits(self):
        made = [
            {"objective_name": "MC Logistic", "strength": 1e-3, "split": split, "seconds": seconds, "sweeps": 10,
             "accuracy": 0.5 + split / 10, "share": 4.0}
            for split, seconds in ((0, 1.0), (1, 3.0))
        ]  # fmt: skip
        (found,) = averages(made)
        assert (found["seconds"], found["accuracy"]) == (2.0, 0.55)


class TestClock:
    def test_looking_and_samples_take_no_time(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("harness.curves.process_time", lambda: now[0])

        def steps(*_):
            for share, seconds in ((1.0, 1.0), (0.5, 5.0), (0.5, 5.0), (1.0, 2.0)):
                now[0] += seconds
                yield SimpleNamespace(sample_fraction=share, point=SimpleNamespace(coords=None, weights=None))

        def look(_):
            now[0] += 7.0

        recording = Recording(SimpleNamespace(steps=steps), True, look, counts_samples=False)
        for _ in recording.steps(None, None, None):
            now[0] += 0.25  # of whoever asks for the steps
        assert recording.seconds == [1.0, 3.75]  # without looks and samples
        assert recording.now == 4.0

    def test_limits_are_of_seconds_without_pauses(self):
        recording = Recording(None)
        stopping = Stopping(Limits(2.0, value=1.0), recording, scale=0.1)
        progress = SimpleNamespace(sample_fraction=1.0, value=30.0)
        recording.now = 1.5
        assert not stopping(progress)
        recording.now = 2.0
        assert stopping(progress)
        assert stopping.is_over_time
        assert Stopping(Limits(9.0, value=3.0), recording, 0.1)(progress)


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

    def test_without_a_choice_all_of_the_paper(self, tmp_path, monkeypatch):
        made = []
        for kind in ("figure", "table"):
            monkeypatch.setattr(Paper, kind, lambda self, name, kind=kind: made.append((kind, name)))
        assert CliRunner().invoke(reproduce_bcd.app, ["--output", str(tmp_path)]).exit_code == 0
        assert made == [*(("figure", number) for number in "2345"), ("table", "2")]

    @pytest.mark.parametrize(("name", "how"), [("mnist", "crfqn data get mnist"), ("amazon7", "by hand")])
    def test_data_that_is_asked_for_and_not_here(self, tmp_path, name, how):
        result = CliRunner().invoke(
            reproduce_bcd.app, ["--figure", "2", "--data", name, "--output", str(tmp_path / "out")]
        )
        assert result.exit_code == 3
        assert how in result.output
        assert not (tmp_path / "out").exists()
