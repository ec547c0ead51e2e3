"""Explanations: the terms add up to the difference of two scores, which is that of two log-probabilities."""

import json

import networkx
import numpy as np
import pytest

from crfqn import ChainCRF, Features, MulticlassClassifier, MulticlassCRF, Tagger, TaxonomyCRF, Templates
from crfqn.errors import InputError
from crfqn.model.content import Entries, chain_file
from crfqn.model.opening import model_of
from crfqn.model.weights import WeightMatrix

WORDS = ["Ann", "Lee", "sees", "New", "York", "dog", "the"]
LABELS = dict(zip(WORDS, ["P", "P", "O", "L", "L", "O", "O"], strict=True))


def chains(seed=0, n=40):
    rng = np.random.default_rng(seed)
    items = [[str(word) for word in rng.choice(WORDS, rng.integers(1, 6))] for _ in range(n)]
    X = [[{"w": word, "n": float(rng.normal())} for word in words] for words in items]
    return items, X, [[LABELS[word] for word in words] for words in items]


def check_chain(model, X):
    """Assert that each difference is that of the log-probabilities of two labellings, whose terms add up to it."""
    n_rivals = 0
    for item, explained in zip(X, model.explain(X, n=None), strict=True):
        best = [*model.predict([item])[0]]
        assert [one.label for one in explained] == best
        for t, one in enumerate(explained):
            assert sum(term.value for term in one.terms) == pytest.approx(one.difference, abs=1e-9)
            p = dict(
                zip(model.classes_.tolist(), model.predict_marginals([item])[0][t].tolist(), strict=True)
            )
            assert one.probability == pytest.approx(p.pop(one.label), abs=1e-12)
            if one.runner_up is None:
                continue
            assert one.runner_up_probability == pytest.approx(max(p.values()), abs=1e-12)
            known = [None] * len(best)
            known[t] = one.runner_up
            rival = [*model.predict([item], known=[known])[0]]
            logs = model.log_likelihood([item, item], [best, rival])
            assert one.difference == pytest.approx(logs[0] - logs[1], abs=1e-9)
            n_rivals += 1
    assert n_rivals > len(X)


@pytest.mark.parametrize("how", [{}, {"l2": 1.0, "l1": 0.0}, {"transition_rules": "seen"}])
def test_of_a_chain(how, tmp_path):
    _, X, y = chains()
    model = ChainCRF(**({"l1": 0.01} | how)).fit(X, y)
    check_chain(model, X[:10])
    model.save(tmp_path / "model.crfqn")
    one = Tagger(tmp_path / "model.crfqn").explain(X[0], n=2)
    for mine, whole in zip(one, model.explain(X[:1], n=None)[0], strict=True):
        assert mine.terms == whole.terms[:2]
        assert mine.rest == pytest.approx(whole.difference - sum(term.value for term in mine.terms))


def test_of_bigram_features_and_a_dense_block():
    items, X, y = chains(1)
    columns = [[[word] for word in words] for words in items]
    model = ChainCRF(l1=0.01).fit(Templates("U:%x[0,0]\nB:%x[0,0]").fit_transform(columns), y)
    check_chain(model, columns[:8])
    rng = np.random.default_rng(0)
    dense = [rng.normal(size=(len(item), 2)) for item in X]
    model = ChainCRF(l1=0.01).fit(Features(dense, X), y)
    (explained,) = model.explain(Features(dense[:1], X[:1]), n=None)
    assert {term.kind for one in explained for term in one.terms} >= {"feature", "dense"}
    logs = model.predict_nbest(Features(dense[:1], X[:1]), 3 ** len(X[0]))[0]
    best = logs[0][1]
    differences = [np.log(best / p) for _, p in logs[1:]]
    for one in explained:
        assert np.isclose(differences, one.difference, atol=1e-9).any()


def test_only_one_possible_label_has_no_runner_up():
    model = ChainCRF(l1=0.1).fit([[["a"], ["b"]]] * 2, [["A", "A"]] * 2)
    (one, _) = model.explain([[["a"], ["b"]]])[0]
    assert (one.label, one.runner_up, one.difference, one.terms) == ("A", None, np.inf, [])
    assert json.loads(json.dumps(one.to_json()))["difference"] is None
    known = [["N", None]]
    chain = ChainCRF(l1=0.1).fit([[["a"], ["b"]]] * 2, [["N", "A"]] * 2)
    first, second = chain.explain([[["a"], ["b"]]], known=known)[0]
    assert (first.runner_up, second.runner_up) == (None, "N")


