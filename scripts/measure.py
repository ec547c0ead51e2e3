#!/usr/bin/env python
"""Measurements whose figures stand in the manual.

    python scripts/measure.py stopping conll2000:500 --factor 1 --seconds 20

Those that were made once are not kept: the manual says how.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from harness.measuring import quietly, say
from harness.options import command
from harness.pages import explaining
from harness.report import Table

from crfqn.data.encoding import encode_sequences
from crfqn.recipes import build_estimator, load_recipe, prepare_data
from crfqn.result import Result

FACTORS = [0.1, 0.3, 1.0, 3.0, 10.0]  # times the recipe's l1 (or l2)
KINDS = ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))  # of which l1 and l2 take these shares
TOLERANCES = (0.1, 0.03, 1e-2, 1e-3)
FINE = 1e-6  # of the run to the optimum
app = command()


@app.callback()
def measure() -> None:
    """Measurements whose figures stand in the manual."""


@app.command()
def stopping(
    recipes: Annotated[list[str], typer.Argument(help="Recipes by name, with :N for the first N items.")],
    seconds: Annotated[float, typer.Option(min=1, help="Limit of the processor's time of a run.")] = 60.0,
    factor: Annotated[list[float] | None, typer.Option(help="Strengths, times the recipe's.")] = None,
) -> None:
    """How far off the estimated distance to the optimum is: where an estimate ends a run, against the optimum.

    `conll2000:2000`: the first 2,000 training items. For each recipe and penalty a run to the certificate, or to the
    limit of the processor's time, whose end is taken for the optimum, and one at each tolerance that an estimate may
    end. An end is left out whose optimum is not known: where the certified gap is above a tenth of the tolerance,
    unless the last tenth of all steps has won less than a hundredth of it. Prints the true distances in units of the
    tolerance.
    """
    rows: list[list[str]] = []
    distances: list[float] = []
    unfinished: list[str] = []
    for name in recipes:
        recipe, data, taxonomy = loaded(name)
        for scale, (of_l1, of_l2) in product(factor or FACTORS, KINDS):
            base = scale * (recipe.objective.l1 or recipe.objective.l2 or 1.0)
            settings = {"l1": of_l1 * base, "l2": of_l2 * base}
            fit = partial(trained, recipe, data, taxonomy, settings, seconds)
            optimum, cells = fit("certificate", FINE), [name, *(f"{each:g}" for each in settings.values())]
            for tol in TOLERANCES:
                if not is_known(optimum, tol):
                    cells.append("-")
                    continue
                end = fit("estimate", tol)
                distances.append((end.value / optimum.value - 1.0) / tol)
                unfinished += [] if end.status.is_success else [f"{name} {settings}"]
                cells.append(f"{distances[-1]:.2f} ({end.n_iter})")
            say(" | ".join(cells))
            rows.append(cells)
    head = ["data", "l1", "l2", *(f"at {tol:g}" for tol in TOLERANCES)]
    worst = f"largest {max(distances, default=np.nan):.2f}, median {np.median(distances):.2f}"
    notes = [f"Ended by a limit: {'; '.join(unfinished) or 'none'}.", f"{len(distances)} ends: {worst}."]
    print(Table("True distance / tol (steps)", head, rows, notes).markdown())


def loaded(name: str) -> tuple[Any, tuple[Any, Any], Any]:
    """The recipe, its training items (features and labels) and its taxonomy."""
    name, _, n_items = name.partition(":")
    recipe = load_recipe(name)
    prepared = prepare_data(recipe)
    X, y = prepared.X_train, prepared.y_train
    if isinstance(X, list):
        X = encode_sequences(X)[0]  # once for all runs
    data = (X[: int(n_items)], y[: int(n_items)]) if n_items else (X, y)
    return recipe, data, prepared.given_taxonomy


def trained(
    recipe: Any, data: tuple[Any, Any], taxonomy: Any, strengths: dict[str, float], seconds: float, stop: str,
    tol: float,
) -> Result:  # fmt: skip
    """The run to its end, or to the limit."""
    began = process_time()
    settings: dict[str, Any] = {**strengths, "stop": stop, "tol": tol, "taxonomy": taxonomy}
    model = build_estimator(recipe, callback=lambda _: process_time() - began > seconds, **settings)
    with quietly():  # the table says what was reached
        return model.set_params(max_iter=100_000).fit(*data).result_


def is_known(optimum: Result, tol: float) -> bool:
    """Whether a run has come near enough to the optimum to measure the distance at this tolerance."""
    values = {row.iteration: row.value for row in optimum.trace.rows if row.iteration > 0}  # after each step
    steps = np.minimum.accumulate(list(values.values())).tolist() or [optimum.value]
    last_tenth = 1.0 - optimum.value / steps[int(0.9 * (len(steps) - 1))]
    return bool(optimum.gap <= 0.1 * tol or abs(last_tenth) < 0.01 * tol)


if __name__ == "__main__":
    with explaining():
        app()
