"""The harness of the studies: the judge by loops, folders that are never half-written, data of others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from harness import pages
from harness.data import leukemia
from harness.judging import LOSSES, judge, weights_of
from harness.pages import Folder, Page, Publisher, Section
from harness.problems import Problem
from reproduce_bcd import OBJECTIVES, Task
from reproduce_least_squares import spectrum

from crfqn.objectives.losses.likelihood import MultinomialLogistic
from crfqn.penalties import GroupLasso

PATIENTS = {"train": (1, 2, 28), "independent": (39, 67, 50)}  # a B, a T and a myeloid leukemia in each


@pytest.fixture
def problem():
    random = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((12, 5), density=0.6, rng=random, format="csr")
    labels = np.array(["a", "b", "c"])[np.arange(12) % 3]
    return Problem(matrix[:9], labels[:9], matrix[9:], labels[9:])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_grouped", [True, False])
def test_the_judges_objective_by_loops(problem, loss, is_grouped):
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


def test_a_task_is_a_sum_under_lambda_times_the_items(problem):
    task = Task(problem, 0.1, OBJECTIVES["MC Logistic"])
    assert isinstance(task.penalty, GroupLasso)
    assert task.penalty.group_l1 == pytest.approx(0.9)
    assert isinstance(task.objective.whole.loss, MultinomialLogistic)
    assert task.objective.at(np.empty(0, np.int64), np.empty(0)).value == pytest.approx(9 * np.log(3))


def test_weights_as_a_solver_lays_them_out():
    coords, values = np.array([1, 5, 6, 9]), np.array([1.0, 2.0, 3.0, 4.0])
    weights, edges = weights_of(coords, values, n_states=2, n_features=3)
    assert weights.toarray().tolist() == [[0, 1, 0], [0, 0, 2]]
    assert edges.tolist() == [[3, 0], [0, 4]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_failure_leaves_the_files_of_before(tmp_path, error):
    (tmp_path / "old.csv").write_text("old")

    def write():
        with Folder(tmp_path, Page()).all_or_nothing() as stage:
            (stage / "old.csv").write_text("new")
            raise error

    with pytest.raises(error):
        write()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("old.csv", "old")]


def test_sections_of_other_commands_stay(tmp_path):
    folder = Folder(tmp_path, Page())
    for order, name in ((2, "second"), (1, "first"), (2, "second")):
        with folder.all_or_nothing() as stage:
            folder.add(name, Section(order, name, f"make {name}", "a machine", f"text of {name}"), stage)
    page = (tmp_path / "page.md").read_text()
    assert page.count("## second") == page.count("## first") == 1
    assert page.index("text of first") < page.index("text of second")


def test_a_study_goes_on_where_it_stopped(tmp_path, monkeypatch):
    measured = []

    class Paper(Publisher):
        page = Page(order=("figure-1", "figure-2"))

        def figure(self, number):
            measured.append(number)
            self.folder.publish(f"figure-{number}", "title", [])

    for commit, more, seconds in (
        ("abc", "", 1),
        ("abc", "", 1),
        ("abc", " --splits 2", 1),
        ("abc", "", 2),
        ("", "", 2),
    ):
        monkeypatch.setattr(pages, "commit", lambda commit=commit: commit)
        paper = Paper()
        paper.open(tmp_path, more, seconds=seconds)
        paper.make(["1"] if not measured else None, None)
    assert "".join(measured) == "12" + 3 * "12"


@pytest.mark.parametrize(("commit", "n_measured"), [("abc", 3), ("abc+", 4), ("", 4)])
def test_of_an_interrupted_section_the_runs_that_ended_are_not_measured_again(
    tmp_path, monkeypatch, commit, n_measured
):
    monkeypatch.setattr(pages, "commit", lambda: commit)
    measured = []

    def run(seed):
        measured.append(seed)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return {"seed": seed, "values": np.arange(seed)}

    def section():
        folder = Folder(tmp_path, Page())
        return [folder.once(f"seed {seed}", run, seed) for seed in (3, 4)]

    with pytest.raises(KeyboardInterrupt):
        section()
    assert [found["values"].tolist() for found in section()] == [[0, 1, 2], [0, 1, 2, 3]]
    assert len(measured) == n_measured


def test_expression_levels_are_logarithms_within_the_scanner_s_range(tmp_path):
    """The Broad Institute's form: a row a gene, and beside the levels of each patient a column of calls."""
    pytest.importorskip("pandas")
    levels = [np.random.default_rng(seed).integers(-500, 30_000, (7, 3)).astype(float) for seed in (0, 1)]
    for table, (part, patients) in zip(levels, PATIENTS.items(), strict=True):
        head = ["Gene Description", "Gene Accession Number", *(w for p in patients for w in (str(p), "call"))]
        lines = [
            ["words", f"gene_{gene}", *(w for level in row for w in (f"{level:g}", "A"))]
            for gene, row in enumerate(table)
        ]
        text = "".join("\t".join(line) + "\n" for line in [head, *lines])
        (tmp_path / f"data_set_ALL_AML_{part}.tsv").write_text(text, encoding="latin-1")
    items = leukemia(tmp_path)
    assert items.y_train.tolist() == ["B", "T", "AML"] == items.y_test.tolist()
    train, test = (scipy.stats.zscore(np.log(table.T.clip(100.0, 16000.0)), axis=1) for table in levels)
    np.testing.assert_allclose(items.X_train, train - train.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(items.X_test, test - train.mean(axis=0), atol=1e-12)


def test_spectra():
    x = np.random.default_rng(0).normal(size=(30, 6))
    np.testing.assert_allclose(spectrum(x, 4), np.linalg.svd(x, compute_uv=False)[:4])
