"""Labels that form at most one run in an item: exact, against all labellings that keep the rule."""

import tracemalloc
from itertools import groupby, product
from time import monotonic

import numpy as np
import pytest
from scipy.sparse import csr_array

from crfqn import ChainCRF, Model, Tagger, Templates, Transitions, load
from crfqn.errors import InputError
from crfqn.model.compiled_engine import CompiledEngine
from crfqn.model.label_constraints import LabelConstraints
from crfqn.model.numpy_engine import NUMPY
from crfqn.structures import single_runs
from crfqn.structures.single_runs import best_of_single_runs, repeats
from crfqn.structures.span_rules import SpanRules
from crfqn.time_limit import TimeIsUp, TimeLimit


def n_runs(labels, name):
    return sum(label == name for label, _ in groupby(labels))


def weighted(rng, classes, n_features=4, **how):
    """Return a chain with random weights, which wants to repeat labels."""
    X = [rng.normal(size=(len(classes), n_features))]
    model = ChainCRF(l1=0.1, n_threads=1, **how).fit(X, [classes])
    model.coef_ = csr_array(2 * rng.normal(size=(len(classes), n_features)))
    model.transition_coef_ = csr_array(rng.normal(size=(len(classes), len(classes))))
    return model


@pytest.mark.parametrize("seed", range(60))
def test_searches_agree_with_enumeration(seed):
    rng = np.random.default_rng(seed)
    length, n_states, n = rng.integers(1, 7), rng.integers(1, 5), int(rng.integers(1, 6))
    nodes = rng.normal(size=(length, n_states)) * rng.choice([0.1, 1.0, 3.0])
    nodes[rng.random(nodes.shape) < rng.choice([0.0, 0.2])] = -np.inf
    tables = [rng.normal(size=(n_states, n_states)) for _ in range(length)]
    type_of = rng.integers(-1, 2, size=n_states)
    same = np.eye(n_states, dtype=bool) if seed % 2 else np.equal.outer(type_of, type_of)
    rules = SpanRules(type_of, same & np.equal.outer(type_of, type_of) & (type_of >= 0))
    expected = []
    for states in product(range(n_states), repeat=length):
        if not repeats(np.array(states), np.array([0, length]), rules):
            steps = (nodes[t, k] + tables[t][states[t - 1], k] * (t > 0) for t, k in enumerate(states))
            expected.append((sum(steps), list(states)))
    expected = sorted(((s, y) for s, y in expected if s > -np.inf), reverse=True)[:n]
    for groups in ({0}, {0, 1}, set()):
        found = best_of_single_runs(nodes, tables, rules, groups, n)
        assert [path.states for path in found] == [states for _, states in expected]
        assert [path.score for path in found] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("engine", ["estimator", "tagger"])
@pytest.mark.parametrize("once", [["a"], ["a", "b", "c"]])
def test_predictions_are_the_best_ones_that_keep_the_rule(engine, once, tmp_path):
    rng = np.random.default_rng(3)
    model = weighted(rng, ["a", "b", "c"])
    model.save(tmp_path / "model.crfqn")
    labeller = model if engine == "estimator" else Model.open(tmp_path / "model.crfqn")
    X = [rng.normal(size=(length, 4)) for length in (5, 0, 1, 6, 4)]
    plain = model.predict(X)
    assert any(n_runs(labels, "a") > 1 for labels in plain)
    everything = labeller.predict_nbest(X, 3**6)
    keep = [[(y, p) for y, p in one if all(n_runs(y, k) <= 1 for k in once)] for one in everything]
    predicted, logs = labeller.decode(X, once=once)
    for i, best in enumerate(keep):
        assert list(predicted[i]) == labeller.predict(X, once=once)[i] == best[0][0]
        assert np.exp(logs[i]) == pytest.approx(best[0][1])
        n_best = labeller.predict_nbest(X, 4, once=once)[i]
        assert [y for y, _ in n_best] == [y for y, _ in best[:4]]
        assert [p for _, p in n_best] == pytest.approx([p for _, p in best[:4]])
    assert [*labeller.predict(X)] == [*plain]


