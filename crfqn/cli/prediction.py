"""`crfqn predict`: labels for new items, a line each, sequences with a blank line after each; or JSON lines.

Labels are written as they are, for other programs to read. Only where one holds control characters (line ends and tabs
among them), which would break the lines or steer a terminal, are these written out (`crfqn.messages.printable`).
"""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crfqn.cli.dense import beside_input
from crfqn.cli.loading import Input, Labeller, open_input, tree_of
from crfqn.cli.options import PredictOptions
from crfqn.cli.output import say, write_text
from crfqn.data.files import STANDARD_INPUT
from crfqn.data.label_texts import label_text
from crfqn.errors import InputError, UnknownFeaturesWarning
from crfqn.messages import printable
from crfqn.metrics.evaluation import predict_labels
from crfqn.readers.format import Format
from crfqn.readers.registry import FORMATS, find_format, rewritten, written_batches

BLOCK = 1000  # documents at a time
MOST_LABELS = 10  # with their probabilities, unless the user says how many


def predict(path: Path, source: str, output: Path | None, options: PredictOptions) -> None:
    """Write a label a line for the items of `source`, to `output` or stdout, as they come."""
    labeller = Labeller(path)
    model = labeller.model
    _check(model, path, options)
    if source == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty():
        say("Reading standard input; end it with Ctrl-D (Ctrl-Z on Windows).")
    format = options.format
    if options.is_text:
        if format is not None:
            raise InputError(f"--text: raw text is a format of its own; leave out --format {format}")
        format = "raw" if model.LABELS_SEQUENCES else "text"
    input = open_input(model, path, source, format=format, encoding=options.encoding, keeps_blank=True)
    input = beside_input(input, model, path, options.dense)
    write_text(output, _predictions(labeller, input, options))


def _predictions(labeller: Labeller, input: Input, options: PredictOptions) -> Iterator[str | bytes]:
    """Yield what is written for each part of the input."""
    if options.n_best is not None:
        n, format = options.n_best, None if options.to is None else find_format(options.to)
        parts = input.parts(lambda seen: labeller.model_for(seen.X).predict_nbest(seen.X, n))
        for _, data, found in parts:
            yield from _ranked(data, found or (), format, options.as_json)
        return
    if options.to is None:
        written = _sequences if labeller.model.LABELS_SEQUENCES else _documents
        texts = input.parts(lambda seen: "".join(written(labeller.model_for(seen.X), seen.X, options)))
        yield from (text for _, _, text in texts if text is not None)
        return
    parts = input.parts(lambda seen: predict_labels(labeller.model_for(seen.X), seen.X))
    format = find_format(options.to)
    own = None if input.format is None else FORMATS[input.format]
    if (
        input.cut is not None and own is not None and own.write is format.write is not None
    ):  # conll and conll2000 are one
        yield from (rewritten(part, data, labels or ()) for part, data, labels in parts if part is not None)
    else:
        batches = ((data, labels) for _, data, labels in parts if data is not None)
        yield from written_batches(batches, format)


def _ranked(data: Any, found: Any, format: Format | None, as_json: bool) -> Iterator[str | bytes]:
    """Yield the best labellings of each item, after their rank and probability; in JSON a line an item."""
    for item, labellings in enumerate(found):
        if as_json:
            best = [
                {"labels": list(map(label_text, labels)), "probability": round(p, 6)}
                for labels, p in labellings
            ]
            yield json_line(n_best=best)
            continue
        for rank, (labels, probability) in enumerate(labellings):
            if format is None:
                yield f"@probability\t{probability:.6f}\n" + "\n".join(map(_written, labels)) + "\n\n"
            else:
                yield format.ranked.format(rank=rank, probability=probability)
                one = replace(data, inputs=data.inputs[item : item + 1], labels=data.labels[item : item + 1])
                yield from written_batches([(one, [labels])], format)


def _check(model: Any, path: Path, options: PredictOptions) -> None:
    if options.threshold is not None and tree_of(model) is None:
        raise InputError(f"{path}: --threshold is for labels in a taxonomy, and this model has none")
    if options.top is not None and model.LABELS_SEQUENCES:
        raise InputError(f"{path}: --top is for items with one label; this model labels sequences")
    if options.n_best is not None:
        _check_n_best(model, path, options)
    needs = [
        name
        for name, is_asked in (
            ("--marginals", options.with_marginals),
            ("--top", options.top),
            ("--score", options.with_score),
            ("--threshold", options.threshold is not None),
            ("--n-best", options.n_best is not None),
        )
        if is_asked
    ]
    if options.to is not None and options.n_best is None and (needs or options.as_json):
        raise InputError(
            f"--to {options.to}: writes labels alone; leave out {needs[0] if needs else '--json'}"
        )
    if needs and not has_probabilities(model):
        raise InputError(f"{path}: {needs[0]} is for models with probabilities, and this model has none")


