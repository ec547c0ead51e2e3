"""What each mechanism of the solvers gains: every fit with one of them switched off, beside the default.

A case is a set of items and an estimator with its default strengths. It is fitted twice: as users do, to the default
tolerance, with the score on held-out items; and until the objective is within 1e-3 of the lowest that is known. Passes
are the same on every machine. Seconds are of the processor, on one thread, the default and the variants by turns; a
variant that takes the same steps as the default has the default's seconds.

A mechanism stays if it saves 10 % in the median of all cases, or if a case loses more than 5 % without those that save
less, all together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Annotated, Any
from unittest.mock import PropertyMock, patch

import numpy as np
from harness.comparing import Comparison, Section
from harness.default_sets import MULTILABEL, QUICK, SETS, TunedSet, digits
from harness.measuring import fit_seconds, quietly, say
from harness.options import Output, Quick, some_of
from harness.problems import Problem
from harness.report import Table, number

from benchmarks.crfqn_fits import Clock
from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF
from crfqn.papers.chierchia2015.regularised import FBPD
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual import decomposition_state
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.frank_wolfe_state import FrankWolfeState
from crfqn.solvers.prox_qn import Diagonal, ProxQN, Stage, TopViolators

NEAR = 1e-3  # relative distance from the lowest objective
REFERENCE = {"tol": 1e-4, "stop": "estimate", "max_iter": 2000}  # of the fit that finds it
REFERENCE_SECONDS = 20.0
MOST_TIMES, ALLOWANCE = 3.0, 20.0  # passes of a variant, as a multiple of the default's, and more
NEVER = 10**9
SAME = 1e-12  # relative difference of objectives after as many passes: the same steps
TURNS, TURN_SECONDS = 3, 2.0  # at most so many turns, fewer where they take longer than that together
WHAT = {
    "near_seconds": "seconds to 1e-3", "seconds": "seconds", "near_passes": "passes to 1e-3", "passes": "passes",
}  # fmt: skip
PROX_QN, ROWS, DUAL, MARGIN, SPLITTING = "Prox-QN", "row descent", "dual", "Frank-Wolfe", "FBPD"


# ---- mechanisms, and how they are switched off


@dataclass(frozen=True)
class Mechanism:
    """A mechanism of a solver; off : returns the context in which it is switched off."""

    solver: str
    off: Callable[[], Any]


def prox_qn(change: Callable[[ProxQN], ProxQN]) -> Mechanism:
    """Return a mechanism of Prox-QN, switched off by a change of the solver's settings."""
    return Mechanism(PROX_QN, lambda: changed_steps(ProxQN, change))


def without(name: str, solver: type, **settings: Any) -> Mechanism:
    """Return a mechanism of a solver, switched off by its settings; name : of the solver's cases."""
    return Mechanism(name, lambda: changed_steps(solver, lambda default: replace(default, **settings)))


def changed_steps(solver: Any, change: Callable[[Any], Any]) -> Any:
    """Let every solver of a class step with changed settings, the automatic choice's among them."""
    steps = solver.steps
    return patch.object(solver, "steps", lambda self, *problem: steps(change(self), *problem))


def part(name: str, **settings: Any) -> Mechanism:
    """Return a mechanism that settings of a part of Prox-QN switch off, if the solver has this kind of part; ValueError
    for settings that the default's part lacks."""
    unknown = settings.keys() - {setting.name for setting in fields(getattr(ProxQN(), name))}
    if unknown:
        raise ValueError(f"{name}: expected settings of the default's part, got {sorted(unknown)}")

    def change(solver: ProxQN) -> ProxQN:
        old = getattr(solver, name)
        has_settings = all(hasattr(old, setting) for setting in settings)
        return replace(solver, **{name: replace(old, **settings)}) if has_settings else solver

    return prox_qn(change)


def constants(**settings: Any) -> Mechanism:
    """Return a mechanism that a constant of Prox-QN switches off."""
    return part("constants", **settings)


