"""crfqn.compat against CRFsuite itself: the same features, the same optimum, the same labels; and its interface."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pycrfsuite
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV

from crfqn import ChainCRF, compat, interchange
from crfqn.compat import CRF, attributes, metrics, scorers
from crfqn.errors import InputError
from crfqn.result import Status

TAGGED = [
    "Melbourne/NP/B-LOC (/Fpa/O Australia/NP/B-LOC )/Fpt/O ,/Fc/O 25/Z/O may/NC/O",
    "El/DA/O Abogado/NC/B-PER General/AQ/I-PER del/SP/O Estado/NC/B-ORG ,/Fc/O Daryl/VMI/B-PER Williams/NC/I-PER",
    "Santander/NC/B-LOC ,/Fc/O 23/Z/O may/NC/O (/Fpa/O EFECOM/NP/B-ORG )/Fpt/O ./Fp/O",
    "La/DA/O petición/NC/O del/SP/O Abogado/NC/B-PER General/AQ/I-PER ./Fp/O",
    "La/DA/B-ORG Coruña/NC/I-ORG ,/Fc/O 23/Z/O may/NC/O ./Fp/O",
    "Las/DA/O reservas/NC/O del/SP/O Estado/NC/B-ORG",
] * 3  # fmt: skip


def word2features(sentence, i):
    """The tutorial's kinds of features: strings, booleans, numbers."""
    word, tag, _ = sentence[i]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "postag[:2]": tag[:2],
    }
    if i > 0:
        features.update({"-1:word.lower()": sentence[i - 1][0].lower(), "-1:postag": sentence[i - 1][1]})
    else:
        features["BOS"] = True
    return features


SENTENCES = [[tuple(token.rsplit("/", 2)) for token in line.split()] for line in TAGGED]
X = [[word2features(sentence, i) for i in range(len(sentence))] for sentence in SENTENCES]
Y = [[label for _, _, label in sentence] for sentence in SENTENCES]


@pytest.fixture(scope="module")
def crf():
    return CRF(c1=0.1, c2=0.1, all_possible_transitions=True).fit(X, Y)


def crfsuite(path, algorithm="lbfgs", **params):
    """CRFsuite's own training to the end of its powers: the tagger, and the last line of its log."""
    trainer = pycrfsuite.Trainer(algorithm, params=params, verbose=False)
    for item, labels in zip(X, Y, strict=True):
        trainer.append(item, labels)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger, trainer.logparser


PARAMETERS = [
    {},
    {"c1": 0.3, "c2": 0.01},
    {"c1": 0.1, "c2": 0.1, "all_possible_states": True, "all_possible_transitions": True},
    {"c2": 0.1, "min_freq": 3, "all_possible_states": True},
    {"c2": 0.1, "min_freq": 4},
]
EXACT = {"epsilon": 1e-9, "delta": 1e-13, "max_iterations": 3000}
THEIR_NAMES = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
}


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_the_optimum_is_that_of_crfsuite(parameters, tmp_path):
    crf = CRF(**parameters, delta=1e-9).fit(X, Y)
    theirs = {THEIR_NAMES.get(name, name): value for name, value in parameters.items()}
    tagger, log = crfsuite(tmp_path / "m", **theirs, **EXACT)
    assert crf.training_log_.featgen_num_features == log.featgen_num_features
    assert crf.training_log_.last_iteration["loss"] == pytest.approx(log.last_iteration["loss"], rel=1e-6)
    assert [list(path) for path in crf.predict(X)] == [tagger.tag(item) for item in X]
    tagger.set(X[0])
    ours = crf.predict_marginals_single(X[0])
    assert [p["O"] for p in ours] == pytest.approx(
        [tagger.marginal("O", t) for t in range(len(X[0]))], abs=1e-4
    )


