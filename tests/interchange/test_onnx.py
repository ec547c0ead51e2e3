"""ONNX graphs of classifiers and chains, run by onnxruntime: labels, scores and probabilities are the model's."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF, interchange
from crfqn.errors import EmptyModelWarning, InputError

onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 12)) * (RNG.random((60, 12)) < 0.4)
PATHS = np.array(["a/x/1", "a/x/2", "a/ü", "b", "c/z"])[RNG.integers(0, 5, 60)]
NUMBERS = np.unique(PATHS, return_inverse=True)[1]


def nothing_learnt():
    with pytest.warns(EmptyModelWarning):
        return MulticlassCRF(l1=1e4).fit(X, PATHS)


MODELS = {
    "taxonomy": lambda: TaxonomyCRF(l1=0.5, fit_intercept=True).fit(X, PATHS),
    "nodes": lambda: TaxonomyCRF(l1=0.5, labels="nodes").fit(X, PATHS),
    "multinomial": lambda: MulticlassCRF(l1=1.0).fit(X, NUMBERS),
    "rows": lambda: MulticlassClassifier(group_l1=2.0).fit(X, PATHS),
    "two classes": lambda: MulticlassCRF(l1=1.0).fit(X, PATHS == "b"),
    "nothing learnt": nothing_learnt,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def run(path, input, dtype, X=X, lengths=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    entries = scipy.sparse.coo_array(X)
    order = np.random.default_rng(1).permutation(entries.nnz)
    feed = {
        "rows": entries.row[order].astype(np.int64),
        "columns": entries.col[order].astype(np.int64),
        "values": entries.data[order].astype(dtype),
        "n_items": np.array([X.shape[0]]),
    }
    if input == "dense":
        feed = {"X": X.astype(dtype)}
    if lengths is not None:
        feed["lengths"] = lengths
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


@pytest.mark.parametrize("input", ["dense", "sparse"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_outputs_are_those_of_the_model(model, input, dtype, tolerance, tmp_path):
    path = tmp_path / "m.onnx"
    interchange.write(model, path, dtype=dtype, input=input)
    found = run(path, input, dtype)
    expected = model.predict(X)
    assert found["label"].tolist() == expected.tolist()
    scores = model.decision_function(X)
    scores = scores if scores.ndim == 2 else np.stack([np.zeros_like(scores), scores], 1)
    shift = (found["scores"] - scores)[:, :1]  # of two classes only the difference is known
    np.testing.assert_allclose(found["scores"] - shift, scores, atol=tolerance)
    has_probabilities = hasattr(model, "predict_proba")
    assert ("probabilities" in found) == has_probabilities
    if has_probabilities:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=tolerance)
        assert found["probabilities"].dtype == dtype


SEQUENCES = np.split(X, [9, 10, 10, 31])
TAGS = np.split(np.array(["B-X", "I-X", "O", "B-Y", "I-Y"])[NUMBERS], [9, 10, 10, 31])


@pytest.fixture(scope="module", params=[{}, {"scheme": "IOB2"}], ids=str)
def chain(request):
    labels = [item.tolist() for item in TAGS]
    if request.param:
        labels = [["B-X", "I-X", "O"] * 3, ["O"], [], ["O"] * 20 + ["B-Y"], ["B-Y", "I-Y"] * 14 + ["O"]]
    filled = [n for n, item in enumerate(labels) if item]
    return ChainCRF(l1=0.1, n_threads=1, **request.param).fit(
        [SEQUENCES[n] for n in filled], [labels[n] for n in filled]
    )


class TestChains:
    @pytest.mark.parametrize("input", ["dense", "sparse"])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_labels_are_those_of_the_model(self, chain, input, dtype, tmp_path):
        interchange.write(chain, tmp_path / "m.onnx", dtype=dtype, input=input)
        lengths = np.array([len(item) for item in SEQUENCES])
        for rows, cuts in ((X, lengths), (X, [60, 0]), (X, [1] * 60), (X[:1], [1]), (X[7:9], [0, 2])):
            found = run(tmp_path / "m.onnx", input, dtype, rows, np.array(cuts))
            items = np.split(rows, np.cumsum(cuts)[:-1])
            assert found["label"].tolist() == np.concatenate(chain.predict(items)).tolist()
            np.testing.assert_allclose(found["scores"], rows @ chain.coef_.toarray().T, atol=1e-5)

    def test_lengths_that_are_not_those_of_the_rows(self, chain, tmp_path):
        interchange.write(chain, tmp_path / "m.onnx")
        for lengths in ([59], [61], [60, 1]):
            with pytest.raises(Exception, match="Reshape"):
                run(tmp_path / "m.onnx", "dense", "float32", X, np.array(lengths))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dtype": "float16"}, "dtype: expected one of"), ({"input": "csr"}, "input: expected one of")],
)
def test_wrong_options(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        interchange.write(MODELS["nothing learnt"](), tmp_path / "m.onnx", **options)


def test_labels_that_occur_once_are_refused(tmp_path):
    model = ChainCRF(l1=0.01, once=["A"]).fit([[["x"], ["y"]]] * 2, [["A", "B"]] * 2)
    with pytest.raises(InputError, match=r"onnx: the graph has no place for the rule once=\['A'\]"):
        interchange.write(model, tmp_path / "m.onnx")
    model.model_ = model.model_.with_once([])
    interchange.write(model, tmp_path / "m.onnx")


def test_other_models_are_refused(tmp_path):
    with pytest.raises(InputError, match="got a MultilabelRanker"):
        interchange.write(MultilabelRanker(), tmp_path / "m.onnx")


def test_labels_that_are_no_text_are_refused(tmp_path):
    model = MulticlassCRF(l1=0.001).fit(np.eye(2), ["x\ud800", "b"])
    with pytest.raises(InputError, match=r"onnx: expected labels that UTF-8 can encode, got 'x\\ud800'"):
        interchange.write(model, tmp_path / "m.onnx")


def test_the_extra_is_named_where_the_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'crfqn\[onnx\]'"):
        interchange.write(MODELS["nothing learnt"](), tmp_path / "m.onnx")
