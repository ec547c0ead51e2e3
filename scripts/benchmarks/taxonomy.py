"""Taxonomies of labels: crfqn's taxonomy against its own flat softmax, OWL-QN and hiclass, and a very large one.

LSHTC1 (web pages, 2387 nodes) and ImageCLEF (X-rays, 96 nodes) as the recipes prepare them. The reference optimum of a
penalty is crfqn's own, certified; what OWL-QN reaches on the same objective speaks for or against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from benchmarks import large_taxonomy, local_classifiers, node_time, owlqn, proxqn
from benchmarks.alone import run_alone, run_within, say
from benchmarks.item_judge import judge_items, predictions, worth
from benchmarks.items import ItemProblem, stored
from benchmarks.judge import Judged
from benchmarks.local_classifiers import LocalModels
from benchmarks.node_time import NodeTime
from benchmarks.problem import Run
from benchmarks.report import Figure, Report, Table, shown

LEVEL = 1e-4  # relative distance from the optimum
LEVELS = (1e-2, 1e-3, LEVEL)
TOL, LONGEST = 1e-5, 300.0  # of crfqn: certified gap, seconds
PEER_L1 = 1.0  # where the other libraries run
ASKED = ("lshtc1", "lshtc1-task1")
MOST_SECONDS, MOST_BYTES = 60, 1.5e9  # asked of these
TITLES = {
    "lshtc1": "LSHTC1, Task 2",
    "lshtc1-task1": "LSHTC1, Task 1, validation part",
    "imageclef": "ImageCLEF 2007",
}
LARGE_L1, LARGE_TOL, LARGE_BYTES, LARGE_NONZEROS = 3.3, 1e-3, 6e9, (7_000, 14_000)


@dataclass(eq=False)
class Comparison:
    """Judged runs over the taxonomy and flat by penalty, and what ran beside at PEER_L1."""

    tree: dict[float, Judged] = field(default_factory=dict)
    flat: dict[float, Judged] = field(default_factory=dict)
    owlqn: Judged | None = None
    local: dict[str, LocalModels | None] = field(default_factory=dict)
    node_time: NodeTime | None = None


def measure(
    names: Sequence[str], penalties: Sequence[float], *, n_threads: int | None, limit: float
) -> Report:
    """Compare on each problem; `limit`: seconds for a single fit of another library, 0: none of them."""
    report = Report(
        "taxonomy", "Taxonomies", ["crfqn", "hiclass", "PyLBFGS", "scikit-learn", "numba", "numpy"]
    )
    for name in names:
        title = TITLES[name]
        say(f"{title}: preparing")
        problem = ItemProblem.of_recipe(name)
        comparison = compare(problem, penalties, n_threads, limit)
        at = f"{title}: {problem.describe()}"
        report.tables.append(Table(at, *_own_rows(comparison), notes=OWN_NOTES))
        if comparison.owlqn or comparison.local:
            rows = _peer_rows(comparison, problem, limit)
            report.tables.append(
                Table(f"{title}, l1 = {PEER_L1:g}, other libraries", *rows, notes=PEER_NOTES)
            )
        report.figures += _figures(title, comparison, is_asked=name in ASKED)
        if comparison.node_time and name in ASKED:
            report.notes.append(comparison.node_time.describe_bound())
        report.numbers[name] = _numbers(comparison)
    return report


def compare(
    problem: ItemProblem, penalties: Sequence[float], n_threads: int | None, limit: float
) -> Comparison:
    """Train and judge, every run in a process of its own."""
    comparison, flat = Comparison(), problem.flat()
    with stored(problem) as path, stored(flat) as flat_path:
        for l1 in penalties:
            say(f"l1 = {l1:g}: over the taxonomy, then flat")
            run = run_alone(proxqn.train_items, path, l1, TOL, n_threads, LONGEST)
            comparison.tree[l1] = Judged(run, judge_items(problem, l1, run.weights))
            run = run_alone(proxqn.train_items, flat_path, l1, TOL, n_threads, LONGEST)
            verdict = judge_items(flat, l1, run.weights)
            f1 = worth(problem, predictions(flat, run.weights))[1]
            comparison.flat[l1] = Judged(run, replace(verdict, hierarchical_f1=f1))
        l1 = PEER_L1 if PEER_L1 in penalties else penalties[0]
        say("inference pass")
        comparison.node_time = run_alone(node_time.measure, path, comparison.tree[l1].run.weights)
        if limit and l1 == PEER_L1:
            _add_peers(comparison, problem, path, n_threads, limit)
    return comparison


def _add_peers(
    comparison: Comparison, problem: ItemProblem, path: str, n_threads: int | None, limit: float
) -> None:
    """OWL-QN to LEVEL, and hiclass."""
    if owlqn.is_installed():
        target = comparison.tree[PEER_L1].verdict.objective * (1 + LEVEL)
        run = run_alone(owlqn.train, path, PEER_L1, n_threads, target, limit)
        comparison.owlqn = Judged(run, judge_items(problem, PEER_L1, run.weights))
    if local_classifiers.is_installed():
        for kind in local_classifiers.KINDS:
            comparison.local[kind] = run_within(limit, local_classifiers.train, path, PEER_L1, kind)


OWN_NOTES = [
    "Seconds count from the matrix in memory; the optimum is the objective at the end of the same run, whose certified "
    "gap is given. Peak memory of the process, Python, libraries and features included.",
]


def _own_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a penalty and structure each."""
    head = [
        "l1",
        "",
        f"s to {shown(LEVEL)}",
        "passes",
        f"s to certified {shown(LEVEL)}",
        "passes",
        "gap at the end",
    ]
    head += ["objective", "non-zeros", "accuracy", "hierarchical F1", "peak memory, MB", "file, kB"]
    rows = []
    for l1, tree in comparison.tree.items():
        rows.append([f"{l1:g}", "taxonomy", *_own_cells(tree)])
        if l1 in comparison.flat:
            rows.append([f"{l1:g}", "flat", *_own_cells(comparison.flat[l1])])
    return head, rows


