"""ChainCRF under rules and with partly known labels: what users give, what they get, and what they are told."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import crfqn
from crfqn import ChainCRF, Transitions
from crfqn.data.schemes import spans_of
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.result import Status

LABELS = ["B-X", "I-X", "O"]


@pytest.fixture(scope="module")
def data():
    """Words that tell labels apart by half, in legal IOB2."""
    random = np.random.default_rng(4)
    X, y = [], []
    for length in [4, 2, 6, 3, 5, 1, 4, 5, 3, 6, 2, 4]:
        labels = ["O"]
        while len(labels) <= length:
            label = LABELS[random.integers(3)]
            if label != "I-X" or labels[-1] != "O":
                labels.append(label)
        y.append(labels[1:])
        X.append([[label[0] if random.random() < 0.5 else "?", f"w{random.integers(3)}"] for label in y[-1]])
    return X, y


@pytest.fixture(scope="module")
def model(data):
    return ChainCRF(l1=0.05, scheme="BIO", n_threads=1).fit(*data)


HARD = [[["I"], ["I"], ["?"], ["I"]], [["I"]]]  # without rules the first label is I-X


def test_scheme_in_training_and_decoding(data, model):
    assert ChainCRF(l1=0.05, n_threads=1).fit(*data).predict(HARD)[1] == ["I-X"]
    for labels in model.predict(HARD):
        spans_of(labels, "IOB2")  # strict: raises where a label breaks the scheme
    assert model.predict_marginals(HARD)[0][0, 1] == 0.0
    assert model.log_likelihood([HARD[1]], [["I-X"]])[0] == -np.inf
    assert model.rules_.start.tolist() == [True, False, True]
    legal = np.exp(model.log_likelihood([HARD[1]] * 2, [["O"], ["B-X"]]))
    np.testing.assert_allclose(legal.sum(), 1.0)


def test_rules_in_decoding_alone_leave_training_as_it_is(data):
    plain = ChainCRF(l1=0.05, n_threads=1).fit(*data)
    ruled = ChainCRF(l1=0.05, n_threads=1, scheme="IOB2", enforce_rules_in="decoding").fit(*data)
    np.testing.assert_array_equal(plain.coef_.toarray(), ruled.coef_.toarray())
    spans_of(ruled.predict(HARD)[0], "IOB2")


def test_what_was_seen(data):
    X, y = [[["a"], ["b"]], [["a"], ["b"], ["c"]]], [["A", "B"], ["A", "B", "C"]]
    found = ChainCRF(l1=0.01, transition_rules="seen", n_threads=1).fit(X, y)
    assert found.rules_.transitions.tolist() == [[False, True, False], [False, False, True], [False] * 3]
    assert found.predict([[["c"], ["c"]]])[0] == ["A", "B"]
    with pytest.raises(InputError, match="item 1: no labelling keeps the rules"):
        found.predict([[["a"], ["b"]], [["a"]] * 4])


def test_violations_in_training_data(data):
    X, y = data
    broken = [*y[:3], ["O", "I-X", "O"], *y[4:]]
    with pytest.raises(InputError, match="item 3, position 1: the rules do not allow 'I-X' after 'O'"):
        ChainCRF(scheme="IOB2").fit(X, broken)
    with pytest.raises(InputError, match="item 0, position 0: the rules do not allow 'I-X' at the start"):
        ChainCRF(scheme="IOB2").fit(X[:1], [["I-X"] * 4])
    left = ChainCRF(l1=0.05, scheme="IOB2", on_violation="drop", n_threads=1)
    with pytest.warns(
        UserWarning, match=r"1 of 12 items break the rules and are left out; item 3, position 1"
    ):
        left.fit(X, broken)
    kept = [i for i in range(12) if i != 3]
    other = ChainCRF(l1=0.05, scheme="IOB2", n_threads=1).fit([X[i] for i in kept], [y[i] for i in kept])
    np.testing.assert_array_equal(left.coef_.toarray(), other.coef_.toarray())
    with pytest.raises(InputError, match=r"BIOES: expected labels O, B-<type>, .* got .X."):
        ChainCRF(scheme="BIOES").fit([[["a"]]], [["X"]])


def test_transitions_by_name():
    rules = Transitions(allowed={"A": ["A", "B"], "B": ["C"]}, forbidden=[("A", "A")], start=["A"], end="any")
    found = rules.rules(np.array(["A", "B", "C"]), np.array([0], np.int32), np.array([0, 1]))
    assert found.transitions.tolist() == [[False, True, False], [False, False, True], [False] * 3]
    assert found.start.tolist() == [True, False, False]
    assert found.end.all()
    assert Transitions.from_json(rules.to_json()) == rules
    windows = Transitions(scheme="IOB2", start="any")
    assert windows.rules(np.array(LABELS), np.zeros(1, np.int32), np.array([0, 1])).start.all()
    with pytest.warns(UserWarning, match="do not have are ignored: 'Z'"):
        Transitions(end=["A", "Z"]).rules(np.array(["A"]), np.zeros(1, np.int32), np.array([0, 1]))


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda: Transitions(allowed="AB"), "allowed: expected pairs"),
    (lambda: Transitions(forbidden=[("A",)]), "forbidden: expected pairs of labels, got"),
    (lambda: Transitions(start="A"), "start: expected a collection of labels"),
    (lambda: Transitions(scheme="IOBX"), "scheme: expected one of IOB1"),
    (lambda: Transitions(seen=1), "seen: expected True or False"),
    (lambda: Transitions.from_json({"x": 1}), "transition_rules: expected a table"),
    (lambda: ChainCRF(transition_rules=[("A", "B")]).fit([[["a"]]], [["A"]]), "expected a crfqn.Transitions"),
    (lambda: ChainCRF(scheme=3).fit([[["a"]]], [["A"]]), "scheme: expected one of"),
    (lambda: ChainCRF(enforce_rules_in="training").fit([[["a"]]], [["A"]]), "enforce_rules_in: expected one of"),
    (lambda: ChainCRF(on_violation="skip").fit([[["a"]]], [["A"]]), "on_violation: expected one of"),
])  # fmt: skip
def test_rules_that_make_no_sense(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


def test_two_schemes_are_refused():
    both = ChainCRF(scheme="IOB1", transition_rules=Transitions(scheme="IOB2"))
    with pytest.raises(InputError, match="expected one scheme, got scheme='IOB1'"):
        both.fit([[["a"]]], [["O"]])


def test_model_files_keep_the_rules(data, model, tmp_path):
    assert clone(model).scheme == "BIO"
    model.save(tmp_path / "m.crfqn")
    loaded = crfqn.load(tmp_path / "m.crfqn")
    assert loaded.predict_nbest(HARD, 3) == model.predict_nbest(HARD, 3)
    assert loaded.scheme == "BIO"
    named = Transitions(forbidden=[("O", "O")])
    other = ChainCRF(l1=0.5, transition_rules=named, on_violation="drop", n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.fit(*data)
    other.save(tmp_path / "o.crfqn")
    loaded = crfqn.load(tmp_path / "o.crfqn")
    assert loaded.transition_rules == named
    np.testing.assert_array_equal(loaded.rules_.transitions, other.rules_.transitions)
    plain = ChainCRF(l1=0.5, n_threads=1).fit(*data)
    plain.save(tmp_path / "p.crfqn")
    assert crfqn.load(tmp_path / "p.crfqn").rules_ is None


def test_n_best(model, data):
    X = data[0][:3]
    found, decoded = model.predict_nbest(X, n=4), model.decode(X)
    for labellings, best, log_probability in zip(found, decoded.labels, decoded.log_probability, strict=True):
        probabilities = [p for _, p in labellings]
        assert list(labellings[0][0]) == list(best)
        np.testing.assert_allclose(probabilities[0], np.exp(log_probability))
        assert probabilities == sorted(probabilities, reverse=True)
    for labels, probability in found[0]:
        np.testing.assert_allclose(np.log(probability), model.log_likelihood(X[:1], [labels])[0])
    everything = model.predict_nbest(X[1:2], n=100)[0]
    np.testing.assert_allclose(sum(p for _, p in everything), 1.0)
    assert len({tuple(labels) for labels, _ in everything}) == len(everything) == 5  # legal ones of length 2
    with pytest.raises(InputError, match="n: expected an integer >= 1"):
        model.predict_nbest(X, n=0)
    with pytest.raises(InputError, match="n: expected a smaller number of labellings"):
        model.predict_nbest(X, n=10**9)


def test_spans(model, data):
    X = [*data[0][:4], []]
    for spans, labels, item in zip(model.predict_spans(X), model.predict(X), X, strict=True):
        assert [span[:3] for span in spans] == [(s.type, s.start, s.stop) for s in spans_of(labels, "IOB2")]
        every = model.predict_nbest([item], n=2000)[0] if item else []
        for span in spans:
            there = [p for y, p in every if (span.start, span.end, span.label) in spans_of(y, "IOB2")]
            np.testing.assert_allclose(span.probability, sum(there), rtol=1e-9)


def test_spans_need_a_scheme(data):
    plain = ChainCRF(l1=0.05, n_threads=1).fit(*data)
    with pytest.raises(InputError, match="scheme: spans need one"):
        plain.predict_spans(data[0])
    assert any(plain.predict_spans(data[0], scheme="IOB1"))


def test_known_labels(model, data):
    X = data[0][:2]
    known = [[None, "O", {"B-X", "O"}, None], None]
    labels = model.predict(X, known=known)
    assert labels[0][1] == "O"
    assert labels[0][2] in {"B-X", "O"}
    assert labels[1] == model.predict(X[1:])[0]
    marginals = model.predict_marginals(X, known=known)
    np.testing.assert_allclose(marginals[0].sum(axis=1), 1.0)
    assert marginals[0][1][:2].tolist() == [0.0, 0.0]  # and so 1 for the other, but for rounding
    whole, part = model.predict_nbest(X[:1], n=500)[0], model.predict_nbest(X[:1], n=500, known=known[:1])[0]
    fits = [(y, p) for y, p in whole if y[1] == "O" and y[2] != "I-X"]
    assert [y for y, _ in part] == [y for y, _ in fits]
    np.testing.assert_allclose([p for _, p in part], np.array([p for _, p in fits]) / sum(p for _, p in fits))
    with pytest.raises(InputError, match="item 0: no labelling keeps the rules and the known labels"):
        model.predict(X, known=[["I-X", None, None, None], None])
    with pytest.raises(InputError, match="item 1, position 1: label 'B-Q' is not among the 3 known classes"):
        model.predict(X, known=[None, [None, "B-Q"]])
    with pytest.raises(InputError, match="item 0: expected 4 labels"):
        model.predict(X, known=[["O"], None])
    with pytest.raises(InputError, match="position 0: expected at least one label in a set"):
        model.predict(X, known=[[set(), None, None, None], None])


def test_pairs_of_marginals(model, data):
    X = data[0][:2]
    for pairs, singles in zip(
        model.predict_marginals(X, pairs=True), model.predict_marginals(X), strict=True
    ):
        np.testing.assert_allclose(pairs.sum(axis=2), singles[:-1], atol=1e-12)
        np.testing.assert_allclose(pairs.sum(axis=1), singles[1:], atol=1e-12)


def test_default_training_on_partly_known_labels_ends_in_time():
    """Text with rare features, two of five labels hidden: gradients alone took 500 iterations and a warning."""
    random = np.random.default_rng(0)
    words = random.zipf(1.4, (300, 8)) % 2000
    labels = np.where(random.random(words.shape) < 0.2, random.integers(0, 4, words.shape), words % 4)
    X = [[[f"w{w}", f"s{w % 50}", f"p{before}"] for before, w in zip([0, *item], item)] for item in words]  # noqa: B905
    y = [[None if random.random() < 0.4 else f"L{label}" for label in item] for item in labels]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = ChainCRF(tol=0.03, n_threads=1).fit(X, y)
    assert model.result_.status is Status.STATIONARY
    assert model.result_.passes < 100


def test_training_on_partly_known_labels(data):
    X, y = data
    part = [[None if t % 3 == 1 else label for t, label in enumerate(labels)] for labels in y]
    part[2], part[4][0] = None, {"O", "B-X"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)  # there is no better end
        model = ChainCRF(l1=0.05, scheme="IOB2", n_threads=1).fit(X, part)
    assert model.result_.status is Status.STATIONARY
    assert np.isnan(model.result_.gap)
    assert model.log_likelihood(X[2:3], [None])[0] == 0.0
    assert (model.log_likelihood(X, part) >= model.log_likelihood(X, y)).all()
    smooth = ChainCRF(l1=0.0, l2=0.1, n_threads=1).fit(X, part)
    assert smooth.result_.status is Status.STATIONARY
    with pytest.raises(UnsupportedObjectiveError, match="PartialLikelihood"):
        ChainCRF(solver="feature-bcd", n_threads=1).fit(X, part)
    with pytest.raises(InputError, match="loss='hinge': expected known labels"):
        ChainCRF(l1=0, l2=1, loss="hinge", n_threads=1).fit(X, part)
    with pytest.raises(InputError, match="all_possible_states"):
        ChainCRF(all_possible_states=False, n_threads=1).fit(X, part)
    with pytest.raises(InputError, match="item 0: no labelling of its labels keeps the rules"):
        ChainCRF(scheme="IOB2").fit([[["a"], ["b"]], [["a"]]], [[{"O", "B-Y"}, {"I-X", "I-Z"}], ["B-X"]])


@pytest.mark.parametrize(("y", "message"), [
    ([[None, None]], "at least one known label"),
    ([[None, set()]], "item 0, position 1: expected at least one label in a set"),
    ([[None, {1, "A"}]], "labels of one kind"),
    ([[{"A"}, [1]]], "item 0, position 1: expected a string or number"),
    ([[{"A"}, float("nan")]], "item 0, position 1: expected a string or number"),
])  # fmt: skip
def test_partial_labels_that_make_no_sense(y, message):
    with pytest.raises(InputError, match=message):
        ChainCRF().fit([[["a"], ["b"]]], y)
