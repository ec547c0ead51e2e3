"""`ChainCRF.predict` and its kin, of many sentences and of one."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from chain_estimators import BINARY, PROBLEM, dicts, fitted, same_paths
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from crfqn import ChainCRF, Sequences, threads
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError


class TestPrediction:
    def test_against_enumeration(self, model):
        node, edge = model.coef_.toarray(), model.transition_coef_.toarray()
        decoding = model.decode(PROBLEM.sequences)
        marginals = model.predict_marginals(PROBLEM.sequences)
        likelihood = model.log_likelihood(PROBLEM.sequences, PROBLEM.targets)
        for i, x in enumerate(PROBLEM.items):
            paths = list(itertools.product(range(3), repeat=len(x)))
            scores = np.array(
                [
                    sum(x[t] @ node[k] for t, k in enumerate(path))
                    + sum(edge[a, b] for a, b in itertools.pairwise(path))
                    for path in paths
                ]
            )
            log_p = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
            assert paths.index(tuple(decoding.labels[i])) in np.flatnonzero(log_p > log_p.max() - 1e-12)
            assert decoding.log_probability[i] == pytest.approx(log_p.max(), abs=1e-12)
            assert likelihood[i] == pytest.approx(log_p[paths.index(tuple(PROBLEM.labels[i]))], abs=1e-12)
            expected = np.zeros((len(x), 3))
            for path, p in zip(paths, np.exp(log_p), strict=True):
                expected[np.arange(len(x)), path] += p
            np.testing.assert_allclose(marginals[i], expected, atol=1e-12)

    def test_the_ways_to_predict_agree(self, model):
        X = PROBLEM.sequences
        decoding, predicted, marginals = model.decode(X), model.predict(X), model.predict_marginals(X)
        assert predicted.dtype == object
        assert same_paths(predicted, decoding.labels)
        assert [m.shape for m in marginals] == [(n, 3) for n in X.lengths]
        for m in marginals:
            np.testing.assert_allclose(m.sum(axis=1), 1.0, atol=1e-12)
            assert (m >= 0).all()
        np.testing.assert_allclose(decoding.log_probability, model.log_likelihood(X, predicted), atol=1e-12)
        assert (model.log_likelihood(X, PROBLEM.labels) <= decoding.log_probability + 1e-12).all()
        hits = np.concatenate(predicted) == PROBLEM.targets
        assert model.score(X, PROBLEM.targets) == model.score(X, PROBLEM.labels) == hits.mean()
        assert hits.mean() > 0.6

    def test_the_likelihood_is_what_training_minimised(self, model):
        penalty = 0.5 * (np.abs(model.coef_.data).sum() + np.abs(model.transition_coef_.data).sum())
        loss = -model.log_likelihood(PROBLEM.sequences, PROBLEM.targets).sum()
        assert model.result_.value == pytest.approx(loss + penalty, rel=1e-12)

    @pytest.mark.parametrize(
        "empty", [[], np.empty((0, 7)), sp.csr_array((0, 7))], ids=["list", "array", "sparse"]
    )
    def test_empty_items(self, model, empty):
        X = [PROBLEM.items[0], empty, PROBLEM.items[1], empty]
        decoding = model.decode(X)
        assert [len(path) for path in decoding.labels] == [len(PROBLEM.items[0]), 0, len(PROBLEM.items[1]), 0]
        # The empty labelling is the only one of an empty item: its probability is 1.
        assert decoding.log_probability[[1, 3]].tolist() == [0.0, 0.0]
        assert [m.shape for m in model.predict_marginals(X)][1] == (0, 3)
        y = [PROBLEM.labels[0], [], PROBLEM.labels[1], []]
        assert model.log_likelihood(X, y)[[1, 3]].tolist() == [0.0, 0.0]
        whole = model.decode(PROBLEM.items[:2])
        assert same_paths([decoding.labels[0], decoding.labels[2]], whole.labels)
        np.testing.assert_array_equal(decoding.log_probability[[0, 2]], whole.log_probability)
        assert model.score(X, y) == model.score(PROBLEM.items[:2], PROBLEM.labels[:2])

    def test_no_items(self, model):
        assert model.predict([]).tolist() == []
        assert model.predict_marginals([]) == []
        assert model.decode([]).log_probability.shape == (0,)

    @pytest.mark.parametrize(
        ("X", "y"), [([], []), ([np.empty((0, 7))], [[]])], ids=["no item", "empty item"]
    )
    def test_there_is_no_score_of_nothing(self, model, X, y):
        with pytest.raises(InputError, match="position"):
            model.score(X, y)

    def test_unseen_features_are_ignored(self):
        model = ChainCRF(l1=0.5).fit(BINARY, PROBLEM.targets)
        more = [[[*position, "unseen", "g=7"] for position in item] for item in BINARY]
        assert same_paths(model.predict(BINARY), model.predict(more))
        only = model.predict_marginals([[["unseen"]], [[]]])
        np.testing.assert_array_equal(only[0], only[1])
        named = Sequences(np.c_[np.ones(2), np.eye(2)], [0, 2], ["new", "f1", "f0"])
        assert same_paths(model.predict(named), model.predict([[["f1"], ["f0"]]]))

    def test_one_item_at_a_time(self, model):
        together = model.predict_marginals(PROBLEM.items)
        for item, marginals in zip(PROBLEM.items, together, strict=True):
            # Items that are inferred side by side, one in each lane, add up in another order.
            np.testing.assert_allclose(model.predict_marginals([item])[0], marginals, rtol=1e-10, atol=1e-14)

    def test_long_items_and_large_scores(self):
        model = ChainCRF(l1=1e-3, max_iter=120, tol=1e-2).fit([np.array([[100.0], [-100.0]])], [["a", "b"]])
        rng = np.random.default_rng(0)
        X = [100.0 * rng.normal(size=(20_000, 1))]
        marginals = model.predict_marginals(X)[0]
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)
        assert np.isfinite(model.decode(X).log_probability).all()

    def test_labels_of_score_need_not_be_known(self, model):
        y = [[*labels[:-1], 77] for labels in PROBLEM.labels]
        known = model.score(PROBLEM.sequences, PROBLEM.labels)
        assert 0 < model.score(PROBLEM.sequences, y) < known


class TestOneSentence:
    """What labels one sentence: counted, since seconds tell little on a busy machine."""

    @pytest.fixture
    def started(self, monkeypatch):
        """How many executors have been made."""
        made = []

        def counting(*arguments, **options):
            made.append(arguments)
            return executor(*arguments, **options)

        executor = threads.ThreadPoolExecutor
        monkeypatch.setattr(threads, "ThreadPoolExecutor", counting)
        return made

    @pytest.fixture
    def stores(self, monkeypatch):
        """How many stores have been built."""
        built = []

        def counting(*arguments, **options):
            built.append(arguments)
            return build(*arguments, **options)

        build = FeatureStore.from_matrix
        monkeypatch.setattr(FeatureStore, "from_matrix", counting)
        return built

    @pytest.mark.parametrize("n_threads", [None, 1, 4])
    def test_it_needs_no_threads_and_no_store(self, model, started, stores, n_threads):
        many = clone(model).set_params(n_threads=n_threads)
        vars(many).update({name: value for name, value in vars(model).items() if name.endswith("_")})
        one = PROBLEM.sequences[:1]
        assert same_paths(many.predict(one), model.predict(PROBLEM.sequences)[:1])
        many.predict_marginals(one)
        many.decode(one)
        assert (started, stores) == ([], [])

    def test_nor_do_names_need_another_check(self, monkeypatch):
        model = ChainCRF(l1=0.5).fit(dicts(PROBLEM), PROBLEM.targets)
        checked = []
        monkeypatch.setattr(
            "crfqn.data.vocabulary.check_feature_names", lambda *arguments: checked.append(arguments)
        )
        model.predict(dicts(PROBLEM)[:1])
        assert checked == []

    def test_one_by_one_as_all_together(self, model, stores):
        together = model.decode(PROBLEM.sequences), model.predict_marginals(PROBLEM.sequences)
        for i, item in enumerate(PROBLEM.items):
            for form in ([item], [sp.csr_array(item)], [sp.csc_array(item)]):
                alone = model.decode(form), model.predict_marginals(form)
                assert alone[0].labels[0].tolist() == together[0].labels[i].tolist()
                np.testing.assert_allclose(
                    alone[0].log_probability, together[0].log_probability[[i]], rtol=1e-12
                )
                np.testing.assert_allclose(alone[1][0], together[1][i], atol=1e-13)

    def test_much_work_is_shared_and_the_same_bit_by_bit(self, started, stores):
        """Above the threshold, and by a store."""
        random = np.random.default_rng(2)
        x = random.normal(size=(3000, 40))
        many = Sequences(x, np.arange(0, 3001, 10))
        found = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ChainCRF(l1=1.0, max_iter=2).fit(many[:30], random.integers(0, 3, 300))
        for n_threads in (1, 2, 3):
            model.set_params(n_threads=n_threads)
            started.clear()
            stores.clear()
            decoded, marginals = model.decode(many), model.predict_marginals(many)
            assert len(stores) == 2
            assert (len(started) > 0) == (n_threads > 1)
            found.add((decoded.log_probability.tobytes(), np.concatenate(marginals).tobytes()))
        assert len(found) == 1

    def test_weights_that_have_been_changed(self, model):
        changed = fitted()
        changed.predict(PROBLEM.sequences[:1])
        changed.coef_.data *= -1.0
        other = fitted()
        other.coef_ = -other.coef_
        for i in range(5):
            np.testing.assert_array_equal(
                changed.predict_marginals(PROBLEM.sequences[[i]])[0],
                other.predict_marginals(PROBLEM.sequences[[i]])[0],
            )
