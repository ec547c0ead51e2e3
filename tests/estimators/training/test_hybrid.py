"""A dense block beside a sparse one: the optimum and its certificate against enumeration, files, taggers, refusals."""

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from crfqn import (
    ChainCRF,
    Features,
    MulticlassClassifier,
    MulticlassCRF,
    MultilabelRanker,
    Sequences,
    Tagger,
    TaxonomyCRF,
    crf_path,
    load,
)
from crfqn.errors import InputError
from crfqn.interchange import write
from crfqn.regularization_path import Grid

D, S, K = 2, 3, 2  # dense and sparse features, labels
TIGHT = {"tol": 1e-9, "stop": "certificate"}


def chains(n=14, seed=0):
    """Sequences of one to three positions: dense rows that tell something of the label, dicts, labels."""
    random = np.random.default_rng(seed)
    dense, sparse, labels = [], [], []
    for _ in range(n):
        states = random.integers(0, K, random.integers(1, 4))
        dense.append(random.normal(size=(states.size, D)) + states[:, None])
        names = [f"f{random.integers(0, S - 1)}" for _ in states]
        sparse.append([{name: 1.0, "all": 1.0 + k} for name, k in zip(names, states, strict=True)])
        labels.append([f"y{k}" for k in states])
    return Features(dense, sparse), labels


