"""`fit(X, y, validation=(X, y))`: the weights with the best score of other items, and an honest word on the end."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from crfqn import (
    ChainCRF,
    MulticlassClassifier,
    MulticlassCRF,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
    load,
)
from crfqn.arrays import NO_WEIGHTS
from crfqn.errors import InputError
from crfqn.metrics import span_f1_score
from crfqn.result import Status
from crfqn.solvers.protocols import State
from crfqn.solvers.stopping import MAX_COST_OF_SCORES, ValidationHistory, ValidationSet

WORDS, LABELS = 60, np.array(["O", "B-A", "I-A"])
WEIGHTS = np.random.default_rng(0).normal(size=(WORDS, 3))


def noisy(n_items: int, seed: int) -> tuple[list, list]:
    """Draw items whose labels are so noisy that a weak penalty learns them by heart; I-A only behind B-A and I-A."""
    rng, X, y = np.random.default_rng(seed), [], []
    for length in rng.integers(3, 9, n_items):
        words, labels, before = rng.integers(0, WORDS, length), [], 0
        for word in words:
            scores = WEIGHTS[word] + rng.gumbel(size=3)
            before = int(scores[: 3 if before else 2].argmax())
            labels.append(LABELS[before].item())
        X.append([[f"w{word}", f"p{t}"] for t, word in enumerate(words)])
        y.append(labels)
    return X, y


TRAIN, DEV = noisy(60, 1), noisy(60, 2)
DIGITS, DIGIT = load_digits(return_X_y=True)
ITEMS = DIGITS[:300], DIGIT[:300]
DEV_ITEMS = DIGITS[300:450], DIGIT[300:450]


class TestChains:
    @pytest.mark.parametrize(
        "settings",
        [{"l1": 0.1}, {"l1": 0, "l2": 0.01}, {"l1": 0.1, "solver": "owl-qn"},
         {"l1": 0.1, "solver": "sgd", "max_iter": 15},
         {"l1": 0, "l2": 0.1, "loss": "hinge"}, {"l1": 0.1, "solver": "averaged-perceptron"}],
        ids=str,
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_the_weights_are_those_of_the_best_score(self, settings):
        model = ChainCRF(**settings).fit(*TRAIN, validation=DEV)
        found = model.result_.held_out
        assert found.best == found.scores.max() == model.score(*DEV)
        assert found.best >= ChainCRF(**settings).fit(*TRAIN).score(*DEV)
        assert found.metric == "token_accuracy"
        assert found.iteration in found.iterations
        latest = model.result_.trace.held_out_score
        assert latest[np.isfinite(latest)].size

    def test_a_run_that_is_stopped_says_so_and_is_not_called_converged(self):
        model = ChainCRF(l1=0.1, patience=2).fit(*TRAIN, validation=DEV)
        result = model.result_
        assert result.status is Status.HELD_OUT
        assert result.status.is_regular
        assert not result.status.is_success
        assert result.message == (
            f"stopped by the validation items: best token_accuracy {result.held_out.best:.4f} "
            f"at iteration {result.held_out.iteration}"
        )
        assert len(result.held_out.scores) == int(np.argmax(result.held_out.scores)) + 3
        assert result.gap > result.tol
        assert result.n_iter < ChainCRF(l1=0.1, tol=1e-3).fit(*TRAIN).n_iter_

    def test_value_and_gap_are_those_of_the_weights_that_were_kept(self):
        model = ChainCRF(l1=0.1, patience=2).fit(*TRAIN, validation=DEV)
        value = -model.log_likelihood(*TRAIN).sum() + 0.1 * np.abs(model.result_.weights).sum()
        assert model.result_.value == pytest.approx(value, rel=1e-10)
        optimum = ChainCRF(l1=0.1, tol=1e-6).fit(*TRAIN).result_.value
        assert (value - optimum) / value <= model.result_.gap

    def test_an_optimum_that_scores_best_has_converged(self):
        model = ChainCRF(l1=20.0).fit(*TRAIN, validation=DEV)
        assert model.result_.status.is_success
        assert model.result_.gap <= model.tol_
        assert model.result_.held_out.best == model.score(*DEV)

    def test_an_earlier_score_is_preferred_to_a_worse_optimum(self):
        model = ChainCRF(l1=0.1, patience=1000).fit(*TRAIN, validation=DEV)
        assert model.result_.status is Status.HELD_OUT
        assert model.result_.message.startswith("chosen by the validation items: best")
        assert model.result_.held_out.scores[-1] < model.result_.held_out.best

    def test_the_score_is_the_f1_of_spans_where_there_is_a_scheme(self):
        model = ChainCRF(l1=0.05, scheme="IOB2").fit(*TRAIN, validation=DEV)
        found = model.result_.held_out
        assert found.metric == "span_f1:IOB2"
        assert found.best == span_f1_score(DEV[1], model.predict(DEV[0]), scheme="IOB2")

    @pytest.mark.parametrize(
        ("scoring", "metric"),
        [("f1", "chunk_f1"), ("f1_macro", "f1_macro"), ("accuracy", "accuracy"),
         ("span_recall:IOB2", "span_recall:IOB2")],
    )  # fmt: skip
    def test_scores_by_name(self, scoring, metric):
        model = ChainCRF(l1=0.5, scoring=scoring, tol=0.05).fit(*TRAIN, validation=DEV)
        assert model.result_.held_out.metric == metric

    def test_a_scorer_sees_a_whole_model(self):
        def likelihood(model, X, y):
            assert model.score(X, y) > 0
            return float(model.log_likelihood(X, y).sum())

        model = ChainCRF(l1=0.5, scoring=likelihood, tol=0.05).fit(*TRAIN, validation=DEV)
        assert model.result_.held_out.metric == "likelihood"
        assert model.result_.held_out.best == pytest.approx(model.log_likelihood(*DEV).sum())

    def test_the_same_run_again_gives_the_same_bits_for_any_number_of_threads(self):
        one, other = (ChainCRF(l1=0.1, n_threads=n).fit(*TRAIN, validation=DEV) for n in (1, 2))
        np.testing.assert_array_equal(one.result_.weights, other.result_.weights)
        np.testing.assert_array_equal(one.result_.held_out.scores, other.result_.held_out.scores)

    def test_labels_and_features_that_the_training_has_not(self):
        X, y = [[["w1"], ["unheard"]]], [["O", "B-NEW"]]
        model = ChainCRF(l1=0.5).fit(*TRAIN, validation=(X, y))
        assert model.result_.held_out.best <= 0.5

    def test_model_files_keep_the_scores(self, tmp_path):
        model = ChainCRF(l1=0.1, patience=2, scoring="f1_macro").fit(*TRAIN, validation=DEV)
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.result_.message == model.result_.message
        np.testing.assert_array_equal(again.result_.held_out.scores, model.result_.held_out.scores)
        assert again.predict(DEV[0]).tolist() == model.predict(DEV[0]).tolist()

    def test_an_interrupt_keeps_the_best_score(self):
        def interrupt(progress):
            if progress.iteration == 10:
                raise KeyboardInterrupt

        model = ChainCRF(l1=0.1, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*TRAIN, validation=DEV)
        assert model.result_.status is Status.INTERRUPTED
        assert model.score(*DEV) == model.result_.held_out.best == model.result_.held_out.scores.max()

    def test_a_limit_is_still_warned_of(self):
        with pytest.warns(ConvergenceWarning, match="limit of iterations"):
            model = ChainCRF(l1=0.1, max_iter=6).fit(*TRAIN, validation=DEV)
        assert model.score(*DEV) == model.result_.held_out.best


class TestItems:
    @pytest.mark.parametrize(
        "model",
        [MulticlassCRF(l1=0.01), MulticlassClassifier(group_l1=0.1), TaxonomyCRF(l1=0.01),
         MultilabelRanker(group_l1=0.1)],
        ids=repr,
    )  # fmt: skip
    def test_the_weights_are_those_of_the_best_score(self, model):
        model.set_params(patience=3).fit(*ITEMS, validation=DEV_ITEMS)
        found = model.result_.held_out
        assert found.metric == "accuracy"
        assert found.best == found.scores.max() == model.score(*DEV_ITEMS)
        assert model.result_.status in (Status.HELD_OUT, Status.CONVERGED, Status.ESTIMATED)

    def test_scores_of_scikit_learn_by_name(self):
        model = MulticlassCRF(l1=0.01, scoring="neg_log_loss", patience=2).fit(*ITEMS, validation=DEV_ITEMS)
        assert model.result_.held_out.best == pytest.approx(model.log_likelihood(*DEV_ITEMS).mean())
        model = MulticlassCRF(l1=0.1, scoring="f1", tol=0.1).fit(*ITEMS, validation=DEV_ITEMS)
        assert model.result_.held_out.metric == "f1_macro"


def state_of(value: float) -> State:
    """The state of a step with this objective."""
    return State(SimpleNamespace(sparse_weights=NO_WEIGHTS), value, 1.0, 0)


class TestWatch:
    """Looks are due by passes, and cost no more than a share of these."""

    def test_looks_cost_a_share_of_the_passes(self):
        watch = ValidationHistory(ValidationSet(lambda weights: 0.0, 0.5, 1000, "score"))
        for step in range(100):
            watch.after_step(state_of(1.0), step, float(step))
        np.testing.assert_array_equal(np.diff(watch.iterations), round(0.5 / MAX_COST_OF_SCORES))

    def test_patience_counts_looks_without_a_better_score(self):
        scores = iter([0.1, 0.5, 0.5, 0.4, 0.6, 0.1, 0.2, 0.3])
        watch = ValidationHistory(ValidationSet(lambda weights: next(scores), 0.0, 3, "score"))
        is_over = []
        for step in range(8):
            watch.after_step(state_of(float(step)), step, float(step))
            is_over.append(watch.is_over)
        assert is_over == [False] * 7 + [True]
        assert (watch.result().best, watch.result().iteration, watch.value) == (0.6, 4, 4.0)


class TestMessages:
    @pytest.mark.parametrize(("model", "validation", "message"), [
        (ChainCRF(), [1], r"^validation: expected a pair \(X, y\), got list"),
        (ChainCRF(), (TRAIN[0][:3], TRAIN[1][:2]), "expected labels for 3 items, got 2 lists"),
        (ChainCRF(), ([], []), "^validation: expected at least one position"),
        (ChainCRF(scoring="f9"), DEV, "^scoring: expected one of token_accuracy, .*'f9'"),
        (ChainCRF(patience=0), DEV, "^patience: expected an integer >= 1, got 0"),
    ])  # fmt: skip
    def test_chains(self, model, validation, message):
        with pytest.raises(InputError, match=message):
            model.fit(*TRAIN, validation=validation)
        assert not hasattr(model, "coef_")

    def test_items(self):
        with pytest.raises(ValueError, match="X has 63 features"):
            MulticlassCRF().fit(*ITEMS, validation=(DIGITS[:5, 1:], DIGIT[:5]))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            MulticlassCRF().fit(*ITEMS, validation=(DIGITS[:5], DIGIT[:4]))
        with pytest.raises(InputError, match=r"^validation: expected items with one label each"):
            MultilabelRanker().fit(DIGITS[:50], [{n} for n in DIGIT[:50]], validation=(DIGITS[:5], [{1}] * 5))
        with pytest.raises(TypeError, match="scoring"):
            StagewiseRegression(scoring="f1")
