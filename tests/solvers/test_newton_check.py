"""The Newton check where an estimate would end a run: what it finds, and what it keeps from being claimed."""

import warnings

import numpy as np
import pytest
from margin_problems import make_problem, point_at, weights_like
from margin_references import optimum
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, load
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.result import Status
from crfqn.solvers import newton_on_support, screened_point, stopping
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.newton_on_support import newton_check
from crfqn.solvers.screened_point import screen_point

TOL = 1e-3


def off_centre(shift, seed=1000):
    """Items of three classes whose features lie far from the origin: the metric sees little but their mean."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(150, 6))
    y = (2 * x @ random.normal(size=(6, 3)) + random.gumbel(size=(150, 3))).argmax(axis=1)
    return x + shift, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("shift", "settings"),
    [
        (1e3, {}),
        (1e3, {"penalize_intercept": True}),
        (1e3, {"fit_intercept": False}),
        (1e4, {"fit_intercept": False}),
        (1e4, {"fit_intercept": False, "tol": 1e-6}),
    ],
    ids=str,
)
def test_steps_that_win_nothing_prove_nothing(shift, settings):
    """ESTIMATED after 5 steps at 164, or after 31 at 88.04: what is claimed is measured from the optimum itself."""
    X, y = off_centre(shift)
    optimum = 87.683 if settings else 47.95
    result = MulticlassCRF(**{"l1": 0.5, "tol": TOL, "max_iter": 100} | settings).fit(X, y).result_
    assert result.status is not Status.ESTIMATED or result.value <= (1 + 2 * TOL) * optimum
    assert not result.estimated_gap <= TOL or result.status.is_success


def test_l2_does_not_depend_on_the_axes():
    """Turned by the eigenvectors the features' mean is one of them, and the problem easy; the optimum is the same."""
    random = np.random.default_rng(3)
    items = [random.normal(size=(n, 6)) for n in random.integers(3, 8, size=30)]
    labels = random.normal(size=(6, 3)) * 2
    y = [(x @ labels + random.gumbel(size=(len(x), 3))).argmax(axis=1) for x in items]
    X = [x + 1e4 for x in items]
    _, _, axes = np.linalg.svd(np.concatenate(X), full_matrices=False)
    found, turned = (ChainCRF(l1=0, l2=0.5).fit(each, y).result_ for each in (X, [x @ axes.T for x in X]))
    assert turned.status.is_success
    assert found.status.is_success
    assert found.value == pytest.approx(turned.value, rel=2 * TOL)


def test_a_proof_is_found_where_an_estimate_would_have_led_to_it():
    X, y = load_breast_cancer(return_X_y=True)
    estimate, certificate = (
        MulticlassClassifier(group_l1=1.0, stop=stop).fit(X, y).result_
        for stop in ("estimate", "certificate")
    )
    assert estimate.status is Status.CONVERGED
    assert certificate.status is Status.CONVERGED


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_that_has_gone_nowhere_has_not_ended():
    """So far from the origin that no gradient tells where to go: all steps win less than the bound leaves open."""
    X, y = off_centre(1e6)
    settings = {
        "penalty": "elastic-net",
        "solver": "owl-qn",
        "fit_intercept": False,
    }  # so that nothing is centred
    model = MulticlassCRF(l1=0.01, l2=1.0, tol=1e-2, max_iter=40, **settings)
    result = model.fit(X, y).result_
    assert result.gap > 0.5
    assert not result.status.is_success


@pytest.mark.parametrize("name", ["multitask", "logistic", "ranking"])
@pytest.mark.parametrize("strengths", [(0.0, 0.5, 0.0), (0.0, 0.1, 0.5)], ids=["l2", "rows"])
def test_all_directions_lead_to_the_optimum(name, strengths):
    problem = make_problem(name)
    n_features, n_states = problem.x.shape[1], problem.n_states
    l1, l2, group = strengths
    penalty = (
        GroupLasso(group, l1, l2, n_features=n_features, n_states=n_states)
        if group
        else ElasticNet(l1=l1, l2=l2)
    )
    seen = screen_point(penalty, point_at(problem, weights_like(problem, scale=0.1)))
    best, _ = optimum(problem, strengths, "l2")
    there, won = newton_check(seen, 1e-6, n_features * n_states)
    assert there.value == pytest.approx(best, rel=1e-5)
    assert won == pytest.approx((seen.value - there.value) / there.value)
    again, won = newton_check(there, 1e-4, n_features * n_states)
    assert again is there
    assert won == 0.0


@pytest.mark.parametrize("strengths", [(0.3, 0.5, 0.0), (0.1, 0.1, 0.5)], ids=["elastic net", "rows"])
def test_newtons_steps_prove_one_bound_at_their_end(monkeypatch, strengths):
    """Bounds of the points between are not used, and take longer than a pass over few items."""
    problem, (l1, l2, group) = make_problem("logistic"), strengths
    shape = {"n_features": problem.x.shape[1], "n_states": problem.n_states}
    penalty = GroupLasso(group, l1, l2, **shape) if group else ElasticNet(l1=l1, l2=l2)
    start = point_at(problem, weights_like(problem, scale=0.1))
    bounds = []

    def counted(*arguments):
        bounds.append(best_bound(*arguments))
        return bounds[-1]

    monkeypatch.setattr(screened_point, "best_bound", counted)
    solved = newton_on_support.newton_on_support(start.objective, penalty, start)
    assert [bound.dual_value for bound in bounds] == [solved.dual_value]
    assert 0 <= solved.value - solved.dual_value <= 0.01 * solved.value
    assert solved.value < screen_point(penalty, start).value
    before = start.objective.n_passes
    assert screen_point(penalty, solved.point).dual_value == solved.dual_value
    assert start.objective.n_passes == before  # the point keeps its evaluation


