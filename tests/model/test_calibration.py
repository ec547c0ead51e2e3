"""Calibration: one temperature divides all scores where they become probabilities; labels do not change."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import crfqn
from crfqn import (
    ChainCRF,
    Features,
    Model,
    MulticlassClassifier,
    MulticlassCRF,
    Tagger,
    TaxonomyCRF,
    interchange,
)
from crfqn.data.encoding import encode_sequences
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import InputError, ModelFileError
from crfqn.model.model import CALIBRATION_RANGE

TEMPERATURE = 2.5


def chain(seed=0, n=60, **parameters):
    """Return a chain, trained on noisy labels with hardly a penalty, and held-out items of the same kind."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, 2 * n).tolist()
    X = [[{"w": str(w), "n": float(v)} for w, v in zip(rng.integers(0, 12, k), rng.normal(size=k), strict=True)]
         for k in lengths]  # fmt: skip
    y = [
        ["ABC"[int(token["w"]) % 3 if rng.random() < 0.7 else rng.integers(3)] for token in item]
        for item in X
    ]
    return ChainCRF(**({"l1": 0.0, "l2": 1e-3} | parameters)).fit(X[:n], y[:n]), X[n:], y[n:]


def items(kind="flat", seed=0, n=80, **parameters):
    """Return a model of single items, and held-out ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 6))
    y = np.array(["a/x", "a/y", "b"])[np.argmax(X[:, :3] + rng.normal(size=(2 * n, 3)), axis=1)]
    if kind == "tree":
        model = TaxonomyCRF(l1=0.0, l2=1e-3, fit_intercept=True, **parameters)
    elif kind == "classifier":
        model = MulticlassClassifier(loss="logistic", penalty="l1", l1=1e-3, **parameters)
    else:
        model = MulticlassCRF(l1=0.0, l2=1e-3, **parameters)
    return model.fit(X[:n], y[:n]), X[n:], y[n:]


def scaled(model):
    """Return the estimator with all its weights divided by the temperature."""
    other = copy.deepcopy(model)
    other.coef_ = model.coef_ / TEMPERATURE
    if model.ANSWERS.has_positions:
        other.transition_coef_ = model.transition_coef_ / TEMPERATURE
    else:
        other.model_ = dataclasses.replace(other.current_model, intercept=model.intercept_ / TEMPERATURE)
    return other


def enumerated(model, item):
    """Return the probabilities of all labellings of an item by its scores, divided by the temperature."""
    rows = {name: np.zeros(3) for name in {n for n, _ in model.state_features_}}
    classes = model.classes_.tolist()
    for (name, label), weight in model.state_features_.items():
        rows[name][classes.index(label)] = weight
    scores = []
    for token in item:
        values = {"n": token["n"], f"w={token['w']}": 1.0}
        scores.append(sum(rows[name] * value for name, value in values.items() if name in rows))
    edges = model.transition_coef_.toarray()
    paths = [*itertools.product(range(3), repeat=len(item))]
    total = [sum(scores[t][k] for t, k in enumerate(path)) + sum(edges[a, b] for a, b in itertools.pairwise(path))
             for path in paths]  # fmt: skip
    p = np.exp(np.array(total) / TEMPERATURE)
    return dict(zip(paths, p / p.sum(), strict=True))


def test_a_chain_has_the_probabilities_of_all_labellings():
    model, X, y = chain()
    model.calibrate(temperature=TEMPERATURE)
    for one in (model, model.model_):  # compiled, and numpy alone
        for item, labels in zip(X[:8], y[:8], strict=True):
            p = enumerated(model, item)
            best = max(p, key=p.get)
            decoding = one.decode([item])
            assert [*decoding.labels[0]] == [model.classes_[k] for k in best]
            assert np.exp(decoding.log_probability[0]) == pytest.approx(p[best], rel=1e-9)
            given = tuple(model.classes_.tolist().index(label) for label in labels)
            assert np.exp(one.log_likelihood([item], [labels])[0]) == pytest.approx(p[given], rel=1e-9)
            marginals = np.zeros((len(item), 3))
            for path, value in p.items():
                marginals[np.arange(len(item)), path] += value
            np.testing.assert_allclose(one.predict_marginals([item])[0], marginals, atol=1e-12)
            for (path, value), (_, expected) in zip(
                one.predict_nbest([item], 3)[0], sorted(p.items(), key=lambda e: -e[1])[:3], strict=False
            ):
                assert value == pytest.approx(expected, rel=1e-9)
                assert value == pytest.approx(p[tuple(model.classes_.tolist().index(k) for k in path)])


def chain_answers(model, X, y):
    known = [["B-X", *[None] * (len(item) - 1)] for item in X]
    return np.concatenate([
        model.decode(X).log_probability,
        model.decode(X, known).log_probability,
        np.concatenate([*model.predict_marginals(X)]).ravel(),
        np.concatenate([*map(np.ravel, model.predict_marginals(X, pairs=True))]),
        model.log_likelihood(X, y),
        model.log_likelihood(X, [[None, *labels[1:]] for labels in y]),
        [p for row in model.predict_nbest(X, 4) for _, p in row],
        [span.probability for row in model.predict_spans(X) for span in row],
    ])  # fmt: skip


@pytest.mark.parametrize("how", [{}, {"scheme": "IOB2"}, {"once": ["X"], "scheme": "IOB2"}, {"dense": True}])
def test_probabilities_are_those_of_weights_divided_by_the_temperature(how):
    how = dict(how)
    is_dense = how.pop("dense", False)
    rng = np.random.default_rng(3)
    y = [["B-X", *rng.choice(["I-X", "O"], k)] for k in rng.integers(0, 5, 30)]
    y = [
        [b if a != "O" or b != "I-X" else "B-X" for a, b in zip(["O", *row], row, strict=False)] for row in y
    ]
    y = [
        ["B-X" if b == "I-X" and (t == 0 or row[t - 1] == "O") else b for t, b in enumerate(row)] for row in y
    ]
    X = [[{"w": f"{label}{rng.integers(3)}" if rng.random() < 0.7 else "?"} for label in row] for row in y]
    if is_dense:
        X = Features(rng.normal(size=(sum(map(len, y)), 2)), encode_sequences(X)[0])
    model = ChainCRF(**({"l1": 0.0, "l2": 0.01, "scheme": "IOB2"} | how)).fit(X, y)
    expected = scaled(model)
    if is_dense:
        expected.dense_coef_ = model.dense_coef_ / TEMPERATURE
        expected.model_ = dataclasses.replace(
            expected.current_model, dense_coef_=model.dense_coef_ / TEMPERATURE
        )
    labels = model.predict(X).tolist()
    model.calibrate(temperature=TEMPERATURE)
    assert model.predict(X).tolist() == labels
    if is_dense:
        marginals = [np.concatenate([*one.predict_marginals(X)]) for one in (model, model.model_, expected)]
        np.testing.assert_allclose(marginals[0], marginals[2], atol=1e-12)
        np.testing.assert_allclose(marginals[1], marginals[2], atol=1e-12)
    else:
        np.testing.assert_allclose(chain_answers(model, X, y), chain_answers(expected, X, y), atol=1e-9)
        np.testing.assert_allclose(
            chain_answers(model.model_, X, y), chain_answers(expected, X, y), atol=1e-9
        )
    explained = [[*row] for row in model.explain(X)]
    for row, other in zip(explained, expected.explain(X), strict=True):
        for mine, theirs in zip(row, other, strict=True):
            assert mine.probability == pytest.approx(theirs.probability, abs=1e-12)
            assert mine.difference == pytest.approx(theirs.difference, abs=1e-9)
            assert sum(term.value for term in mine.terms) + mine.rest == pytest.approx(
                mine.difference, abs=1e-9
            )


@pytest.mark.parametrize("kind", ["flat", "tree", "classifier"])
def test_items_have_the_probabilities_of_weights_divided_by_the_temperature(kind):
    model, X, y = items(kind)
    expected, labels = scaled(model), model.predict(X).tolist()
    model.calibrate(temperature=TEMPERATURE)
    assert model.predict(X).tolist() == labels
    for one, other in ((model, expected), (model.model_, expected.model_)):
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)
        np.testing.assert_allclose(one.predict_log_proba(X), other.predict_log_proba(X), atol=1e-12)
        np.testing.assert_allclose(one.decode(X).log_probability, other.decode(X).log_probability, atol=1e-12)
        np.testing.assert_allclose(one.log_likelihood(X, y), other.log_likelihood(X, y), atol=1e-12)
        np.testing.assert_allclose(one.predict_top(X, 2)[1], other.predict_top(X, 2)[1], atol=1e-12)
        if kind == "tree":
            np.testing.assert_allclose(one.predict_nodes(X), other.predict_nodes(X), atol=1e-12)
            assert one.predict(X, 0.6).tolist() == other.predict(X, 0.6).tolist()
    for mine, theirs in zip(model.explain(X), expected.explain(X), strict=True):
        assert mine.probability == pytest.approx(theirs.probability, abs=1e-12)
        assert mine.difference == pytest.approx(theirs.difference, abs=1e-12)


@pytest.mark.parametrize("kind", ["chain", "flat", "tree", "classifier"])
def test_the_temperature_is_the_best_of_a_grid(kind):
    model, X, y = chain() if kind == "chain" else items(kind)
    assert model.temperature_ == 1.0
    assert model.calibrate(X, y) is model

    def loss(temperature):
        one = model.model_.with_temperature(temperature)
        if kind != "chain":
            return -one.log_likelihood(X, y).mean()
        classes = one.classes_.tolist()
        p = [row[classes.index(k)] for item, ks in zip(one.predict_marginals(X), y, strict=True)
             for row, k in zip(item, ks, strict=True)]  # fmt: skip
        return -np.log(np.maximum(p, 1e-300)).mean()

    assert model.temperature_ > 1.05  # little penalty: too sure of itself
    assert loss(model.temperature_) < loss(1.0)
    grid = np.exp(np.linspace(*np.log(CALIBRATION_RANGE), 60))
    assert loss(model.temperature_) <= min(map(loss, grid)) + 1e-9
    light = model.model_.with_temperature(1).calibrate(X, y)
    assert light.temperature == pytest.approx(model.temperature_, rel=1e-4)
    assert model.calibrate(temperature=1).temperature_ == 1.0


@pytest.mark.parametrize("kind", ["chain", "flat", "tree"])
def test_files_copies_and_taggers_keep_the_temperature(kind, tmp_path):
    model, X, y = chain() if kind == "chain" else items(kind)
    before, path = model.predict_proba(X), tmp_path / "m.crfqn"
    model.save(path)
    assert "temperature" not in read_model(path).metadata
    model.calibrate(X, y).save(path)
    interchange.write(model, tmp_path / "m.json")
    Model.open(path).save(tmp_path / "again.crfqn")
    restored = [crfqn.load(path), crfqn.load(tmp_path / "again.crfqn"), interchange.read(tmp_path / "m.json")]
    restored += [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for one in restored:
        assert one.temperature_ == model.temperature_
        for mine, theirs in zip(one.predict_proba(X), model.predict_proba(X), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    light = Model.open(path)
    for item, p in zip(X, model.predict_proba(X), strict=True):
        np.testing.assert_allclose(light.predict_marginals([item])[0], p, atol=1e-12)
        if kind == "chain":
            np.testing.assert_allclose(Tagger(path).marginals(item), p, atol=1e-12)
    undone = Model.open(path).with_temperature(1)
    undone.save(path)
    for mine, theirs in zip(crfqn.load(path).predict_proba(X), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not hasattr(clone(model), "temperature_")
    assert model.fit(X, y).temperature_ == 1.0


def test_a_damaged_temperature_is_refused(tmp_path):
    model, *_ = items()
    path = tmp_path / "m.crfqn"
    model.save(path)
    file = read_model(path)
    for value in (0, "2", True, None, 1e9, [1]):
        write_model(path, file.kind, file.arrays, file.strings, file.metadata | {"temperature": value})
        for read in (Model.open, crfqn.load):
            with pytest.raises(ModelFileError, match="temperature: expected a number from"):
                read(path)


def test_bad_input_gets_a_sentence():
    model, X, y = chain()
    for value in (0, -1, float("nan"), float("inf"), True, "2"):
        with pytest.raises(InputError, match="temperature: expected a number"):
            model.calibrate(temperature=value)
    for arguments in ({}, {"X": X}, {"y": y}, {"X": X, "y": y, "temperature": 2}):
        with pytest.raises(InputError, match="expected labelled items X and y, or a temperature alone"):
            model.calibrate(**arguments)
    with pytest.raises(InputError, match="at least one labelled position"):
        model.calibrate([X[0]], [[None] * len(X[0])])
    with pytest.raises(InputError):
        model.calibrate(X[:1], [["unheard"] * len(X[0])])
    with pytest.raises(InputError):
        model.calibrate(X[:2], y[:1])
    with pytest.raises(NotFittedError):
        ChainCRF().calibrate(X, y)
    flat, X, y = items()
    with pytest.raises(InputError):
        flat.calibrate(X[:2], y[:1])
    hinge = MulticlassClassifier(loss="hinge", penalty="l2", l2=1.0).fit(X, y)
    with pytest.raises(AttributeError, match="probabilities are those of loss='logistic'"):
        hinge.calibrate(X, y)
    with pytest.raises(AttributeError, match="probabilities are those of loss='logistic'"):
        hinge.model_.with_temperature(2)


def test_partly_known_labels_count_where_they_are_known():
    model, X, y = chain()
    some = [[label if t % 2 == 0 else None for t, label in enumerate(labels)] for labels in y]
    with_none = model.calibrate(X, some).temperature_
    classes = model.classes_.tolist()

    def loss(temperature):
        marginals = model.model_.with_temperature(temperature).predict_marginals(X)
        return -np.mean([np.log(p[t, classes.index(k)]) for p, ks in zip(marginals, some, strict=True)
                         for t, k in enumerate(ks) if k is not None])  # fmt: skip

    assert loss(with_none) <= min(loss(with_none * factor) for factor in (0.9, 0.99, 1.01, 1.1))


def test_exports_do_not_lose_the_temperature(tmp_path):
    model, X, _ = chain(transition_rules="seen")
    model.calibrate(temperature=TEMPERATURE)
    path = tmp_path / "m.crfsuite"
    interchange.write(model, path, lossy=True)
    back = interchange.read(path)
    assert back.temperature_ == 1.0
    for mine, theirs in zip(back.predict_marginals(X), model.predict_marginals(X), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.parametrize("kind", ["flat", "tree"])
def test_onnx_graphs_have_the_temperature(kind, tmp_path):
    pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    model, X, y = items(kind)
    model.calibrate(X, y)
    interchange.write(model, tmp_path / "m.onnx", dtype="float64")
    p = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(["probabilities"], {"X": X})[0]
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-12)
