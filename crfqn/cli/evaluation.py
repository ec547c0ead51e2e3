"""`crfqn evaluate` scores a model on labelled items; `crfqn calibrate` fits the temperature of its probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crfqn.cli.loading import (
    KnownItems,
    Labeller,
    check_labelled,
    check_threshold_option,
    input_with_dense,
    open_input,
    restored,
)
from crfqn.cli.output import say, to_json
from crfqn.data.files import shown_name
from crfqn.data.model_file import check_model_name
from crfqn.errors import InputError
from crfqn.messages import printable
from crfqn.model.answers import gives_probabilities
from crfqn.model.opening import read_any
from crfqn.recipes import Observed

if TYPE_CHECKING:
    from crfqn.metrics.evaluation import LabelMetrics, Scores

MAX_LABEL_ROWS = 50  # of the table of items with one label, to fit about a screen; JSON has all labels


def print_scores(
    path: Path,
    source: str | None,
    *,
    format: str | None = None,
    encoding: str | None = None,
    dense: Path | None = None,
    label: str | None = None,
    on_misaligned: str | None = None,
    threshold: float | None = None,
    as_json: bool,
) -> None:
    """Print scores on a labelled file, or on the test part of the data that the model was trained on."""
    from crfqn.metrics.evaluation import log_likelihood

    labeller = Labeller(path)
    model, kind = labeller.model, labeller.model.ANSWERS
    check_threshold_option(threshold, model, path)
    name = shown_name(source or path)
    options: dict[str, Any] = {"label": label, "on_misaligned": on_misaligned}
    input = open_input(model, path, source, format=format, encoding=encoding, is_labeled=True, **options)
    input = input_with_dense(input, model, path, dense)
    known = KnownItems(model, path, name, input.format)
    least = {} if threshold is None else {"threshold": threshold}
    likelihoods: list[float] | None = [] if gives_probabilities(model) else None  # of each part of the input

    def labelled(observed: Observed) -> tuple[Any, list[Any]]:
        with known.counted(observed):
            return observed, kind.predict_texts(labeller.model_for(observed.X), observed.X, **least)

    def parts() -> Iterator[tuple[Any, list[Any]]]:
        for part, _, result in input.parts(labelled):
            if result is not None:
                observed, predicted = result
                check_labelled(observed, name, part is None or part.first == 1, input, needs_all=False)
                if likelihoods is not None:
                    likelihoods.append(log_likelihood(labeller.model, observed.X, observed.y))
                yield observed.y, predicted
        known.check()

    try:
        scores = kind.compare(model, parts())
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(name) else f"{name}: {error}") from error
    total = None if likelihoods is None else math.fsum(likelihoods)
    if as_json:
        print(to_json({**scores.as_json(), "log_likelihood": total}))
    else:
        print(*_table(scores, total, threshold), sep="\n")


def write_calibrated(
    path: Path,
    source: str,
    output: Path,
    *,
    format: str | None,
    encoding: str | None,
    dense: Path | None,
    label: str | None,
    as_json: bool,
    is_quiet: bool,
) -> None:
    """Write the model with the temperature that maximises the likelihood of the labels of a file."""
    check_model_name(output)
    file = read_any(path)
    model = restored(file)
    if not gives_probabilities(model):
        raise InputError(f"{path}: a temperature calibrates probabilities, and this model has none")
    input = open_input(model, path, source, format=format, encoding=encoding, is_labeled=True, label=label)
    observed = input_with_dense(input, model, path, dense).observe(source)
    name = shown_name(source)
    check_labelled(observed, name, input=input, needs_all=False)
    known = KnownItems(model, path, name, input.format)
    with known.counted(observed):
        model.predict(observed.X)
    known.check()
    try:
        model.calibrate(observed.X, observed.y)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    is_float32 = any(array.dtype == "float32" for array in file.arrays.values())
    model.save(output, getattr(model, "extra_", None), "float32" if is_float32 else "float64")
    n_items = len(observed.y or ())
    if as_json:
        print(to_json({"path": str(output), "temperature": model.temperature_, "n_items": n_items}))
    elif not is_quiet:
        say(f"wrote {output}: temperature {model.temperature_:.4g}, of {n_items:,} items")


def _table(scores: Scores, likelihood: float | None, threshold: float | None) -> list[str]:
    if scores.n_positions is not None:
        n_cases, case, lines = (
            scores.n_positions,
            "a position",
            [*_label_rows(scores.labels, "positions"), ""],
        )
        if scores.chunks is not None:
            lines += [*_label_rows([*scores.chunks.types, scores.chunks.every], "chunks"), ""]
        unknown = f", without {scores.n_unknown:,} of unknown labels" if scores.n_unknown else ""
        lines += [f"accuracy, positions    {scores.accuracy:.4f}  of {scores.n_positions:,}{unknown}"]
        lines += [f"accuracy, whole items  {scores.item_accuracy:.4f}  of {scores.n_items:,}"]
    else:
        n_cases, case = scores.n_items, "an item"
        lines = [f"{len(scores.labels):,} labels: too many for a table, --json has them"]
        if len(scores.labels) <= MAX_LABEL_ROWS:
            lines = _label_rows(scores.labels, "items")
        lines += ["", f"accuracy               {scores.accuracy:.4f}  of {scores.n_items:,}"]
    if scores.n_positions is None and scores.hierarchy is not None:
        tree = scores.hierarchy
        lines += [
            f"hierarchical F1        {tree.f1:.4f}  precision {tree.precision:.4f}, recall {tree.recall:.4f}",
            f"LCA F1                 {tree.lca_f1:.4f}",
            f"tree-induced error     {tree.tree_induced_error:.4f}  edges from the right label",
        ]
        lines += [
            f"accuracy, level {level:<6} {accuracy:.4f}"
            for level, accuracy in enumerate(tree.level_accuracy, start=1)
            if accuracy is not None
        ]
    if threshold is not None:
        lines.append(
            f"coverage               {scores.coverage:.4f}  with a label of probability {threshold:g} or more"
        )
        if scores.coverage:
            lines.append(f"accuracy of these      {scores.accuracy / scores.coverage:.4f}")
    if likelihood is not None:
        unknown = "" if math.isfinite(likelihood) else " (a label is unknown to the model)"
        average = likelihood / n_cases
        lines.append(f"log-likelihood         {likelihood:,.3f} nats, {average:.4f} {case}{unknown}")
    return lines


def _label_rows(labels: Sequence[LabelMetrics], counted: str) -> list[str]:
    names = [printable(row.label) for row in labels]
    width = max(5, *map(len, names))
    lines = [f"{'label':<{width}}  precision  recall      F1  {counted:>9}"]
    return lines + [
        f"{name:<{width}}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}  {row.support:9,d}"
        for name, row in zip(names, labels, strict=True)
    ]
