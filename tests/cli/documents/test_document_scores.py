"""Scores of documents by hand."""

import json

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.metrics.evaluation import log_likelihood, score_documents
from crfqn.taxonomy.tree import LabelTree


class TestScores:
    TREE = LabelTree.from_edges([("a", "a1"), ("a", "a2"), (None, "b")])

    def test_a_taxonomy(self):
        scores = score_documents(["a1", "a1", "b", "a2"], ["a1", "a2", "b", "b"], self.TREE)
        assert scores.accuracy == 0.5
        found = scores.hierarchy
        assert (found.precision, found.recall, found.f1) == pytest.approx((4 / 6, 4 / 7, 8 / 13))
        assert found.tree_induced_error == (0 + 2 + 0 + 3) / 4
        assert found.level_accuracy == pytest.approx([0.75, 1 / 3])
        assert {row.label: row.support for row in scores.labels} == {"a1": 2, "a2": 1, "b": 1}

    def test_items_without_a_label(self):
        scores = score_documents(["a1", "a1", "b", "a2"], ["a1", None, "a", None], self.TREE)
        assert (scores.accuracy, scores.coverage) == (0.25, 0.5)
        assert {row.label: (row.precision, row.recall) for row in scores.labels} == {
            "a": (0, 0),
            "a1": (1, 0.5),
            "a2": (0, 0),
            "b": (0, 0),
        }
        # Predicted are a1 with a, and a; of the 7 true nodes 2 are among them.
        found = scores.hierarchy
        assert (found.precision, found.recall) == pytest.approx((2 / 3, 2 / 7))
        assert found.tree_induced_error == (0 + 2 + 2 + 2) / 4

    def test_levels_that_no_label_reaches(self):
        assert score_documents(["b"], ["b"], self.TREE).hierarchy.level_accuracy == [1, None]

    def test_refusals(self):
        with pytest.raises(InputError, match="lengths"):
            score_documents(["a"], ["a", "b"])
        with pytest.raises(InputError, match="no labelled items"):
            score_documents([], [])
        with pytest.raises(InputError, match="no node named 'c'"):
            score_documents(["c"], ["b"], self.TREE)

    def test_log_likelihood(self):
        class Model:
            classes_ = np.array(["a", "b"])

            def log_likelihood(self, X, y):
                return np.array([-1.0 if label == "a" else -2.0 for label in y])

        assert log_likelihood(Model(), None, ["a", "b", "b"]) == -5
        assert log_likelihood(Model(), None, ["a", "c"]) == -np.inf


@pytest.mark.parametrize("structure", ["flat", "taxonomy"])
def test_coverage(here, tmp_path, structure):
    """What the table says agrees with JSON, and with the labels that are written."""
    texts = "x/a\tgood day\nx/b\tbad day\ny\tfine work\nx/b\tbad work\n"
    (tmp_path / "train.text").write_text(texts)
    (tmp_path / "test.text").write_text(texts + "y\tunheard of\n")
    here("train", "--data", "train.text", "--structure", structure, "-q", "-o", "m.crfqn", code=0)
    for p in (0, 0.45, 1):
        asked = ("m.crfqn", "test.text", "--threshold", p)
        scores = json.loads(here("evaluate", *asked, "--json", code=0).stdout)
        labels = here("predict", *asked, "--format", "text", code=0).stdout.split()
        assert scores["coverage"] == sum(label != "-" for label in labels) / 5
        table = here("evaluate", *asked, code=0).stdout
        assert f"coverage               {scores['coverage']:.4f}" in table
        if scores["coverage"]:
            assert f"accuracy of these      {scores['accuracy'] / scores['coverage']:.4f}" in table
    assert scores["coverage"] == 0
    assert "of these" not in table


def test_coverage_of_positions(here, tmp_path):
    (tmp_path / "names.conll").write_text(
        "Ann B-PER\nLee I-PER\nlives O\nin O\nRome B-LOC\n\nBob B-PER\nsings O\n" * 3
    )
    here("train", "--data", "names.conll", "--l1", 0.3, "-q", "-o", "m.crfqn", code=0)
    marginals = here("predict", "m.crfqn", "names.conll", "--marginals", code=0).stdout
    best = [
        max(float(pair.rsplit(":")[1]) for pair in line.split("\t")[1:])
        for line in marginals.split("\n")
        if line
    ]
    p = sorted(best)[len(best) // 2]
    scores = json.loads(here("evaluate", "m.crfqn", "names.conll", "--threshold", p, "--json", code=0).stdout)
    assert 0 < scores["coverage"] < 1
    assert scores["coverage"] == pytest.approx(sum(q >= p - 1e-6 for q in best) / len(best), abs=0.05)
    assert scores["chunks"]["recall"] < 1
    written = here("predict", "m.crfqn", "names.conll", "--threshold", p, code=0).stdout.split()
    assert written.count("-") == round((1 - scores["coverage"]) * len(written))
