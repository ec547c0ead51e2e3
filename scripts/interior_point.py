"""Optima of penalised objectives by an interior-point method: a reference that shares nothing with the library.

Boyd and Vandenberghe, Convex Optimization, 2004, sections 11.2 and 11.3: Newton's method on

    sharpness * objective - sum of the logarithms of all slacks

for a sharpness that grows; at its minimum the objective is no more than (degree of the barrier) / sharpness above the
optimum. All is dense and in double precision, for a few hundred numbers at most.

Shapes: n weights, I items, P candidates of an item.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.integer]


@dataclass
class Loss:
    """A sum over items of a function of candidates' scores: differences D (I, P, n), D w being linear in the weights.

    kind : "likelihood" (log sum exp D w, one of the P being the observed one with D = 0), "squares" (sum of squares of
        max(1 + D w, 0), where `counts`) or "hinge" (the largest of counts + D w)
    """

    kind: str
    differences: Array
    weights: Array
    counts: Array = field(default_factory=lambda: np.ones(()))

    def __call__(self, w: Array) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian, those of "hinge" 0: its slacks are variables."""
        c, d = self.weights, self.differences
        s = d @ w
        if self.kind == "hinge":
            return float(c @ (self.counts + s).max(axis=1)), np.zeros(w.size), np.zeros((w.size, w.size))
        if self.kind == "squares":
            left = np.maximum(1.0 + s, 0.0) * self.counts
            first, second = c[:, None] * 2.0 * left, c[:, None] * 2.0 * (left > 0)
            value, extra = float(c @ (left**2).sum(axis=1)), 0.0
        else:
            top = s.max(axis=1, keepdims=True)
            p = np.exp(s - top)
            z = p.sum(axis=1, keepdims=True)
            p /= z
            first = second = c[:, None] * p
            value = float(c @ (top + np.log(z))[:, 0])
            means = np.einsum("ip,ipn->in", p, d)
            extra = (c[:, None] * means).T @ means
        flat = d.reshape(-1, w.size)
        return value, flat.T @ first.ravel(), (flat * second.reshape(-1, 1)).T @ flat - extra


@dataclass
class Problem:
    """A loss, the strengths of all weights, l2 (n,), and cones: |w[members]| <= t at a price for t.

    members : (cones, size) places in w; owners : (cones,) places in t, which cones may share
    """

    loss: Loss
    l2: Array
    prices: list[float] = field(default_factory=list)
    cones: list[tuple[Places, Places]] = field(default_factory=list)

    def add(self, strength: Array | float, members: Places, shared: bool = False) -> None:
        """Charge the length of each row of members; `shared`: the largest size in it."""
        if not np.any(strength):
            return
        owners = len(self.prices) + np.arange(len(members))
        self.prices += np.broadcast_to(strength, len(members)).tolist()
        self.cones.append(
            (members.reshape(-1, 1), np.repeat(owners, members.shape[1])) if shared else (members, owners)
        )

    def least_t(self, w: Array) -> Array:
        """What t has to be, at least."""
        t = np.zeros(len(self.prices))
        for members, owners in self.cones:
            np.maximum.at(t, owners, np.linalg.norm(w[members], axis=1))
        return t

    def value(self, w: Array) -> float:
        """The objective."""
        return self.loss(w)[0] + 0.5 * float(self.l2 @ w**2) + float(np.dot(self.prices, self.least_t(w)))

    def optimum(self) -> tuple[float, float]:
        """Return the least value found and a bound on its distance to the optimum, infinite where Newton got stuck."""
        size = np.sqrt(np.einsum("i,ipn->n", self.loss.weights, self.loss.differences**2) + self.l2)
        unit = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 1.0)  # of each weight
        barrier = Barrier(self, unit)
        z, sharpness = barrier.start(), max(barrier.degree, 1.0) / self.value(np.zeros(unit.size))
        best, is_centred = self.value(np.zeros(unit.size)), True
        for _ in range(40):
            z, is_centred = barrier.centred(z, sharpness)
            best = min(best, self.value(unit * z[: unit.size]))
            if barrier.degree / sharpness <= 1e-7 * best:
                break
            sharpness *= 10.0
        return best, barrier.degree / sharpness if is_centred else np.inf


