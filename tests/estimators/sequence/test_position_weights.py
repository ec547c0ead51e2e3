"""ChainCRF with weights of positions and of labels: what it minimises, what it accepts, and what it gains."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

import crfqn
from crfqn import ChainCRF
from crfqn.errors import InputError
from crfqn.regularization_path import Grid, crf_path

# Of a loss that is not convex, the last digits are not proved to be the best.
pytestmark = pytest.mark.filterwarnings(
    "ignore:stopped. rounding hides:sklearn.exceptions.ConvergenceWarning"
)


def draw(n_items, seed):
    """Sequences of labels A, B and a rare R, whose words mislead at times."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_items):
        labels = random.choice(["A", "B", "R"], random.integers(2, 9), p=[0.48, 0.47, 0.05]).tolist()
        words = [k.lower() if random.random() < 0.6 else random.choice(["a", "b", "ab"]) for k in labels]
        X.append([{"word": word, "number": str(random.integers(9))} for word in words])
        y.append(labels)
    return X, y


X, Y = draw(150, 0)
TIGHT = {"l1": 0.0, "l2": 1.0, "tol": 1e-9}


def of_labels(weights, y=Y):
    return [np.array([weights.get(label, 1.0) for label in labels]) for labels in y]


def same(first, second):
    np.testing.assert_allclose(first.coef_.toarray(), second.coef_.toarray(), atol=1e-5)
    np.testing.assert_allclose(first.transition_coef_.toarray(), second.transition_coef_.toarray(), atol=1e-5)


def weighted_loss(model, y, weights):
    """The loss of the class documentation, of the model's own probabilities, unpenalised."""
    total = 0.0
    joint = model.log_likelihood(X, y)
    for i, p in enumerate(model.predict_marginals(X)):
        codes, w = np.searchsorted(model.classes_, y[i]), np.asarray(weights[i])
        total -= w.min() * joint[i] + (w - w.min()) @ np.log(p[np.arange(len(codes)), codes])
    return total


def test_the_optimum_is_stationary_for_the_documented_loss():
    weights = of_labels({"R": 4.0, "B": 0.5})
    model = ChainCRF(l1=0.0, l2=1.0, tol=1e-6).fit(X, Y, sample_weight=weights)
    penalty = 0.5 * (np.square(model.coef_.data).sum() + np.square(model.transition_coef_.data).sum())
    assert model.result_.value == pytest.approx(weighted_loss(model, Y, weights) + penalty, rel=1e-9)
    assert np.isnan(model.result_.gap)
    assert model.result_.status.name == "STATIONARY"
    table = model.transition_coef_.toarray()

    def value(edges):
        model.transition_coef_ = csr_array(edges.reshape(table.shape))
        return weighted_loss(model, Y, weights) + 0.5 * np.square(edges).sum()

    np.testing.assert_allclose(approx_fprime(table.ravel(), value, 1e-6), 0, atol=0.1)


def test_class_weight_is_a_weight_of_each_position():
    factors = {"R": 4.0, "B": 0.5}
    same(ChainCRF(**TIGHT, class_weight=factors).fit(X, Y), ChainCRF(**TIGHT).fit(X, Y, of_labels(factors)))
    counts = {label: sum(labels.count(label) for labels in Y) for label in "ABR"}
    balanced = {label: sum(counts.values()) / (3 * count) for label, count in counts.items()}
    same(
        ChainCRF(**TIGHT, class_weight="balanced").fit(X, Y),
        ChainCRF(**TIGHT, class_weight=balanced).fit(X, Y),
    )


def test_weights_that_an_item_has_everywhere_are_those_of_the_item():
    weights = np.linspace(0.5, 2.0, len(X))
    by_position = [np.full(len(labels), weight) for labels, weight in zip(Y, weights, strict=True)]
    first, second = ChainCRF(l1=1.0).fit(X, Y, by_position), ChainCRF(l1=1.0).fit(X, Y, weights)
    same(first, second)
    assert first.result_.gap == pytest.approx(second.result_.gap)


