"""Reader and writer of JSON lines: an object a line, an item each; one array of such objects is read as well.

`{"tokens": [...], "labels": [...]}` are columns (any other list of as many texts is one more; so are tokens that are
objects, `{"word": ..., "tag": ...}`), `{"features": [{...}, ...], "labels": [...]}` attributes, `{"text": "...",
"label": "..."}` documents. Unknown labels may be omitted; a document may have a list of labels.
Format: https://jsonlines.org
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, filterfalse
from typing import Any

import numpy as np

from crfqn.data.file_parts import Cut
from crfqn.data.files import Part, Readable, facts_of, is_blank, shown_name, source_of, text_lines
from crfqn.data.json_text import parse_json, strict_json
from crfqn.data.label_arrays import label_text, number_of
from crfqn.data.token_columns import TokenColumns
from crfqn.data_options import OF_COLUMNS
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.messages import describe, shorten
from crfqn.readers.format import DOCUMENTS, SEQUENCES, Format, each
from crfqn.readers.labelled_items import Documents, Labeled, Places, in_line

FIRST_COLUMN = "w"
# The usual keys of documents' texts and labels, and of sequences'.
TEXT_KEY, LABEL_KEY, LABELS_KEY = "text", "label", "labels"
LABELS_KEYS = (LABELS_KEY, "tags", "ner_tags", "pos_tags")
LABEL_SEPARATOR = ","  # between the labels of a document
NUMBER_TYPES = {int, float}
SPACE_PATTERN, OBJECT_START = re.compile(r"[ \t\n]*"), re.compile(r'\s*(\[\s*)?\{\s*"')


def read_json_lines(
    path: Readable,
    *,
    tokens: str = "tokens",
    features: str = "features",
    text: str = "text",
    label: str | None = None,
    columns: Sequence[str] | None = None,
    needs_named: bool = True,
) -> Labeled | Documents:
    """Read JSON lines; the keys of the first object decide whether items are sequences of `tokens` (the column "w") or
    of `features`, or documents with a `text`.

    label : the key of labels, by default "label" of documents, and of sequences the one that there is of "labels",
        "tags", "ner_tags" and "pos_tags"; "tokens.tag" is the key "tag" of tokens that are objects
    columns : the columns that a model reads, which are no labels, even under a usual key
    needs_named : whether a named label and text are required, as in data to train on; else the usual ones are read

    Missing labels are empty texts. DataError for no JSON object, no such key, lists of different lengths (file and
    line named), several usual keys of labels without "labels", no items.
    """
    shown, facts = shown_name(path), facts_of(path)
    numbers, records = [], []
    is_array, numbered = json_records(path)
    for number, record in numbered:
        numbers.append(number)
        records.append(record)
    keys = (features, tokens, text)
    options: dict[str, Any] = {"label": label, "columns": columns, "needs_named": needs_named}
    return read_records(shown, numbers, records, facts, keys, is_array=is_array, **options)


def read_records(
    shown: str,
    numbers: Sequence[int],
    records: list[dict[str, Any]],
    facts: dict[str, Any],
    keys: tuple[str, str, str],
    *,
    is_array: bool,
    label: str | None,
    columns: Sequence[str] | None,
    needs_named: bool,
) -> Labeled | Documents:
    """Return the items of objects: those of JSON lines, or the rows of a table with columns of lists.

    numbers : the line of each object
    facts : the properties of the file, to which the first part adds those of its first objects
    keys : those of features, tokens and text
    is_array : whether the objects cannot be written again with other labels one by one
    """
    features, tokens, text = keys
    where = [f"{shown}, line {number}" for number in numbers]
    outer, _, inner = (label or "").partition(".")
    if inner and outer == tokens and not any(label in record for record in records):
        is_array, records = True, [_with_inner_labels(record, outer, inner) for record in records]
    if "kind" not in facts:
        if not needs_named and records and text not in records[0]:
            text = TEXT_KEY
        kind = facts["kind"] = _kind(shown, "".join(where[:1]), records, (features, tokens, text))
        facts["is_text"], is_there = (
            kind == text,
            label is not None and any(label in record for record in records),
        )
        if label is not None and needs_named and not is_there:
            raise DataError(
                f"{where[0]}: expected labels under {label!r} (label=), got {', '.join(map(repr, records[0]))}"
            )
        if label is not None and is_there:
            facts["label"] = label
        elif kind == text:
            facts["label"] = LABEL_KEY
        else:
            facts["label"] = _key_of_labels(where[0], records, columns or (), needs_named)
    elif not records:
        raise EmptyDataError(f"{shown}: no items")
    kind, key = facts["kind"], facts["label"]
    item_lines = np.array(numbers, np.int64)
    if facts["is_text"]:
        for place, record in zip(where, records, strict=True):
            if not isinstance(record.get(kind), str):
                raise DataError(f"{place}: expected a text under {kind!r}, got {describe(record.get(kind))}")
        names = [_label(place, record.get(key, "")) for place, record in zip(where, records, strict=True)]
        relabel = None if is_array else in_line(partial(_relabelled, key=key, is_list=False))
        places = Places(shown, item_lines, relabel=relabel)
        has_numbers = {type(name) for record in records for name in _several(record.get(key))} <= NUMBER_TYPES
        return Documents([record[kind] for record in records], names, places=places, has_numbers=has_numbers)
    items = [_list(place, record, kind) for place, record in zip(where, records, strict=True)]
    known = [
        _labels(place, record.get(key), len(item))
        for place, record, item in zip(where, records, items, strict=True)
    ]
    relabel = None if is_array else in_line(partial(_relabelled, key=key, is_list=True))
    lengths = [*map(len, items)]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    places = Places(shown, item_lines.repeat(lengths), offsets, relabel, item_lines=item_lines)
    types = {type(name) for record in records for name in record.get(key) or ()}
    has_numbers = types <= {*NUMBER_TYPES, type(None)}
    first = next((i for i, item in enumerate(items) if item), None)
    # The first item with tokens decides.
    if "columns" not in facts and kind == tokens and first is not None:
        has_columns = not _have_features(items[first])
        facts["columns"] = _names(records[first], items[first], (tokens, key)) if has_columns else None
        facts["are_objects"] = isinstance(items[first][0], dict)
    names = facts.get("columns", (FIRST_COLUMN,))
    if kind == features or names is None:
        return Labeled(items, known, places=places, has_numbers=has_numbers)
    if facts.get("are_objects"):
        texts = _columns_of_objects(where, items, names, tokens)
    else:
        texts = _columns(where, records, items, names, tokens)
    return Labeled(TokenColumns(texts, offsets), known, places=places, has_numbers=has_numbers)


def _key_of_labels(
    where: str, records: Sequence[dict[str, Any]], columns: Sequence[str], is_needed: bool
) -> str:
    """Return the key of sequences' labels: "labels", or the only other usual one; DataError for several if one
    `is_needed`."""
    there = [key for key in LABELS_KEYS if key not in columns and any(key in record for record in records)]
    if LABELS_KEY not in there and len(there) > 1 and is_needed:
        raise DataError(
            f"{where}: expected one key of labels, got {', '.join(map(repr, there))}; label= (--label) names one"
        )
    return (there or [LABELS_KEY])[0]


def _with_inner_labels(record: dict[str, Any], tokens: str, label: str) -> dict[str, Any]:
    """Return an object whose tokens are objects with labels, as one whose labels have a key of their own."""
    listed = record.get(tokens)
    if not isinstance(listed, list) or not any(
        isinstance(token, dict) and label in token for token in listed
    ):
        return record
    plain = [
        {key: value for key, value in token.items() if key != label} if isinstance(token, dict) else token
        for token in listed
    ]
    labels = [token.get(label) if isinstance(token, dict) else None for token in listed]
    return record | {tokens: plain, f"{tokens}.{label}": labels}


def kind_of_lines(shown: str, lines: Sequence[str]) -> tuple[str, bool]:
    """Return whether the first lines of a file are sequences or documents, and whether their positions have named
    features instead of columns; DataError if the first object has no known key."""
    records: list[dict[str, Any]] = []
    try:
        numbered = [pair for pair in enumerate(lines, start=1) if not is_blank(pair[1])]
        for _, record in _records(shown, numbered, _is_array(lines[0])):
            records.append(record)
    except DataError:  # from incomplete or malformed lines
        if not records:
            raise
    kind = _kind(shown, f"{shown}, line 1", records, ("features", "tokens", TEXT_KEY))
    items = [item for record in records if isinstance(item := record.get(kind), list)]
    positions = chain.from_iterable(items) if kind == "features" else next(filter(None, items), [])
    return DOCUMENTS if kind == "text" else SEQUENCES, _have_features(positions)


def _have_features(positions: Iterable[Any]) -> bool:
    """Return whether positions are objects with other values than texts, or with different keys."""
    objects = [position for position in positions if isinstance(position, dict)]
    has_others = any(not isinstance(value, str) for position in objects for value in position.values())
    return has_others or len({*map(frozenset, objects)}) > 1


def _is_array(line: str) -> bool:
    return line.lstrip(" \t").startswith("[")


def json_records(path: Readable) -> tuple[bool, Iterator[tuple[int, dict[str, Any]]]]:
    """Return whether a file is an array, and its objects, each with the line (from 1) on which it begins; DataError,
    with the line, for other content."""
    lines = [(number, line) for number, line in text_lines(path) if not is_blank(line)]
    origin = source_of(path).origin
    is_later = isinstance(origin, Part) and origin.first > 1  # after the beginning of an array
    is_array = bool(lines) and not is_later and _is_array(lines[0][1])
    return is_array, _records(shown_name(path), lines, is_array, source_of(path).errors)


def _records(
    shown: str, lines: Sequence[tuple[int, str]], is_array: bool, errors: str = "surrogatepass"
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of numbered lines that are not blank, one a line or all in an array, each with the line on
    which it begins; `errors` as of `parse_json`."""
    if not is_array:
        for number, line in lines:
            yield number, _parsed(f"{shown}, line {number}", line, errors)
        return
    text = "\n".join(line for _, line in lines)
    ends = [*accumulate(len(line) + 1 for _, line in lines)]
    decode, skip = json.JSONDecoder().raw_decode, partial(_skip_space, text)

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
        yield line_at(at), _parsed(f"{shown}, line {line_at(at)}", text[at:end], errors)
        at = skip(end)
        if text[at : at + 1] == ",":
            at = skip(at + 1)
            if text[at : at + 1] == "]":
                raise wrong(at, "an object after the comma")
        elif text[at : at + 1] != "]":
            raise wrong(at, "a comma or ] after an object of the array")
    if skip(at + 1) < len(text):
        raise wrong(skip(at + 1), "nothing after the array")