MECHANISMS: dict[str, Mechanism] = {
    "epoch_reduction: none ends an epoch": constants(epoch_reduction=0.0),
    "initial_damping: 1": constants(initial_damping=1.0),
    "min_damping: 0": constants(min_damping=0.0),
    "entry.excluded_fraction: 0": part("entry", excluded_fraction=0.0),
    "few_weights: 0": prox_qn(lambda solver: replace(solver, few_weights=0)),
    "stage_steps: no limit": constants(stage_steps=NEVER),
    "floor: 1e-9": constants(floor=1e-9),
    "growing_share: 1": part("metric", growing_share=1.0),
    "overhead: 0": constants(overhead=0.0),
    "damping_decrease: 0": constants(damping_decrease=0.0),
    "excess_threshold: 0": constants(excess_threshold=0.0),
    "min_relative_decrease: 0": constants(min_relative_decrease=0.0),
    "min_majorant: 0": constants(min_majorant=0.0),
    "majorant_scale: 0": constants(majorant_scale=0.0),
    "no majorant": constants(majorant_scale=0.0, min_majorant=0.0),
    "all coordinates held back alike": constants(excess_threshold=np.inf, patience=1),
    "metric never renewed": part("metric", refresh=NEVER),
    "metric: its diagonal": prox_qn(lambda solver: replace(solver, metric=Diagonal())),
    "all sweeps": part("sweeps", is_cost_aware=False),
    "all violators enter": prox_qn(lambda solver: replace(solver, entry=TopViolators(None))),
    "no zeros leave": part("shrinking", slack=1.0),
    "zeros leave one by one": part("shrinking", least=0.0),
    "sampled_positions: 1500": constants(sampled_positions=1500),
    "text in samples": constants(online_epochs=0),
    "no strong penalties first": part("warm_start", stages=(Stage(16, 1.0), Stage(4, 1.0))),
    "no warm start": prox_qn(lambda solver: replace(solver, warm_start=None)),
    "no Anderson steps": without(ROWS, RowDescent, memory=0),
    "one curvature for a row": without(ROWS, RowDescent, min_curvature_ratio=1.0),
    "intercepts once a sweep": without(ROWS, RowDescent, free_share=0.0),
    "all rows in every sweep": without(ROWS, RowDescent, shrink=False),
    "rows in one order": without(ROWS, RowDescent, shuffle=False),
    "items in one order": without(DUAL, DualDecomposition, reshuffle=False),
    "all items in every pass": without(DUAL, DualDecomposition, shrink=False),
    "no steps on faces": without(DUAL, DualDecomposition, faces=False),
    "no restarts": without(SPLITTING, FBPD, restarts=False),
    "step sizes by the norm of T": without(SPLITTING, FBPD, norm="differences"),
    "no lattice steps": Mechanism(
        MARGIN,
        lambda: patch.object(
            FrankWolfeState, "has_lattices", create=True, new_callable=PropertyMock, return_value=False
        ),
    ),
    "dense items as sparse rows": Mechanism(DUAL, lambda: patch.object(decomposition_state, "DenseMap", ())),
    "no Newton steps at the end": Mechanism(
        "", lambda: patch("crfqn.solvers.newton_on_support.MAX_OPERATIONS", 0.0)
    ),
}  # fmt: skip


# ---- cases


@dataclass(frozen=True, eq=False)
class Case:
    """A set of items, as many of which as a fit of some seconds takes, an estimator, and the solver it trains with;
    settings : besides the defaults."""

    solver: str
    load: Callable[[], TunedSet]
    n_items: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    estimator: type | None = None

    def items(self) -> TunedSet:
        """Return the set, cut to its size."""
        source = self.load()
        items = source.items if self.n_items is None else source.items.part(self.n_items)
        return replace(source, items=items, estimator=self.estimator or source.estimator)


