"""Items without positions, which have one labelling and teach nothing, and chains without any feature, whose weights
are of transitions alone."""

import itertools
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run_here

from crfqn import Blocks, ChainCRF, Features, Sequences, Tagger, Templates, TokenColumns, crf_path, load
from crfqn.compat import CRF
from crfqn.errors import InputError
from crfqn.model.opening import open_model

X = [[{"a": 1.0}, {"b": 2.0}], [{"b": 1.0}], [{"a": 1.0}, {}, {"b": 1.0}], [{"c": 1.0}]] * 3
Y = [["x", "y"], ["y"], ["x", "x", "y"], ["x"]] * 3
LENGTHS = [len(item) for item in Y]
PLACES = (0, 3, 3, 12)  # where empty items are put, so that there are some at both ends
NAMES = ("a", "b", "c")
TOGETHER = {"l1": 0.05, "l2": 0.1, "tol": 1e-8}


def with_empty(items):
    items = list(items)
    for place in sorted(PLACES, reverse=True):
        items.insert(place, [])
    return items


def arrays(items):
    return [
        np.array([[row.get(name, 0.0) for name in NAMES] for row in item]).reshape(-1, 3) for item in items
    ]


def as_strings(items):
    return [[list(row) for row in item] for item in items]


def as_sequences(items):
    rows = arrays(items)
    return Sequences(sp.csr_array(np.concatenate(rows)), np.cumsum([0, *map(len, rows)]))


FORMS = {
    "dicts": lambda items: items,
    "strings": as_strings,
    "arrays": arrays,
    "lists among arrays": lambda items: [rows if len(rows) else [] for rows in arrays(items)],
    "sparse": lambda items: [sp.csr_array(rows) for rows in arrays(items)],
    "sequences": as_sequences,
    "dense beside": lambda items: Features([np.ones((len(item), 2)) for item in items], items),
}
SETTINGS = {
    "elastic net": TOGETHER,
    "l-bfgs": {"l1": 0.0, "l2": 1.0, "tol": 1e-8},
    "auto": {},
    "hinge": {"loss": "hinge", "l2": 1.0},
    "observed": {"l1": 0.05, "all_possible_states": False, "all_possible_transitions": False},
    "online": {"solver": "averaged-perceptron"},
    "sgd": {"l1": 0.05, "solver": "sgd", "random_state": 0},
    "frank-wolfe": {"loss": "hinge", "l1": 0.0, "l2": 1.0, "solver": "block-frank-wolfe"},
    "rules": {"l1": 0.05, "transition_rules": "seen"},
}


def same(model, other):
    assert model.classes_.tolist() == other.classes_.tolist()
    np.testing.assert_array_equal(model.coef_.toarray(), other.coef_.toarray())
    np.testing.assert_array_equal(model.transition_coef_.toarray(), other.transition_coef_.toarray())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_training_is_that_without_empty_items(form):
    plain = ChainCRF(**TOGETHER).fit(form(X), Y)
    same(ChainCRF(**TOGETHER).fit(form(with_empty(X)), with_empty(Y)), plain)
    same(ChainCRF(**TOGETHER).fit(form(with_empty(X)), [label for item in Y for label in item]), plain)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_training_is_that_without_empty_items(settings):
    same(ChainCRF(**settings).fit(with_empty(X), with_empty(Y)), ChainCRF(**settings).fit(X, Y))


def test_weights_and_unknown_labels():
    weights = np.linspace(0.5, 2.0, len(X))
    padded = np.insert(weights, PLACES, 7.0)
    plain = ChainCRF(**TOGETHER).fit(X, Y, weights)
    same(ChainCRF(**TOGETHER).fit(with_empty(X), with_empty(Y), padded), plain)
    unknown = [None if i == 2 else [{"x", "y"}, *item[1:]] for i, item in enumerate(Y)]
    model = ChainCRF(**TOGETHER).fit(with_empty(X), [item or None for item in with_empty(Y)])
    same(model, ChainCRF(**TOGETHER).fit(X, Y))
    same(ChainCRF(l2=1.0).fit(with_empty(X), with_empty(unknown)), ChainCRF(l2=1.0).fit(X, unknown))
    with pytest.raises(
        InputError, match=r"^sample_weight: expected a positive weight of an item with positions"
    ):
        ChainCRF().fit([[], [{"a": 1}]], [[], ["x"]], [1.0, 0.0])


