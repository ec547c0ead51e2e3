"""One inference pass over a chain or a taxonomy, against the bound of the machine.

A chain's position needs 3 K^2 multiply-adds (forward, backward, expected transitions) and K exponentials; the yardstick
is what the machine's BLAS manages on the same core in a matrix product. A taxonomy's node and item has a score that is
read and a residual that is written, 24 bytes with the line that a write fetches first; the yardstick is what the same
core manages in NumPy's `residual = scores + 1` over arrays of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.measuring import processor_times
from harness.problems import Problem, read_stored
from threadpoolctl import threadpool_limits

from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

BYTES = 24


@dataclass(frozen=True)
class PassTime:
    """Nanoseconds a position (of a taxonomy: a node and item) on one core, the bound, and what that is made of."""

    measured: float
    bound: float
    n_states: int
    gigaflops: float
    exp_nanoseconds: float
    n_labels: int = 0
    n_items: int = 0

    @property
    def distance(self) -> float:
        return self.measured / self.bound

    def describe_chains(self) -> str:
        return (
            f"Bound on an inference pass: {1e-3 * self.bound:.3f} us a position for 3 x {self.n_states}^2 "
            f"multiply-adds (forward, backward, transitions) at the {self.gigaflops:.0f} GFlop/s of a matrix "
            f"product on this core, and {self.n_states} exponentials of {self.exp_nanoseconds:.1f} ns."
        )

    def describe_nodes(self) -> str:
        exponentials = self.exp_nanoseconds * self.n_labels / self.n_states
        return (
            f"Bound on an inference pass over {self.n_states:,} nodes and {self.n_items:,} items: {self.bound:.2f} ns "
            f"a node and item for {BYTES} bytes at the {BYTES / self.bound:.1f} GB/s of `residual = scores + 1` on "
            f"this core. NumPy's exponentials of the {self.n_labels:,} labels would take {exponentials:.2f} ns more."
        )


def measure_chains(path: str, weights: Any, edges: np.ndarray) -> PassTime:
    """Time `Chain.infer` on one thread, at the scores of trained weights."""
    problem: Problem = read_stored(path)
    sequences, n_states = problem.X_train, len(edges)
    scores = np.ascontiguousarray((sequences.matrix @ weights.T).toarray().T)
    codes = np.unique([label for labels in problem.y_train for label in labels], return_inverse=True)[1]
    targets = codes.astype(np.int32)
    chain = Chain(sequences.offsets, n_states)
    seconds = min(processor_times(lambda: chain.infer(scores, edges, targets), 20))
    flops, exp_seconds = peak_flops(), exponential_seconds()
    bound = 2 * 3 * n_states**2 / flops + n_states * exp_seconds
    return PassTime(
        1e9 * seconds / sequences.n_positions, 1e9 * bound, n_states, flops / 1e9, 1e9 * exp_seconds
    )


def measure_nodes(path: str, weights: Any) -> PassTime:
    """Time `Taxonomy.infer` (value and marginals) on one thread, at the scores of trained weights."""
    problem: Problem = read_stored(path)
    tree, n_items = problem.taxonomy, len(problem.y_train)
    scores = np.ascontiguousarray((problem.X_train @ weights.T).toarray().T)
    targets, residual = tree.nodes_of(problem.y_train.tolist()), np.empty_like(scores)
    taxonomy = Taxonomy(tree.parents, tree.is_leaf, n_items)
    measured = min(processor_times(lambda: taxonomy.infer(scores, targets=targets), 10))
    bound = min(processor_times(lambda: np.add(scores, 1.0, out=residual), 10))
    exp_nanoseconds = 1e9 * exponential_seconds()
    each = 1e9 / scores.size
    return PassTime(
        each * measured, each * bound, tree.n_nodes, np.nan, exp_nanoseconds, len(tree.leaves), n_items
    )


def peak_flops(size: int = 1000) -> float:
    """Floating-point operations a second of a matrix product on one core, double precision."""
    a, b = np.random.default_rng(0).random((2, size, size))
    with threadpool_limits(1):
        return 2 * size**3 / min(processor_times(lambda: a @ b, 10))


def exponential_seconds(size: int = 10_000) -> float:
    """Seconds of one exponential in an array that fits into the cache, on one core."""
    x, out = -np.random.default_rng(0).random(size), np.empty(size)
    return min(processor_times(lambda: np.exp(x, out=out), 50)) / size
