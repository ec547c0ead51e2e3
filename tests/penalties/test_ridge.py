"""Coordinates under L2 alone beside others under L1 or in groups: values, proximal maps, conjugates, screenings."""

import numpy as np
import pytest
from scipy.optimize import minimize

from crfqn.arrays import Screening
from crfqn.errors import InputError
from crfqn.papers.chierchia2015.norms import FeatureBlocks
from crfqn.penalties import ElasticNet, GroupLasso, Ridge

N_FEATURES, N_STATES = 4, 3
RIDGE = Ridge(np.array([0, 4, 8]), 0.7)  # the first feature of each state
ALL = np.arange(N_FEATURES * N_STATES + 2)  # with two edges
FREE = np.array([3, 7, 11])
SHAPE = {"n_features": N_FEATURES, "n_states": N_STATES}
PENALTIES = {
    "net": ElasticNet(0.5, 0.2, FREE, RIDGE),
    "l1": ElasticNet(0.5, 0.0, FREE, RIDGE),
    "rows": GroupLasso(0.6, 0.1, 0.2, "l2", FREE, RIDGE, **SHAPE),
    "largest": GroupLasso(0.6, 0.0, 0.0, "linf", FREE, RIDGE, **SHAPE),
}


def without(penalty, w):
    """The penalty of the weights that are not the ridge's, by a penalty that has none."""
    rest = np.where(np.isin(ALL, RIDGE.coords), 0.0, w)
    plain = type(penalty)(
        **{name: value for name, value in vars(penalty).items() if name in FIELDS[type(penalty)]}
    )
    return plain.value(ALL, rest)


FIELDS = {
    ElasticNet: ("l1", "l2", "unpenalised"),
    GroupLasso: ("group_l1", "l1", "l2", "norm", "unpenalised", "n_features", "n_states"),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_value_and_proximal_map(name):
    penalty, w = PENALTIES[name], np.random.default_rng(0).normal(size=ALL.size)
    square = 0.5 * 0.7 * (w[RIDGE.coords] ** 2).sum()
    assert penalty.value(ALL, w) == pytest.approx(square + without(penalty, w))
    found = penalty.prox(ALL, w, 0.8)
    np.testing.assert_allclose(found[RIDGE.coords], w[RIDGE.coords] / (1 + 0.8 * 0.7))
    assert penalty.scaled(0.5).value(ALL, w) == pytest.approx(0.5 * penalty.value(ALL, w))


@pytest.mark.parametrize("name", PENALTIES)
def test_conjugates_are_suprema(name):
    penalty = PENALTIES[name]
    g = 0.1 * np.random.default_rng(1).normal(size=ALL.size)
    g[FREE], g[RIDGE.coords] = 0.0, [0.9, -2.0, 0.0]  # far above every bound of the others
    found = penalty.conjugate(ALL, g)
    assert found == pytest.approx((g[RIDGE.coords] ** 2).sum() / (2 * 0.7))
    best = minimize(lambda w: penalty.value(ALL, w) + g @ w, np.full(ALL.size, 0.01), method="Powell")
    assert -best.fun <= found + 1e-9
    assert -best.fun == pytest.approx(found, abs=0.02)
    g[1] = 50.0
    scales = penalty.dual_scales(ALL, g)
    assert 0 < min(scales) < 1
    assert np.isfinite(penalty.conjugate(ALL, min(scales) * g))


@pytest.mark.parametrize("name", PENALTIES)
def test_violations_of_zeros_and_weights(name):
    penalty = PENALTIES[name]
    w, g = np.zeros(ALL.size), np.zeros(ALL.size)
    w[0], g[0], g[4] = 2.0, -2.0 * 0.7, 0.3
    found = penalty.violation(ALL, w, g)
    np.testing.assert_allclose(found[[0, 4]], [0.0, 0.3], atol=1e-12)
    assert penalty.is_smooth(ALL).tolist() == np.isin(ALL, [*FREE, *RIDGE.coords]).tolist()
    assert (penalty.is_uniform, penalty.has_one_l1) == (False, True)


class Gradients:
    """A point of zero weights of which only the gradient is known."""

    coords, weights = np.empty(0, np.int64), np.empty(0)

    def __init__(self, g):
        self.g = g

    def gradient(self, coords):
        return self.g[coords]

    def screen(self, threshold):
        found = np.flatnonzero(np.abs(self.g) > threshold)
        return Screening(found, self.g[found])

    def screen_rows(self, bound, inside, order):
        return Screening(ALL, self.g)


@pytest.mark.parametrize("name", PENALTIES)
def test_screenings_have_all_of_the_ridge(name):
    g = np.zeros(ALL.size)
    g[[2, 4]] = 9.0, 0.01
    found = PENALTIES[name].screen(Gradients(g))
    assert {*RIDGE.coords, 2} <= {*found.coords}
    assert found.coords.tolist() == sorted({*found.coords})
    np.testing.assert_array_equal(found.gradient, g[found.coords])


@pytest.mark.parametrize("name", PENALTIES)
def test_bounds_on_norms_hold(name):
    penalty, random = PENALTIES[name], np.random.default_rng(2)
    for _ in range(50):
        w = random.normal(size=ALL.size) * random.choice([0.01, 1.0, 100.0], size=ALL.size)
        w[FREE] = 0.0
        l1_norm, l2_norm = penalty.norm_bounds(penalty.value(ALL, w))
        assert np.abs(w).sum() <= l1_norm * (1 + 1e-12)
        assert np.linalg.norm(w) <= l2_norm * (1 + 1e-12)


def test_mistakes():
    with pytest.raises(InputError, match="ridge: expected a finite l2 >= 0"):
        ElasticNet(ridge=Ridge(RIDGE.coords, -1.0))
    with pytest.raises(InputError, match="ridge: expected groups that are rows"):
        FeatureBlocks(0.5, ridge=RIDGE, feature_groups=np.arange(N_FEATURES), **SHAPE)
