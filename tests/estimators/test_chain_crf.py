"""ChainCRF for its user: every kind of input, weights of items, prediction, messages, and what it prints.

That it minimises what it says is checked against enumeration (`problems.py`); the method has tests of its own.
"""

from __future__ import annotations

import doctest
import itertools
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from problems import Problem, ends_within, make_problem
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

import crfqn
from crfqn import ChainCRF, Sequences, threads
from crfqn.errors import CrfqnError, InputError
from crfqn.estimators.sequence import chain as chain_module
from crfqn.result import Status
from crfqn.solvers.prox_qn import Diagonal, MostPromising, ProxQN

PROBLEM = make_problem(11, n_items=30, n_features=7, n_states=3, longest=5)
BINARY = [[[f"f{j}" for j in np.flatnonzero(row)] for row in item] for item in PROBLEM.items]
NAMES = [f"f{j}" for j in range(PROBLEM.n_features)]


def dicts(problem: Problem) -> list[list[dict]]:
    return [[{f"f{j}": float(row[j]) for j in np.flatnonzero(row)} for row in item] for item in problem.items]


def fitted(problem: Problem = PROBLEM, **settings) -> ChainCRF:
    return ChainCRF(**{"l1": 0.5, **settings}).fit(problem.sequences, problem.targets)


@pytest.fixture(scope="module")
def model() -> ChainCRF:
    return fitted()


def assert_same_model(left: ChainCRF, right: ChainCRF) -> None:
    """Bit by bit."""
    for name in ("coef_", "edge_coef_"):
        assert getattr(left, name).toarray().tobytes() == getattr(right, name).toarray().tobytes()
    assert left.result_.value == right.result_.value
    assert left.classes_.tolist() == right.classes_.tolist()


def same_paths(left: list, right: list) -> bool:
    return list(left) == list(right)


