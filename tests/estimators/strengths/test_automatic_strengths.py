"""Strengths left to the data: what is chosen, where it shows, and that it is the same wherever a model comes from."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
from problems import make_problem
from sklearn.base import clone
from sklearn.datasets import load_digits

import crfqn
from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF
from crfqn.arrays import NO_COORDS
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.automatic import NOISE_FACTOR_WITH_L2, NOISE_FACTORS
from crfqn.objectives.gradient_noise import gradient_noise

PROBLEM = make_problem(5, n_items=30)
DIGITS = load_digits(return_X_y=True)
X, Y = DIGITS[0][:300], DIGITS[1][:300]


@pytest.fixture(scope="module")
def chain():
    return ChainCRF().fit(PROBLEM.sequences, PROBLEM.labels)


@pytest.fixture(scope="module")
def flat():
    return MulticlassCRF().fit(X, Y)


class TestChoice:
    def test_it_is_the_default_and_a_share_of_the_noise(self, chain):
        assert chain.l1 == "auto"
        noise = gradient_noise(PROBLEM.objective(), NO_COORDS)
        assert chain.l1_ == pytest.approx(NOISE_FACTOR_WITH_L2 * noise, rel=1e-6)
        shares = np.bincount(PROBLEM.targets, minlength=len(chain.classes_)) / PROBLEM.targets.size
        assert chain.l2_ == pytest.approx(
            2 * (1 - shares @ shares) / shares.size, rel=1e-6
        )  # binary features
        assert chain.group_l1_ == 0.0

    @pytest.mark.parametrize("given", [{"l1": 0.5}, {"group_l1": 0.5}, {"group_l1": "auto"}])
    def test_a_penalty_that_is_given_is_the_whole_one(self, given):
        assert ChainCRF(**given).fit(PROBLEM.sequences, PROBLEM.labels).l2_ == 0.0

    def test_l2_has_the_unit_of_a_curvature(self, chain):
        X = PROBLEM.sequences
        doubled = ChainCRF().fit(type(X)(2 * X.matrix, X.offsets), PROBLEM.labels)
        assert (doubled.l1_, doubled.l2_) == (pytest.approx(2 * chain.l1_), pytest.approx(4 * chain.l2_))

    def test_beside_an_l2_that_is_given(self):
        model = ChainCRF(l2=0.5).fit(PROBLEM.sequences, PROBLEM.labels)
        expected = NOISE_FACTORS["l1"] * gradient_noise(PROBLEM.objective(), NO_COORDS)
        assert (model.l1_, model.l2_) == (pytest.approx(expected, rel=1e-6), 0.5)

    def test_the_model_is_that_of_the_number(self, chain):
        same = ChainCRF(l1=chain.l1_, l2=chain.l2_).fit(PROBLEM.sequences, PROBLEM.labels)
        np.testing.assert_array_equal(chain.coef_.toarray(), same.coef_.toarray())
        np.testing.assert_array_equal(chain.transition_coef_.toarray(), same.transition_coef_.toarray())

    def test_it_is_chosen_anew_by_each_fit(self, flat):
        model = clone(flat)
        assert model.l1 is None
        assert not hasattr(model, "l1_")
        assert model.fit(X / 16, Y).l1_ == pytest.approx(flat.l1_ / 16, rel=1e-6)
        assert model.l1 is None
        assert model.set_params(l1=2.0).fit(X, Y).l1_ == 2.0

    def test_units_of_features_change_no_prediction(self, flat):
        scaled = MulticlassCRF().fit(X / 16, Y)
        test = DIGITS[0][300:600]
        assert (scaled.predict(test / 16) == flat.predict(test)).mean() > 0.995

    def test_intercepts_do_not_count(self, flat):
        centred = X - X.mean(axis=0)  # which a free intercept makes no difference to
        assert flat.l1_ == pytest.approx(MulticlassCRF(fit_intercept=False).fit(centred, Y).l1_, rel=1e-6)
        assert flat.l1_ == pytest.approx(MulticlassCRF().fit(scipy.sparse.csr_array(X), Y).l1_, rel=1e-6)

    def test_weights_are_repetitions(self):
        counts = np.random.default_rng(0).integers(0, 3, Y.size)
        weighted = MulticlassCRF(max_iter=1000).fit(X, Y, sample_weight=counts)
        repeated = MulticlassCRF(max_iter=1000).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
        assert weighted.l1_ == pytest.approx(repeated.l1_, rel=1e-6)

    @pytest.mark.parametrize(("model", "chosen"), [
        (MulticlassClassifier(), ["group_l1_"]),
        (MulticlassClassifier(penalty="sparse-group", loss="logistic"), ["l1_", "group_l1_"]),
        (MulticlassCRF(penalty="elastic-net"), ["l1_"]),
        (MulticlassCRF(penalty="l2"), []),
        (TaxonomyCRF(), ["l1_", "l2_"]),
        (TaxonomyCRF(l2=0.0), ["l1_"]),
        (TaxonomyCRF(l1=1.0), []),
        (MulticlassCRF(), ["l1_", "l2_"]),
        (MulticlassCRF(l2=0.0), ["l1_"]),
        (MulticlassCRF(l1=1.0), []),
        (MulticlassClassifier(penalty="l1"), ["l1_"]),
        (TaxonomyCRF(l1=0.0, group_l1="auto"), ["group_l1_"]),
    ], ids=lambda value: repr(value) if hasattr(value, "fit") else None)  # fmt: skip
    def test_of_other_penalties(self, model, chosen):
        model.fit(X[:100], Y[:100])
        strengths = {name: getattr(model, name) for name in ("l1_", "l2_", "group_l1_")}
        assert [name for name, value in strengths.items() if value not in (0.0, 1.0)] == chosen
        if chosen == ["l1_", "group_l1_"]:
            assert strengths["group_l1_"] == pytest.approx(2 * strengths["l1_"], rel=1e-12)

    def test_l2_of_items_is_that_of_the_median_feature(self):
        """A few features in a huge unit, or in a tiny one, do not decide what all others have."""
        units = np.ones(X.shape[1])
        units[0], units[1] = 1e4, 1e-4
        plain, odd = (MulticlassCRF().prepare(x, Y).penalty.l2 for x in (X, X * units))
        assert odd == pytest.approx(plain, rel=0.2)

    def test_thresholds_of_a_ranker_are_those_of_its_strength(self):
        table = np.column_stack([Y[:60] % 2 == 0, Y[:60] > 4, Y[:60] < 7]).astype(int)
        ranker = MultilabelRanker(cv=2).fit(X[:60], table)
        same = MultilabelRanker(cv=2, group_l1=ranker.group_l1_).fit(X[:60], table)
        np.testing.assert_allclose(ranker.threshold_coef_, same.threshold_coef_, rtol=1e-9)

    def test_the_hinge_has_no_l1(self):
        model = ChainCRF(loss="hinge", l2=1.0).fit(PROBLEM.sequences, PROBLEM.labels)
        assert (model.l1_, model.l2_) == (0.0, 1.0)

    def test_labels_that_do_not_vary(self):
        model = ChainCRF().fit([[{"a": 1}], [{"b": 1}]], [["x"], ["x"]])
        assert model.l1_ == pytest.approx(0.0, abs=1e-9)
        assert list(model.predict([[{"a": 1}]])) == [["x"]]

    def test_a_first_fit_is_near_the_tuned_one(self, flat):
        test = DIGITS[0][300:], DIGITS[1][300:]
        others = [MulticlassCRF(l1=l1).fit(X, Y).score(*test) for l1 in (0.1, 1.0, 10.0, 100.0)]
        assert flat.score(*test) > max(others) - 0.01
        assert max(others) - min(others) > 0.02


class TestAround:
    def test_it_shows_while_training(self, capsys):
        model = ChainCRF(verbose=1).fit(PROBLEM.sequences, PROBLEM.labels)
        assert f"strengths: l1 = {model.l1_:g}, l2 = {model.l2_:g}\n" in capsys.readouterr().err

    def test_a_warm_start(self, chain):
        again = ChainCRF().fit(PROBLEM.sequences, PROBLEM.labels, start=chain)
        assert again.l1_ == chain.l1_
        assert again.n_iter_ < chain.n_iter_

    def test_files_keep_it(self, chain, tmp_path):
        chain.save(tmp_path / "model")
        loaded = crfqn.load(tmp_path / "model")
        assert (loaded.l1, loaded.l1_, loaded.l2_) == ("auto", chain.l1_, chain.l2_)

    @pytest.mark.parametrize(
        "strengths", [{"l1": "auto", "l2": 0.0, "group_l1": 0.0}, {"l1": 1.0}, [1.0], {"l1": -1.0}]
    )
    def test_damaged_files(self, chain, tmp_path, strengths):
        chain.save(tmp_path / "model")
        file = read_model(tmp_path / "model")
        file.metadata["strengths"] = strengths
        write_model(
            tmp_path / "model", file.kind, file.arrays, file.strings, json.loads(json.dumps(file.metadata))
        )
        with pytest.raises(ModelFileError, match=r"l1|strengths"):
            crfqn.load(tmp_path / "model")

    @pytest.mark.parametrize(("model", "words"), [
        (ChainCRF(l1="much"), "l1: expected 'auto' or a finite number >= 0, got 'much'"),
        (ChainCRF(group_l1="much"), "group_l1: expected 'auto'"),
        (ChainCRF(l2="much"), "l2: expected 'auto' or a finite number >= 0, got 'much'"),
        (MulticlassCRF(l2="auto"), "l2: expected None or a finite number >= 0, got 'auto'"),
        (MulticlassCRF(l1="AUTO"), "l1: expected None, 'auto'"),
        (MulticlassClassifier(l1="auto"), "l1: the penalty 'l1/l2' has none"),
    ])  # fmt: skip
    def test_other_words(self, model, words):
        with pytest.raises(InputError, match=words):
            model.fit(X[:20], Y[:20])
