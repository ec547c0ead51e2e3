"""MulticlassSVC: kernels against each other and against the linear model, model files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from crfqn import MulticlassClassifier, MulticlassSVC, load
from crfqn.errors import InputError, ModelFileError
from crfqn.result import Status
from crfqn.solvers.dual.decomposition import DualDecomposition


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900], y[:900], X[900:], y[900:]


@pytest.fixture(scope="module")
def of_digits(digits):
    return MulticlassSVC(C=10.0).fit(*digits[:2])


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_a_small_memory_changes_nothing(digits, C):
    X, y = digits[0][:300], digits[1][:300]
    roomy = MulticlassSVC(C=C, tol=1e-4).fit(X, y)
    tight = MulticlassSVC(C=C, tol=1e-4, cache_size=0.07).fit(X, y)  # MB: a square of 93 of the 300 items
    assert roomy.result_.status is tight.result_.status is Status.CONVERGED
    np.testing.assert_allclose(tight.decision_function(X), roomy.decision_function(X), atol=1e-2)
    assert tight.result_.value == pytest.approx(roomy.result_.value, rel=1e-4)


def test_as_accurate_as_pairs_of_binary_machines(digits, of_digits):
    X, y, X_test, y_test = digits
    theirs = SVC(C=10.0).fit(X, y)
    assert of_digits.result_.status.is_success
    assert of_digits.score(X_test, y_test) >= theirs.score(X_test, y_test) - 0.01


def test_the_dual_is_feasible_and_sparse(digits, of_digits):
    X, y, *_ = digits
    model, C = of_digits, of_digits.C
    np.testing.assert_allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-9)
    own = np.searchsorted(model.classes_, y[model.support_])
    bound = np.zeros_like(model.dual_coef_)
    bound[own, np.arange(own.size)] = C
    assert (model.dual_coef_ <= bound + 1e-9).all()
    assert model.support_.size < len(X)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    np.testing.assert_array_equal(model.n_support_, np.bincount(own, minlength=10))
    values = rbf_kernel(X[:5], model.support_vectors_, 1 / (X.shape[1] * X.var()))
    np.testing.assert_allclose(model.decision_function(X[:5]), values @ model.dual_coef_.T)


def test_a_linear_kernel_is_the_linear_model(iris):
    X, y = iris
    X = X - X.mean(axis=0)
    svc = MulticlassSVC(kernel="linear", C=0.5, tol=1e-7, max_iter=20_000).fit(X, y)
    linear = MulticlassClassifier(
        loss="hinge", penalty="l2", l2=2.0, fit_intercept=False, tol=1e-7, max_iter=20_000
    )
    linear.fit(X, y)
    # 1/2 ||W||^2 + C loss of the paper is (l2/2 ||W||^2 + loss) / l2.
    assert svc.result_.value == pytest.approx(linear.result_.value / 2.0, rel=1e-5)
    np.testing.assert_allclose(svc.dual_coef_ @ svc.support_vectors_, linear.coef_.toarray(), atol=2e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [1e-2, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("is_separable", [True, False])
def test_the_gap_is_that_of_the_model_that_is_returned(kernel, C, is_separable):
    random = np.random.default_rng(1)
    n_items, n_features = 30, 40 if is_separable else 3
    X = random.standard_normal((n_items, n_features))
    y = (X @ random.standard_normal((n_features, 3))).argmax(axis=1)
    y[:6] = y[:6] if is_separable else np.arange(6) % 3
    data = X @ X.T if kernel == "precomputed" else X
    model = MulticlassSVC(C=C, kernel=kernel, coef0=1.0, max_iter=300).fit(data, y)
    gram = data if kernel == "precomputed" else model.model_.kernel(X, X)
    alpha = np.zeros((3, n_items))
    alpha[:, model.support_] = model.dual_coef_
    scores, own = alpha @ gram, (y, np.arange(n_items))
    square = float(np.vdot(alpha, scores))
    margins = np.ones_like(scores)
    margins[own] = 0.0

    def objective(factor):
        losses = (factor * scores + margins).max(axis=0) - factor * scores[own]
        return 0.5 * factor**2 * square + C * losses.sum()

    capacity = np.where(margins == 0.0, C, 0.0)
    assert (alpha <= capacity * (1 + 1e-9)).all()
    assert np.abs(alpha.sum(axis=0)).max() <= 1e-9 * C
    bound = -0.5 * square - (alpha.sum() - alpha[own].sum())  # of any feasible dual variables (weak duality)
    found, value = model.result_, objective(1.0)
    rounding = 1e-8 * value
    assert found.value == pytest.approx(value, rel=1e-8)
    assert value - bound <= found.gap * value + rounding
    better = min(objective(1.0 + sign * share) for sign in (-1, 1) for share in np.geomspace(1e-12, 1e-1, 60))
    assert value - better <= found.gap * value + rounding
    assert (found.status is Status.CONVERGED) == (found.gap <= model.tol)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
def test_kernels_by_name_by_function_and_by_value_agree(iris, kernel):
    X, y = iris
    X = (X - X.mean(axis=0)) / 4.0
    settings = {"gamma": 0.5, "degree": 2, "coef0": 1.0 if kernel == "poly" else 0.0, "C": 0.3}
    named = MulticlassSVC(kernel=kernel, tol=1e-6, max_iter=5000, **settings).fit(X, y)

    def function(a, b):
        product = np.asarray(a @ b.T)
        if kernel == "rbf":
            return np.exp(-0.5 * ((a[:, None, :] - b[None]) ** 2).sum(axis=2))
        return {"linear": product, "poly": (0.5 * product + 1.0) ** 2, "sigmoid": np.tanh(0.5 * product)}[
            kernel
        ]

    if kernel == "sigmoid":  # not positive definite: nothing is proved of it
        assert named.decision_function(X).shape == (150, 3)
        assert named.result_.status is Status.STATIONARY
        assert np.isnan(named.result_.gap)
        return
    given = MulticlassSVC(kernel=function, tol=1e-6, max_iter=5000, **settings).fit(X, y)
    whole = MulticlassSVC(kernel="precomputed", tol=1e-6, max_iter=5000, **settings).fit(function(X, X), y)
    np.testing.assert_allclose(given.decision_function(X), named.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(whole.decision_function(function(X, X)), named.decision_function(X), atol=1e-4)
    assert whole.support_vectors_.shape == (0, 150)


def test_sparse_data(iris):
    X, y = iris
    dense = MulticlassSVC(C=2.0).fit(X, y)
    sparse = MulticlassSVC(C=2.0).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(
        sparse.decision_function(scipy.sparse.csr_array(X)), dense.decision_function(X), atol=1e-6
    )
    assert scipy.sparse.issparse(sparse.support_vectors_)


def test_weights_of_classes_and_items(iris):
    X, y = iris
    by_class = MulticlassSVC(class_weight={"setosa": 0.5, "virginica": 2.0}).fit(X, y)
    factors = np.where(y == "setosa", 0.5, np.where(y == "virginica", 2.0, 1.0))
    gamma = by_class.model_.kernel.gamma
    by_item = MulticlassSVC(gamma=gamma).fit(X, y, factors)
    np.testing.assert_allclose(by_item.decision_function(X), by_class.decision_function(X))
    left_out = MulticlassSVC(gamma=1.0).fit(X, y, np.arange(150) % 2)
    np.testing.assert_array_equal(
        left_out.support_, 1 + 2 * MulticlassSVC(gamma=1.0).fit(X[1::2], y[1::2]).support_
    )


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed"])
def test_model_files(tmp_path, iris, kind):
    X, y = iris
    X = {"dense": X, "sparse": scipy.sparse.csr_array(X), "precomputed": X @ X.T}[kind]
    kernel = "precomputed" if kind == "precomputed" else "poly"
    model = MulticlassSVC(kernel=kernel, C=0.1, class_weight={"setosa": 2.0}, max_iter=3000).fit(X, y)
    model.save(tmp_path / "model.crfqn", {"note": 1})
    found = load(tmp_path / "model.crfqn")
    assert isinstance(found, MulticlassSVC)
    np.testing.assert_array_equal(found.decision_function(X), model.decision_function(X))
    assert found.predict(X).tolist() == model.predict(X).tolist()
    assert found.get_params() == model.get_params()
    assert found.extra_ == {"note": 1}
    np.testing.assert_array_equal(found.n_support_, model.n_support_)
    assert found.result_.gap == model.result_.gap
    content = bytearray((tmp_path / "model.crfqn").read_bytes())
    content[-20] ^= 1
    (tmp_path / "model.crfqn").write_bytes(content)
    with pytest.raises(ModelFileError):
        load(tmp_path / "model.crfqn")


def test_a_function_is_not_saved(tmp_path, iris):
    model = MulticlassSVC(kernel=lambda a, b: a @ b.T, C=0.01, max_iter=3000).fit(*iris)
    with pytest.raises(InputError, match="holds no code"):
        model.save(tmp_path / "model.crfqn")


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("C", 0.0), ("kernel", "cosine"), ("gamma", -1.0), ("gamma", "best"), ("degree", -1), ("coef0", np.nan),
     ("tol", -1.0), ("cache_size", 0), ("max_iter", 0), ("solver", "smo")],
)  # fmt: skip
def test_wrong_parameters_are_named(iris, parameter, value):
    with pytest.raises(InputError, match=f"^{parameter}: expected"):
        MulticlassSVC(**{parameter: value}).fit(*iris)


def test_wrong_data_and_kernels_are_named(iris):
    X, y = iris
    with pytest.raises(InputError, match="expects a square matrix"):
        MulticlassSVC(kernel="precomputed").fit(X, y)
    with pytest.raises(InputError, match=r"expected the function to return shape \(1, 1\)"):
        MulticlassSVC(kernel=lambda a, b: np.zeros(3)).fit(X, y)
    with pytest.raises(InputError, match="expected finite values >= 0"):
        MulticlassSVC(kernel="precomputed").fit(-np.eye(150), y)


def test_a_run_that_ends_early_warns_and_other_sub_solvers_work(digits):
    X, y, X_test, y_test = digits
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        model = MulticlassSVC(max_iter=1).fit(X, y)
    assert model.n_iter_ == 1
    other = MulticlassSVC(C=10.0, tol=0.05, solver=DualDecomposition("smo")).fit(X, y)
    assert other.score(X_test, y_test) > 0.9
