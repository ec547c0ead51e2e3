"""Studies of papers, quick runs end to end: what they write, and its numbers recomputed.

What the scripts measure is not looked at here, but that they write what they have measured. Theorem 1 is the exception:
it is checked, on one problem.
"""

from __future__ import annotations

import csv
import importlib
import json
import re
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

import reproduce_bcd
import reproduce_fbpd
import reproduce_prox_qn
from harness import curves, pages
from harness.curves import Study
from harness.data import DATA, QUICK_SHAPE, Source
from harness.drawing import Panel
from harness.pages import Folder, Optimum, Page
from harness.report import shown
from problems import make_problem
from reproduce_fbpd import FISTA, LOSSES, PENALTIES, ByChange
from reproduce_prox_qn import FIGURES, METHOD, PEER, TABLES, WithoutShrinking, converge

from crfqn.penalties import ElasticNet
from crfqn.solvers.prox_qn import ProxQN

# The strongest penalties of the study of sparse SVMs leave no weights.
pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
SECONDS = 1.0  # of Prox-QN's study: enough for weights on a busy processor
SHOWN = {
    "bcd": ("BCD (LS)", "FOBOS"),
    "prox-qn": ("Prox-QN", "OWL-QN"),
}  # the more, the more there is to compile
CASES = {
    "bcd": [reproduce_bcd.Case(Source(DATA["sector"], is_quick=True), strength) for strength in (1e-3, 1e-5)],
    "prox-qn": FIGURES["digits"].quick().cases,
}
CURVES = {"bcd": "figure-4", "prox-qn": "figure-digits"}


def run(script, *words):
    return CliRunner().invoke(importlib.import_module(script).app, list(words))


def quickly(script, path, *words):
    result = run(script, *words, "--quick", "--output", str(path))
    assert result.exit_code == 0, result.output


def write_bcd(path):
    """All figures and the table, with two lambdas."""
    settings = {"is_quick": True, "seconds": 0.2, "n_splits": 1, "solvers": SHOWN["bcd"], "step": 9}
    reproduce_bcd.Paper(path, [], **settings).make(["2", "4", "5"], ["2"])


def write_prox_qn(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, "digits", replace(FIGURES["digits"], solvers=SHOWN["prox-qn"]))
        reproduce_prox_qn.Paper(path, is_quick=True, seconds=SECONDS).make(["digits"], None)


def write_fbpd(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce_fbpd, "QUICK_MOST", 5)
        for choice in (["--table", "1", "--alpha", "1", "--alpha", "3"], ["--figure", "3", "--alpha", "1"]):
            quickly("reproduce_fbpd", path, *choice)


def write_simplex(path):
    choice = [
        "--figure",
        "1",
        "--figure",
        "2",
        "--figure",
        "4",
        "--table",
        "2",
        "--passes",
        "2",
        "--splits",
        "1",
    ]
    quickly("reproduce_simplex_svm", path, *choice)


WRITERS = {
    "bcd": write_bcd,
    "prox-qn": write_prox_qn,
    "fbpd": write_fbpd,
    "simplex": write_simplex,
    "least squares": lambda path: quickly("reproduce_least_squares", path),
}


