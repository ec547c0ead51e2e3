"""What a file holds, told by its first lines, where its name does not say it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from crfqn.data.files import Readable, Source, is_blank, read_start
from crfqn.readers.conll import DOCUMENT_START, fields_of, splits_at_tabs
from crfqn.readers.registry import FORMATS


def first_lines(origin: Readable, encoding: str = "utf-8") -> list[str]:
    """Return the first lines of a file or of standard input, without blank ones at their beginning, and leave them to
    be read; [] for a pipe by name, which could not be read again, and for what is not there."""
    raw, is_whole = read_start(origin)
    source = Source(origin, encoding)
    errors = "replace" if source.errors == "strict" else source.errors
    lines = raw.decode(source.codec, errors).removeprefix("\ufeff").split("\n")
    if not is_whole and len(lines) > 1:
        lines.pop()  # which may go on
    lines = [line.removesuffix("\r") for line in lines]
    first = next((number for number, line in enumerate(lines) if not is_blank(line)), len(lines))
    return lines[first:]


def sniff(lines: Sequence[str], among: Collection[str] = ()) -> str | None:
    """Return the first of the formats, or of those `among` them, that lines look like; None for none, as for what is no
    text (but Parquet)."""
    if "\0" in "".join(lines) and not lines[0].startswith("PAR1"):
        return None
    found = (format for format in FORMATS.values() if not among or format.name in among)
    return next((format.name for format in found if format.begins and lines and format.begins(lines)), None)


def are_sentences(lines: Sequence[str], labels: Collection[str]) -> bool:
    """Return whether lines, which hold words alone or beside labels, are sentences, and not a word each: where not all
    have one word, nor all as many columns, of which the last one is a label in half, or with blank lines between."""
    rows = word_rows(lines)
    widths = {len(row) for row in rows}
    if splits_at_tabs(lines) or not widths or widths == {1}:
        return False
    if len(widths) > 1:
        return True
    has_breaks = any(map(is_blank, "\n".join(lines).strip(" \t\n").split("\n")))
    return not has_breaks and not end_with(labels, rows)


def word_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return what blanks part in lines, without those that are blank or part documents."""
    return [fields_of(line) for line in lines if not is_blank(line) and not line.startswith(DOCUMENT_START)]


def end_with(labels: Collection[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether half of the rows of several words, or more, end with one of the labels."""
    ends = [row[-1] in labels for row in rows if len(row) > 1]
    return 2 * sum(ends) >= len(ends) > 0
