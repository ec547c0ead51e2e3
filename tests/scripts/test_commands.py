"""Every script and every benchmark starts: its page of help names its options."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from benchmarks import flat
from harness import comparing
from harness.comparing import Comparison, Results, Section
from harness.data import made_up
from harness.measuring import run_within
from harness.problems import Problem
from typer.main import get_command
from typer.testing import CliRunner

from crfqn.errors import CrfqnError, DataUnavailableError, InputError
from crfqn.taxonomy.tree import LabelTree

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
FILES = sorted(path.stem for path in SCRIPTS.glob("*.py"))


def apps():
    """The programs by name."""
    return {name: importlib.import_module(name).app for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_a_script_starts(name):
    result = CliRunner().invoke(apps()[name], ["--help"])
    assert result.exit_code == 0, result.output
    assert "--help" in result.output


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (script, name)
        for script in ("benchmark", "measure")
        for name in get_command(apps()[script]).list_commands(None)
    ],
)
def test_a_command_starts(script, name):
    result = CliRunner().invoke(apps()[script], [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "--help" in result.output


def test_a_measurement_that_is_not_there():
    result = CliRunner().invoke(apps()["measure"], ["speeds"])
    assert result.exit_code == 2
    assert "No such command 'speeds'" in result.output


def sequences_line(name, seconds):
    """A line of the comparison `sequences`, of two methods by three turns; the last one has no labelling one by one."""
    fits = {
        method: [
            {"seconds": factor * each, "score": 0.9, "bytes": 2000 * factor, "rate": 1e5, "one": one}
            for each in seconds
        ]
        for method, factor, one in (("crfqn", 1, 50.0), ("CRFsuite, c1 = c2 = .1", 4, 20.0), ("Wapiti", 8, None))
    }  # fmt: skip
    measured = {"about": "3 items", "measure": "accuracy", "fits": fits | {"CRF++": []}}
    facts = {"commit": "abc", "processor": "a processor", "threads": "1"}
    return {
        "comparison": "sequences",
        "case": {"set": name, "limit": 90.0},
        "data": "0",
        "facts": facts,
        "measured": measured,
    }


def test_a_page_is_made_of_the_lines_that_comparisons_have_written(tmp_path):
    pytest.importorskip("matplotlib")
    results, readme = tmp_path / "results", tmp_path / "README.md"
    results.mkdir()
    lines = [
        sequences_line(*each) for each in (("person", [9.0]), ("company", [1.0, 3.0, 2.0]), ("person", [1.0]))
    ]
    (results / "sequences.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    readme.write_text("before\n<!-- benchmarks -->\nold\n<!-- end of benchmarks -->\nafter\n")
    words = ["page", str(results), "--manual", str(tmp_path), "--readme", str(readme)]
    pages = []
    for _ in range(2):
        result = CliRunner().invoke(apps()["benchmark"], words)
        assert result.exit_code == 0, result.output
        pages.append([(tmp_path / "benchmarks.md").read_text(), readme.read_text()])
    assert pages[0] == pages[1]
    page, front = pages[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    assert ["company", "crfqn", "2.00", "0.9000", "2", "100,000", "50", "accuracy"] in rows
    assert ["company", "Wapiti", "16.00", "0.9000", "16", "100,000", "", "accuracy"] in rows
    assert ["company", "CRF++", "> 90", "", "", "", "", "accuracy"] in rows
    assert [
        "person",
        "crfqn",
        "1.00",
        "0.9000",
        "2",
        "100,000",
        "50",
        "accuracy",
    ] in rows  # the latest of a case
    assert "processor a processor, threads 1" in page
    for kind in ("scores", "costs", "summary"):
        light, dark = (
            (tmp_path / "benchmarks" / f"sequences-{kind}{end}.svg").read_text() for end in ("", "-dark")
        )
        where = front if kind == "summary" else page
        assert (f"benchmarks/sequences-{kind}.svg" in where, f"{kind}-dark.svg" in where) == (True, True)
        assert ("CRFsuite" in light, "CRFsuite" in dark, light != dark) == (True, True, True)
    assert "old" not in front
    (row,) = [line for line in front.splitlines() if "`sequences --data company" in line]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert (cells[0], cells[2]) == ("4", "1.00 / 2.00 s, scores 0.900 / 0.900")
    assert (front.startswith("before"), front.endswith("after\n")) == (True, True)


@pytest.mark.skipif(not (ROOT / "docs" / "results").exists(), reason="the folder has no results yet")
def test_the_page_is_that_of_the_results(tmp_path):
    pytest.importorskip("matplotlib")
    readme = tmp_path / "README.md"
    readme.write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    words = ["page", str(ROOT / "docs" / "results"), "--manual", str(tmp_path), "--readme", str(readme)]
    assert CliRunner().invoke(apps()["benchmark"], words).exit_code == 0
    made = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert readme.read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_case_that_fails_leaves_the_others(tmp_path):
    def fail():
        raise ValueError("of a library")

    results = Results(Comparison("some", "Title", "About.", [], lambda records: Section([])), tmp_path)
    assert results.case({"set": "bad"}, fail) is None
    assert results.case({"set": "good"}, lambda: {"seconds": 1.0}) is not None
    with pytest.raises(CrfqnError, match="not measured: bad"):
        results.finish()
    assert [line["case"]["set"] for line in comparing.read_lines(tmp_path / "some.jsonl")] == ["good"]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "some.jsonl").write_text('{"case": {}}\n{"case": {"se\n')
    with pytest.raises(InputError, match=r"some\.jsonl, line 2: expected a case in JSON, got .*se"):
        comparing.read_lines(tmp_path / "some.jsonl")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_limit_ends_a_run_and_what_it_has_started(tmp_path):
    """In processor seconds: what sleeps does not count; a process that it has started counts, and ends too."""
    assert run_within(5.0, time.sleep, 0.1) is None  # its answer
    file = tmp_path / "pid"
    script = f"import os; open({str(file)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    begin = time.monotonic()
    assert run_within(1.0, subprocess.run, [sys.executable, "-c", script]) is None
    assert time.monotonic() - begin < 60
    stat, end = Path(f"/proc/{file.read_text()}/stat"), time.monotonic() + 20
    while stat.exists() and stat.read_text().rsplit(") ", 1)[1][0] != "Z":
        assert time.monotonic() < end


def test_long_runs_are_made_once(monkeypatch):
    monkeypatch.setattr(comparing, "LONG_TURN", -1.0)
    assert comparing.by_turns({"some": partial(int, 3)}, 2) == {"some": [3]}
    monkeypatch.setattr(comparing, "LONG_TURN", 1e9)
    assert comparing.by_turns({"some": partial(int, 3)}, 2) == {"some": [3, 3]}


@pytest.mark.parametrize(("commit", "n_measured"), [("abc", 2), ("abc+", 3)])
def test_a_case_of_the_same_commit_is_not_measured_again(tmp_path, monkeypatch, commit, n_measured):
    monkeypatch.setattr(comparing, "provenance", lambda libraries: {"commit": commit})
    comparison = Comparison("some", "Title", "About.", [], lambda records: Section([]))
    measured = []

    def measure():
        measured.append(1)
        return {"seconds": np.array([0.5, np.nan]), "data": "abc"}

    for strength in (1.0, 2.0, 1.0):
        record = Results(comparison, tmp_path).case({"l1": strength}, measure)
        assert record == {"l1": strength, "seconds": [0.5, None]}
    assert len(measured) == n_measured
    assert {line["data"] for line in comparing.read_lines(tmp_path / "some.jsonl")} == {"abc"}


def test_a_set_that_is_not_here_is_left_out(tmp_path):
    def measure():
        raise DataUnavailableError("no file")

    results = Results(Comparison("some", "Title", "About.", [], lambda records: Section([])), tmp_path)
    assert results.case({}, measure) is None
    with pytest.raises(InputError, match="nothing was measured"):
        results.finish()


def test_all_measures_each_comparison_and_says_what_failed(tmp_path, monkeypatch):
    ran = []

    def run(command, **_):
        ran.append(command[2:])
        return subprocess.CompletedProcess(command, int(command[2] == "swap"))

    benchmark = importlib.import_module("benchmark")
    monkeypatch.setattr(benchmark.subprocess, "run", run)
    words = ["all", "--output", str(tmp_path), "--only", "spans", "--only", "swap", "--full"]
    result = CliRunner().invoke(benchmark.app, words)
    assert ran == [["spans", "--output", str(tmp_path)], ["swap", "--output", str(tmp_path), "--full"]]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("sequences --data made-up --method crfqn --repeats 1", "crfqn"),
        ("classes --data few-digits --method crfqn --repeats 1", "few-digits"),
        ("text --quick --part training", "made-up"),
    ],
)
def test_comparisons_run_on_the_smallest_sets(words, name, tmp_path):
    result = CliRunner().invoke(apps()["benchmark"], [*words.split(), "--output", str(tmp_path)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert f" {name} " in result.stdout


def digits_in_a_tree():
    """Digits below two nodes, those that are even and those that are odd."""
    problem = flat.digits()
    edges = [("even" if int(digit) % 2 == 0 else "odd", digit) for digit in problem.classes]
    return replace(problem, taxonomy=LabelTree.from_edges(edges))


@pytest.mark.filterwarnings("ignore:.*seems not to be NE tag")
@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("conll2000 --penalty l1 --repeats 1", ["crfqn", "CRFsuite"]),
        ("ocr --l1 3 --repeats 1", ["crfqn", "CRFsuite"]),
        ("taxonomy --problem imageclef --l1 1 --repeats 1", ["1"]),
        ("flat --problem mnist --repeats 1", ["crfqn", "saga"]),
    ],
)
def test_comparisons_on_one_objective(words, rows, tmp_path, monkeypatch):
    """On made-up and built-in data in the place of those that take files."""
    pytest.importorskip("pycrfsuite")
    pytest.importorskip("seqeval")
    make = digits_in_a_tree if words.startswith("taxonomy") else made_up().problem
    monkeypatch.setattr(Problem, "of_recipe", lambda name: make())
    monkeypatch.setitem(flat.TASKS, "mnist", ("Digits", flat.digits, 3.0, "-", np.nan, ()))
    result = CliRunner().invoke(apps()["benchmark"], [*words.split(), "--output", str(tmp_path)])
    assert result.exit_code == 0, (result.output, result.exception)
    cells = [line.split("|")[1].strip() for line in result.stdout.splitlines() if line.startswith("| ")]
    assert {*rows} <= {*cells}
