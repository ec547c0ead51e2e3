"""What the default strengths are worth: scores against them on many sets, and the rules that could choose them.

Writes a JSON file a set, which later calls use again, and a page of tables over all that is in the folder.

Scores against the strength: one model after the other from strong to weak, each started at the last. Models train on
four fifths of the training items (of sets with few items five times, each fifth left out once), and are scored on the
rest (validation) and on the test items. The default end, by an estimate, ends each fit.

A rule that chooses a strength from data is constant x quantity. What it loses on a set is the test score of the
strength that validation would choose less that of the rule's. The best constant of some sets is that whose largest loss
over them is least; of a set left out, the loss with the best constant of all others is shown: what a user of new data
would have got.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.default_sets import ALL_SETS, MULTILABEL, QUICK, SETS, VARIED, TunedSet
from harness.measuring import fit_seconds, quietly, say
from harness.options import SEVERAL, Into, Quick, some_of
from harness.pages import PAGE, explaining, facts
from harness.problems import take
from harness.report import Record, Table, number, write_json

from crfqn.errors import InputError
from crfqn.estimators.automatic import NOISE_FACTORS
from crfqn.regularization_path.path import prepare_path

STEP = 4.0  # between two strengths
FIRST = {"l1": 1 / 16, "group_l1": 1 / 4, "l2": 4.0}  # of the largest: above, next to nothing is learnt
LAST = 4e-3  # of the noise of gradients
N_FOLDS, FEW_ITEMS = 5, 500
FURTHER = 2  # strengths that are LOST points below the best end a curve
LOST = 2.0
CONSTANTS = np.geomspace(1e-4, 10.0, 201)


@dataclass(frozen=True)
class Curve:
    """Records of a set, strong to weak: strength, l2 besides it, percent right, weights, processor seconds.

    penalty : the strengths: "l1", "l1, l2 = 2 l1", "group_l1" or "l2"
    largest, noise, scale : of the four fifths that are trained on: the largest useful strength, the noise of gradients
        (its square for l2), and the root of the mean square of the values that are not zero
    """

    name: str
    estimator: str
    measure: str
    penalty: str
    n_items: int
    n_labels: int
    largest: float
    noise: float
    scale: float
    rows: list[Record] = field(default_factory=list)

    def column(self, name: str) -> np.ndarray:
        return np.array([row[name] for row in self.rows])

    @property
    def tuned(self) -> Record:
        """The best on validation items; of equal ones the strongest."""
        return self.rows[int(np.argmax(self.column("validation")))]

    def test_at(self, strength: float) -> float:
        """The test score at a strength, linear between the logarithms of those measured, constant beyond."""
        measured = np.log(self.column("strength"))[::-1]
        return float(np.interp(np.log(strength), measured, self.column("test")[::-1]))

    def lost_at(self, strength: float) -> float:
        """The points of the test score that a strength loses on the tuned one."""
        return self.tuned["test"] - self.test_at(strength)


def folds(n_items: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Items to train on and to validate with: five parts of few items, one of many."""
    order = np.random.default_rng(0).permutation(n_items)
    parts = [np.sort(order[i::N_FOLDS]) for i in range(N_FOLDS if n_items <= FEW_ITEMS else 1)]
    return [(np.setdiff1d(order, part), part) for part in parts]


def measure(name: str, source: TunedSet, seconds: float, l2_share: float = 0.0) -> Curve:
    """The curve of a set, with l2 as a share of l1, for so many processor seconds at most."""
    train, _ = folds(source.n_items)[0]
    X, y = take(source.items.X_train, train), take(source.items.y_train, train)
    varied = source.varied if source.varied != "l2" else "l1"
    with prepare_path(source.model(), X, y, path_parameter=varied) as prepared:
        noise, largest = prepared.automatic / NOISE_FACTORS[varied], prepared.l1_max
    if source.varied == "l2":  # a feature's curvature at zero weights: beyond, next to nothing is learnt
        noise = largest = noise**2
    penalty = f"l1, l2 = {l2_share:g} l1" if l2_share else source.varied
    matrix = getattr(X, "matrix", X)
    values = np.asarray(matrix.data if hasattr(matrix, "indptr") else matrix, np.float64)
    curve = Curve(
        name, source.estimator.__name__, source.measure, penalty, source.n_items, source.n_labels, largest,
        noise, scale=float(np.sqrt(np.mean(values[values != 0] ** 2))),
    )  # fmt: skip
    say(f"{name}: {source.n_items} items, largest {penalty} {largest:.4g}, noise {noise:.4g}")
    cuts = folds(source.n_items)
    models = [source.model(warm_start=True) for _ in cuts]
    first = FIRST[source.varied] * curve.largest
    begin, strength, best, n_worse = time.process_time(), first, -np.inf, 0
    while n_worse < FURTHER and strength >= LAST * curve.noise and time.process_time() - begin < seconds:
        row = fit(source, models, cuts, strength, l2_share * strength)
        curve.rows.append(row)
        scores = f"validation {row['validation']:.2f}, test {row['test']:.2f}"
        say(f"  {source.varied} {strength:.4g}: {scores}, {row['seconds']:.1f} s")
        best = max(best, row["validation"])
        n_worse = n_worse + 1 if row["validation"] < best - LOST else 0
        strength /= STEP
    return curve