def test_what_a_model_says_of_an_empty_item(tmp_path):
    model = ChainCRF(**TOGETHER).fit(with_empty(X), with_empty(Y))
    model.save(tmp_path / "m.crfqn")
    items = with_empty(X)
    for m in (model, load(tmp_path / "m.crfqn"), open_model(tmp_path / "m.crfqn")):
        assert list(m.predict([[]])) == [[]]
        assert list(m.predict(items)) == with_empty(model.predict(X))
        assert [p.shape for p in m.predict_marginals(items)] == [(len(item), 2) for item in items]
        assert m.predict_nbest([[], X[0]], 3)[0] == [([], 1.0)]
        paths, logs = m.decode(items)
        assert [len(path) for path in paths] == [len(item) for item in items]
        np.testing.assert_array_equal(np.asarray(logs)[[not item for item in items]], 0.0)
        likelihood = m.log_likelihood(items, with_empty(Y))
        np.testing.assert_array_equal(likelihood[[not item for item in items]], 0.0)
    assert model.predict([]).tolist() == []
    assert model.score(items, with_empty(Y)) == model.score(X, Y)
    assert [p.shape for p in model.predict_marginals([[], X[0]], pairs=True)] == [(0, 2, 2), (1, 2, 2)]
    assert model.predict([[]], known=[[]]).tolist() == [[]]
    tagger = Tagger(tmp_path / "m.crfqn")
    assert tagger.tag([]) == []
    with pytest.raises(InputError, match="expected one or more positions to score, got none"):
        model.score([[], []], [[], []])


def test_spans_of_an_empty_item():
    labels = [["B-n" if label == "x" else "O" for label in item] for item in Y]
    model = ChainCRF(l1=0.05, scheme="IOB2").fit(with_empty(X), with_empty(labels))
    spans = model.predict_spans(with_empty(X))
    assert [span for item in spans for span in item] == [s for item in model.predict_spans(X) for s in item]
    assert [len(item) for item in spans] == [len(item) for item in with_empty(model.predict_spans(X))]


def test_data_without_any_position():
    for items in ([[], []], [np.ones((0, 3))], Sequences(np.ones((0, 3)), [0, 0])):
        with pytest.raises(InputError, match=r"^expected at least one position, but all items are empty"):
            ChainCRF().fit(items, [[]] * len(items))
    with pytest.raises(InputError, match="at least one item"):
        ChainCRF().fit([], [])


@pytest.mark.parametrize("solver", ["averaged-perceptron", "passive-aggressive"])
def test_online_batches(solver):
    model, padded = (ChainCRF(solver=solver) for _ in range(2))
    for part in (slice(0, 6), slice(6, 12)):
        model.partial_fit(X[part], Y[part], classes=["x", "y"])
        padded.partial_fit([*X[part], []], [*Y[part], []], classes=["x", "y"])
    assert padded.predict(X).tolist() == model.predict(X).tolist()


def test_batches_that_are_kept():
    padded = ChainCRF(**TOGETHER)
    for part in (slice(0, 6), slice(6, 12)):
        padded.partial_fit([[], *X[part], []], [[], *Y[part], []])
    plain = ChainCRF(**TOGETHER).fit(X, Y)
    np.testing.assert_allclose(
        np.concatenate(padded.predict_marginals(X)), np.concatenate(plain.predict_marginals(X)), atol=1e-4
    )


def test_blocks(tmp_path):
    batches = [(with_empty(X[:6] * 2), with_empty(Y[:6] * 2)), ([[], []], [[], []]), ([*X, []], [*Y, []])]
    blocks = Blocks.write(tmp_path / "padded", batches)
    plain = Blocks.write(tmp_path / "plain", [(X[:6] * 2, Y[:6] * 2), (X, Y)])
    same(ChainCRF(**TOGETHER).fit(blocks), ChainCRF(**TOGETHER).fit(plain))
    with pytest.raises(InputError, match="expected at least one position"):
        Blocks.write(tmp_path / "none", [([[], []], [[], []])])


def test_a_path():
    path = crf_path(ChainCRF(l1=0.05), with_empty(X), with_empty(Y), cv=2)
    assert path.best_model.predict([[]]).tolist() == [[]]


def test_compat():
    plain = CRF(c1=0.05, c2=0.05).fit(X, Y)
    model = CRF(c1=0.05, c2=0.05).fit(with_empty(X), with_empty(Y), with_empty(X), with_empty(Y))
    assert model.state_features_ == plain.state_features_
    assert list(model.predict(with_empty(X))) == with_empty(plain.predict(X))
    assert model.predict_marginals_single([]) == []
    assert model.score(with_empty(X), with_empty(Y)) == plain.score(X, Y)


def test_templates():
    columns = TokenColumns.from_items([[{"w": "a"}, {"w": "b"}], [], [{"w": "b"}]])
    templates = Templates("U00:%x[0,0]\nU01:%x[-1,0]\n")
    model = ChainCRF(l1=0.05).fit(templates.fit_transform(columns), [["x", "y"], [], ["y"]])
    assert [*map(len, model.predict(columns))] == [2, 0, 1]


