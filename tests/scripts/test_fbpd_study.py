"""The study of sparse multiclass SVMs: a quick run from the command line, what it writes, and how levels are read."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

import reproduce_fbpd
from harness.data import leukemia
from reproduce_fbpd import FISTA, LOSSES, PENALTIES, ByChange

PATIENTS = {"train": (1, 2, 28), "independent": (39, 67, 50)}  # a B, a T and a myeloid leukemia in each
GENES = 7

# The strongest penalties of the study leave no weights.
pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")


def run(*arguments):
    return CliRunner().invoke(reproduce_fbpd.app, list(arguments))


def rows_of(path):
    with path.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce_fbpd, "QUICK_MOST", 10)
        for choice in (["--table", "1", "--alpha", "1", "--alpha", "3"], ["--figure", "3", "--alpha", "1"]):
            result = run(*choice, "--quick", "--output", str(path))
            assert result.exit_code == 0, result.output
    return path


def test_table_1_has_all_losses_under_all_penalties(folder):
    rows = rows_of(folder / "table-1.csv")
    assert {(row["penalty"], row["method"]) for row in rows} == {(p, m) for p in PENALTIES for m in LOSSES}
    by_case = {(row["penalty"], row["method"], float(row["alpha"])): row for row in rows}
    weak, strong = sorted({alpha for *_, alpha in by_case})
    for penalty in PENALTIES[1:]:
        assert float(by_case[penalty, "hinge", weak]["zeros"]) < float(
            by_case[penalty, "hinge", strong]["zeros"]
        )
    assert all(float(row["zeros"]) < 50 for row in rows if row["penalty"] == "l2")
    assert min(int(row["errors"]) for row in rows if row["method"] == "hinge") < 0.5 * int(rows[0]["of"])


def test_figure_3_times_both_algorithms(folder):
    rows = rows_of(folder / "figure-3.csv")
    assert {row["method"] for row in rows} == {*LOSSES, "Algorithm 2"}
    assert {row["per_class"] for row in rows} == {"3", "5", "10"}
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert {row["status"] for row in rows if row["method"] in ("square", "logit")} <= {"rule_met", "max_iter"}
    assert (folder / "figure-3.svg").stat().st_size > 1000
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert "    python scripts/reproduce_fbpd.py --figure 3 --alpha 1 --quick\n" in page


def test_distances_fall_towards_the_last_weights():
    followed = ByChange(FISTA(restart=None), 1e-3)
    found = reproduce_fbpd.fit(reproduce_fbpd.digits().subset(3, 0), "l1/linf", "square", 3.0, followed)
    seconds, distances = followed.distances()
    assert found["status"] == "rule_met"
    assert np.all(np.diff(seconds) > 0)
    assert distances[0] == 1.0  # from zero
    assert distances[-1] < 0.1


def levels(seed):
    return np.random.default_rng(seed).integers(-500, 30_000, (GENES, 3)).astype(float)


@pytest.fixture
def expression(tmp_path):
    """The Broad Institute's form: a row a gene, and beside the levels of each patient a column of calls."""
    for seed, (part, patients) in enumerate(PATIENTS.items()):
        head = ["Gene Description", "Gene Accession Number", *(w for p in patients for w in (str(p), "call"))]
        lines = [
            ["words", f"gene_{gene}", *(w for level in row for w in (f"{level:g}", "A"))]
            for gene, row in enumerate(levels(seed))
        ]
        text = "".join("\t".join(line) + "\n" for line in [head, *lines])
        (tmp_path / f"data_set_ALL_AML_{part}.tsv").write_text(text, encoding="latin-1")
    return tmp_path


def test_levels_are_logarithms_within_the_scanner_s_range(expression):
    items = leukemia(expression)
    assert items.y_train.tolist() == ["B", "T", "AML"] == items.y_test.tolist()
    expected = [scipy.stats.zscore(np.log(levels(seed).T.clip(100.0, 16000.0)), axis=1) for seed in (0, 1)]
    means = expected[0].mean(axis=0)
    np.testing.assert_allclose(items.X_train, expected[0] - means, atol=1e-12)
    np.testing.assert_allclose(items.X_test, expected[1] - means, atol=1e-12)


def test_a_folder_without_the_tables(tmp_path):
    result = run("--table", "1", "--leukemia", str(tmp_path), "--output", str(tmp_path / "out"))
    assert result.exit_code == 3
