"""What was asked of `benchmark.py text`, and whether it is met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report import Figure, shown
from benchmarks.text.estimators import Use
from benchmarks.text.flat import Flat
from benchmarks.text.measure import Training

SMALL = ("company", "person")  # of which less is asked


def seconds_above_end(training: Training, level: float) -> tuple[list[float], list[float]]:
    """Seconds of crfqn and of CRFsuite, turn by turn, to `level` above CRFsuite's end; inf where it was not reached."""
    ours: list[float] = []
    theirs: list[float] = []
    for (first, finished), peer in zip(training.ours, training.theirs, strict=True):
        end = float(peer.values.min())
        runs = (first, finished or first)
        seconds = next((s for run in runs if (s := run.seconds_to(end, level)) is not None), np.inf)
        ours.append(seconds)
        its = peer.seconds_to(end, level)
        theirs.append(peer.facts["total"] if level == 0.0 else np.nan if its is None else its)
    return ours, theirs


def speed_up(training: Training, level: float) -> float:
    """CRFsuite's seconds over crfqn's: the median of the turns; nan without CRFsuite."""
    ours, theirs = seconds_above_end(training, level)
    return float(np.median(np.divide(theirs, ours))) if theirs else np.nan


def training_figures(trainings: Sequence[Training]) -> list[Figure]:
    """How many times sooner than CRFsuite: on every set, and in the median."""
    with_l1 = [each for each in trainings if each.penalty.c1 and each.theirs]
    without = [each for each in trainings if not each.penalty.c1 and each.theirs]
    figures = []
    for of, runs, levels, least, small, middle in (
        ("l1", with_l1, (1e-3,), 3.0, 2.0, 6.0),
        ("l1", with_l1, (0.0,), 6.0, 3.0, 12.0),
        ("c2 alone", without, (1e-3, 0.0), 3.0, 2.0, 4.0),
    ):
        for level in levels:
            figures += _sooner(of, runs, level, least, small, middle)
    for training in trainings:
        for run, _ in training.ours[:1]:
            clean = not run.facts["warnings"]
            said = "none" if clean else run.facts["warnings"][0][:60]
            figures.append(
                Figure(f"{training.name}, {training.penalty.name}: warnings of a fit", "none", said, clean)
            )
    return figures


def _sooner(
    of: str, runs: Sequence[Training], level: float, least: float, small: float, middle: float
) -> list[Figure]:
    if not runs:
        return []
    where = "to CRFsuite's end" if level == 0.0 else f"to {shown(level)} above CRFsuite's end"
    ratios = {f"{each.name}, {each.penalty.name}": speed_up(each, level) for each in runs}
    asked = {f"{each.name}, {each.penalty.name}": small if each.name in SMALL else least for each in runs}
    worst = min(ratios, key=lambda name: ratios[name] / asked[name])
    median = float(np.median(list(ratios.values())))
    few = sum(ratios[name] >= asked[name] for name in ratios)
    return [
        Figure(
            f"{of}, {where}: worst",
            f"{least:g} times ({small:g} on the small sets)",
            f"{ratios[worst]:.1f} times ({worst}); met by {few} of {len(ratios)}",
            few == len(ratios),
        ),
        Figure(f"{of}, {where}: median", f"{middle:g} times", f"{median:.1f} times", median >= middle),
    ]


def use_figures(uses: dict[str, dict[str, Use]]) -> list[Figure]:
    figures: list[Figure] = []
    for kind, what, every, middle, points in (
        ("", "fit from dicts", 1.0, 5.0, 0.1),
        (" ap", "averaged perceptron", 2.0, 2.0, 0.2),
    ):
        pairs = {
            name: (kinds["CRFsuite" + kind], kinds["crfqn" + kind])
            for name, kinds in uses.items()
            if "CRFsuite" + kind in kinds
        }
        if not pairs:
            continue
        ratios = {name: theirs.seconds / ours.seconds for name, (theirs, ours) in pairs.items()}
        figures += _ratio_figures(f"{what}: CRFsuite's seconds over crfqn's", ratios, every, middle)
        losses = {name: 100 * (theirs.accuracy - ours.accuracy) for name, (theirs, ours) in pairs.items()}
        worst = max(losses, key=losses.__getitem__)
        figures.append(
            Figure(f"{what}: points of accuracy lost, at most", f"{points:g}", f"{losses[worst]:.2f} ({worst})",
                   losses[worst] <= points)
        )  # fmt: skip
        if not kind:
            speeds = {
                n: ours.tokens_per_second / theirs.tokens_per_second for n, (theirs, ours) in pairs.items()
            }
            figures += _ratio_figures(
                "dicts to labels: crfqn's words a second over CRFsuite's", speeds, 1.5, 1.5
            )
            slowest = max(1e6 * ours.one_sentence for _, ours in pairs.values())
            figures.append(
                Figure("one sentence of 20 words, us, at most", "< 150", f"{slowest:.0f}", slowest < 150)
            )
    return figures


def _ratio_figures(what: str, ratios: dict[str, float], every: float, middle: float) -> list[Figure]:
    worst, median = min(ratios, key=ratios.__getitem__), float(np.median(list(ratios.values())))
    figures = [
        Figure(f"{what}, worst", f"{every:g} times", f"{ratios[worst]:.2f} ({worst})", ratios[worst] >= every)
    ]
    if len(ratios) > 1:
        figures.append(Figure(f"{what}, median", f"{middle:g} times", f"{median:.2f}", median >= middle))
    return figures


def memory_figures(memory: dict[str, dict[str, tuple[int, int]]]) -> list[Figure]:
    figures = []
    for name, of in memory.items():
        used = {library: peak - before for library, (before, peak) in of.items()}
        text = ", ".join(f"{library} {size / 1e6:.0f} MB" for library, size in used.items())
        ratio = used["crfqn"] / used["CRFsuite"] if "CRFsuite" in used else np.nan
        figures.append(
            Figure(f"{name}: memory of a fit above the imported process", "at most twice CRFsuite's",
                   f"{text}: {ratio:.2f} times", None if np.isnan(ratio) else ratio <= 2)
        )  # fmt: skip
    return figures


def flat_figures(flats: Sequence[Flat]) -> list[Figure]:
    ratios = {each.name: each.ratio for each in flats}
    return _ratio_figures("flat L2: LogisticRegression's seconds over crfqn's", ratios, 1.0, 2.0)
