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

from crfqn.estimators.strengths.automatic import SHARES
from defaults_study.curves import Curve, measure
from defaults_study.rules import RULES, Rule
from defaults_study.sources import MULTILABEL, QUICK, SOURCES, VARIED, Source

PAGE = "page.md"


@dataclass(frozen=True)
class Fit:
    """A fit of all training items: how its strength was chosen, what it was, test score, weights, processor seconds."""

    chosen_by: str
    strength: float
    test: float
    n_nonzero: int
    seconds: float


class Publisher:
    """Measures sets into a folder.

    Parameters
    ----------
    output : the folder
    seconds : processor time of a curve
    varied : the strength, one of `sources.VARIED`
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
        source = (SOURCES | MULTILABEL | QUICK)[name]().varying(self.varied)
        curve = measure(name, source, self.seconds, self.l2_share)
        choices: dict[str, Any] = {"validation": curve.tuned.strength}
        if self.varied != "group_l1":  # 1 is no strength for rows: next to none on many sets, and slow
            choices["one"] = 1.0
        if self.varied in SHARES:
            choices["auto"] = "auto"
        fits = [self.fit(source, chosen_by, l1) for chosen_by, l1 in choices.items()]
        write_json(self.file(name), {"curve": curve.as_dict(), "fits": [asdict(fit) for fit in fits]})

    def fit(self, source: Source, chosen_by: str, strength: Any) -> Fit:
        """Train on all training items from zero weights, with the default settings otherwise."""
        begin = time.process_time()
        l2 = self.l2_share * strength if chosen_by == "validation" else 0.0  # the defaults have none
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = source.model(**source.strengths(strength, l2)).fit(source.X_train, source.y_train)
        seconds = time.process_time() - begin
        test = source.score(model, source.X_test, source.y_test)
        used = float(getattr(model, f"{source.varied}_"))
        return Fit(chosen_by, used, test, model.result_.n_nonzero, seconds)

    def publish(self) -> None:
        """Write the page anew."""
        found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self.output.glob("*.json"))]
        curves = [Curve.of(each["curve"]) for each in found]
        fits = [[Fit(**fit) for fit in each["fits"]] for each in found]
        tables = [fits_table(curves, fits)]
        for penalty in VARIED:
            alike = [curve for curve in curves if curve.penalty == penalty]
            if len(alike) > 1:
                tables.append(rules_table(penalty, alike))
            if len(alike) > 1 and penalty in SHARES:
                tables.append(left_out_table(penalty, RULES[0], alike))
        page = "\n\n".join([*(table.markdown() for table in tables), *map(curve_lines, curves), facts()])
        (self.output / PAGE).write_text(page + "\n", encoding="utf-8")
        print(page)


def fits_table(curves: list[Curve], fits: list[list[Fit]]) -> Table:
    """What each choice of a strength gets on each set; pure L2 has no "auto", its default is 1."""
    head = [
        "set",
        "penalty",
        "items",
        "labels",
        "tuned",
        "test",
        "at 1",
        "auto",
        "test",
        "non-zeros",
        "default - tuned",
    ]
    rows = []
    for curve, found in zip(curves, fits, strict=True):
        by_choice = {fit.chosen_by: fit for fit in found}
        tuned, one, auto = (by_choice.get(name) for name in ("validation", "one", "auto"))
        default = auto or one
        assert tuned is not None
        assert default is not None
        rows.append(
            [
                curve.name, curve.penalty, f"{curve.n_items:,}", str(curve.n_labels), f"{tuned.strength:.3g}",
                f"{tuned.test:.2f}", f"{one.test:.2f}" if one else "", f"{auto.strength:.3g}" if auto else "",
                f"{default.test:.2f}", f"{default.n_nonzero:,}", f"{default.test - tuned.test:+.2f}",
            ]
        )  # fmt: skip
    return Table("Test scores of fits on all training items, percent", head, rows, [])


def rules_table(penalty: str, curves: list[Curve]) -> Table:
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
    head = [f"{penalty} in proportion to", "best constant", "largest loss", "largest loss of a set left out"]
    return Table(f"Points lost on the tuned {penalty}, by rule", head, rows, [])


def left_out_table(penalty: str, rule: Rule, curves: list[Curve]) -> Table:
    """The constant that all other sets would have chosen, and what it loses."""
    share = SHARES[penalty]
    rows = [
        [
            curve.name, f"{constant:.3g}", f"{lost:+.2f}",
            f"{curve.lost_at(share * rule.quantity(curve)):+.2f}",
        ]
        for curve, (constant, lost) in zip(curves, rule.left_out(curves), strict=True)
    ]  # fmt: skip
    head = ["set left out", "constant of the others", "loses", f"with {share:g} loses"]
    return Table(f"{penalty}, {rule.title}: each set left out once", head, rows, [])


def curve_lines(curve: Curve) -> str:
    """The curve as a table."""
    lines = [f"### {curve.name}, {curve.measure}, {curve.estimator}, {curve.penalty}", ""]
    lines += [
        f"| {curve.penalty} | / noise | / largest | validation | test | non-zeros |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.strength:.3g} | {row.strength / curve.noise:.3g} | {row.strength / curve.largest:.3g} | "
        f"{row.validation:.2f} | "
        f"{row.test:.2f} | {row.n_nonzero:,.0f} |"
        for row in curve.rows
    ]
    return "\n".join(lines)
