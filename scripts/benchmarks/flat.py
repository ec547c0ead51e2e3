"""Flat L1 multinomial logistic regression: crfqn against scikit-learn's saga, and one-vs-rest solvers beside them.

Every run is a process of its own that gets the matrix in memory; crfqn's and saga's take turns, so that a machine that
slows down or is shared slows down both, and ratios are those of neighbours. The reference optima and what belongs to
them are an independent solver's, and hold for one split only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import flat_data, one_vs_rest, proxqn, saga
from benchmarks.alone import run_alone, run_within, say
from benchmarks.item_judge import judge_items
from benchmarks.items import ItemProblem, stored
from benchmarks.judge import Judged
from benchmarks.known import Known, model_figures, speed_figures
from benchmarks.problem import Run
from benchmarks.report import Report, Table, shown

LEVELS = (1e-2, 1e-3, 1e-4)  # relative distances from the optimum


@dataclass(frozen=True)
class Task:
    """A problem, its penalty, the certified gap to train to, and what is known for a split of that fingerprint."""

    title: str
    make: Callable[[], ItemProblem]
    l1: float
    tol: float
    split: str = ""
    known: Known | None = None


TASKS = {
    "newsgroups": Task(
        "20 Newsgroups",
        flat_data.newsgroups,
        l1=1.0,
        tol=1e-5,
        split="8def1dca4e7ea7db",
        known=Known(19_319.863, 1814, 0.7806, {1e-2: 8, 1e-3: 21, 1e-4: 58}, {1e-3: 10, 1e-4: 25}),
    ),
    "mnist": Task(
        "MNIST",
        flat_data.mnist,
        l1=100.0,
        tol=1e-5,
        split="8a0b04fe44083ef8",
        known=Known(42_284.450, 757, 0.8854, {1e-2: 3, 1e-3: 7, 1e-4: 16}, {1e-3: 4, 1e-4: 8}),
    ),
    "rcv1-like": Task("Made-up text like RCV1", flat_data.rcv1_like, l1=30.0, tol=1e-5),
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of one task, crfqn's and saga's in pairs, judged models of all libraries, and which took too long."""

    task: Task
    optimum: float
    ours: list[Run]
    theirs: list[Run]
    judged: list[Judged]
    unfinished: list[str]

    def seconds(self, runs: list[Run], level: float, clock: str = "seconds") -> list[float]:
        """Of each run to the level, by the wall clock or in processor time; [] where it was not reached."""
        rows = [run.row_at(self.optimum, level) for run in runs]
        return [
            float((run.seconds if clock == "seconds" else run.facts[clock])[row])
            for run, row in zip(runs, rows, strict=True)
            if row is not None
        ]

    def speed_up(self, level: float, clock: str = "seconds") -> float | None:
        """saga's seconds to the level over crfqn's: the median of the pairs."""
        ours, theirs = self.seconds(self.ours, level, clock), self.seconds(self.theirs, level, clock)
        if not ours or len(ours) != len(theirs):
            return None
        return float(np.median(np.divide(theirs, ours)))


def measure(names: Sequence[str], *, n_threads: int | None, repeats: int, limit: float) -> Report:
    """Compare on each problem; `limit`: seconds for a single fit of another library, 0: none of them."""
    report = Report("flat", "Flat multiclass", ["crfqn", "scikit-learn", "skglm", "numba", "numpy"])
    for name in names:
        task = TASKS[name]
        say(f"{task.title}: preparing")
        problem = task.make()
        comparison = compare(task, problem, n_threads, repeats, limit)
        at = f"{task.title}: "
        known = comparison.task.known
        report.tables.append(comparison_table(comparison, problem))
        report.figures += model_figures(at, comparison.judged[0], known, "test accuracy")
        report.figures += speed_figures(at, known, "saga", comparison.speed_up)
        report.numbers[name] = {
            "l1": task.l1,
            "optimum": comparison.optimum,
            "judged": {judged.run.name: judged.numbers() for judged in comparison.judged},
            **{
                f"{library} {clock} to {level:g}": comparison.seconds(runs, level, clock)
                for library, runs in (("crfqn", comparison.ours), ("saga", comparison.theirs))
                for clock in ("seconds", "processor_seconds")
                for level in LEVELS
            },
        }
    return report