@pytest.mark.parametrize("max_iterations", [5, 20, 50, 100])
def test_a_limit_of_iterations_gives_no_worse_a_model_than_crfsuites(max_iterations, tmp_path):
    """Without `delta` training stops where accuracy is had, at most a few percent above the optimum."""
    settings = {"c1": 0.1, "c2": 0.1}
    crf = CRF(**settings, max_iterations=max_iterations).fit(X, Y)
    exact = CRF(**settings, delta=1e-7).fit(X, Y)
    tagger, log = crfsuite(tmp_path / "m", max_iterations=max_iterations, **settings)
    optimum = exact.training_log_.last_iteration["loss"]
    limit = max(log.last_iteration["loss"], optimum * (1 + 2 * ChainCRF().tol_))
    assert optimum * (1 - 1e-6) <= crf.training_log_.last_iteration["loss"] <= limit
    assert [list(path) for path in crf.predict(X)] == [tagger.tag(item) for item in X]


def test_without_delta_fewer_steps_are_made_than_to_the_optimum():
    loose, exact = (CRF(c1=0.1, c2=0.1, max_iterations=500, delta=delta).fit(X, Y) for delta in (None, 1e-5))
    n_loose, n_exact = (crf.training_log_.last_iteration["num"] for crf in (loose, exact))
    assert loose.model_.result_.status.is_success
    assert exact.model_.result_.estimated_gap <= 1e-5
    assert 3 * n_loose < 2 * n_exact
    assert loose.predict(X).tolist() == exact.predict(X).tolist()


def test_sgd_ends_at_its_optimum(tmp_path):
    crf = CRF("l2sgd", c2=0.1).fit(X, Y)
    assert (
        crf.training_log_.last_iteration["loss"]
        <= crfsuite(tmp_path / "m", "l2sgd", c2=0.1)[1].last_iteration["loss"]
    )


@pytest.mark.parametrize("parameters", [{}, {"variance": 0.1, "gamma": 10.0, "max_iterations": 10}], ids=str)
def test_arow_labels_as_that_of_crfsuite(parameters, tmp_path):
    crf = CRF("arow", all_possible_transitions=True, **parameters).fit(X, Y)
    tagger, log = crfsuite(tmp_path / "m", "arow", **{"feature.possible_transitions": True}, **parameters)
    assert crf.predict(X).tolist() == [tagger.tag(item) for item in X]
    # in another order of the items
    assert crf.training_log_.last_iteration["feature_norm"] == pytest.approx(
        log.last_iteration["feature_norm"], rel=0.2
    )


@pytest.mark.parametrize(("algorithm", "pa_type"), [("ap", None), ("pa", None), ("pa", 0)])
def test_online_methods_learn(algorithm, pa_type):
    crf = CRF(algorithm, pa_type=pa_type, max_iterations=10).fit(X, Y)
    assert crf.model_.result_.status is Status.LEARNED
    assert crf.score(X, Y) == 1.0


class AsList(list):
    """A list of another type."""


