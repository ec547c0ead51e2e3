"""`ChainCRF.fit`: inputs, threads, weights of items, warm starts."""

from __future__ import annotations

import itertools
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from chain_estimators import BINARY, PROBLEM, assert_same_model, dicts, fitted, same_paths
from problems import make_problem
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import crfqn
from crfqn import ChainCRF, Sequences
from crfqn.errors import InputError
from crfqn.estimators import problem as steps
from crfqn.objectives.objective import build_objective
from crfqn.result import Status
from crfqn.solvers.prox_qn import Diagonal, ProxQN, TopViolators

NAMES = [f"f{j}" for j in range(PROBLEM.n_features)]


class TestFit:
    @pytest.mark.parametrize("l2", [0.0, 0.3])
    @pytest.mark.parametrize("is_binary", [True, False])
    def test_attributes_and_optimum(self, is_binary, l2):
        problem = make_problem(12, is_binary=is_binary)
        model = fitted(problem, l1=0.6, l2=l2, tol=1e-5)
        n_states, n_features = problem.n_states, problem.n_features
        assert isinstance(model.coef_, sp.csr_array)
        assert isinstance(model.transition_coef_, sp.csr_array)
        assert model.coef_.shape == (n_states, n_features)
        assert model.transition_coef_.shape == (n_states, n_states)
        assert (model.coef_.data != 0).all()
        assert model.classes_.tolist() == list(range(n_states))
        assert model.n_features_in_ == n_features
        assert not hasattr(model, "feature_names_in_")
        assert model.n_iter_ == model.result_.n_iter > 0
        assert model.result_.status is Status.CONVERGED
        assert 0 <= model.result_.gap <= 1e-5
        w = np.concatenate([model.coef_.toarray().ravel(), model.transition_coef_.toarray().ravel()])
        assert model.result_.value == pytest.approx(problem.value(w, 0.6, l2), rel=1e-12)
        optimum, _ = problem.optimum(0.6, l2)
        assert optimum * (1 - 1e-8) <= model.result_.value <= optimum * (1 + 1e-5)

    def test_edges_are_from_row_to_column(self):
        # a is always followed by b, and b by c; nothing else tells the labels apart.
        y = [list("abcabcabc")] * 5
        X = [np.ones((9, 1))] * 5
        edges = ChainCRF(l1=0.1).fit(X, y).transition_coef_.toarray()
        assert (edges[[0, 1, 2], [1, 2, 0]] > 0).all()
        assert edges.max() == edges[[0, 1, 2], [1, 2, 0]].max()

    @pytest.mark.parametrize("kind", [
        "sequences of csr", "sequences of coo", "arrays", "tuple of arrays", "csr", "csc", "object array",
    ])  # fmt: skip
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
        assert other.feature_names_in_.tolist() == NAMES
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
        assert left.feature_names_in_.tolist() == ["is", "n", "word=a", "word=b"]
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

    @pytest.mark.parametrize(("classes", "kind"), [
        (["B", "I", "O"], "U"), ([-5, 0, 7], "i"), ([0.5, 1.5, 2.5], "f"), ([False, True], "b"),
    ])  # fmt: skip
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
        "solver", ["prox-qn-paper", ProxQN(metric=Diagonal()), ProxQN(entry=TopViolators(4))], ids=str
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
        assert model.coef_.nnz == model.transition_coef_.nnz == 0
        assert all(set(path) == {"only"} for path in model.predict(PROBLEM.sequences))
        assert all((m == 1.0).all() for m in model.predict_marginals(PROBLEM.sequences))
        assert model.score(PROBLEM.sequences, ["only"] * PROBLEM.targets.size) == 1.0

    def test_no_feature_ever_fires(self):
        X = [np.zeros((3, 2))] * 4
        model = ChainCRF(l1=0.1).fit(X, [list("aab")] * 4)
        assert model.coef_.nnz == 0
        assert model.transition_coef_.nnz > 0

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
        # Large enough for every part to have items, for samples to start from and for several blocks, and too large for
        # Newton's method on the support, which would take most of the time.
        problem = make_problem(15, n_items=4000, n_features=16, n_states=4, longest=5)
        models = [fitted(problem, l1=3.0, n_threads=n, max_iter=15) for n in (1, 2, 3)]
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
        for name in ("coef_", "transition_coef_"):
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
        np.testing.assert_array_equal(left.transition_coef_.toarray(), kept.transition_coef_.toarray())

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
    def test_it_needs_fewer_steps_to_the_same_value(self):
        cold = fitted(tol=1e-5, stop="certificate")
        warm = fitted(l1=0.55, tol=1e-5, warm_start=True, stop="certificate")
        warm.set_params(l1=0.5).fit(PROBLEM.sequences, PROBLEM.targets)
        assert warm.n_iter_ < cold.n_iter_
        assert warm.result_.value == pytest.approx(cold.result_.value, rel=1e-5)
        again = warm.fit(PROBLEM.sequences, PROBLEM.targets)
        assert (again.n_iter_, again.result_.passes) == (0, 1)

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
            nodes, edges = of.coef_.tocoo(), of.transition_coef_.tocoo()
            labels, names = of.classes_.tolist(), of.feature_names_in_.tolist()
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

    def test_blocks_begin_where_one_piece_does(self, monkeypatch):
        X = [[[f"w{j}" for j in np.flatnonzero(row)] for row in item] for item in PROBLEM.items]
        old = ChainCRF(l1=0.5).fit(X[:-2], PROBLEM.labels[:-2])
        more, y = [*X, [["new", "w0"], ["w1"]]], [*PROBLEM.labels, [7, 0]]
        whole = ChainCRF(l1=0.5, tol=1e-5).fit(more, y, start=old)
        monkeypatch.setattr(
            steps, "build_objective", partial(build_objective, max_part_scores=0, block_scores=50)
        )
        blocks = ChainCRF(l1=0.5, tol=1e-5)
        assert blocks.prepare(more, y, start=old).objective.whole is None
        blocks.fit(more, y, start=old)
        assert blocks.result_.trace.value[0] == pytest.approx(whole.result_.trace.value[0], rel=1e-12)
        assert blocks.result_.value == pytest.approx(whole.result_.value, rel=1e-5)

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
