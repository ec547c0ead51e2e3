"""The losses of margins by their definitions, pair by pair, and an optimum of them that owes nothing to the library.

Shapes: N items, F features, K states; X (N, F), W (F, K), scores (N, K), label sets as a table of 0 and 1 (N, K).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """A loss by its name, over X and label sets; `weights` (N,)."""

    loss: str
    x: Vector
    sets: NDArray[np.int64]
    weights: Vector

    @property
    def labels(self) -> NDArray[np.int32]:
        return self.sets.argmax(axis=1).astype(np.int32)

    @property
    def n_states(self) -> int:
        return self.sets.shape[1]

    def pairs(self, scores: Vector) -> Vector:
        """max(1 - (s_y - s_r), 0) at [i, y, r] for relevant y and irrelevant r, 0 elsewhere, (N, K, K)."""
        is_pair = (self.sets[:, :, None] == 1) & (self.sets[:, None, :] == 0)
        return np.where(is_pair, np.maximum(1.0 - scores[:, :, None] + scores[:, None, :], 0.0), 0.0)

    def score_losses(self, scores: Vector) -> tuple[Vector, Vector]:
        """Losses (N,) and their derivatives by the scores (N, K), unweighted."""
        if self.loss == "logistic":
            shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
            p = shifted / shifted.sum(axis=1, keepdims=True)
            return -np.log((p * self.sets).sum(axis=1)), p - self.sets
        if self.loss == "multitask":
            sign = 2.0 * self.sets - 1.0
            slack = np.maximum(1.0 - sign * scores, 0.0)
            return (slack**2).sum(axis=1), -2.0 * sign * slack
        slack = self.pairs(scores)
        return (slack**2).sum(axis=(1, 2)), 2.0 * (slack.sum(axis=1) - slack.sum(axis=2))

    def score_hessians(self, scores: Vector) -> Vector:
        """Generalised Hessians by the scores, unweighted, (N, K, K)."""
        n, k = scores.shape
        if self.loss == "logistic":
            p = self.score_losses(scores)[1] + self.sets
            return p[:, :, None] * np.eye(k) - p[:, :, None] * p[:, None, :]
        out = np.zeros((n, k, k))
        if self.loss == "multitask":
            out[:, range(k), range(k)] = 2.0 * ((1.0 - (2 * self.sets - 1) * scores) > 0)
            return out
        for i, y, r in np.argwhere(self.pairs(scores) > 0):
            direction = np.eye(k)[y] - np.eye(k)[r]
            out[i] += 2.0 * np.outer(direction, direction)
        return out

    def evaluate(self, w: Vector) -> tuple[float, Vector]:
        """Loss and gradient (F, K) at W."""
        losses, residual = self.score_losses(self.x @ w)
        return float(self.weights @ losses), self.x.T @ (self.weights[:, None] * residual)

    def hessian(self, w: Vector) -> Vector:
        """The generalised Hessian, (F K, F K) in the order of W."""
        h = self.weights[:, None, None] * self.score_hessians(self.x @ w)
        size = w.size
        return np.einsum("if,ikl,ig->fkgl", self.x, h, self.x).reshape(size, size)

    def row_hessian(self, w: Vector, feature: int) -> Vector:
        """The part of one row, (K, K)."""
        k = self.n_states
        first = feature * k
        return self.hessian(w)[first : first + k, first : first + k]


def row_prox(v: Vector, step: float, strengths: tuple[float, float, float], norm: str) -> Vector:
    """argmin_w 1/2 ||w - v||^2 + step (l1 ||w||_1 + l2/2 ||w||^2 + group ||w||), rows of (F, K)."""
    l1, l2, group = (step * strength for strength in strengths)
    v = np.sign(v) * np.maximum(np.abs(v) - l1, 0.0)
    if norm == "l2":
        length = np.linalg.norm(v, axis=1, keepdims=True)
        v = v * np.maximum(1.0 - group / np.maximum(length, 1e-300), 0.0)
    elif group > 0:
        v = np.array([row - project_l1(row, group) for row in v])
    return v / (1.0 + l2)


def project_l1(v: Vector, radius: float) -> Vector:
    """Onto the L1 ball, by sorting (Duchi et al. 2008)."""
    sizes = np.sort(np.abs(v))[::-1]
    if sizes.sum() <= radius:
        return v
    levels = (np.cumsum(sizes) - radius) / np.arange(1, v.size + 1)
    return np.sign(v) * np.maximum(np.abs(v) - levels[np.flatnonzero(sizes > levels)[-1]], 0.0)


def penalty_value(w: Vector, strengths: tuple[float, float, float], norm: str) -> float:
    l1, l2, group = strengths
    norms = np.linalg.norm(w, axis=1) if norm == "l2" else np.abs(w).max(axis=1)
    return float(l1 * np.abs(w).sum() + 0.5 * l2 * (w**2).sum() + group * norms.sum())


@cache
def optimum(
    problem: MarginProblem, strengths: tuple[float, float, float], norm: str, n_steps: int = 1000
) -> tuple[float, Vector]:
    """Value and W, by accelerated proximal gradients that start anew where they overshoot."""
    bound = 2.0 * problem.n_states * np.linalg.norm(np.sqrt(problem.weights)[:, None] * problem.x, 2) ** 2
    w = z = np.zeros((problem.x.shape[1], problem.n_states))
    t = 1.0
    for _ in range(n_steps):
        found = row_prox(z - problem.evaluate(z)[1] / bound, 1.0 / bound, strengths, norm)
        if np.sum((z - found) * (found - w)) > 0:
            t, z = 1.0, w
            continue
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        z = found + (t - 1.0) / following * (found - w)
        w, t = found, following
    return problem.evaluate(w)[0] + penalty_value(w, strengths, norm), w
