"""Models to files and back: what a fitted estimator was, it is again, and no damaged file becomes a model.

The container itself (checksums, atomic writing, foreign files) is tested in test_model_file.py.
"""

from __future__ import annotations

import json
import pickletools
import random
import subprocess
import sys
from contextlib import suppress

import networkx as nx
import numpy as np
import pytest
from model_mutations import write_mutation
from problems import make_problem
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import crfqn
from crfqn import ChainCRF, MulticlassCRF, Sequences, TaxonomyCRF
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.storage.persistence import KINDS
from crfqn.model_file import read_model, write_model
from crfqn.result import Status
from crfqn.solvers.prox_qn import ProxQN

PROBLEM = make_problem(31, n_items=30, n_features=8)
CLASSES = {
    "str": ["B-é", "I-x", "O"],
    "int": [-3, 0, 2**40],
    "bool": [False, True],
    "float": [0.5, 1.5, 2.5],
}
TRACE = ("seconds", "value", "gap", "violation", "passes", "n_active", "n_nonzero", "is_screening")
RESULT = ("value", "gap", "violation", "status", "passes", "n_iter", "seconds", "message")


def labelled(classes: list) -> list[list]:
    return [[classes[k % len(classes)] for k in labels] for labels in PROBLEM.labels]


def named(suffix: str = "") -> list[list[list[str]]]:
    return [[[f"é{j}{suffix}" for j in np.flatnonzero(row)] for row in item] for item in PROBLEM.items]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.crfqn"


@pytest.fixture(scope="module")
def plain() -> ChainCRF:
    return ChainCRF(l1=1.0, l2=0.1).fit(PROBLEM.sequences, PROBLEM.labels)


@pytest.fixture(scope="module")
def named_model() -> ChainCRF:
    model = ChainCRF(l1=2.5).fit(named(), PROBLEM.labels)
    n_used = np.unique(model.coef_.tocoo().col).size
    assert 0 < n_used < PROBLEM.n_features
    return model


def assert_same_predictions(left: ChainCRF, right: ChainCRF, X) -> None:
    for a, b in zip(left.predict_marginals(X), right.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)
    one, other = left.decode(X), right.decode(X)
    assert [path.tolist() for path in one.labels] == [path.tolist() for path in other.labels]
    assert {path.dtype for path in one.labels} == {path.dtype for path in other.labels}
    np.testing.assert_array_equal(one.log_probability, other.log_probability)


def assert_same_result(left, right) -> None:
    for name in RESULT:
        np.testing.assert_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert len(left.trace) == len(right.trace)
    for name in TRACE:
        one, other = getattr(left.trace, name), getattr(right.trace, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, err_msg=name)