class TestFit:
    @pytest.mark.parametrize("l2", [0.0, 0.3])
    @pytest.mark.parametrize("is_binary", [True, False])
    def test_attributes_and_optimum(self, is_binary, l2):
        problem = make_problem(12, is_binary=is_binary)
        model = fitted(problem, l1=0.6, l2=l2, tol=1e-5)
        n_states, n_features = problem.n_states, problem.n_features
        assert isinstance(model.coef_, sp.csr_array)
        assert isinstance(model.edge_coef_, sp.csr_array)
        assert model.coef_.shape == (n_states, n_features)
        assert model.edge_coef_.shape == (n_states, n_states)
        assert (model.coef_.data != 0).all()
        assert model.classes_.tolist() == list(range(n_states))
        assert model.n_features_in_ == n_features
        assert model.vocabulary_ is None
        assert model.n_iter_ == model.result_.n_iter > 0
        assert model.result_.status is Status.CONVERGED
        assert 0 <= model.result_.gap <= 1e-5
        w = np.concatenate([model.coef_.toarray().ravel(), model.edge_coef_.toarray().ravel()])
        assert model.result_.value == pytest.approx(problem.value(w, 0.6, l2), rel=1e-12)
        optimum, _ = problem.optimum(0.6, l2)
        assert optimum * (1 - 1e-8) <= model.result_.value <= optimum * (1 + 1e-5)

    def test_edges_are_from_row_to_column(self):
        # a is always followed by b, and b by c; nothing else tells the labels apart.
        y = [list("abcabcabc")] * 5
        X = [np.ones((9, 1))] * 5
        edges = ChainCRF(l1=0.1).fit(X, y).edge_coef_.toarray()
        assert (edges[[0, 1, 2], [1, 2, 0]] > 0).all()
        assert edges.max() == edges[[0, 1, 2], [1, 2, 0]].max()

    @pytest.mark.parametrize(
        "kind",
        ["sequences of csr", "sequences of coo", "arrays", "tuple of arrays", "csr", "csc", "object array"],
    )
    def test_matrices_of_all_kinds(self, model, kind):
        items, offsets = PROBLEM.items, PROBLEM.offsets
        ragged = np.empty(len(items), object)
        ragged[:] = items
        X = {
            "sequences of csr": Sequences(sp.csr_array(PROBLEM.matrix), offsets),
            "sequences of coo": Sequences(sp.coo_matrix(PROBLEM.matrix), offsets),
            "arrays": items,
            "tuple of arrays": tuple(item.astype(bool) for item in items),
            "csr": [sp.csr_array(item) for item in items],
            "csc": [sp.csc_matrix(item) for item in items],
            "object array": ragged,
        }[kind]
        other = ChainCRF(l1=0.5).fit(X, PROBLEM.targets)
        assert_same_model(model, other)
        assert same_paths(model.predict(PROBLEM.sequences), other.predict(X))

    @pytest.mark.parametrize("X", [dicts(PROBLEM), BINARY], ids=["dicts", "strings"])
    def test_named_features(self, model, X):
        other = ChainCRF(l1=0.5).fit(X, PROBLEM.targets)
        assert other.vocabulary_.names == NAMES
        assert_same_model(model, other)
        assert same_paths(model.predict(PROBLEM.sequences), other.predict(X))
        # A model with names takes the other forms too, with its columns in any order.
        assert same_paths(other.predict(X), other.predict(PROBLEM.sequences))
        turned = Sequences(PROBLEM.matrix[:, ::-1], PROBLEM.offsets, NAMES[::-1])
        assert same_paths(other.predict(X), other.predict(turned))

    def test_real_values_in_dicts(self):
        problem = make_problem(13, is_binary=False)
        assert_same_model(fitted(problem), ChainCRF(l1=0.5).fit(dicts(problem), problem.labels))

    def test_string_values_are_features_of_their_own(self):
        X = [[{"word": "a"}, {"word": "b", "n": 2}], [{"word": "b", "n": 1, "is": True}]]
        same = [[{"word=a": 1}, {"word=b": 1, "n": 2}], [{"word=b": 1, "n": 1, "is": 1}]]
        y = [["x", "y"], ["y"]]
        left, right = ChainCRF(l1=0.1).fit(X, y), ChainCRF(l1=0.1).fit(same, y)
        assert left.vocabulary_.names == ["is", "n", "word=a", "word=b"]
        assert_same_model(left, right)

    @pytest.mark.parametrize(
        "kind", ["flat list", "nested lists", "list of arrays", "tuples", "object array"]
    )
    def test_labels_of_all_kinds(self, model, kind):
        ragged = np.empty(len(PROBLEM.labels), object)
        ragged[:] = PROBLEM.labels
        y = {
            "flat list": PROBLEM.targets.tolist(),
            "nested lists": PROBLEM.labels,
            "list of arrays": [np.array(labels) for labels in PROBLEM.labels],
            "tuples": tuple(tuple(labels) for labels in PROBLEM.labels),
            "object array": ragged,
        }[kind]
        assert_same_model(model, ChainCRF(l1=0.5).fit(PROBLEM.sequences, y))

    @pytest.mark.parametrize(
        ("classes", "kind"),
        [(["B", "I", "O"], "U"), ([-5, 0, 7], "i"), ([0.5, 1.5, 2.5], "f"), ([False, True], "b")],
    )
    def test_classes_keep_their_kind(self, classes, kind):
        problem = make_problem(11, n_items=20, n_states=len(classes))
        y = [[classes[k] for k in labels] for labels in problem.labels]
        model = ChainCRF(l1=0.3).fit(problem.sequences, y)
        assert model.classes_.tolist() == classes
        assert model.classes_.dtype.kind == kind
        predicted = model.predict(problem.sequences)
        assert {np.asarray(path).dtype.kind for path in predicted} == {kind}
        assert set(itertools.chain.from_iterable(predicted)) <= set(classes)
        plain = fitted(problem, l1=0.3)
        np.testing.assert_array_equal(model.coef_.toarray(), plain.coef_.toarray())

    def test_inputs_are_left_alone(self):
        matrix, targets = sp.csr_array(PROBLEM.matrix), PROBLEM.targets.copy()
        weights = np.linspace(0, 2, PROBLEM.n_items)
        copies = [
            matrix.data.copy(),
            matrix.indices.copy(),
            matrix.indptr.copy(),
            targets.copy(),
            weights.copy(),
        ]
        arrays = [matrix.data, matrix.indices, matrix.indptr, targets, weights]
        for array in arrays:
            array.setflags(write=False)
        ChainCRF().fit(Sequences(matrix, PROBLEM.offsets), targets, sample_weight=weights)
        for array, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_fit_returns_self_and_forgets_the_last_fit(self, model):
        other = fitted(make_problem(14, n_features=3))
        assert other.fit(PROBLEM.sequences, PROBLEM.targets) is other
        assert_same_model(model, other)

    @pytest.mark.parametrize(
        "solver", ["prox-qn-paper", ProxQN(metric=Diagonal()), ProxQN(entry=MostPromising(4))], ids=str
    )
    def test_other_solvers(self, model, solver):
        other = fitted(solver=solver, tol=1e-6)
        assert other.result_.value == pytest.approx(fitted(tol=1e-6).result_.value, rel=1e-8)
        assert other.result_.passes != model.result_.passes

    def test_l2_alone(self):
        model = fitted(l1=0.0, l2=0.5)
        assert model.coef_.nnz == PROBLEM.n_states * PROBLEM.n_features
        assert model.result_.gap <= 1e-3

    def test_one_label(self):
        model = ChainCRF().fit(PROBLEM.sequences, ["only"] * PROBLEM.targets.size)
        assert model.result_.value == 0.0
        assert model.coef_.nnz == model.edge_coef_.nnz == 0
        assert all(set(path) == {"only"} for path in model.predict(PROBLEM.sequences))
        assert all((m == 1.0).all() for m in model.predict_marginals(PROBLEM.sequences))
        assert model.score(PROBLEM.sequences, ["only"] * PROBLEM.targets.size) == 1.0

    def test_no_feature_ever_fires(self):
        X = [np.zeros((3, 2))] * 4
        model = ChainCRF(l1=0.1).fit(X, [list("aab")] * 4)
        assert model.coef_.nnz == 0
        assert model.edge_coef_.nnz > 0

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_features_far_from_unit_scale_give_finite_models(self, scale):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ChainCRF(max_iter=30).fit([scale * item for item in PROBLEM.items], PROBLEM.targets)
        assert np.isfinite(model.coef_.data).all()
        assert np.isfinite(model.result_.value)
        assert all(np.isfinite(m).all() for m in model.predict_marginals(PROBLEM.items))


