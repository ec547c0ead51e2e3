"""Reader and writer of brat's standoff format: a folder of texts (`.txt`) with an `.ann` file of annotations each.

A line `T1 TAB Person 0 5 TAB Maria` of a `.ann` file is a span of the characters of the text, line ends counted as
they are in the file; `0 5;16 23` has gaps, unless only blanks are between the parts. Relations, events, attributes and
notes are not read. Each text is an item. Format: https://brat.nlplab.org/standoff.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from crfqn.data.files import Readable, Source, check_text, read_bytes, shown_name, source_of
from crfqn.errors import DataError, InputError
from crfqn.messages import shorten
from crfqn.readers.format import SEQUENCES, Batches, Format
from crfqn.readers.text_spans import (
    MarkedText,
    TextSpan,
    is_same_text,
    marked_texts,
    reader_of,
    span_from,
    warn_of_places,
)

TEXT_SUFFIX, ANNOTATION_SUFFIX = ".txt", ".ann"
DIGITS = re.compile("[0-9]+")
NAME_KEY = "name"  # of a text's record: the name of its files without the extension


def _texts(path: Readable, reads_spans: bool) -> Iterator[MarkedText]:
    """Yield the texts of a folder, in the order of their names, or one (its `.txt` or `.ann` file). A text without
    `.ann` file is unlabelled. DataError, with file and line, for a wrong span; InputError for a stream."""
    source = source_of(path)
    if hasattr(source.origin, "read") or not Path(source.origin).exists():
        raise InputError(
            f"{shown_name(source)}: expected a folder with texts and annotations, or one of these files"
        )
    place = Path(source.origin)
    files = [place.with_suffix(TEXT_SUFFIX)]
    if place.is_dir():
        files = sorted(file for file in place.iterdir() if file.suffix == TEXT_SUFFIX and file.name[0] != ".")
    others: list[str] = []
    for file in files:
        text = _content(replace(source, origin=file))
        annotations, spans = file.with_suffix(ANNOTATION_SUFFIX), None
        if reads_spans and annotations.exists():
            spans = _spans(str(annotations), text, _content(replace(source, origin=annotations)), others)
        yield MarkedText(text, spans, str(file), None, {NAME_KEY: file.stem})
    warn_of_places("relations, events, attributes and notes left out", others)


def _content(source: Source) -> str:
    """Return the text of a file with its line ends and marks, which offsets count."""
    content = read_bytes(source)
    check_text(source, content)
    try:
        return content.decode(source.codec, source.errors)
    except UnicodeError as error:
        raise DataError(f"{source}: not {source.encoding} text: {error}") from error


def _spans(shown: str, text: str, annotations: str, others: list[str]) -> list[TextSpan]:
    """Return the spans of a `.ann` file; the place of each line of another kind is added to `others`."""
    spans = []
    for number, line in enumerate(annotations.split("\n"), start=1):
        place, fields = f"{shown}, line {number}", line.removesuffix("\r").split("\t")
        if not line.startswith("T"):
            others += [place] * bool(line.strip())
            continue
        kind, _, pairs = fields[1].partition(" ") if len(fields) == 3 else ("", "", "")
        bounds = [pair.split(" ") for pair in pairs.split(";")]
        if not kind or not all(len(pair) == 2 and all(map(DIGITS.fullmatch, pair)) for pair in bounds):
            raise DataError(f"{place}: expected `T1 TAB type start end TAB text`, got {shorten(line)}")
        shown_text = fields[2] if len(bounds) == 1 else None
        parts = sorted(
            span_from(place, text, int(start), int(end), kind, shown_text) for start, end in bounds
        )
        if not shown_text and not is_same_text(
            " ".join(text[part.start : part.end] for part in parts), fields[2]
        ):
            raise DataError(f"{place}: expected the text at {pairs}, got {shorten(fields[2])}")
        gaps = [text[before.end : after.start] for before, after in pairwise(parts)]
        spans.append(TextSpan(parts[0].start, parts[-1].end, kind, place, not "".join(gaps).strip()))
    return spans


def brat_files(batches: Batches) -> Iterator[tuple[str, str]]:
    """Yield the name and content of each file: the text, and the spans of its labels if they are known. Texts of other
    formats are numbered from 1. InputError for a type with a blank."""
    number = 0
    for data, predicted in batches:
        for item in marked_texts(data, predicted):
            number += 1
            name = item.record.get(NAME_KEY) or f"{number:06d}"
            yield f"{name}{TEXT_SUFFIX}", item.text
            if item.spans is None:
                continue
            lines = []
            for n, span in enumerate(item.spans, start=1):
                if any(map(str.isspace, span.type)):
                    raise InputError(f"{item.file}: brat has types without blanks, got {shorten(span.type)}")
                # brat parts a span at the ends of lines
                bounds, at = [], span.start
                for piece in item.text[span.start : span.end].splitlines(keepends=True):
                    if piece.strip():
                        bounds.append((at, at + len(piece.rstrip())))
                    at += len(piece)
                shown = " ".join(item.text[start:end] for start, end in bounds)
                lines.append(f"T{n}\t{span.type} {';'.join(f'{a} {b}' for a, b in bounds)}\t{shown}\n")
            yield f"{name}{ANNOTATION_SUFFIX}", "".join(lines)


FORMAT = Format(
    "brat",
    "brat's texts and annotations, a folder or a pair of files: spans of characters",
    (ANNOTATION_SUFFIX,),
    (SEQUENCES,),
    reader_of(_texts, f"texts (*{TEXT_SUFFIX}) and their annotations"),
    None,
    write_folder=brat_files,
    is_folder=lambda path: any(path.glob(f"*{ANNOTATION_SUFFIX}")),
    is_uncut=True,
)
