"""Reader of ARFF files with a hierarchical class, as in ImageCLEF 2007: numbers, and a label's path in a tree.

The header may have `@attribute NAME numeric` (or real, integer) and one `@attribute NAME hierarchical PATH,PATH,...`; a
path is written `6/2/0`. A data row lists the nodes on the path to its label, `6@6/2@6/2/0`, or the label alone. SciPy
refuses hierarchical attributes. Format: Vens et al., Clus manual, "Hierarchical multi-label classification".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from crfqn.data.files import blank_parted, is_blank, text_lines
from crfqn.errors import DataError
from crfqn.messages import shorten
from crfqn.numerals import BLANKS, number_in
from crfqn.readers.labelled_items import Documents
from crfqn.taxonomy.reading import open_taxonomy

ATTRIBUTE_LINE = re.compile(
    r"@attribute\s+(?P<name>'[^']*'|\"[^\"]*\"|\S+)\s+(?P<kind>[a-z]+)(?P<rest>\b.*)", re.IGNORECASE
)
NUMERIC_KINDS, HIERARCHICAL_KIND = {"numeric", "real", "integer"}, "hierarchical"
COMMENT_MARK, NODE_SEPARATOR, LEVEL_SEPARATOR = "%", "@", "/"


def read_hierarchical_arff(path: str | Path) -> Documents:
    """Read an ARFF file with a hierarchical class: float64 csr_array, paths such as "6/2/0", and a taxonomy of the
    nodes that the header declares, or else of those on the paths; DataError names file and line."""
    from scipy.sparse import csr_array

    lines = (
        (f"{path}, line {number}", line)
        for number, line in text_lines(path)
        if not is_blank(line) and not line.startswith(COMMENT_MARK)
    )
    names, label_column, paths = _read_header(path, lines)
    declared = set(paths)
    rows: list[list[float]] = []
    labels: list[str] = []
    for where, line in lines:
        fields = line.split(",")
        if len(fields) != len(names) + 1:
            raise DataError(f"{where}: expected {len(names) + 1} comma-separated fields, got {len(fields)}")
        text = fields.pop(label_column).strip(BLANKS)
        *above, label = text.split(NODE_SEPARATOR)
        if any(not f"{label}{LEVEL_SEPARATOR}".startswith(f"{node}{LEVEL_SEPARATOR}") for node in above):
            raise DataError(f"{where}: expected the nodes of one path, got {shorten(text)}")
        labels.append(_checked_path(where, label))
        if declared and label not in declared:
            raise DataError(f"{where}: the class {shorten(label)} is not one that the header declares")
        values = [number_in(field.strip(BLANKS)) for field in fields]
        for field, value in zip(fields, values, strict=True):
            if not math.isfinite(value):
                raise DataError(f"{where}: expected a finite number, got {shorten(field)}")
        rows.append(values)
    if not rows:
        raise DataError(f"{path}: no rows after @data")
    taxonomy = open_taxonomy(paths or sorted(set(labels)), labels, separator=LEVEL_SEPARATOR)
    return Documents(csr_array(np.array(rows)), labels, taxonomy, feature_names=names)


def _read_header(path: str | Path, lines: Iterator[tuple[str, str]]) -> tuple[list[str], int, list[str]]:
    """Read the lines up to `@data`: return the names of the numbers' columns, the number of the hierarchical column,
    and the tree's paths that it declares. The lines after `@data` remain in the iterator."""
    names: list[str] = []
    label_column, paths = -1, list[str]()
    for where, line in lines:
        keyword = blank_parted(line)[0].lower()
        if keyword == "@data":
            if label_column < 0:
                raise DataError(f"{where}: @data, but no hierarchical attribute came before it")
            return names, label_column, paths
        if keyword == "@relation":
            continue
        if keyword != "@attribute":
            raise DataError(f"{where}: expected @relation, @attribute or @data, got {shorten(line.strip())}")
        match = ATTRIBUTE_LINE.fullmatch(line.strip())
        kind = match["kind"].lower() if match else ""
        if match is None or not (
            kind == HIERARCHICAL_KIND or (kind in NUMERIC_KINDS and not match["rest"].strip())
        ):
            raise DataError(
                f"{where}: expected `@attribute NAME numeric` or `@attribute NAME hierarchical PATH,PATH,...`, "
                f"got {shorten(line.strip())}"
            )
        if kind != HIERARCHICAL_KIND:
            names.append(match["name"].strip("'\""))
            if names[-1] in names[:-1]:
                raise DataError(f"{where}: the attribute {shorten(names[-1])} comes twice")
        elif label_column >= 0:
            raise DataError(f"{where}: a second hierarchical attribute; expected one")
        else:
            label_column = len(names)
            paths = [_checked_path(where, text.strip()) for text in match["rest"].split(",") if text.strip()]
    raise DataError(f"{path}: no @data; expected an ARFF file")


def _checked_path(where: str, text: str) -> str:
    if not all(map(str.strip, text.split(LEVEL_SEPARATOR))):
        raise DataError(f"{where}: expected a class such as '6/2/0', got {shorten(text)}")
    return text
