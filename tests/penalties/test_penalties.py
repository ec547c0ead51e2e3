"""The elastic net: its prox, its one definition of optimality, its conjugate, against their definitions."""

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.penalties import ElasticNet

COORDS = np.array([0, 1, 2, 5, 7, 8])
STRENGTHS = [(0.0, 0.0), (1.3, 0.0), (0.0, 0.7), (1.3, 0.7)]
FREE = [np.empty(0, np.int64), np.array([1, 7, 99])]


def cases():
    random = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        w = scale * random.normal(size=COORDS.size)
        w[random.random(w.size) < 0.3] = 0.0
        yield w


@pytest.fixture(params=FREE, ids=["penalised", "free"])
def unpenalised(request):
    return request.param


@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
def test_value(l1, l2, unpenalised):
    for w in cases():
        expected = sum(
            l1 * abs(v) + 0.5 * l2 * v**2 for c, v in zip(COORDS, w, strict=True) if c not in unpenalised
        )
        assert ElasticNet(l1, l2, unpenalised).value(COORDS, w) == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
@pytest.mark.parametrize("step", [0.1, 1.0, 4.0])
def test_prox_is_the_minimiser(l1, l2, step, unpenalised):
    penalty = ElasticNet(l1, l2, unpenalised)
    grid = np.linspace(-40, 40, 400_001)
    for w in cases():
        v = penalty.prox(COORDS, w, step)
        for c, start, found in zip(COORDS, w, v, strict=True):
            a, b = (0.0, 0.0) if c in unpenalised else (l1, l2)
            values = 0.5 * (grid - start) ** 2 + step * (a * np.abs(grid) + 0.5 * b * grid**2)
            assert found == pytest.approx(grid[values.argmin()], abs=2e-4)
            at_found = 0.5 * (found - start) ** 2 + step * (a * abs(found) + 0.5 * b * found**2)
            assert at_found <= values.min() + 1e-12


@pytest.mark.parametrize("step", [0.5, 2.0])
def test_prox_gives_exact_zeros(step):
    w = np.array([0.0, 1.0, -1.0, 1.0001, -1.0001, 3.0])
    found = ElasticNet(1 / step).prox(COORDS, w, step)
    np.testing.assert_array_equal(found == 0, [True, True, True, False, False, False])


@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
def test_no_violation_exactly_at_the_fixed_points_of_the_prox(l1, l2, unpenalised):
    """w minimises g'w + penalty(w) locally <=> w = prox(w - g), coordinate by coordinate."""
    penalty = ElasticNet(l1, l2, unpenalised)
    random = np.random.default_rng(1)
    for w in cases():
        a, b = penalty.l1_of(COORDS), penalty.l2_of(COORDS)
        inside = random.uniform(-1, 1, w.size) * a
        stationary = np.where(w != 0, -b * w - np.sign(w) * a, inside)
        assert penalty.violation(COORDS, w, stationary) == pytest.approx(0.0, abs=1e-14)
        np.testing.assert_allclose(penalty.prox(COORDS, w - stationary, 1.0), w, atol=1e-14)
        for sign in (-1, 1):
            boundary = np.where(w != 0, stationary, sign * a)
            moved = boundary + sign * 0.25
            violation = penalty.violation(COORDS, w, moved)
            np.testing.assert_allclose(violation, 0.25, rtol=1e-13)  # the distance itself
            assert np.all(np.abs(penalty.prox(COORDS, w - moved, 1.0) - w) > 1e-3)


@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
def test_violation_is_the_distance_to_the_subdifferential(l1, l2, unpenalised):
    penalty = ElasticNet(l1, l2, unpenalised)
    random = np.random.default_rng(2)
    for w in cases():
        g = 3 * random.normal(size=w.size)
        for c, weight, slope, found in zip(COORDS, w, g, penalty.violation(COORDS, w, g), strict=True):
            a, b = (0.0, 0.0) if c in unpenalised else (l1, l2)
            signs = np.linspace(-1, 1, 20_001) if weight == 0 else np.array([np.sign(weight)])
            distances = np.abs(-slope - (b * weight + a * signs))
            assert found == pytest.approx(distances.min(), abs=1e-4)


def test_conjugate_against_the_supremum():
    grid = np.linspace(-60, 60, 600_001)
    random = np.random.default_rng(3)
    for l1, l2 in ((1.3, 0.7), (0.0, 0.5), (2.0, 3.0)):
        g = 4 * random.normal(size=COORDS.size)
        supremum = sum((-v * grid - l1 * np.abs(grid) - 0.5 * l2 * grid**2).max() for v in g)
        assert ElasticNet(l1, l2).conjugate(COORDS, g) == pytest.approx(supremum, rel=1e-6)


def test_conjugate_without_l2_is_an_indicator():
    penalty = ElasticNet(1.3)
    assert penalty.conjugate(COORDS, np.array([1.3, -1.3, 0, 1, -0.5, 1.2999])) == 0.0
    for excess in (1e-6, 1e-10):
        assert penalty.conjugate(COORDS, np.array([0, 0, 0, 0, 0, -1.3 * (1 + excess)])) == np.inf
    assert penalty.conjugate(COORDS[:0], np.empty(0)) == 0.0