def generated(n_items: int, n_features: int, n_labels: int, margin: float) -> TunedSet:
    """Return generated dense items; margin : of the labels' scores beside noise of 1, 0 for labels without noise, which
    are separable."""
    random = np.random.default_rng(0)
    x = random.normal(size=(2 * n_items, n_features))
    weights = random.normal(size=(n_features, n_labels)) * (random.random((n_features, n_labels)) < 0.2)
    scores = x @ weights
    if margin > 0:
        scores = margin * scores + random.gumbel(size=scores.shape)
    y = scores.argmax(axis=1)
    return TunedSet(Problem(x[:n_items], y[:n_items], x[n_items:], y[n_items:]), MulticlassCRF)


def groups_of_features() -> TunedSet:
    """Return generated sparse items of 12 labels, with 400 features that are alike in groups of four."""
    random = np.random.default_rng(0)
    y = random.integers(0, 12, 4000)
    chances = 0.05 + 0.2 * (random.random((12, 100)) < 0.1)
    x = np.repeat(random.random((4000, 100)) < chances[y], 4, axis=1)
    x = (x & (random.random(x.shape) < 0.9)).astype(np.float64)
    return TunedSet(Problem(x[:2000], y[:2000], x[2000:], y[2000:]), MulticlassCRF)


def handwriting() -> TunedSet:
    """Return the words of OCR, pixels and pairs of pixels."""
    return TunedSet(Problem.of_recipe("models/ocr"), ChainCRF)


SPARSE = {"l2": 0.0}  # l1 alone
HINGE = {"loss": "hinge", "penalty": "l2", "l2": 1.0}
SPARSE_HINGE = {"loss": "hinge", "penalty": "l1", "l1": 1.0, "solver": "fbpd"}
CASES: dict[str, Case] = {
    "digits": Case(PROX_QN, digits),
    "digits, weak l1": Case(PROX_QN, digits, settings={"l1": 0.01}),
    "dense": Case(PROX_QN, lambda: generated(3000, 100, 8, 1.0)),
    "separable": Case(PROX_QN, lambda: generated(2000, 60, 6, 0.0), settings={"l1": 0.01}),
    "alike features": Case(PROX_QN, groups_of_features),
    "leukemia": Case(PROX_QN, SETS["leukemia"]),
    "companies": Case(PROX_QN, SETS["companies"]),
    "companies, l1": Case(PROX_QN, SETS["companies"], settings=SPARSE),
    "persons": Case(PROX_QN, SETS["persons"]),
    "chunks-500": Case(PROX_QN, SETS["chunks-500"]),
    "chunks-500, l1": Case(PROX_QN, SETS["chunks-500"], settings=SPARSE),
    "dutch": Case(PROX_QN, SETS["dutch"], 800),
    "dutch, l1": Case(PROX_QN, SETS["dutch"], 800, SPARSE),
    "tweets": Case(PROX_QN, SETS["tweets"], 1500),
    "entities": Case(PROX_QN, SETS["entities"], 20),
    "banking": Case(PROX_QN, SETS["banking-tf-idf"], 4000),
    "docstrings": Case(PROX_QN, SETS["docstrings"]),
    "docstrings-tree": Case(PROX_QN, SETS["docstrings-tree"]),
    "imageclef": Case(PROX_QN, SETS["imageclef"], 3000),
    "news": Case(PROX_QN, SETS["news-tf-idf"], 4000),
    "mnist": Case(PROX_QN, SETS["mnist"], 2000),
    "mnist, l1": Case(PROX_QN, SETS["mnist"], 10000, {"l2": 0.0}),
    "mnist, rows": Case(PROX_QN, SETS["mnist"], 2000, estimator=MulticlassClassifier),
    "ocr": Case(PROX_QN, handwriting, 1000),
    "ocr, weak l1": Case(PROX_QN, handwriting, 400, {"l1": 0.1, "l2": 0.0}),
    "lshtc1": Case(PROX_QN, SETS["lshtc1"], 2000),
    "news, rows": Case(ROWS, SETS["news-tf-idf"], 4000, estimator=MulticlassClassifier),
    "banking, rows": Case(ROWS, SETS["banking-tf-idf"], 4000, estimator=MulticlassClassifier),
    "docstrings, rows": Case(ROWS, SETS["docstrings"], estimator=MulticlassClassifier),
    "digits, rows": Case(ROWS, digits, settings={"solver": "bcd"}, estimator=MulticlassClassifier),
    "bibtex": Case(ROWS, MULTILABEL["bibtex"], 2000),
    "yeast": Case(ROWS, MULTILABEL["yeast"], settings={"solver": "bcd"}),
    "digits, dual": Case(DUAL, digits, settings=HINGE, estimator=MulticlassClassifier),
    "mnist, dual": Case(DUAL, SETS["mnist"], 2000, HINGE, MulticlassClassifier),
    "dense, dual": Case(DUAL, lambda: generated(3000, 100, 8, 1.0), None, HINGE, MulticlassClassifier),
    "digits, sparse hinge": Case(SPLITTING, digits, settings=SPARSE_HINGE, estimator=MulticlassClassifier),
    "dense, sparse hinge": Case(
        SPLITTING, lambda: generated(3000, 100, 8, 1.0), None, SPARSE_HINGE, MulticlassClassifier
    ),
    "companies, margin": Case(MARGIN, SETS["companies"], settings={"loss": "hinge", "l2": 1.0}),
    "chunks-500, margin": Case(MARGIN, SETS["chunks-500"], settings={"loss": "hinge", "l2": 1.0}),
    "dutch, margin": Case(MARGIN, SETS["dutch"], 800, {"loss": "hinge", "l2": 1.0}),
}
QUICK_CASES = {
    "few-digits": Case(PROX_QN, QUICK["few-digits"]),
    "few-strings": Case(PROX_QN, QUICK["few-strings"]),
}


