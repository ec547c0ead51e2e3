"""Reader and writer of svmlight text: `label feature:value feature:value ... # comment`, a document a line.

The labels are kept as texts ("1139", "+1"; `Documents.targets` makes numbers of them), a query's id after them
("qid:3") is skipped, the features may be in any order, as in LSHTC's files (scikit-learn's reader requires ascending
ones). Ids count from 0 and are the numbers of the columns.
Format: Joachims, SVM-light, "How to use".
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from crfqn.data.files import Readable, blank_parted, is_blank, shown_name, text_lines
from crfqn.data.items import LARGEST_ID
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.messages import shorten
from crfqn.numerals import NUMBER_CHARACTERS, number_in, whole_number_in
from crfqn.readers.format import DOCUMENTS, Format, by_lines, instead
from crfqn.readers.labelled_items import Documents, Places, in_line

FEATURE_FIELD = re.compile(r"[0-9]+:[-+0-9.eE]+")
QUERY_FIELD = re.compile(r"qid:[0-9]+")


def read_svmlight(
    path: Readable, ignore_features: Collection[int] = (), allows_several: bool = True
) -> Documents:
    """Read a file in svmlight's format: float64 csr_array (I, largest id + 1), columns ascending, a value of 0 no
    entry; labels are the lines' first fields, several ("12,57") if `allows_several`.

    `ignore_features` are ids to skip, such as the 0 in LSHTC's files, which is no feature. DataError for a field that
    is not `id:value`, an id that is negative, too large or repeated, a value that is not finite, several labels (file,
    line and field named); no lines.
    """
    from scipy.sparse import csr_array

    shown, ignored = shown_name(path), frozenset(ignore_features)
    labels: list[str] = []
    lines: list[int] = []
    columns, values, ends = array("q"), array("d"), array("q", [0])
    for number, line in text_lines(path):
        if not has_fields(line):
            continue
        fields = blank_parted(line.partition("#")[0])
        where = f"{shown}, line {number}"
        if ":" in fields[0]:
            raise DataError(f"{where}: expected a label before the features, got {shorten(fields[0])}")
        if "," in fields[0] and not allows_several:
            raise DataError(f"{where}: expected one label, got {shorten(fields[0])}")
        lines.append(number)
        labels.append(fields[0])
        entries: dict[int, float] = {}
        features = _feature_fields(fields)
        # With these characters alone, Python's `int` and `float` accept the same numbers, in two thirds of the time.
        is_plain = not "".join(features).strip(f"{NUMBER_CHARACTERS}:")
        read_id, read_value = (int, float) if is_plain else (whole_number_in, number_in)
        for field in features:
            id_text, _, value_text = field.partition(":")
            try:
                id_, value = read_id(id_text), read_value(value_text)
                if math.isnan(value):
                    raise ValueError
            except ValueError:
                raise DataError(f"{where}: expected a feature `id:value`, got {shorten(field)}") from None
            if not 0 <= id_ <= LARGEST_ID:
                raise DataError(
                    f"{where}: expected a feature id from 0 to {LARGEST_ID}, got {shorten(field)}"
                )
            if not math.isfinite(value):
                raise DataError(f"{where}: expected a finite value, got {shorten(field)}")
            if id_ in entries:
                raise DataError(f"{where}: feature {id_} comes twice")
            entries[id_] = value
        used = sorted(id_ for id_, value in entries.items() if value != 0 and id_ not in ignored)
        columns.extend(used)
        values.extend(entries[id_] for id_ in used)
        ends.append(len(columns))
    if not labels:
        raise EmptyDataError(f"{shown}: no documents; expected lines of a label and its features, `id:value`")
    indices = np.array(columns, dtype=np.int32)
    row_ends = np.array(ends, dtype=np.int32 if len(columns) <= LARGEST_ID else np.int64)
    shape = len(labels), int(indices.max(initial=-1)) + 1
    matrix = csr_array((np.array(values, dtype=np.float64), indices, row_ends), shape=shape)
    places = Places(shown, np.array(lines, np.int64), relabel=in_line(_relabelled))
    return Documents(matrix, labels, places=places, has_numbers=True)


def svmlight_lines(documents: Documents) -> Iterator[str]:
    """Yield a line a document in svmlight's format; InputError for texts, and for labels that it cannot hold."""
    if isinstance(documents.inputs, list):
        raise InputError(
            "svmlight's format holds numbers, and the documents are texts: write them as text or jsonl"
        )
    matrix = documents.inputs
    for i, label in enumerate(documents.labels):
        _check_label(f"{documents.where(i)}: ", label)
        start, stop = matrix.indptr[i], matrix.indptr[i + 1]
        pairs = zip(matrix.indices[start:stop].tolist(), matrix.data[start:stop].tolist(), strict=True)
        yield " ".join([label, *(f"{column}:{value!r}" for column, value in pairs)]) + "\n"


def _check_label(where: str, label: str) -> None:
    if not label or any(character in label for character in ": #\t\n\r"):
        raise InputError(f"{where}{shorten(label)} cannot be a label in svmlight's format")


def _relabelled(line: str, labels: Sequence[str]) -> str:
    label, before = ",".join(labels), len(line) - len(line.lstrip(" \t"))
    _check_label("", label)
    return line[:before] + label + line[before + len(blank_parted(line.partition("#")[0])[0]) :]


def has_fields(line: str) -> bool:
    """Return whether a line is a document: neither blank nor only a comment."""
    return not is_blank(line.partition("#")[0])


def _feature_fields(fields: list[str]) -> list[str]:
    """Return the fields of a line after its label and, if it has one, the id of its query."""
    return fields[2 if len(fields) > 1 and QUERY_FIELD.fullmatch(fields[1]) else 1 :]


def _begins(lines: Sequence[str]) -> bool:
    rows = [blank_parted(line.partition("#")[0]) for line in lines if has_fields(line)]
    features = [field for row in rows for field in _feature_fields(row)]
    return bool(features) and all(map(FEATURE_FIELD.fullmatch, features))


FORMAT = Format(
    "svmlight",
    "label[,label] id:value id:value ..., a document a line",
    (".svmlight", ".svm", ".libsvm"),
    (DOCUMENTS,),
    read_svmlight,
    instead(svmlight_lines),
    by_lines,
    _begins,
    features=("given",),
)
