"""What each heuristic of Prox-QN gains: passes and seconds with one of them switched off, over the development sets.

Every set is trained by the default and then by each variant, in turns, until the objective is within 1e-3 and 1e-4 of
what a long run has found. Passes are the same on every machine, seconds are the processor's, on one thread. A heuristic
stays that saves 10 % somewhere and costs 5 % nowhere else, or that a set needs to be solved at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import typer
from harness.default_sets import QUICK, TunedSet, digits, docstrings, mnist, texts, tree_of_recipe, words
from harness.measuring import quietly, say
from harness.options import Output, some_of
from harness.problems import Problem
from harness.report import Report, Table, finish
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.crfqn_fits import Clock
from crfqn import ChainCRF, MulticlassCRF, TaxonomyCRF
from crfqn.errors import CrfqnError
from crfqn.estimators.automatic import FOR_FLAT
from crfqn.solvers.prox_qn import Diagonal, ProxQN, Stage, TopViolators

LEVELS = (1e-3, 1e-4)  # relative distances from the lowest objective
MOST_TIMES = 5.0  # the passes of the default: then a variant is stopped
ALLOWANCE = 30.0  # passes besides
TOL = 1e-5  # of the run that finds the lowest objective
NEVER = 10**9
Change = Callable[[ProxQN], ProxQN]
Costs = dict[str, np.ndarray]  # passes and seconds to each of LEVELS, infinite where a run did not get there


def part(name: str, **settings: Any) -> Change:
    """Change settings of a part of the method."""
    return lambda solver: replace(solver, **{name: replace(getattr(solver, name), **settings)})


def constants(**settings: Any) -> Change:
    """Change constants."""
    return part("constants", **settings)


OFF: dict[str, Change] = {
    "token-wise metric: its diagonal": lambda solver: replace(solver, metric=Diagonal()),
    "priced sweeps: all of them": part("sweeps", is_priced=False),
    "sweeps end when moves are small: never": part("sweeps", tolerance=0.0),
    "top violators come in: all do": lambda solver: replace(solver, entry=TopViolators(None)),
    "epoch no better than what waits: as without": part("entry", outside=0.0),
    "zeros leave: none does": part("shrinking", margin=1.0),
    "zeros leave in numbers: each at once": part("shrinking", least=0.0),
    "few weights to the end: as others": lambda solver: replace(solver, few_weights=0),
    "warm start: none": lambda solver: replace(solver, warm_start=None),
    "warm start, strong penalties first: none": part("warm_start", stages=(Stage(16, 1.0), Stage(4, 1.0))),
    "text item by item: in samples": constants(online_epochs=0),
    "sampled_positions: as later": constants(sampled_positions=1500),
    "stage_steps: no limit": constants(stage_steps=NEVER),
    "growing_share: all positions": part("metric", growing_share=1.0),
    "metric anew: never": part("metric", refresh=NEVER),
    "exhausted: never": constants(exhausted=0.0),
    "progress: none ends an epoch": constants(progress=0.0),
    "outdated: never": constants(outdated=-np.inf),
    "warm_share: 1": constants(warm_share=1.0),
    "least_share: 0": constants(least_share=0.0),
    "majorant: none": constants(residual_share=0.0, least_majorant=0.0),
    "residual_share: 0": constants(residual_share=0.0),
    "least_majorant: 0": constants(least_majorant=0.0),
    "coordinates held back: all alike": constants(noticeable=np.inf, patience=1),
    "noticeable: whatever it is": constants(noticeable=0.0),
    "softening: at once": constants(softening=0.0),
    "floor: 1e-9": constants(floor=1e-9),
    "overhead: 0": constants(overhead=0.0),
}


@dataclass(frozen=True, eq=False)
class Case:
    """A set, its strengths, and the default solver there."""

    make: Callable[[], TunedSet]
    strengths: dict[str, float]
    solver: ProxQN = field(default_factory=ProxQN)


def handwriting(n_items: int) -> TunedSet:
    """The first training words of OCR."""
    return TunedSet(Problem.of_recipe("models/ocr").part(n_items), ChainCRF)


def blobs() -> TunedSet:
    """2,000 made-up sparse items of 12 labels, with 400 features that are alike in groups of four."""
    random = np.random.default_rng(0)
    y = random.integers(0, 12, 2000)
    chances = 0.05 + 0.2 * (random.random((12, 100)) < 0.1)
    found = np.repeat(random.random((2000, 100)) < chances[y], 4, axis=1)
    x = (found & (random.random(found.shape) < 0.9)).astype(np.float64)
    return TunedSet(Problem(x, y.astype(str), x[:10], y[:10].astype(str)), MulticlassCRF)


def some_mnist() -> TunedSet:
    """The first 2,000 of MNIST."""
    found = mnist()
    return replace(found, items=found.items.part(2000))


CASES = {
    "chunks-500": Case(lambda: words("conll2000-500"), {"l1": 1.0}),
    "companies": Case(lambda: words("company"), {"l1": 0.3, "l2": 0.3}),
    "ocr-1000": Case(lambda: handwriting(1000), {"l1": 15.0}),
    "docstrings-tree": Case(lambda: docstrings(TaxonomyCRF), {"l1": 1.0}),
    "banking": Case(lambda: texts("banking77", TfidfVectorizer()), {"l1": 1.0}, FOR_FLAT),
    "mnist-2000": Case(some_mnist, {"l1": 5.0}, FOR_FLAT),
    "digits": Case(digits, {"l1": 10.0}, FOR_FLAT),
    "made-up": Case(blobs, {"l1": 2.0}, FOR_FLAT),
    "digits-weak": Case(digits, {"l1": 0.01}, FOR_FLAT),
    "mnist": Case(mnist, {"l1": 10.0}, FOR_FLAT),
    "ocr": Case(lambda: handwriting(NEVER), {"l1": 100.0}),
    "lshtc1": Case(lambda: tree_of_recipe("lshtc1-task1"), {"l1": 1.0}),
    "chunks-2000": Case(lambda: words("conll2000-2000"), {"l1": 1.0}),
}
QUICK_CASES = {
    "few-digits": Case(QUICK["few-digits"], {"l1": 10.0}, FOR_FLAT),
    "few-strings": Case(QUICK["few-strings"], {"l1": 10.0}),
}


def fit(case: Case, items: TunedSet, solver: Any, target: float, most_passes: float) -> tuple[Clock, Any]:
    """Train on one thread until the objective is at `target`."""
    clock = Clock(target, most_passes=most_passes)
    settings = {**case.strengths, "solver": solver, "n_threads": 1, "tol": TOL, "stop": "certificate"}
    with quietly():
        model = items.model(**settings, callback=clock).fit(items.items.X_train, items.items.y_train)
    return clock, model.result_


def costs_of(clock: Clock, lowest: float) -> Costs:
    """Return what each level took."""
    found = np.full((2, len(LEVELS)), np.inf)
    for _, processor, row in reversed(clock.rows):
        found[:, row.value <= lowest * (1.0 + np.array(LEVELS))] = [[row.passes], [processor]]
    return dict(zip(("passes", "seconds"), found, strict=True))


def measure_case(name: str, case: Case, off: dict[str, Change], repeats: int) -> dict[str, list[Costs]]:
    """Train a set by the default and by every variant, in turns; "default" is among the names returned."""
    items = case.make()
    clock, result = fit(case, items, case.solver, -np.inf, np.inf)
    lowest, own = result.value, costs_of(clock, result.value)
    limit = MOST_TIMES * own["passes"][-1] + ALLOWANCE
    say(f"{name}: {own['passes'][-1]:.1f} passes, {own['seconds'][-1]:.2f} s")
    found: dict[str, list[Costs]] = {}
    for _ in range(repeats):
        for title, change in {"default": lambda solver: solver, **off}.items():
            target = lowest * (1.0 + LEVELS[-1])
            clock, _ = fit(case, items, change(case.solver), target, limit)
            found.setdefault(title, []).append(costs_of(clock, lowest))
    return found


def ratio(costs: list[Costs], default: list[Costs], what: str) -> str:
    """Return the medians' ratios to the default, at the last level: passes and seconds."""
    own, base = (np.median([each[what][-1] for each in runs]) for runs in (costs, default))
    return f"{own / base:.2f}" if np.isfinite(own) else f"> {MOST_TIMES:g}"


