"""TaxonomyCRF: what every wrong input is told."""

from __future__ import annotations

import re

import networkx as nx
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from taxonomy_items import ANY, GRAPH, LEAVES, TUPLES, X, Y, fitted

from crfqn import TaxonomyCRF
from crfqn.errors import DataError, InputError


class TestMessages:
    @pytest.mark.parametrize(("settings", "message"), [
        ({"labels": "stems"}, r"^labels: expected one of \['leaves', 'nodes'\], got 'stems'$"),
        ({"labels": None}, r"^labels: expected one of \['leaves', 'nodes'\], got None$"),
        ({"separator": ""}, r"^expected a separator of one or more characters"),
        ({"l1": -1}, r"^l1: expected 'auto' or a finite number >= 0, got -1$"),
        ({"class_weight": {"c": -2}}, r"^class_weight: expected finite numbers >= 0, got -2.0 for label 'c'$"),
    ])  # fmt: skip
    def test_parameters(self, settings, message):
        model = TaxonomyCRF(**settings)
        with pytest.raises(InputError, match=message):
            model.fit(X, Y)
        assert not hasattr(model, "tree_")

    @pytest.mark.parametrize(
        ("taxonomy", "y", "message"),
        [
            (GRAPH, ANY, r"^expected leaves of the taxonomy as labels, but 'a' is an inner node; labels='nodes' lets"),
            (None, ["a/b", *Y[1:-1], "a"], r"'a' is an inner node; labels='nodes'"),
            (GRAPH, ["a/w", *Y[1:]], r"has no node named 'a/w'; .*'b/w'"),
            (nx.DiGraph([("a", "b"), ("b", "a")]), Y, "the taxonomy has a cycle: 'a' -> 'b' -> 'a'"),
            (nx.DiGraph([("a", "c"), ("b", "c")]), Y, "node 'c' has two parents: 'a' and 'b'"),
            (nx.DiGraph(), Y, "at least one node"),
            (3, Y, "networkx.DiGraph"),
            ("no/such/file", Y, "there is no file"),
            (GRAPH, None, "requires y to be passed"),
            (GRAPH, Y[:-1], "inconsistent numbers of samples"),
            (None, X[:, :1] + 0.1, "Unknown label type: continuous"),
            (GRAPH, [("a", "", "x"), *TUPLES[1:]], "^item 0: expected missing levels only at the end of a path"),
            (GRAPH, [(), *TUPLES[1:]], "^item 0: expected at least one part of a path"),
            (GRAPH, np.arange(120) % 3, r"no node named 0"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore:A column-vector y")
    def test_taxonomy_and_labels(self, taxonomy, y, message):
        with pytest.raises((InputError, DataError, ValueError), match=message):
            TaxonomyCRF(taxonomy=taxonomy).fit(X, y)

    @pytest.mark.parametrize("threshold", [-0.1, 1.5, np.nan, "high", True])
    def test_threshold(self, model, threshold):
        with pytest.raises(InputError, match=r"^threshold: expected None or a number from 0 to 1, got"):
            model.predict(X, threshold=threshold)

    @pytest.mark.parametrize("k", [0, 7, 1.0, True, None])
    def test_top(self, model, k):
        with pytest.raises(
            InputError, match=rf"^k: expected an integer from 1 to 6, got {re.escape(repr(k))}$"
        ):
            model.predict_top(X, k)

    @pytest.mark.parametrize(
        "verb", ["predict", "predict_nodes", "predict_marginals", "decode", "predict_proba"]
    )
    def test_not_fitted(self, verb):
        with pytest.raises(NotFittedError, match="This TaxonomyCRF instance is not fitted yet"):
            getattr(TaxonomyCRF(), verb)(X)

    def test_not_fitted_with_arguments(self):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            TaxonomyCRF().predict_top(X, 2)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            TaxonomyCRF().predict(X, threshold=0.5)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            TaxonomyCRF().log_likelihood(X, Y)

    def test_likelihood_of_unknown_labels(self, model):
        with pytest.raises(InputError, match=r"^item 119: label 'a' is not among the 6 known classes$"):
            model.log_likelihood(X, [*Y[:-1], "a"])

    def test_edges_in_an_array(self):
        edges = np.array([("u", name) for name in LEAVES], object)
        with pytest.raises(InputError, match="a 2-column array holds paths: pass a list of tuples for edges"):
            fitted(edges, separator="|")
        assert fitted([tuple(edge) for edge in edges], separator="|").tree_.n_nodes == 7

    def test_a_folder_is_no_taxonomy(self, tmp_path):
        with pytest.raises(InputError, match=f"'{tmp_path.name[:1]}?.* is a folder$"):
            fitted(str(tmp_path))

    def test_a_failed_fit_keeps_the_old_model(self):
        model = fitted()
        before = model.predict_nodes(X)
        with pytest.raises(InputError, match="inner node"):
            model.fit(X[:, :4], ["a", *Y[1:]])
        assert model.predict_nodes(X).tobytes() == before.tobytes()
