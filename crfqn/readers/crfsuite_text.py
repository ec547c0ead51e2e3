r"""CRFsuite's text format: `label TAB attribute[:value] TAB ...` a position; a blank line ends an item.

In an attribute's name `\:` means a colon and `\\` a backslash; a missing value is 1; the values of an attribute that
occurs twice at a position are summed. An empty label means an unknown one. A line `@weight:2.5` before an item's first
position is the item's weight. Format: Okazaki, CRFsuite manual, section "Data format".
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from crfqn.data.attribute_items import AttributeItems
from crfqn.data.files import Readable, is_blank, shown_name
from crfqn.data.token_rows import GrowingRows
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.numerals import number_in
from crfqn.readers.format import SEQUENCES, Format, by_blank_lines, instead, item_lines
from crfqn.readers.labelled_items import Labeled, Places, in_line

# A name: anything but colon and backslash, or any character after a backslash; a last backslash belongs to it.
ATTRIBUTE_FIELD = re.compile(r"(?P<name>(?:[^:\\]|\\.|\\$)*)(?::(?P<value>.*))?", re.DOTALL)
ESCAPED_CHARACTER = re.compile(r"\\([:\\])")
VALUE_AT_END = re.compile(r":[-+0-9.eE]+$")
ITEM_WEIGHT = "@weight"


def read_crfsuite_text(path: Readable) -> Labeled:
    """Read CRFsuite's text: items are lists of dicts `attribute -> float`, made on request; `weights` if any item has
    one (`@weight:2.5`). DataError for an attribute without name or finite value (file, line and field named), no items,
    an unknown declaration, spaces instead of tabs."""
    shown = shown_name(path)
    rows = _Attributes()
    offsets, lines = array("q", [0]), array("q")
    labels: list[list[str]] = []
    weights: dict[int, float] = {}
    known: dict[str, str] = {}  # one copy of each label
    for block in item_lines(path):
        item_labels: list[str] = []
        for number, line in block:
            where = f"{shown}, line {number}"
            label, *fields = line.split("\t")
            if label.startswith(ITEM_WEIGHT) or (label.startswith("@") and not fields):
                if len(labels) in weights:
                    raise DataError(f"{where}: a second weight of one item: {line[:60]!r}")
                weights[len(labels)] = _item_weight(where, line.rstrip("\t"), bool(item_labels))
                continue
            if not fields and " " in label.strip():
                raise DataError(
                    f"{where}: spaces, but no tab: {line.strip()[:60]!r}; expected a label and its "
                    "attributes, tab-separated"
                )
            rows.add(where, fields)
            label = ESCAPED_CHARACTER.sub(r"\1", label)
            item_labels.append(known.setdefault(label, label))
            lines.append(number)
        if not item_labels:
            raise DataError(
                f"{where}: {line[:60]!r} without an item; expected its first position in the next line"
            )
        labels.append(item_labels)
        offsets.append(len(lines))
    if not labels:
        raise EmptyDataError(
            f"{shown}: no items; expected lines of a label and its attributes, tab-separated"
        )
    cuts = np.array(offsets, np.int64)
    inputs = AttributeItems([*rows.place_of], rows.rows(), cuts)
    places = Places(shown, np.array(lines, np.int64), cuts, in_line(_relabelled))
    by_item = [weights.get(i, 1.0) for i in range(len(labels))] if weights else None
    return Labeled(inputs, labels, places=places, weights=by_item)


class _Attributes(GrowingRows):
    """The attributes of positions in growing buffers.

    place_of : the number of each attribute's name
    known : the number of the attribute of each field, as it is written, whose value is 1
    """

    def __init__(self) -> None:
        super().__init__()
        self.place_of: dict[str, int] = {}
        self.known: dict[str, int] = {}

    def add(self, where: str, fields: Sequence[str]) -> None:
        """Append a position; errors as of `read_crfsuite_text`."""
        try:
            row = [*map(self.known.__getitem__, fields)]
        except KeyError:
            row = []
        if len(row) == len(fields) == len({*row}):
            self.columns.extend(row)
            self.row_ends.append(len(self.columns))
            return
        entries: dict[int, float] = {}
        for column, field in enumerate(fields, start=2):
            if field:  # it is empty after a tab at the end of the line
                name, value = field, 1.0
                if ":" in field or "\\" in field:
                    name, value = _attribute(f"{where}, field {column}", field)
                place = self.place_of.setdefault(name, len(self.place_of))
                if value == 1.0:
                    self.known[field] = place
                entries[place] = entries.get(place, 0.0) + value
        self.append(entries)


def crfsuite_lines(labeled: Labeled) -> Iterator[str]:
    """Yield each item's text in CRFsuite's format, with its weight; columns `column -> text` become `column=text`.
    InputError, naming the position, if a name or label contains a tab or a line's end."""
    for i, (item, labels) in enumerate(zip(labeled.inputs, labeled.labels, strict=True)):
        lines = [] if labeled.weights is None else [f"@weight:{labeled.weights[i]!r}\n"]
        for t, (attributes, label) in enumerate(zip(item, labels, strict=True)):
            fields = [_escaped(label)]
            for name, value in attributes.items():
                text = f"{name}={value}" if isinstance(value, str) else name
                is_plain = isinstance(value, str) or value == 1
                fields.append(_escaped(text) if is_plain else f"{_escaped(text)}:{float(value)!r}")
            _check_fields(f"{labeled.where(i, t)}: ", fields)
            lines.append("\t".join(fields) + "\n")
        yield "".join(lines) + "\n"