class TestThreads:
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_bit_identical_for_any_number_of_threads(self):
        # Large enough for every part to have items, for samples to start from and for several blocks.
        problem = make_problem(15, n_items=4000, n_features=12, n_states=4, longest=5)
        models = [fitted(problem, l1=3.0, n_threads=n, max_iter=40) for n in (1, 2, 3)]
        assert models[0].result_.trace.passes[0] > 1.0
        for other in models[1:]:
            assert_same_model(models[0], other)
            assert other.result_.trace.value.tobytes() == models[0].result_.trace.value.tobytes()
            assert other.result_.trace.gap.tobytes() == models[0].result_.trace.gap.tobytes()
        marginals = [np.concatenate(m.predict_marginals(problem.sequences)).tobytes() for m in models]
        assert len(set(marginals)) == 1


TIGHT = {"l1": 0.4, "l2": 0.3, "tol": 1e-9}  # strongly convex: one optimum


class TestItemWeights:
    def test_weights_are_repetitions(self):
        counts = np.random.default_rng(0).integers(0, 4, PROBLEM.n_items)
        assert set(counts) == {0, 1, 2, 3}
        items = np.repeat(np.arange(PROBLEM.n_items), counts)
        weighted = ChainCRF(**TIGHT).fit(PROBLEM.sequences, PROBLEM.labels, sample_weight=counts)
        repeated = ChainCRF(**TIGHT).fit(PROBLEM.sequences[items], [PROBLEM.labels[i] for i in items])
        assert weighted.result_.value == pytest.approx(repeated.result_.value, rel=1e-9)
        for name in ("coef_", "edge_coef_"):
            left, right = getattr(weighted, name).toarray(), getattr(repeated, name).toarray()
            np.testing.assert_allclose(left, right, atol=2e-4)
        marginals = [np.concatenate(m.predict_marginals(PROBLEM.sequences)) for m in (weighted, repeated)]
        np.testing.assert_allclose(*marginals, atol=2e-4)

    def test_weight_0_is_left_out_with_the_labels_and_features_that_only_it_has(self):
        X, y = [*BINARY, [["f0", "rare"], ["f1"]]], [*PROBLEM.labels, [99, 0]]
        weights = np.r_[np.ones(len(BINARY)), 0.0]
        left = ChainCRF(l1=0.5).fit(X, y, sample_weight=weights)
        assert left.classes_.tolist() == [0, 1, 2]
        kept = fitted()
        assert left.result_.value == kept.result_.value
        np.testing.assert_array_equal(left.coef_.toarray()[:, : PROBLEM.n_features], kept.coef_.toarray())
        np.testing.assert_array_equal(left.edge_coef_.toarray(), kept.edge_coef_.toarray())

    def test_unit_weights_change_nothing(self, model):
        ones = ChainCRF(l1=0.5).fit(
            PROBLEM.sequences, PROBLEM.targets, sample_weight=np.ones(PROBLEM.n_items, int)
        )
        assert_same_model(model, ones)

    def test_scaling_weights_and_penalty_together_keeps_the_weights(self):
        settings = {"tol": 1e-9}
        plain = fitted(l1=0.5, l2=0.2, **settings)
        scaled = ChainCRF(l1=3.5, l2=1.4, **settings).fit(
            PROBLEM.sequences, PROBLEM.targets, sample_weight=np.full(PROBLEM.n_items, 7.0)
        )
        assert scaled.result_.value == pytest.approx(7 * plain.result_.value, rel=1e-8)
        np.testing.assert_allclose(scaled.coef_.toarray(), plain.coef_.toarray(), atol=1e-3)

    def test_score_weighs_items(self, model):
        is_even = np.arange(PROBLEM.n_items) % 2 == 0
        even = [labels for labels, keep in zip(PROBLEM.labels, is_even, strict=True) if keep]
        expected = model.score(PROBLEM.sequences[is_even], even)
        assert model.score(PROBLEM.sequences, PROBLEM.targets, sample_weight=is_even) == pytest.approx(
            expected
        )