class TestRoundTrip:
    @pytest.mark.parametrize("kind", CLASSES)
    def test_everything_comes_back(self, path, kind):
        model = ChainCRF(l1=0.7, l2=0.05, tol=1e-4).fit(PROBLEM.sequences, labelled(CLASSES[kind]))
        assert model.save(path) is None
        loaded = crfqn.load(path)
        assert isinstance(loaded, ChainCRF)
        assert loaded.get_params() == model.get_params()
        assert loaded.classes_.tolist() == CLASSES[kind]
        assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
        for name in ("coef_", "edge_coef_"):
            old, new = getattr(model, name), getattr(loaded, name)
            assert (type(new), new.shape, new.dtype) == (type(old), old.shape, old.dtype)
            assert new.toarray().tobytes() == old.toarray().tobytes()
            assert new.nnz == old.nnz
        assert loaded.n_features_in_ == PROBLEM.n_features
        assert loaded.n_iter_ == model.n_iter_
        assert loaded.vocabulary_ is None
        assert loaded.extra_ == {}
        assert_same_result(model.result_, loaded.result_)
        np.testing.assert_array_equal(loaded.result_.coords, model.result_.coords)
        np.testing.assert_array_equal(loaded.result_.weights, model.result_.weights)
        assert_same_predictions(model, loaded, PROBLEM.sequences)
        y = labelled(CLASSES[kind])
        np.testing.assert_array_equal(
            model.log_likelihood(PROBLEM.items, y), loaded.log_likelihood(PROBLEM.items, y)
        )
        assert loaded.score(PROBLEM.items, y) == model.score(PROBLEM.items, y)

    @pytest.mark.parametrize(
        "settings", [{"l1": 1e6}, {"solver": "prox-qn-paper", "max_seconds": 60.0}], ids=str
    )
    def test_other_settings(self, path, settings):
        model = ChainCRF(**settings, n_threads=1, warm_start=True).fit(PROBLEM.sequences, PROBLEM.labels)
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.get_params() == model.get_params()
        assert_same_result(model.result_, loaded.result_)
        assert_same_predictions(model, loaded, PROBLEM.sequences)

    def test_settings_of_numpy_types_and_a_random_state(self, path):
        model = ChainCRF(l1=np.float32(0.5), max_iter=np.int64(300), random_state=np.random.RandomState(0))
        model.fit(PROBLEM.sequences, PROBLEM.labels).save(path)
        assert (crfqn.load(path).l1, crfqn.load(path).max_iter) == (0.5, 300)

    def test_a_solver_object_is_named_and_the_default_takes_its_place(self, path):
        model = ChainCRF(solver=ProxQN(memory=3)).fit(PROBLEM.sequences, PROBLEM.labels)
        model.save(path)
        assert "memory=3" in read_model(path).metadata["settings"]["solver"]
        assert crfqn.load(path).solver == "auto"

    def test_shares_of_passes_come_back(self, path):
        # A start on samples counts passes in fractions.
        problem = make_problem(32, n_items=4500, n_features=5, longest=3)
        model = ChainCRF(l1=20.0, tol=0.05).fit(problem.sequences, problem.targets)
        assert model.result_.passes != int(model.result_.passes)
        model.save(path)
        assert_same_result(model.result_, crfqn.load(path).result_)

    def test_an_interrupted_run_without_a_gap(self, path):
        def interrupt(row):
            raise KeyboardInterrupt

        model = ChainCRF(l1=0.0, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(PROBLEM.sequences, PROBLEM.labels)
        assert np.isnan(model.result_.gap)
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.result_.status is Status.INTERRUPTED
        assert_same_result(model.result_, loaded.result_)

    def test_extra_is_json(self, plain, path):
        extra = {"recipe": {"name": "ocr", "threshold": 1, "é": [1, 2.5, None, True]}}
        plain.save(path, extra=extra)
        assert crfqn.load(path).extra_ == extra
        assert not hasattr(plain, "extra_")
        with pytest.raises(InputError, match="metadata cannot be written as JSON"):
            plain.save(path, extra={"bad": {1, 2}})
        assert crfqn.load(path).extra_ == extra

    def test_saving_twice_gives_the_same_model(self, plain, path, tmp_path):
        plain.save(path)
        again = tmp_path / "again.crfqn"
        crfqn.load(path).save(again)
        assert again.read_bytes() == path.read_bytes()

    def test_loaded_models_train_on(self, plain, path):
        plain.save(path)
        loaded = crfqn.load(path).set_params(warm_start=True)
        assert loaded.fit(PROBLEM.sequences, PROBLEM.labels).n_iter_ == 0

    def test_another_process_predicts_the_same(self, plain, path):
        plain.save(path)
        script = (
            "import sys, crfqn, numpy as np\n"
            "model = crfqn.load(sys.argv[1])\n"
            "print(np.concatenate(model.predict_marginals([np.eye(8)])).tobytes().hex())"
        )
        run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == plain.predict_marginals([np.eye(8)])[0].tobytes().hex()


class TestNames:
    def test_only_names_with_a_weight_are_kept(self, named_model, path):
        named_model.save(path)
        loaded = crfqn.load(path)
        used = np.unique(named_model.coef_.tocoo().col)
        assert loaded.vocabulary_.names == [named_model.vocabulary_.names[f] for f in used]
        assert loaded.n_features_in_ == used.size
        np.testing.assert_array_equal(loaded.coef_.toarray(), named_model.coef_.toarray()[:, used])
        np.testing.assert_array_equal(loaded.edge_coef_.toarray(), named_model.edge_coef_.toarray())
        unused = sorted(set(named_model.vocabulary_.names) - set(loaded.vocabulary_.names))
        data = path.read_bytes()
        assert not any(name.encode() in data for name in unused)

    @pytest.mark.parametrize("form", ["strings", "dicts", "sequences", "other columns"])
    def test_they_predict_the_same(self, named_model, path, form):
        names = [f"é{j}" for j in range(PROBLEM.n_features)]
        order = np.random.default_rng(0).permutation(PROBLEM.n_features)
        X = {
            "strings": named(),
            "dicts": [[dict.fromkeys(position, 1.0) for position in item] for item in named()],
            "sequences": Sequences(PROBLEM.matrix, PROBLEM.offsets, names),
            "other columns": Sequences(
                np.c_[PROBLEM.matrix[:, order], np.ones(PROBLEM.offsets[-1])],
                PROBLEM.offsets,
                [*(names[j] for j in order), "new"],
            ),
        }[form]
        named_model.save(path)
        assert_same_predictions(named_model, crfqn.load(path), X)

    def test_matrices_without_names_need_the_columns_of_the_file(self, named_model, path):
        named_model.save(path)
        with pytest.raises(InputError, match=r"expected \d+ features, as in training, got 8"):
            crfqn.load(path).predict(PROBLEM.sequences)

    def test_a_model_without_any_feature_weight(self, path):
        model = ChainCRF(l1=1e6).fit(named(), PROBLEM.labels)
        model.save(path)
        loaded = crfqn.load(path)
        assert len(loaded.vocabulary_) == 0
        assert_same_predictions(model, loaded, named())


class TestFiles:
    def test_there_is_no_pickle_in_it(self, named_model, path):
        named_model.save(path)
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert "__metadata__" in header
        assert not any(word in data for word in (b"crfqn.estimators", b"sklearn", b"numpy", b"c__builtin__"))
        with pytest.raises(ValueError, match=r"."):
            list(pickletools.genops(data))

    def test_not_fitted(self, path):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ChainCRF().save(path)
        assert not path.exists()

    def test_unwritable(self, plain, tmp_path):
        with pytest.raises(ModelFileError, match=r"cannot write .*missing"):
            plain.save(tmp_path / "missing" / "model.crfqn")
        with pytest.raises(ModelFileError, match="it is a folder"):
            plain.save(tmp_path)

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.999])
    def test_truncated(self, plain, path, share):
        plain.save(path)
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    def test_any_flipped_byte(self, plain, path):
        plain.save(path)
        data = path.read_bytes()
        for at in np.random.default_rng(0).choice(len(data), 60, replace=False):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
            with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
                crfqn.load(path)

    @pytest.mark.parametrize("content", [b"", b"not a model", b"\x80\x04N.", b"\x00" * 4096])
    def test_foreign_files(self, path, content):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    def test_missing_file_and_folder(self, path, tmp_path):
        with pytest.raises(ModelFileError, match="there is no such file"):
            crfqn.load(path)
        with pytest.raises(ModelFileError, match="not a file"):
            crfqn.load(tmp_path)