@pytest.fixture(autouse=True, scope="module")
def _no_data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CRFQN_DATA", raising=False)
        patch.setenv("CRFQN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a quick run of a study, which is run once."""

    @cache
    def write(name):
        path = tmp_path_factory.mktemp("study")
        WRITERS[name](path)
        return path

    return write


@pytest.fixture
def study(request, written):
    """The name of a study and the folder of a quick run."""
    return request.param, written(request.param)


def of(*names):
    return pytest.mark.parametrize("study", names, indirect=True)


def rows_of(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def column(rows, name, **cells):
    """Numbers of a column, nan where it is empty, of the rows with these cells."""
    chosen = [row for row in rows if all(row[key] == cell for key, cell in cells.items())]
    return np.array([float(row[name] or "nan") for row in chosen])


ALL_FIGURES = ["figure-1", "figure-2", "figure-4", "table-1", "table-2"]


@pytest.mark.parametrize(
    ("study", "sections", "command", "others"),
    [
        ("bcd", ["figure-2", "figure-4", "figure-5", "table-2"],
         "bcd.py --figure 5 --splits 1 --quick --max-seconds 0.2", {"optima.json"}),
        ("prox-qn", ["figure-digits"], "prox_qn.py --figure digits --quick --max-seconds 1", {"optima.json"}),
        ("fbpd", ["table-1", "figure-3"], "fbpd.py --figure 3 --alpha 1 --quick", set()),
        ("simplex", ["figure-1", "figure-2", "figure-4", "table-2"],
         "simplex_svm.py --figure 1 --quick --passes 2", set()),
        ("least squares", ALL_FIGURES, "least_squares.py --table 1 --quick --draws 1", set()),
    ],
    indirect=["study"],
)  # fmt: skip
def test_a_study_writes_its_sections_and_nothing_else(study, sections, command, others):
    name, folder = study
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert f"    python scripts/reproduce_{command}\n" in page
    for section in sections:
        assert f"## {section.capitalize().replace('-', ' ')}: " in page
        if section.startswith("figure"):
            assert f"]({section}.svg)" in page
            assert (folder / f"{section}.svg").stat().st_size > 1000
    for library in ("processor", "Python", "numba", "matplotlib"):
        assert library in page
    files = {file.name for file in folder.iterdir()} - others
    expected = {f"{section}.svg" for section in sections if section.startswith("figure")}
    expected |= {"page.md", "sections.json"}
    assert expected <= files <= expected | {f"{section}.csv" for section in sections}
    assert others <= {file.name for file in folder.iterdir()}
    if name == "bcd":
        assert reproduce_bcd.CONSTANTS in page
        for number in ("sigma = 0.01", "omega = 0.5", "tau = 0.001", "K = 200"):
            assert number in reproduce_bcd.CONSTANTS
        assert "Sector: the publisher's files are not on this machine." in page


@of("bcd", "prox-qn")
def test_curves_begin_at_zero_weights_and_their_differences_are_those_to_the_optimum(study):
    name, folder = study
    rows = rows_of(folder, CURVES[name])
    optima = {key: Optimum(**each) for key, each in json.loads((folder / "optima.json").read_text()).items()}
    at_zero = QUICK_SHAPE["n_classes"] - 1  # margins of 1 over all others
    if name == "prox-qn":
        at_zero = CASES[name][0].load().X_train.n_positions * np.log(10)  # log Z = T log K
    assert {row["problem"] for row in rows} == {str(case) for case in CASES[name]}
    for case in CASES[name]:
        known = optima[str(case)]
        for solver in SHOWN[name]:
            cells = {"problem": str(case), "solver": solver}
            objective = column(rows, "objective", **cells)
            assert objective[0] == pytest.approx(at_zero, rel=1e-12)
            assert column(rows, "rows" if name == "bcd" else "n_nonzero", **cells)[0] == 0
            for clock in ("seconds", "passes"):
                assert (np.diff(column(rows, clock, **cells)) >= 0).all()
            difference = column(rows, "relative_difference", **cells)
            np.testing.assert_allclose(difference, objective / known.value - 1, atol=1e-12)
            assert objective.min() >= known.value > known.lower_bound
            bounds = np.minimum.accumulate(objective) * (1.0 - column(rows, "gap", **cells))
            assert np.nanmax(bounds, initial=-np.inf) <= known.lower_bound
    page = (folder / "page.md").read_text()
    recomputed = re.findall(r"recomputes all final objectives to (\S+)\.\n", page)
    assert len(recomputed) == {"bcd": 3, "prox-qn": 1}[name]
    assert max(map(float, recomputed)) < 1e-9


@of("prox-qn")
def test_the_page_counts_seconds_and_passes_from_the_rows(study):
    _, folder = study
    rows, page = rows_of(folder, "figure-digits"), (folder / "page.md").read_text()
    optimum = json.loads((folder / "optima.json").read_text())[str(CASES["prox-qn"][0])]["value"]
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    head = [cell.strip() for cell in lines[0].split("|")[1:-1]]
    assert [line.split("|")[1].strip() for line in lines[1:]] == list(SHOWN["prox-qn"])
    for line in lines[1:]:
        cells = dict(zip(head, (cell.strip() for cell in line.split("|")[1:-1]), strict=True))
        solver = cells[""]
        value, accuracy = column(rows, "objective", solver=solver), column(rows, "accuracy", solver=solver)
        for level in curves.LEVELS:
            reached = np.flatnonzero(value <= optimum * (1 + level))
            for unit, start, form in (("seconds", "s to", ".2f"), ("passes", "passes to", ".1f")):
                at = column(rows, unit, solver=solver)
                expected = format(at[reached[0]], form) if reached.size else "-"
                assert cells[f"{start} {shown(level)}"] == expected
        assert cells["ended at"] == f"{value.min() / optimum - 1:.1e}"
        assert np.isfinite(accuracy[0])
        assert np.nanmax(accuracy) > 0.8


@of("prox-qn")
def test_a_known_optimum_is_not_searched_again(study, monkeypatch):
    monkeypatch.setattr(curves, "run_case", lambda *_: pytest.fail("measured again"))
    again, (case,) = Study(Folder(study[1], Page()), SECONDS, True), CASES["prox-qn"]
    again.run(case, [])
    with pytest.raises(pytest.fail.Exception):
        again.run(case, SHOWN["prox-qn"])  # but curves are


@of("fbpd")
def test_all_losses_under_all_penalties_and_both_algorithms(study):
    rows = rows_of(study[1], "table-1")
    assert {(row["penalty"], row["method"]) for row in rows} == {(p, m) for p in PENALTIES for m in LOSSES}
    zeros = {(row["penalty"], row["method"], float(row["alpha"])): float(row["zeros"]) for row in rows}
    for penalty in PENALTIES[1:]:
        assert zeros[penalty, "hinge", 1.0] < zeros[penalty, "hinge", 3.0]
    assert all(share < 50 for (penalty, *_), share in zeros.items() if penalty == "l2")
    assert min(int(row["errors"]) for row in rows if row["method"] == "hinge") < 0.5 * int(rows[0]["of"])
    rows = rows_of(study[1], "figure-3")
    assert {row["method"] for row in rows} == {*LOSSES, "Algorithm 2"}
    assert {row["per_class"] for row in rows} == {"3", "5", "10"}
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert {row["status"] for row in rows if row["method"] in ("square", "logit")} <= {"rule_met", "max_iter"}


def test_distances_fall_towards_the_last_weights():
    followed = ByChange(FISTA(restart=None), 1e-3)
    record = reproduce_fbpd.fit(reproduce_fbpd.digits().subset(3, 0), "l1/linf", "square", 3.0, followed)
    seconds, distances = followed.distances()
    assert record["status"] == "rule_met"
    assert np.all(np.diff(seconds) > 0)
    assert distances[0] == 1.0  # from zero
    assert distances[-1] < 0.1


@of("simplex")
def test_exact_methods_lower_the_dual_most(study):
    _, folder = study
    rows = rows_of(folder, "figure-1")
    last = {row["method"]: float(row["dual_objective"]) for row in rows if row["passes"] == "2"}
    assert set(last) == {"Sort", "Pivot", "Bisection", "SMO", "Frank-Wolfe"}
    assert last["Sort"] == pytest.approx(last["Pivot"], rel=1e-9)
    assert max(last["Sort"], last["Pivot"]) < min(last["SMO"], last["Frank-Wolfe"])
    assert all(0.0 < float(row["accuracy"]) <= 1.0 for row in rows)
    rows = rows_of(folder, "table-2")
    assert sorted({row["passes"] for row in rows}) == ["1", "3", "5"]
    assert len(rows) == 15
    seconds = column(rows, "seconds", method="Sort").tolist()
    assert seconds == sorted(seconds)
    assert {row["classes"] for row in rows_of(folder, "figure-2")} == {"5", "6"}
    assert len({row["C"] for row in rows_of(folder, "figure-4")}) == 5


@of("least squares")
def test_errors_are_low_and_on_the_page(study):
    rows, page = rows_of(study[1], "table-1"), (study[1] / "page.md").read_text()
    assert [row["method"] for row in rows] == ["linear", "logistic", "calibrated"] * 2
    for row in rows:
        assert float(row["error"]) < 20.0
        assert f"{float(row['error']):.2f}" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bcd --figure 6", "'6' is not one of"),
        ("bcd --table 1", "'1' is not one of"),
        ("bcd --data letters", "'letters' is not one of"),
        ("bcd --figure 5 --splits 0", "--splits"),
        ("prox_qn --figure 9", "'9' is not one of"),
        ("prox_qn --table 3", "'3' is not one of"),
        ("prox_qn --figure 1 --max-seconds 0", "--max-seconds"),
        ("bcd --figure 2 --data mnist", "crfqn data get mnist"),
        ("bcd --figure 2 --data amazon7", "by hand"),
        ("fbpd --table 1 --leukemia .", "expected data_set_ALL_AML_train.tsv"),
    ],
)
def test_a_wrong_choice_and_data_that_is_not_here(words, message, tmp_path):
    script, *options = words.split()
    result = run(f"reproduce_{script}", *options, "--output", str(tmp_path / "out"))
    is_choice = message[0] in "'-"
    assert result.exit_code == (2 if is_choice else 3)
    assert message in " ".join(result.output.replace("│", " ").split())
    assert script == "fbpd" or not (tmp_path / "out").exists()


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (RuntimeError, 1)])
def test_a_figure_that_is_stopped_while_written_leaves_nothing(tmp_path, monkeypatch, error, code):
    def stop(*_):
        raise error("stopped")

    monkeypatch.setattr(Study, "measure", lambda self, figure: {})
    monkeypatch.setattr(curves, "curve_records", lambda *_: [{"problem": "x"}])
    monkeypatch.setattr(curves, "panels_of", lambda *_: [Panel("", {"Prox-QN": ([1], [1])}, "x", "y")])
    monkeypatch.setattr(pages, "write_records", stop)
    result = run("reproduce_prox_qn", "--figure", "digits", "--output", str(tmp_path / "out"))
    assert result.exit_code == code
    assert list((tmp_path / "out").iterdir()) == []