def fit(source: TunedSet, models: list[Any], cuts: list[Any], strength: float, l2: float) -> Record:
    """The models of a strength, one a cut."""
    begin, scores_by_cut, items = time.process_time(), [], source.items
    for model, (train, held_out) in zip(models, cuts, strict=True):
        model.set_params(**source.strengths(strength, l2))
        with quietly():  # what a fit's limit leaves undone, scores tell
            model.fit(take(items.X_train, train), take(items.y_train, train))
        validation = source.score(model, take(items.X_train, held_out), take(items.y_train, held_out))
        test = source.score(model, items.X_test, items.y_test)
        scores_by_cut.append((validation, test, model.result_.n_nonzero))
    averages = np.mean(scores_by_cut, axis=0).tolist()
    scores = dict(zip(("validation", "test", "n_nonzero"), averages, strict=True))
    return {"strength": strength, "l2": l2, **scores, "seconds": time.process_time() - begin}


@dataclass(frozen=True)
class Rule:
    """A quantity of a set's training items that strengths are proportional to."""

    title: str
    quantity: Callable[[Curve], float]

    def losses(self, curves: Sequence[Curve]) -> np.ndarray:
        """What each constant loses on each set, (constants, sets)."""
        return np.array([[curve.lost_at(c * self.quantity(curve)) for curve in curves] for c in CONSTANTS])

    def best(self, curves: Sequence[Curve]) -> tuple[float, np.ndarray]:
        """The constant with the least largest loss, the middle of equal ones; and what it loses on each set."""
        losses = self.losses(curves)
        chosen = middle_of_least(losses.max(axis=1))
        return float(CONSTANTS[chosen]), losses[chosen]

    def left_out(self, curves: Sequence[Curve]) -> list[tuple[float, float]]:
        """For each set the best constant of all others, and what it loses on this one."""
        losses, choices = self.losses(curves), []
        for i in range(len(curves)):
            chosen = middle_of_least(np.delete(losses, i, axis=1).max(axis=1))
            choices.append((float(CONSTANTS[chosen]), float(losses[chosen, i])))
        return choices


def middle_of_least(values: np.ndarray, slack: float = 0.05) -> int:
    """The middle of those that are hardly larger than the least."""
    near = np.flatnonzero(values <= max(values.min(), 0.0) + slack)  # to beat the tuned one is luck
    return int(near[near.size // 2])


RULES = (
    Rule("noise of gradients", lambda curve: curve.noise),
    Rule("noise of a row's gradients", lambda curve: curve.noise * np.sqrt(curve.n_labels)),
    Rule("largest useful strength", lambda curve: curve.largest),
    Rule("scale of the features", lambda curve: curve.scale),
    Rule("one number for all", lambda curve: 1.0),
)


class Publisher:
    """Measures sets into a folder.

    output : the folder
    seconds : processor time of a curve
    varied : the strength, one of VARIED
    l2_share : l2 as a share of l1
    """

    def __init__(self, output: Path, seconds: float, varied: str = "l1", l2_share: float = 0.0) -> None:
        self.output, self.seconds, self.varied, self.l2_share = output, seconds, varied, l2_share
        output.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        """Where a set's figures are kept."""
        kind = f"-l2-{self.l2_share:g}" if self.l2_share else "" if self.varied == "l1" else f"-{self.varied}"
        return self.output / f"{name}{kind}.json"

    def measure(self, name: str) -> None:
        """Measure a set, unless the folder has it."""
        if self.file(name).exists():
            say(f"{name}: {self.file(name)} has it")
            return
        source = ALL_SETS[name]().varying(self.varied)
        curve = measure(name, source, self.seconds, self.l2_share)
        choices: dict[str, Any] = {"validation": curve.tuned["strength"]}
        if self.varied != "group_l1":  # 1 is no strength for rows: next to none on many sets, and slow
            choices["one"] = 1.0
        if self.varied in NOISE_FACTORS:
            choices["auto"] = "auto"
        fits = [self.fit(source, chosen_by, l1) for chosen_by, l1 in choices.items()]
        write_json(self.file(name), {"curve": asdict(curve), "fits": fits})

    def fit(self, source: TunedSet, chosen_by: str, strength: Any) -> Record:
        """Train on all training items from zero weights, with the default settings otherwise."""
        items = source.items
        l2 = self.l2_share * strength if chosen_by == "validation" else 0.0  # the defaults have none
        model = source.model(**source.strengths(strength, l2))
        seconds = fit_seconds(model, items.X_train, items.y_train)
        test, used = source.score(model, items.X_test, items.y_test), getattr(model, f"{source.varied}_")
        record = {"chosen_by": chosen_by, "strength": float(used), "test": test}
        return record | {"n_nonzero": model.result_.n_nonzero, "seconds": seconds}

    def publish(self) -> None:
        sets = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self.output.glob("*.json"))]
        curves = [Curve(**each["curve"]) for each in sets]
        fits = [each["fits"] for each in sets]
        tables = [fits_table(curves, fits)]
        for penalty in VARIED:
            alike = [curve for curve in curves if curve.penalty == penalty]
            if len(alike) > 1:
                tables.append(rules_table(penalty, alike))
            if len(alike) > 1 and penalty in NOISE_FACTORS:
                tables.append(left_out_table(penalty, RULES[0], alike))
        details = (curve_table(curve).markdown(3) for curve in curves)
        page = "\n\n".join([*(table.markdown() for table in tables), *details, facts()])
        (self.output / PAGE).write_text(page + "\n", encoding="utf-8")
        print(page)


