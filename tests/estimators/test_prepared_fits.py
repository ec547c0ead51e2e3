"""`prepare`: what `fit` would minimise, without its training."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn import CalibratedLeastSquares, ChainCRF, MulticlassCRF, MultilabelRanker, TaxonomyCRF, crf_path
from crfqn.errors import InputError
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run

X = np.random.default_rng(0).normal(size=(30, 4))
Y = np.where(X[:, 0] > 0, "a/b", np.where(X[:, 1] > 0, "a/c", "d"))
ITEMS = [[["a"], ["b"]], [["b"], ["a"], ["a"]], [["a"], ["b"]]] * 3
LABELS = [["A", "B"], ["B", "A", "A"], ["A", "A"]] * 3


@pytest.mark.parametrize(
    "model", [ChainCRF(), MulticlassCRF(), TaxonomyCRF(), MultilabelRanker()], ids=lambda model: model.KIND
)
def test_the_problem_is_that_of_fit(model):
    data = (ITEMS, LABELS) if isinstance(model, ChainCRF) else (X, Y)
    model.set_params(tol=1e-8)
    problem = model.prepare(*data)
    assert not hasattr(model, "classes_")
    assert not hasattr(problem.space, "coef_")
    found = minimize(problem.objective, problem.penalty, ProxQN(), Run(start=problem.start, tol=1e-8))
    model.fit(*data)
    assert found.value == pytest.approx(model.result_.value, rel=1e-6)
    classes = problem.space.model(problem.start).classes_
    assert classes.tolist() == model.classes_.tolist()
    assert problem.strengths == model.fitted_strengths


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = MulticlassCRF(l1=0.1).fit(X, Y)
    before = model.coef_.copy()
    with pytest.raises(InputError, match="solver"):
        model.set_params(solver="strange").fit(X[:, :2], Y)
    assert model.n_features_in_ == 4
    assert (model.coef_ != before).nnz == 0


def test_stages_have_no_single_problem():
    assert not hasattr(CalibratedLeastSquares(), "prepare")
    with pytest.raises(InputError, match="got CalibratedLeastSquares"):
        crf_path(CalibratedLeastSquares(), X, Y)