def _own_cells(judged: Judged) -> list[str]:
    run, verdict = judged
    return [
        *_cost(run, run.row_at(verdict.objective, LEVEL)),
        *_cost(run, _certified_row(run)),
        f"{run.facts['gap']:.1e}",
        f"{verdict.objective:,.2f}",
        f"{run.n_nonzero:,}",
        f"{verdict.accuracy:.4f}",
        f"{verdict.hierarchical_f1:.4f}",
        f"{run.peak_bytes / 1e6:.0f}",
        f"{run.facts['file_bytes'] / 1e3:.0f}",
    ]


def _certified_row(run: Run) -> int | None:
    rows = np.flatnonzero(run.facts["gaps"] <= LEVEL)
    return int(rows[0]) if rows.size else None


def _cost(run: Run, row: int | None) -> list[str]:
    """Seconds and passes until a row of the run."""
    if row is None:
        return ["-", "-"]
    return [f"{run.seconds[row]:.2f}", f"{run.facts['row_passes'][row]:.1f}"]


PEER_NOTES = [
    "OWL-QN (libLBFGS) minimises the same objective, evaluated by crfqn; it stops at "
    f"{shown(LEVEL)} above crfqn's optimum, or when its time is over.",
    "hiclass: logistic regressions of scikit-learn (one core) with its defaults, L2 of C = 1, or liblinear's L1 of "
    "C = 1 / l1; the file is joblib's.",
]


