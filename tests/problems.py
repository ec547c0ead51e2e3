"""Small generated problems, and an optimum of them that owes nothing to the library.

The reference enumerates every labelling of every item: counts phi (labellings x weights), loss = sum_i c_i
(log sum exp(phi w) - phi[observed] w). Its optimum comes from scipy's L-BFGS-B on w = u - v, u, v >= 0.

Shapes: I items, N positions, F features, K states, d = K F + K K weights.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize
from scipy.special import logsumexp

from crfqn import Sequences
from crfqn.features import FeatureStore
from crfqn.objectives.crf import CRFObjective
from crfqn.structures.chain import Chain
from crfqn.structures.structure import Inference


@dataclass(frozen=True, eq=False)
class Problem:
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

    def objective(self, chain: Any = None, n_threads: int = 1) -> CRFObjective:
        """The library's loss; `chain` may stand in for the structure."""
        store = FeatureStore.from_matrix(self.matrix, self.offsets)
        chain = chain or Chain(self.offsets, self.n_states)
        return CRFObjective(store, chain, self.targets, self.weights, n_threads=n_threads)

    def with_matrix(self, matrix: NDArray[np.float64]) -> Problem:
        return replace(self, matrix=matrix)

    @cached_property
    def l1_max(self) -> float:
        """The smallest l1 for which all weights are 0: the largest gradient at 0."""
        return float(np.abs(self.loss(np.zeros(self.n_coords))[1]).max())

    @cached_property
    def counts(self) -> list[tuple[NDArray[np.float64], int, float]]:
        """Of each item: phi (K ** T, d), the row of the observed labelling, the item's weight."""
        weights = np.ones(self.n_items) if self.weights is None else self.weights
        result = []
        for x, y, weight in zip(self.items, self.labels, weights, strict=True):
            paths = list(itertools.product(range(self.n_states), repeat=len(y)))
            phi = np.array([self._count(x, path) for path in paths])
            result.append((phi, paths.index(tuple(y)), float(weight)))
        return result

    def _count(self, x: NDArray[np.float64], path: tuple[int, ...]) -> NDArray[np.float64]:
        node = np.zeros((self.n_states, self.n_features))
        edge = np.zeros((self.n_states, self.n_states))
        for row, state in zip(x, path, strict=True):
            node[state] += row
        for first, second in itertools.pairwise(path):
            edge[first, second] += 1
        return np.concatenate([node.ravel(), edge.ravel()])

    def loss(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Loss and gradient at the dense weights w (d,), by enumeration."""
        value, gradient = 0.0, np.zeros(self.n_coords)
        for phi, observed, weight in self.counts:
            scores = phi @ w
            log_z = logsumexp(scores)
            value += weight * (log_z - scores[observed])
            gradient += weight * (np.exp(scores - log_z) @ phi - phi[observed])
        return float(value), gradient

    def value(self, w: NDArray[np.float64], l1: float, l2: float, free: Any = ()) -> float:
        """Loss and penalty at the dense weights w (d,); coordinates in `free` cost nothing."""
        paid = np.delete(w, list(free))
        return self.loss(w)[0] + l1 * float(np.abs(paid).sum()) + 0.5 * l2 * float(paid @ paid)

    def optimum(self, l1: float, l2: float, free: Any = ()) -> tuple[float, NDArray[np.float64]]:
        """The smallest value, and weights (d,) that have it."""
        d = self.n_coords
        paid = np.ones(d)
        paid[list(free)] = 0.0

        def split(uv: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            w = uv[:d] - uv[d:]
            value, g = self.loss(w)
            g = g + l2 * paid * w
            value += l1 * float(np.tile(paid, 2) @ uv) + 0.5 * l2 * float(paid @ (w * w))
            return value, np.concatenate([g + l1 * paid, -g + l1 * paid])

        found = scipy_minimize(
            split,
            np.zeros(2 * d),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * (2 * d),
            options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
        )
        w = found.x[:d] - found.x[d:]
        return self.value(w, l1, l2, free), w


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


def dense_weights(problem: Problem, coords: NDArray[np.int64], weights: NDArray[np.float64]) -> Any:
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
def ends_within(seconds: float) -> Iterator[None]:
    """Fail if the block runs longer, even where nothing in it looks at a limit (on Windows: no limit)."""
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