# ---- measurements


@dataclass(frozen=True)
class Costs:
    """Passes, processor seconds and objective of the fit by default, its score on held-out items in percent, and passes
    and seconds to NEAR, infinite where the limit of passes came first."""

    passes: float
    seconds: float
    value: float
    score: float
    near_passes: float = np.inf
    near_seconds: float = np.inf
    end: float = np.nan  # the objective there

    def has_steps_of(self, other: Costs) -> bool:
        """Return whether both fits took the same steps."""
        same_passes = (self.passes, self.near_passes) == (other.passes, other.near_passes)
        return same_passes and np.allclose([self.value, self.end], [other.value, other.end], SAME, 0.0)


class Measurement:
    """A case with its items, and the lowest objective that is known."""

    def __init__(self, name: str, case: Case) -> None:
        self.case, self.source = case, case.items()
        with quietly():
            model = self.model(**REFERENCE, callback=Clock(limit=REFERENCE_SECONDS)).fit(*self.items)
        self.lowest, self.most_passes = model.result_.value, np.inf
        self.default = self.costs()
        self.most_passes = MOST_TIMES * self.default.near_passes + ALLOWANCE
        say(f"{name}: {self.default}")

    @property
    def items(self) -> tuple[Any, Any]:
        return self.source.items.X_train, self.source.items.y_train

    def model(self, **settings: Any) -> Any:
        return self.source.model(**self.case.settings, n_threads=1, **settings)

    def costs(self) -> Costs:
        """Fit by default, and to NEAR."""
        with quietly():
            model = self.model()
            seconds, result = fit_seconds(model, *self.items), model.result_
            score = self.source.score(model, self.source.items.X_test, self.source.items.y_test)
            target = self.lowest * (1.0 + NEAR)
            clock = Clock(target, most_passes=self.most_passes)
            self.model(tol=0.1 * NEAR, stop="certificate", callback=clock).fit(*self.items)
        near = [(row.passes, clock_seconds) for _, clock_seconds, row in clock.rows if row.value <= target]
        end = clock.rows[-1][2].value if clock.rows else np.nan
        return Costs(result.passes, seconds, result.value, score, *(near or [(np.inf, np.inf)])[0], end)

    def turns(self, names: list[str]) -> dict[str, list[Costs]]:
        """Fit by default and with each mechanism switched off, by turns; the same steps are measured once."""
        costs: dict[str, list[Costs]] = {"": []}
        n_turns = int(np.clip(TURN_SECONDS / (self.default.seconds + self.default.near_seconds), 1, TURNS))
        for turn in range(n_turns):
            costs[""].append(self.costs())
            for name in names:
                if turn and costs[name][0].has_steps_of(self.default):
                    continue
                with ExitStack() as switched:
                    switched.enter_context(MECHANISMS[name].off())
                    costs.setdefault(name, []).append(self.costs())
        return costs