def test_items_without_weight_are_left_out_and_weights_multiply():
    weights = of_labels({"R": 3.0})
    weights[:50] = [np.zeros(len(labels)) for labels in Y[:50]]
    same(
        ChainCRF(**TIGHT, class_weight={"A": 2.0}).fit(X, Y, weights),
        ChainCRF(**TIGHT).fit(X[50:], Y[50:], of_labels({"R": 3.0, "A": 2.0}, Y[50:])),
    )


def test_rare_labels_are_found():
    X_test, y_test = draw(300, 1)

    def recall(model):
        pairs = [
            pair
            for p, t in zip(model.predict(X_test), y_test, strict=True)
            for pair in zip(p, t, strict=True)
        ]
        return np.mean([p == "R" for p, t in pairs if t == "R"])

    assert recall(ChainCRF(class_weight={"R": 50}).fit(X, Y)) > recall(ChainCRF().fit(X, Y)) + 0.1


@pytest.mark.parametrize("solver", ["prox-qn", "owl-qn", "fista"])
def test_solvers_of_losses_that_are_not_convex(solver):
    model = ChainCRF(l1=1.0, class_weight={"R": 3}, solver=solver, tol=1e-6, max_iter=3000).fit(X, Y)
    reference = ChainCRF(l1=1.0, class_weight={"R": 3}, tol=1e-8).fit(X, Y)
    assert model.result_.value == pytest.approx(reference.result_.value, rel=1e-4)


@pytest.mark.parametrize("solver", ["sgd", "averaged-perceptron", "passive-aggressive", "feature-bcd"])
def test_solvers_that_know_weights_of_items_only_refuse(solver):
    with pytest.raises(InputError, match="cannot train this"):
        ChainCRF(solver=solver, class_weight={"R": 3}).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        (
            {},
            {"sample_weight": [np.ones(99)] * len(X)},
            r"item 0: expected a number or \d numbers, one a position",
        ),
        ({}, {"sample_weight": of_labels({})[:-1]}, "expected weights of 150 items, got 149"),
        ({}, {"sample_weight": of_labels({"R": -1.0})}, r"numbers >= 0, got -1.0 for item \d+, position \d+"),
        ({}, {"sample_weight": of_labels({"A": 0, "B": 0, "R": 0})}, "at least one positive weight"),
        ({"class_weight": {"Q": 2}}, {}, "no item has the label 'Q'"),
        ({"class_weight": {"A": 0, "B": 0, "R": 0}}, {}, "expected positions of positive weight"),
        ({"class_weight": "heavy"}, {}, "None, 'balanced' or a dict"),
        (
            {"class_weight": {"R": 2}, "loss": "hinge", "l1": 0, "l2": 1.0},
            {},
            "expected equal weights of the positions",
        ),
        (
            {"class_weight": {"R": 2}},
            {"y": [[None] * len(labels) for labels in Y[:9]] + Y[9:]},
            "known labels",
        ),
    ],
)
def test_mistakes_are_named(parameters, arguments, message):
    with pytest.raises(InputError, match=message):
        ChainCRF(**parameters).fit(X, **({"y": Y} | arguments))


def test_partial_fit_knows_weights_of_items_only():
    with pytest.raises(InputError, match="one an item"):
        ChainCRF().partial_fit(X, Y, sample_weight=of_labels({"R": 3.0}))
    with pytest.raises(InputError, match="class_weight"):
        ChainCRF(solver="averaged-perceptron", class_weight="balanced").partial_fit(X, Y, ["A", "B", "R"])


def test_files_paths_folds_and_scores_take_them(tmp_path):
    weights = of_labels({"R": 3.0})
    model = ChainCRF(l1=1.0, class_weight={"R": 2.0}).fit(X, Y)
    model.save(tmp_path / "model.crfqn")
    assert crfqn.load(tmp_path / "model.crfqn").class_weight == {"R": 2.0}
    path = crf_path(ChainCRF(l2=0.0), X, Y, sample_weight=weights, grid=Grid(l1=[10.0, 3.0]))
    assert len(path) == 2
    hits = [np.array(p) == np.array(t) for p, t in zip(model.predict(X), Y, strict=True)]
    expected = np.average(np.concatenate(hits), weights=np.concatenate(weights))
    assert model.score(X, Y, weights) == pytest.approx(expected)
