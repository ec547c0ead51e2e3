"""What labelling the suggested items first is worth: F1 by the number of labelled items, against random choice.

    python scripts/suggestions.py person btc --into docs/pictures

The training items of a data set are the pool. A model is trained on the first random ones, and again after each step,
when so many items are labelled that the last model was least sure of (`uncertainty`), or so many random ones. The score
is that of the data's test part: F1 of chunks, or without chunks accuracy. Points are means over seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.data import SOURCES, Texts
from harness.drawing import Panel, draw
from harness.options import command

from crfqn import ChainCRF
from crfqn.metrics import span_f1_score

RANDOM = "random choice"
app = command()


@app.command()
def main(
    names: Annotated[list[str], typer.Argument(help=f"Of {', '.join(SOURCES)}.")],
    into: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path("docs/pictures"),
    measure: Annotated[
        list[str] | None, typer.Option(help="Measures; default: confidence, margin, entropy.")
    ] = None,
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
        pool = X[:n_pool], texts.y_train[:n_pool], X_test, texts.y_test
        lines: dict[str, tuple[list[int], Any]] = {}
        for how in (RANDOM, *(measure or ("confidence", "margin", "entropy"))):
            curves = [curve(*pool, how, step, steps, seed) for seed in range(seeds)]
            scores = np.mean([scores for scores, _ in curves], axis=0)
            lines[how] = [step * (i + 1) for i in range(steps)], scores
            n_words = np.mean([n for _, n in curves])
            print(name, how, *(f"{score:.4f}" for score in scores), f"{n_words:.0f} words", flush=True)
        is_chunked = any(label.startswith("B-") for item in texts.y_train for label in item)
        panels.append(
            Panel(name, lines, "labelled items", "F1 of chunks" if is_chunked else "accuracy of words")
        )
    for suffix, is_dark in (("", False), ("-dark", True)):
        draw(panels, into / f"suggestions{suffix}.svg", is_dark=is_dark)


def curve(
    X: Any, y: Any, X_test: Any, y_test: Any, how: str, step: int, steps: int, seed: int
) -> tuple[list[float], int]:
    """Return the scores on the test items after each step, the first items being random ones, and the number of words
    that are labelled in the end."""
    order = np.random.default_rng(seed).permutation(len(X)).tolist()
    labelled, others, scores = order[:step], order[step:], []
    while True:
        model = ChainCRF(l1=0.1, n_threads=1).fit([X[i] for i in labelled], [y[i] for i in labelled])
        scores.append(score(y_test, model.predict(X_test)))
        if len(scores) == steps:
            return scores, sum(len(y[i]) for i in labelled)
        if how != RANDOM:
            values = model.uncertainty([X[i] for i in others], how)
            others = [others[k] for k in np.argsort(-values, kind="stable")]
        labelled, others = labelled + others[:step], others[step:]


def score(y_true: Any, y: Any) -> float:
    """Return F1 of chunks where labels are those of chunks, else the accuracy of positions."""
    if any(label.startswith("B-") for item in y_true for label in item):
        return float(span_f1_score(y_true, y, scheme="IOB2"))
    pairs = [a == b for one, other in zip(y_true, y, strict=True) for a, b in zip(one, other, strict=True)]
    return float(np.mean(pairs))


if __name__ == "__main__":
    app()
