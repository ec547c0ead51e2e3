"""Every script and every benchmark starts: its page of help names its options."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from harness.report import Promise, Report, Table, commit
from typer.main import get_command
from typer.testing import CliRunner

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
FILES = sorted(path.stem for path in SCRIPTS.glob("*.py"))


def apps():
    """The scripts that are programs of typer, by name."""
    modules = {
        name: importlib.import_module(name)
        for name in FILES
        if "typer" in (SCRIPTS / f"{name}.py").read_text()
    }
    return {name: module.app for name, module in modules.items() if hasattr(module, "app")}


@pytest.mark.parametrize("name", FILES)
def test_a_script_starts(name):
    if name in apps():
        result = CliRunner().invoke(apps()[name], ["--help"])
        assert result.exit_code == 0, result.output
        assert "--help" in result.output
    else:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
        done = subprocess.run(
            [sys.executable, SCRIPTS / f"{name}.py", "--help"],
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        assert "usage" in done.stdout.lower()


@pytest.mark.parametrize("name", sorted(get_command(apps()["benchmark"]).commands))
def test_a_benchmark_starts(name):
    result = CliRunner().invoke(apps()["benchmark"], [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "--help" in result.output


def test_a_page_is_made_of_the_records_that_comparisons_have_written(tmp_path):
    report = Report(
        "spans", "Span F1", ["numpy"], [Promise("seconds", "< 1", "0.5", True), Promise("memory", "-", "-", None)],
        ["A note."], [Table("Seconds", ["", "s"], [["a", "1"], ["b", "2"]], ["Medians."]), Table("Empty", ["x"], [])],
        {"times": np.array([0.5, np.nan])}, {"made-up": "abc"},
    )  # fmt: skip
    report.write(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert all(line["facts"]["commit"] == commit() and line["data"] == {"made-up": "abc"} for line in lines)
    assert {"numpy", "processor", "threads"} <= lines[0]["facts"].keys()
    assert [line["value"] for line in lines if "number" in line] == [[0.5, None]]
    result = CliRunner().invoke(apps()["benchmark"], ["page", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for text in ("# Span F1", "| a | 1 |", "- Medians.", "| seconds | < 1   | 0.5      | yes |", "- A note."):
        assert text in result.output


def test_all_goes_on_where_it_has_stopped(tmp_path, monkeypatch):
    ran = []

    def run(command, **_):
        ran.append(command[2])
        return subprocess.CompletedProcess(command, int(command[2] == "swap"))

    benchmark = importlib.import_module("benchmark")
    monkeypatch.setattr(benchmark, "commit", lambda: "abc")
    monkeypatch.setattr(benchmark.subprocess, "run", run)
    words = ["all", "--output", str(tmp_path), "--only", "spans", "--only", "swap"]
    results = [CliRunner().invoke(benchmark.app, words) for _ in range(2)]
    assert ran == ["spans", "swap", "swap"]
    assert all(result.exit_code == 1 for result in results)
