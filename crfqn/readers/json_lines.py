"""Reader and writer of JSON lines: an object a line, an item each; one array of such objects is read as well.

`{"tokens": [...], "labels": [...]}` are columns (any other list of as many texts is one more; so are tokens that are
objects, `{"word": ..., "tag": ...}`), `{"features": [{...}, ...], "labels": [...]}` attributes, `{"text": "...",
"label": "..."}` documents. Labels may be left out where they are not known; a document may have a list of them.
Format: https://jsonlines.org
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, filterfalse
from typing import Any

import numpy as np

from crfqn.data.file_parts import Cut
from crfqn.data.files import Part, Readable, is_blank, shown_name, source_of, strict_json, text_lines
from crfqn.data.label_texts import label_text, number_of
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.messages import describe, shorten
from crfqn.readers.format import DOCUMENTS, SEQUENCES, Format, each
from crfqn.readers.items import Documents, Labeled, Places, in_line

FIRST_COLUMN = "w"
SEVERAL = ","  # between the labels of a document
SPACE, OBJECT = re.compile(r"\s*"), re.compile(r'\s*(\[\s*)?\{\s*"')


def read_json_lines(
    path: Readable,
    *,
    tokens: str = "tokens",
    features: str = "features",
    labels: str = "labels",
    text: str = "text",
    label: str = "label",
) -> Labeled | Documents:
    """Read JSON lines, whose first object says whether items are columns, attributes or documents, by the keys of
    sequences (words, which are the column "w", attributes, labels) and documents (text, label). Labels not there are
    empty texts; DataError for no JSON object, no such key, lists of different lengths (file and line named), none."""
    shown = shown_name(path)
    lines = [(number, line) for number, line in text_lines(path) if not is_blank(line)]
    origin = source_of(path).origin
    is_later = isinstance(origin, Part) and origin.first > 1  # than where an array begins
    is_array = bool(lines) and not is_later and _is_array(lines[0][1])
    numbered = [*(_of_array if is_array else _of_lines)(shown, lines)]
    if not numbered:
        raise _no_items(shown)
    numbers, records = [number for number, _ in numbered], [record for _, record in numbered]
    kind = _kind(f"{shown}, line {numbers[0]}", records[0], (features, tokens, text), (labels, label))
    where = [f"{shown}, line {number}" for number in numbers]
    if kind == text:
        contents = [_text(place, record, text) for place, record in zip(where, records, strict=True)]
        names = [_label(place, record.get(label, "")) for place, record in zip(where, records, strict=True)]
        relabel = None if is_array else in_line(partial(_relabelled, key=label, is_list=False))
        places = Places(shown, np.array(numbers, np.int64), relabel=relabel)
        has_numbers = _are_numbers(labels for record in records for labels in _several(record.get(label)))
        return Documents(contents, names, places=places, has_numbers=has_numbers)
    items = [_list(place, record, kind) for place, record in zip(where, records, strict=True)]
    known = [
        _labels(place, record.get(labels), len(item))
        for place, record, item in zip(where, records, items, strict=True)
    ]
    relabel = None if is_array else in_line(partial(_relabelled, key=labels, is_list=True))
    lengths = [*map(len, items)]
    item_lines, offsets = np.array(numbers, np.int64), np.cumsum([0, *lengths], dtype=np.int64)
    places = Places(shown, item_lines.repeat(lengths), offsets, relabel, item_lines=item_lines)
    has_numbers = _are_numbers(found for record in records for found in record.get(labels) or ())
    if kind == features or _have_numbers(items):
        return Labeled(items, known, places=places, has_numbers=has_numbers)
    first = next(filter(None, items), [""])
    made = _columns_of_objects if isinstance(first[0], dict) else _columns
    columns = made(where, records, items, (tokens, labels))
    return Labeled(columns, known, places=places, has_numbers=has_numbers)


def kind_of_lines(shown: str, lines: Sequence[str]) -> tuple[str, bool]:
    """Return what the first lines of a file hold, sequences or documents, and whether positions have features of their
    own names, and not columns, as far as these lines tell; DataError where the first object does not tell."""
    records: list[dict[str, Any]] = []
    try:
        numbered = [pair for pair in enumerate(lines, start=1) if not is_blank(pair[1])]
        for _, record in (_of_array if _is_array(lines[0]) else _of_lines)(shown, numbered):
            records.append(record)
    except DataError:  # of lines that are cut, or that reading refuses
        if not records:
            raise
    if not records:
        raise _no_items(shown)
    kind = _kind(f"{shown}, line 1", records[0], ("features", "tokens", "text"), ("labels", "label"))
    items = [item for record in records if isinstance(item := record.get(kind), list)]
    keys = {frozenset(position) for item in items for position in item if isinstance(position, dict)}
    return DOCUMENTS if kind == "text" else SEQUENCES, _have_numbers(items) or len(keys) > 1


def _no_items(shown: str) -> EmptyDataError:
    return EmptyDataError(f"{shown}: no items; expected a JSON object a line, or an array of objects")


def _have_numbers(items: Sequence[Sequence[Any]]) -> bool:
    """Return whether positions are objects with other values than texts."""
    values = (
        v for item in items for position in item if isinstance(position, dict) for v in position.values()
    )
    return any(not isinstance(value, str) for value in values)


def _is_array(line: str) -> bool:
    return line.lstrip().startswith("[")


def _of_lines(shown: str, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of numbered lines that are not blank, each with its line."""
    for number, line in lines:
        yield number, _parsed(f"{shown}, line {number}", line)


