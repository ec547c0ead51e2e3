"""The classes of the page on extensions under every solver: the right optimum, or a refusal that says what is needed.

The reference knows no solver of the library: L-BFGS-B on w = u - v, u, v >= 0, of the objective's values and gradients.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from crfqn import MulticlassClassifier, choices, registry
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.estimators.automatic import SOLVERS, named_solver
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassHinge, MulticlassSquaredHinge
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import build_objective
from crfqn.papers.agarwal2014.gls import GLS
from crfqn.papers.blondel2013.fobos import FOBOS
from crfqn.papers.chierchia2015.norms import FeatureBlocks
from crfqn.papers.chierchia2015.regularised import FBPD
from crfqn.papers.zhong2014.feature_bcd import FeatureBCD
from crfqn.penalties import ElasticNet, Ridge
from crfqn.penalties.factors import FeatureFactors
from crfqn.solvers.automatic.auto_solver import for_items
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.solvers.strong_rule import StrongRule
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised
from crfqn.structures.chain import Chain
from crfqn.threads import Pool

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
N, F, K, TOL = 30, 6, 3, 1e-3
RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((N, F))
Y = (X @ RANDOM.standard_normal((F, K)) + RANDOM.standard_normal((N, K))).argmax(axis=1).astype(np.int32)
SINGLE, THREES = np.arange(N + 1), np.arange(0, N + 1, 3)  # items of one position, and of three
FACTORS = np.linspace(1.0, 8.0, F * K + K * K)
OF_FEATURES = FeatureFactors(np.linspace(0.3, 4.0, F), np.ones(1), K, 0.3)


@cache
def page():
    """The page's classes and functions, without what it trains with them."""
    code = "\n".join(re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S))
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    body = [node for node in ast.parse(code).body if isinstance(node, kinds)]
    names: dict = {"__name__": __name__}
    exec(compile(ast.Module(body, []), str(PAGE), "exec"), names)
    return SimpleNamespace(**names)


class AdaptiveRidge(ElasticNet):
    """A strength for each w_j^2."""

    def l2_of(self, coords):
        return self.l2 * FACTORS[coords]


LOSSES = {
    "page's loss": lambda: (page().SquaredLoss(Y, K), SINGLE),
    "page's structure": lambda: (Likelihood(page().Independent(THREES, K), Y), THREES),
    "likelihood": lambda: (Likelihood(Chain(THREES, K), Y), THREES),
    "squared hinge": lambda: (MulticlassSquaredHinge(Y, K), SINGLE),
    "hinge": lambda: (MulticlassHinge(Y, K), SINGLE),
}
PENALTIES = {
    "page's penalty": lambda: page().AdaptiveLasso(l1=0.8, l2=0.1, factors=FACTORS),
    "adaptive ridge": lambda: AdaptiveRidge(l2=0.5),
    "elastic net": lambda: ElasticNet(0.8, 0.1),
    "factors": lambda: ElasticNet(0.8, 0.1, feature_factors=OF_FEATURES),
    "ridge": lambda: ElasticNet(0.0, 0.5),
}
MAKERS = {name: partial(named_solver, name, SOLVERS, None) for name in SOLVERS} | {
    "row descent": RowDescent,
    "row descent, constant steps": lambda: RowDescent(step="constant"),
    "fobos": lambda: FOBOS(eta0=0.1),
    "dual decomposition": DualDecomposition,
    "frank-wolfe": BlockFrankWolfe,
    "gls": GLS,
    "fbpd": FBPD,
    "strong rule": lambda: StrongRule(ProxQN(), 1.2, 0.4, TOL),
    "automatic, flat": for_items,
    "page's solver": lambda: page().FixedStep(2.0 * np.linalg.norm(X, 2) ** 2),
}
GRADIENTS = {"owl-qn", "prox-gd", "fista", "spa-rsa", "prox-qn-paper", "page's solver"}
CURVATURE = GRADIENTS | {"auto", "prox-qn", "strong rule", "automatic, flat"}
ONLINE = {"averaged-perceptron", "passive-aggressive", "arow"}
CASES = [  # and the solvers that take them; all others refuse
    ("page's loss", "elastic net", CURVATURE),
    ("page's loss", "page's penalty", CURVATURE),
    ("page's loss", "adaptive ridge", CURVATURE | {"l-bfgs", "gls"}),
    ("page's structure", "elastic net", CURVATURE),
    ("page's structure", "ridge", CURVATURE | {"l-bfgs", "gls"}),
    ("squared hinge", "factors", CURVATURE),
    ("likelihood", "factors", CURVATURE | ONLINE | {"feature-bcd"}),
    ("likelihood", "page's penalty", CURVATURE | ONLINE | {"feature-bcd"}),
    ("squared hinge", "page's penalty", CURVATURE),
    ("squared hinge", "adaptive ridge", CURVATURE | {"l-bfgs", "gls"}),
    ("hinge", "ridge", GRADIENTS | {"fbpd", "dual decomposition"}),
]