ODD = [
    {"w": "a", "flag": True, "off": False, "x": 0.5, "zero": 0},
    {"set": {"u"}, "list": ["p", "q", "p"], "d": {"e": {"f": 2, "none": False}, "g": "h"}},
    {"a": "b", "a:b": 1.0},
    {"a:b": False},
    {},
]  # fmt: skip
PLAIN = [{"w": "a", "flag": True, "off": False}, {"w": "b", "off": False}]
ITEMS = {
    "plain dicts": [PLAIN, PLAIN[::-1]],
    "odd dicts": [ODD, PLAIN],
    "strings": [[["s", "t"], ["t"]], [["s"]]],
    "strings that come twice": [[["s", "s"], ["t"]], [["s"]]],
    "bytes": [[{b"w": b"a", "n": 0}, {"w": "b"}], [[b"w:a"]]],
    "sets and tuples": [({"s", "t"}, ("t",)), [frozenset("s")]],
    "item sequences": [pycrfsuite.ItemSequence(PLAIN), pycrfsuite.ItemSequence(ODD[3:])],
    "other lists": [AsList(PLAIN), [*ODD, *PLAIN]],
    "both kinds": [PLAIN, [["s"], {"w": "c", "off": False}]],
}


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("all_possible_states", [False, True])
def test_features_of_items_of_any_kind_are_those_of_crfsuite(kind, all_possible_states, tmp_path):
    items = ITEMS[kind]
    lengths = [len(item.items() if isinstance(item, pycrfsuite.ItemSequence) else item) for item in items]
    labels = [["A", "B", "B", "A", "C", "A", "B"][:n] for n in lengths]
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"feature.possible_states": all_possible_states, "c2": 0.1, **EXACT})
    for item, names in zip(items, labels, strict=True):
        trainer.append(item, names)
    trainer.train(str(tmp_path / "m"))
    crf = CRF(c2=0.1, delta=1e-9, all_possible_states=all_possible_states).fit(items, labels)
    assert crf.training_log_.featgen_num_features == trainer.logparser.featgen_num_features
    assert crf.training_log_.last_iteration["loss"] == pytest.approx(
        trainer.logparser.last_iteration["loss"], rel=1e-6
    )
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "m"))
    for item, table in zip(items, crf.predict_marginals(items), strict=True):
        tagger.set(item)
        assert [position["A"] for position in table] == pytest.approx(
            [tagger.marginal("A", t) for t in range(len(table))], abs=1e-4
        )


@pytest.mark.parametrize(
    "position",
    [
        {"word[-3:]": "no", "word.lower()": "el", "bias": 2, "BOS": False},
        {"word.lower()": b"el", b"bias": 1.0},
        {"word.lower()": ["el", "el", "del"], "word": {"isupper()": 1}},
        {"a": "b:c", "a:b": "c", "a:b:c": True, "-1": {"word.lower()": "el"}},
        {"bias": Fraction(1, 2), "word.lower()": np.str_("el")},
        {"bias": Decimal("0.5"), "word.lower()": "el"},
        ["bias", "word.lower():el", "bias"],
        {"bias", "word.lower():el"},
    ],
)
def test_new_items_of_any_kind_are_those_of_their_attributes(crf, position):
    others = {"bias": 1.0, "postag[:2]": "NC"}
    expected = crf.model_.predict_marginals(attributes([[position, others]]))[0]
    assert expected[0].max() < 1
    for item in ([position, others], [iter([*position]), others] if isinstance(position, list) else []):
        for row, new in zip(expected, crf.predict_marginals_single(item), strict=False):
            assert [*new.values()] == row.tolist()


def test_iterators_are_read_once():
    """Bytes are read in a second way, for which nothing may be gone."""
    items = [[["a"], {b"x": 1}], [["b"], {b"x": 1}]]
    y = [["A", "X"], ["B", "X"]]
    crf = CRF(c1=0.01).fit([[iter(["a"]), {b"x": 1}], [iter(["b"]), {b"x": 1}]], y)
    assert crf.state_features_ == CRF(c1=0.01).fit(items, y).state_features_
    assert crf.predict([[iter(["a"]), {b"x": 1}]]).tolist() == [["A", "X"]]


def test_items_may_come_from_generators():
    crf = CRF(c1=0.1, c2=0.1).fit((iter(item) for item in X), (iter(labels) for labels in Y))
    assert crf.predict(iter(X)).tolist() == CRF(c1=0.1, c2=0.1).fit(X, Y).predict(X).tolist()


