"""Naive references for the tests: a chain by enumeration of all its K^T labellings, a forest by that of its labels.

Plain numpy, scipy and definitions only, for tiny items; `log_recursion` serves the long ones and is itself tested
against the enumeration.

Shapes: K states, N positions, I items, F features; scores (K, T) of one item, edges (K, K) from x to.
Weights are one vector w: W (K, F) and, of a chain, V (K, K), both in C order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Vector = NDArray[np.float64]


def log_sum_exp(values: Vector, axis: int = 0) -> Vector:
    largest = values.max(axis=axis, keepdims=True)
    return np.log(np.exp(values - largest).sum(axis=axis)) + largest.squeeze(axis)


@cache
def all_labellings(n_states: int, length: int) -> NDArray[np.int64]:
    """Every labelling of so many positions, (K^T, T)."""
    return np.array(list(itertools.product(range(n_states), repeat=length)))


class Enumeration:
    """The distribution of one item over all its labellings; edges (K, K), or those to each position, (T, K, K)."""

    def __init__(self, scores: Vector, edges: Vector) -> None:
        self.n_states, self.length = scores.shape
        edges = np.broadcast_to(edges, (self.length, self.n_states, self.n_states))
        self.labellings = all_labellings(self.n_states, self.length)
        self.scores = scores[self.labellings, np.arange(self.length)].sum(axis=1)
        to = np.arange(1, self.length)
        self.scores = self.scores + edges[to, self.labellings[:, :-1], self.labellings[:, 1:]].sum(axis=1)
        self.log_partition = float(log_sum_exp(self.scores))
        self.log_probability = self.scores - self.log_partition
        self.probability = np.exp(self.log_probability)

    @property
    def expected_score(self) -> float:
        return float(self.probability @ self.scores)

    @property
    def entropy(self) -> float:
        return float(-(self.probability @ self.log_probability))

    def index(self, labels: NDArray) -> int:
        """Where a labelling stands in the list."""
        return int(np.flatnonzero((self.labellings == labels).all(axis=1))[0])

    def node_marginals(self) -> Vector:
        """P(y_t = k), (K, T)."""
        return np.array(
            [np.bincount(states, self.probability, self.n_states) for states in self.labellings.T]
        ).T

    def pair_counts(self) -> Vector:
        """Expected number of transitions j -> k, (K, K)."""
        return self.pair_marginals().sum(axis=0)

    def pair_marginals(self) -> Vector:
        """P(y_{t-1} = j, y_t = k), (T, K, K), zeros at the first position."""
        pairs = np.zeros((self.length, self.n_states**2))
        for t in range(1, self.length):
            both = self.n_states * self.labellings[:, t - 1] + self.labellings[:, t]
            pairs[t] = np.bincount(both, self.probability, self.n_states**2)
        return pairs.reshape(-1, self.n_states, self.n_states)

    def best_path(self) -> NDArray:
        """The best labelling; of equals the one with the lowest last state, then the last but one ..."""
        best = self.labellings[self.scores == self.scores.max()]
        return min(best, key=lambda labels: tuple(labels[::-1]))

    def mixture_entropy(self, labels: NDArray, s: float) -> float:
        """Entropy of s P + (1 - s) delta(labels)."""
        return mixture_entropy(self.probability, self.index(labels), s)


def mixture_entropy(p: Vector, observed: int, s: float) -> float:
    """Entropy of s p + (1 - s) delta(observed)."""
    q = s * p
    q[observed] += 1.0 - s
    q = q[q > 0]
    return float(-(q @ np.log(q)))


class Forest:
    """The labels of a forest, each with its path: `is_on_path[i, k]`, whether label i is node k or under it."""

    def __init__(self, parents: NDArray[np.int32], is_label: NDArray[np.bool_]) -> None:
        self.labels = np.flatnonzero(is_label)
        self.is_on_path = np.zeros((self.labels.size, parents.size))
        for i, node in enumerate(self.labels):
            while node >= 0:
                self.is_on_path[i, node] = 1.0
                node = parents[node]

    def index(self, targets: NDArray) -> NDArray:
        """Where nodes stand among the labels."""
        return np.searchsorted(self.labels, targets)

    def label_scores(self, scores: Vector) -> Vector:
        """Sums along the paths, (labels, N), of node scores (K, N)."""
        return self.is_on_path @ scores

    def log_probabilities(self, scores: Vector) -> Vector:
        """Log-probabilities of the labels, (labels, N)."""
        totals = self.label_scores(scores)
        return totals - log_sum_exp(totals)

    def marginals(self, scores: Vector) -> Vector:
        """P(the label is node k or under it), (K, N)."""
        return self.is_on_path.T @ np.exp(self.log_probabilities(scores))

    def observed(self, targets: NDArray) -> Vector:
        """The targets and what is above them, (K, N)."""
        return self.is_on_path[self.index(targets)].T


def log_recursion(scores: Vector, edges: Vector) -> tuple[float, Vector, Vector]:
    """log Z, node marginals (K, T) and pair counts (K, K), in logarithms normalised at every position."""
    n_states, length = scores.shape
    alpha, beta = np.zeros_like(scores), np.zeros_like(scores)
    log_partition = 0.0
    for t in range(length):
        alpha[:, t] = scores[:, t] + (log_sum_exp(alpha[:, t - 1, None] + edges) if t > 0 else 0.0)
        norm = float(log_sum_exp(alpha[:, t]))
        alpha[:, t] -= norm
        log_partition += norm
    counts = np.zeros((n_states, n_states))
    for t in range(length - 2, -1, -1):
        onwards = edges + scores[:, t + 1] + beta[:, t + 1]
        beta[:, t] = log_sum_exp(onwards, axis=1)
        beta[:, t] -= beta[:, t].max()
        pair = alpha[:, t, None] + onwards
        counts += np.exp(pair - log_sum_exp(pair.ravel()))
    marginals = alpha + beta
    return log_partition, np.exp(marginals - log_sum_exp(marginals)), counts


class Penalised:
    """What a loss with a penalty is worth at dense weights (d,), and the least that it can be worth."""

    n_coords: Any
    loss: Any
    gradient: Any

    def evaluate(self, w: Vector) -> tuple[float, Vector]:
        """Loss and gradient."""
        return self.loss(w), self.gradient(w)

    @cached_property
    def l1_max(self) -> float:
        """The smallest l1 for which all weights are 0: the largest gradient at 0."""
        return float(np.abs(self.evaluate(np.zeros(self.n_coords))[1]).max())

    def value(self, w: Vector, l1: float, l2: float, unpenalised: Iterable[int] = ()) -> float:
        """Loss and penalty; coordinates in `free` cost nothing."""
        paid = np.delete(w, list(unpenalised))
        return self.evaluate(w)[0] + l1 * float(np.abs(paid).sum()) + 0.5 * l2 * float(paid @ paid)

    @cached_property
    def known_optima(self) -> dict[Any, tuple[float, Vector]]:
        """Those that were asked for, by penalty."""
        return {}

    def optimum(self, l1: float, l2: float, unpenalised: Iterable[int] = ()) -> tuple[float, Vector]:
        """The smallest value, and weights that have it: scipy's L-BFGS-B on w = u - v, u and v >= 0."""
        key = l1, l2, tuple(unpenalised)
        if key not in self.known_optima:
            self.known_optima[key] = self._optimum(*key)
        value, w = self.known_optima[key]
        return value, w.copy()

    def _optimum(self, l1: float, l2: float, unpenalised: Iterable[int]) -> tuple[float, Vector]:
        d = self.n_coords
        paid = np.ones(d)
        paid[list(unpenalised)] = 0.0

        def split(uv: Vector) -> tuple[float, Vector]:
            w = uv[:d] - uv[d:]
            value, g = self.evaluate(w)
            g = g + l2 * paid * w
            value += l1 * float(np.tile(paid, 2) @ uv) + 0.5 * l2 * float(paid @ (w * w))
            return value, np.concatenate([g + l1 * paid, -g + l1 * paid])

        found = optimize.minimize(
            split,
            np.zeros(2 * d),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * (2 * d),
            options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
        )
        w = found.x[:d] - found.x[d:]
        return self.value(w, l1, l2, unpenalised), w


