"""Reader and writer of CoNLL-U, the format of Universal Dependencies.

Positions are the syntactic words; lines of multiword tokens ("3-4") and of empty nodes ("8.1") are no positions.
Format: https://universaldependencies.org/format.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from crfqn.data.files.lines import Readable, shown_name, text_lines
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.readers.labeled import Labeled
from crfqn.readers.places import Places
from crfqn.wording import describe

FIELDS = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
WITH_KEYS = ("feats", "misc")
EMPTY = "_"
WORD, OTHER = re.compile(r"[0-9]+"), re.compile(r"[0-9]+[-.][0-9]+")  # numbers of lines


def read_conllu(
    path: Readable, columns: Sequence[str] = ("form", "lemma", "xpos", "feats"), *, label: str = "upos"
) -> Labeled:
    """Read a file in CoNLL-U.

    Parameters
    ----------
    path : str, Path, stream or Source
    columns : sequence of str
        Fields of the words that become columns: form, lemma, upos, xpos, feats, head, deprel, deps, misc, or one key of
        two of them, such as "feats:Case" and "misc:NER". What is not there is the text "_".
    label : str, default "upos"
        The field that is the label, where "_" stands for none.

    Returns
    -------
    Labeled
        `inputs` are TokenColumns.

    Raises
    ------
    DataError
        A line that is no CoNLL-U (file and line are named), no sentences at all.
    InputError
        An unknown field.
    """
    for name in (*columns, label):
        field, colon, key = name.partition(":")
        if field not in FIELDS or (colon and (field not in WITH_KEYS or not key)):
            raise InputError(
                f"expected a field out of {', '.join(FIELDS)}, feats:<key>, misc:<key>, got {describe(name)}"
            )
    texts: dict[str, list[str]] = {name: [] for name in columns}
    labels: list[list[str]] = []
    lines: list[list[int]] = []
    is_inside = False
    for number, line in text_lines(path):
        if not line.strip():
            is_inside = False
            continue
        fields = _fields(f"{shown_name(path)}, line {number}", line)
        if fields is None:
            continue
        if not is_inside:
            labels.append([])
            lines.append([])
            is_inside = True
        for name, column in texts.items():
            column.append(_text(fields, name))
        labels[-1].append("" if (text := _text(fields, label)) == EMPTY else text)
        lines[-1].append(number)
    if not labels:
        raise DataError(f"{shown_name(path)}: no items; expected sentences in CoNLL-U, ten columns a word")
    offsets = np.cumsum([0, *map(len, labels)], dtype=np.int64)
    return Labeled(TokenColumns(texts, offsets), labels, places=Places.of_items(shown_name(path), lines))


def conllu_lines(labeled: Labeled, label: str = "upos") -> Iterator[str]:
    """Yield each item in CoNLL-U: its columns in the fields of their names, its labels in the field `label`."""
    for i, (item, labels) in enumerate(zip(labeled.inputs, labeled.labels, strict=True)):
        rows = []
        for t, (position, own) in enumerate(zip(item, labels, strict=True)):
            fields = dict.fromkeys(FIELDS, EMPTY)
            for name, text in [*position.items(), (label, own or EMPTY)]:
                field, _, key = name.partition(":")
                if field not in FIELDS:
                    raise InputError(f"CoNLL-U has no field {field!r}; it has {', '.join(FIELDS)}")
                if "\t" in text or "\n" in text:
                    raise InputError(f"item {i}, position {t}: a tab or a line's end in {name!r}")
                if key:
                    kept = [
                        pair
                        for pair in fields[field].split("|")
                        if pair != EMPTY and pair.partition("=")[0] != key
                    ]
                    text = "|".join([*kept, *([f"{key}={text}"] if text != EMPTY else [])]) or EMPTY
                fields[field] = text
            rows.append("\t".join([str(t + 1), *fields.values()]) + "\n")
        yield "".join(rows) + "\n"


def _fields(where: str, line: str) -> dict[str, str] | None:
    """Return the fields of a word, by name; None for a comment, and for lines of other tokens."""
    if line.startswith("#"):
        return None
    number, *fields = line.rstrip("\r\n").split("\t")
    if len(fields) != len(FIELDS):
        raise DataError(
            f"{where}: expected 10 columns of CoNLL-U, separated by tabs, got {len(fields) + 1}: {line[:60]!r}"
        )
    if WORD.fullmatch(number) is None:
        if OTHER.fullmatch(number) is None:
            raise DataError(f"{where}: expected the number of a word, 3, 3-4 or 3.1, got {number[:60]!r}")
        return None
    return dict(zip(FIELDS, fields, strict=True))


def _text(fields: dict[str, str], name: str) -> str:
    """Return a field, or one key of it, as it is written; "_" where there is nothing."""
    field, _, key = name.partition(":")
    if not key:
        return fields[field] or EMPTY
    pairs = (pair.partition("=") for pair in fields[field].split("|"))
    return next((value for own, _, value in pairs if own == key and value), EMPTY)
