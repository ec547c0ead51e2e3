"""The study of projections onto the simplex: a quick run from the command line, and what it writes."""

from __future__ import annotations

import csv

import pytest
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

import reproduce_simplex_svm


def run(*arguments):
    return CliRunner().invoke(reproduce_simplex_svm.app, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("study")
    choice = ["--figure", "1", "--figure", "2", "--figure", "4", "--table", "2"]
    result = run(*choice, "--quick", "--passes", "2", "--splits", "1", "--output", str(path))
    assert result.exit_code == 0, result.output
    return path


def rows_of(path):
    with path.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_passes_of_exact_methods_lower_the_dual_most(folder):
    rows = rows_of(folder / "figure-1.csv")
    last = {row["method"]: float(row["dual_objective"]) for row in rows if row["passes"] == "2"}
    assert set(last) == {"Sort", "Pivot", "Bisection", "SMO", "Frank-Wolfe"}
    assert last["Sort"] == pytest.approx(last["Pivot"], rel=1e-9)
    assert max(last["Sort"], last["Pivot"]) < min(last["SMO"], last["Frank-Wolfe"])
    assert all(0.0 < float(row["accuracy"]) <= 1.0 for row in rows)


def test_table_2_has_means_after_1_3_and_5_passes(folder):
    rows = rows_of(folder / "table-2.csv")
    assert sorted({row["passes"] for row in rows}) == ["1", "3", "5"]
    assert len(rows) == 15
    seconds = [float(row["seconds"]) for row in rows if row["method"] == "Sort"]
    assert seconds == sorted(seconds)


def test_other_figures_and_the_page(folder):
    assert {row["classes"] for row in rows_of(folder / "figure-2.csv")} == {"5", "6"}
    assert len({row["C"] for row in rows_of(folder / "figure-4.csv")}) == 5
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert "    python scripts/reproduce_simplex_svm.py --figure 1 --quick --passes 2\n" in page
    assert all((folder / f"figure-{number}.svg").stat().st_size > 1000 for number in "124")