def heuristics(
    data: Annotated[list[str] | None, some_of([*CASES])] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Beginning of a name; may be given several times; default: all.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns; medians are reported.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Small built-in sets.")] = False,
    output: Output = None,
) -> None:
    """Prox-QN with each of its heuristics switched off alone: passes and seconds, relative to the default."""
    cases = QUICK_CASES if quick else {name: CASES[name] for name in data or CASES}
    off = {name: change for name, change in OFF.items() if name.startswith(tuple(without or [""]))}
    found: dict[str, dict[str, list[Costs]]] = {}
    for name, case in cases.items():
        try:
            found[name] = measure_case(name, case, off, repeats)
        except CrfqnError as error:
            say(f"{name}: left out; {error}")
    rows = {
        what: [
            [title, *(ratio(runs[title], runs["default"], what) for runs in found.values())] for title in off
        ]
        for what in ("passes", "seconds")
    }
    base = [
        " / ".join(
            f"{np.median([each['passes'][level] for each in runs['default']]):.1f}" for level in (0, 1)
        )
        + f", {np.median([each['seconds'][-1] for each in runs['default']]):.2f} s"
        for runs in found.values()
    ]
    report = Report("heuristics", "Prox-QN without each of its heuristics", ["crfqn", "numba", "numpy"])
    notes = [
        "the default takes, in this order: "
        + "; ".join(base)
        + " (passes to 1e-3 / to 1e-4, seconds to 1e-4)"
    ]
    for what in rows:
        title = f"{what.capitalize()} to 1e-4 of the lowest objective, in units of the default's"
        report.tables.append(Table(title, ["instead", *found], rows[what], notes))
    report.numbers["costs"] = found
    finish(report, output)