def rewriter(model, path):
    """Save the model; returns a function that writes the file again with changes, None for what is to go."""
    model.save(path)
    file = read_model(path)

    def present(old: dict, new: dict | None) -> dict:
        return {name: value for name, value in {**old, **(new or {})}.items() if value is not None}

    def write(kind=file.kind, arrays=None, strings=None, **metadata):
        known = present(file.metadata, metadata)
        write_model(path, kind, present(file.arrays, arrays), present(file.strings, strings), known)

    return write


class TestContentThatDoesNotFit:
    """Files with a right checksum whose content no `save` would write."""

    @pytest.fixture
    def rewrite(self, named_model, path):
        return rewriter(named_model, path)

    def test_nothing_changed(self, rewrite, path, named_model):
        rewrite()
        assert_same_predictions(named_model, crfqn.load(path), named())

    def test_integers_of_another_width(self, rewrite, path, named_model):
        file = read_model(path)
        narrow = {name: array for name, array in file.arrays.items() if array.dtype.kind == "u"}
        assert {"node_state", "node_feature", "edge_from", "edge_to"} <= narrow.keys()
        assert all(array.dtype == np.uint8 for array in narrow.values())
        rewrite(arrays={name: array.astype(np.int64) for name, array in narrow.items()})
        assert_same_predictions(named_model, crfqn.load(path), named())

    def test_a_foreign_kind(self, rewrite, path):
        rewrite(kind="taxonomy")
        known = ", ".join(map(repr, sorted(KINDS)))
        with pytest.raises(ModelFileError, match=f"expected a model of kind {known}; it is a 'taxonomy'"):
            crfqn.load(path)

    @pytest.mark.parametrize(
        "name", ["node_state", "node_feature", "node_weight", "edge_from", "edge_weight", "trace", "classes"]
    )
    def test_a_missing_array(self, rewrite, path, name):
        rewrite(arrays={name: None})
        with pytest.raises(ModelFileError, match=name if name != "classes" else "classes"):
            crfqn.load(path)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("node_state", lambda a: a + 50),
            ("node_state", lambda a: -1 - a.astype(np.int64)),
            ("node_state", lambda a: a.astype(np.float64)),
            ("node_state", lambda a: a[:-1]),
            ("node_feature", lambda a: a.astype(np.int64) + 10**12),
            ("node_feature", lambda a: a[None]),
            ("node_weight", lambda a: a * np.nan),
            ("edge_to", lambda a: a + 3),
            ("edge_weight", lambda a: a * np.inf),
            ("edge_weight", lambda a: 1e308 + 0 * a),
            ("node_weight", lambda a: -1e101 + 0 * a),
            ("trace", lambda a: a[:, :-1]),
            ("trace", lambda a: np.full(a.shape, np.inf)),
            ("trace", lambda a: a - 2.0**60),
            ("classes", lambda a: 0 * a),
            ("classes", lambda a: a * np.nan),
            ("classes", lambda a: a[:-1]),
            ("classes", lambda a: a[:, None]),
        ],
    )
    def test_a_wrong_array(self, rewrite, path, name, change):
        file = read_model(path)
        rewrite(arrays={name: change(file.arrays[name])})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{name.split('_')[0]}"):
            crfqn.load(path)

    @pytest.mark.parametrize(
        "metadata",
        [
            {"settings": None},
            {"settings": {}},
            {"settings": 5},
            {"n_classes": 0},
            {"n_classes": -1},
            {"n_classes": "many"},
            {"n_classes": 10**18},
            {"n_features": 0},
            {"n_features": 10**18},
            {"n_features": 10**30},
            {"n_features": float("inf")},
            {"n_features": float("nan")},
            {"n_features": True},
            {"n_features": None},
            {"result": {}},
            {"result": {"status": "DONE"}},
            {"extra": 3},
            {"extra": None},
        ],
        ids=str,
    )
    def test_wrong_metadata(self, rewrite, path, metadata):
        rewrite(**metadata)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    @pytest.mark.parametrize("name", ["value", "seconds", "n_iter", "n_proved_zeros"])
    @pytest.mark.parametrize("value", ["x", 10**400, True, [1], {}], ids=lambda value: f"{value!r:.9}")
    def test_wrong_numbers_of_the_result(self, rewrite, path, name, value):
        rewrite(result=read_model(path).metadata["result"] | {name: value})
        with pytest.raises(
            ModelFileError, match=rf"model\.crfqn: result: {name}: expected a (whole )?number"
        ):
            crfqn.load(path)

    @pytest.mark.parametrize("value", [float("inf"), float("nan"), -1, 2.5])
    def test_wrong_counts_of_the_result(self, rewrite, path, value):
        rewrite(result=read_model(path).metadata["result"] | {"n_iter": value})
        with pytest.raises(ModelFileError, match=r"result: n_iter: expected a whole number from 0 to"):
            crfqn.load(path)

    @pytest.mark.parametrize("names", [["a"], ["a"] * 3, []], ids=str)
    def test_wrong_names(self, rewrite, path, names):
        rewrite(strings={"feature_names": names})
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    @pytest.mark.parametrize(("name", "bad"), [("l1", -1.0), ("l1", "x"), ("max_iter", 0), ("n_threads", 0)])
    def test_settings_out_of_range_are_refused_when_they_are_used(self, rewrite, path, name, bad):
        settings = read_model(path).metadata["settings"] | {name: bad}
        rewrite(settings=settings)
        with pytest.raises(ValueError, match=name):
            crfqn.load(path).fit(PROBLEM.sequences, PROBLEM.labels)


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


