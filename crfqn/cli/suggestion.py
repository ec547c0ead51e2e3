"""`crfqn suggest`: writes the items with the largest uncertainty of a model, to be labelled next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.cli.loading import Input, Labeller, input_with_dense, open_input
from crfqn.cli.options import SuggestOptions
from crfqn.cli.output import command_files, write_text
from crfqn.cli.prediction import labelled
from crfqn.data.files import BYTES_ENCODING, Part, is_blank
from crfqn.data.json_text import strict_json
from crfqn.errors import InputError
from crfqn.model.answers import gives_probabilities
from crfqn.model.uncertainty import find_measure
from crfqn.readers.format import by_blank_lines, by_lines
from crfqn.readers.registry import FORMATS, can_be_rewritten, find_format, written_batches
from crfqn.report.facts import fitted_model

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from crfqn.arrays import Vector
    from crfqn.recipes import Observed

MAX_COSINE = 0.8  # between the feature counts of two suggested items with --diverse


def write_suggestions(
    path: Path,
    source: str,
    output: Path | None,
    options: SuggestOptions,
    *,
    format: str | None,
    dense: Path | None,
    encoding: str | None,
) -> None:
    """Write the items of a file with the largest uncertainty: as in the file, as JSON lines, or in the format
    `options.to` with the predicted labels."""
    n, measure, is_diverse, to = options.n, options.measure, options.is_diverse, options.to
    if to is not None and options.as_json:
        raise InputError(f"--to {to}: expected it or --json, got both")
    target = None if to is None else find_format(to)
    find_measure(measure)
    command_files.read([source])
    labeller = Labeller(path)
    model, light = labeller.model, fitted_model(labeller.model)
    if light is None or not gives_probabilities(model):
        raise InputError(f"{path}: items are chosen by probabilities, and this model has none")
    input = open_input(model, path, source, format=format, encoding=encoding)
    input = input_with_dense(input, model, path, dense)

    def measured(seen: Observed) -> tuple[Vector, csr_array | None, Any, list[Any] | None]:
        model = labeller.model_for(seen.X)
        values = model.uncertainty(seen.X, measure)
        data, labels = (seen.data, None) if target is None else labelled(model, seen, target)
        return values, _feature_counts(light, seen.X) if is_diverse else None, data, labels

    written = target or FORMATS.get(input.format or "")
    if written is not None and written.write_folder is not None and not options.as_json:
        raise InputError(f"--to {written.name}: writes several files; expected --to label-studio or doccano")
    head, n_items, counts = "", 0, []
    items: list[tuple[float, int, Any]] = []  # -value, number, and lines, or data and the number in it
    for part, _, result in input.parts(measured):
        if result is None:
            continue
        values, of_features, data, labels = result
        contents: Iterable[object] = ((data, i, labels and [labels[i]]) for i in range(data.n_items))
        is_of_lines = can_be_rewritten(data) or find_format(input.format).cut is by_lines
        if to is None and part is not None and is_of_lines:
            contents = _lines(input, part, data)
            if not n_items and input.cut is not None:  # the titles of a table
                lines = part.text.splitlines(keepends=True)
                head = part.mark + "".join(lines[: input.cut(lines)[0]])
        items += zip((-values).tolist(), range(n_items, n_items + data.n_items), contents, strict=True)
        n_items += data.n_items
        items.sort(key=lambda item: item[:2])
        if is_diverse:
            counts.append(of_features)
        else:
            del items[n:]
    if is_diverse:
        items = _different(items, counts, n)
    is_utf8 = (
        options.as_json or "utf-8" in input.encoding.lower() or (target is not None and target.is_unicode)
    )
    texts = _written(input, head, items, options)
    write_text(output, texts, BYTES_ENCODING if is_utf8 else input.encoding)


def _lines(input: Input, part: Part, data: Any) -> Iterator[str]:
    """Yield the lines of each item, with those before its first position if blank lines separate the items."""
    lines = part.text.split("\n")
    starts = [data.places.line(i) - part.first for i in range(data.n_items)]
    has_blank_lines = FORMATS[input.format or ""].cut is by_blank_lines
    for start, stop in pairwise([*starts, len(lines)]):
        if has_blank_lines:
            while start and not is_blank(lines[start - 1]):
                start -= 1
            stop = next((i for i in range(start, stop) if is_blank(lines[i])), stop)
        while stop > start + 1 and is_blank(lines[stop - 1]):
            stop -= 1
        yield "\n".join([*lines[start:stop], "\n" if has_blank_lines else ""])


def _written(
    input: Input, head: str, items: list[tuple[float, int, Any]], options: SuggestOptions
) -> Iterator[str | bytes]:
    """Yield the items as text or JSON objects; items that were not read by lines are written in the format `to`, by
    default that of the input."""
    if options.as_json:
        for value, number, content in items:
            answer: dict[str, Any] = {"item": number, "uncertainty": round(-value, 6)}
            if isinstance(content, str):
                answer["text"] = content.rstrip("\r\n")
            yield strict_json(answer, ensure_ascii=False) + "\n"
    elif items and isinstance(items[0][2], str):
        yield from (head, *(content for _, _, content in items))
    else:
        format = options.to or input.format
        if format is None:
            raise InputError(f"{input.source}: images cannot be written; --json gives their numbers")
        batches = (
            (replace(data.part(np.array([i])), places=data.places), labels)
            for _, _, (data, i, labels) in items
        )
        yield from written_batches(batches, find_format(format))


def _feature_counts(model: Any, X: object) -> csr_array:
    """Return the sum of the known features of each item, as rows of Euclidean length 1."""
    from scipy.sparse import csr_array, diags_array

    rows, ends = model.feature_rows(X)
    is_known = rows.columns >= 0
    values = rows.values if rows.values.size else np.ones(rows.columns.size)
    entries = np.where(is_known, values, 0.0), np.where(is_known, rows.columns, 0), rows.row_ends[ends]
    sums = csr_array(entries, shape=(ends.size - 1, model.n_features_in_))
    sums.sum_duplicates()
    lengths = np.sqrt(sums.power(2).sum(axis=1))
    return (diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ sums).tocsr()


def _different(
    items: list[tuple[float, int, Any]], counts: list[csr_array], n: int
) -> list[tuple[float, int, Any]]:
    """Return the first n items without those that are too similar to an earlier one."""
    from scipy.sparse import vstack

    matrix = vstack(counts, format="csr")
    nearest, chosen = np.zeros(matrix.shape[0]), []
    for item in items:
        if nearest[item[1]] <= MAX_COSINE:
            chosen.append(item)
            if len(chosen) == n:
                break
            nearest = np.maximum(nearest, matrix @ matrix[[item[1]]].toarray()[0])
    return chosen