def test_known_labels_and_bigram_features_keep_the_rule():
    rows = [["the", "dog", "the", "dog"], ["dog", "the", "dog"]] * 4
    columns = [[[word] for word in words] for words in rows]
    y = [["D", "N", "D", "N"], ["N", "D", "N"]] * 4
    model = ChainCRF(l1=0.01).fit(Templates("U:%x[0,0]\nB:%x[0,0]").fit_transform(columns), y)
    assert n_runs(model.predict(columns)[0], "N") == 2
    best = max(
        (p, labels) for labels, p in model.predict_nbest(columns[:1], 16)[0] if n_runs(labels, "N") <= 1
    )
    assert model.predict(columns, once=["N"])[0] == best[1]
    known = [["N", None, None, "N"]]
    assert model.predict(columns[:1], known=known, once=["N"])[0] == ["N"] * 4
    with pytest.raises(InputError, match=r"item 0: no labelling keeps the rules, once=\['N'\]"):
        model.predict(columns[:1], known=[["N", "D", None, "N"]], once=["N"])


@pytest.mark.parametrize("engine", [NUMPY, CompiledEngine(1)], ids=["numpy", "compiled"])
def test_items_are_opened_under_all_constraints(engine):
    rng = np.random.default_rng(3)
    model = weighted(rng, ["a", "b", "c"]).model_
    X, known = (
        [rng.normal(size=(length, 4)) for length in (6, 5)],
        [["a", *[None] * 4, "a"], ["b", *[None] * 3, "b"]],
    )
    free = engine.open(model, X, LabelConstraints(known)).n_best(3**6)
    items = engine.open(model, X, LabelConstraints(known, ["a", "b"]))
    states, scores = items.best()
    for i, best in enumerate(free):
        keep = [path for path in best if all(n_runs(path[0], k) <= 1 for k in (0, 1))]
        assert best[0] != keep[0]
        assert states[slice(*items.offsets[i : i + 2])].tolist() == keep[0][0]
        assert scores[i] == pytest.approx(keep[0][1])
        assert [path for path, _ in items.n_best(3)[i]] == [path for path, _ in keep[:3]]
    assert np.array_equal(
        items.log_partition(), engine.open(model, X, LabelConstraints(known)).log_partition()
    )


def test_types_of_spans_are_named_with_a_scheme():
    rng = np.random.default_rng(0)
    classes = ["B-X", "I-X", "O"]
    model = weighted(rng, classes, transition_rules=Transitions(scheme="IOB2", once=["X"]))
    X = [rng.normal(size=(6, 4)) for _ in range(20)]
    assert any(labels.count("B-X") > 1 for labels in model.predict(X, once=[]))
    assert all(labels.count("B-X") <= 1 for labels in model.predict(X))
    assert all(len(spans) <= 1 for spans in model.predict_spans(X))


def test_the_rule_is_kept_by_files_and_taggers(tmp_path):
    rng = np.random.default_rng(5)
    model = weighted(rng, ["a", "b", "c"], once=("a", "b"))
    X = [rng.normal(size=(8, 4)) for _ in range(5)]
    expected = [*model.predict(X)]
    assert expected != [*model.predict(X, once=())]
    assert all(n_runs(labels, k) <= 1 for labels in expected for k in "ab")
    model.save(tmp_path / "model.crfqn")
    again = load(tmp_path / "model.crfqn")
    assert again.once == ["a", "b"]
    assert [*again.predict(X)] == [*Model.open(tmp_path / "model.crfqn").predict(X)] == expected
    tagger = Tagger(tmp_path / "model.crfqn")
    assert tagger.tag(X[0]) == expected[0]
    assert tagger.tag_items(X, once=[]) == [*model.predict(X, once=[])]
    assert tagger.nbest(X[0], 1)[0][0] == expected[0]
    for once in ([], ["c"]):
        changed = Model.open(tmp_path / "model.crfqn").with_once(once)
        changed.save(tmp_path / "changed.crfqn")
        expected = [*model.predict(X, once=once)]
        for again in (Model.open(tmp_path / "changed.crfqn"), load(tmp_path / "changed.crfqn")):
            assert [*again.predict(X)] == expected