def _skip_space(text: str, at: int) -> int:
    return SPACE_PATTERN.match(text, at).end()  # type: ignore[union-attr]


def cut_json_lines(**_: object) -> Cut:
    """Return the function that cuts lines into parts; an array is one part."""
    return lambda lines: (0, 0 if _is_array(next(filterfalse(is_blank, lines), "")) else len(lines))


def _kind(shown: str, where: str, records: Sequence[dict[str, Any]], kinds: Sequence[str]) -> str:
    """Return the first of the keys `kinds` that the first object has, which is at `where`; DataError for none, and for
    no objects."""
    if not records:
        raise EmptyDataError(f"{shown}: no items; expected a JSON object a line, or an array of objects")
    kind = next((key for key in kinds if key in records[0]), None)
    if kind is None:
        features, tokens, text = kinds
        raise DataError(
            f"{where}: expected an object with the key {tokens!r} or {features!r} (and {LABELS_KEY!r}), or {text!r} "
            f"(and {LABEL_KEY!r}), got {', '.join(map(repr, records[0])) or 'none'}"
        )
    return kind


def json_lines(data: Labeled | Documents, added: Sequence[Any] | None = None) -> Iterator[str]:
    """Yield a line an item, in the form that is read; the key of `added` labels is "predicted"."""
    for i in range(data.n_items):
        record: dict[str, Any] = {}
        if isinstance(data, Documents):
            record["text"] = data.inputs[i]
            if data.labels[i]:
                record["label"] = data.labels[i]
        else:
            if isinstance(data.inputs, TokenColumns):
                start, stop = data.inputs.offsets[i : i + 2].tolist()
                names = ("tokens", *data.inputs.names[1:])
                columns = zip(names, data.inputs.texts.values(), strict=True)
                record.update((name, column[start:stop]) for name, column in columns)
            else:
                record["features"] = data.inputs[i]
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
    """Return an object's text with labels under a key, null for an empty one; unless it `is_list` or was a list, one
    label is written without a list."""
    spans, end = _values(line)
    start, stop = spans.get(key, (end, end))
    old = json.loads(line[start:stop] or "null")
    is_list = is_list or isinstance(old, list) or len(labels) != 1
    before = set(map(type, _several(old)))
    new: list[Any] = list(labels)
    if before and before <= NUMBER_TYPES:
        new = [label if (number := number_of(label)) is None else number for label in labels]
    elif before == {bool}:
        new = [label == "true" if label in ("true", "false") else label for label in labels]
    new = [None if label == "" else label for label in new]
    value = json.dumps(new if is_list else new[0], ensure_ascii=False)
    return line[:start] + (value if key in spans else f', "{key}": {value}') + line[stop:]


