"""Labels of files in another notation: a text that means an unknown label, and numbers instead of names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from crfqn.data.files import read_text
from crfqn.data.label_arrays import number_of
from crfqn.errors import DataError, InputError
from crfqn.messages import shorten
from crfqn.readers.format import Data
from crfqn.readers.labelled_items import Labeled

UNLABELLED = "-1"  # no label, in data sets of Hugging Face and in scikit-learn


def with_values(data: Data, missing: str | None, label_names: Sequence[str] | None) -> Data:
    """Return items whose labels are read in another notation, and are written back in it.

    missing : the text of an unknown label, which becomes an empty text; None: there is none
    label_names : the names of the labels 0, 1, ...; labels may also be names. -1 becomes an empty text.

    DataError, naming the place, for a label that is neither a name nor the number of one.
    """
    if missing is not None:
        data = _changed(data, lambda label: "" if label == missing else label)
    if label_names is None:
        return data
    names, value_of = dict(enumerate(label_names)), {"": "", UNLABELLED: ""}
    unknown: list[str] = []
    for label in data.distinct_labels():
        number = number_of(label)
        name = names.get(number) if isinstance(number, int) else None
        if name is None and label not in value_of and label not in label_names:
            unknown.append(label)
        value_of.setdefault(label, label if name is None else name)
    if unknown:
        item, position = next(iter(data.labelled(unknown[0])))
        raise DataError(
            f"{data.where(item, position)}: expected one of {len(names)} names of labels "
            f"({', '.join(label_names):.100}) or its number from 0, got the label {shorten(unknown[0])}"
        )
    number_by_name = {name: str(number) for number, name in names.items()}
    has_numbers = data.has_numbers
    data = replace(_changed(data, value_of.__getitem__), has_numbers=False)
    if has_numbers and data.places is not None and data.places.relabel is not None:
        relabel = data.places.relabel
        places = replace(
            data.places,
            relabel=lambda text, labels: relabel(
                text, [number_by_name.get(label, label) for label in labels]
            ),
        )
        return replace(data, places=places)
    return data


def _changed(data: Data, change: Callable[[str], str]) -> Data:
    if isinstance(data, Labeled):
        return replace(data, labels=[[*map(change, labels)] for labels in data.labels])
    return replace(data, labels=[*map(change, data.labels)])


def names_of_labels(values: Sequence[str]) -> list[str]:
    """Return the names of labels, given as texts of names separated by commas, or as a file with a name a line."""
    if len(values) == 1 and Path(values[0]).is_file():
        names = [line.strip() for line in read_text(values[0]).splitlines() if line.strip()]
    else:
        names = [name.strip() for value in values for name in value.split(",")]
    if len({*names}) < len(names) or not all(names):
        raise InputError(
            f"label names: expected distinct names, separated by commas, got {', '.join(names):.200}"
        )
    return names