def test_conjugate_of_an_unpenalised_coordinate():
    """It has no slack at all, with l2 neither."""
    for l2 in (0.0, 0.5):
        penalty = ElasticNet(1.3, l2, unpenalised=np.array([5]))
        assert penalty.conjugate(COORDS, np.array([0, 0, 0, 1e-9, 0, 0])) == np.inf
        assert penalty.conjugate(COORDS, np.array([1.0, 0, 0, 0, 0, 0])) == 0.0


def test_dual_scales_make_the_gradient_feasible():
    random = np.random.default_rng(4)
    for scale in (0.1, 1.0, 100.0):
        g = scale * random.normal(size=COORDS.size)
        (s,) = ElasticNet(1.3).dual_scales(COORDS, g)
        assert s == pytest.approx(min(1.0, 1.3 / np.abs(g).max()), rel=1e-15)
        assert ElasticNet(1.3).conjugate(COORDS, s * g) == 0.0
        scales = ElasticNet(1.3, 0.1).dual_scales(COORDS, g)
        assert 1.0 in scales
        assert any(found == pytest.approx(s, rel=1e-15) for found in scales)
        assert all(0 < found <= 1 for found in scales)


def test_no_scale_for_an_unpenalised_coordinate_that_is_not_stationary():
    penalty = ElasticNet(1.3, unpenalised=np.array([5]))
    g = np.array([2.0, 0, 0, 0.1, 0, 0])
    assert penalty.dual_scales(COORDS, g) == []
    g[3] = 0.0
    assert penalty.dual_scales(COORDS, g) == [pytest.approx(0.65)]


def test_unpenalised_coordinates_have_no_strength(unpenalised):
    penalty = ElasticNet(1.3, 0.7, unpenalised)
    is_unpenalised = np.array([c in unpenalised for c in COORDS])
    np.testing.assert_array_equal(penalty.l1_of(COORDS), np.where(is_unpenalised, 0.0, 1.3))
    np.testing.assert_array_equal(penalty.l2_of(COORDS), np.where(is_unpenalised, 0.0, 0.7))


def test_scaled(unpenalised):
    penalty = ElasticNet(1.3, 0.7, unpenalised).scaled(0.25)
    assert (penalty.l1, penalty.l2) == (0.25 * 1.3, 0.25 * 0.7)
    assert penalty.unpenalised is unpenalised
    w = np.array([1.0, -2.0, 0.0, 3.0, 0.5, 1.5])
    assert penalty.value(COORDS, w) == pytest.approx(
        0.25 * ElasticNet(1.3, 0.7, unpenalised).value(COORDS, w)
    )


@pytest.mark.parametrize("strength", [-1.0, -1e-300, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["l1", "l2"])
def test_bad_strengths(name, strength):
    with pytest.raises(InputError) as caught:
        ElasticNet(**{name: strength})
    assert str(caught.value) == f"{name}: expected a finite number >= 0, got {strength!r}"


def test_inputs_stay_unchanged():
    w, g = np.array([1.0, 0, -2, 0, 3, -4]), np.array([1.0, 2, -2, 0, 3, -4])
    w_before, g_before = w.copy(), g.copy()
    penalty = ElasticNet(1.0, 0.5, np.array([1]))
    penalty.prox(COORDS, w, 0.5), penalty.violation(COORDS, w, g), penalty.conjugate(COORDS, g)
    penalty.value(COORDS, w), penalty.dual_scales(COORDS, g)
    np.testing.assert_array_equal(w, w_before)
    np.testing.assert_array_equal(g, g_before)


@pytest.mark.parametrize("coords", [[2, 3, 4, 5, 6, 7], [7, 3, 6, 2, 5], [3, 6, 7], [8, 0], []])
def test_unpenalised_coordinates_are_found_in_any_order(coords):
    penalty = ElasticNet(1.0, 2.0, np.array([3, 6]))
    coords = np.array(coords, np.int64)
    is_free = np.isin(coords, penalty.unpenalised)
    np.testing.assert_array_equal(penalty.is_unpenalised(coords), is_free)
    np.testing.assert_array_equal(penalty.l2_of(coords), np.where(is_free, 0.0, 2.0))


@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
@pytest.mark.parametrize("size", [1, 4, 6, 7])
def test_bounds_are_the_same_in_parts(monkeypatch, l1, l2, size, unpenalised):
    penalty = ElasticNet(l1, l2, unpenalised)
    for g in cases():
        whole = penalty.dual_scales(COORDS, g)
        values = [penalty.conjugate(COORDS, s * g) for s in whole]
        with monkeypatch.context() as patch:
            patch.setattr("crfqn.penalties.elastic_net.COORDS_PER_BOUND", size)
            assert penalty.dual_scales(COORDS, g) == whole
            in_parts = [penalty.conjugate(COORDS, s * g) for s in whole]
        assert in_parts == pytest.approx(values, rel=1e-14)
    assert penalty.conjugate(COORDS[:0], np.empty(0)) == 0.0