@pytest.mark.parametrize("form", ["tokens", "features", "nothing"])
def test_on_the_command_line(monkeypatch, tmp_path, form):
    """Trained on and tested, evaluated and labelled; JSON lines have items without positions."""
    rows = [
        {"tokens": [next(iter(row), "-") for row in item]}
        if form == "tokens"
        else {"features": item if form == "features" else [{} for _ in item]}
        for item in with_empty(X)
    ]
    lines = [json.dumps({**row, "labels": labels}) for row, labels in zip(rows, with_empty(Y), strict=True)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    options = [] if form == "tokens" else ["--features", "attributes"]
    done = run_here(
        monkeypatch,
        tmp_path,
        "train",
        "--data",
        "t.jsonl",
        "--test",
        "t.jsonl",
        "--l1",
        0.05,
        *options,
        "-q",
        "-o",
        "m.crfqn",
    )
    assert done.returncode == 0, done.stderr
    scores = json.loads(run_here(monkeypatch, tmp_path, "evaluate", "m.crfqn", "t.jsonl", "--json").stdout)
    assert (scores["n_items"], scores["n_positions"]) == (len(with_empty(X)), sum(LENGTHS))
    labelled = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "t.jsonl", "--json").stdout.splitlines()
    assert [len(json.loads(line)["labels"]) for line in labelled] == [*map(len, with_empty(X))]


# ---- chains without any feature


def featureless(lengths):
    return [[{} for _ in range(n)] for n in lengths]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("form", [
    lambda lengths: featureless(lengths),
    lambda lengths: [[[] for _ in range(n)] for n in lengths],
    lambda lengths: [np.ones((n, 0)) for n in lengths],
    lambda lengths: Sequences(np.ones((sum(lengths), 0)), np.cumsum([0, *lengths])),
    lambda lengths: Sequences(sp.csr_array((sum(lengths), 0)), np.cumsum([0, *lengths])),
], ids=["dicts", "strings", "arrays", "dense", "sparse"])  # fmt: skip
def test_transitions_alone(form, settings, tmp_path):
    model = ChainCRF(**settings).fit(form(LENGTHS), Y)
    assert model.n_features_in_ == 0
    assert model.coef_.shape == (2, 0)
    model.save(tmp_path / "m.crfqn")
    again = load(tmp_path / "m.crfqn")
    new = form([3, 1])
    assert again.predict(new).tolist() == model.predict(new).tolist()
    assert [len(item) for item in model.predict(new)] == [3, 1]
    assert model.score(form(LENGTHS), Y) == again.score(form(LENGTHS), Y)


def test_marginals_of_transitions_alone():
    """By enumeration, and the strengths that CRFsuite is given."""
    model = ChainCRF(l1=0.0, l2=0.2, tol=1e-10).fit(featureless(LENGTHS), Y)
    edges = model.transition_coef_.toarray()
    weights = {
        path: math.exp(edges[path[0], path[1]] + edges[path[1], path[2]])
        for path in itertools.product(range(2), repeat=3)
    }
    total = sum(weights.values())
    expected = [[sum(w for p, w in weights.items() if p[t] == k) / total for k in range(2)] for t in range(3)]
    np.testing.assert_allclose(model.predict_marginals(featureless([3]))[0], expected, atol=1e-10)
    theirs = (
        pytest.importorskip("sklearn_crfsuite")
        .CRF(c1=0.0, c2=0.1, all_possible_transitions=True, max_iterations=1000, delta=1e-12, epsilon=1e-10)
        .fit(featureless(LENGTHS), Y)
    )
    for (first, second), weight in theirs.transition_features_.items():
        row, column = (model.classes_.tolist().index(label) for label in (first, second))
        assert edges[row, column] == pytest.approx(weight, abs=1e-3)


def test_compat_of_transitions_alone():
    model = CRF(c1=0.0, c2=0.1, all_possible_transitions=True).fit(featureless(LENGTHS), Y)
    theirs = (
        pytest.importorskip("sklearn_crfsuite")
        .CRF(c1=0.0, c2=0.1, all_possible_transitions=True)
        .fit(featureless(LENGTHS), Y)
    )
    assert model.predict(featureless([3, 0, 2])).tolist() == [
        list(item) for item in theirs.predict(featureless([3, 0, 2]))
    ]


def test_blocks_of_transitions_alone(tmp_path):
    blocks = Blocks.write(tmp_path / "blocks", [(featureless(LENGTHS), Y)])
    model = ChainCRF(**TOGETHER).fit(blocks)
    expected = ChainCRF(**TOGETHER).fit(featureless(LENGTHS), Y)
    np.testing.assert_allclose(
        model.transition_coef_.toarray(), expected.transition_coef_.toarray(), atol=1e-6
    )