@dataclass(frozen=True)
class DenseProblem(Penalised):
    """A tiny training problem with dense features x (N, F); every number of it by enumeration."""

    x: Vector
    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    item_weights: Vector
    n_states: int

    @property
    def n_node_coords(self) -> int:
        return self.n_states * self.x.shape[1]

    @property
    def n_coords(self) -> int:
        return self.n_node_coords + self.n_states**2

    @property
    def position_weights(self) -> Vector:
        return np.repeat(self.item_weights, np.diff(self.offsets))

    def items(self, w: Vector) -> list[Enumeration]:
        edges = w[self.n_node_coords :].reshape(self.n_states, self.n_states)
        scores = w[: self.n_node_coords].reshape(self.n_states, -1) @ self.x.T
        return [Enumeration(scores[:, a:b], edges) for a, b in pairwise(self.offsets)]

    def labels(self) -> list[NDArray]:
        return [self.targets[a:b] for a, b in pairwise(self.offsets)]

    def log_likelihoods(self, w: Vector) -> Vector:
        """log P(y_i | x_i), (I,)."""
        pairs = zip(self.items(w), self.labels(), strict=True)
        return np.array([item.log_probability[item.index(y)] for item, y in pairs])

    def loss(self, w: Vector) -> float:
        return float(-(self.item_weights @ self.log_likelihoods(w)))

    def marginals(self, w: Vector) -> Vector:
        return np.hstack([item.node_marginals() for item in self.items(w)])

    def expected_edges(self, w: Vector) -> Vector:
        pairs = zip(self.item_weights, self.items(w), strict=True)
        return sum(c * item.pair_counts() for c, item in pairs).ravel()

    def gradient(self, w: Vector) -> Vector:
        """Expected less observed feature counts, each item weighed."""
        residual = self.marginals(w)
        residual[self.targets, np.arange(self.targets.size)] -= 1.0
        edges = self.expected_edges(w)
        for c, y in zip(self.item_weights, self.labels(), strict=True):
            np.add.at(edges, y[:-1] * self.n_states + y[1:], -c)
        return np.concatenate([((residual * self.position_weights) @ self.x).ravel(), edges])

    def dual_loss(self, w: Vector, s: float) -> float:
        """The entropy of the mixtures s P_w + (1 - s) delta(y), each item weighed."""
        triples = zip(self.item_weights, self.items(w), self.labels(), strict=True)
        return float(sum(c * item.mixture_entropy(y, s) for c, item, y in triples))

    def token_model(self, w: Vector, c: Vector) -> Vector:
        """sum_t c_t (diag p_t - p_t p_t') (x) x_t x_t', on the node coordinates; c (N,)."""
        p = self.marginals(w)
        model = np.zeros((self.n_node_coords, self.n_node_coords))
        for t in range(c.size):
            within = np.diag(p[:, t]) - np.outer(p[:, t], p[:, t])
            model += c[t] * np.kron(within, np.outer(self.x[t], self.x[t]))
        return model


