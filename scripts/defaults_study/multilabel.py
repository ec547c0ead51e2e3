"""Reader of the Mulan collection's files: ARFF, dense or sparse, and an XML file with the names of the labels."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from crfqn.data.files.lines import text_lines
from crfqn.errors import DataUnavailableError


def read_mulan(name: str) -> tuple[Any, Any, Any, Any]:
    """Features and tables of labels of the training and the test items, from the folder `mulan` below CRFQN_DATA."""
    folder = Path(os.environ.get("CRFQN_DATA", "")) / "mulan"
    if not (folder / f"{name}.xml").exists():
        raise DataUnavailableError(
            f"{folder}: expected {name}.xml, {name}-train.arff and {name}-test.arff (perhaps .gz), as the Mulan "
            "collection has them"
        )
    labels = re.findall(r'name="([^"]+)"', (folder / f"{name}.xml").read_text(encoding="utf-8"))
    parts: list[Any] = []
    for part in ("train", "test"):
        file = folder / f"{name}-{part}.arff"
        names, table = read_arff(file if file.exists() else file.with_suffix(".arff.gz"))
        is_label = np.isin(names, labels)
        parts += [table[:, ~is_label], table[:, is_label].toarray().astype(np.int64)]
    return parts[0], parts[1], parts[2], parts[3]


def read_arff(path: Path) -> tuple[list[str], Any]:
    """Names of the attributes, and the rows, all numbers, as CSR."""
    names: list[str] = []
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for _, line in text_lines(path):
        if line[:10].lower() == "@attribute":
            names.append(line.split()[1])
        if not line.strip() or line[0] in "%@":
            continue
        fields = line.strip().strip("{}").split(",")
        pairs = [field.split() for field in fields] if line[0] == "{" else list(enumerate(fields))
        columns += [int(column) for column, _ in pairs]
        values += [float(value) for _, value in pairs]
        starts.append(len(values))
    table = csr_array((values, columns, starts), (len(starts) - 1, len(names)))
    table.eliminate_zeros()
    return names, table
