"""Projections: feasible, optimal against random probes, equal by all methods, and right at extreme values."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.projections import (
    project_epigraph,
    project_halfspace,
    project_l1_ball,
    project_linf_ball,
    project_simplex,
    prox_l1,
    prox_linf,
)

EXACT = ["sort", "pivot"]
METHODS = [*EXACT, "bisection"]
WIDTHS = [1, 2, 7, 128, 129, 700]  # "sort" takes another way beyond 128


def rows(k, n=12, seed=0):
    """Rows of many scales, some with ties, one of equal entries."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, k)) * 10.0 ** random.integers(-3, 4, size=(n, 1))
    x[0] = 1.0
    x[1] = np.round(x[1])
    return x


def simplex_by_definition(v, radius):
    """The level by trying every number of positive entries."""
    ordered = np.sort(v)[::-1]
    levels = (np.cumsum(ordered) - radius) / np.arange(1, v.size + 1)
    return np.maximum(v - levels[np.flatnonzero(ordered > levels)[-1]], 0.0)


@pytest.mark.parametrize("k", WIDTHS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("radius", [1e-3, 1.0, 300.0])
def test_simplex_is_the_definition(k, method, radius):
    x = rows(k)
    found = project_simplex(x, radius, method=method, tol=0.0)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), radius, rtol=1e-10)
    expected = [simplex_by_definition(row, radius) for row in x]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * max(radius, 1e3))


@pytest.mark.parametrize("project", [project_simplex, project_l1_ball])
@pytest.mark.parametrize("method", METHODS)
def test_no_feasible_point_is_nearer(project, method):
    random, x = np.random.default_rng(1), rows(9)
    found = project(x, 2.0, method=method, tol=1e-12)
    for _ in range(200):
        probe = random.dirichlet(np.full(9, 0.5), size=len(x)) * 2.0
        if project is project_l1_ball:
            probe *= random.choice([-1.0, 1.0], size=probe.shape) * random.random((len(x), 1))
        # The projection's own inequality, stronger than a comparison of distances.
        slack = ((x - found) * (probe - found)).sum(axis=1)
        assert (slack <= 1e-8 * (1.0 + np.abs(x).max(axis=1))).all()


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("k", [3, 200])
def test_bisection_is_within_its_tolerance(k, tol):
    found = project_simplex(rows(k), 5.0, method="bisection", tol=tol)
    assert (np.abs(found.sum(axis=1) - 5.0) <= 5.0 * tol * (1 + 1e-9)).all()


def test_a_loose_bisection_stays_away_from_the_projection():
    """Else the tolerance would mean nothing: many entries above the level, more than Newton's steps settle."""
    x = np.cumsum(np.random.default_rng(0).random((1, 5000)) ** 8, axis=1)
    exact = project_simplex(x, 1e3)
    assert np.abs(project_simplex(x, 1e3, method="bisection", tol=0.1) - exact).max() > 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_radii_by_row_and_in_place(method):
    x = rows(20)
    radii = np.linspace(0.0, 4.0, len(x))
    expected = np.array([project_simplex(row, r, method=method) for row, r in zip(x, radii, strict=True)])
    assert project_simplex(x, radii, method=method, out=x) is x
    np.testing.assert_array_equal(x, expected)
    assert not x[0].any()


def test_into_a_strided_array():
    x, out = rows(6), np.zeros((12, 12))[:, ::2]
    assert project_l1_ball(x, 1.5, out=out) is out
    np.testing.assert_array_equal(out, project_l1_ball(x, 1.5))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("x", "radius", "expected"),
    [
        ([1e300, -1e300, 0.0], 1.0, [1.0, 0.0, 0.0]),
        ([1e16, 1e16], 1.0, [0.5, 0.5]),
        ([-1e16, -1e16, -2e16], 1.0, [0.5, 0.5, 0.0]),
        ([0.0, -0.0], 5e-324, [0.0, 0.0]),
        ([3.0, 1.0], 1e300, [5e299, 5e299]),
        ([1e-320, 0.0], 0.0, [0.0, 0.0]),
        ([7.0], 2.0, [2.0]),
    ],
)
def test_extreme_values(method, x, radius, expected):
    np.testing.assert_allclose(
        project_simplex(x, radius, method=method, tol=0), expected, rtol=1e-15, atol=5e-324
    )


@pytest.mark.parametrize("method", METHODS)
def test_l1_ball_and_prox_linf_add_up(method):
    x = rows(30)
    ball = project_l1_ball(x, 3.0, method=method)
    np.testing.assert_allclose(ball + prox_linf(x, 3.0, method=method), x, rtol=1e-15, atol=1e-12)
    assert (np.abs(ball).sum(axis=1) <= 3.0 * (1 + 1e-3)).all()
    inside = 0.5 * ball / np.maximum(np.abs(ball).sum(axis=1, keepdims=True), 1.0)
    np.testing.assert_array_equal(project_l1_ball(inside, 3.0, method=method), inside)
    assert not prox_linf(inside, 3.0, method=method).any()


