"""`crfqn explain`: the features and transitions that decided between each label and the second best one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from crfqn.cli.loading import feature_names, open_input
from crfqn.cli.output import to_json
from crfqn.data.label_arrays import label_text
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError
from crfqn.messages import printable
from crfqn.model.explanations import Explanation
from crfqn.model.opening import MODEL_CLASSES, model_of, read_any
from crfqn.readers.labelled_items import LabelledItems
from crfqn.report.facts import fitted_model

if TYPE_CHECKING:
    from crfqn.model.item_model import ItemModel
    from crfqn.model.sequences import SequenceModel

ExplainedModel: TypeAlias = "SequenceModel | ItemModel"

MAX_SHOWN_LETTERS = 30  # of a text or a label, so that a row of the table fits a terminal
MAX_REASON_LETTERS = 60  # of the name of a feature


def print_explanations(
    path: Path,
    text: str | None,
    source: str | None,
    n: int,
    *,
    format: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Print the terms that decided between each label and the second best one, for a text or the items of a file."""
    file = read_any(path)
    if file.kind not in MODEL_CLASSES:
        raise InputError(f"{path}: a model of kind {file.kind!r} has no weights of features to explain by")
    opened = model_of(file)
    model: Any = fitted_model(opened, feature_names(opened, path))
    if (text is None) == (source is None):
        raise InputError("expected either a text or --input FILE")
    items: list[dict[str, Any]] = []
    if text is not None:
        items += _items(model, *_read_text(model, path, text), n)
    else:
        input = open_input(opened, path, source, format=format, encoding=encoding)
        for _, _, found in input.parts(lambda seen: [*_items(model, seen.X, _words(seen.data), n)]):
            items += found or []
    if as_json:
        for item in items:
            item["explanation"] = model.ANSWERS.each(lambda one: one.to_json(), item["explanation"])
        print(to_json(items))
    else:
        print("\n\n".join("\n".join(_table(item)) for item in items))


def _read_text(model: ExplainedModel, path: Path, text: str) -> tuple[list[Any], list[Any]]:
    """Return a text as the only item for a model, and the words or the text that a table shows."""
    if model.takes in ("text", "document"):
        items = model.ANSWERS.as_items(model, text)
        return items, items
    raise InputError(f"{path}: not a model of words, which alone reads texts; name a file with --input")


def _words(data: LabelledItems) -> list[Any]:
    """Return what a table shows of each item: the words of a sequence, or a text, None for other items."""
    if isinstance(data.inputs, TokenColumns):
        words, ends = data.inputs.texts[data.inputs.names[0]], data.inputs.offsets.tolist()
        return [words[ends[i] : ends[i + 1]] for i in range(data.n_items)]
    if isinstance(data.inputs, list) and all(isinstance(item, str) for item in data.inputs):
        return data.inputs
    return [None] * data.n_items


def _items(model: ExplainedModel, X: object, shown: list[Any], n: int) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each item; its explanations are still those of `Model.explain`."""
    for text, explained in zip(shown, model.explain(X, n), strict=True):
        item: dict[str, Any] = {} if text is None else {"text" if isinstance(text, str) else "tokens": text}
        yield item | {"explanation": explained}


def _table(item: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table: one line per position, or one line for a single item."""
    explained, words = item["explanation"], item.get("tokens", [])
    if isinstance(explained, Explanation):
        explained, words = [explained], [item.get("text", "")]
    rows = [("", "label", "", "runner-up", "", "difference", "because of")]
    for t, one in enumerate(explained):
        word = words[t] if t < len(words) else str(t)
        both = one.probability, one.runner_up_probability
        probabilities = ["" if p is None else f"{p:.3f}" for p in both]
        rows.append((
            _short(word), _short(label_text(one.label)), probabilities[0],
            "-" if one.runner_up is None else _short(label_text(one.runner_up)),
            probabilities[1], f"{one.difference:+.2f}", ", ".join(_reasons(one, t)),
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _reasons(explained: Explanation, t: int) -> Iterator[str]:
    """Yield the terms in words; terms of another position have its distance."""
    for term in explained.terms:
        where = "" if term.position in (None, t) else f" at {(term.position or 0) - t:+d}"
        yield f"{_short(term.text, MAX_REASON_LETTERS)}{where} {term.value:+.2f}"
    if explained.rest:
        yield f"others {explained.rest:+.2f}"


def _short(text: object, max_letters: int = MAX_SHOWN_LETTERS) -> str:
    text = printable(str(text))
    return text if len(text) <= max_letters else f"{text[: max_letters - 3]}..."
