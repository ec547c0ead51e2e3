"""Hinge problems with sparse penalties as conic programmes, and Algorithms 1 and 2 of Chierchia et al. as printed.

Shapes: N items, F features, K classes, a constant feature last; W (K, F + 1), its last column without penalty.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

N, F, K, SIZE = 12, 4, 3, 2  # SIZE: features of a block
COLUMNS = F + 1
INTERCEPTS = np.arange(1, K + 1) * COLUMNS - 1
GROUPS = np.append(np.arange(F) // SIZE, F)


class Data(NamedTuple):
    x: NDArray[np.float64]
    y: NDArray[np.int32]
    weights: NDArray[np.float64]


@cache
def data() -> Data:
    random = np.random.default_rng(3)
    y = random.permutation(np.arange(N) % K).astype(np.int32)
    x = random.normal(size=(N, F)) * (random.random((N, F)) < 0.7)
    x[np.arange(N), y] += 1.2
    return Data(x, y, random.random(N) + 0.5)


def norms_of(kind: str, w: Any, norm: Any) -> list[Any]:
    """The norms of the parts that a penalty is the sum of: rows, or blocks of features by class."""
    if kind == "rows":
        return [norm(w[:, f]) for f in range(F)]
    return [norm(w[k, first : first + SIZE]) for k in range(K) for first in range(0, F, SIZE)]


@cache
def conic_optimum(kind: str, norm: str, strength: float, bound: float | None = None) -> float:
    """The least loss + strength g, or the least g with the loss within a bound, by an interior-point method.

    kind : {"l1", "l2", "rows", "blocks"}
    """
    import cvxpy

    x, y, weights = data()
    w, b = cvxpy.Variable((K, F)), cvxpy.Variable((1, K))
    scores = x @ w.T + np.ones((N, 1)) @ b
    own = np.eye(K)[y]
    losses = cvxpy.max(scores + 1.0 - own, axis=1) - cvxpy.sum(cvxpy.multiply(scores, own), axis=1)
    if kind == "l1":
        g = cvxpy.sum(cvxpy.abs(w))
    elif kind == "l2":
        g = 0.5 * cvxpy.sum_squares(w)
    else:
        g = sum(norms_of(kind, w, cvxpy.norm_inf if norm == "linf" else cvxpy.norm2))
    loss = weights @ losses
    problem = (
        cvxpy.Problem(cvxpy.Minimize(loss + strength * g))
        if bound is None
        else cvxpy.Problem(cvxpy.Minimize(g), [loss <= bound])
    )
    return float(problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10))


class Printed(NamedTuple):
    """The matrices of the paper: T (N K, K (F + 1)) and r (N, K)."""

    t: NDArray[np.float64]
    r: NDArray[np.float64]


def printed() -> Printed:
    """T and r, entry by entry from their definition in section 2.2."""
    x, y, _ = data()
    phi = np.column_stack([x, np.ones(N)])
    t = np.zeros((N, K, K, COLUMNS))
    for item in range(N):
        for k in range(K):
            t[item, k, k] += phi[item]
            t[item, k, y[item]] -= phi[item]
    return Printed(t.reshape(N * K, K * COLUMNS), 1.0 - np.eye(K)[y])


def prox_l1(w: NDArray, step: float) -> NDArray:
    """The soft threshold, intercepts left alone."""
    shrunk = np.sign(w) * np.maximum(np.abs(w) - step, 0.0)
    shrunk[INTERCEPTS] = w[INTERCEPTS]
    return shrunk


def onto_simplex(v: NDArray, mass: float) -> NDArray:
    """The projection by sorting."""
    u = np.sort(v)[::-1]
    levels = (np.cumsum(u) - mass) / np.arange(1, v.size + 1)
    return np.maximum(v - levels[np.flatnonzero(u > levels)[-1]], 0.0)


def onto_epigraph(u: NDArray, height: float, r: NDArray) -> tuple[NDArray, float]:
    """Proposition 3.3, by trying every k."""
    nu = np.concatenate([[-np.inf], np.sort(u + r), [np.inf]])
    for k in range(1, K + 2):
        theta = (height + nu[k : K + 1].sum()) / (K - k + 2)
        if nu[k - 1] < theta <= nu[k]:
            return np.minimum(u, theta - r), theta
    raise AssertionError("no k obeys equation 16")


def algorithm_1(strength: float, tau: float, sigma: float, n_steps: int) -> tuple[NDArray, NDArray]:
    """x and y after some steps of Algorithm 1 with g = strength ||.||_1, y starting at the labels."""
    (t, r), (_, labels, weights) = printed(), data()
    x, y = np.zeros(K * COLUMNS), weights[:, None] * np.eye(K)[labels]
    for _ in range(n_steps):
        before, x = x, prox_l1(x - tau * (t.T @ y.ravel()), tau * strength)
        hat = y + sigma * (t @ (2.0 * x - before)).reshape(N, K)
        y = np.array([onto_simplex(row, c) for row, c in zip(hat + sigma * r, weights, strict=True)])
    return x, y


def algorithm_2(bound: float, tau: float, sigma: float, n_steps: int) -> tuple[NDArray, NDArray]:
    """x and the multipliers xi after some steps of Algorithm 2 with g = ||.||_1, from zero."""
    (t, r), (_, _, weights) = printed(), data()
    x, zeta, y, xi = np.zeros(K * COLUMNS), np.zeros(N), np.zeros((N, K)), np.zeros(N)
    for _ in range(n_steps):
        before, x = x, prox_l1(x - tau * (t.T @ y.ravel()), tau)
        old, moved = zeta, zeta - tau * xi
        zeta = moved - max(weights @ moved - bound, 0.0) / (weights @ weights) * weights
        y_hat = y + sigma * (t @ (2.0 * x - before)).reshape(N, K)
        xi_hat = xi + sigma * (2.0 * zeta - old)
        for i in range(N):
            p, theta = onto_epigraph(y_hat[i] / sigma, xi_hat[i] / sigma, r[i])
            y[i], xi[i] = y_hat[i] - sigma * p, xi_hat[i] - sigma * theta
    return x, xi
