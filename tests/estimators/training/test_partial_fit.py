"""`partial_fit` of online solvers: an epoch of `fit` bit for bit, features that grow, labels known beforehand; of
others: the fit of all items, or of a uniform sample of them."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from crfqn import (
    ChainCRF,
    MulticlassClassifier,
    MulticlassCRF,
    Sequences,
    TaxonomyCRF,
    Templates,
    TokenColumns,
    Transitions,
    load,
)
from crfqn.errors import InputError
from crfqn.estimators.online import Reservoir
from crfqn.result import Status

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SOLVERS = ["averaged-perceptron", "passive-aggressive", "arow"]
RNG = np.random.default_rng(0)
# Words of later items are longer: batches bring new features.
WORDS = [[f"w{RNG.integers(2 + n // 2)}" for _ in range(RNG.integers(2, 6))] for n in range(40)]
X = [[{"word": word, "last": word[-1], "size": len(word) / 2} for word in item] for item in WORDS]
Y = [["odd" if int(word[1:]) % 2 else "even" for word in item] for item in WORDS]
CLASSES = ["even", "odd", "other"]
DIGITS, DIGIT = load_digits(n_class=4, return_X_y=True)
ITEM_MODELS = [MulticlassCRF, TaxonomyCRF, lambda **named: MulticlassClassifier(loss="logistic", **named)]


def weights_by_name(model: ChainCRF) -> dict:
    return model.state_features_ | model.transition_features_


@pytest.mark.parametrize("solver", SOLVERS)
class TestAsEpochsOfFit:
    @pytest.mark.parametrize("n_epochs", [1, 3])
    @pytest.mark.parametrize(
        "settings", [{}, {"random_state": 5}, {"transition_rules": Transitions(start=["odd", "even"])}]
    )
    def test_chains(self, solver, n_epochs, settings):
        weights = np.arange(40) % 3
        labels = [["odd", *item[1:]] for item in Y]  # mistakes: no epoch is without one
        fitted = ChainCRF(solver=solver, max_iter=n_epochs, **settings).fit(X, labels, weights)
        model = ChainCRF(solver=solver, **settings)
        for _ in range(n_epochs):
            model.partial_fit(X, labels, ["odd", "even"], weights)
        assert fitted.n_iter_ == model.n_iter_ == n_epochs
        assert (
            (fitted.coef_ != model.coef_).nnz == (fitted.transition_coef_ != model.transition_coef_).nnz == 0
        )
        assert model.coef_.nnz
        assert model.vocabulary == fitted.vocabulary

    @pytest.mark.parametrize("kind", ITEM_MODELS)
    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    def test_items(self, solver, kind, form):
        weights = 1.0 + np.arange(DIGIT.size) % 2
        fitted = kind(solver=solver, max_iter=2).fit(form(DIGITS), DIGIT, weights)
        model = kind(solver=solver)
        for _ in range(2):
            model.partial_fit(form(DIGITS), DIGIT, classes=range(4), sample_weight=weights)
        assert (fitted.coef_ != model.coef_).nnz == 0
        np.testing.assert_array_equal(fitted.intercept_, model.intercept_)
        assert model.score(DIGITS, DIGIT) > 0.9


@pytest.mark.parametrize("solver", SOLVERS)
class TestFeaturesThatGrow:
    def test_features_that_come_later_are_learned_as_if_they_had_been_known(self, solver):
        growing, fixed = ChainCRF(solver=solver), ChainCRF(solver=solver)
        names = ChainCRF(solver=solver, max_iter=1).fit(X, Y).feature_names_in_.tolist()
        sizes = []
        for batch in (slice(0, 10), slice(10, 11), slice(11, 40)):
            growing.partial_fit(X[batch], Y[batch], CLASSES)
            sizes.append(growing.n_features_in_)
            matrices = [
                [[_value(position, name) for name in names] for position in item] for item in X[batch]
            ]
            fixed.partial_fit([np.array(item) for item in matrices], Y[batch], CLASSES)
        assert sizes[0] < sizes[2] == len(names)
        order = [growing.vocabulary[name] for name in names]
        np.testing.assert_allclose(growing.coef_.toarray()[:, order], fixed.coef_.toarray(), rtol=1e-12)
        np.testing.assert_allclose(
            growing.transition_coef_.toarray(), fixed.transition_coef_.toarray(), rtol=1e-12
        )
        assert growing.score(X, Y) > 0.9

    def test_columns_keep_their_places(self, solver):
        model = ChainCRF(solver=solver).partial_fit(X[:10], Y[:10], CLASSES)
        before = model.feature_names_in_.tolist()
        assert model.partial_fit(X[10:], Y[10:]).feature_names_in_.tolist()[: len(before)] == before

    def test_templates_keep_the_columns_of_the_first_call(self, solver):
        templates = Templates("U00:%x[0,0]\nU01:%x[-1,0]\n", columns=["w"])
        columns = TokenColumns.from_items([[(word,) for word in item] for item in WORDS], ["w"])
        model = ChainCRF(solver=solver).partial_fit(templates.fit_transform(columns[:20]), Y[:20], CLASSES)
        n_features = model.n_features_in_
        assert model.partial_fit(templates.transform(columns[20:]), Y[20:]).n_features_in_ == n_features
        assert model.predict(columns).shape == (40,)


def _value(position: dict, name: str) -> float:
    key, _, value = name.partition("=")
    return float(position[key] == value) if value else float(position[key])


class TestGoingOn:
    def test_after_a_fit_from_its_weights(self):
        model = ChainCRF(l1=0.1).fit(X, Y).set_params(solver="averaged-perceptron")
        before = weights_by_name(model)
        model.partial_fit([[["unheard"]]], [["odd"]])
        after = weights_by_name(model)
        assert {name: after[name] for name in before} == before  # one word, whose best label may be wrong
        assert "unheard" in model.vocabulary

    def test_a_fit_begins_anew(self):
        model = ChainCRF(solver="averaged-perceptron", max_iter=2)
        expected = weights_by_name(model.fit(X, Y))
        model.partial_fit(X[:5], Y[:5])
        assert weights_by_name(model.fit(X, Y)) == expected
        assert weights_by_name(model.fit(X, Y).partial_fit(X[:5], Y[:5])) == weights_by_name(
            ChainCRF(solver="averaged-perceptron", max_iter=2).fit(X, Y).partial_fit(X[:5], Y[:5])
        )

    def test_pickles_keep_all_and_model_files_the_mean(self, tmp_path):
        model = ChainCRF(solver="passive-aggressive").partial_fit(X[:20], Y[:20], CLASSES)
        model.save(tmp_path / "model")
        again, loaded = pickle.loads(pickle.dumps(model)), load(tmp_path / "model")
        assert loaded.predict(X).tolist() == model.predict(X).tolist()
        assert loaded.result_.status is Status.LEARNED
        assert loaded.solver == "passive-aggressive"
        expected = weights_by_name(model.partial_fit(X[20:], Y[20:]))
        assert weights_by_name(again.partial_fit(X[20:], Y[20:])) == expected
        loaded.partial_fit(X[20:], Y[20:])
        assert loaded.score(X, Y) > 0.8

    def test_the_result_says_nothing_of_an_objective(self):
        result = MulticlassCRF(solver="averaged-perceptron").partial_fit(DIGITS, DIGIT, range(4)).result_
        assert (result.status, result.n_iter) == (Status.LEARNED, 1)
        assert np.isnan([result.value, result.gap]).all()

    def test_a_mistake_leaves_the_model_as_it_was(self):
        model = ChainCRF(solver="averaged-perceptron").partial_fit(X[:20], Y[:20], CLASSES)
        before = weights_by_name(model)
        with pytest.raises(InputError, match="'strange' is not among the 3 known classes"):
            model.partial_fit(X[20:22], [["strange"] * len(item) for item in X[20:22]])
        assert weights_by_name(model) == before
        assert model.n_iter_ == 1

    def test_items_that_break_rules(self):
        rules = Transitions(forbidden=[("odd", "odd")])
        with pytest.raises(InputError, match="the rules do not allow 'odd' after 'odd'"):
            ChainCRF(solver="averaged-perceptron", transition_rules=rules).partial_fit(X, Y, CLASSES)
        model = ChainCRF(solver="averaged-perceptron", transition_rules=rules, on_violation="drop")
        with pytest.warns(UserWarning, match="break the rules and are left out"):
            model.partial_fit(X, Y, CLASSES)
        for labels in model.predict(X):
            assert ("odd", "odd") not in pairwise(labels)

    def test_a_taxonomy(self):
        y = np.where(DIGIT < 2, "low/", "high/").astype(object) + DIGIT.astype(str)
        model = TaxonomyCRF(solver="averaged-perceptron")
        for batch in np.array_split(np.arange(DIGIT.size), 3):
            model.partial_fit(DIGITS[batch], y[batch], classes=np.unique(y))
        assert model.tree_.n_nodes == 6
        assert model.score(DIGITS, y) > 0.9


class TestOtherSolvers:
    """They fit all items that have come, while these are few."""

    def test_chains_with_features_that_grow_and_labels_that_come_late(self):
        weights, labels = 1.0 + np.arange(40) % 3, [[*item] for item in Y]
        labels[25] = ["new"] * len(labels[25])
        labels[3][1], labels[30][0] = None, {"odd", "even"}
        model = ChainCRF(l1=0.1, l2=0.1, tol=1e-6)
        for batch in (slice(0, 10), slice(10, 11), slice(11, 40)):
            model.partial_fit(X[batch], labels[batch], sample_weight=weights[batch])
        fitted = ChainCRF(l1=0.1, l2=0.1, tol=1e-6).fit(X, labels, weights)
        assert model.classes_.tolist() == fitted.classes_.tolist() == ["even", "new", "odd"]
        assert model.result_.value == pytest.approx(fitted.result_.value, rel=2e-2)  # not convex
        assert model.vocabulary["size"] == ChainCRF(l1=0.1).fit(X[:10], Y[:10]).vocabulary["size"]
        again = pickle.loads(pickle.dumps(model)).partial_fit([[["unheard"]]], [["odd"]])
        assert again.n_features_in_ == model.n_features_in_ + 1 == fitted.n_features_in_ + 1

    def test_one_call_is_a_fit(self):
        fitted, model = ChainCRF(l1=0.1).fit(X, Y), ChainCRF(l1=0.1).partial_fit(X, Y, CLASSES)
        assert weights_by_name(model) == weights_by_name(fitted)
        assert model.vocabulary == fitted.vocabulary
        assert model.partial_fit(X[:3], Y[:3]).vocabulary == fitted.vocabulary

    def test_templates(self):
        templates = Templates("U00:%x[0,0]\nU01:%x[-1,0]\n", columns=["w"])
        columns = TokenColumns.from_items([[(word,) for word in item] for item in WORDS], ["w"])
        model = ChainCRF(l1=0.1, tol=1e-5).partial_fit(templates.fit_transform(columns[:20]), Y[:20])
        model.partial_fit(templates.transform(columns[20:]), Y[20:])
        fitted = ChainCRF(l1=0.1, tol=1e-5).fit(templates.transform(columns), Y)
        assert model.result_.value == pytest.approx(fitted.result_.value, rel=2e-5)
        assert model.predict(columns).shape == (40,)

    @pytest.mark.parametrize("kind", [MulticlassCRF, TaxonomyCRF, MulticlassClassifier])
    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    def test_items(self, kind, form):
        y = np.array(["a/x", "a/y", "b", "c"])[DIGIT]
        given = {"group_l1": 20.0} if kind is MulticlassClassifier else {"l1": 1.0}
        model = kind(**given, tol=1e-5)
        for batch in np.array_split(np.arange(200), 3):
            model.partial_fit(form(DIGITS[batch]), y[batch], classes=np.unique(y))
        fitted = kind(**given, tol=1e-5).fit(DIGITS[:200], y[:200])
        assert model.result_.value == pytest.approx(fitted.result_.value, rel=2e-5)
        assert model.predict(DIGITS[200:]).tolist() == fitted.predict(DIGITS[200:]).tolist()

    def test_beyond_its_size_the_reservoir_is_a_uniform_sample(self, monkeypatch):
        monkeypatch.setattr(MulticlassCRF, "RESERVOIR", 60)
        model = MulticlassCRF(l1=1.0, max_iter=1)
        rows = np.repeat(np.arange(DIGIT.size)[:, None], 2, axis=1)  # that tell which items are kept
        for batch in np.array_split(np.arange(DIGIT.size), 10):
            model.partial_fit(rows[batch], DIGIT[batch])
        kept = model._reservoir
        assert kept.X.shape == (60, 2)
        np.testing.assert_array_equal(kept.y, DIGIT[kept.X[:, 0]])
        assert np.unique(kept.X[:, 0]).size == 60
        assert kept.item_weights.sum() == pytest.approx(DIGIT.size)
        counts = np.zeros(30)
        for seed in range(500):
            few = np.empty((0, 1)), np.empty(0), np.empty(0), 0, np.random.default_rng(seed)
            sample = Reservoir(*few)
            for batch in np.array_split(np.arange(30), 4):
                new = batch[:, None], batch, np.ones(batch.size), batch.size, sample.random
                sample = sample.followed_by(Reservoir(*new), 6)
            counts[sample.y.astype(int)] += 1
        assert np.abs(counts - 100).max() < 5 * np.sqrt(500 * 0.2 * 0.8)

    def test_what_was_not_kept_is_not_forgotten_in_silence(self, tmp_path):
        model = MulticlassCRF(l1=1.0).partial_fit(DIGITS, DIGIT)
        model.save(tmp_path / "m")
        online = MulticlassCRF(solver="averaged-perceptron").partial_fit(DIGITS, DIGIT, range(4))
        for other in (ChainCRF(l1=0.1).fit(X, Y), load(tmp_path / "m"), online.set_params(solver="auto")):
            assert not hasattr(other, "partial_fit")
            with pytest.raises(
                AttributeError, match=r"are not kept, and without them partial_fit with solver='auto'"
            ):
                other.partial_fit(X, Y)
        assert hasattr(model, "partial_fit")
        assert hasattr(online.set_params(solver="passive-aggressive"), "partial_fit")

    def test_a_mistake_leaves_the_model_as_it_was(self):
        model = ChainCRF(l1=0.1).partial_fit(X[:20], Y[:20])
        before = weights_by_name(model), model._reservoir
        with pytest.raises(InputError, match="expected 1 labels"):
            model.partial_fit([[["a"]]], [["odd", "even"]])
        assert (weights_by_name(model), model._reservoir) == before

    def test_an_interrupt_leaves_a_model_that_goes_on(self):
        model = ChainCRF(l1=0.1, solver="owl-qn", tol=1e-6).partial_fit(X[:10], Y[:10])

        def interrupt(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            model.set_params(callback=interrupt).partial_fit(X[10:30], Y[10:30])
        model.set_params(callback=None).partial_fit(X[30:], Y[30:])
        fitted = ChainCRF(l1=0.1, solver="owl-qn", tol=1e-6).fit(X, Y)
        assert model.result_.value == pytest.approx(fitted.result_.value, rel=2e-6)

    def test_names_of_columns_stay(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(DIGITS[:90], columns=[f"p{n}" for n in range(64)])
        model = (
            MulticlassCRF(l1=1.0).partial_fit(frame[:50], DIGIT[:50]).partial_fit(frame[50:], DIGIT[50:90])
        )
        assert model.feature_names_in_.tolist() == frame.columns.tolist()
        assert model.score(frame, DIGIT[:90]) > 0.9


class TestMistakes:
    @pytest.mark.parametrize(("settings", "arguments", "message"), [
        ({}, (X, Y), "classes: expected all labels in the first call of partial_fit, got None"),
        ({}, (X, Y, []), "classes: expected one or more labels"),
        ({"transition_rules": "seen"}, (X, Y, CLASSES), "in batches expected no rules of seen transitions"),
        ({"all_possible_states": False}, (X, Y, CLASSES), "all_possible_states: in batches expected True"),
        ({}, (X, [None, *Y[1:]], CLASSES), "item 0"),
        ({"l1": -1}, (X, Y, CLASSES), "l1: expected"),
    ])  # fmt: skip
    def test_messages(self, settings, arguments, message):
        model = ChainCRF(solver="averaged-perceptron", **settings)
        with pytest.raises(InputError, match=message):
            model.partial_fit(*arguments)
        assert not hasattr(model, "coef_")

    def test_later_calls(self):
        model = ChainCRF(solver="averaged-perceptron").partial_fit(X, Y, CLASSES)
        with pytest.raises(InputError, match="classes: expected those of the first call"):
            model.partial_fit(X, Y, CLASSES[:2])
        with pytest.raises(InputError, match="expected features by name, as in earlier calls"):
            model.partial_fit([np.eye(2)], [["odd", "even"]])
        model = ChainCRF(solver="averaged-perceptron").partial_fit(
            Sequences(np.eye(2), [0, 2]), [["odd", "even"]], CLASSES
        )
        with pytest.raises(InputError, match="expected 2 features, as in training, got 3"):
            model.partial_fit(Sequences(np.eye(3), [0, 3]), [["odd", "even", "odd"]])
