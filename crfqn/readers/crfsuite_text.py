r"""Reader of CRFsuite's text format: `label TAB attribute[:value] TAB ...` a position; a blank line ends an item.

In an attribute's name `\:` stands for a colon and `\\` for a backslash; a missing value is 1; an attribute
that comes twice at a position counts with the sum. An empty label means that none is known. The general file
input of `crfqn predict` and `crfqn evaluate`. Format: Okazaki, CRFsuite manual, section "Data format".
"""

import math
import re
from pathlib import Path

from crfqn.data.lines import shown_name, text_lines
from crfqn.errors import DataError
from crfqn.readers.labeled import Labeled

# A name: anything but colon and backslash, or any character behind a backslash; a last backslash counts.
ATTRIBUTE = re.compile(r"(?P<name>(?:[^:\\]|\\.|\\$)*)(?::(?P<value>.*))?", re.DOTALL)
ESCAPED = re.compile(r"\\([:\\])")


def read_crfsuite_text(path: str | Path) -> Labeled:
    """Read a file in CRFsuite's text format, plain or gzip-compressed; `-` reads standard input.

    Returns
    -------
    Labeled
        `inputs[i]` is a list of T dicts `attribute -> float`.

    Raises
    ------
    DataError
        An attribute without a name or with a value that is not a finite number (file, line and field are
        named), no items at all, a declaration (`@weight`), a line with spaces in the place of tabs.
    """
    inputs: list[list[dict[str, float]]] = []
    labels: list[list[str]] = []
    is_inside = False
    for number, line in text_lines(path):
        if not line.strip():
            is_inside = False
            continue
        where = f"{shown_name(path)}, line {number}"
        label, *fields = line.split("\t")
        if label.startswith("@weight"):
            raise DataError(f"{where}: item weights ({label!r}) are not read from this format")
        if not fields and " " in label.strip():
            raise DataError(
                f"{where}: spaces, but no tab: {line.strip()[:60]!r}; expected a label and its "
                "attributes, tab-separated"
            )
        if not is_inside:
            inputs.append([])
            labels.append([])
            is_inside = True
        inputs[-1].append(_attributes(where, fields))
        labels[-1].append(label)
    if not labels:
        raise DataError(
            f"{shown_name(path)}: no items; expected lines of a label and its attributes, tab-separated"
        )
    return Labeled(inputs, labels)


def _attributes(where: str, fields: list[str]) -> dict[str, float]:
    attributes: dict[str, float] = {}
    for column, field in enumerate(fields, start=2):
        if not field:  # a tab at the end of the line
            continue
        name, value = _attribute(f"{where}, field {column}", field)
        attributes[name] = attributes.get(name, 0.0) + value
    return attributes


def _attribute(where: str, field: str) -> tuple[str, float]:
    if ":" not in field and "\\" not in field:
        return field, 1.0
    match = ATTRIBUTE.fullmatch(field)
    assert match is not None  # the pattern accepts every text
    name, text = ESCAPED.sub(r"\1", match["name"]), match["value"]
    if not name:
        raise DataError(f"{where}: an attribute without a name: {field!r}")
    if text is None:
        return name, 1.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{where}: {field!r} has the value {text!r}; expected a finite number "
            r"(a colon that belongs to the name is written \:)"
        )
    return name, value
