"""Scores of documents by hand."""

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