class TestWarmStart:
    def test_it_needs_fewer_passes_to_the_same_value(self):
        cold = fitted(tol=1e-5, stop="certificate")
        warm = fitted(l1=0.55, tol=1e-5, warm_start=True, stop="certificate")
        warm.set_params(l1=0.5).fit(PROBLEM.sequences, PROBLEM.targets)
        assert warm.result_.passes < cold.result_.passes
        assert warm.result_.value == pytest.approx(cold.result_.value, rel=1e-5)
        again = warm.fit(PROBLEM.sequences, PROBLEM.targets)
        assert (again.n_iter_, again.result_.passes) == (0, 1)

    def test_without_it_every_fit_starts_anew(self, model):
        other = fitted()
        assert_same_model(model, other.fit(PROBLEM.sequences, PROBLEM.targets))

    @pytest.mark.parametrize("what", ["classes", "features"])
    def test_weights_that_do_not_fit_are_not_used(self, what):
        first = make_problem(16, n_items=10)
        X, y = first.sequences, first.targets
        model = ChainCRF(warm_start=True).fit(X, y)
        if what == "classes":
            y = first.targets + 5
        else:
            X = Sequences(first.matrix[:, :-1], first.offsets)
        assert_same_model(model.fit(X, y), ChainCRF().fit(X, y))

    @staticmethod
    def one_step(**settings):
        """A model that ends where it starts."""
        return ChainCRF(callback=lambda row: True, n_threads=1, **settings)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("way", ["start", "warm_start", "load"])
    def test_labels_and_names_in_common_are_kept(self, way, tmp_path):
        old_X = [[{"a": 1.0, "b": 2.0}, {"c": 1.0}, {"b": 1.0, "gone": 1.0}]] * 4
        old = ChainCRF(l1=0.05).fit(old_X, [["N", "O", "V"]] * 4)
        X = [[{"A-new": 1.0, "a": 1.0}, {"b": 1.0, "c": 2.0}, {"z-new": 1.0}]] * 3
        y = [["V", "A", "N"]] * 3
        if way == "load":
            old.save(tmp_path / "m")
            old = crfqn.load(tmp_path / "m")
        if way == "start":
            model = self.one_step().fit(X, y, start=old)
        else:
            model = (
                pickle.loads(pickle.dumps(old))
                .set_params(warm_start=True, callback=lambda row: True)
                .fit(X, y)
            )
        assert model.classes_.tolist() == ["A", "N", "V"]

        def by_name(of):
            nodes, edges = of.coef_.tocoo(), of.edge_coef_.tocoo()
            labels, names = of.classes_.tolist(), of.vocabulary_.names
            found = {
                (labels[k], names[f]): w for k, f, w in zip(nodes.row, nodes.col, nodes.data, strict=True)
            }
            pairs = zip(edges.row, edges.col, edges.data, strict=True)
            return found | {(labels[i], "->", labels[j]): w for i, j, w in pairs}

        before = by_name(old)
        kept = {key: w for key, w in before.items() if not {"O", "gone"} & set(key)}
        assert 0 < len(kept) < len(before)
        assert by_name(model) == kept

    def test_one_new_word_does_not_start_anew(self):
        X = [[[f"w{j}" for j in np.flatnonzero(row)] for row in item] for item in PROBLEM.items]
        y = PROBLEM.labels
        model = ChainCRF(l1=0.5, tol=1e-5, warm_start=True).fit(X, y)
        more = [*X[:-1], [[*X[-1][0], "aardvark"], *X[-1][1:]]]
        cold = ChainCRF(l1=0.5, tol=1e-5).fit(more, y)
        model.fit(more, y)
        assert model.result_.passes < cold.result_.passes
        assert model.result_.value == pytest.approx(cold.result_.value, rel=1e-5)

    def test_verbose_says_what_was_kept(self, capsys):
        X, y = [[["a"], ["b"]], [["b"], ["a"]]] * 5, [["x", "y"], ["y", "x"]] * 5
        model = ChainCRF(l1=0.1, n_threads=1).fit(X, y)
        n = model.result_.n_nonzero
        model.set_params(warm_start=True, verbose=1).fit([*X, [["c"]]], [*y, ["x"]])
        line = capsys.readouterr().err.splitlines()[0]
        assert line == f"start: {n} of {n} weights kept; in common 2 of 2 labels, 2 of 3 features"

    def test_starts_that_do_not_fit(self):
        X, y = PROBLEM.sequences, PROBLEM.targets
        with pytest.raises(InputError, match=r"^start: expected a ChainCRF, got int$"):
            ChainCRF().fit(X, y, start=3)
        with pytest.raises(NotFittedError):
            ChainCRF().fit(X, y, start=ChainCRF())
        other = ChainCRF(l1=5.0).fit(Sequences(PROBLEM.matrix[:, :-1], PROBLEM.offsets), y)
        with pytest.raises(
            InputError, match=r"^start: expected a model of \d+ features, or names .*, got one of \d+$"
        ):
            ChainCRF().fit(X, y, start=other)


