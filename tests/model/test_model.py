"""`crfqn.Model`: a fitted model as a value, opened from a file or taken from an estimator."""

import dataclasses
import pickle
import subprocess
import sys
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest

import crfqn
from crfqn import ChainCRF, Model, MulticlassCRF, Tagger, TaxonomyCRF
from crfqn.data.model_file import read_model
from crfqn.errors import InputError, ModelFileError
from crfqn.model.compiled_engine import CompiledEngine
from crfqn.model.model import INTERCEPT
from crfqn.model.numpy_engine import NUMPY

WORDS = [[{"w": word, "n": float(len(word))} for word in text.split()] for text in (
    "the dog barks", "a cat sleeps", "the old cat", "dogs bark", "a", "",
)]  # fmt: skip
TAGS = [text.split() for text in ("B-X I-X O", "B-X I-X O", "B-X I-X I-X", "B-X O", "B-X", "")]
ROWS = np.array([[1.0, 0, 2], [0, 1, 1], [3, 0, 0], [0, 2, 0], [1, 1, 1], [0, 0, 4]])
PATHS = ["a/x", "a/y", "b", "a/x", "b", "a/y"]


def make(kind):
    if kind == "chain":
        return ChainCRF(l1=0.05, l2=0.1, scheme="IOB2").fit(WORDS, TAGS), WORDS, TAGS
    if kind == "flat":
        return MulticlassCRF(l1=0.05).fit(ROWS, PATHS), ROWS, PATHS
    return TaxonomyCRF(l1=0.05, fit_intercept=True).fit(ROWS, PATHS), ROWS, PATHS


@pytest.fixture(params=["chain", "flat", "tree"])
def case(request, tmp_path):
    estimator, X, y = make(request.param)
    path = tmp_path / "m.crfqn"
    estimator.save(path, {"of": "the user"})
    return estimator, Model.open(path), X, y, path


def answers(model, X, y, **engine):
    is_chain = model.ANSWERS.has_positions
    found = {
        "predict": model.predict(X, **engine).tolist(),
        "logs": model.decode(X, **engine).log_probability,
        "marginals": np.concatenate([*map(np.atleast_2d, model.predict_marginals(X, **engine))]),
        "likelihood": model.log_likelihood(X, y, **engine),
    }
    if is_chain:
        found["pairs"] = np.concatenate([*map(np.ravel, model.predict_marginals(X, pairs=True, **engine))])
        found["best"] = [[*map(list, row)] for row in model.predict_nbest(X, 3, **engine)]
        found["spans"] = [[span[:3] for span in row] for row in model.predict_spans(X, **engine)]
        found["of spans"] = np.array([s.probability for row in model.predict_spans(X, **engine) for s in row])
        known = [None, ["B-X", None, {"O", "I-X"}], *[None] * 4]
        found["known"] = model.predict(X, known, **engine).tolist()
        found["partial"] = model.log_likelihood(X, [*y[:1], [None] * 3, *y[2:]], **engine)
    elif model.labels.n_nodes > len(model.classes_):
        found["nodes"] = model.predict_nodes(X, **engine)
        found["threshold"] = model.predict(X, 0.6, **engine).tolist()
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
        elif name == "best":
            for row, other in zip(found[name], value, strict=True):
                assert [labels for labels, _ in row] == [labels for labels, _ in other]
                np.testing.assert_allclose([p for _, p in row], [p for _, p in other], atol=1e-12)
        else:
            assert found[name] == value, name


def test_both_engines_say_the_same(case):
    estimator, model, X, y, _ = case
    assert_same(answers(model, X, y), answers(estimator.model_, X, y, engine=NUMPY))
    assert_same(answers(model, X, y), answers(model, X, y, engine=CompiledEngine(1)))


def test_names_of_their_own(case):
    estimator, model, X, _, _ = case
    assert np.concatenate([*map(np.ravel, model.marginals(X))]) == pytest.approx(
        np.concatenate([*map(np.ravel, estimator.predict_proba(X))]), abs=1e-12
    )
    assert [best[0][0] for best in model.n_best(X, 2)] == estimator.predict(X).tolist()
    if model.ANSWERS.has_positions:
        assert model.spans(X) == model.predict_spans(X)
    assert not hasattr(model, "fit")