class Barrier:
    """sharpness * objective - sum log of all slacks, over z = (weights / unit, t / t's unit, slacks of a hinge)."""

    def __init__(self, problem: Problem, unit: Array) -> None:
        self.problem, self.unit, self.n, self.m = problem, unit, unit.size, len(problem.prices)
        loss = problem.loss
        self.n_slacks = loss.weights.size if loss.kind == "hinge" else 0
        self.t_unit = np.ones(self.m)
        for members, owners in problem.cones:
            self.t_unit[owners] = unit[members].max(axis=1)
        self.degree = float(sum(2 * owners.size for _, owners in problem.cones))
        if self.n_slacks:  # 1 + D w - slack <= 0 and slack >= 0
            n_items, width, _ = loss.differences.shape
            rows = (loss.differences * unit).reshape(n_items * width, self.n)
            slack = np.repeat(np.eye(n_items), width, axis=0)
            above = np.hstack([np.zeros((n_items, self.n + self.m)), np.eye(n_items)])
            self.rows = np.vstack([np.hstack([-rows, np.zeros((len(rows), self.m)), slack]), above])
            self.offsets = np.concatenate([loss.counts.ravel(), np.zeros(n_items)])
            self.degree += len(self.rows)
        costs = loss.weights if self.n_slacks else np.zeros(0)
        self.linear = np.concatenate([np.zeros(self.n), self.t_unit * problem.prices, costs])

    def start(self) -> Array:
        """All weights 0."""
        return np.concatenate([np.zeros(self.n), np.ones(self.m), np.full(self.n_slacks, 2.0)])

    def __call__(self, z: Array, sharpness: float, with_slopes: bool = True) -> tuple[float, Array, Array]:
        """Value, infinite outside of the cones, gradient and Hessian."""
        w, t, n = self.unit * z[: self.n], self.t_unit * z[self.n : self.n + self.m], self.n
        value, g, h = self.problem.loss(w)
        value = 0.0 if self.n_slacks else value
        l2 = self.problem.l2
        total = sharpness * (value + 0.5 * float(l2 @ w**2) + float(self.linear @ z))
        slopes, bent = sharpness * self.linear, np.zeros((z.size, z.size))
        slopes[:n] += sharpness * self.unit * (g + l2 * w)
        bent[:n, :n] = sharpness * self.unit[:, None] * (h + np.diag(l2)) * self.unit
        for members, owners in self.problem.cones:
            v, u, s, r = w[members], t[owners], self.unit[members], self.t_unit[owners]
            left = u**2 - (v**2).sum(axis=1)
            if not ((left > 0) & (u > 0)).all():
                return np.inf, slopes, bent
            total -= float(np.log(left / r**2).sum())
            dv, du = 2 * v * s / left[:, None], -2 * u * r / left
            places = np.concatenate([members, n + owners[:, None]], axis=1)
            d = np.concatenate([dv, du[:, None]], axis=1)
            np.add.at(slopes, places, d)
            own = d[:, :, None] * d[:, None]
            sizes = np.concatenate([2 * s**2 / left[:, None], (-2 * r**2 / left)[:, None]], axis=1)
            own[:, np.arange(d.shape[1]), np.arange(d.shape[1])] += sizes
            np.add.at(bent, (places[:, :, None], places[:, None]), own)
        if self.n_slacks:
            left = self.rows @ z - self.offsets
            if not (left > 0).all():
                return np.inf, slopes, bent
            total -= float(np.log(left).sum())
            slopes -= self.rows.T @ (1.0 / left)
            bent += (self.rows / left[:, None] ** 2).T @ self.rows
        return total, slopes, bent

    def centred(self, z: Array, sharpness: float) -> tuple[Array, bool]:
        """Newton's method from z; whether it came to its end."""
        total, slopes, bent = self(z, sharpness)
        for _ in range(100):
            scale = 1.0 / np.sqrt(np.maximum(np.diagonal(bent), 1e-300))
            scaled = scale[:, None] * bent * scale + 1e-14 * np.eye(z.size)
            d = -scale * np.linalg.solve(scaled, scale * slopes)
            decrease = -float(slopes @ d)
            if not decrease > 1e-9 * max(1.0, 1e-5 * abs(total)):
                return z, True
            length = 1.0
            while not self(z + length * d, sharpness)[0] <= total - 1e-4 * length * decrease:
                length *= 0.5
                if length < 1e-12:
                    return z, decrease < 1e-3
            z = z + length * d
            total, slopes, bent = self(z, sharpness)
        return z, False
