"""What is known of a problem at one penalty from elsewhere, what was asked of crfqn there, and whether it is met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.judge import Judged
from benchmarks.report import Figure, shown


@dataclass(frozen=True)
class Known:
    """What is known and asked at one penalty, for one split of the data."""

    optimum: float
    n_nonzero: int
    accuracy: float
    peer_iterations: dict[
        float, int
    ]  # relative distance from the optimum -> the peer's iterations until there
    speed_ups: dict[float, float]  # relative distance -> asked ratio of the peer's seconds to crfqn's
    tail: float | None = None  # asked ratio of crfqn's own seconds to 1e-6 and to 1e-3


def model_figures(at: str, judged: Judged, known: Known | None, accuracy_of: str) -> list[Figure]:
    """Is it the optimum, and the model that belongs to it?"""
    (run, verdict), gap = judged, judged.run.facts["gap"]
    figures = [Figure(at + "certified relative gap", "< 1e-3", f"{gap:.1e}", bool(gap < 1e-3))]
    if known is None:
        return figures
    excess = verdict.objective / known.optimum - 1
    return [
        Figure(
            at + "objective",
            f"{known.optimum:,.3f} within 1e-5",
            f"{verdict.objective:,.3f} ({excess:+.1e})",
            abs(excess) < 1e-5,
        ),
        *figures,
        Figure(
            at + "non-zeros",
            f"{known.n_nonzero:,} within 3 %",
            f"{run.n_nonzero:,}",
            abs(run.n_nonzero / known.n_nonzero - 1) <= 0.03,
        ),
        Figure(
            at + accuracy_of,
            f"{known.accuracy:.4f} within .005",
            f"{verdict.accuracy:.4f}",
            abs(verdict.accuracy - known.accuracy) <= 0.005,
        ),
    ]


def speed_figures(
    at: str, known: Known | None, peer: str, speed_up: Callable[[float], float | None]
) -> list[Figure]:
    """How many times faster than the peer."""
    figures = []
    for level, asked in known.speed_ups.items() if known else ():
        ratio = speed_up(level)
        figures.append(
            Figure(
                f"{at}{peer}'s seconds to {shown(level)} over crfqn's",
                f"{asked:g} times",
                "not measured" if ratio is None else f"{ratio:.{0 if ratio >= 20 else 1}f} times",
                None if ratio is None else ratio >= asked,
            )
        )
    return figures