def objective_of(name):
    loss, offsets = LOSSES[name]()
    return build_objective(
        SparseMap(FeatureStore.from_matrix(scipy.sparse.csr_array(X), offsets), Pool(1)), loss
    )


@cache
def reference(loss, kind):
    """The strengths of all weights, and the objective that L-BFGS-B attains: of the hinge, an upper bound."""
    objective, penalty = objective_of(loss), PENALTIES[kind]()
    coords = objective.support.coords()
    l1, l2 = penalty.l1_of(coords), penalty.l2_of(coords)

    def value(z):
        w = z[: coords.size] - z[coords.size :]
        point = objective.at(coords, w)
        g = point.gradient(coords) + l2 * w
        total = point.value + 0.5 * l2 @ (w * w) + l1 @ (z[: coords.size] + z[coords.size :])
        return total, np.concatenate([l1 + g, l1 - g])

    bounds = [(0.0, None)] * (2 * coords.size)
    options = {"maxiter": 500, "maxfun": 1500, "ftol": 1e-12, "gtol": 1e-7}
    start = np.zeros(2 * coords.size)
    found = scipy.optimize.minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return l1, l2, float(found.fun)


@pytest.mark.parametrize(
    ("loss", "kind", "expected"), CASES, ids=lambda case: case if isinstance(case, str) else ""
)
def test_every_solver_is_right_or_refuses_by_name(loss, kind, expected):
    l1, l2, attained = reference(loss, kind)
    refusals = {}
    for name, make in MAKERS.items():
        solver = make()
        try:
            found = minimize(objective_of(loss), PENALTIES[kind](), solver, Run(tol=TOL, max_iter=100))
        except InputError as error:
            refusals[name] = f"{type(solver).__name__}: {error}"
            continue
        point = objective_of(loss).at(found.coords, found.weights)
        size = np.abs(found.weights)
        value = point.value + l1[found.coords] @ size + 0.5 * l2[found.coords] @ size**2
        assert found.value == pytest.approx(value, rel=1e-9), name  # of the penalty that was asked for
        if not np.isnan(found.gap):
            assert value - found.gap * value <= attained * (1.0 + 1e-8), name
        if found.status.is_success:
            assert value <= attained * (1.0 + 1.01 * TOL), name
        elif (
            loss != "hinge" and name not in ONLINE
        ):  # methods for smooth losses may fail at kinks, and say so
            assert value <= 1.05 * attained, (name, found.status)
    assert set(MAKERS) - set(refusals) == expected
    for name, message in refusals.items():
        assert re.match(r"(\w+): \1 (cannot train this: .*needs? |needs a penalty )", message), (
            name,
            message,
        )


def rows():
    """The page's rows of the tables, by the table's name."""
    code = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    found: dict = {}
    for block in code:
        if re.search(r"^row = {", block, re.M):
            names: dict = {}
            exec(block, names)
            found |= names["row"]
    return found


@pytest.fixture
def tables(monkeypatch):
    """The page's classes under their names, and their rows in the tables."""
    for name in ("SquaredLoss", "AdaptiveLasso", "SteeperLasso"):
        monkeypatch.setitem(registry._IMPORTS, name, vars(page()).get)
    found = rows()
    for name, row in found.items():
        table, parameter = (
            (choices.LOSSES, "loss") if isinstance(row, choices.LossSpec) else (choices.PENALTIES, "penalty")
        )
        monkeypatch.setitem(table, name, row)
        if parameter == "loss":
            monkeypatch.setitem(choices.FLAT, name, row.flat)
        known = MulticlassClassifier.PARAMETERS[parameter]
        monkeypatch.setattr(
            MulticlassClassifier,
            "PARAMETERS",
            {**MulticlassClassifier.PARAMETERS, parameter: replace(known, choices=(*known.choices, name))},
        )
    return found


