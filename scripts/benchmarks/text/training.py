"""One training of chains in a process of its own: crfqn and CRFsuite, seconds of the processor from features in memory.

Both minimise -log P + c1 |w|_1 + c2 |w|^2 (crfqn's l2 is 2 c2) over the same pairs of features and labels. CRFsuite's
features are in its own structures when the clock starts, crfqn's in a sparse matrix: what each makes of them (indices
by label, stores by column) counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.alone import peak_memory, say
from benchmarks.items import read_stored
from benchmarks.problem import Problem, Run

ROUGH_STEPS = 8  # of the warm-up on a part
FINE = 1e-7  # tol of a run to another's end
FEW = 60  # items of the warm-up


@dataclass(frozen=True)
class Penalty:
    """As CRFsuite names it."""

    c1: float
    c2: float

    @property
    def name(self) -> str:
        if self.c1 == self.c2:
            return f"c1=c2={self.c1:g}"
        return f"c1={self.c1:g}" if self.c1 else f"c2={self.c2:g}"

    @property
    def strengths(self) -> dict[str, float]:
        """As crfqn has them."""
        return {"l1": self.c1, "l2": 2 * self.c2}


PENALTIES = (Penalty(1, 0), Penalty(0.1, 0.1), Penalty(0, 0.1), Penalty(0, 1))


@dataclass
class Clock:
    """A callback that notes the seconds of the processor and what is known at each row; it stops at `target`."""

    target: float = -np.inf
    limit: float = np.inf

    def __post_init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.began = process_time()

    def __call__(self, progress: Any) -> bool:
        if progress.sample_fraction != 1.0:
            return False
        seconds = process_time() - self.began
        self.rows.append((seconds, progress.value, progress.estimated_gap, progress.gap, progress.passes))
        return progress.value <= self.target or seconds > self.limit


def train(
    path: str, penalty: Penalty, all_pairs: bool, target: float, limit: float, **settings: Any
) -> tuple[Run, Run | None]:
    """crfqn as it is by default until it stops, and, if it has not got so far, once more until `target`."""
    problem: Problem = read_stored(path)
    make = maker(penalty, all_pairs)
    warm_up(make, problem, **settings)
    first = _timed(make(**settings), problem, Clock(limit=limit))
    if first.values.min() <= target or not np.isfinite(target):
        return first, None
    return first, _timed(make(**{**settings, "tol": FINE, "max_iter": 5000}), problem, Clock(target, limit))


def maker(penalty: Penalty, all_pairs: bool) -> Any:
    """Makes estimators with this penalty over these pairs, on one thread."""
    from crfqn import ChainCRF

    pairs = {"all_possible_states": all_pairs, "all_possible_transitions": all_pairs}
    return partial(ChainCRF, **penalty.strengths, **pairs, n_threads=1)


def warm_up(make: Any, problem: Problem, **settings: Any) -> None:
    """Load the compiled code: some steps on a few items, and one on all."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n_items = len(problem.y_train)
        part = problem.part(max(min(n_items // 3, FEW), 1))
        make(**{**settings, "max_iter": ROUGH_STEPS}).fit(part.X_train, part.y_train)
        make(**{**settings, "max_iter": 1}).fit(problem.X_train, problem.y_train)


def _timed(model: Any, problem: Problem, clock: Clock) -> Run:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clock.began = process_time()
        model.set_params(callback=clock).fit(problem.X_train, problem.y_train)
        total = process_time() - clock.began
    result = model.result_
    say(f"  crfqn: {total:.2f} s, {result.value:,.2f}, {result.status.name}, gap {result.gap:.1e}")
    seconds, values, estimated, gaps, _ = (np.array(column) for column in zip(*clock.rows, strict=True))
    return Run(
        name="crfqn",
        iterations=np.arange(seconds.size),
        seconds=seconds,
        values=np.minimum.accumulate(values),
        setup_seconds=float(seconds[0]),
        passes=float(result.passes),
        weights=model.coef_,
        n_nonzero=result.n_nonzero,
        peak_bytes=peak_memory(),
        edges=model.edge_coef_.toarray(),
        facts={
            "estimated": estimated,
            "gaps": gaps,
            "total": total,
            "status": result.status.name,
            "estimated_gap": result.estimated_gap,
            "gap": result.gap,
            "value": result.value,
            "warnings": [str(warning.message).split("\n")[0] for warning in caught],
        },
    )
