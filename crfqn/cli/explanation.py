"""`crfqn explain`: why a label and not the runner-up, by the features and transitions that decided."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crfqn.cli.loading import feature_names, open_input
from crfqn.cli.output import to_json
from crfqn.data.label_arrays import label_text
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError
from crfqn.messages import printable
from crfqn.model.explanations import Explanation
from crfqn.model.opening import MODEL_CLASSES, model_of, read_any
from crfqn.report.facts import fitted_model

MOST_LETTERS = 30  # of a text or a label in a table


def explain(
    path: Path,
    text: str | None,
    source: str | None,
    n: int,
    *,
    format: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Print what decided between each label and its runner-up, for a text or for the items of a file."""
    file = read_any(path)
    if file.kind not in MODEL_CLASSES:
        raise InputError(
            f"{path}: a model of kind {file.kind!r} has no weights of single features to explain by"
        )
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


def _read_text(model: Any, path: Path, text: str) -> tuple[list[Any], list[Any]]:
    """Return a text as the only item of a model, and what a table shows of it."""
    if model.takes in ("text", "document"):
        items = model.ANSWERS.as_items(model, text)
        return items, items
    raise InputError(
        f"{path}: not a model of words, so that a text says nothing to it; name a file with --input"
    )


def _words(data: Any) -> list[Any]:
    """Return what a table shows of each item: the words of a sequence, or a text."""
    if isinstance(data.inputs, TokenColumns):
        words, ends = data.inputs.texts[data.inputs.names[0]], data.inputs.offsets.tolist()
        return [words[ends[i] : ends[i + 1]] for i in range(data.n_items)]
    if isinstance(data.inputs, list) and all(isinstance(item, str) for item in data.inputs):
        return data.inputs
    return [None] * data.n_items


def _items(model: Any, X: Any, shown: list[Any], n: int) -> Iterator[dict[str, Any]]:
    """Yield what JSON has of each item, but for the explanations, which are as the model gives them."""
    for text, explained in zip(shown, model.explain(X, n), strict=True):
        item: dict[str, Any] = {} if text is None else {"text" if isinstance(text, str) else "tokens": text}
        yield item | {"explanation": explained}


def _table(item: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table: a line a position, or one line for a single item."""
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
    """Yield the terms in words; those of another position with its distance."""
    for term in explained.terms:
        where = "" if term.position in (None, t) else f" at {(term.position or 0) - t:+d}"
        yield f"{_short(term.text, 60)}{where} {term.value:+.2f}"
    if explained.rest:
        yield f"others {explained.rest:+.2f}"


def _short(text: Any, most: int = MOST_LETTERS) -> str:
    text = printable(str(text))
    return text if len(text) <= most else f"{text[: most - 3]}..."
