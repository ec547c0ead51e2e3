"""One inference pass over a chain, against the floating-point bound of the machine.

A position needs 3 K^2 multiply-adds (forward, backward, expected transitions) and K exponentials. The
yardstick is what the machine's BLAS manages on the same core in a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.problem import Problem


@dataclass(frozen=True)
class PassTime:
    """Microseconds a position on one core, the bound on it, and what the bound is made of."""

    measured: float
    bound: float
    n_states: int
    gigaflops: float
    exp_nanoseconds: float

    @property
    def distance(self) -> float:
        """How many times the bound."""
        return self.measured / self.bound

    def describe_bound(self) -> str:
        return (
            f"Bound on an inference pass: {self.bound:.3f} us a position for 3 x {self.n_states}^2 "
            f"multiply-adds (forward, backward, transitions) at the {self.gigaflops:.0f} GFlop/s of a matrix "
            f"product on this core, and {self.n_states} exponentials of {self.exp_nanoseconds:.1f} ns."
        )


def measure(recipe: str, weights: Any, edges: np.ndarray) -> PassTime:
    """Time `Chain.infer` on one thread, at the scores of trained weights."""
    from crfqn.structures.chain import Chain

    problem = Problem.of_recipe(recipe)
    sequences, n_states = problem.X_train, len(edges)
    scores = np.ascontiguousarray((sequences.matrix @ weights.T).toarray().T)
    codes = np.unique([label for labels in problem.y_train for label in labels], return_inverse=True)[1]
    targets = codes.astype(np.int32)
    chain = Chain(sequences.offsets, n_states)
    seconds = best_time(lambda: chain.infer(scores, edges, targets), 20)
    flops, exp_seconds = peak_flops(), exponential_seconds()
    bound = 2 * 3 * n_states**2 / flops + n_states * exp_seconds
    return PassTime(
        measured=1e6 * seconds / sequences.n_positions,
        bound=1e6 * bound,
        n_states=n_states,
        gigaflops=flops / 1e9,
        exp_nanoseconds=1e9 * exp_seconds,
    )


def peak_flops(size: int = 1000) -> float:
    """Floating-point operations a second of a matrix product on one core, double precision."""
    a, b = np.random.default_rng(0).random((2, size, size))
    with threadpool_limits(1):
        return 2 * size**3 / best_time(lambda: a @ b, 10)


def exponential_seconds(size: int = 10_000) -> float:
    """Seconds of one exponential in an array that fits into the cache, on one core."""
    x, out = -np.random.default_rng(0).random(size), np.empty(size)
    return best_time(lambda: np.exp(x, out=out), 50) / size


def best_time(task: Callable[[], object], repeats: int) -> float:
    """The least of several times, in seconds: what the machine can do when nobody disturbs it."""
    times = []
    for _ in range(repeats + 1):
        begin = perf_counter()
        task()
        times.append(perf_counter() - begin)
    return min(times[1:])  # the first one warms up