@pytest.mark.parametrize(
    ("loss", "penalty"), [("squared", "adaptive-l1"), ("logistic", "adaptive-l1"), ("squared", "l2")]
)
def test_a_row_is_a_name_for_every_solver(tables, loss, penalty):
    assert {*tables} == {"squared", "adaptive-l1", "steeper-l1"}
    strengths = {"l1": 0.8} if penalty == "adaptive-l1" else {"l2": 0.5}
    found, refusals = {}, {}
    for solver in ["auto", *MulticlassClassifier.SOLVERS]:
        model = MulticlassClassifier(
            loss=loss,
            penalty=penalty,
            **strengths,
            solver=solver,
            fit_intercept=False,
            tol=TOL,
            max_iter=200,
            n_threads=1,
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found[solver] = model.fit(X, Y).result_
        except InputError as error:
            refusals[solver] = str(error)
    best = found["fista"].value
    for name, result in found.items():
        assert result.value >= best * (1.0 - 2.0 * TOL), name
        if result.status.is_success:
            assert result.value <= best * (1.0 + 2.0 * TOL), name
    assert {"auto", "prox-qn", "fista", "owl-qn", "spa-rsa"} <= {
        name for name, result in found.items() if result.status.is_success
    }
    assert {"dual", "fbpd"} <= refusals.keys()
    assert all(re.search(r"needs? ", message) for message in refusals.values()), refusals


def test_a_row_of_the_page_has_the_users_factors(tables):
    settings = {"loss": "logistic", "l1": 0.8, "fit_intercept": False, "tol": 1e-6, "n_threads": 1}
    factors = np.linspace(0.5, 2.0, F)
    model = MulticlassClassifier(penalty="steeper-l1", penalty_factors=factors, **settings).fit(X, Y)
    squares = MulticlassClassifier(penalty="l1", l2=0.0, penalty_factors=factors**2, **settings).fit(X, Y)
    plain = MulticlassClassifier(penalty="steeper-l1", **settings).fit(X, Y)
    assert model.result_.value == pytest.approx(squares.result_.value, rel=1e-6)
    assert plain.result_.value != pytest.approx(model.result_.value, rel=1e-3)
    with pytest.raises(
        InputError,
        match=r"penalty_factors: the penalty 'adaptive-l1' has no factors; expected None, or .*\['l1/l2', ",
    ):
        MulticlassClassifier(penalty="adaptive-l1", penalty_factors=factors, **settings).fit(X, Y)


def test_blocks_of_features_are_no_rows():
    groups = FeatureBlocks(1.0, n_features=F, n_states=K, feature_groups=np.arange(F) // 2)
    for loss, solver in (
        ("likelihood", FeatureBCD()),
        ("squared hinge", RowDescent()),
        ("squared hinge", FOBOS()),
    ):
        with pytest.raises(
            InputError, match=r"needs a penalty of single weights or of rows, .* got FeatureBlocks"
        ):
            minimize(objective_of(loss), groups, solver)


def test_strengths_below_l1_are_refused():
    small = np.where(np.arange(K * F) == 3, 0.5, FACTORS[: K * F])
    store = FeatureStore.from_matrix(X, SINGLE)
    objective = build_objective(SparseMap(store), page().SquaredLoss(Y, K))
    for solver in (ProxQN(), named_solver("fista", SOLVERS, None)):
        with pytest.raises(
            InputError, match=r"the smallest strength .* l1 = 0.8 and l1_of = 0.4 at coordinate 3"
        ):
            minimize(objective, page().AdaptiveLasso(l1=0.8, factors=small), solver)


def adaptive_problem():
    """The page's loss and penalty with an intercept, the last feature, that has none."""
    columns = np.column_stack([X, np.ones(len(X))])
    objective = build_objective(
        SparseMap(FeatureStore.from_matrix(columns, SINGLE)), page().SquaredLoss(Y, K)
    )
    factors = np.where(np.arange(K * (F + 1)) % 2, 3.0, 1.0)
    intercepts = F + (F + 1) * np.arange(K)
    return objective, factors, intercepts


def test_the_largest_strength_counts_factors_and_intercepts():
    objective, factors, intercepts = adaptive_problem()
    penalty = page().AdaptiveLasso(l1=1.0, unpenalised=intercepts, factors=factors)
    start = objective.at(np.empty(0, np.int64), np.empty(0))
    point = solve_unpenalised(start, intercepts)
    others = np.setdiff1d(np.arange(K * (F + 1)), intercepts)
    expected = (np.abs(point.gradient(others)) / factors[others]).max()
    largest = largest_strength("l1", objective, penalty, point)
    assert largest == pytest.approx(expected, rel=1e-9)
    for share, is_empty in ((1.01, True), (0.99, False)):
        strict = penalty.with_strengths(l1=share * largest)
        result = minimize(objective, strict, ProxQN(), Run(tol=1e-6))
        assert (np.setdiff1d(result.coords[result.weights != 0], intercepts).size == 0) == is_empty


def test_a_smooth_coordinate_with_l1_is_refused():
    class Careless(page().AdaptiveLasso):
        def l1_of(self, coords):
            return self.l1 * self.factors[coords]

    objective, factors, intercepts = adaptive_problem()
    ridge = Ridge(np.array([1, F + 2]), 0.3)
    for settings, first in (({"unpenalised": intercepts}, F), ({"ridge": ridge}, 1)):
        with pytest.raises(InputError, match=f"expected l1_of = 0 .* at coordinate {first}$"):
            minimize(objective, Careless(l1=0.8, factors=factors, **settings), ProxQN())
    page_penalty = page().AdaptiveLasso(l1=0.8, factors=factors, ridge=ridge)
    assert not page_penalty.l1_of(ridge.coords).any()
    np.testing.assert_array_equal(page_penalty.l2_of(ridge.coords), 0.3)


def test_the_pages_format_refuses_columns_that_it_would_lose():
    data = SimpleNamespace(inputs=[[{"w": "John", "pos": "NNP"}]], labels=[["B-PER"]])
    with pytest.raises(InputError, match="item 0: expected column w only, got pos"):
        list(page().inline_lines(data))
    data.inputs[0][0].pop("pos")
    assert list(page().inline_lines(data)) == ["John/B-PER\n"]