class TestAttributes:
    def test_they_are_those_of_python_crfsuite(self):
        item = [
            {"w": "a", "flag": True, "off": False, "x": 0.5},
            {"set": {"u"}, "list": ["p", "q"], "d": {"e": {"f": 2}, "g": "h"}},
            ["s", "t"],
            {"unicode é": "ü"},
        ]  # fmt: skip
        assert attributes([item]) == [pycrfsuite.ItemSequence(item).items()]
        assert attributes([pycrfsuite.ItemSequence(item)]) == attributes([item])

    def test_what_comes_twice_adds_up(self):
        assert attributes([[["a", "a"], {"a": ["b", "b"], "a:b": 0.5}]]) == [[{"a": 2.0}, {"a:b": 2.5}]]

    @pytest.mark.parametrize(
        ("items", "message"),
        [
            ([[{"a": None}]], "item 0, position 0: feature 'a': expected a number"),
            ([[["a"], [1]]], "item 0, position 1: expected attributes that are strings"),
            ([[["a"]], [3]], "item 1, position 0: expected a dict"),
            ([{"a": 1}], "item 0: expected a list of positions"),
            ({"a": 1}, "expected a list of items"),
        ],
    )
    def test_mistakes_are_told_by_place(self, items, message):
        with pytest.raises(InputError, match=message):
            attributes(items)