@pytest.fixture(scope="module", params=ITEM_MODELS)
def item_model(request):
    return ITEM_MODELS[request.param]()


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
        ITEM_MODELS["mixed names"]().save(path)
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
        return rewriter(ITEM_MODELS[request.param](), path)

    @pytest.fixture
    def rewrite_tree(self, path):
        return rewriter(ITEM_MODELS["mixed names"](), path)

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
    (named_model if kind == "chain" else ITEM_MODELS[kind]()).save(path)
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


class TestFloat32:
    """Weights of four bytes: scores change by roundings, and what cannot be stored is refused."""

    X = np.random.default_rng(0).normal(size=(60, 12))
    Y = np.arange(60) % 3

    @pytest.fixture
    def model(self) -> MulticlassCRF:
        return MulticlassCRF(l1=0.0, l2=1.0).fit(self.X, self.Y)

    def test_scores_change_by_roundings_of_the_weights(self, model, tmp_path):
        model.save(tmp_path / "wide")
        model.save(tmp_path / "narrow", dtype="float32")
        loaded = crfqn.load(tmp_path / "narrow")
        bound = np.abs(self.X) @ np.abs(model.coef_.toarray()).T + np.abs(model.intercept_)
        change = np.abs(loaded.decision_function(self.X) - model.decision_function(self.X))
        assert change.max() > 0
        assert np.all(change <= 6e-8 * bound)
        assert loaded.coef_.dtype == np.float64
        weights = read_model(tmp_path / "narrow").arrays["node_weight"]
        assert weights.dtype == np.float32
        saved = (tmp_path / "wide").stat().st_size - (tmp_path / "narrow").stat().st_size
        assert saved >= 4 * weights.size

    def test_chains_too(self, plain, path):
        plain.save(path, dtype="float32")
        loaded = crfqn.load(path)
        np.testing.assert_array_equal(
            loaded.edge_coef_.toarray(), plain.edge_coef_.toarray().astype(np.float32)
        )

    @pytest.mark.parametrize("dtype", ["float16", "int8", None])
    def test_other_types_are_refused(self, model, path, dtype):
        with pytest.raises(InputError, match="dtype: expected one of"):
            model.save(path, dtype=dtype)
        assert not path.exists()

    def test_weights_too_large_are_refused(self, model, path):
        model.coef_.data[0] = 1e40
        with pytest.raises(InputError, match=r"node_weight has a weight of .*, too large for float32"):
            model.save(path, dtype="float32")