def compare(
    task: Task, problem: ItemProblem, n_threads: int | None, repeats: int, limit: float
) -> Comparison:
    """Train with all libraries and judge."""
    if task.known and not problem.fingerprint.startswith(task.split):
        say("The items come in another order than the reference's: no optimum is known for this split.")
        task = Task(task.title, task.make, task.l1, task.tol)
    ours: list[Run] = []
    theirs: list[Run] = []
    others: dict[str, Run | None] = {}
    with stored(problem) as path:
        say(f"l1 = {task.l1:g}: crfqn and saga in turns")
        for _ in range(repeats):
            ours.append(run_alone(proxqn.train_items, path, task.l1, task.tol, n_threads))
            if len(ours) == 1:
                optimum = task.known.optimum if task.known else float(ours[0].values.min())
                epochs = _epochs(task, path, optimum, limit)
            if epochs:
                theirs.append(run_alone(saga.train, path, task.l1, epochs))
        for library in one_vs_rest.libraries() if limit else ():
            others[library] = run_within(limit, one_vs_rest.train, path, task.l1, library)
    models = [_middle(runs) for runs in (ours, theirs) if runs] + [run for run in others.values() if run]
    judged = [Judged(run, judge_items(problem, task.l1, run.weights)) for run in models]
    unfinished = [
        f"{library}, one-vs-rest: not ready after {limit:g} s" for library, run in others.items() if not run
    ]
    return Comparison(task, optimum, ours, theirs, judged, unfinished)


def _epochs(task: Task, path: str, optimum: float, limit: float) -> list[int]:
    """How many epochs of saga to time: what is known, or what a search finds."""
    if not limit:
        return []
    if task.known:
        return sorted(task.known.peer_iterations.values())
    return sorted(run_alone(saga.epochs_to, path, task.l1, optimum, LEVELS, limit).values())


def _middle(runs: list[Run]) -> Run:
    """The run of median length."""
    return sorted(runs, key=lambda run: run.seconds[-1])[(len(runs) - 1) // 2]


def comparison_table(comparison: Comparison, problem: ItemProblem) -> Table:
    """A library a row: median seconds to each level, and the model."""
    task = comparison.task
    reference = "an independent solver's" if task.known else "crfqn's own, certified"
    levels = [f"s to {shown(level)}" for level in LEVELS]
    head = [
        "",
        "set-up, s",
        *levels,
        "whole fit, s",
        "objective",
        "non-zeros",
        "test accuracy",
        "peak memory, MB",
    ]
    runs_of = {"crfqn": comparison.ours, "saga": comparison.theirs}
    rows = [
        _row(comparison, judged, runs_of.get(judged.run.name, [judged.run])) for judged in comparison.judged
    ]
    rows += [[name] + [""] * (len(head) - 1) for name in comparison.unfinished]
    if comparison.theirs:
        rows += [
            [f"saga over crfqn, {what}", "", *(_ratio(comparison, level, clock) for level in LEVELS)]
            + [""] * 5
            for what, clock in (("wall clock", "seconds"), ("processor time", "processor_seconds"))
        ]
    return Table(
        f"{task.title}: {problem.describe()}, l1 = {task.l1:g}",
        head,
        rows,
        [
            f"Reference optimum {comparison.optimum:,.3f} ({reference}). Seconds count from the matrix in memory; "
            f"medians of {len(comparison.ours)} runs, ratios are medians over pairs of neighbouring runs.",
            "saga (one core) makes a fit for each level, of as many epochs as it needs; its seconds are those of "
            "that fit alone, and its model is the last fit's.",
            "liblinear and skglm train one class against the rest, another objective at the same l1: compare time, "
            "accuracy and non-zeros only. No other solver of scikit-learn has L1 and softmax; celer has one class "
            "against the rest, too.",
        ],
    )


def _row(comparison: Comparison, judged: Judged, runs: list[Run]) -> list[str]:
    run, verdict = judged
    is_ours = run.name in ("crfqn", "saga")
    whole = np.median([each.seconds[-1] for each in runs])
    name = f"saga, {run.iterations[-1]} epochs" if run.name == "saga" else run.name
    return [
        name if is_ours else f"{name}, one-vs-rest",
        f"{run.setup_seconds:.2f}" if run.setup_seconds else "",
        *(_median(comparison.seconds(runs, level)) for level in LEVELS),
        f"{whole:.2f}",
        f"{verdict.objective:,.3f}" if is_ours else "(another)",
        f"{run.n_nonzero:,}",
        f"{verdict.accuracy:.4f}",
        f"{run.peak_bytes / 1e6:.0f}",
    ]


def _median(seconds: list[float]) -> str:
    return f"{np.median(seconds):.2f}" if seconds else "-"


def _ratio(comparison: Comparison, level: float, clock: str) -> str:
    ratio = comparison.speed_up(level, clock)
    return "-" if ratio is None else f"{ratio:.1f}"