def _peer_rows(
    comparison: Comparison, problem: ItemProblem, limit: float
) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a library each."""
    levels = [f"s to {shown(level)}" for level in LEVELS]
    head = [
        "",
        *levels,
        "whole fit, s",
        "accuracy",
        "hierarchical F1",
        "weights",
        "file, kB",
        "peak memory, MB",
    ]
    tree = comparison.tree[PEER_L1]
    optimum = tree.verdict.objective
    judged = {"crfqn, taxonomy": tree, "crfqn, flat": comparison.flat[PEER_L1]}
    if comparison.owlqn:
        judged[f"OWL-QN, {comparison.owlqn.run.iterations[-1]} iterations"] = comparison.owlqn
    rows = []
    for name, (run, verdict) in judged.items():
        reference = verdict.objective if name == "crfqn, flat" else optimum
        seconds = [run.seconds_to(reference, level) for level in LEVELS]
        rows.append(
            [
                name,
                *("not reached" if s is None else f"{s:.2f}" for s in seconds),
                f"{run.seconds[-1]:.2f}",
                *_worth_cells((verdict.accuracy, verdict.hierarchical_f1)),
                f"{run.n_nonzero:,}",
                f"{run.facts['file_bytes'] / 1e3:,.0f}" if "file_bytes" in run.facts else "-",
                f"{run.peak_bytes / 1e6:,.0f}",
            ]
        )
    for kind, models in comparison.local.items():
        cells = [f"not ready after {limit:g} s"] + [""] * 5
        if models:
            cells = [
                f"{models.seconds:.2f}",
                *_worth_cells(worth(problem, models.predicted)),
                f"{models.n_nonzero:,}",
                f"{models.file_bytes / 1e3:,.0f}",
                f"{models.peak_bytes / 1e6:,.0f}",
            ]
        rows.append([f"hiclass, {kind}", *["-"] * len(LEVELS), *cells])
    return head, rows


def _worth_cells(worth: tuple[float, float]) -> list[str]:
    return [f"{number:.4f}" for number in worth]


def _figures(title: str, comparison: Comparison, is_asked: bool) -> list[Figure]:
    figures = []
    for l1, (run, verdict) in comparison.tree.items():
        if not is_asked or l1 != PEER_L1:
            continue
        at, seconds = f"{title}, l1 = {l1:g}: ", run.seconds_to(verdict.objective, LEVEL)
        assert seconds is not None  # the reference is its own
        what = f"seconds to {shown(LEVEL)} of the optimum (certified: {run.facts['gap']:.0e})"
        figures += [
            Figure(at + what, f"< {MOST_SECONDS} s", f"{seconds:.1f} s", bool(seconds < MOST_SECONDS)),
            _memory_figure(at, run, MOST_BYTES),
        ]
    pass_time = comparison.node_time
    if is_asked and pass_time:
        distance = pass_time.measured / pass_time.bound
        figures.append(
            Figure(
                f"{title}: one inference pass, ns a node, item and core",
                "< 12",
                f"{pass_time.measured:.1f}, {distance:.1f} times the bound",
                pass_time.measured < 12,
            )
        )
    return figures


def _memory_figure(at: str, run: Run, most: float) -> Figure:
    peak = run.peak_bytes
    return Figure(
        at + "peak memory of the training process",
        f"< {most / 1e9:g} GB",
        f"{peak / 1e9:.2f} GB",
        peak < most,
    )


def _numbers(comparison: Comparison) -> dict[str, object]:
    """The raw measurements, for the JSON file."""
    runs = {
        f"{what}, l1 = {l1:g}": judged.numbers()
        for what, by_penalty in (("taxonomy", comparison.tree), ("flat", comparison.flat))
        for l1, judged in by_penalty.items()
    }
    if comparison.owlqn:
        runs["OWL-QN"] = comparison.owlqn.numbers()
    local = {
        f"hiclass, {kind}": {name: value for name, value in vars(models).items() if name != "predicted"}
        for kind, models in comparison.local.items()
        if models
    }
    times = {"inference": asdict(comparison.node_time)} if comparison.node_time else {}
    return {**runs, **local, **times}


def measure_large(*, n_threads: int | None) -> Report:
    """Train on 5 billion weights."""
    problem = large_taxonomy.make()
    report = Report("taxonomy-large", "A large taxonomy, made up", ["crfqn", "numba", "numpy"])
    with stored(problem) as path:
        run = run_alone(proxqn.train_items, path, LARGE_L1, LARGE_TOL, n_threads, 3 * LONGEST)
    comparison = Comparison({LARGE_L1: Judged(run, judge_items(problem, LARGE_L1, run.weights))})
    report.tables = [Table(f"Large: {problem.describe()}", *_own_rows(comparison), notes=OWN_NOTES)]
    (few, many), gap = LARGE_NONZEROS, run.facts["gap"]
    report.figures = [
        Figure("it trains: certified relative gap", f"< {shown(LARGE_TOL)}", f"{gap:.1e}", gap < LARGE_TOL),
        Figure("non-zeros", "about 10,000", f"{run.n_nonzero:,}", few < run.n_nonzero < many),
        _memory_figure("", run, LARGE_BYTES),
    ]
    report.numbers = _numbers(comparison)
    return report
