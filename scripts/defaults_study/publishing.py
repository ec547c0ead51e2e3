"""From curves to files: a JSON file a set, and a page of tables over all sets in the folder."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.alone import say
from benchmarks.report import Table
from studies.folder import write_json
from studies.report import facts

from crfqn.estimators.automatic_strengths import SHARE
from defaults_study.curves import Curve, measure
from defaults_study.rules import RULES, Rule
from defaults_study.sources import QUICK, SOURCES, Source

BEFORE = 1.0  # the default of versions before "auto"
PAGE = "page.md"


@dataclass(frozen=True)
class Fit:
    """A fit of all training items: how l1 was chosen, what it was, the test score, weights, processor seconds."""

    chosen_by: str
    l1: float
    test: float
    n_nonzero: int
    seconds: float


class Publisher:
    """Measures sets into a folder.

    Parameters
    ----------
    output : the folder
    seconds : processor time of a curve
    l2_share : l2 as a share of l1
    """

    def __init__(self, output: Path, seconds: float, l2_share: float) -> None:
        self.output, self.seconds, self.l2_share = output, seconds, l2_share
        output.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        """Where a set's figures are kept."""
        return self.output / (f"{name}-l2-{self.l2_share:g}.json" if self.l2_share else f"{name}.json")

    def measure(self, name: str) -> None:
        """Measure a set, unless the folder has it."""
        if self.file(name).exists():
            say(f"{name}: {self.file(name)} has it")
            return
        source = (SOURCES | QUICK)[name]()
        curve = measure(name, source, self.seconds, self.l2_share)
        choices = {"validation": curve.tuned.l1, "before": BEFORE, "auto": "auto"}
        fits = [self.fit(source, chosen_by, l1) for chosen_by, l1 in choices.items()]
        write_json(self.file(name), {"curve": curve.as_dict(), "fits": [asdict(fit) for fit in fits]})

    def fit(self, source: Source, chosen_by: str, l1: Any) -> Fit:
        """Train on all training items from zero weights, with the default settings otherwise."""
        begin = time.process_time()
        l2 = self.l2_share * l1 if chosen_by == "validation" else 0.0  # the defaults have none
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = source.model(l1=l1, l2=l2).fit(source.X_train, source.y_train)
        seconds = time.process_time() - begin
        test = source.score(model, source.X_test, source.y_test)
        return Fit(chosen_by, model.l1_, test, model.result_.n_nonzero, seconds)

    def publish(self) -> None:
        """Write the page anew."""
        found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self.output.glob("*.json"))]
        curves = [Curve.of(each["curve"]) for each in found]
        fits = [[Fit(**fit) for fit in each["fits"]] for each in found]
        tables = [fits_table(curves, fits)]
        plain = [curve for curve in curves if curve.penalty == "l1"]
        if len(plain) > 1:
            tables += [rules_table(plain), left_out_table(RULES[0], plain)]
        page = "\n\n".join([*(table.markdown() for table in tables), *map(curve_lines, curves), facts()])
        (self.output / PAGE).write_text(page + "\n", encoding="utf-8")
        print(page)


def fits_table(curves: list[Curve], fits: list[list[Fit]]) -> Table:
    """What each choice of l1 gets on each set."""
    head = [
        "set",
        "items",
        "labels",
        "tuned l1",
        "test",
        "l1 = 1",
        "auto l1",
        "test",
        "non-zeros",
        "auto - tuned",
    ]
    rows = []
    for curve, (tuned, before, auto) in zip(curves, fits, strict=True):
        name = curve.name if curve.penalty == "l1" else f"{curve.name} ({curve.penalty})"
        rows.append(
            [
                name, f"{curve.n_items:,}", str(curve.n_labels), f"{tuned.l1:.3g}", f"{tuned.test:.2f}",
                f"{before.test:.2f}", f"{auto.l1:.3g}", f"{auto.test:.2f}", f"{auto.n_nonzero:,}",
                f"{auto.test - tuned.test:+.2f}",
            ]
        )  # fmt: skip
    return Table("Test scores of fits on all training items, percent", head, rows, [])


def rules_table(curves: list[Curve]) -> Table:
    """What the rules lose at most, with a constant for all sets and with that of all others."""
    rows = []
    for rule in RULES:
        constant, losses = rule.best(curves)
        others = [lost for _, lost in rule.left_out(curves)]
        worst = max(range(len(curves)), key=lambda i: others[i])
        rows.append(
            [
                rule.title,
                f"{constant:.3g}",
                f"{losses.max():.2f}",
                f"{max(others):.2f} ({curves[worst].name})",
            ]
        )
    head = ["l1 in proportion to", "best constant", "largest loss", "largest loss of a set left out"]
    return Table("Points lost on the tuned strength, by rule", head, rows, [])


def left_out_table(rule: Rule, curves: list[Curve]) -> Table:
    """The constant that all other sets would have chosen, and what it loses."""
    rows = [
        [
            curve.name, f"{constant:.3g}", f"{lost:+.2f}",
            f"{curve.lost_at(SHARE * rule.quantity(curve)):+.2f}",
        ]
        for curve, (constant, lost) in zip(curves, rule.left_out(curves), strict=True)
    ]  # fmt: skip
    head = ["set left out", "constant of the others", "loses", f"with {SHARE:g} loses"]
    return Table(f"{rule.title}: each set left out once", head, rows, [])


def curve_lines(curve: Curve) -> str:
    """The curve as a table."""
    lines = [f"### {curve.name}, {curve.measure}, {curve.estimator}, {curve.penalty}", ""]
    lines += [
        "| l1 | l1 / noise | l1 / l1_max | validation | test | non-zeros |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.l1:.3g} | {row.l1 / curve.noise:.3g} | {row.l1 / curve.l1_max:.3g} | {row.validation:.2f} | "
        f"{row.test:.2f} | {row.n_nonzero:,.0f} |"
        for row in curve.rows
    ]
    return "\n".join(lines)
