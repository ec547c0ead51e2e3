"""The tagger against the estimators of single items: flat models, classifiers, taxonomies."""

import numpy as np
import pytest
import scipy.sparse

import crfqn.model.numpy_engine
from crfqn import (
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    Tagger,
    TaxonomyCRF,
    load,
)
from crfqn.errors import InputError, ModelFileError

N_FEATURES = 6
PATHS = np.array(["a/x", "a/y", "b/z", "b/z/q", "c"])
ROWS = [("a", "x"), ("a", "y"), ("b", "z"), ("b", "z", "q"), ("c",)]


def items(seed, n):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, N_FEATURES)) * (random.random((n, N_FEATURES)) < 0.6)
    return X, np.argmax(X[:, :5], axis=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, (X, y) = tmp_path_factory.mktemp("models"), items(0, 60)
    names = np.array(["one", "two", "three", "four", "five"])[y]
    common = {"n_threads": 1}
    found = {
        "flat": MulticlassCRF(l1=0.1, **common).fit(X, names),
        "numbers": MulticlassCRF(l1=0.1, fit_intercept=False, **common).fit(X, y),
        "dense": MulticlassCRF(penalty="l2", l2=0.1, **common).fit(X, names),
        "classifier": MulticlassClassifier(group_l1=0.5, **common).fit(X, names),
        "leaves": TaxonomyCRF(l1=0.1, **common).fit(X, np.where(y == 3, "b/z", PATHS[y])),
        "nodes": TaxonomyCRF(l1=0.1, labels="nodes", **common).fit(X, [ROWS[k] for k in y]),
        "ranker": MultilabelRanker(**common).fit(X, [{name} for name in names]),
        "svc": MulticlassSVC().fit(X, names),
    }
    for name, model in found.items():
        model.save(folder / f"{name}.crfqn")
    return {name: (load(folder / f"{name}.crfqn"), folder / f"{name}.crfqn") for name in found}


@pytest.mark.parametrize("name", ["flat", "numbers", "dense", "classifier", "leaves", "nodes"])
def test_labels_and_probabilities_are_those_of_the_estimator(files, name):
    model, path = files[name]
    tagger, (X, _) = Tagger(path), items(1, 40)
    expected = model.predict(X).tolist()
    assert tagger.tag_items(X) == expected == [tagger.tag(row) for row in X]
    sparse = scipy.sparse.csr_array(X)
    assert tagger.tag_items(sparse) == expected
    assert tagger.tag(sparse[:1]) == expected[0]
    dicts = [{f: value for f, value in enumerate(row.tolist()) if value} for row in X]
    assert tagger.tag_items(dicts) == expected
    assert tagger.labels() == model.classes_.tolist()
    if name == "classifier":
        with pytest.raises(AttributeError, match="squared-hinge"):
            tagger.marginals(X[0])
        return
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose([tagger.marginals(row) for row in X], probabilities, atol=1e-12)
    ours, top = tagger.nbest(X[0], 3), model.predict_top(X[:1], 3)
    assert [label for label, _ in ours] == top.labels[0].tolist()
    np.testing.assert_allclose([p for _, p in ours], top.probabilities[0], atol=1e-12)
    label = model.classes_[1].item()
    np.testing.assert_allclose(tagger.marginal(label), probabilities[0, 1], atol=1e-12)
    np.testing.assert_allclose(tagger.probability(label, X[3]), probabilities[3, 1], atol=1e-12)
    info, cells = tagger.info(), model.coef_.tocoo()
    assert sorted(info.state_features.values()) == sorted(cells.data.tolist())


@pytest.mark.parametrize("name", ["leaves", "nodes"])
def test_the_nodes_of_taxonomies(files, name):
    model, path = files[name]
    predictor, (X, _) = Tagger(path)._model, items(2, 30)
    np.testing.assert_allclose(predictor.predict_nodes(X), model.predict_nodes(X), atol=1e-12)
    for threshold in (0.0, 0.5, 0.9):
        assert predictor.predict(X, threshold).tolist() == model.predict(X, threshold).tolist()


def test_features_by_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = items(0, 60)
    frame = pandas.DataFrame(X, columns=[*"uvwxyz"])
    model = MulticlassCRF(l1=0.1, n_threads=1).fit(frame, y)
    model.save(tmp_path / "named.crfqn")
    rows = [{**row, "unknown": 3.0} for row in frame.to_dict("records")]
    assert Tagger(tmp_path / "named.crfqn").tag_items(rows) == model.predict(frame).tolist()


def test_bad_input_is_told(files):
    tagger = Tagger(files["flat"][1])
    for item, expected in (
        ([1.0], "6 features"),
        ({9: 1.0}, "a column from 0 to 5"),
        ({0: float("nan")}, "finite"),
        ({0: "text"}, "finite number"),
        ([np.inf] * 6, "finite"),
        (["text"] * 6, "expected numbers"),
    ):
        with pytest.raises(InputError, match=expected):
            tagger.tag(item)
    with pytest.raises(InputError, match="known"):
        tagger.tag([0.0] * 6, known=["one"])
    for kind in ("ranker", "svc"):
        with pytest.raises(ModelFileError, match=r"crfqn\.load opens"):
            Tagger(files[kind][1])


def test_blocks_of_items_change_nothing(files, monkeypatch):
    model, path = files["nodes"]
    predictor, (X, _) = Tagger(path)._model, items(3, 23)
    labels = model.predict(X).tolist()
    expected = [f(X) for f in (predictor.predict_proba, lambda X: predictor.log_likelihood(X, labels))]
    monkeypatch.setattr(crfqn.model.numpy_engine, "BLOCK_NUMBERS", 40)
    assert predictor.predict(X).tolist() == labels == predictor.decode(X)[0].tolist()
    np.testing.assert_array_equal(predictor.predict_proba(X), expected[0])
    np.testing.assert_array_equal(predictor.log_likelihood(X, labels), expected[1])
    np.testing.assert_allclose(expected[1], model.log_likelihood(X, labels), atol=1e-12)
    assert predictor.predict(X, 0.6).tolist() == model.predict(X, 0.6).tolist()