def fits_table(curves: list[Curve], fits: list[list[Record]]) -> Table:
    """What each choice of a strength gets on each set; pure L2 has no "auto", its default is 1."""
    entries = []
    for curve, found in zip(curves, fits, strict=True):
        by_choice = {fit["chosen_by"]: fit for fit in found}
        tuned, one, auto = (by_choice.get(name, {}) for name in ("validation", "one", "auto"))
        entries.append({"curve": curve, "tuned": tuned, "one": one, "auto": auto, "default": auto or one})
    columns: dict[str, Callable[[Record], str]] = {
        "set": lambda each: each["curve"].name,
        "penalty": lambda each: each["curve"].penalty,
        "items": lambda each: f"{each['curve'].n_items:,}",
        "labels": lambda each: str(each["curve"].n_labels),
        "tuned": lambda each: f"{each['tuned']['strength']:.3g}",
        "its test score": lambda each: f"{each['tuned']['test']:.2f}",
        "at 1": lambda each: number(each["one"].get("test"), ".2f", ""),
        "auto": lambda each: number(each["auto"].get("strength"), ".3g", ""),
        "the default's": lambda each: f"{each['default']['test']:.2f}",
        "non-zeros": lambda each: f"{each['default']['n_nonzero']:,}",
        "default - tuned": lambda each: f"{each['default']['test'] - each['tuned']['test']:+.2f}",
    }
    return Table.from_rows("Test scores of fits on all training items, percent", columns, entries)


def rules_table(penalty: str, curves: list[Curve]) -> Table:
    """What the rules lose at most, with a constant for all sets and with that of all others."""
    rows = []
    for rule in RULES:
        constant, losses = rule.best(curves)
        worst, name = max(
            (lost, curve.name) for curve, (_, lost) in zip(curves, rule.left_out(curves), strict=True)
        )
        rows.append([rule.title, f"{constant:.3g}", f"{losses.max():.2f}", f"{worst:.2f} ({name})"])
    head = [f"{penalty} in proportion to", "best constant", "largest loss", "largest loss of a set left out"]
    return Table(f"Points lost on the tuned {penalty}, by rule", head, rows)


def left_out_table(penalty: str, rule: Rule, curves: list[Curve]) -> Table:
    """The constant that all other sets would have chosen, and what it loses."""
    share, rows = NOISE_FACTORS[penalty], []
    for curve, (constant, lost) in zip(curves, rule.left_out(curves), strict=True):
        with_share = curve.lost_at(share * rule.quantity(curve))
        rows.append([curve.name, f"{constant:.3g}", f"{lost:+.2f}", f"{with_share:+.2f}"])
    head = ["set left out", "constant of the others", "loses", f"with {share:g} loses"]
    return Table(f"{penalty}, {rule.title}: each set left out once", head, rows)


def curve_table(curve: Curve) -> Table:
    columns: dict[str, Callable[[Record], str]] = {
        curve.penalty: lambda row: f"{row['strength']:.3g}",
        "/ noise": lambda row: f"{row['strength'] / curve.noise:.3g}",
        "/ largest": lambda row: f"{row['strength'] / curve.largest:.3g}",
        "validation": lambda row: f"{row['validation']:.2f}",
        "test": lambda row: f"{row['test']:.2f}",
        "non-zeros": lambda row: f"{row['n_nonzero']:,.0f}",
    }
    title = ", ".join((curve.name, curve.measure, curve.estimator, curve.penalty))
    return Table.from_rows(title, columns, curve.rows)


def main(
    data: Annotated[
        list[str] | None,
        some_of(
            [*SETS, *MULTILABEL, *QUICK], f"{SEVERAL[:-1]}; default: all, with --quick small built-in ones."
        ),
    ] = None,
    quick: Quick = False,
    strength: Annotated[
        str,
        some_of(VARIED, "The one that varies: group_l1 over rows of weights, l2 alone; both for flat sets."),
    ] = "l1",
    l2_share: Annotated[float, typer.Option("--l2", min=0, help="l2 as a share of l1.")] = 0.0,
    seconds: Annotated[float, typer.Option(min=1, help="Of processor time a set, for its curve.")] = 200.0,
    output: Into = Path("defaults-study"),
) -> None:
    """Measure the sets that the folder does not have yet, and write the page."""
    with explaining():
        publisher = Publisher(output, seconds, strength, l2_share)
        for name in data or (QUICK if quick else SETS):
            try:
                publisher.measure(name)
            except InputError as error:  # a set without this strength
                if data:
                    raise
                say(f"{name}: left out; {error}")
        publisher.publish()
