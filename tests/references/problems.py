"""Small generated problems, and an optimum of them that owes nothing to the library.

The reference enumerates every labelling of every item: counts phi (labellings x weights), loss = sum_i c_i
(log sum exp(phi w) - phi[observed] w). Its optimum comes from scipy's L-BFGS-B on w = u - v, u, v >= 0.

Shapes: I items, N positions, F features, K states, d weights: K F + K K of a chain, K F of a taxonomy.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from references import DenseProblem, Forest, Penalised, all_labellings, mixture_entropy

from crfqn import Sequences
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective, build_objective
from crfqn.objectives.point import Point
from crfqn.structures.chain import Chain
from crfqn.structures.structure import Inference
from crfqn.structures.taxonomy import Taxonomy
from crfqn.threads import Pool


def make_likelihood(
    store: FeatureStore,
    structure: Any,
    targets: NDArray[np.int32],
    weights: NDArray[np.float64] | None = None,
    n_threads: int | None = None,
    support: Any = None,
) -> Objective:
    """The library's negative log-likelihood over sparse features."""
    return build_objective(
        SparseMap(store, Pool(n_threads)), Likelihood(structure, targets), weights, support
    )


class CurvatureAt:
    """The curvature of a point, question by question."""

    def __init__(self, point: Any) -> None:
        self.feature_scale, self.matrix = point.objective.feature_scale, point.hessian_model
        self.diagonal = lambda coords: point.curvature(coords).diagonal
        self.majorant = lambda coords: point.curvature(coords).majorant


curvature_at = CurvatureAt


