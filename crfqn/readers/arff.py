"""Reader of ARFF files with a hierarchical class, as in ImageCLEF 2007: numbers, and a label's path in a tree.

Of the header, `@attribute NAME numeric` (or real, integer) and one `@attribute NAME hierarchical PATH,PATH,...` are
known; a path is written `6/2/0`. A data row lists the nodes on the way to its label, `6@6/2@6/2/0`, or the label alone.
SciPy refuses hierarchical attributes. Format: Vens et al., Clus manual, "Hierarchical multi-label classification".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from crfqn.data.files import blank_parted, is_blank, text_lines
from crfqn.errors import DataError
from crfqn.messages import shorten
from crfqn.readers.items import Documents
from crfqn.taxonomy.reading import open_taxonomy

ATTRIBUTE = re.compile(
    r"@attribute\s+(?P<name>'[^']*'|\"[^\"]*\"|\S+)\s+(?P<kind>[a-z]+)(?P<rest>\b.*)", re.IGNORECASE
)
NUMERIC, HIERARCHICAL = {"numeric", "real", "integer"}, "hierarchical"
COMMENT, BETWEEN_NODES, SEPARATOR = "%", "@", "/"


@dataclass
class Header:
    """Header of an ARFF file: attribute names by column; column and declared tree paths of the hierarchical one."""

    names: list[str] = field(default_factory=list)
    label_column: int = -1
    paths: list[str] = field(default_factory=list)


def read_hierarchical_arff(path: str | Path) -> Documents:
    """Read an ARFF file with a hierarchical class: float64 csr_array, paths such as "6/2/0", and a taxonomy of the
    nodes that the header declares, or else of those on the paths; DataError names file and line."""
    from scipy.sparse import csr_array

    lines = _content(path)
    header = _header(path, lines)
    declared = set(header.paths)
    rows: list[list[float]] = []
    labels: list[str] = []
    for where, line in lines:
        fields = line.split(",")
        if len(fields) != len(header.names):
            raise DataError(
                f"{where}: expected {len(header.names)} comma-separated fields, got {len(fields)}"
            )
        label = _label(where, fields.pop(header.label_column).strip())
        if declared and label not in declared:
            raise DataError(f"{where}: the class {shorten(label)} is not one that the header declares")
        labels.append(label)
        rows.append([_number(where, text) for text in fields])
    if not rows:
        raise DataError(f"{path}: no rows behind @data")
    names = [name for column, name in enumerate(header.names) if column != header.label_column]
    taxonomy = open_taxonomy(header.paths or sorted(set(labels)), labels, separator=SEPARATOR)
    return Documents(csr_array(np.array(rows)), labels, taxonomy, feature_names=names)


def _content(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the place, for messages, and the text of the lines that are neither empty nor a comment."""
    for number, line in text_lines(path):
        if not is_blank(line) and not line.startswith(COMMENT):
            yield f"{path}, line {number}", line


def _header(path: str | Path, lines: Iterator[tuple[str, str]]) -> Header:
    """Read everything down to `@data`; the lines behind it are left in the iterator."""
    header = Header()
    for where, line in lines:
        keyword = blank_parted(line)[0].lower()
        if keyword == "@attribute":
            _add_attribute(where, line, header)
        elif keyword == "@data":
            if header.label_column < 0:
                raise DataError(f"{where}: @data, but no hierarchical attribute came before it")
            return header
        elif keyword != "@relation":
            raise DataError(f"{where}: expected @relation, @attribute or @data, got {shorten(line.strip())}")
    raise DataError(f"{path}: no @data; expected an ARFF file")


def _add_attribute(where: str, line: str, header: Header) -> None:
    match = ATTRIBUTE.fullmatch(line.strip())
    kind = match["kind"].lower() if match else ""
    if match is None or not (kind == HIERARCHICAL or (kind in NUMERIC and not match["rest"].strip())):
        raise DataError(
            f"{where}: expected `@attribute NAME numeric` or `@attribute NAME hierarchical PATH,PATH,...`, "
            f"got {shorten(line.strip())}"
        )
    if kind == HIERARCHICAL:
        if header.label_column >= 0:
            raise DataError(f"{where}: a second hierarchical attribute; expected one")
        header.label_column = len(header.names)
        header.paths = [_path(where, text.strip()) for text in match["rest"].split(",") if text.strip()]
    header.names.append(match["name"].strip("'\""))


def _label(where: str, text: str) -> str:
    """Return the last node of a list such as `6@6/2@6/2/0`, whose other nodes must be the path to it."""
    *way, label = text.split(BETWEEN_NODES)
    if any(not f"{label}{SEPARATOR}".startswith(f"{node}{SEPARATOR}") for node in way):
        raise DataError(f"{where}: expected the nodes of one path, got {shorten(text)}")
    return _path(where, label)


def _path(where: str, text: str) -> str:
    if not all(map(str.strip, text.split(SEPARATOR))):
        raise DataError(f"{where}: expected a class such as '6/2/0', got {shorten(text)}")
    return text


def _number(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where}: expected a finite number, got {shorten(text)}")
    return value
