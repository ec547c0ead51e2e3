"""The end of runs on data that can be separated: an objective of next to nothing beside that without weights."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from crfqn import MulticlassClassifier, MulticlassCRF
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.losses.potentials import SquaredNorm
from crfqn.objectives.objective import build_objective
from crfqn.papers.agarwal2014.gls import Link
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run


class TestNothingLeft:
    """Data that can be separated: the objective falls to next to nothing, beside which no bound is near."""

    @staticmethod
    def separable(seed=0):
        random = np.random.default_rng(seed)
        y = random.integers(0, 4, 200)
        centres = random.uniform(0, 2000, (4, 30))
        return np.clip(centres[y] + 200 * random.normal(size=(200, 30)), 0, 2000), y

    @pytest.mark.parametrize(
        "model",
        [
            MulticlassCRF(l1=1e-5, max_iter=40),
            MulticlassCRF(penalty="l2", l2=1e-4, max_iter=25),
            MulticlassClassifier(penalty="l2", l2=1e-4, max_iter=12),
            MulticlassClassifier(penalty="l1/l2", group_l1=1e-5, max_iter=30),
        ],
        ids=str,
    )
    def test_a_limit_cuts_nothing_off(self, model):
        X, y = self.separable()
        result = model.fit(X, y).result_  # a ConvergenceWarning is an error
        zero = len(y) * (np.log(4) if isinstance(model, MulticlassCRF) else 3)
        assert result.status in (Status.CONVERGED, Status.AT_FLOOR)
        assert result.value <= 1e-5 * zero
        assert model.score(X, y) == 1.0
        assert (result.status is Status.CONVERGED) == (result.gap <= model.tol_)
        assert result.status.is_success
        if result.status is Status.AT_FLOOR:
            assert "absolute floor" in result.message

    def test_it_is_seen_from_a_start_too(self):
        X, y = self.separable()
        model = MulticlassClassifier(penalty="l2", l2=1e-4, max_iter=12).fit(X, y)
        again = MulticlassClassifier(penalty="l2", l2=1e-4, max_iter=1).fit(X, y, start=model).result_
        assert again.status is Status.AT_FLOOR

    def test_a_smaller_tolerance_asks_for_more(self):
        X, y = self.separable()
        settings = {"penalty": "l2", "l2": 1e-4, "max_iter": 1}
        start = MulticlassClassifier(penalty="l2", l2=1e-4, max_iter=12).fit(X, y)
        with pytest.warns(ConvergenceWarning, match="limit of iterations"):
            MulticlassClassifier(**settings, tol=1e-12).fit(X, y, start=start)

    def test_a_loss_below_zero_has_no_such_end(self):
        """Least squares without their constant: the objective passes 0 on its way down."""
        random = np.random.default_rng(0)
        X = random.normal(size=(60, 3))
        targets = X @ random.normal(size=(3, 2)) * 2

        class Shifted(SquaredNorm):
            """1 + ||s||^2 / 2, whose conjugate nobody knows."""

            def value(self, scores):
                return 1.0 + super().value(scores)

            def conjugate(self, predictions):
                return None

        features = DenseMap(X, np.arange(len(X) + 1), False)
        objective = build_objective(features, Link(Shifted(), np.ascontiguousarray(targets.T)))
        result = minimize(objective, ElasticNet(l2=1e-3), FISTA(), Run(tol=1e-6, max_iter=200))
        assert result.value < -10.0


@pytest.mark.parametrize("solver", ["auto", "l-bfgs"])
def test_an_objective_of_exactly_zero_is_the_optimum(solver):
    """Features without a penalty separate the items, and the squared hinge of margins above 1 is exactly 0."""
    factors = [0.0, 1.0, 2.0, 0.0]
    model = MulticlassClassifier(
        penalty="l2", l2=1e-5, loss="multitask-squared-hinge", penalty_factors=factors, solver=solver, tol=0.1
    )
    n_exact = 0
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=(3, 4))
        result = model.fit(x, [0, 1, 2]).result_
        assert result.value < 1e-3
        n_exact += result.value == 0
        if result.value == 0:
            assert (result.status, result.gap) == (Status.CONVERGED, 0.0)
            assert model.predict(x).tolist() == [0, 1, 2]
    assert n_exact > 0