def _of_array(shown: str, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an array over numbered lines, each with the line on which it begins."""
    text = "\n".join(line for _, line in lines)
    ends = [*accumulate(len(line) + 1 for _, line in lines)]
    decode = json.JSONDecoder().raw_decode

    def skip(at: int) -> int:
        return SPACE.match(text, at).end()  # type: ignore[union-attr]

    def line_at(at: int) -> int:
        return lines[min(bisect_right(ends, at), len(lines) - 1)][0]

    def wrong(at: int, expected: str) -> DataError:
        return DataError(f"{shown}, line {line_at(at)}: expected {expected}, got {text[at : at + 60]!r}")

    at = skip(text.index("[") + 1)
    while text[at : at + 1] != "]":
        try:
            end = decode(text, at)[1]
        except (ValueError, RecursionError) as error:
            raise wrong(at, f"a JSON object in the array ({error})") from error
        yield line_at(at), _parsed(f"{shown}, line {line_at(at)}", text[at:end])
        at = skip(end)
        if text[at : at + 1] == ",":
            at = skip(at + 1)
        elif text[at : at + 1] != "]":
            raise wrong(at, "a comma or ] behind an object of the array")
    if skip(at + 1) < len(text):
        raise wrong(skip(at + 1), "nothing behind the array")


def _cut(**_: Any) -> Cut:
    """Return how lines are cut: an array is read as a whole."""
    return lambda lines: (0, 0 if _is_array(next(filterfalse(is_blank, lines), "")) else len(lines))


def _kind(where: str, record: dict[str, Any], kinds: Sequence[str], known: tuple[str, str]) -> str:
    """Return the first of the keys `kinds` that the first object has; DataError, with the keys `known` of labels."""
    kind = next((key for key in kinds if key in record), None)
    if kind is None:
        (features, tokens, text), (labels, label) = kinds, known
        raise DataError(
            f"{where}: expected an object with the key {tokens!r} or {features!r} (and {labels!r}), or {text!r} (and "
            f"{label!r}), got {', '.join(map(repr, record)) or 'none'}"
        )
    return kind


def json_lines(data: Labeled | Documents, added: Sequence[Any] | None = None) -> Iterator[str]:
    """Yield a line an item, in the form that is read; `added` labels stand under "predicted"."""
    for i in range(data.n_items):
        record: dict[str, Any] = {}
        if isinstance(data, Documents):
            record["text"] = data.inputs[i]
            if data.labels[i]:
                record["label"] = data.labels[i]
        else:
            record.update(_observed(data.inputs, i))
            if data.spans is not None:
                starts, ends = zip(*data.spans[i], strict=True)
                record |= {"start": starts, "end": ends}
            if any(data.labels[i]):
                record["labels"] = data.labels[i]
        if added is not None:
            record["predicted"] = (
                added[i] if isinstance(added[i], str) else [label_text(label) for label in added[i]]
            )
        try:
            yield strict_json(record, ensure_ascii=False) + "\n"
        except InputError as error:
            raise InputError(f"item {i}: {error}") from None


def _relabelled(line: str, labels: Sequence[str], key: str, is_list: bool) -> str:
    """Return an object's text with labels under a key; one label that is no list yet stands alone if it may."""
    spans, end = _values(line)
    start, stop = spans.get(key, (end, end))
    old = json.loads(line[start:stop] or "null")
    is_list = is_list or isinstance(old, list) or len(labels) != 1
    before = set(map(type, _several(old)))
    new: list[Any] = list(labels)
    if before and before <= {int, float}:
        new = [label if (number := number_of(label)) is None else number for label in labels]
    elif before == {bool}:
        new = [label == "true" if label in ("true", "false") else label for label in labels]
    value = json.dumps(new if is_list else new[0], ensure_ascii=False)
    return line[:start] + (value if key in spans else f', "{key}": {value}') + line[stop:]


def _values(line: str) -> tuple[dict[str, tuple[int, int]], int]:
    """Return where the values of an object begin and end in its text, by their keys; and where the last one ends."""

    def skip(at: int) -> int:
        return SPACE.match(line, at).end()  # type: ignore[union-attr]

    read, spans, end = json.JSONDecoder().raw_decode, {}, 0
    at = skip(line.index("{") + 1)
    while line[at] != "}":
        key, at = read(line, at)
        start = skip(skip(at) + 1)
        end = read(line, start)[1]
        spans[key] = start, end
        at = skip(end)
        at = skip(at + 1) if line[at] == "," else at
    return spans, end


def _observed(inputs: Any, i: int) -> dict[str, Any]:
    if not isinstance(inputs, TokenColumns):
        return {"features": inputs[i]}
    start, stop = inputs.offsets[i : i + 2].tolist()
    names = ("tokens", *inputs.names[1:])
    return {name: column[start:stop] for name, column in zip(names, inputs.texts.values(), strict=True)}


def _parsed(where: str, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: expected a JSON object, got {line.strip()[:60]!r}: {error}") from error
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected a JSON object, got {describe(record)}")
    return record


def _list(where: str, record: dict[str, Any], key: str) -> list[Any]:
    if key not in record:
        raise DataError(
            f"{where}: expected the key {key!r}, as in the first object, got {', '.join(map(repr, record))}"
        )
    found = record[key]
    if not isinstance(found, list):
        raise DataError(f"{where}: expected a list under {key!r}, got {describe(found)}")
    return found


def _labels(where: str, found: Any, length: int) -> list[str]:
    if found is None:
        return [""] * length
    if not isinstance(found, list) or not all(map(_is_label, found)):
        raise DataError(
            f"{where}: expected a list of texts, numbers or booleans as labels, got {shorten(found)}"
        )
    if len(found) != length:
        raise DataError(f"{where}: expected {length} labels, one a position, got {len(found)}")
    return [*map(_label_of, found)]


def _is_label(label: Any) -> bool:
    return isinstance(label, (str, int)) or (isinstance(label, float) and math.isfinite(label))


def _label_of(label: Any) -> str:
    """Return a label as text: `true` and `false` as JSON writes them."""
    return label if isinstance(label, str) else json.dumps(label)


def _several(found: Any) -> list[Any]:
    """Return the labels of a document as a list, none where they are not known."""
    return found if isinstance(found, list) else [] if found is None else [found]


def _are_numbers(labels: Iterable[Any]) -> bool:
    """Return whether labels are numbers by type."""
    return {*map(type, labels)} <= {int, float}


def _text(where: str, record: dict[str, Any], key: str) -> str:
    found = record.get(key)
    if not isinstance(found, str):
        raise DataError(f"{where}: expected a text under {key!r}, got {describe(found)}")
    return found


def _label(where: str, found: Any) -> str:
    several = _several(found) or [""]
    if not all(map(_is_label, several)):
        raise DataError(
            f"{where}: expected a text, number or boolean as label, or a list, got {shorten(found)}"
        )
    if len(several) > 1 and any(SEVERAL in str(label) for label in several):
        raise DataError(
            f"{where}: a comma parts several labels, and may not stand in one, got {shorten(found)}"
        )
    return SEVERAL.join(map(_label_of, several))


def _columns(
    where: list[str], records: list[dict[str, Any]], items: list[list[Any]], used: tuple[str, str]
) -> TokenColumns:
    """Return the tokens and every further list of texts that the first object has."""
    first = records[0]
    further = [
        key
        for key, value in first.items()
        if key not in used
        and isinstance(value, list)
        and len(value) == len(items[0])
        and all(isinstance(text, str) for text in value)
    ]
    texts: dict[str, list[str]] = {name: [] for name in (FIRST_COLUMN, *further)}
    for place, record, item in zip(where, records, items, strict=True):
        for name, column in texts.items():
            values = item if name == FIRST_COLUMN else _list(place, record, name)
            if len(values) != len(item) or not all(isinstance(text, str) for text in values):
                key = used[0] if name == FIRST_COLUMN else name
                raise DataError(f"{place}: expected {len(item)} texts under {key!r}, got {shorten(values)}")
            column.extend(values)
    return TokenColumns(texts, np.cumsum([0, *map(len, items)], dtype=np.int64))


def _columns_of_objects(
    where: list[str], records: list[dict[str, Any]], items: list[list[Any]], used: tuple[str, str]
) -> TokenColumns:
    """Return the columns of tokens that are objects: the keys that the first one has."""
    texts: dict[str, list[str]] = {name: [] for name in next(filter(None, items))[0]}
    for place, item in zip(where, items, strict=True):
        for token in item:
            values: list[Any] = [token.get(name) for name in texts] if isinstance(token, dict) else []
            if not values or not all(isinstance(text, str) for text in values):
                raise DataError(
                    f"{place}: expected objects with texts under {', '.join(map(repr, texts))} in {used[0]!r}, as in "
                    f"the first one, got {shorten(token)}"
                )
            for column, text in zip(texts.values(), values, strict=True):
                column.append(text)
    return TokenColumns(texts, np.cumsum([0, *map(len, items)], dtype=np.int64))


FORMAT = Format(
    "jsonl",
    "a JSON object a line, or an array of them: tokens or features with labels, or text and label",
    (".jsonl", ".ndjson", ".json"),
    (SEQUENCES, DOCUMENTS),
    read_json_lines,
    each(json_lines),
    _cut,
    begins=lambda lines: OBJECT.match("\n".join(lines)) is not None,
    holds_nested=True,
)