def _values(line: str) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the start and end of an object's values in its text, by their keys, and the end of the last one."""
    read, skip = json.JSONDecoder().raw_decode, partial(_skip_space, line)
    spans: dict[str, tuple[int, int]] = {}
    end = 0
    at = skip(line.index("{") + 1)
    while line[at] != "}":
        key, at = read(line, at)
        start = skip(skip(at) + 1)
        end = read(line, start)[1]
        spans[key] = start, end
        at = skip(end)
        at = skip(at + 1) if line[at] == "," else at
    return spans, end


def _parsed(where: str, line: str, errors: str) -> dict[str, Any]:
    try:
        record = parse_json(line, errors)
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
    if not isinstance(record[key], list):
        raise DataError(f"{where}: expected a list under {key!r}, got {describe(record[key])}")
    return record[key]


def _labels(where: str, labels: object, length: int) -> list[str]:
    """Return the labels of an item's positions as texts, empty ones for None."""
    if labels is None:
        return [""] * length
    listed = ["" if label is None else label for label in labels] if isinstance(labels, list) else [None]
    texts = _label_texts(where, listed, "a list of texts, numbers, booleans or nulls as labels", labels)
    if len(listed) != length:
        raise DataError(f"{where}: expected {length} labels, one a position, got {len(listed)}")
    return texts