def test_an_estimate_does_not_end_what_the_largest_sizes_of_rows_hide():
    """ESTIMATED at 42 times the tolerance, after 5 steps: the scales of the features are 1e-6 to 1e6 apart."""
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 5)) * 10.0 ** np.linspace(-5, 5, 5)
    y = (X / X.std(axis=0) @ random.normal(size=(5, 3)) + random.gumbel(size=(40, 3))).argmax(axis=1)
    fits = (
        MulticlassClassifier(penalty="l1/linf", group_l1=0.1, solver=solver, max_iter=200)
        for solver in ("spa-rsa", "prox-qn")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found, other = (fit.fit(X, y).result_ for fit in fits)
    for result in (found, other):
        assert not result.status.is_success or result.value <= (1 + 2 * TOL) * min(found.value, other.value)


def one_huge_item():
    """Items of three classes, one of them 1e5 times as large as the others."""
    random = np.random.default_rng(0)
    X = random.standard_normal((40, 5))
    y = (X @ random.standard_normal((5, 3)) + random.gumbel(size=(40, 3))).argmax(axis=1)
    X[0] *= 1e5
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_weights_without_penalty_are_claimed_where_the_items_are_alike(loss, size):
    """ESTIMATED at 73.37 after 5 steps, where 30.81 is to be had: one item has all of the curvature, and no bound says
    how large the weights without a penalty can be. Beside items of its own size it hides nothing."""
    random = np.random.default_rng([3, 3])
    X = random.standard_normal((40, 4))
    y = (X @ random.standard_normal((4, 3)) + random.gumbel(size=(40, 3))).argmax(axis=1)
    X[0] *= size
    model = MulticlassClassifier(
        loss=loss, penalty="l1", l1=3.0, penalty_factors=[0, 0, 1, 1], tol=TOL, max_iter=100
    )
    result = model.fit(X, y).result_
    if size > 1:
        optimum = {"squared-hinge": 30.814352, "logistic": 24.828688}[loss]
        assert not result.status.is_success or result.value <= (1 + 2 * TOL) * optimum
        assert not result.estimated_gap <= TOL or result.status.is_success
    else:
        closer = model.set_params(tol=1e-8).fit(X, y).result_
        assert result.status is Status.ESTIMATED
        assert result.value <= (1 + 2 * TOL) * closer.value


def rows(group_l1, **settings):
    return MulticlassClassifier(penalty="l1/linf", group_l1=group_l1, max_iter=100, **settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_start_from_another_model_is_no_reason_to_believe_an_estimate():
    """ESTIMATED at 62.45 from the model of another strength, where 44.71 is to be had."""
    X, y = one_huge_item()
    result = rows(3.0, tol=1e-3).fit(X, y, start=rows(24.0).fit(X, y)).result_
    assert not result.status.is_success or result.value <= (1 + 2e-3) * 44.71
    assert not result.estimated_gap <= 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_strengths_walked_down_claim_no_more_than_there_is():
    X, y = one_huge_item()
    model = rows(24.0, tol=1e-3, warm_start=True)
    for strength in (24.0, 12.0, 6.0, 3.0):
        result = model.set_params(group_l1=strength).fit(X, y).result_
    assert not result.status.is_success or result.value <= (1 + 2e-3) * 44.71


def test_where_nothing_is_claimed_the_warning_says_what_helps(tmp_path):
    X, y = one_huge_item()
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        model = rows(3.0, tol=1e-3).fit(X, y)
    model.save(tmp_path / "m")
    for each in (model, load(tmp_path / "m")):
        assert "scale the features" in each.result_.message
    X[0] /= 1e5
    model = rows(3.0, tol=1e-3).fit(X, y)
    assert model.result_.status.is_success
    assert "scale the features" not in model.result_.message


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_small_gradient_of_more_features_than_items_is_no_end():
    """After one step the gradient is a hundredth of the first one, and the objective .51 where the optimum is .29."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(29, 2000)), random.integers(0, 3, 29)
    found, close = (MulticlassCRF(l1=0, l2=1, tol=tol).fit(X, y).result_ for tol in (0.03, 1e-6))
    assert close.gap <= 1e-6
    assert found.value <= 1.03 * close.value


@pytest.mark.parametrize(
    ("gap", "is_checked"), [(np.nan, True), (np.inf, True), (2 * TOL, True), (0.5 * TOL, False)]
)
def test_only_a_proved_gap_replaces_the_check(monkeypatch, gap, is_checked):
    """Without a proved bound the gap is nan, which is not within the tolerance."""
    X, y = off_centre(0.0)
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return newton_check(*arguments)

    monkeypatch.setattr(stopping, "newton_check", counted)
    monkeypatch.setattr(stopping, "relative_gap", lambda value, bound: gap)
    model = MulticlassCRF(l1=1e-3, l2=0.0, tol=TOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert bool(calls) == is_checked