def rows(n=30, seed=0):
    """Single items: dense rows, a sparse matrix, labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, K, n)
    dense = random.normal(size=(n, D)) + labels[:, None]
    sparse = sp.csr_matrix(random.poisson(0.7, (n, S)) * (1.0 + labels[:, None]))
    return Features(dense, sparse), np.array([f"y{k}" for k in labels])


def stacked(X):
    """The same items with all features in one matrix."""
    if not X.has_positions:
        return sp.hstack([sp.csr_matrix(X.dense), X.sparse]).tocsr()
    columns = sorted({name for item in X.sparse for position in item for name in position})
    table = [[position.get(name, 0.0) for name in columns] for item in X.sparse for position in item]
    return Sequences(np.hstack([X.dense, table]), X.offsets)


def objective(parameters, X, y, l1, l2, dense_l2):
    """The negative log-likelihood by enumeration of all labellings, and the penalty, of weights as they come.

    Chains have K x (D + S) weights and K x K of edges, single items K x (D + S) and K free intercepts.
    """
    matrix = stacked(X)
    dense = matrix.matrix if X.has_positions else matrix.toarray()
    n = K * (D + S)
    W, rest = parameters[:n].reshape(K, D + S), parameters[n:]
    E = rest.reshape(K, K) if X.has_positions else None
    scores = dense @ W.T if X.has_positions else dense @ W.T + rest
    total = 0.0
    for i, labels in enumerate(y):
        own = scores[X.offsets[i] : X.offsets[i + 1]]
        states = [int(label[1:]) for label in (labels if X.has_positions else [labels])]
        values = {}
        for path in product(range(K), repeat=len(own)):
            edges = sum(E[a, b] for a, b in pairwise(path)) if len(own) > 1 else 0.0
            values[path] = own[np.arange(len(own)), path].sum() + edges
        total += logsumexp(list(values.values())) - values[tuple(states)]
    sparse = np.concatenate([W[:, D:].ravel(), rest if X.has_positions else []])
    size = np.abs(sparse).sum()
    return total + l1 * size + 0.5 * l2 * (sparse @ sparse) + 0.5 * dense_l2 * (W[:, :D] ** 2).sum()


def weights_of(model):
    """The weights as `objective` takes them."""
    table = np.hstack([model.dense_coef_, model.coef_.toarray()])
    rest = model.transition_coef_.toarray() if hasattr(model, "transition_coef_") else model.intercept_
    return np.concatenate([table.ravel(), rest.ravel()])


def differences(value, at, step=1e-5):
    """The gradient by central differences."""
    return np.array([(value(at + move) - value(at - move)) / (2 * step) for move in step * np.eye(at.size)])


@pytest.mark.parametrize("l2", [0.0, 0.3], ids=["l1", "elastic net"])
@pytest.mark.parametrize("make", [ChainCRF, MulticlassCRF])
def test_the_optimum_and_the_gap_are_those_of_enumeration(make, l2):
    X, y = (chains if make is ChainCRF else rows)()
    strengths = {"l1": 1.2, "l2": l2, "dense_l2": 0.5}
    model = make(**strengths, **TIGHT).fit(X, y)
    at, least = weights_of(model), model.result_.value
    assert least == pytest.approx(objective(at, X, y, **strengths), rel=1e-9)
    assert model.result_.gap < 1e-8
    # No kink: the slope is 0. Else it is the strength at weights, and no more than it at zeros.
    slopes = differences(lambda w: objective(w, X, y, **(strengths | {"l1": 0.0})), at)
    is_smooth = np.zeros(at.size, bool)
    is_smooth[: K * (D + S)].reshape(K, D + S)[:, :D] = True
    is_smooth[K * (D + S) :] = make is MulticlassCRF
    inside = ~is_smooth & (at != 0)
    np.testing.assert_allclose(slopes[is_smooth], 0.0, atol=1e-4)
    np.testing.assert_allclose(slopes[inside], -1.2 * np.sign(at[inside]), atol=1e-4)
    assert np.abs(slopes[~is_smooth & (at == 0)]).max() <= 1.2
    assert np.count_nonzero(at[~is_smooth]) < (~is_smooth).sum()
    for n_steps in range(1, 6):
        with pytest.warns(ConvergenceWarning, match="iterations"):
            early = make(**strengths, tol=1e-12, max_iter=n_steps, solver="spa-rsa").fit(X, y).result_
        assert early.gap > 0
        assert early.value * (1.0 - early.gap) <= least * (1.0 + 1e-9)
        assert early.value >= least * (1.0 - 1e-8)


@pytest.mark.parametrize(("norm", "strength"), [("l2", 2.5), ("linf", 5.0)])
def test_rows_of_weights_stay_zero_as_a_whole(norm, strength):
    X, y = chains()
    settings = {"group_l1": strength, "group_norm": norm, "dense_l2": 0.5, "tol": 1e-7, "stop": "certificate"}
    model = ChainCRF(0, 0, **settings).fit(X, y)
    table = model.coef_.toarray()
    assert {*np.count_nonzero(table, axis=0)} == {0, K}
    assert model.result_.gap < 1e-7
    norms = np.linalg.norm(table, axis=0) if norm == "l2" else np.abs(table).max(axis=0)
    smooth = objective(weights_of(model), X, y, 0.0, 0.0, 0.5)
    edges = strength * np.abs(model.transition_coef_.toarray()).sum()
    assert model.result_.value == pytest.approx(smooth + strength * norms.sum() + edges, rel=1e-9)
    other = ChainCRF(0, 0, **settings, solver="spa-rsa").fit(X, y)
    assert other.result_.value == pytest.approx(model.result_.value, rel=1e-6)


@pytest.mark.parametrize("solver", ["auto", "prox-qn", "prox-qn-paper", "owl-qn", "l-bfgs"])
def test_with_the_same_l2_it_is_the_model_of_the_stacked_matrix(solver):
    for make, (X, y) in ((ChainCRF, chains()), (MulticlassCRF, rows()), (TaxonomyCRF, rows())):
        settings = {"l1": 0.0, "l2": 0.7, "solver": solver} | TIGHT
        if make is MulticlassCRF:
            settings["penalty"] = "elastic-net"
        model = make(**settings, dense_l2=0.7).fit(X, y)
        other = make(**settings).fit(stacked(X), y)
        assert model.result_.value == pytest.approx(other.result_.value, rel=1e-7)
        found, expected = (
            np.vstack(m.predict_marginals(items)) for m, items in ((model, X), (other, stacked(X)))
        )
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_zeros_are_proved():
    X, y = rows(60)
    model = MulticlassCRF(l1=8.0, l2=0.0, dense_l2=0.5, **TIGHT).fit(X, y)
    assert model.result_.n_proved_zeros == K * S - model.coef_.nnz > 0


def test_shifted_vectors_have_the_same_model():
    X, y = rows()
    settings = {"l1": 1.0, "dense_l2": 0.5} | TIGHT
    moved = Features(X.dense + 50.0, X.sparse)
    ours, theirs = (MulticlassCRF(**settings).fit(items, y) for items in (X, moved))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(moved), atol=1e-5)


class TestFiles:
    @pytest.mark.parametrize("make", [ChainCRF, MulticlassCRF, TaxonomyCRF])
    def test_all_that_predicts_is_the_same(self, make, tmp_path):
        X, y = (chains if make is ChainCRF else rows)()
        model = make(l1=0.5).fit(X, y)
        model.save(tmp_path / "m")
        found, tagger = load(tmp_path / "m"), Tagger()
        tagger.open(tmp_path / "m")
        expected = model.predict_marginals(X)
        np.testing.assert_array_equal(found.dense_coef_, model.dense_coef_)
        assert (found.dense_l2, found.n_dense_) == (1.0, D)
        for i, pair in enumerate(X):
            np.testing.assert_allclose(tagger.marginals(pair), expected[i], atol=1e-12)
            assert np.all(tagger.tag(pair) == model.predict(X[i : i + 1])[0])
        assert tagger.tag_items(X) == [np.asarray(labels).tolist() for labels in model.predict(X)]
        np.testing.assert_array_equal(np.vstack(found.predict_marginals(X)), np.vstack(expected))
        assert found.result_.n_nonzero == model.result_.n_nonzero

    def test_float32_and_json(self, tmp_path):
        X, y = rows()
        model = MulticlassCRF().fit(X, y)
        model.save(tmp_path / "m", dtype="float32")
        write(model, tmp_path / "m.json")
        near = load(tmp_path / "m").predict_proba(X)
        np.testing.assert_allclose(near, model.predict_proba(X), atol=1e-5)

    def test_other_tools_have_no_place_for_it(self, tmp_path):
        for make, (X, y), name in ((ChainCRF, chains(), "crfsuite"), (MulticlassCRF, rows(), "onnx")):
            with pytest.raises(InputError, match=f"{name}: expected a model without a dense block"):
                write(make().fit(X, y), tmp_path / f"m.{name}")


class TestItems:
    def test_scikit_learn_takes_parts(self):
        X, y = rows(40)
        assert cross_val_score(MulticlassCRF(l1=1.0), X, y, cv=3).shape == (3,)
        X, y = chains()
        assert cross_val_score(ChainCRF(l1=1.0), X, y, cv=3).mean() > 0.5

    @pytest.mark.parametrize("make", [chains, rows])
    def test_parts(self, make):
        X, _ = make()
        some = X[[3, 1]]
        assert (len(some), len(X[np.arange(len(X)) < 4]), len(X[2:])) == (2, 4, len(X) - 2)
        for found, expected in ((some[0], X[3]), (some[1], X[1]), (X[-1], X[len(X) - 1])):
            np.testing.assert_array_equal(found[0], expected[0])
        with pytest.raises(IndexError):
            X[len(X)]

    def test_threads_change_no_bit(self):
        X, y = rows(300)
        one, other = (MulticlassCRF(l1=0.5, n_threads=n).fit(X, y) for n in (1, 3))
        np.testing.assert_array_equal(one.dense_coef_, other.dense_coef_)
        np.testing.assert_array_equal(one.coef_.data, other.coef_.data)

    def test_items_without_positions(self):
        X, y = chains()
        model = ChainCRF().fit(X, y)
        found = model.predict(
            Features([[], *X[:2].dense[:, None]], [[], *([p] for x in X[:2].sparse for p in x)])
        )
        assert [len(labels) for labels in found] == [0] + [1] * len(X[:2].dense)

    def test_a_path_has_the_block_in_all_models(self):
        X, y = rows(60)
        path = crf_path(MulticlassCRF(l2=0.0, dense_l2=0.5), X, y, grid=Grid(l1=[4.0, 1.0]))
        assert [model.dense_coef_.shape for model in path.models] == [(K, D)] * 2
        last = MulticlassCRF(l1=1.0, l2=0.0, dense_l2=0.5, **TIGHT).fit(X, y)
        np.testing.assert_allclose(path.models[-1].dense_coef_, last.dense_coef_, atol=0.02)

    def test_trainings_begin_where_another_ended(self):
        for make, (X, y) in ((ChainCRF, chains()), (MulticlassCRF, rows())):
            settings = {"l1": 0.5, "l2": 0.0} | TIGHT
            model = make(**settings).fit(X, y)
            problem = make(**settings).prepare(X, y, start=model)
            begin = problem.objective.at(*problem.start)
            value = begin.value + problem.penalty.value(begin.coords, begin.weights)
            assert value == pytest.approx(model.result_.value, rel=1e-9)

    def test_validation_items(self):
        for make, (X, y) in ((ChainCRF, chains(30)), (MulticlassCRF, rows(60))):
            model = make(l1=0.5).fit(X[:20], y[:20], validation=(X[20:], y[20:]))
            assert model.score(X[20:], y[20:]) == pytest.approx(model.result_.held_out.best)

    def test_weights_of_items(self):
        for make, (X, y) in ((ChainCRF, chains()), (MulticlassCRF, rows())):
            weights = np.arange(len(y)) % 3
            repeated = np.repeat(np.arange(len(y)), weights)
            settings = {"l1": 0.5, "l2": 0.0} | TIGHT
            model = make(**settings).fit(X, y, weights)
            other = make(**settings).fit(X[repeated], [y[i] for i in repeated])
            np.testing.assert_allclose(model.dense_coef_, other.dense_coef_, atol=1e-5)

    def test_a_later_training_without_a_block_forgets_it(self):
        X, y = rows()
        model = MulticlassCRF().fit(X, y).fit(X.sparse, y)
        assert not hasattr(model, "dense_coef_")
        np.testing.assert_array_equal(
            model.predict_proba(X.sparse), MulticlassCRF().fit(X.sparse, y).predict_proba(X.sparse)
        )


class TestMistakes:
    @pytest.mark.parametrize(("dense", "sparse", "message"), [
        (np.ones((3, 2)), sp.eye(4).tocsr(), "as many dense rows as sparse ones, got 3 dense and 4 sparse"),
        ([np.ones((1, 2))], [[{}], [{}]], "got 1 dense and 2 sparse"),
        ([np.ones((1, 2)), np.ones((3, 2))], [[{}], [{}, {}]], "item 1: .* each of 2 positions, got 3"),
        ([np.ones((1, 2)), np.ones((1, 3))], [[{}], [{}]], "item 1: dense: expected 2 columns, got 3"),
        ([np.ones((1, 2)), [[1, np.nan]]], [[{}], [{}]],
         r"item 1, position 0: dense column 1: .* 1e\+12 in size, got nan"),
        ([[0, 1], [np.inf, 0]], sp.eye(2).tocsr(), r"item 1: dense column 0: .* 1e\+12 in size, got inf"),
        ([["a", "b"]], sp.eye(1).tocsr(), "2-D array of numbers"),
        ([[1.0, 2.0], [1.0]], sp.eye(2).tocsr(), "rows of several"),
    ])  # fmt: skip
    def test_blocks_that_do_not_fit(self, dense, sparse, message):
        with pytest.raises(InputError, match=message):
            Features(dense, sparse)

    @pytest.mark.parametrize("is_light", [False, True])
    @pytest.mark.parametrize("make", [ChainCRF, MulticlassCRF])
    def test_other_items_than_in_training(self, make, is_light, tmp_path):
        X, y = (chains if make is ChainCRF else rows)()
        model, plain = make().fit(X, y), make().fit(X.sparse, y)
        if is_light:
            for one, name in ((model, "m"), (plain, "p")):
                one.save(tmp_path / name)
            model, plain = Tagger(), Tagger()
            model.open(tmp_path / "m"), plain.open(tmp_path / "p")
        predict, predict_plain = ((m.tag_items if is_light else m.predict) for m in (model, plain))
        wider = X.dense[:, :1]
        if X.has_positions:
            wider = np.split(wider, X.offsets[1:-1])
        with pytest.raises(InputError, match="dense: expected 2 columns, as in training, got 1"):
            predict(Features(wider, X.sparse))
        with pytest.raises(InputError, match=r"expected crfqn\.Features, pairs .* or dicts with vectors"):
            predict(X.sparse)
        with pytest.raises(InputError, match="without a dense block"):
            predict_plain(X)

    @pytest.mark.parametrize(("make", "settings", "message"), [
        (MulticlassCRF, {"solver": "sgd"}, "SGDL1 needs .* the same strengths"),
        (MulticlassCRF, {"penalty": "l1/l2", "solver": "bcd"}, "RowDescent needs .* the same strengths"),
        (MulticlassClassifier, {"penalty": "l2", "solver": "dual"}, "DualDecomposition needs .* the same strengths"),
        (MulticlassCRF, {"penalty": "l1/l2", "feature_groups": 2}, "feature_groups: .* without a dense block"),
        (MulticlassClassifier, {"penalty": "l2", "loss": "hinge"}, "needs .* the same strengths"),
        (ChainCRF, {"all_possible_states": False}, "all_possible_states=False: .* without a dense block"),
        (ChainCRF, {"loss": "hinge", "l1": 0, "l2": 1}, "BlockFrankWolfe needs .* the same strengths"),
        (ChainCRF, {"dense_l2": 0}, "dense_l2: expected a finite number > 0"),
        (MultilabelRanker, {}, "without a dense block"),
    ])  # fmt: skip
    def test_what_has_no_place_for_a_block(self, make, settings, message):
        X, y = (chains if make is ChainCRF else rows)()
        with pytest.raises(InputError, match=message):
            make(**settings).fit(X, y)

    @pytest.mark.parametrize("solver", ["auto", "averaged-perceptron"])
    @pytest.mark.parametrize("make", [ChainCRF, MulticlassCRF])
    def test_batches(self, make, solver):
        X, y = (chains if make is ChainCRF else rows)()
        with pytest.raises(InputError, match=r"partial_fit: .* without a dense block"):
            make(solver=solver).partial_fit(X, y, classes=["y0", "y1"])