class TestPrediction:
    def test_against_enumeration(self, model):
        node, edge = model.coef_.toarray(), model.edge_coef_.toarray()
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
        penalty = 0.5 * (np.abs(model.coef_.data).sum() + np.abs(model.edge_coef_.data).sum())
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

        build = chain_module.FeatureStore.from_matrix
        monkeypatch.setattr(chain_module.FeatureStore, "from_matrix", counting)
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
        monkeypatch.setattr("crfqn.data.sequences.check_names", lambda *arguments: checked.append(arguments))
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


class TestMessages:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"l1": -1}, r"^l1: expected a finite number >= 0, got -1$"),
            ({"l1": np.nan}, r"^l1: expected a finite number >= 0, got nan$"),
            ({"l1": "1"}, r"^l1: expected 'auto' or a finite number >= 0, got '1'$"),
            ({"l1": None}, r"^l1: expected a finite number >= 0, got None$"),
            ({"l1": True}, r"^l1: expected a finite number >= 0, got True$"),
            ({"l2": -0.5}, r"^l2: expected a finite number >= 0, got -0.5$"),
            ({"l2": np.inf}, r"^l2: expected a finite number >= 0, got inf$"),
            ({"tol": -1e-3}, r"^tol: expected a finite number >= 0, got -0.001$"),
            ({"max_iter": 0}, r"^max_iter: expected an integer >= 1, got 0$"),
            ({"max_iter": 2.5}, r"^max_iter: expected an integer >= 1, got 2.5$"),
            ({"max_seconds": 0}, r"^max_seconds: expected None or a number > 0, got 0$"),
            ({"max_seconds": "1"}, r"^max_seconds: expected None or a number > 0, got '1'$"),
            (
                {"solver": "lbfgs"},
                r"^solver: expected one of \[.*'l-bfgs'.* 'prox-qn', .*\] or a solver object, got 'lbfgs'$",
            ),
            ({"solver": None}, r"^solver: expected one of .*, got None$"),
            ({"n_threads": 0}, r"^n_threads: expected None or an integer >= 1, got 0$"),
            ({"n_threads": 1.0}, r"^n_threads: expected None or an integer >= 1, got 1.0$"),
            ({"n_threads": True}, r"^n_threads: expected None or an integer >= 1, got True$"),
            ({"callback": 3}, r"^callback: expected None or a callable, got 3$"),
        ],
    )
    def test_parameters(self, settings, message):
        model = ChainCRF(**settings)
        with pytest.raises(InputError, match=message):
            model.fit(PROBLEM.sequences, PROBLEM.targets)
        assert not hasattr(model, "coef_")

    def test_random_state(self):
        with pytest.raises(ValueError, match="'a' cannot be used to seed"):
            fitted(random_state="a")

    @pytest.mark.parametrize("kind", [np.int64, np.int32])
    def test_integers_of_numpy_are_integers(self, model, kind):
        assert_same_model(model, fitted(max_iter=kind(500), n_threads=kind(2), l1=np.float32(0.5)))

    ONE, TWO = np.ones((1, 2)), np.ones((2, 2))

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            ([ONE, TWO], [["a"]], "^expected labels for 2 items, got 1 lists of labels$"),
            ([ONE, TWO], [["a"], ["b"]], "^item 1: expected 2 labels, one for each position, got 1$"),
            ([ONE, TWO], ["a", "b"], "^expected one label for each of the 3 positions .*, got 2 labels$"),
            ([ONE, TWO], None, "labels"),
            ([ONE, TWO], [["a"], ["b", 1j]], "^item 1, position 1: expected a string or number as label, got 1j"),
            ([ONE, TWO], [["a"], ["b", 3]], "^expected labels of one kind"),
            ([ONE, TWO], np.array([1, np.nan, 2]), "^item 1, position 0: expected a label, got nan$"),
            ([ONE, np.array([[0, 1], [np.nan, 1]])], [[1], [2, 3]], "item 1, position 1, feature 0 is nan"),
            ([ONE, np.array([[0, np.inf], [1, 1]])], [[1], [2, 3]], "item 1, position 0, feature 1 is inf"),
            ([[{"a": 1.0}, {"b": np.nan}]], [[1, 2]], "^item 0, position 1: feature 'b': expected a finite number"),
            ([[["a"], ["b", 3]]], [[1, 2]], "^item 0, position 1: expected a list of strings, but it contains 3"),
            ([ONE, np.empty((0, 2)), TWO], [["a"], [], ["b", "a"]], "in every item, but item 1 is empty$"),
            ([ONE, [], TWO], [["a"], [], ["b", "a"]], "in every item, but item 1 is empty$"),
            ([], [], "^expected at least one item, got none$"),
            ([ONE, np.ones((2, 3))], [["a"], ["b", "a"]], "^item 1: expected 2 features, got 3$"),
            ([ONE, [{"a": 1}]], [["a"], ["b"]], "^item 1: expected a matrix like the items before"),
            (np.ones((3, 2)), [1, 2, 3], r"^expected a list of items, got one matrix or array: .*Sequences"),
            (sp.eye_array(3).tocsr(), [1, 2, 3], r"^expected a list of items, got one matrix or array"),
            ("text", [1], "^expected crfqn.Sequences or a list of items"),
            (["text"], [["a"]], "^item 0: expected a list of positions, got 'text'"),
            ([np.ones((2, 0))], [["a", "b"]], r"^item 0: expected at least one feature"),
            ([np.array([[1e20, 1.0]])], [["a"]], r"up to 1e\+12 in size, but feature 0 reaches 1e\+20: scale it"),
            (Sequences(np.ones((2, 0)), [0, 2]), [["a", "b"]], "^expected a matrix with at least one feature"),
            ([1j * ONE], [["a"]], "^item 0: expected a 2-D matrix .* real numbers, got .* complex128$"),
        ],
    )  # fmt: skip
    def test_data(self, X, y, message):
        with pytest.raises(InputError, match=message):
            ChainCRF().fit(X, y)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.ones(29), r"^sample_weight: expected 30 numbers, one an item, got shape \(29,\)"),
            (np.ones((30, 1)), r"^sample_weight: expected 30 numbers, one an item, got shape \(30, 1\)"),
            (["a"] * 30, "^sample_weight: expected 30 numbers"),
            (np.r_[np.ones(4), -1, np.ones(25)], "^sample_weight: expected finite numbers >= 0, got -1.0 for item 4$"),
            (np.r_[np.ones(29), np.nan], "^sample_weight: expected finite numbers >= 0, got nan for item 29$"),
            (np.r_[np.inf, np.ones(29)], "^sample_weight: expected finite numbers >= 0, got inf for item 0$"),
            (np.zeros(30), "^sample_weight: expected at least one positive weight, got only zeros$"),
        ],
    )  # fmt: skip
    def test_item_weights(self, model, weights, message):
        with pytest.raises(InputError, match=message):
            ChainCRF().fit(PROBLEM.sequences, PROBLEM.targets, sample_weight=weights)
        with pytest.raises(InputError, match=message):
            model.score(PROBLEM.sequences, PROBLEM.targets, sample_weight=weights)

    @pytest.mark.parametrize(
        "verb", ["predict", "decode", "predict_marginals", "score", "log_likelihood", "save"]
    )
    def test_not_fitted(self, verb, tmp_path):
        arguments = {
            "save": (tmp_path / "m",),
            "score": (BINARY, PROBLEM.labels),
            "log_likelihood": (BINARY, []),
        }
        with pytest.raises(NotFittedError, match="This ChainCRF instance is not fitted yet"):
            getattr(ChainCRF(), verb)(*arguments.get(verb, (BINARY,)))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("verb", ["predict", "decode", "predict_marginals"])
    def test_wrong_features_at_predict(self, model, verb):
        use = getattr(model, verb)
        with pytest.raises(InputError, match=r"^item 0: expected 7 features, got 5$"):
            use([np.ones((2, 5))])
        with pytest.raises(InputError, match=r"^expected 7 features, as in training, got 5$"):
            use(Sequences(np.ones((2, 5)), [0, 2]))
        with pytest.raises(
            InputError, match=r"^expected matrices with 7 columns, as in training; .* by name"
        ):
            use(BINARY)
        with pytest.raises(InputError, match="item 0, position 1, feature 3 is nan"):
            use([np.where(np.arange(14).reshape(2, 7) == 10, np.nan, 1.0)])

    def test_unknown_label_in_likelihood(self, model):
        y = [*PROBLEM.labels[:-1], [5] * len(PROBLEM.labels[-1])]
        with pytest.raises(
            InputError, match=r"^item 29, position 0: label 5 is not among the 3 known classes$"
        ):
            model.log_likelihood(PROBLEM.sequences, y)

    def test_errors_are_values_errors_of_crfqn(self):
        assert issubclass(InputError, CrfqnError)
        assert issubclass(InputError, ValueError)

    def test_a_failed_fit_keeps_the_old_model(self):
        model = fitted()
        before = model.predict(PROBLEM.sequences)
        with pytest.raises(InputError):
            model.fit(PROBLEM.sequences, PROBLEM.targets[:-1])
        assert same_paths(before, model.predict(PROBLEM.sequences))


