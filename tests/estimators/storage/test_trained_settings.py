"""A model file holds the parameters of the training, whatever is set later: `load` reads what `save` writes."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import crfqn
from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
    crf_path,
)
from crfqn.regularization_path import Grid

DIGITS, DIGIT = load_digits(n_class=3, return_X_y=True)
ROWS, CODES = DIGITS[:90] / 16.0, DIGIT[:90]
SETS = [(f"is {digit}", "small" if digit < 2 else "large") for digit in CODES.tolist()]
WORDS = [[{"word": f"w{t % 5}", "size": t % 3} for t in range(i, i + 4)] for i in range(12)]
TAGS = [["B-x" if t % 5 else "O" for t in range(i, i + 4)] for i in range(12)]
CHAIN, ITEMS, TABLE = (WORDS, TAGS), (ROWS, CODES), (ROWS, SETS)
MODELS = {
    "chain": (ChainCRF(l1=0.2, l2=0.1), CHAIN),
    "margin": (ChainCRF(l2=1.0, loss="hinge", tol=0.1), CHAIN),
    "perceptron": (ChainCRF(solver="averaged-perceptron"), CHAIN),
    "flat": (MulticlassCRF(l1=0.1, class_weight={0: 2.0}), ITEMS),
    "classifier": (MulticlassClassifier(penalty="l1/l2", loss="squared-hinge"), ITEMS),
    "taxonomy": (TaxonomyCRF(l1=0.1), ITEMS),
    "ranker": (MultilabelRanker(cv=3), TABLE),
    "svc": (MulticlassSVC(C=0.5, kernel="rbf"), ITEMS),
    "generalized": (GeneralizedLeastSquares(l2=3.0), ITEMS),
    "calibrated": (CalibratedLeastSquares(max_iter=3), ITEMS),
    "stagewise": (StagewiseRegression(batch_size=20, max_iter=3, generator="subsets"), ITEMS),
}
# Of each parameter that a file holds, a value that no training takes; others are as good as any that fits.
NONSENSE = {
    "tol": -1,
    "max_iter": 0,
    "l1": -1.0,
    "l2": "much",
    "group_l1": -2.0,
    "loss": "none",
    "penalty": "l3",
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(params=MODELS)
def fitted(request):
    model, data = MODELS[request.param]
    return clone(model).fit(*data), data[0]


def saved(model, path):
    model.save(path)
    return crfqn.load(path)


def test_parameters_set_after_the_fit_are_not_in_the_file(fitted, tmp_path):
    model, X = fitted
    plain = saved(model, tmp_path / "plain.crfqn")
    for name in model.get_params(deep=False):
        changed = deepcopy(model).set_params(**{name: NONSENSE.get(name, "nonsense")})
        loaded = saved(changed, tmp_path / "changed.crfqn")
        assert repr(loaded.get_params(deep=False)) == repr(plain.get_params(deep=False)), name
        assert (tmp_path / "changed.crfqn").read_bytes() == (tmp_path / "plain.crfqn").read_bytes(), name
    np.testing.assert_array_equal(plain.predict(X[:5]), model.predict(X[:5]))


def test_nor_those_set_after_a_file_was_read_or_a_pickle(fitted, tmp_path):
    model, _ = fitted
    loaded = saved(model, tmp_path / "first.crfqn")
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        again = saved(other.set_params(tol=-1), tmp_path / "again.crfqn")
        assert again.tol == model.tol
        assert again.get_params(deep=False).keys() == loaded.get_params(deep=False).keys()


def test_the_next_fit_has_those_that_are_set(fitted, tmp_path):
    model, X = fitted
    y = next(
        y for x, y in (CHAIN, ITEMS, TABLE) if x is X and (y is SETS) == isinstance(model, MultilabelRanker)
    )
    loaded = saved(model.set_params(max_iter=2).fit(X, y), tmp_path / "m.crfqn")
    assert loaded.max_iter == 2


def test_a_scheme_set_later_is_not_said_without_its_rules(tmp_path):
    loaded = saved(ChainCRF(l1=0.2).fit(*CHAIN).set_params(scheme="IOB2"), tmp_path / "m.crfqn")
    assert (loaded.scheme, loaded.rules_) == (None, None)
    loaded = saved(ChainCRF(l1=0.2, scheme="IOB2").fit(*CHAIN).set_params(scheme=None), tmp_path / "m.crfqn")
    assert loaded.scheme == "IOB2"
    assert loaded.rules_ is not None


def test_models_of_a_path_have_the_strengths_of_their_step(tmp_path):
    for model in crf_path(ChainCRF(), *CHAIN, grid=Grid(3, ratio=0.1)).models:
        loaded = saved(model, tmp_path / "m.crfqn")
        assert (loaded.l1, loaded.l1_) == (model.l1_, model.l1_)


@pytest.mark.parametrize("solver", ["averaged-perceptron", "passive-aggressive"])
def test_strengths_after_partial_fit_are_those_of_its_passes(solver, tmp_path):
    model = ChainCRF(l1=0.5, l2=0.25).fit(*CHAIN)
    assert (model.l1_, model.l2_) == (0.5, 0.25)
    model.set_params(solver=solver).partial_fit(*CHAIN)
    assert (model.l1_, model.l2_, model.group_l1_) == (0.0, 0.0, 0.0)
    loaded = saved(model, tmp_path / "m.crfqn")
    assert (loaded.l1_, loaded.l2_, loaded.solver) == (0.0, 0.0, solver)


def test_a_pass_of_dual_decomposition_has_the_l2_that_it_was_made_with():
    model = MulticlassClassifier(penalty="l2", loss="logistic", l2=2.0).fit(*ITEMS)
    model.set_params(loss="hinge", l2=0.5).partial_fit(*ITEMS)
    assert (model.l1_, model.l2_, model.group_l1_) == (0.0, 0.5, 0.0)
