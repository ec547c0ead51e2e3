"""`penalty_factors=`: against L-BFGS-B on split weights, plain penalties on scaled features, and every refusal.

The reference minimises over u, v >= 0 with w = u - v, and knows nothing of the library.
"""

import pickle
import re
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

import crfqn
from crfqn import (
    ChainCRF,
    Features,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MultilabelRanker,
    TaxonomyCRF,
    Templates,
    crf_path,
)
from crfqn.choices import BY_FEATURE
from crfqn.errors import InputError
from crfqn.estimators.automatic import LINEAR_SOLVERS, STRUCTURED_SOLVERS
from crfqn.regularization_path import Grid, LocalGrid
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron

X, Y = load_iris(return_X_y=True)
X = X - X.mean(axis=0)
FACTORS = np.array([0.4, 2.0, 1.0, 3.0])
EXACT = {"tol": 1e-7, "stop": "certificate"}
ITEMS = [
    [{"a": 1, "b": 1}, {"b": 1, "c": 2}, {"a": 1}],
    [{"c": 1}, {"a": 1, "c": 1}],
    [{"b": 1}, {"a": 0.5}],
] * 2
LABELS = [["P", "Q", "P"], ["Q", "Q"], ["P", "P"], ["P", "P", "Q"], ["Q", "P"], ["Q", "Q"]]
NAMES = ["a", "b", "c"]


def split_minimum(loss, l1, l2):
    """Return the minimum of loss(w) + sum l1_j |w_j| + l2_j / 2 w_j^2, and the weights; `loss` returns a gradient."""
    n = l1.size

    def value(z):
        w = z[:n] - z[n:]
        total, g = loss(w)
        g = g + l2 * w
        return total + l1 @ (z[:n] + z[n:]) + 0.5 * l2 @ (w * w), np.concatenate([l1 + g, l1 - g])

    options = {"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9}
    result = scipy.optimize.minimize(
        value, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * n), options=options
    )
    return result.fun, result.x[:n] - result.x[n:]


def softmax_loss(X, classes, states):
    """Return the loss of -log P(y), P(k) ~ exp(sum of w_s . x over the states s of class k); states : (K, S)."""
    n_states = states.shape[1]

    def loss(w):
        scores = X @ w.reshape(n_states, -1).T @ states.T
        top = scores.max(axis=1, keepdims=True)
        sums = np.exp(scores - top).sum(axis=1, keepdims=True)
        residual = np.exp(scores - top) / sums
        rows = np.arange(len(classes))
        total = float((np.log(sums) + top)[:, 0].sum() - scores[rows, classes].sum())
        residual[rows, classes] -= 1.0
        return total, ((residual @ states).T @ X).reshape(-1)

    return loss


def chain_loss(matrices, targets, n_states):
    """Return the loss of chains by enumeration of all labellings: weights of nodes, (K, F), then of edges, (K, K)."""
    n_features = matrices[0].shape[1]
    n_nodes = n_states * n_features
    labellings = [
        [
            np.concatenate([
                np.add.reduce([np.outer(np.eye(n_states)[k], x) for k, x in zip(path, rows, strict=True)]).reshape(-1),
                np.add.reduce([np.zeros((n_states, n_states)), *(
                    np.outer(np.eye(n_states)[j], np.eye(n_states)[k]) for j, k in pairwise(path)
                )]).reshape(-1),
            ])
            for path in product(range(n_states), repeat=len(rows))
        ]
        for rows in matrices
    ]  # fmt: skip
    tables = [np.array(rows) for rows in labellings]
    own = [int(np.ravel_multi_index(path, (n_states,) * len(path))) for path in targets]
    assert all(table.shape[1] == n_nodes + n_states**2 for table in tables)

    def loss(w):
        total, gradient = 0.0, np.zeros(w.size)
        for table, place in zip(tables, own, strict=True):
            scores = table @ w
            shares = np.exp(scores - scores.max())
            total += float(np.log(shares.sum()) + scores.max() - scores[place])
            gradient += table.T @ (shares / shares.sum()) - table[place]
        return total, gradient

    return loss


def chain_matrices():
    return [np.array([[position.get(name, 0.0) for name in NAMES] for position in item]) for item in ITEMS]


