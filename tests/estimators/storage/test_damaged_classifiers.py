"""Model files of classifiers of items whose content does not fit together."""

from __future__ import annotations

import numpy as np
import pytest
from stored_items import ROWS, trained
from stored_models import rewriter

import crfqn
from crfqn.data.model_file import read_model
from crfqn.errors import ModelFileError


class TestContentOfClassifiersThatDoesNotFit:
    """What only classifiers have."""

    @pytest.fixture(params=["flat str", "mixed names"])
    def rewrite(self, request, path):
        return rewriter(trained(request.param), path)

    @pytest.fixture
    def rewrite_tree(self, path):
        return rewriter(trained("mixed names"), path)

    def test_nothing_changed(self, rewrite, path):
        rewrite()
        assert crfqn.load(path).predict(ROWS).size == 60

    @pytest.mark.parametrize(
        "change", [lambda a: None, lambda a: a[:-1], lambda a: np.append(a[:-1], np.inf)]
    )
    def test_wrong_intercepts(self, rewrite, path, change):
        rewrite(arrays={"intercept": change(read_model(path).arrays["intercept"])})
        with pytest.raises(ModelFileError, match=r"model\.crfqn: .*intercept"):
            crfqn.load(path)

    def test_another_number_of_classes(self, rewrite, path):
        rewrite(n_classes=3)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    def test_wrong_class_weight(self, rewrite, path):
        rewrite(settings=read_model(path).metadata["settings"] | {"class_weight": [1, 2]})
        with pytest.raises(ModelFileError, match="does not fit together"):
            crfqn.load(path)

    def test_wrong_number_of_feature_names(self, rewrite, path):
        rewrite(strings={"feature_names": ["a"]})
        with pytest.raises(ModelFileError, match="1 names for 6 features"):
            crfqn.load(path)

    @pytest.mark.parametrize("kind", ["chain-crf", "multiclass-crf"])
    def test_the_kind_of_another_model(self, rewrite_tree, path, kind):
        rewrite_tree(kind=kind)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    @pytest.mark.parametrize(("name", "bad", "message"), [
        ("parents", [0, -1, 1, 1, 2, 2, 2, 2], "parents in level order"),
        ("parents", [-1, 0, 0, 1, 1, 2, 2, 7], "parents in level order"),
        ("parents", [-2, 0, 0, 1, 1, 2, 2, 2], "parents in level order"),
        ("parents", [-1, 0, 0], "a parent for each of the 8 nodes"),
        ("parents", None, "no array 'parents'"),
        ("label_node", [3, 4, 5, 6], "label_node"),
        ("label_node", [3, 4, 5, 6, 8], "distinct numbers of 0 ... 7"),
        ("label_node", [-1, 4, 5, 6, 7], "distinct numbers of 0 ... 7"),
        ("label_node", [3, 4, 5, 6, 6], "distinct numbers of 0 ... 7"),
        ("label_node", [1, 4, 5, 6, 7], "lacks a leaf"),
    ])  # fmt: skip
    def test_a_wrong_tree(self, rewrite_tree, path, name, bad, message):
        rewrite_tree(arrays={name: None if bad is None else np.array(bad, np.int32)})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{message}"):
            crfqn.load(path)

    @pytest.mark.parametrize(("metadata", "message"), [
        ({"nodes": ["root", 1, 2, 11, 12, 21, 22]}, "a parent for each of the 7 nodes"),
        ({"nodes": ["root", 1, 2, 11, 12, 21, 22, 22]}, "distinct node names"),
        ({"nodes": ["root", 1, 2, 11, 12, 21, 22, None]}, "strings or finite numbers as node names"),
        ({"nodes": None}, "nodes"),
        ({"nodes": 7}, "does not fit together"),
        ({"label_levels": "x"}, "label_levels: expected a whole number from 0 to .*, got 'x' of type str"),
        ({"label_levels": 10**9}, "label_levels: expected a whole number from 0 to 1001, got 1000000000"),
        ({"label_levels": 4, "integer_levels": [0]}, "integer_levels: expected levels of integers, got .0."),
        ({"label_levels": 4, "integer_levels": "01"}, "integer_levels: expected levels of integers, got '01'"),
        ({"label_separator": ""}, "expected a separator of one or more characters"),
        ({"n_classes": 8.0}, "n_classes: expected a whole number from 1 to .*, got 8.0"),
        ({"has_taxonomy": None}, "has_taxonomy"),
    ], ids=str)  # fmt: skip
    def test_wrong_names_of_nodes(self, rewrite_tree, path, metadata, message):
        rewrite_tree(**metadata)
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{message}"):
            crfqn.load(path)