class TestInterface:
    def test_it_has_the_constructor_and_names_of_sklearn_crfsuite(self):
        theirs = pytest.importorskip("sklearn_crfsuite")
        their_metrics = pytest.importorskip("sklearn_crfsuite.metrics")
        ours = [(p.name, p.default) for p in inspect.signature(CRF).parameters.values()]
        assert ours == [(p.name, p.default) for p in inspect.signature(theirs.CRF).parameters.values()]
        assert {name for name in dir(theirs.CRF) if not name.startswith("_")} <= {
            *dir(CRF), "training_log_", "set_fit_request",
        }  # fmt: skip
        names = {name for name in dir(their_metrics) if name.endswith(("_score", "_report"))}
        assert names <= set(dir(metrics))
        assert compat.utils.flatten(iter([[1, 2], (3,)])) == [1, 2, 3]

    def test_the_steps_of_the_tutorial(self, crf):
        labels = list(crf.classes_)
        labels.remove("O")
        predicted = crf.predict(X)
        assert metrics.flat_f1_score(Y, predicted, average="weighted", labels=labels) > 0.95
        order = sorted(labels, key=lambda name: (name[1:], name[0]))
        assert "B-PER" in metrics.flat_classification_report(Y, predicted, labels=order, digits=3)
        (best, weight), *_ = Counter(crf.transition_features_).most_common(1)
        assert best[1] in crf.classes_
        assert weight > 0
        assert ("word.lower():may", "O") in crf.state_features_ or crf.num_attributes_ < 40
        assert all(isinstance(name, str) for name in crf.attributes_)

    def test_searches_over_its_parameters(self):
        scorer = make_scorer(metrics.flat_f1_score, average="weighted")
        search = GridSearchCV(CRF(delta=1e-2), {"c1": [0.01, 1.0]}, cv=2, scoring=scorer).fit(X, Y)
        assert search.best_params_ == {"c1": 0.01}
        assert scorers.flat_accuracy(search, X, Y) == search.best_estimator_.score(X, Y) > 0.9

    def test_predictions_are_lists_whatever_the_lengths(self, crf):
        for items in (X[:1] * 2, X[:2], []):
            found = crf.predict(items)
            assert (found.shape, found.dtype) == ((len(items),), object)
            assert all(type(path) is list and all(type(label) is str for label in path) for path in found)
        assert crf.predict_marginals(X[:1] * 2).shape == (2,)
        assert sum(crf.predict_marginals_single(X[0])[0].values()) == pytest.approx(1)

    def test_clone_pickle_and_repr(self, crf):
        assert clone(crf).get_params() == crf.get_params()
        assert pickle.loads(pickle.dumps(crf)).predict_single(X[0]) == crf.predict_single(X[0])
        assert repr(CRF(c1=0.1)) == "CRF(c1=0.1)"

    def test_the_tagger(self, crf, tmp_path):
        interchange.write(crf.model_, tmp_path / "m.crfsuite")
        theirs, ours = pycrfsuite.Tagger(), crf.tagger_
        theirs.open(str(tmp_path / "m.crfsuite"))
        assert ours.labels() == theirs.labels()
        assert ours.tag(X[1]) == theirs.tag(X[1])
        assert ours.probability(Y[1]) == pytest.approx(theirs.probability(Y[1]))
        assert ours.marginal("O", 2) == pytest.approx(theirs.marginal("O", 2))
        assert ours.info().transitions == pytest.approx(theirs.info().transitions, abs=1e-6)
        assert crf.size_ == (tmp_path / "m.crfsuite").stat().st_size
        with pytest.raises(InputError, match="y: expected one of the"):
            ours.marginal("unheard of", 0)

    def test_what_follows_from_the_model_is_kept_until_another_fit(self):
        crf = CRF(c1=0.1).fit(X, Y)
        names = ("tagger_", "state_features_", "transition_features_", "attributes_")
        before = [getattr(crf, name) for name in names]
        assert all(getattr(crf, name) is value for name, value in zip(names, before, strict=True))
        crf.tagger_.set(X[0])
        assert crf.tagger_.tag() == crf.predict_single(X[0])
        crf.fit(X, [item[::-1] for item in Y])
        assert crf.tagger_ is not before[0]
        assert crf.state_features_ != before[1]
        assert crf.state_features_ == crf.model_.state_features_
        assert pickle.loads(pickle.dumps(crf)).transition_features_ == crf.transition_features_
        crf.tagger_.close()
        assert crf.tagger_.labels() == crf.classes_

    def test_the_file_of_the_model(self, tmp_path):
        path = tmp_path / "m.crfsuite"
        with pytest.raises(NotFittedError):
            CRF(model_filename=str(path)).predict(X)
        crf = CRF(c1=0.1, model_filename=str(path)).fit(X, Y)
        assert path.stat().st_size == crf.size_
        assert CRF(model_filename=str(path)).predict_single(X[0]) == crf.predict_single(X[0])

    def test_the_temporary_file_of_the_model(self):
        crf = CRF(c1=0.1, delta=1e-2)
        assert crf.modelfile.name is None
        first = crf.fit(X, Y).modelfile.name
        tagger = pycrfsuite.Tagger()
        tagger.open(first)
        assert tagger.tag(X[0]) == crf.predict_single(X[0])
        tagger.close()
        second = crf.fit(X[:6], Y[:6]).modelfile.name
        assert not os.path.exists(first)
        copied = pickle.loads(pickle.dumps(crf))
        assert copied.modelfile.name != second
        assert os.path.getsize(copied.modelfile.name) == os.path.getsize(second) == crf.size_
        crf.modelfile.cleanup()
        assert not os.path.exists(second)
        third = crf.modelfile.name
        assert os.path.getsize(third) == crf.size_
        del crf
        gc.collect()
        assert not os.path.exists(third)
        kept = CRF(c1=0.1, delta=1e-2, keep_tempfiles=True).fit(X, Y).modelfile.name
        assert CRF(model_filename=kept).modelfile.name == kept
        os.unlink(kept)

    def test_held_out_items_have_the_scores_of_crfsuite(self, tmp_path):
        wrong = [["B-LOC", *Y[0][1:]], ["O"] * len(Y[1]), Y[2]]
        crf = CRF(c2=0.1, delta=1e-9).fit(X, Y, X_dev=X[:3], y_dev=wrong)
        trainer = pycrfsuite.Trainer("lbfgs", params={"c2": 0.1, **EXACT}, verbose=False)
        for items, labels, group in ((X, Y, 0), (X[:3], wrong, 1)):
            for item, names in zip(items, labels, strict=True):
                trainer.append(item, names, group)
        trainer.train(str(tmp_path / "m"), holdout=1)
        ours, theirs = crf.training_log_.last_iteration, trainer.logparser.last_iteration
        shares = "item_accuracy", "item_accuracy_float", "instance_accuracy", "instance_accuracy_float"
        for name in ("loss", "feature_norm", "avg_precision", "avg_recall", "avg_f1", *shares):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4), name
        for label, score in theirs["scores"].items():
            assert list(ours["scores"][label]) == pytest.approx(list(score), abs=1e-4), label
        assert 0 < ours["avg_f1"] < ours["item_accuracy_float"] == crf.score(X[:3], wrong) < 1
        crf.training_log_.evaluate(["O", "new"], [["new", "O"]], [["O", "O"]])
        assert crf.training_log_.last_iteration["scores"] == {
            "O": (1, 2, 1, 0.5, 1.0, 2 / 3),
            "new": (0, 0, 1, 0.0, 0.0, 0.0),
        }

    def test_a_limit_of_iterations_is_no_reason_to_warn(self):
        crf = CRF(max_iterations=2).fit(X, Y)
        assert crf.model_.result_.status is Status.MAX_ITER
        assert "limit of iterations" in crf.training_log_.message

    def test_held_out_items_come_with_labels(self):
        with pytest.raises(InputError, match="both X_dev and y_dev"):
            CRF().fit(X, Y, X_dev=X)

    def test_before_a_fit(self):
        with pytest.raises(NotFittedError):
            CRF().predict(X)
        names = (
            "classes_",
            "tagger_",
            "size_",
            "attributes_",
            "num_attributes_",
            "state_features_",
            "transition_features_",
        )
        crf = CRF(c1=0.1)
        assert [getattr(crf, name) for name in names] == [None] * 7
        crf.fit(X, Y)
        assert all(getattr(crf, name) for name in names)
        assert [getattr(clone(crf), name) for name in names] == [None] * 7

    def test_parameters_without_effect_are_named(self):
        with pytest.warns(UserWarning, match=r"no effect with algorithm='lbfgs': period, linesearch"):
            CRF(delta=0.1, period=5, linesearch="Backtracking").fit(X, Y)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"algorithm": "arow", "gamma": 0}, "gamma: expected a finite number > 0"),
            ({"algorithm": "svm"}, "algorithm: expected one of"),
            ({"c1": -1}, "c1: expected"),
            (
                {"algorithm": "pa", "pa_type": 2},
                "pa_type: expected 0 or 1, which are here, got 2; leave pa_type out",
            ),
            ({"min_freq": -1}, "min_freq: expected"),
        ],
    )
    def test_what_is_refused(self, parameters, message):
        with pytest.raises(InputError, match=message):
            CRF(**parameters).fit(X, Y)

    def test_items_and_labels_of_different_numbers(self):
        with pytest.raises(InputError, match="expected labels for 18 items, got 17"):
            CRF().fit(X, Y[:-1])
        with pytest.raises(InputError, match="item 1: expected 8 labels"):
            CRF().fit(X, [Y[0], Y[1][:-1], *Y[2:]])


def test_metrics_are_those_of_sklearn_crfsuite():
    theirs = pytest.importorskip("sklearn_crfsuite.metrics")
    rng = random.Random(0)
    predicted = [[rng.choice(["O", "B-PER", label]) for label in labels] for labels in Y]
    for name in ("flat_accuracy_score", "sequence_accuracy_score"):
        assert getattr(metrics, name)(Y, predicted) == pytest.approx(getattr(theirs, name)(Y, predicted))
    options = {"average": "macro", "zero_division": 0}
    for name in ("flat_precision_score", "flat_recall_score", "flat_f1_score"):
        assert getattr(metrics, name)(Y, predicted, **options) == getattr(theirs, name)(
            Y, predicted, **options
        )
    assert metrics.flat_fbeta_score(Y, predicted, 2, **options) == theirs.flat_fbeta_score(
        Y, predicted, 2, **options
    )
    with pytest.raises(InputError, match="item 0: expected 7 labels, got 1"):
        metrics.flat_accuracy_score(Y, [["O"], *predicted[1:]])
    assert metrics.sequence_accuracy_score([], np.array([])) == 0.0
    assert compat.metrics is metrics