@pytest.mark.parametrize("first", [0.0, 0.4], ids=["unpenalised", "penalised"])
@pytest.mark.parametrize(("l1", "l2"), [(2.0, 0.0), (0.0, 1.0), (2.0, 0.5)])
def test_flat_data_match_the_split_problem(l1, l2, first):
    factors = np.array([first, *FACTORS[1:]])
    settings = {"penalty": "elastic-net", "l1": l1, "l2": l2, "fit_intercept": False}
    model = MulticlassCRF(penalty_factors=factors, tol=1e-7, **settings).fit(X, Y)
    value, w = split_minimum(
        softmax_loss(X, Y, np.eye(3)), l1 * np.tile(factors, 3), l2 * np.tile(factors, 3)
    )
    assert model.result_.value == pytest.approx(value, rel=1e-8)
    scores = X @ w.reshape(3, 4).T  # of unpenalised features only differences between classes are determined
    expected = scores - scores.mean(axis=1, keepdims=True) if first == 0 else scores
    scores = X @ model.coef_.toarray().T
    scores = scores - scores.mean(axis=1, keepdims=True) if first == 0 else scores
    np.testing.assert_allclose(scores, expected, atol=2e-3 * np.abs(expected).max())
    if first:
        proved = clone(model).set_params(**EXACT).fit(X, Y).result_
        assert proved.status.name == "CONVERGED"
        assert proved.gap <= 1e-7


@pytest.mark.parametrize("penalty", ["l1", "l1/l2", "l1/linf"])
def test_factors_are_a_plain_penalty_of_scaled_features(penalty):
    strength = {"l1": 2.0, "l2": 0.0} if penalty == "l1" else {"group_l1": 3.0}
    settings = {"penalty": penalty, **strength, **EXACT}
    model = MulticlassCRF(penalty_factors=FACTORS, **settings).fit(X, Y)
    scaled = MulticlassCRF(**settings).fit(X / FACTORS, Y)
    assert model.result_.gap <= 1e-7
    assert model.result_.value == pytest.approx(scaled.result_.value, rel=1e-7)
    np.testing.assert_allclose(model.coef_.toarray(), scaled.coef_.toarray() / FACTORS, atol=1e-3)