def test_linf_ball_and_prox_l1_add_up():
    x = rows(30)
    np.testing.assert_array_equal(project_linf_ball(x, 2.0) + prox_l1(x, 2.0), x)
    np.testing.assert_array_equal(prox_l1([3.0, -0.5, -4.0], 1.0), [2.0, 0.0, -3.0])
    assert np.abs(project_linf_ball(x, 2.0)).max() == 2.0


@pytest.mark.parametrize("prox", [prox_l1, prox_linf])
def test_prox_is_the_least(prox):
    def value(b):
        norm = np.abs(b).sum() if prox is prox_l1 else np.abs(b).max()
        return 0.5 * ((b - x) ** 2).sum() + 0.7 * norm

    random, x = np.random.default_rng(2), np.random.default_rng(3).normal(size=6)
    found = prox(x, 0.7)
    assert all(
        value(found + random.normal(size=6) * s) >= value(found) for s in np.repeat([1e-3, 0.1, 1.0], 100)
    )


def test_halfspace():
    x, normal = rows(4), np.array([1.0, -2.0, 0.5, 0.0])
    found = project_halfspace(x, normal, 0.25)
    inside = x @ normal <= 0.25
    np.testing.assert_array_equal(found[inside], x[inside])
    np.testing.assert_allclose(found[~inside] @ normal, 0.25, atol=1e-9)
    moved = (x - found)[~inside]
    np.testing.assert_allclose(moved, (moved @ normal / (normal @ normal))[:, None] * normal, atol=1e-9)
    np.testing.assert_allclose(project_halfspace([1.0, 1.0], [1e-200, 0.0], 0.0), [0.0, 1.0])
    np.testing.assert_array_equal(project_halfspace([1.0, 1.0], [0.0, 0.0], 0.0), [1.0, 1.0])
    with pytest.raises(InputError, match="half-spaces that are not empty"):
        project_halfspace([1.0], [0.0], -1.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 5, 300])
def test_epigraph(method, k):
    random, x = np.random.default_rng(4), rows(k)
    margins = (random.random((len(x), k)) > 0.3).astype(float)
    heights = random.normal(size=len(x)) * 3.0
    p, t = project_epigraph(x, heights, margins, method=method, tol=0.0)
    scale = 1.0 + np.abs(x).max(axis=1)
    assert ((p + margins).max(axis=1) <= t + 1e-12 * scale).all()
    inside = (x + margins).max(axis=1) <= heights
    np.testing.assert_array_equal(p[inside], x[inside])
    np.testing.assert_array_equal(t[inside], heights[inside])
    for _ in range(100):
        q = p + random.normal(size=x.shape) * scale[:, None]
        u = (q + margins).max(axis=1) + random.exponential(size=len(x))
        slack = ((x - p) * (q - p)).sum(axis=1) + (heights - t) * (u - t)
        assert (slack <= 1e-8 * scale**2).all()


def test_epigraph_of_one_row_and_margins_for_all():
    p, t = project_epigraph([2.0, 0.0], 0.0, [0.0, 1.0])
    assert isinstance(t, float)
    assert p.tolist() == [1.0, 0.0]
    assert t == 1.0
    x = rows(5)
    np.testing.assert_array_equal(project_epigraph(x, 0.1)[0], project_epigraph(x, 0.1, np.zeros(5))[0])


@pytest.mark.parametrize("project", [project_simplex, project_l1_ball, project_linf_ball, prox_l1, prox_linf])
@pytest.mark.parametrize(
    ("x", "radius", "message"),
    [
        ([[1.0, 2.0], [0.0, np.nan]], 1.0, r"got nan at \(1, 1\)"),
        ([[1.0, -np.inf]], 1.0, r"got -inf at \(0, 1\)"),
        (["a"], 1.0, "expected real numbers"),
        (np.zeros((2, 0)), 1.0, "at least one column"),
        (np.zeros((2, 2, 2)), 1.0, "a matrix or a vector"),
        ([1.0], -1.0, "from 0 to 1e.300, got -1.0"),
        ([1.0], np.nan, "got nan"),
        (np.zeros((2, 2)), [1.0, 2.0, 3.0], r"shape \(2,\), got shape \(3,\)"),
    ],
)
def test_bad_input_is_named(project, x, radius, message):
    with pytest.raises(InputError, match=message):
        project(x, radius)


def test_bad_methods_and_outputs_are_named():
    with pytest.raises(InputError, match="method: expected one of"):
        project_simplex([1.0], method="quick")
    with pytest.raises(InputError, match="tol"):
        project_simplex([1.0], tol=-1.0)
    with pytest.raises(
        InputError, match=r"out: expected a writable float64 array of shape \(1,\), got float32"
    ):
        project_simplex([1.0], out=np.zeros(1, np.float32))


def test_the_input_is_left_alone_and_no_rows_are_no_rows():
    x = rows(5)
    before = x.copy()
    project_simplex(x)
    np.testing.assert_array_equal(x, before)
    assert project_simplex(np.zeros((0, 3))).shape == (0, 3)