def _check_fields(where: str, fields: Sequence[str]) -> None:
    if any(character in field for field in fields for character in "\t\n\r"):
        raise InputError(f"{where}a name or label contains a tab or a line's end")


def _relabelled(line: str, labels: Sequence[str]) -> str:
    _check_fields("", labels)
    return _escaped(labels[0]) + line[len(line.partition("\t")[0]) :]


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace(":", "\\:")


def _item_weight(where: str, label: str, has_positions: bool) -> float:
    name, _, text = label.partition(":")
    if name != ITEM_WEIGHT:
        raise DataError(
            f"{where}: the declaration {name!r} is not known; expected @weight:<number>, or a label and a tab"
        )
    if has_positions:
        raise DataError(f"{where}: {label!r} comes after positions of its item; expected it before the first")
    weight = number_in(text)
    if not (math.isfinite(weight) and weight >= 0):
        raise DataError(f"{where}: expected @weight:<number >= 0>, got {label!r}")
    return weight


def _attribute(where: str, field: str) -> tuple[str, float]:
    match = ATTRIBUTE_FIELD.fullmatch(field)
    assert match is not None  # the pattern accepts every text
    name, text = ESCAPED_CHARACTER.sub(r"\1", match["name"]), match["value"]
    if not name:
        raise DataError(f"{where}: an attribute without a name: {field!r}")
    if text is None:
        return name, 1.0
    value = number_in(text)
    if not math.isfinite(value):
        raise DataError(
            f"{where}: {field!r} has the value {text!r}; expected a finite number "
            r"(a colon that belongs to the name is written \:)"
        )
    return name, value


def _begins(lines: Sequence[str]) -> bool:
    rows = [line.rstrip("\t").split("\t")[1:] for line in lines if not is_blank(line) and line[0] != "@"]
    fields = [field for row in rows for field in row]
    has_values = 2 * sum("=" in field or VALUE_AT_END.search(field) is not None for field in fields) > len(
        fields
    )
    return bool(fields) and (has_values or len({*map(len, rows)}) > 1)


FORMAT = Format(
    "crfsuite",
    "label TAB attribute[:value] TAB ..., a position a line",
    (".crfsuite",),
    (SEQUENCES,),
    read_crfsuite_text,
    instead(crfsuite_lines),
    by_blank_lines,
    _begins,
    features=("attributes", "pixel-pairs"),
)
