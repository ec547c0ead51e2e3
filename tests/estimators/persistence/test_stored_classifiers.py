"""Model files of classifiers of items, sound and damaged; whatever a file of any kind holds."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress
from functools import cache

import networkx as nx
import numpy as np
import pytest
from model_mutations import write_mutation
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from stored_models import assert_same_result, named, rewriter

import crfqn
from crfqn import MulticlassCRF, TaxonomyCRF
from crfqn.errors import ModelFileError
from crfqn.model_file import read_model

ROWS = np.random.default_rng(5).random((60, 6)).round(1)
CODES = np.argmax(ROWS[:, :4] + np.random.default_rng(6).normal(0, 0.2, (60, 4)), axis=1)
TREE = nx.DiGraph([("root", 1), ("root", 2), (1, 11), (1, 12), (2, 21), (2, 22), (2, 23)])
PATHS = np.array([["a", "b", ""], ["a", "c", "d"], ["a", "c", "e"], ["f", "", ""]])


def items_labelled(names) -> np.ndarray:
    return np.array(names)[CODES]


ITEM_MODELS = {
    "flat str": lambda: MulticlassCRF(l1=0.3).fit(ROWS, items_labelled(["é", "b", "c", "d"])),
    "flat int": lambda: MulticlassCRF(l1=0.3, fit_intercept=False).fit(ROWS, items_labelled([-2, 0, 5, 2**40])),
    "flat bool": lambda: MulticlassCRF(class_weight={True: 2, False: 0.5}, penalize_intercept=True).fit(
        ROWS, CODES > 1
    ),
    "flat float": lambda: MulticlassCRF(class_weight={1.0: 2.5}, l2=0.1).fit(ROWS, CODES.astype(float)),
    "star": lambda: TaxonomyCRF(class_weight="balanced").fit(ROWS, CODES),
    "mixed names": lambda: TaxonomyCRF(taxonomy=TREE, l1=0.3, fit_intercept=True).fit(
        ROWS, items_labelled([11, 12, 21, 22])
    ),
    "inner labels": lambda: TaxonomyCRF(
        taxonomy=TREE, labels="nodes", class_weight={11: 3, 1: 2}, solver="prox-qn-paper", max_seconds=60.0
    ).fit(ROWS, items_labelled([11, 1, 21, 2])),
    "path rows": lambda: TaxonomyCRF(l1=0.3, separator=".").fit(ROWS, PATHS[CODES]),
    "columns without weights": lambda: TaxonomyCRF(l1=1e6).fit(ROWS, CODES),
}  # fmt: skip


@cache
def trained(name):
    return ITEM_MODELS[name]()


@pytest.fixture(scope="module", params=ITEM_MODELS)
def item_model(request):
    return trained(request.param)


def assert_same_item_predictions(left, right, X) -> None:
    for verb in ("predict", "predict_proba", "predict_marginals", "decision_function"):
        one, other = getattr(left, verb)(X), getattr(right, verb)(X)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, err_msg=verb)
    for one, other in zip(left.decode(X), right.decode(X), strict=True):
        np.testing.assert_array_equal(one, other)
    if isinstance(left, TaxonomyCRF):
        np.testing.assert_array_equal(left.predict(X, threshold=0.5), right.predict(X, threshold=0.5))


class TestClassifiersOfItems:
    def test_everything_comes_back(self, item_model, path):
        item_model.save(path, extra={"n": 1})
        loaded = crfqn.load(path)
        assert type(loaded) is type(item_model)
        assert loaded.classes_.tolist() == item_model.classes_.tolist()
        assert loaded.classes_.dtype == item_model.classes_.dtype
        for matrix in ("coef_", "intercept_"):
            old, new = getattr(item_model, matrix), getattr(loaded, matrix)
            assert (type(new), new.shape, new.dtype) == (type(old), old.shape, old.dtype)
        assert loaded.coef_.toarray().tobytes() == item_model.coef_.toarray().tobytes()
        assert loaded.intercept_.tobytes() == item_model.intercept_.tobytes()
        assert (loaded.n_features_in_, loaded.n_iter_) == (6, item_model.n_iter_)
        assert loaded.extra_ == {"n": 1}
        assert not hasattr(loaded, "feature_names_in_")
        assert_same_result(item_model.result_, loaded.result_)
        np.testing.assert_array_equal(loaded.result_.coords, item_model.result_.coords)
        np.testing.assert_array_equal(loaded.result_.weights, item_model.result_.weights)
        assert_same_item_predictions(item_model, loaded, ROWS)

    def test_parameters(self, item_model, path):
        item_model.save(path)
        found, expected = crfqn.load(path).get_params(), item_model.get_params()
        taxonomy = expected.pop("taxonomy", None)
        assert (found.pop("taxonomy", None) is None) == (taxonomy is None)
        assert found == expected
        if isinstance(found["class_weight"], dict):
            kinds = [[type(label) for label in params["class_weight"]] for params in (found, expected)]
            assert kinds[0] == kinds[1]

    def test_saving_twice_gives_the_same_model(self, item_model, path, tmp_path):
        item_model.save(path)
        crfqn.load(path).save(tmp_path / "again.crfqn")
        assert (tmp_path / "again.crfqn").read_bytes() == path.read_bytes()

    def test_loaded_models_train_on(self, path):
        labels = items_labelled([11, 12, 21, 22])
        trained("mixed names").save(path)
        loaded = crfqn.load(path).set_params(warm_start=True)
        tree = loaded.tree_
        with pytest.warns(
            ConvergenceWarning, match="nothing tells how far"
        ):  # a label without items has no bound
            loaded.fit(ROWS, labels)
        assert loaded.n_iter_ == 0
        assert (loaded.tree_.names, loaded.tree_.parents.tolist()) == (tree.names, tree.parents.tolist())

    def test_names_of_columns(self, path):
        model = MulticlassCRF().fit(ROWS, CODES)
        model.feature_names_in_ = np.array(list("abcdéf"), dtype=object)  # as a data frame would leave them
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.feature_names_in_.tolist() == list("abcdéf")
        assert loaded.feature_names_in_.dtype == object

    def test_not_fitted(self, path):
        for model in (MulticlassCRF(), TaxonomyCRF()):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                model.save(path)
        assert not path.exists()

    def test_another_process_predicts_the_same(self, path):
        model = ITEM_MODELS["path rows"]()
        model.save(path)
        script = (
            "import sys, crfqn, numpy as np\n"
            "print(crfqn.load(sys.argv[1]).predict_nodes(np.eye(6)).tobytes().hex())"
        )
        run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == model.predict_nodes(np.eye(6)).tobytes().hex()


class TestContentOfClassifiersThatDoesNotFit:
    @pytest.fixture(params=["flat str", "mixed names"])
    def rewrite(self, request, path):
        return rewriter(trained(request.param), path)

    @pytest.fixture
    def rewrite_tree(self, path):
        return rewriter(trained("mixed names"), path)

    def test_nothing_changed(self, rewrite, path):
        rewrite()
        assert crfqn.load(path).predict(ROWS).size == 60

    @pytest.mark.parametrize("name", ["node_state", "node_feature", "node_weight", "intercept", "trace"])
    def test_a_missing_array(self, rewrite, path, name):
        rewrite(arrays={name: None})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: the model has no array '{name}'"):
            crfqn.load(path)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("node_state", lambda a: a + 50),
            ("node_feature", lambda a: a.astype(np.int64) + 10**12),
            ("node_weight", lambda a: a * np.nan),
            ("intercept", lambda a: a[:-1]),
            ("intercept", lambda a: np.append(a[:-1], np.inf)),
        ],
    )
    def test_a_wrong_array(self, rewrite, path, name, change):
        rewrite(arrays={name: change(read_model(path).arrays[name])})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{name}"):
            crfqn.load(path)

    @pytest.mark.parametrize(
        "metadata",
        [
            {"settings": {}},
            {"n_classes": 0},
            {"n_classes": 3},
            {"n_classes": "many"},
            {"n_features": 0},
            {"n_features": None},
            {"result": {"status": "DONE"}},
            {"extra": None},
        ],
        ids=str,
    )
    def test_wrong_metadata(self, rewrite, path, metadata):
        rewrite(**metadata)
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

    @pytest.mark.parametrize(
        ("name", "bad", "message"),
        [
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
        ],
    )
    def test_a_wrong_tree(self, rewrite_tree, path, name, bad, message):
        rewrite_tree(arrays={name: None if bad is None else np.array(bad, np.int32)})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{message}"):
            crfqn.load(path)

    @pytest.mark.parametrize(
        ("metadata", "message"),
        [
            ({"nodes": ["root", 1, 2, 11, 12, 21, 22]}, "a parent for each of the 7 nodes"),
            ({"nodes": ["root", 1, 2, 11, 12, 21, 22, 22]}, "distinct node names"),
            ({"nodes": ["root", 1, 2, 11, 12, 21, 22, None]}, "strings or finite numbers as node names"),
            ({"nodes": None}, "nodes"),
            ({"nodes": 7}, "does not fit together"),
            (
                {"label_levels": "x"},
                "label_levels: expected a whole number from 0 to .*, got 'x' of type str",
            ),
            ({"label_levels": 10**9}, "label_levels: expected a whole number from 0 to 1001, got 1000000000"),
            ({"label_separator": ""}, "expected a separator of one or more characters"),
            ({"n_classes": 8.0}, "n_classes: expected a whole number from 1 to .*, got 8.0"),
            ({"has_taxonomy": None}, "has_taxonomy"),
        ],
        ids=str,
    )
    def test_wrong_names_of_nodes(self, rewrite_tree, path, metadata, message):
        rewrite_tree(**metadata)
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{message}"):
            crfqn.load(path)


@pytest.mark.parametrize("kind", ["chain", *ITEM_MODELS])
def test_whatever_a_file_holds_it_is_a_model_or_refused(kind, named_model, path):
    """Mutations of the content: no other error than the documented one, and none but of the input in prediction."""
    (named_model if kind == "chain" else trained(kind)).save(path)
    file, rng, n_loaded = read_model(path), random.Random(kind), 0
    for _ in range(150):
        write_mutation(path, file, rng)
        try:
            model = crfqn.load(path)
        except ModelFileError:
            continue
        n_loaded += 1
        with suppress(ValueError):  # settings and numbers of features are looked at when they are used
            model.predict(named() if kind == "chain" else ROWS)
    assert 10 < n_loaded < 140
