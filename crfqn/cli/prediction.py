"""`crfqn predict` and `crfqn evaluate`: labels for new items, and how good a model is on labelled ones."""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crfqn.cli.exits import say
from crfqn.cli.loading import load_model, read_input
from crfqn.cli.scores import Scores, log_likelihood, score_labels
from crfqn.errors import InputError
from crfqn.readers.lines import STANDARD_INPUT

if TYPE_CHECKING:
    from crfqn.estimators.chain import ChainCRF


def predict(path: Path, source: str, output: Path | None, *, with_marginals: bool, with_score: bool) -> None:
    """Write a label a line and a blank line after each item, to `output` or stdout."""
    model = load_model(path)
    if source == STANDARD_INPUT and sys.stdin.isatty():
        say("Reading standard input; end it with Ctrl-D (Ctrl-Z on Windows).")
    inputs = read_input(model, path, source).X
    blocks = _blocks(model, inputs, with_marginals, with_score)
    if output is None:
        sys.stdout.writelines(blocks)
        return
    try:
        with open(output, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.writelines(blocks)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error


def _blocks(model: "ChainCRF", inputs: Any, with_marginals: bool, with_score: bool) -> Iterator[str]:
    """The text of each item, blank line included."""
    if with_score:
        paths, scores = model.decode(inputs)
    else:
        paths, scores = model.predict(inputs), None
    marginals = model.predict_marginals(inputs) if with_marginals else None
    names = [str(label) for label in model.classes_]
    for item, labels in enumerate(paths):
        lines = [str(label) for label in labels]
        if marginals is not None:
            for position, row in enumerate(marginals[item].tolist()):
                probabilities = (f"{name}:{value:.6f}" for name, value in zip(names, row, strict=True))
                lines[position] = "\t".join([lines[position], *probabilities])
        if scores is not None:
            lines.insert(0, f"@log-probability\t{scores[item]:.6f}")
        yield "\n".join(lines) + "\n\n"


def evaluate(path: Path, source: str | None, *, as_json: bool) -> None:
    """Print scores on a labelled file, or on the test part of the data that the model was trained on."""
    model = load_model(path)
    observed = read_input(model, path, source)
    if observed.y is None:
        raise InputError(f"{source}: has no labels to compare with; `crfqn predict` labels it")
    predicted = [[str(label) for label in item] for item in model.predict(observed.X)]
    scores = score_labels(observed.y, predicted)
    likelihood = log_likelihood(model, observed.X, observed.y)
    if as_json:
        content = {**scores.as_json(), "log_likelihood": likelihood if math.isfinite(likelihood) else None}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(_table(scores, likelihood))


def _table(scores: Scores, likelihood: float) -> str:
    width = max(5, *(len(row.label) for row in scores.labels))
    lines = [f"{'label':<{width}}  precision  recall      F1  positions"]
    lines += [
        f"{row.label:<{width}}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}  {row.support:9,d}"
        for row in scores.labels
    ]
    per_position = likelihood / scores.n_positions
    known = "" if math.isfinite(likelihood) else " (a label is unknown to the model)"
    lines += [
        "",
        f"accuracy, positions    {scores.accuracy:.4f}  of {scores.n_positions:,}",
        f"accuracy, whole items  {scores.item_accuracy:.4f}  of {scores.n_items:,}",
        f"log-likelihood         {likelihood:,.3f} nats, {per_position:.4f} a position{known}",
    ]
    return "\n".join(lines)