class TestEnds:
    def test_max_iter_warns_at_the_caller(self):
        with pytest.warns(
            ConvergenceWarning, match=r"limit of iterations .* tol 0.001, 2 iterations"
        ) as caught:
            model = fitted(max_iter=2)
        assert model.result_.status is Status.MAX_ITER
        assert model.n_iter_ == 2
        assert len(caught) == 1
        assert caught[0].filename == __file__

    def test_max_seconds_warns(self):
        with pytest.warns(ConvergenceWarning, match="time limit"):
            assert fitted(max_seconds=1e-9).result_.status is Status.MAX_SECONDS

    def test_callback_sees_every_row_and_can_stop(self):
        rows = []
        model = fitted(callback=rows.append)
        assert rows == model.result_.trace.rows
        with pytest.warns(ConvergenceWarning, match="a callback asked for it"):
            stopped = fitted(callback=lambda row: row.iteration == 2)
        assert (stopped.result_.status, stopped.n_iter_) == (Status.CALLBACK, 2)

    def test_interrupt_keeps_a_usable_model(self):
        def interrupt(row):
            if row.iteration == 4:
                raise KeyboardInterrupt

        model = ChainCRF(l1=0.5, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(PROBLEM.sequences, PROBLEM.targets)
        assert model.result_.status is Status.INTERRUPTED
        assert model.n_iter_ == 4
        assert model.coef_.nnz > 0
        assert model.score(PROBLEM.sequences, PROBLEM.targets) > 0.5

    def test_impossible_tolerance_ends(self):
        with (
            ends_within(60),
            pytest.warns(ConvergenceWarning, match="any further decrease|limit of iterations"),
        ):
            assert fitted(tol=0.0).result_.gap < 1e-5

    @pytest.mark.parametrize("verbose", [0, 1])
    def test_verbose_writes_to_stderr_only(self, verbose, capfd):
        model = fitted(verbose=verbose)
        out, err = capfd.readouterr()
        assert out == ""
        assert ("objective" in err) == (f"{model.result_.value:,.3f}" in err) == bool(verbose)
        model.predict(PROBLEM.sequences)
        assert capfd.readouterr() == ("", "")

    def test_verbose_and_callback_together(self, capfd):
        rows = []
        fitted(verbose=1, callback=rows.append)
        assert len(rows) > 3
        assert "objective" in capfd.readouterr().err


def test_docstring_example():
    failures, tests = doctest.testmod(chain_module)
    assert (failures, tests > 0) == (0, True)


def test_two_processes_train_the_same_model(model):
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_chain_crf import fitted\n"
        "model = fitted()\n"
        "print(model.coef_.data.tobytes().hex(), model.edge_coef_.data.tobytes().hex())"
    )
    tests = Path(__file__).parents[1]
    folders = [str(tests / "estimators"), str(tests / "references")]
    run = subprocess.run([sys.executable, "-c", script, *folders], capture_output=True, text=True, check=True)
    expected = [
        model.coef_.data.tobytes().hex(),
        model.edge_coef_.data.tobytes().hex(),
    ]
    assert run.stdout.split() == expected


def test_blas_threads_do_not_matter():
    """The same bits whatever BLAS would do, and BLAS as it was afterwards."""
    weights = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
            weights.append(ChainCRF(l1=0.5).fit(BINARY, PROBLEM.targets).coef_.toarray())
            after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert before == after
    np.testing.assert_array_equal(*weights)