def ratios(costs: dict[str, list[Costs]], name: str) -> dict[str, float]:
    """Return passes and seconds without a mechanism, in units of the default's, and the difference of the scores."""
    default, variant = costs[""], costs[name]
    is_same = MECHANISMS[name].solver == PROX_QN and variant[0].has_steps_of(default[0])
    return {
        what: 1.0 if is_same else
        median(getattr(each, what) for each in variant) / median(getattr(each, what) for each in default)
        for what in WHAT
    } | {"score": variant[0].score - default[0].score}  # fmt: skip


def measure(name: str, names: list[str]) -> dict[str, Any]:
    """Fit a case by default and without each mechanism of its solver."""
    case = (CASES | QUICK_CASES)[name]
    names = [each for each in names if MECHANISMS[each].solver in ("", case.solver)]
    measurement = Measurement(name, case)
    costs = measurement.turns(names)
    without = {each: ratios(costs, each) for each in names}
    return {"data": measurement.source.items.fingerprint, "default": vars(costs[""][0]), "without": without}


def section(records: list[dict[str, Any]]) -> Section:
    """Return the median and the range of what each case loses without each mechanism, and all ratios by case."""
    names = list(dict.fromkeys(name for each in records for name in each["without"]))
    rows = []
    for name in names:
        cases = [each["without"][name] for each in records if name in each["without"]]
        cells = [name, str(len(cases))]
        for what in WHAT:
            # None: not reached.
            values = [MOST_TIMES if ratio[what] is None else ratio[what] for ratio in cases]
            cells.append(f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
        rows.append([*cells, f"{min(ratio['score'] for ratio in cases):+.1f}"])
    head = ["without", "cases", *WHAT.values(), "lowest score"]
    note = (
        f"Median of all cases (lowest to highest); {MOST_TIMES:g} also stands for more, or for not reached."
    )
    tables = [Table("Switched off alone, in units of the default's", head, rows, [note])]
    for what, title in WHAT.items():
        rows = []
        for name in names:
            ratios = [each["without"].get(name, {}).get(what) for each in records]
            rows.append([name, *(number(ratio, ".2f", "") for ratio in ratios)])
        tables.append(Table(f"{title} by case", ["without", *(each["set"] for each in records)], rows))
    return Section(tables)


HEURISTICS = Comparison(
    "heuristics", "What each mechanism of the solvers gains",
    "Every case by default and with one mechanism switched off: to the default tolerance, and until the objective "
    "is within 1e-3 of the optimum. Figures are in units of the default's; above 1 the mechanism saves something.",
    ["crfqn", "numba", "numpy"], section,
)  # fmt: skip


def heuristics(
    data: Annotated[list[str] | None, some_of([*CASES])] = None,
    without: Annotated[list[str] | None, some_of([*MECHANISMS])] = None,
    quick: Quick = False,
    output: Output = None,
) -> None:
    """Every mechanism of the solvers switched off alone: passes and seconds, relative to the default."""
    names = QUICK_CASES if quick else data or CASES
    HEURISTICS.measure(measure, [{"set": name, "names": without or [*MECHANISMS]} for name in names], output)
