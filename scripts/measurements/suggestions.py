"""What labelling the suggested items first is worth: F1 by the number of labelled items, against random choice.

The training items of a data set are the pool. A model is trained on the first random ones, and again after each step,
when so many items are labelled that the last model was least sure of (`uncertainty`), or so many random ones. The score
is that of the data's test part: F1 of chunks, or without chunks accuracy. Points are means over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.data import CHUNKED, SOURCES, Texts
from harness.drawing import Panel, draw_by_theme
from harness.options import some_of

from crfqn import ChainCRF
from crfqn.metrics import chunk_f1_score, token_accuracy

RANDOM, MEASURES = "random choice", ("confidence", "margin", "entropy")


def main(
    names: Annotated[list[str], typer.Argument(help=f"Of {', '.join(SOURCES)}.")],
    into: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path("docs/pictures"),
    measure: Annotated[list[str] | None, some_of(MEASURES)] = None,
    step: Annotated[int, typer.Option(min=1, help="Items that are labelled at a time.")] = 50,
    steps: Annotated[int, typer.Option(min=1)] = 8,
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    n_pool: Annotated[int, typer.Option("--pool", min=1, help="Items of the pool.")] = 2000,
) -> None:
    """Print the scores, and draw them as suggestions.svg."""
    panels = []
    for name in names:
        texts = Texts.load(name)
        X, X_test = texts.dicts
        score = chunk_f1_score if name in CHUNKED else token_accuracy
        lines: dict[str, tuple[list[int], Any]] = {}
        for how in (RANDOM, *(measure or MEASURES)):
            curves = []
            for seed in range(seeds):
                models = trainings(X[:n_pool], texts.y_train[:n_pool], how, step, steps, seed)
                curves.append([(score(texts.y_test, model.predict(X_test)), n) for model, n in models])
            means = np.mean(curves, axis=0)
            lines[how] = [step * (i + 1) for i in range(steps)], means[:, 0]
            print(
                name, how, *(f"{mean:.4f}" for mean in means[:, 0]), f"{means[-1, 1]:.0f} words", flush=True
            )
        label = "F1 of chunks" if name in CHUNKED else "accuracy of words"
        panels.append(Panel(name, lines, "labelled items", label))
    draw_by_theme(panels, into / "suggestions")


def trainings(X: Any, y: Any, how: str, step: int, steps: int, seed: int) -> Iterator[tuple[ChainCRF, int]]:
    """Yield the model after each step, the first items being random ones, and the number of words labelled."""
    order = np.random.default_rng(seed).permutation(len(X)).tolist()
    labelled: list[int] = []
    for _ in range(steps):
        labelled, order = labelled + order[:step], order[step:]
        model = ChainCRF(l1=0.1, n_threads=1).fit([X[i] for i in labelled], [y[i] for i in labelled])
        yield model, sum(len(y[i]) for i in labelled)
        if how != RANDOM and order:
            values = model.uncertainty([X[i] for i in order], how)
            order = [order[k] for k in np.argsort(-values, kind="stable")]
