"""How far off the estimated distance to the optimum is: where `stop="estimate"` ends, against where the optimum is.

    python scripts/stopping.py digits ocr --seconds 60
    python scripts/stopping.py probablepeople-person conll2000:2000 --factor 1

`conll2000:2000`: the first 2,000 training items. One run a recipe and penalty, to the certificate or the limit of the
processor's time; its trace tells where an estimate would have ended it at each tolerance (all that a run does before is
the same), and its end is the optimum that this is compared with. What waiting zeros promise is left out: it can only
make a run end later. An end is left out whose optimum is not known: where the certified gap is above a tenth of the
tolerance, unless the last tenth of all steps has won less than a hundredth of it.
"""

from __future__ import annotations

import warnings
from itertools import product
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer

from crfqn.data.encoding import encode_sequences
from crfqn.recipes import build_estimator, load_recipe, prepare
from crfqn.result import Result
from crfqn.solvers.stopping import Gains

FACTORS = [0.1, 0.3, 1.0, 3.0, 10.0]  # times the recipe's l1 (or l2)
KINDS = ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))  # of which l1 and l2 take these shares
TOLERANCES = (1e-2, 1e-3, 1e-4)


def main(
    recipes: Annotated[list[str], typer.Argument(help="Recipes by name, with :N for the first N items.")],
    seconds: Annotated[float, typer.Option(min=1, help="Limit of the processor's time of a run.")] = 60.0,
    factor: Annotated[list[float] | None, typer.Option(help="Strengths, times the recipe's.")] = None,
) -> None:
    """Print a table of the true distance at the end of each run, in units of the tolerance."""
    head = ["data", "l1", "l2", *(f"true distance / tol (steps) at {tol:g}" for tol in TOLERANCES)]
    print(row_of(head), row_of(["---"] * len(head)), sep="\n", flush=True)
    worst: list[float] = []
    n_runs = 0
    for name in recipes:
        recipe, data, taxonomy = loaded(name)
        base = recipe.objective.l1 or recipe.objective.l2 or 1.0
        for scale, (of_l1, of_l2) in product(factor or FACTORS, KINDS):
            settings = {"l1": of_l1 * scale * base, "l2": of_l2 * scale * base}
            result = trained(recipe, data, taxonomy, settings, seconds)
            n_runs += 1
            found = [at_stop(tol, result) for tol in TOLERANCES]
            worst += [distance for distance, _ in filter(None, found)]
            cells = ["-" if end is None else f"{end[0]:.2f} ({end[1]})" for end in found]
            print(row_of([name, *(f"{each:g}" for each in settings.values()), *cells]), flush=True)
    print(
        f"\n{n_runs} runs, {len(worst)} ends; true distance / tol: largest {max(worst, default=np.nan):.2f}, "
        f"median {np.median(worst):.2f}"
    )


def loaded(name: str) -> tuple[Any, tuple[Any, Any], Any]:
    """The recipe, its training items (features and labels) and its taxonomy."""
    name, _, n_items = name.partition(":")
    recipe = load_recipe(name)
    prepared = prepare(recipe)
    X, y = prepared.X_train, prepared.y_train
    if isinstance(X, list):
        X = encode_sequences(X)[0]  # once for all runs
    data = (X[: int(n_items)], y[: int(n_items)]) if n_items else (X, y)
    return recipe, data, prepared.given_taxonomy


def trained(
    recipe: Any, data: tuple[Any, Any], taxonomy: Any, settings: dict[str, float], seconds: float
) -> Result:
    """The run to its certificate, or to the limit."""
    began = process_time()
    model = build_estimator(
        recipe,
        taxonomy=taxonomy,
        stop="certificate",
        tol=1e-6,
        callback=lambda progress: process_time() - began > seconds,
        **settings,
    ).set_params(max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says what was reached
        return model.fit(*data).result_


def at_stop(tol: float, result: Result) -> tuple[float, int] | None:
    """The true distance in units of the tolerance where an estimate ends the run, and the steps until there.

    None where it does not end it, or the optimum is not known.
    """
    steps = by_step(result)
    last_tenth = 1.0 - result.value / steps[int(0.9 * (len(steps) - 1))]
    if result.gap > 0.1 * tol and not abs(last_tenth) < 0.01 * tol:
        return None
    gains = Gains()
    for n, value in enumerate(steps, start=1):
        gains.add(value)
        if gains.rest() <= tol * abs(value):
            return (value / result.value - 1.0) / tol, n
    return None


def row_of(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def by_step(result: Result) -> list[float]:
    """The least objective after each step."""
    values: dict[int, float] = {}
    for row in result.trace.rows:
        if row.iteration > 0:
            values[row.iteration] = row.value
    return np.minimum.accumulate(list(values.values())).tolist() or [result.value]


if __name__ == "__main__":
    typer.run(main)
