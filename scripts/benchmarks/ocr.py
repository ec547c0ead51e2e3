"""Handwritten words: crfqn against CRFsuite, and what else was promised for this problem.

The reference optima are an independent solver's (largest KKT violation 1e-4). They, and what belongs to them,
hold for one split only: RandomState(0).permutation(6877) of the words in the table's order, 6216 train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from benchmarks import crfsuite, inference, proxqn
from benchmarks.alone import run_alone, say
from benchmarks.comparison import Comparison, compare, comparison_table, numbers
from benchmarks.known import Known, model_figures, speed_figures
from benchmarks.problem import Problem, Run
from benchmarks.report import Figure, Report

RECIPE = "ocr"
SPLIT = "0138e387c7658e24"  # of the training labels in their order, first digits of the fingerprint
KNOWN = {
    50.0: Known(54_880.567, 2415, 0.8466, {1e-3: 135}, {1e-3: 60}),
    100.0: Known(76_129.228, 1487, 0.7576, {1e-3: 101, 1e-4: 215}, {1e-3: 80, 1e-4: 120}, tail=1.6),
    500.0: Known(128_706.324, 235, 0.3652, {}, {}),
}


def measure(
    penalties: Sequence[float], *, n_threads: int | None, repeats: int, crfsuite_iterations: int | None
) -> Report:
    """Compare at each penalty (see `compare`), then measure what does not depend on it."""
    if crfsuite_iterations != 0 and not crfsuite.is_installed():
        say("python-crfsuite is not installed, so only crfqn runs:  pip install '.[benchmark]'")
        crfsuite_iterations = 0
    problem = Problem.of_recipe(RECIPE)
    is_known_split = problem.fingerprint.startswith(SPLIT)
    if not is_known_split:
        say("The words come in another order than the reference's: no optimum is known for this split.")
    report = Report("ocr", f"OCR: {_describe(problem)}", ["crfqn", "python-crfsuite", "numba", "numpy"])
    comparisons = []
    for l1 in penalties:
        known = KNOWN.get(l1) if is_known_split else None
        comparison = compare(RECIPE, problem, l1, known, n_threads, repeats, crfsuite_iterations)
        comparisons.append(comparison)
        report.tables.append(comparison_table(comparison))
        at = f"l1 = {l1:g}: "
        report.figures += model_figures(at, comparison.crfqn, known, "test accuracy by letter")
        report.figures += speed_figures(at, known, "CRFsuite", comparison.speed_up)
        report.figures += _tail_figures(comparison)
    say("inference pass, first fit, import")
    run = comparisons[0].crfqn.run
    pass_time = run_alone(inference.measure, RECIPE, run.weights, run.edges)
    first = proxqn.first_fit(RECIPE, penalties[0], n_threads)
    imports = {name: proxqn.import_seconds(name) for name in ("import crfqn", "from crfqn import ChainCRF")}
    report.figures += _cost_figures(run, pass_time, first, imports)
    report.notes.append(pass_time.describe_bound())
    report.numbers = {
        "comparisons": [numbers(comparison) for comparison in comparisons],
        "inference": {**asdict(pass_time), "distance": pass_time.distance},
        "first_fit": asdict(first),
        "import": imports,
    }
    return report


def _tail_figures(comparison: Comparison) -> list[Figure]:
    """How long the last digits take."""
    known = comparison.known
    early, late = comparison.crfqn_seconds(1e-3), comparison.crfqn_seconds(1e-6)
    if known is None or known.tail is None or early is None:
        return []
    tail = None if late is None else late / early
    return [
        Figure(
            f"l1 = {comparison.l1:g}: crfqn's seconds to 1e-6 over those to 1e-3",
            f"<= {known.tail:g}",
            "not reached" if tail is None else f"{tail:.2f}",
            tail is not None and tail <= known.tail,
        )
    ]


def _cost_figures(
    run: Run, pass_time: inference.PassTime, first: proxqn.FirstFit, imports: dict[str, float]
) -> list[Figure]:
    """Inference, memory, compilation, import."""
    plain, estimator = imports.values()
    return [
        Figure(
            "one inference pass, us a position and core",
            "< 0.7",
            f"{pass_time.measured:.2f}, {pass_time.distance:.1f} times the bound",
            pass_time.measured < 0.7,
        ),
        Figure(
            "peak memory of the training process",
            "< 600 MB",
            f"{run.peak_bytes / 1e6:.0f} MB",
            run.peak_bytes < 600e6,
        ),
        Figure(
            "first fit of a process over later ones, compiled before",
            "< 1 s",
            f"{first.compiled_before:.2f} s",
            first.compiled_before < 1,
        ),
        Figure(
            "first fit over later ones, never compiled",
            "< 20 s",
            f"{first.never_compiled:.1f} s",
            first.never_compiled < 20,
        ),
        Figure(
            "import crfqn (with ChainCRF and all that it needs)",
            "< 0.7 s",
            f"{plain:.3f} s ({estimator:.2f} s)",
            plain < 0.7,
        ),
    ]


def _describe(problem: Problem) -> str:
    return (
        f"{len(problem.y_train):,} words and {problem.X_train.n_positions:,} letters for training, "
        f"{problem.X_train.n_features:,} features, {len(problem.classes)} labels"
    )