@dataclass(frozen=True)
class RuledProblem(DenseProblem):
    """A training problem under rules: booleans (K, K), (K,) and (K,), what may follow what, begin and end an item."""

    rules: tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]

    def items(self, w: Vector) -> list[Enumeration]:
        edges = w[self.n_node_coords :].reshape(self.n_states, self.n_states)
        scores = w[: self.n_node_coords].reshape(self.n_states, -1) @ self.x.T
        return [ruled(scores[:, a:b], edges, self.rules) for a, b in pairwise(self.offsets)]


@dataclass(frozen=True)
class BigramProblem(DenseProblem):
    """A training problem whose transitions depend on features z (N, B), too: weights W, V, and U_b (K, K) each."""

    z: Vector

    @property
    def n_coords(self) -> int:
        return self.n_node_coords + (1 + self.z.shape[1]) * self.n_states**2

    @property
    def of_transitions(self) -> Vector:
        """What multiplies V and each U_b at each position, (N, 1 + B)."""
        return np.column_stack([np.ones(len(self.z)), self.z])

    def items(self, w: Vector) -> list[Enumeration]:
        edges = w[self.n_node_coords :].reshape(-1, self.n_states, self.n_states)
        tables = np.einsum("tb,bjk->tjk", self.of_transitions, edges)
        scores = w[: self.n_node_coords].reshape(self.n_states, -1) @ self.x.T
        return [Enumeration(scores[:, a:b], tables[a:b]) for a, b in pairwise(self.offsets)]

    def gradient(self, w: Vector) -> Vector:
        """Expected less observed counts."""
        pairs = np.concatenate([item.pair_marginals() for item in self.items(w)])
        for (a, b), y in zip(pairwise(self.offsets), self.labels(), strict=True):
            pairs[np.arange(a + 1, b), y[:-1], y[1:]] -= 1.0
        pairs *= self.position_weights[:, None, None]
        residual = self.marginals(w)
        residual[self.targets, np.arange(self.targets.size)] -= 1.0
        edges = np.einsum("tb,tjk->bjk", self.of_transitions, pairs)
        return np.concatenate([((residual * self.position_weights) @ self.x).ravel(), edges.ravel()])


