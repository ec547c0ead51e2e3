"""One inference pass over a chain, against the floating-point bound of the machine.

A position needs 3 K^2 multiply-adds (forward, backward, expected transitions) and K exponentials. The
yardstick is what the machine's BLAS manages on the same core in a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.problem import Problem
from benchmarks.report import Report, Table


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


def measure_states(counts: list[int], lengths: str) -> Report:
    """Time `Chain.infer` on one thread at made-up scores, for several numbers of states and items of some lengths."""
    flops, exp_seconds, moved = peak_flops(), exponential_seconds(), seconds_moved()
    rows, numbers = [], {}
    for n_states in counts:
        measured = _seconds_a_position(n_states, lengths)
        bound = 2 * 3 * n_states**2 / flops + n_states * (exp_seconds + moved)
        numbers[str(n_states)] = {"measured_ns": 1e9 * measured, "bound_ns": 1e9 * bound}
        rows.append([f"{n_states}", f"{1e9 * measured:.0f}", f"{1e9 * bound:.0f}", f"{measured / bound:.1f}"])
    note = (
        f"Bound: 3 K^2 multiply-adds at the {flops / 1e9:.0f} GFlop/s of a matrix product, K exponentials of "
        f"{1e9 * exp_seconds:.2f} ns, and K scores read and residuals written in the {1e9 * moved:.2f} ns that "
        "`residual = scores + 1` takes for one, all on this core."
    )
    head = ["states", "ns a position", "bound", "times the bound"]
    title = f"One inference pass over a chain, one core, {lengths} items"
    report = Report("inference", title, ["crfqn", "numba", "numpy"])
    report.tables.append(Table(title, head, rows, [note]))
    report.numbers.update(numbers)
    return report


LENGTHS = {
    "sentences": lambda random, n: np.maximum(random.gamma(2.5, 7.0, n // 17), 1).astype(np.int64),
    "unequal": lambda random, n: np.clip(np.exp(random.normal(2.0, 1.5, n // 20)), 1, 5000).astype(np.int64),
    "single": lambda random, n: np.array([n]),
    "one-word": lambda random, n: np.ones(n, np.int64),
}


def _seconds_a_position(n_states: int, lengths: str) -> float:
    """The least seconds a position of some passes over about 30,000 positions; fewer where there are many states."""
    from crfqn.structures.chain import Chain

    random = np.random.default_rng(0)
    sizes = LENGTHS[lengths](random, min(30_000, 1_000_000 // n_states))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = 2 * random.normal(size=(n_states, offsets[-1]))
    edges = random.normal(size=(n_states, n_states))
    targets = random.integers(0, n_states, offsets[-1]).astype(np.int32)
    chain = Chain(offsets, n_states)
    return best_time(lambda: chain.infer(scores, edges, targets), 30) / offsets[-1]


def seconds_moved(size: int = 500_000) -> float:
    """Seconds to read a number and write another, in arrays of the size of a pass's scores, on one core."""
    scores = np.random.default_rng(0).random(size)
    return best_time(lambda: np.add(scores, 1.0), 20) / size


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
    """The least of several processor times, in seconds: what the machine can do when nobody disturbs it."""
    times = []
    for _ in range(repeats + 1):
        begin = process_time()
        task()
        times.append(process_time() - begin)
    return min(times[1:])  # the first one warms up
