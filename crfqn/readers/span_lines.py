"""Readers and writers of texts with spans in JSON lines, or an array: doccano's, spaCy's, and tokens with spans.

`{"text": "...", "label": [[0, 5, "PER"]]}` is doccano's (also `labels`, and `entities` with `start_offset`),
`{"text": "...", "entities": [[0, 5, "PER"]]}` spaCy's (also `spans` and `ents` of `{"start", "end", "label"}`).
`{"tokens": ["..."], "spans": [...]}` counts tokens instead of characters. A record without such a key is unlabelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from crfqn.data.files import Readable, shown_name
from crfqn.data.json_text import strict_json
from crfqn.data.tokenizers import written_as
from crfqn.errors import DataError
from crfqn.messages import shorten
from crfqn.readers.format import SEQUENCES, Data, Format, each
from crfqn.readers.json_lines import cut_json_lines, json_records
from crfqn.readers.text_spans import MarkedText, TextSpan, marked_texts, reader_of, span_from, warn_of_places

DOCCANO_KEYS, SPACY_KEYS = ("label", "labels", "entities"), ("entities", "spans", "ents")
KEYS_OF_SPANS = dict.fromkeys((*DOCCANO_KEYS, *SPACY_KEYS))
KEYS_OF_OBJECTS = ("spans", "ents")  # whose spans are objects if the file does not show their form
# The answers of Prodigy's users; an accepted record without spans has none.
ACCEPTED_ANSWER = "accept"
REFUSED_ANSWERS = ("reject", "ignore")
# The beginning of a list of spans under one of the keys.
SPANS_START = re.compile(
    rf'"({"|".join(KEYS_OF_SPANS)})"\s*:\s*\[\s*(\[\s*\d+\s*,\s*\d+\s*,|\{{[^{{}}]*"(start|start_offset)"\s*:)'
)
NO_SPANS = re.compile(r'"(entities|spans|ents)"\s*:\s*\[\s*\]')
LABEL_LIST = re.compile(r'"labels"\s*:\s*\[\s*["n]')  # with tokens: JSON lines of columns


def _texts(path: Readable, reads_spans: bool) -> Iterator[MarkedText]:
    """Yield the texts of records; DataError, with the line, for a record without a text and for an invalid span."""
    shown, has_tokens = shown_name(path), None
    refused: list[str] = []
    relations: list[str] = []
    for number, record in json_records(path)[1]:
        place = f"{shown}, line {number}"
        text, tokens = record.get("text"), None
        if not isinstance(text, str):
            words = record.get("tokens")
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise DataError(
                    f"{place}: expected a text under 'text', or a list of texts under 'tokens', got {shorten(record)}"
                )
            text, tokens = written_as(words)
        if has_tokens not in (None, tokens is not None):
            expected = "tokens" if has_tokens else "a text"
            raise DataError(f"{place}: expected {expected}, as in the records before, got {shorten(record)}")
        has_tokens, key, answer = tokens is not None, _key_of_spans(record), record.get("answer")
        if reads_spans and answer in REFUSED_ANSWERS:
            refused.append(place)
            continue
        is_known = reads_spans and (key is not None or answer == ACCEPTED_ANSWER)
        spans = _spans(place, text, tokens, record[key] if key else []) if is_known else None
        if is_known and isinstance(record.get("relations"), list):
            relations += [place] * len(record["relations"])
        yield MarkedText(text, spans, shown, number, record, tokens)
    warn_of_places("rejected or ignored records left out", refused)
    warn_of_places("relations left out", relations)


def _key_of_spans(record: dict[str, Any]) -> str | None:
    """Return the first key with a list of lists and objects, None without one."""
    lists = ((key, record[key]) for key in KEYS_OF_SPANS if isinstance(record.get(key), list))
    return next(
        (key for key, value in lists if all(isinstance(entry, (list, dict)) for entry in value)), None
    )


def _spans(place: str, text: str, tokens: Any, entries: list[Any]) -> list[TextSpan]:
    """Return the spans of lists `[start, end, type]` and objects, in characters."""
    spans = []
    for entry in entries:
        start: Any = None
        end: Any = None
        types: Any = shorten(entry)
        shown = None
        if isinstance(entry, dict):
            start, end = (entry.get(name, entry.get(f"{name}_offset")) for name in ("start", "end"))
            types, shown = entry.get("labels", entry.get("label")), entry.get("text")
        elif len(entry) == 3:
            start, end, types = entry
        if tokens is not None:
            is_inside = type(start) is int and type(end) is int and 0 <= start < end <= len(tokens)
            if not is_inside:
                raise DataError(
                    f"{place}: expected a span within the {len(tokens):,} tokens, got {shorten(entry)}"
                )
            start, end = tokens[start][0], tokens[end - 1][1]
        for label in types if isinstance(types, list) else [types]:
            spans.append(span_from(place, text, start, end, label, shown))
    return spans


def _lines_of_spans(
    data: Data, predicted: Sequence[Any] | None, keys: Sequence[str] = DOCCANO_KEYS
) -> Iterator[str]:
    """Yield a record a line with the spans under the first of the keys that it has; other keys stay. A record without
    known labels, or read in this form and without predictions, is written unchanged."""
    for item in marked_texts(data, predicted):
        record, key = dict(item.record), _key_of_spans(item.record)
        has_tokens = "tokens" in record and "text" not in record
        if not has_tokens and not isinstance(record.get("text"), str):
            record, key = {"text": item.text}, None
        old = record[key] if key else []
        as_objects = isinstance(old[0], dict) if old else key in KEYS_OF_OBJECTS or has_tokens
        of_doccano = "relations" in record or (as_objects and any("start_offset" in one for one in old))
        is_form = has_tokens or (key in keys and not (of_doccano and keys is SPACY_KEYS))
        if item.spans is not None and (predicted is not None or not is_form):
            if not is_form:
                record.pop(key or "", None)
                key, as_objects, of_doccano = keys[0], False, False
            if of_doccano:
                record |= {"relations": []} if "relations" in record else {}  # those of the spans before
            names = ("start_offset", "end_offset", "label") if of_doccano else ("start", "end", "label")
            entries: list[Any] = []
            for n, (span, run) in enumerate(zip(item.spans, item.positions, strict=True)):
                values = (*(run if has_tokens else span)[:2], span.type)
                of_span = {"id": n} if of_doccano else {}
                with_names = of_span | dict(zip(names, values, strict=True))
                entries.append(with_names if as_objects or of_doccano else [*values])
            record["spans" if has_tokens else str(key)] = entries
        yield strict_json(record, ensure_ascii=False) + "\n"


def _begins(keys: Sequence[str], lines: Sequence[str]) -> bool:
    start = "\n".join(lines)
    if not re.match(r'\s*(\[\s*)?\{\s*"', start) or ('"tokens"' in start and LABEL_LIST.search(start)):
        return False
    found = SPANS_START.search(start) or NO_SPANS.search(start)
    if found is None or re.search(r'"(text|tokens)"\s*:', start) is None:
        return False
    is_of_doccano = found[1] not in SPACY_KEYS or (found.re is SPANS_START and found[3] == "start_offset")
    return is_of_doccano == (keys is DOCCANO_KEYS)


def _spans_format(name: str, title: str, keys: Sequence[str]) -> Format:
    return Format(
        name,
        title,
        (".jsonl", ".ndjson", ".json"),
        (SEQUENCES,),
        reader_of(_texts, "JSON objects with a text and spans"),
        each(partial(_lines_of_spans, keys=keys)),
        cut_json_lines,
        begins=partial(_begins, keys),
        item_end="an array of objects is read as a whole: write an object a line",
        names_columns=True,
        is_unicode=True,
        is_uncut=True,
    )


SPAN_FORMATS = (
    _spans_format(
        "spacy", "texts, or tokens, with entities or spans as spaCy has them, JSON lines", SPACY_KEYS
    ),
    _spans_format("doccano", "texts with spans of characters as doccano has them, JSON lines", DOCCANO_KEYS),
)