def ruled(scores: Vector, edges: Vector, rules: Any, allowed: Any = None) -> Enumeration:
    """The distribution of one item over the labellings that keep the rules, and have states `allowed` (K, T)."""
    transitions, start, end = rules
    scores = scores.copy() if allowed is None else np.where(allowed, scores, -np.inf)
    scores[~start, 0] = -np.inf
    scores[~end, -1] = -np.inf
    return Enumeration(scores, np.where(transitions, edges, -np.inf))


def random_rules(random: np.random.Generator, n_states: int, share: float = 0.35) -> tuple[Any, Any, Any]:
    """Rules that forbid a share of all, but never all labellings: state 0 may begin, end and follow itself."""
    transitions = random.random((n_states, n_states)) > share
    start, end = random.random(n_states) > share, random.random(n_states) > share
    transitions[0, 0] = start[0] = end[0] = True
    return transitions, start, end


@cache
def random_problem(
    seed: int,
    n_states: int = 3,
    n_features: int = 4,
    lengths: tuple[int, ...] = (1, 3, 2, 4, 1, 3),
    is_binary: bool = False,
    item_weights: tuple[float, ...] | None = None,
) -> DenseProblem:
    """Random features (about half of them 0) and labels."""
    random = np.random.default_rng(seed)
    n_positions = sum(lengths)
    x = (random.random((n_positions, n_features)) < 0.5).astype(float)
    if not is_binary:
        x *= random.normal(size=x.shape)
    return DenseProblem(
        x,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        random.integers(0, n_states, n_positions).astype(np.int32),
        np.ones(len(lengths)) if item_weights is None else np.array(item_weights),
        n_states,
    )


def finite_differences(function: Callable[[Vector], Vector | float], w: Vector, step: float = 1e-5) -> Vector:
    """Central differences of `function` (a scalar or a vector) by each weight: (d,) or (d, size)."""
    return np.array(
        [(np.asarray(function(w + e)) - function(w - e)) / (2 * step) for e in step * np.eye(w.size)]
    )


def elastic_net_conjugate(g: Vector, l1: float, l2: float) -> float:
    """sup_w -g'w - l1 |w|_1 - l2/2 |w|^2."""
    excess = np.maximum(np.abs(g) - l1, 0.0)
    if l2 == 0:
        return np.inf if excess.max(initial=0.0) > 1e-12 * l1 else 0.0
    return float((excess**2).sum() / (2 * l2))