@dataclass(frozen=True, eq=False)
class Problem(Penalised):
    """Features (N, F), items cut at `offsets` (I + 1,), labels 0 ... K - 1 (N,), item weights (I,) or None."""

    matrix: NDArray[np.float64]
    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    n_states: int
    weights: NDArray[np.float64] | None = None

    @property
    def n_items(self) -> int:
        return self.offsets.size - 1

    @property
    def n_features(self) -> int:
        return self.matrix.shape[1]

    @property
    def n_coords(self) -> int:
        return self.n_states * (self.n_features + self.n_states)

    @property
    def sequences(self) -> Sequences:
        return Sequences(self.matrix, self.offsets)

    @property
    def items(self) -> list[NDArray[np.float64]]:
        """The matrix cut into items."""
        return np.split(self.matrix, self.offsets[1:-1])

    @property
    def labels(self) -> list[list[int]]:
        """The labels cut into items."""
        return [part.tolist() for part in np.split(self.targets, self.offsets[1:-1])]

    def objective(self, chain: Any = None, n_threads: int = 1) -> Objective:
        """The library's loss; `chain` may stand in for the structure."""
        store = FeatureStore.from_matrix(self.matrix, self.offsets)
        chain = chain or Chain(self.offsets, self.n_states)
        return make_likelihood(store, chain, self.targets, self.weights, n_threads=n_threads)

    def with_matrix(self, matrix: NDArray[np.float64]) -> Problem:
        return replace(self, matrix=matrix)

    @cached_property
    def counts(self) -> list[tuple[NDArray[np.float64], int, float]]:
        """Of each item: phi (K ** T, d), the row of the observed labelling, the item's weight."""
        weights = np.ones(self.n_items) if self.weights is None else self.weights
        result = []
        for x, y, weight in zip(self.items, self.labels, weights, strict=True):
            paths = all_labellings(self.n_states, len(y))
            phi = np.array([self._count(x, path) for path in paths])
            result.append((phi, int((paths == y).all(axis=1).argmax()), float(weight)))
        return result

    def _count(self, x: NDArray[np.float64], path: tuple[int, ...]) -> NDArray[np.float64]:
        node = np.zeros((self.n_states, self.n_features))
        edge = np.zeros((self.n_states, self.n_states))
        for row, state in zip(x, path, strict=True):
            node[state] += row
        for first, second in itertools.pairwise(path):
            edge[first, second] += 1
        return np.concatenate([node.ravel(), edge.ravel()])

    def evaluate(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Loss and gradient at the dense weights w (d,), by enumeration."""
        phi, starts, observed, weights = self.all_counts
        scores = phi @ w
        largest = np.maximum.reduceat(scores, starts)
        n_labellings = np.diff([*starts, scores.size])
        exponentials = np.exp(scores - np.repeat(largest, n_labellings))
        sums = np.add.reduceat(exponentials, starts)
        value = weights @ (largest + np.log(sums) - scores[observed])
        residual = exponentials * np.repeat(weights / sums, n_labellings)
        residual[observed] -= weights
        return float(value), residual @ phi

    @cached_property
    def all_counts(self) -> tuple[NDArray[Any], ...]:
        """The counts of all items in one array, where each item starts, its observed row, its weight."""
        phi, observed, weights = zip(*self.counts, strict=True)
        starts = np.cumsum([0, *map(len, phi[:-1])])
        return np.concatenate(phi), starts, starts + np.array(observed), np.array(weights)


@dataclass(frozen=True, eq=False)
class TreeProblem(Penalised):
    """Features x (N, F), a forest (K,), labels as its nodes (N,), item weights (N,); the weights are W (K, F).

    Answers like `references.DenseProblem`, by enumeration of the labels.
    """

    x: NDArray[np.float64]
    parents: NDArray[np.int32]
    is_label: NDArray[np.bool_]
    targets: NDArray[np.int32]
    item_weights: NDArray[np.float64]

    @property
    def n_items(self) -> int:
        return self.targets.size

    @property
    def n_states(self) -> int:
        return self.parents.size

    @property
    def n_coords(self) -> int:
        return self.n_states * self.x.shape[1]

    @property
    def n_node_coords(self) -> int:
        return self.n_coords

    @property
    def offsets(self) -> NDArray[np.int64]:
        return np.arange(self.n_items + 1)

    @property
    def position_weights(self) -> NDArray[np.float64]:
        return self.item_weights

    @cached_property
    def forest(self) -> Forest:
        return Forest(self.parents, self.is_label)

    def structure(self) -> Taxonomy:
        return Taxonomy(self.parents, self.is_label, self.n_items)

    def objective(self, n_threads: int = 1) -> Objective:
        """The library's loss."""
        return objective_of(self, n_threads)

    def log_probabilities(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """(labels, N)."""
        return self.forest.log_probabilities(w.reshape(self.n_states, -1) @ self.x.T)

    def log_likelihoods(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """log P(y_i | x_i), (N,)."""
        return self.log_probabilities(w)[self.forest.index(self.targets), np.arange(self.n_items)]

    def marginals(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.forest.is_on_path.T @ np.exp(self.log_probabilities(w))

    def expected_edges(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.empty(0)

    def loss(self, w: NDArray[np.float64]) -> float:
        return float(-(self.item_weights @ self.log_likelihoods(w)))

    def gradient(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        residual = self.marginals(w) - self.forest.observed(self.targets)
        return ((residual * self.item_weights) @ self.x).ravel()

    def hessian(self, w: NDArray[np.float64], c: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """sum_t c_t (covariance of the nodes) (x) x_t x_t', (d, d); c (N,) are the item weights unless given."""
        p, nodes = np.exp(self.log_probabilities(w)), self.forest.is_on_path
        result = np.zeros((self.n_coords, self.n_coords))
        for t, weight in enumerate(self.item_weights if c is None else c):
            centred = nodes - p[:, t] @ nodes
            result += weight * np.kron(centred.T @ (centred * p[:, t, None]), np.outer(self.x[t], self.x[t]))
        return result

    def dual_loss(self, w: NDArray[np.float64], s: float) -> float:
        """The entropy of the mixtures s P_w + (1 - s) delta(y), each item weighed."""
        p, observed = np.exp(self.log_probabilities(w)), self.forest.index(self.targets)
        entropies = [mixture_entropy(p[:, t], observed[t], s) for t in range(self.n_items)]
        return float(self.item_weights @ entropies)


def labellings(problem: Problem | TreeProblem, i: int) -> tuple[NDArray, int, float, NDArray]:
    """Features of each labelling (labellings, d), the observed one, the item's weight, wrong positions of each."""
    if isinstance(problem, TreeProblem):
        forest = problem.forest
        phi = np.array([np.outer(path, problem.x[i]).ravel() for path in forest.is_on_path])
        observed = int(forest.index(problem.targets[i]))
        return phi, observed, problem.item_weights[i], (np.arange(len(phi)) != observed).astype(int)
    phi, observed, weight = problem.counts[i]
    length = len(problem.labels[i])
    paths = all_labellings(problem.n_states, length)
    return phi, observed, weight, (paths != paths[observed]).sum(axis=1)


def objective_of(problem: DenseProblem | TreeProblem, n_threads: int = 1) -> Objective:
    """The library's loss of a reference."""
    store = FeatureStore.from_matrix(problem.x, problem.offsets)
    is_tree = isinstance(problem, TreeProblem)
    structure = problem.structure() if is_tree else Chain(store.offsets, problem.n_states)
    return make_likelihood(store, structure, problem.targets, problem.item_weights, n_threads)


def point_at(objective: Objective, w: NDArray[np.float64]) -> Point:
    """The point at dense weights, given by the non-zeros."""
    coords = np.flatnonzero(w)
    return objective.at(coords, w[coords])


# Two trees of three levels and a node of its own; node 3 is an only child, and has one.
PARENTS = np.array([-1, -1, -1, 0, 1, 1, 1, 3, 5, 5], np.int32)
LEAVES = np.isin(np.arange(10), PARENTS, invert=True)
SHAPES: dict[str, tuple[NDArray[np.int32], NDArray[np.bool_]]] = {
    "forest": (PARENTS, LEAVES),
    "labels at inner nodes": (PARENTS, LEAVES | np.isin(np.arange(10), [0, 5])),
    "flat": (np.full(4, -1, np.int32), np.ones(4, bool)),
    "chain of nodes": (np.arange(-1, 3, dtype=np.int32), np.array([True, False, False, True])),
}


@cache
def make_tree_problem(
    shape: str = "forest",
    seed: int = 0,
    n_items: int = 40,
    n_features: int = 5,
    density: float = 0.5,
    is_binary: bool = False,
    has_weights: bool = False,
) -> TreeProblem:
    """Random items whose labels depend on the features through all nodes; every label is observed."""
    rng = np.random.default_rng(seed)
    parents, is_label = SHAPES[shape]
    x = (rng.random((n_items, n_features)) < density).astype(float)
    if not is_binary:
        x *= rng.normal(size=x.shape)
    forest = Forest(parents, is_label)
    scores = forest.label_scores(rng.normal(size=(parents.size, n_features)) @ x.T)
    which = np.argmax(scores + rng.gumbel(size=scores.shape), axis=0)
    which[: forest.labels.size] = np.arange(forest.labels.size)
    item_weights = rng.choice([0.0, 0.5, 1.0, 2.5], n_items) if has_weights else np.ones(n_items)
    return TreeProblem(x, parents, is_label, forest.labels[which].astype(np.int32), item_weights)


@cache
def make_problem(
    seed: int = 0,
    n_items: int = 12,
    n_features: int = 6,
    n_states: int = 3,
    longest: int = 4,
    is_binary: bool = True,
) -> Problem:
    """Random items of 1 ... `longest` positions whose labels depend on the features and on each other."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n_items)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    matrix = (rng.random((offsets[-1], n_features)) < 0.4).astype(np.float64)
    if not is_binary:
        matrix *= rng.normal(size=matrix.shape)
    # Every feature fires somewhere and every state is observed, so that named inputs have the same columns.
    matrix[np.arange(n_features) % offsets[-1], np.arange(n_features)] = 1.0
    node, edge = rng.normal(size=(n_features, n_states)), 1.5 * rng.normal(size=(n_states, n_states))
    scores = matrix @ node + rng.gumbel(size=(offsets[-1], n_states))
    targets = np.empty(offsets[-1], np.int32)
    for start, end in itertools.pairwise(offsets):
        targets[start] = np.argmax(scores[start])
        for t in range(start + 1, end):
            targets[t] = np.argmax(scores[t] + edge[targets[t - 1]])
    targets[:n_states] = np.arange(n_states)[: targets.size]
    return Problem(matrix, offsets, targets, n_states)


def dense_weights(problem: Penalised, coords: NDArray[np.int64], weights: NDArray[np.float64]) -> Any:
    """Sparse weights as an array (d,)."""
    w = np.zeros(problem.n_coords)
    w[coords] = weights
    return w


class CountedChain(Chain):
    """A chain that counts its inference passes, and calls `on_pass(number)` in each."""

    def __init__(self, problem: Problem, on_pass: Callable[[int], None] = lambda number: None) -> None:
        super().__init__(problem.offsets, problem.n_states)
        object.__setattr__(self, "on_pass", on_pass)
        object.__setattr__(self, "n_passes", 0)

    def infer(self, *args: Any, **kwargs: Any) -> Inference:
        object.__setattr__(self, "n_passes", self.n_passes + 1)
        self.on_pass(self.n_passes)
        return super().infer(*args, **kwargs)


@contextmanager
def ends_within(seconds: float = 120.0) -> Iterator[None]:
    """Fail if the block hangs, even where nothing in it looks at a limit (on Windows: no limit).

    A watchdog, no measure of speed: what takes a second here may take ten on a busy machine.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise AssertionError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