@pytest.mark.parametrize("penalty", ["l1", "elastic-net", "l2", "l1/l2", "l1/linf", "sparse-group"])
def test_one_factor_for_all_features_is_another_strength(penalty):
    settings = {"penalty": penalty, "penalize_intercept": False, **EXACT}
    model = MulticlassCRF(penalty_factors=[2.5] * 4, **settings).fit(X, Y)
    strengths = {name: 2.5 * getattr(model, f"{name}_") for name in ("l1", "l2", "group_l1")}
    plain = MulticlassCRF(**settings, **strengths).fit(X, Y)
    assert model.result_.gap <= 1e-7
    assert model.result_.value == pytest.approx(plain.result_.value, rel=1e-9)
    np.testing.assert_allclose(model.coef_.toarray(), plain.coef_.toarray(), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared-hinge", "multitask-squared-hinge", "hinge"])
def test_other_losses_have_factors(loss):
    settings = {
        "loss": loss,
        "penalty": "l1",
        "l1": 2.0,
        "tol": 1e-4,
        "max_iter": 20_000,
        "fit_intercept": False,
    }
    model = MulticlassClassifier(penalty_factors=FACTORS, **settings).fit(X, Y)
    scaled = MulticlassClassifier(**settings).fit(X / FACTORS, Y)
    assert model.result_.value == pytest.approx(scaled.result_.value, rel=2e-3)
    for name in ("value", "status"):
        assert getattr(model.result_, name) is not None
    weights = np.abs(model.coef_.toarray())
    assert model.result_.value >= 2.0 * float((weights * FACTORS).sum())


@pytest.mark.parametrize("factors", [{"a": 0.0, "b": 0.5}, {"*": 2.0}, [3.0, 1.0, 0.2]], ids=str)
@pytest.mark.parametrize(("l1", "l2"), [(0.3, 0.0), (0.2, 0.4), (0.0, 0.3)])
def test_chains_match_enumeration(factors, l1, l2):
    model = ChainCRF(l1=l1, l2=l2, penalty_factors=factors, tol=1e-8).fit(ITEMS, LABELS)
    by_column = (
        factors if isinstance(factors, list) else [factors.get(name, factors.get("*", 1.0)) for name in NAMES]
    )
    of_weights = np.concatenate([np.tile(by_column, 2), np.ones(4)])
    targets = [["PQ".index(label) for label in labels] for labels in LABELS]
    value, w = split_minimum(chain_loss(chain_matrices(), targets, 2), l1 * of_weights, l2 * of_weights)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.result_.value == pytest.approx(value, rel=1e-7)
    if l2 and isinstance(factors, list):
        found = np.concatenate(
            [model.coef_.toarray().reshape(-1), model.transition_coef_.toarray().reshape(-1)]
        )
        np.testing.assert_allclose(found, w, atol=1e-3)


def test_a_chains_gap_is_proved_also_with_an_unpenalised_constant():
    items = [[{**position, "one": 1.0} for position in item] for item in ITEMS]
    for factors in ({"one": 0.0, "b": 0.3}, {"a": 4.0}):
        result = ChainCRF(l1=0.3, penalty_factors=factors, **EXACT).fit(items, LABELS).result_
        assert result.status.name == "CONVERGED"
        assert result.gap <= 1e-7


def test_bigram_features_have_the_factors_of_their_names():
    templates = Templates("U:%x[0,0]\nB:%x[0,0]\nB")
    tokens = [[{"w": next(iter(position))} for position in item] for item in ITEMS]
    settings = {"l1": 0.2, "l2": 0.1, "tol": 1e-8}
    sequences = templates.fit_transform(tokens)
    names = ChainCRF(**settings).fit(sequences, LABELS).feature_names_in_.tolist()
    factors = {name: 0.5 + place for place, name in enumerate(names)}
    model = ChainCRF(penalty_factors=factors, **settings).fit(sequences, LABELS)
    by_name = np.array([factors[name] for name in names])
    size = np.abs(model.bigram_coef_.toarray())
    penalty = 0.2 * (np.abs(model.coef_.toarray()) @ by_name).sum() + 0.2 * (size @ by_name).sum()
    penalty += 0.05 * (model.coef_.toarray() ** 2 @ by_name).sum() + 0.05 * (size**2 @ by_name).sum()
    edges = model.transition_coef_.toarray()
    penalty += 0.2 * np.abs(edges).sum() + 0.05 * (edges**2).sum()
    log_likelihood = np.sum(model.log_likelihood(sequences, LABELS))
    assert model.result_.value == pytest.approx(penalty - log_likelihood, rel=1e-9)
    strict = {name: 1e6 for name in names if name.startswith("B")}
    assert ChainCRF(penalty_factors=strict, **settings).fit(sequences, LABELS).bigram_coef_.nnz == 0


def test_taxonomies_match_the_split_problem():
    labels = np.array(["x/a", "x/b", "y"])[Y]
    model = TaxonomyCRF(l1=1.0, l2=0.5, penalty_factors=FACTORS, **EXACT).fit(X, labels)
    nodes = list(model.tree_.names)
    states = np.array(
        [[label == node or label.startswith(f"{node}/") for node in nodes] for label in model.classes_]
    )
    factors = np.tile(FACTORS, len(nodes))
    value, w = split_minimum(softmax_loss(X, Y, states.astype(float)), factors, 0.5 * factors)
    assert model.result_.gap <= 1e-7
    assert model.result_.value == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(model.coef_.toarray().reshape(-1), w, atol=1e-3)


def test_a_feature_of_factor_zero_is_not_penalised():
    with pytest.warns(crfqn.errors.EmptyModelWarning, match="the largest useful l1 is 27.33"):
        strong = MulticlassCRF(l1=1e6, l2=0.0, penalty_factors=[0, 1, 1, 1]).fit(X, Y)
    columns = np.column_stack([X[:, 0], np.ones(len(X))])
    value, w = split_minimum(softmax_loss(columns, Y, np.eye(3)), np.zeros(6), np.zeros(6))
    assert strong.kept_features_.tolist() == [0]
    assert strong.result_.status.name == "ESTIMATED"
    assert strong.result_.value == pytest.approx(value, rel=1e-9)
    scores = columns @ w.reshape(3, 2).T
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(strong.predict_proba(X), shares / shares.sum(axis=1, keepdims=True), atol=1e-5)


def test_rankings_and_least_squares_have_factors():
    sets = np.column_stack([Y == 0, Y > 0, X[:, 0] > 0]).astype(int)
    ranker = MultilabelRanker(penalty="l1", l1=3.0, penalty_factors=FACTORS, tol=1e-5).fit(X, sets)
    scaled = MultilabelRanker(penalty="l1", l1=3.0, tol=1e-5).fit(X / FACTORS, sets)
    assert ranker.result_.value == pytest.approx(scaled.result_.value, rel=1e-4)
    for solver in ("gls", "l-bfgs"):
        settings = {"l2": 2.0, "tol": 1e-6, "solver": solver, "link": "softmax"}
        model = GeneralizedLeastSquares(penalty_factors=FACTORS, **settings).fit(X, Y)
        scaled = GeneralizedLeastSquares(**settings).fit(X / np.sqrt(FACTORS), Y)
        assert model.result_.value == pytest.approx(scaled.result_.value, rel=1e-5)


@pytest.mark.parametrize("kind", [ChainCRF, MulticlassCRF])
def test_every_solver_has_factors_or_says_which_do(kind):
    table = STRUCTURED_SOLVERS if kind is ChainCRF else LINEAR_SOLVERS
    data = (ITEMS, LABELS) if kind is ChainCRF else (X, Y)
    values, refusals = {}, []
    for l1 in (0.4, 0.0):
        for solver in table:
            factors = [3.0, 1.0, 0.5] if kind is ChainCRF else FACTORS
            penalty = {} if kind is ChainCRF else {"penalty": "elastic-net"}
            model = kind(
                l1=l1, l2=0.6, penalty_factors=factors, solver=solver, tol=1e-4, max_iter=3000, **penalty
            )
            if solver not in BY_FEATURE["penalty_factors"].solvers:
                with pytest.raises(
                    InputError, match=f"^penalty_factors: '{solver}' takes no factors, .*'prox-qn'.* do;"
                ):
                    model.fit(*data)
                continue
            try:
                values[solver, l1] = model.fit(*data).result_.value
            except InputError as error:
                refusals.append(str(error))
    others = "without L1|epigraph|hinge|cannot train this"  # of the loss or of L1, not of factors
    assert all(re.search(others, message) for message in refusals), refusals
    for (solver, l1), value in values.items():
        assert value == pytest.approx(values["prox-qn", l1], rel=2e-4), solver
    assert {
        ("auto", 0.0),
        ("l-bfgs", 0.0),
        ("owl-qn", 0.4),
        ("fista", 0.4),
        ("feature-bcd", 0.4),
    } <= values.keys()


@pytest.mark.parametrize(
    ("solver", "name"), [(RowDescent(), "RowDescent"), (AveragedPerceptron(), "AveragedPerc")]
)
def test_solver_objects_refuse_factors(solver, name):
    with pytest.raises(InputError, match=rf"{name}.*ProxQN|{name}.*'prox-qn'"):
        MulticlassClassifier(penalty_factors=FACTORS, solver=solver).fit(X, Y)


@pytest.mark.parametrize(("model", "message"), [
    (ChainCRF(loss="hinge", l1=0, l2=1), "'auto' takes no factors, no solver of this loss does"),
    (MulticlassClassifier(loss="hinge", penalty="l2", solver="dual"), "'dual' takes no factors, 'auto', 'fbpd' do"),
    (MulticlassClassifier(feature_groups=2), "feature_groups: with penalty_factors expected None"),
])  # fmt: skip
def test_losses_and_groups_without_factors(model, message):
    data = (ITEMS, LABELS) if isinstance(model, ChainCRF) else (X, Y)
    with pytest.raises(InputError, match=message):
        model.set_params(penalty_factors=[1.0] * (3 if isinstance(model, ChainCRF) else 4)).fit(*data)


@pytest.mark.parametrize(("factors", "message"), [
    ([1.0, 2.0], r"expected 3 factors, one for each feature, got an array of shape \(2,\)"),
    ([1.0, -2.0, 1.0], "expected finite numbers >= 0, got -2.0 for 'b'"),
    ([1.0, 1.0, np.nan], "expected finite numbers >= 0, got nan for 'c'"),
    (["x", 1.0, 1.0], "expected finite numbers >= 0, or a dict"),
    ({"b": -1}, "expected finite numbers >= 0 by name, got -1 for 'b'"),
    ({"b": np.inf}, "expected finite numbers >= 0 by name, got inf for 'b'"),
    ({"b": "1"}, "expected finite numbers >= 0 by name, got '1' for 'b'"),
    ({"d": 1}, "expected names of features, such as 'a', 'b', 'c', .* got 'd', which no feature has"),
    ({"d*": 1}, r"expected patterns of features' names, got 'd\*', which none has"),
    ("a", "expected None or a dict name -> factor or an array of a factor for each feature, got 'a'"),
    (2.0, "expected None or a dict name -> factor or an array of a factor for each feature, got 2.0"),
])  # fmt: skip
def test_wrong_factors_are_refused(factors, message):
    with pytest.raises(InputError, match=f"^penalty_factors: {message}"):
        ChainCRF(penalty_factors=factors).fit(ITEMS, LABELS)


def test_names_need_features_with_names():
    with pytest.raises(
        InputError, match="expected an array of a factor for each column, as the features have no names"
    ):
        MulticlassCRF(penalty_factors={"a": 1.0}).fit(X, Y)
    with pytest.raises(InputError, match="expected a factor above 0, got 0 for all features"):
        MulticlassCRF(penalty_factors=np.zeros(4)).fit(X, Y)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    named = MulticlassCRF(penalty_factors={"s*": 0.5, "sw": 2.0, "p*": 3.0}, **EXACT).fit(frame, Y)
    listed = MulticlassCRF(penalty_factors=[0.5, 2.0, 3.0, 3.0], **EXACT).fit(X, Y)
    np.testing.assert_allclose(named.coef_.toarray(), listed.coef_.toarray(), rtol=1e-9)


def test_an_automatic_strength_is_that_without_factors():
    plain, model = MulticlassCRF().fit(X, Y), MulticlassCRF(penalty_factors=[0, 2, 1, 3]).fit(X, Y)
    assert (model.l1_, model.l2_) == (plain.l1_, plain.l2_)
    assert model.result_.status.is_success
    chain = ChainCRF(penalty_factors={"a": 0.0}).fit(ITEMS, LABELS)
    assert chain.l1_ == ChainCRF().fit(ITEMS, LABELS).l1_


def test_sklearns_copies_and_searches():
    model = MulticlassCRF(penalty_factors=FACTORS, l1=1.0)
    assert model.get_params()["penalty_factors"] is FACTORS
    np.testing.assert_array_equal(clone(model).penalty_factors, FACTORS)
    search = GridSearchCV(model, {"penalty_factors": [None, FACTORS, [1, 1, 1, 1e4]]}, cv=3).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    copy = pickle.loads(pickle.dumps(model.fit(X, Y)))
    np.testing.assert_array_equal(copy.penalty_factors, FACTORS)


@pytest.mark.parametrize("factors", [FACTORS, None, [1, 2, 3, 4]], ids=["array", "none", "list"])
def test_a_model_file_has_the_factors(tmp_path, factors):
    model = MulticlassCRF(penalty_factors=factors, l1=1.0).fit(X, Y)
    model.save(tmp_path / "m.crfqn")
    loaded = crfqn.load(tmp_path / "m.crfqn")
    assert loaded.penalty_factors == (None if factors is None else [float(factor) for factor in factors])
    again = loaded.set_params(warm_start=False).fit(X, Y)
    assert again.result_.value == pytest.approx(model.result_.value, rel=1e-12)
    chain = ChainCRF(penalty_factors={"a": np.float64(2.0), "b*": 1}, l1=0.1).fit(ITEMS, LABELS)
    chain.save(tmp_path / "c.crfqn")
    assert crfqn.load(tmp_path / "c.crfqn").penalty_factors == {"a": 2.0, "b*": 1.0}


def test_starts_batches_and_checkpoints(tmp_path):
    settings = {"l1": 0.3, "l2": 0.1, "penalty_factors": {"a": 3.0}, "tol": 1e-6}
    model = ChainCRF(**settings).fit(ITEMS, LABELS)
    started = ChainCRF(**settings).fit(ITEMS, LABELS, start=ChainCRF(l1=0.3).fit(ITEMS, LABELS))
    assert started.result_.value == pytest.approx(model.result_.value, rel=1e-5)
    batches = ChainCRF(**settings)
    for part in (slice(0, 3), slice(3, 6)):
        batches.partial_fit(ITEMS[part], LABELS[part])
    assert batches.result_.value == pytest.approx(model.result_.value, rel=1e-5)
    with pytest.raises(InputError, match="'arow' takes no factors"):
        ChainCRF(**settings, solver="arow").partial_fit(ITEMS, LABELS, classes=["P", "Q"])
    with pytest.raises(InputError, match="with the hinge loss, partial_fit expects None"):
        MulticlassClassifier(loss="hinge", penalty="l2", penalty_factors=FACTORS).partial_fit(
            X, Y, classes=[0, 1, 2]
        )
    kept = ChainCRF(**settings, checkpoint=tmp_path / "run", max_iter=2)
    with pytest.warns(UserWarning, match="iterations"):
        kept.fit(ITEMS, LABELS)
    with pytest.raises(InputError, match=r"the checkpoint of another training: .*factors"):
        clone(kept).set_params(penalty_factors={"a": 2.0}).fit(ITEMS, LABELS)
    kept.set_params(max_iter=500).fit(ITEMS, LABELS)
    assert kept.result_.value == pytest.approx(model.result_.value, rel=1e-5)


def test_other_forms_of_data():
    sequences = crfqn.Sequences(
        scipy.sparse.csr_array(np.concatenate(chain_matrices())),
        [0, 3, 5, 7, 10, 12, 14],
        feature_names=NAMES,
    )
    settings = {"l1": 0.2, "penalty_factors": {"a": 0.0, "c": 2.0}, "tol": 1e-7}
    whole = ChainCRF(**settings).fit(sequences, LABELS)
    assert whole.result_.value == pytest.approx(
        ChainCRF(**settings).fit(ITEMS, LABELS).result_.value, rel=1e-9
    )
    observed = ChainCRF(**settings, all_possible_states=False).fit(sequences, LABELS)
    seen = np.array([[1, 1, 1], [1, 1, 1]])
    assert (observed.coef_.toarray()[seen == 0] == 0).all()
    dense = np.linspace(-1.0, 1.0, sequences.n_positions * 2).reshape(-1, 2)
    model = ChainCRF(**settings, l2=0.1, dense_l2=0.7).fit(Features(dense, sequences), LABELS)
    by_name, size = np.array([0.0, 1.0, 2.0]), np.abs(model.coef_.toarray())
    edges = model.transition_coef_.toarray()
    penalty = (
        0.2 * (size @ by_name).sum()
        + 0.05 * (size**2 @ by_name).sum()
        + 0.35 * np.square(model.dense_coef_).sum()
    )
    penalty += 0.2 * np.abs(edges).sum() + 0.05 * np.square(edges).sum()
    log_likelihood = np.sum(model.log_likelihood(Features(dense, sequences), LABELS))
    assert model.result_.value == pytest.approx(penalty - log_likelihood, rel=1e-9)


@pytest.mark.parametrize(
    "factors", [FACTORS, np.array([0.0, 2.0, 1.0, 3.0])], ids=["penalised", "unpenalised"]
)
def test_paths_begin_where_factors_let_the_first_weight_in(factors):
    path = crf_path(MulticlassCRF(penalty_factors=factors), X, Y, grid=Grid(4, ratio=0.2))
    penalised = factors > 0
    first = path.models[0]
    assert not first.coef_[:, np.flatnonzero(penalised)].nnz
    residual = first.predict_proba(X) - np.eye(3)[Y]
    largest = np.abs(residual.T @ X)[:, penalised] / factors[penalised]
    assert path.l1_max == pytest.approx(largest.max(), rel=1e-4)
    assert path.n_nonzero[-1] > path.n_nonzero[0]
    for model in path.models[1:]:
        direct = MulticlassCRF(penalty_factors=factors, l1=model.l1_, l2=0.0).fit(X, Y)
        assert model.result_.value == pytest.approx(direct.result_.value, rel=2e-2)


def test_paths_of_groups_and_around_a_default():
    path = crf_path(MulticlassClassifier(penalty_factors=FACTORS), X, Y, grid=Grid(3, ratio=0.3))
    assert path.path_parameter == "group_l1"
    scaled = crf_path(MulticlassClassifier(), X / FACTORS, Y, grid=Grid(3, ratio=0.3))
    assert path.l1_max == pytest.approx(scaled.l1_max, rel=1e-4)
    np.testing.assert_array_equal(path.n_nonzero, scaled.n_nonzero)
    around = crf_path(
        ChainCRF(penalty_factors={"a": 0.5}), ITEMS, LABELS, grid=LocalGrid(3), validation=(ITEMS, LABELS)
    )
    assert [model.penalty_factors for model in around.models] == [{"a": 0.5}] * 3
    assert around.models[0].l1_ == ChainCRF().fit(ITEMS, LABELS).l1_


def test_empty_models_name_the_largest_strength():
    largest = crf_path(MulticlassCRF(penalty_factors=FACTORS), X, Y, grid=Grid(1)).l1_max
    with pytest.warns(crfqn.errors.EmptyModelWarning, match=f"the largest useful l1 is {largest:.4g}"):
        MulticlassCRF(penalty_factors=FACTORS, l1=1000.0).fit(X, Y)