def test_a_chain_without_probabilities_is_explained_by_its_scores():
    _, X, y = chains(2)
    model = ChainCRF(loss="hinge", l1=0, l2=0.1).fit(X, y)
    for one in model.explain(X[:3], n=None)[0]:
        assert one.probability is one.runner_up_probability is None
        assert one.difference == pytest.approx(sum(term.value for term in one.terms))
        assert one.difference > 0


@pytest.mark.parametrize("kind", ["flat", "taxonomy", "hinge"])
def test_of_single_items(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.array(["a/x", "a/y", "b"])[np.argmax(X[:, :3], axis=1)]
    if kind == "taxonomy":
        tree = networkx.DiGraph([("root", "a"), ("root", "b"), ("a", "a/x"), ("a", "a/y")])
        model = TaxonomyCRF(taxonomy=tree, l1=0.1).fit(X, y)
    else:
        model = (
            MulticlassCRF(l1=0.1).fit(X, y)
            if kind == "flat"
            else MulticlassClassifier(loss="hinge").fit(X, y)
        )
    for row, one in zip(X[:10], model.explain(X[:10], n=None), strict=True):
        assert one.label == model.predict(row[None])[0]
        assert one.difference == pytest.approx(sum(term.value for term in one.terms))
        if kind != "hinge":
            logs = dict(
                zip(model.classes_.tolist(), model.predict_log_proba(row[None])[0].tolist(), strict=True)
            )
            assert one.difference == pytest.approx(logs[one.label] - logs[one.runner_up])
            assert one.runner_up == sorted(logs, key=logs.get)[-2]


def test_n_is_checked():
    _, X, y = chains()
    model = ChainCRF(l1=0.1).fit(X, y)
    with pytest.raises(InputError, match="n: expected None or an integer >= 1, got 0"):
        model.explain(X[:1], n=0)
    assert model.explain([[]]) == [[]]


def frozen(n_labels):
    """A chain whose labels hardly change from position to position, with a feature of each label."""
    states = np.arange(n_labels)
    pairs = np.divmod(np.arange(n_labels**2), n_labels)
    edges = Entries(np.where(pairs[0] == pairs[1], 3.0, -3.0) + 0.01 * pairs[1], *pairs)
    weights = Entries(0.5 + 0.01 * states, states, states)
    labels, names = [f"l{k}" for k in states], [f"f{k}" for k in states]
    return model_of(chain_file("", labels, names, weights, edges, extra={}))


def test_labellings_that_never_meet_the_predicted_one_again():
    """Their differences share terms, which are added up once: twice the positions take twice the work."""
    model = frozen(4)
    X = [[[f"f{t * t % 7 % 5}"] for t in range(8)]]
    check = [[None] * 8 for _ in range(8)]
    n_positions = 0
    for t, one in enumerate(model.explain(X, n=None)[0]):
        check[t][t] = one.runner_up
        (rival,) = model.predict(X, known=[check[t]])
        logs = model.log_likelihood(X * 2, [model.predict(X)[0], rival])
        assert one.difference == pytest.approx(logs[0] - logs[1], abs=1e-9)
        assert sum(term.value for term in one.terms) == pytest.approx(one.difference, abs=1e-9)
        n_positions += len({term.position for term in one.terms})
    assert n_positions > 5 * len(X[0])


@pytest.mark.parametrize("has_features", [True, False])
def test_the_work_grows_with_the_positions(monkeypatch, has_features):
    calls, terms_of = [], WeightMatrix.terms
    monkeypatch.setattr(WeightMatrix, "terms", lambda self, *a: (calls.append(1), terms_of(self, *a))[1])
    model, n_calls = frozen(4), []
    for n in (200, 400, 800):
        calls.clear()
        (explained,) = model.explain([[[f"f{t % 3}"] if has_features else [] for t in range(n)]], n=2)
        assert all(len(one.terms) == 2 for one in explained)
        n_calls.append(len(calls))
    assert n_calls[0] > 200
    assert n_calls[2] - n_calls[1] <= 2.2 * (n_calls[1] - n_calls[0])


def test_of_labels_that_form_one_run():
    _, X, y = chains(3)
    model = ChainCRF(l1=0.01).fit(X, y)
    explained = model.explain(X[:12], n=None, once=["P", "L"])
    n_other = 0
    for item, of_item in zip(X, explained, strict=False):
        best = [*model.predict([item], once=["P", "L"])[0]]
        assert [one.label for one in of_item] == best
        for t, one in enumerate(of_item):
            if one.runner_up is None:
                continue
            known = [None] * len(best)
            known[t] = one.runner_up
            rival = [*model.predict([item], known=[known], once=["P", "L"])[0]]
            n_other += rival != [*model.predict([item], known=[known])[0]]
            logs = model.log_likelihood([item, item], [best, rival])
            assert one.difference == pytest.approx(logs[0] - logs[1], abs=1e-9)
    assert n_other