def _check_n_best(model: Any, path: Path, options: PredictOptions) -> None:
    if not model.LABELS_SEQUENCES:
        raise InputError(f"{path}: --n-best is for sequences; --top K gives the labels of a document")
    others = {"--marginals": options.with_marginals, "--score": options.with_score}
    others["--json"] = options.as_json and options.to is not None
    for name, is_asked in others.items():
        if is_asked:
            raise InputError(f"--n-best writes labels and their probability; leave out {name}")
    if options.to is not None and not find_format(options.to).ranked:
        having = ", ".join(format.name for format in FORMATS.values() if format.ranked)
        raise InputError(
            f"--to {options.to} has no place for several labellings; with --n-best: {having}, or --json"
        )


def has_probabilities(model: Any) -> bool:
    """Return whether a model has probabilities: of an estimator the methods are not there without."""
    return getattr(model, "has_probabilities", hasattr(model, "decode"))


def _sequences(model: Any, inputs: Any, options: PredictOptions) -> Iterator[str]:
    """Yield the text of each sequence, blank line included."""
    if options.with_score:
        paths, scores = model.decode(inputs)
    else:
        paths, scores = model.predict(inputs), None
    with without_warnings():
        marginals = model.predict_marginals(inputs) if options.with_marginals else None
    names = [_written(label) for label in model.classes_]
    for item, labels in enumerate(paths):
        if options.as_json:
            yield json_line(
                labels=[label_text(label) for label in labels],
                log_probability=None if scores is None else round(float(scores[item]), 6),
                marginals=None if marginals is None else by_label(model, marginals[item]),
            )
            continue
        lines = [_written(label) for label in labels]
        if marginals is not None:
            for position, row in enumerate(marginals[item].tolist()):
                probabilities = (f"{name}:{value:.6f}" for name, value in zip(names, row, strict=True))
                lines[position] = "\t".join([lines[position], *probabilities])
        if scores is not None:
            lines.insert(0, f"@log-probability\t{scores[item]:.6f}")
        yield "\n".join(lines) + "\n\n"


def _documents(model: Any, inputs: Any, options: PredictOptions) -> Iterator[str]:
    """Yield a line a document: its log-probability and the most probable labels if asked for, its label always."""
    for first in range(0, inputs.shape[0], BLOCK):
        part = inputs[first : first + BLOCK]
        labels, scores = _best(model, part, options)
        if options.as_json:
            yield from _document_objects(model, part, labels, scores, options)
            continue
        columns = [[_written(label)] for label in labels]
        if options.with_score:
            columns = [[f"{score:.6f}", *line] for score, line in zip(scores, columns, strict=True)]
        if options.with_marginals or options.top:
            top = options.top or MOST_LABELS
            with without_warnings():
                rows = model.predict_proba(part)
            for line, row in zip(columns, rows, strict=True):
                best = np.argsort(-row, kind="stable")[:top]
                line += [f"{_written(model.classes_[label])}:{row[label]:.6f}" for label in best]
        yield "".join("\t".join(line) + "\n" for line in columns)


def _document_objects(
    model: Any, part: Any, labels: Any, scores: Any, options: PredictOptions
) -> Iterator[str]:
    """Yield a JSON line a document; where it may have several labels, a list of them."""
    if model.RANKS_LABELS:
        yield from (json_line(labels=list(map(label_text, found))) for found in model.predict_sets(part))
        return
    with without_warnings():
        rows = model.predict_proba(part) if options.with_marginals or options.top else []
    best = [np.argsort(-row, kind="stable")[: options.top or MOST_LABELS] for row in rows]
    for item, label in enumerate(labels):
        yield json_line(
            label=label_text(label),
            log_probability=round(float(scores[item]), 6) if options.with_score else None,
            probabilities={label_text(model.classes_[k]): round(float(rows[item][k]), 6) for k in best[item]}
            if best
            else None,
        )


def _written(label: Any) -> str:
    """Return a label as a line shows it."""
    return printable(label_text(label))


def by_label(model: Any, rows: Any) -> list[dict[str, float]]:
    """Return the probabilities of each position by label."""
    return [
        dict(zip(map(label_text, model.classes_), np.round(row, 6).tolist(), strict=True)) for row in rows
    ]


def json_line(**facts: Any) -> str:
    """Return the facts that there are as a line of JSON."""
    known = {name: value for name, value in facts.items() if value is not None}
    return json.dumps(known, ensure_ascii=False) + "\n"


@contextmanager
def without_warnings() -> Iterator[None]:
    """Say nothing of unknown features: those of items that have a label by now have been counted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownFeaturesWarning)
        yield


def _best(model: Any, inputs: Any, options: PredictOptions) -> tuple[Any, Any]:
    """Return the label of each document, or the node at which the threshold stops it; and its log-probability."""
    if model.RANKS_LABELS:
        return [",".join(map(label_text, labels)) for labels in model.predict_sets(inputs)], None
    if options.threshold is None:
        return model.decode(inputs) if has_probabilities(model) else (model.predict(inputs), None)
    nodes = model.predict(inputs, threshold=options.threshold)
    with without_warnings():
        probabilities = model.predict_nodes(inputs)[np.arange(len(nodes)), model.tree_.nodes_of(nodes)]
    return nodes, np.log(np.minimum(probabilities, 1.0))