def test_another_rule_replaces_that_of_the_constraints_in_a_file(tmp_path):
    rng = np.random.default_rng(5)
    model = weighted(rng, ["a", "b"], transition_rules=Transitions(once=["a"]))
    model.save(tmp_path / "model.crfqn")
    assert Model.open(tmp_path / "model.crfqn").once == ("a",)
    Model.open(tmp_path / "model.crfqn").with_once(["b"]).save(tmp_path / "changed.crfqn")
    again = load(tmp_path / "changed.crfqn")
    assert (again.once, again.transition_rules.once, again.model_.once) == (["b"], None, ("b",))


def test_a_search_that_is_held_up_takes_another_label_in(monkeypatch):
    monkeypatch.setattr(single_runs, "EXTENSIONS_PER_POSITION", 1)
    rng = np.random.default_rng(2)
    nodes, tables = rng.normal(size=(7, 4)), [rng.normal(size=(4, 4))] * 7
    rules = SpanRules(np.arange(4), np.eye(4, dtype=bool))
    (path,) = best_of_single_runs(nodes, tables, rules, set())
    assert not repeats(np.array(path.states), np.array([0, 7]), rules)
    monkeypatch.setattr(single_runs, "MAX_EXTENSIONS", 1)
    monkeypatch.setattr(single_runs, "MAX_GROUPS", 1)
    with pytest.raises(InputError, match="once: expected a smaller number of labels: more than 1"):
        best_of_single_runs(nodes, tables, rules, set())


def test_names_are_checked():
    X, y = [[["x"], ["y"]]] * 3, [["a", "b"]] * 3
    with pytest.warns(
        UserWarning, match=r"once: labels that the training data do not have are ignored: \['z'\]"
    ):
        model = ChainCRF(l1=0.1, once=["a", "z"]).fit(X, y)
    for once, message in [
        (["q"], "once: expected labels of the model, got"), ("a", "once: expected a collection of labels, got"),
        (["a", "a"], "once: expected each label once"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=message):
            model.predict(X, once=once)
    with pytest.raises(InputError, match="once: expected"):
        ChainCRF(once="a").fit(X, y)
    with pytest.raises(InputError, match="as a parameter or in transition_rules, got both"):
        ChainCRF(once=["a"], transition_rules=Transitions(once=["b"])).fit(X, y)


def held_up(n_states, length):
    """An item in which all labels are wanted everywhere, so that the search for single runs is long."""
    rng = np.random.default_rng(0)
    nodes, tables = rng.normal(size=(length, n_states)), [rng.normal(size=(n_states, n_states))] * length
    return nodes, tables, SpanRules(np.arange(n_states), np.eye(n_states, dtype=bool))


def test_the_memory_of_a_long_search_is_that_of_the_labellings_that_it_extends(monkeypatch):
    monkeypatch.setattr(single_runs, "EXTENSIONS_PER_POSITION", 1)
    monkeypatch.setattr(single_runs, "MAX_EXTENSIONS", 2000)
    monkeypatch.setattr(single_runs, "MAX_GROUPS", 1)
    nodes, tables, rules = held_up(150, 300)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="once: expected a smaller number of labels"):
            best_of_single_runs(nodes, tables, rules, set())
        assert tracemalloc.get_traced_memory()[1] < 20e6  # 24 bytes a state of each, and not 200
    finally:
        tracemalloc.stop()


def test_a_search_of_many_labels_has_fewer_steps(monkeypatch):
    monkeypatch.setattr(single_runs, "MAX_TABLE_NUMBERS", 3000)
    with pytest.raises(InputError, match="none of the 100 best partial ones"):
        best_of_single_runs(*held_up(30, 60), set())


def test_a_search_ends_at_the_deadline():
    begin = monotonic()
    with pytest.raises(TimeIsUp), TimeLimit(0.2, grace=0.0):
        best_of_single_runs(*held_up(30, 60), set(range(8)))
    assert monotonic() - begin < 30
    with TimeLimit(1000.0):
        assert best_of_single_runs(*held_up(5, 4), set())