def test_built_in_data_stand_in_for_what_is_not_here(tmp_path):
    quickly("reproduce_prox_qn", tmp_path, "--table", "1", "--table", "2", "--max-seconds", "0.1")
    page = (tmp_path / "page.md").read_text()
    assert "OCR is not on this machine: digits, built in, take its place here" in page
    assert "LSHTC1 is not on this machine: docstrings, built in, take its place here" in page
    assert "the paper's accuracy" not in page
    assert json.loads((tmp_path / "optima.json").read_text()).keys() == {
        str(case.quick()) for name in ("1", "2") for case in TABLES[name]
    }


def test_a_folder_with_a_file_of_something_else(tmp_path):
    (tmp_path / "optima.json").write_text("not JSON")
    result = run("reproduce_prox_qn", "--figure", "digits", "--output", str(tmp_path))
    assert result.exit_code == 2
    assert "optima.json: expected JSON" in result.output


def test_without_shrinking_all_coordinates_are_active():
    problem = make_problem(0)
    objective, penalty = problem.objective(), ElasticNet(1.0)
    start = objective.at(np.empty(0, np.int64), np.empty(0))
    states = list(islice(WithoutShrinking(ProxQN.paper(), 10).steps(objective, penalty, start), 12))
    assert [state.n_active for state in states] == [problem.n_coords] * len(states)
    value = [state.value for state in states]
    assert np.all(np.diff(value) <= 0)
    best = problem.optimum(1.0, 0.0)[0]
    assert best <= value[-1] <= 1.01 * best


def test_superlinear_convergence():
    """Theorem 1: ratios fall to less than two thirds; those of proximal gradient descent settle."""
    convergence = converge(0)
    geometry = convergence.geometry
    # Lost: 2 copies and 6 features with a shift of all labels, and a shift of all edges: 3 * 2 + 6 + 1.
    assert geometry.basis.shape == (33, 33 - 13)
    assert geometry.angle < 1e-8
    assert geometry.violation < 1e-10
    ours, theirs = convergence.thirds(METHOD), convergence.thirds(PEER)
    assert ours[2] < 2 / 3 * ours[0]
    assert theirs[2] == pytest.approx(theirs[1], rel=0.02)
    assert ours[2] < 0.5 * theirs[2]
    assert convergence.ratios(METHOD).size < 30