def _label(where: str, labels: object) -> str:
    """Return the label of a document, or its labels, as one text."""
    several = _several(labels) or [""]
    texts = _label_texts(where, several, "a text, number or boolean as label, or a list", labels)
    if len(several) > 1 and any(LABEL_SEPARATOR in str(label) for label in several):
        raise DataError(
            f"{where}: a comma parts several labels, and may not be in one, got {shorten(labels)}"
        )
    return LABEL_SEPARATOR.join(texts)


def _label_texts(where: str, labels: list[Any], expected: str, shown: object) -> list[str]:
    """Return labels as texts, `true` and `false` as in JSON; DataError for anything but a label."""
    for label in labels:
        if not isinstance(label, (str, int)) and not (isinstance(label, float) and math.isfinite(label)):
            raise DataError(f"{where}: expected {expected}, got {shorten(shown)}")
    return [label if isinstance(label, str) else json.dumps(label) for label in labels]


def _several(labels: object) -> list[Any]:
    """Return the labels of a document as a list, empty if they are unknown."""
    return labels if isinstance(labels, list) else [] if labels is None else [labels]


def _names(record: dict[str, Any], item: list[Any], used: tuple[str, str]) -> tuple[str, ...]:
    """Return the names of the columns by the first item with tokens: the keys of tokens that are objects, else the
    tokens and all other lists of as many texts."""
    if isinstance(item[0], dict):
        return (*item[0],)
    others = (
        key
        for key, value in record.items()
        if isinstance(value, list) and len(value) == len(item) and key not in used
        if all(isinstance(text, str) for text in value)
    )
    return (FIRST_COLUMN, *others)


def _columns(
    where: list[str],
    records: list[dict[str, Any]],
    items: list[list[Any]],
    columns: Sequence[str],
    tokens: str,
) -> dict[str, list[str]]:
    """Return the texts of columns of these names, the first of which is that of the tokens."""
    texts: dict[str, list[str]] = {name: [] for name in columns}
    for place, record, item in zip(where, records, items, strict=True):
        for name, column in texts.items():
            values = item if name == FIRST_COLUMN else _list(place, record, name)
            if len(values) != len(item) or not all(isinstance(text, str) for text in values):
                key = tokens if name == FIRST_COLUMN else name
                raise DataError(f"{place}: expected {len(item)} texts under {key!r}, got {shorten(values)}")
            column.extend(values)
    return texts


def _columns_of_objects(
    where: list[str], items: list[list[Any]], columns: Sequence[str], tokens: str
) -> dict[str, list[str]]:
    """Return the columns of tokens that are objects with these keys."""
    texts: dict[str, list[str]] = {name: [] for name in columns}
    for place, item in zip(where, items, strict=True):
        for token in item:
            is_right = isinstance(token, dict) and token.keys() == texts.keys()
            values: list[Any] = [token[name] for name in texts] if is_right else []
            if not values or not all(isinstance(text, str) for text in values):
                raise DataError(
                    f"{place}: expected objects with texts under {', '.join(map(repr, texts))} in {tokens!r}, as in "
                    f"the first one, got {shorten(token)}; objects of other keys and values stand under 'features'"
                )
            for column, text in zip(texts.values(), values, strict=True):
                column.append(text)
    return texts


FORMAT = Format(
    "jsonl",
    "a JSON object a line, or an array of them: tokens or features with labels, or text and label",
    (".jsonl", ".ndjson", ".json"),
    (SEQUENCES, DOCUMENTS),
    read_json_lines,
    each(json_lines),
    cut_json_lines,
    begins=lambda lines: OBJECT_START.match("\n".join(lines)) is not None,
    item_end="an array of objects is read as a whole: write an object a line",
    names_columns=True,
    is_unicode=True,
    features=(*OF_COLUMNS, "attributes", "text"),
    kind_of=kind_of_lines,
    holds_nested=True,
)
