"""Links of generalised linear models as gradients of convex functions: g = grad Phi, E[y | x] = g(W x).

Phi can be any convex, differentiable function with a Lipschitz gradient: subclass `Potential`. Certificates need its
conjugate, exact intercepts its second derivatives. K states, N positions; scores, predictions, targets are (K, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp, softmax, xlogy

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.losses.intercept_bound import label_difference_bounds, label_range


@dataclass(frozen=True)
class Potential(ABC):
    """A convex function Phi of the scores of a position.

    Parameters
    ----------
    lipschitz : float > 0
        L with ||g(u) - g(v)|| <= L ||u - v|| for all scores of a position (Agarwal et al. 2014, equation 8).

    Raises
    ------
    InputError
    """

    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.lipschitz) and self.lipschitz > 0):
            raise InputError(f"lipschitz: expected a finite number > 0, got {self.lipschitz!r}")

    @abstractmethod
    def value(self, scores: Vector) -> Vector:
        """Return Phi of each position, (N,)."""

    @abstractmethod
    def gradient(self, scores: Vector) -> Vector:
        """Return the predictions g(scores), (K, N)."""

    def conjugate(self, predictions: Vector) -> Vector | None:
        """Return sup_s <predictions, s> - Phi(s) of each position, (N,); None if it is not known."""
        return None

    def score_ranges(self, targets: Vector, losses: Vector) -> tuple[Vector, Vector]:
        """Return the lowest and the highest scores, (K, N), with which no position's loss exceeds `losses`, (N,); by
        default infinite: the loss bounds no single score."""
        return np.full(targets.shape, -np.inf), np.full(targets.shape, np.inf)

    def difference_bounds(self, targets: Vector, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return bounds on b_k and on -b_k that the losses of the positions prove, (2, K)."""
        low, high = self.score_ranges(targets, losses)
        bounds = (np.stack([high, -low]) + change) / np.where(x > 0, x, np.nan)
        return np.fmin.reduce(bounds, axis=2, initial=np.inf)

    def intercept_bound(self, table: Vector) -> float:
        """Return a bound on the intercepts of some optimum, from the minimum of the `difference_bounds`."""
        return float(table.max())

    def second(self, r: int, s: int, scores: Vector) -> Vector:
        """Return the second derivatives by the scores of states r and s, (N,); by default L on the diagonal."""
        return np.full(scores.shape[1], self.lipschitz if r == s else 0.0)


@dataclass(frozen=True)
class SquaredNorm(Potential):
    """||s||^2 / 2, whose gradient is the identity: linear regression."""

    def value(self, scores: Vector) -> Vector:
        """Return ||s||^2 / 2."""
        return 0.5 * np.einsum("kn,kn->n", scores, scores)

    def gradient(self, scores: Vector) -> Vector:
        """Return the scores."""
        return scores.copy()

    def conjugate(self, predictions: Vector) -> Vector:
        """Return the function itself."""
        return self.value(predictions)

    def score_ranges(self, targets: Vector, losses: Vector) -> tuple[Vector, Vector]:
        """Return y -+ sqrt(2 loss)."""
        room = np.sqrt(2.0 * losses)
        return targets - room, targets + room

    def second(self, r: int, s: int, scores: Vector) -> Vector:
        """Return the identity's entries."""
        return np.full(scores.shape[1], float(r == s))


@dataclass(frozen=True)
class LogSumExp(Potential):
    """log sum_k exp(s_k), whose gradient is the softmax: the multinomial logit model. No eigenvalue of diag p - p p'
    exceeds 1/2, which is its Lipschitz constant; the paper uses 1."""

    lipschitz: float = 0.5

    def value(self, scores: Vector) -> Vector:
        """Return log sum_k exp(s_k)."""
        return logsumexp(scores, axis=0)

    def gradient(self, scores: Vector) -> Vector:
        """Return the softmax."""
        return softmax(scores, axis=0)

    def conjugate(self, predictions: Vector) -> Vector:
        """Return sum_k q_k log q_k, for q on the simplex."""
        return xlogy(predictions, predictions).sum(axis=0)

    def difference_bounds(self, targets: Vector, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return bounds by label from the positions that have it alone; mixed targets prove nothing."""
        excess = np.where(targets.max(axis=0) == 1.0, losses + change, np.inf)
        return label_difference_bounds(targets.argmax(axis=0), targets.shape[0], excess, x)

    # The range of the intercepts: a constant that is added to all of them changes nothing.
    intercept_bound = staticmethod(label_range)

    def second(self, r: int, s: int, scores: Vector) -> Vector:
        """Return the entries of diag p - p p'."""
        p = softmax(scores, axis=0)
        return p[r] * (float(r == s) - p[s])


@dataclass(frozen=True)
class SoftPlus(Potential):
    """sum_k log(1 + exp(s_k)), whose gradient is the logistic function of each score: several labels may be
    true."""

    lipschitz: float = 0.25

    def value(self, scores: Vector) -> Vector:
        """Return sum_k log(1 + exp(s_k))."""
        return np.logaddexp(0.0, scores).sum(axis=0)

    def gradient(self, scores: Vector) -> Vector:
        """Return 1 / (1 + exp(-s))."""
        return expit(scores)

    def conjugate(self, predictions: Vector) -> Vector:
        """Return sum_k q_k log q_k + (1 - q_k) log(1 - q_k), for q in the hypercube."""
        return (xlogy(predictions, predictions) + xlogy(1.0 - predictions, 1.0 - predictions)).sum(axis=0)

    def score_ranges(self, targets: Vector, losses: Vector) -> tuple[Vector, Vector]:
        """Return -loss as the lowest score of a label that is present, loss as the highest of others, because
        log(1 + exp(s)) >= s."""
        low, high = np.full(targets.shape, -np.inf), np.full(targets.shape, np.inf)
        return np.where(targets == 1, -losses, low), np.where(targets == 0, losses, high)

    def second(self, r: int, s: int, scores: Vector) -> Vector:
        """Return p (1 - p) on the diagonal."""
        p = expit(scores[r])
        return p * (1.0 - p) if r == s else np.zeros(scores.shape[1])


LINKS: Mapping[str, Potential] = {"identity": SquaredNorm(), "softmax": LogSumExp(), "sigmoid": SoftPlus()}


def named_link(link: object) -> Potential:
    """Return the potential whose gradient is the link of this name, or the object itself; else raise InputError."""
    if isinstance(link, Potential):
        return link
    if not isinstance(link, str) or link not in LINKS:
        raise InputError(f"link: expected one of {[*LINKS]} or a Potential, got {link!r}")
    return LINKS[link]