def test_weights_by_name_score_the_items(case):
    """The sum of the weights of an item's features is what its labels are compared by."""
    _, model, X, _, _ = case
    weights = model.weights_by_name()
    if model.ANSWERS.has_positions:
        item, features = X[0], [[("w=" + d["w"], 1.0), ("n", d["n"])] for d in X[0]]
        scores = {
            labels: sum(
                weights.features.get((name, label), 0.0) * value
                for label, position in zip(labels, features, strict=True)
                for name, value in position
            )
            + sum(weights.transitions.get(pair, 0.0) for pair in pairwise(labels))
            for labels in [("B-X", "I-X", "O"), ("B-X", "O", "O")]
        }
        (one, s), (other, t) = scores.items()
        found = model.log_likelihood([item, item], [list(one), list(other)])
        assert found[0] - found[1] == pytest.approx(s - t, abs=1e-12)
        assert model.strongest(0, 1)[0][1] in weights.features.values()
        by_size = sorted(weights.transitions.items(), key=lambda entry: -abs(entry[1]))
        assert model.strongest_transitions(3) == by_size[:3]
        assert model.strongest_transitions(9, "I-X") == [entry for entry in by_size if "I-X" in entry[0]][:9]
        assert model.strongest_bigrams() == []
    else:
        node = model.node_names[0]
        of_node = {f: weight for (f, name), weight in weights.features.items() if name == node}
        constant = {INTERCEPT: weights.intercepts[node]} if node in weights.intercepts else {}
        assert dict(model.strongest(0, None)) == of_node | constant
        assert model.n_node_weights[0] == len(of_node | constant)
        logs = model.predict_log_proba(X[:1])[0]
        nodes = {name: k for k, name in enumerate(model.node_names)}
        scores = [
            sum(
                weights.intercepts.get(node, 0.0)
                + sum(weights.features.get((f, node), 0.0) * x for f, x in enumerate(X[0]))
                for node in nodes
                if label == node or (model.tree_ is not None and label.startswith(f"{node}/"))
            )
            for label in model.classes_.tolist()
        ]
        np.testing.assert_allclose(logs - logs[0], np.array(scores) - scores[0], atol=1e-12)


def test_saved_again_the_file_has_the_same_content(case, tmp_path):
    estimator, model, _, _, path = case
    model.save(tmp_path / "again.crfqn")
    before, after = read_model(path), read_model(tmp_path / "again.crfqn")
    assert (after.kind, after.strings, after.metadata) == (before.kind, before.strings, before.metadata)
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)
    assert model.extra_ == {"of": "the user"}
    model.save(tmp_path / "other.crfqn", extra={"n": 1}, dtype="float32")
    other = crfqn.load(tmp_path / "other.crfqn")
    assert other.extra_ == {"n": 1}
    assert other.l1_ == estimator.l1_
    assert model.result_.value == other.result_.value == estimator.result_.value


def test_what_it_is_opened_from(case):
    _, model, X, y, path = case
    expected, content = answers(model, X, y), path.read_bytes()
    for source in (str(path), content, BytesIO(content)):
        assert_same(answers(Model.open(source), X, y), expected)
    assert_same(answers(pickle.loads(pickle.dumps(model)), X, y), expected)
    assert Tagger(path).labels() == model.classes_.tolist()


def test_wrong_use(case, tmp_path):
    estimator, _, _, _, _ = case
    with pytest.raises(ModelFileError, match=r"no\.crfqn"):
        Model.open(tmp_path / "no.crfqn")
    with pytest.raises(InputError, match="got one without"):
        dataclasses.replace(estimator.model_, trained=None).save(tmp_path / "m.crfqn")
    assert not hasattr(type(estimator)(), "model_")
    with pytest.raises(AttributeError):  # frozen
        estimator.model_.classes_ = np.array([1])


def test_a_kind_that_needs_its_estimator(tmp_path):
    crfqn.MultilabelRanker(group_l1=0.1).fit([[1, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [1, 1]]).save(
        tmp_path / "m"
    )
    with pytest.raises(ModelFileError, match=r"crfqn\.load"):
        Model.open(tmp_path / "m")


def test_numpy_is_enough(case):
    path = case[-1]
    code = (
        "import sys; from crfqn import Model; m = Model.open(sys.argv[1]); m.weights_by_name(); "
        "print([n for n in ('numba', 'scipy', 'sklearn', 'pandas') if n in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")
