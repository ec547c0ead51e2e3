"""Writing of an input again with other labels: each other character stays as it is, whatever the format.

The readers say at which lines the labels stand, and how others are put there (`crfqn.readers.places`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from crfqn.data.files import Part
from crfqn.errors import InputError
from crfqn.readers.documents import Documents
from crfqn.readers.labeled import Labeled


def rewritten(part: Part, data: Labeled | Documents | None, predicted: Sequence[Any] = ()) -> str:
    """Return the text of a part with predictions in the place of the labels, every other character as it was.

    Parameters
    ----------
    part : Part
    data : Labeled or Documents, or None
        What was read from it; None: nothing.
    predicted : sequence
        A sequence of labels for each sequence, a label (or several) for each document.

    Raises
    ------
    InputError
        A label that the format cannot hold (the line is named).
    """
    places = None if data is None else data.places
    if data is None or places is None or places.relabel is None:
        return part.mark + part.text
    *lines, last = part.text.split("\n")
    lines = [*(f"{line}\n" for line in lines), last]
    known, found = _labels_by_line(data, predicted)
    starts = [0, *(line - part.first for line in found), len(lines)]
    texts = ["".join(lines[start:stop]) for start, stop in pairwise(starts)]
    if places.title is not None and not part.head:
        texts[0] = places.relabel(texts[0], [places.title])
    for i, (line, labels) in enumerate(found.items(), start=1):
        if labels != known[line]:
            try:
                texts[i] = places.relabel(texts[i], labels)
            except InputError as error:
                raise InputError(f"{places.file}, line {line}: {error}") from error
    return part.mark + "".join(texts)


def _labels_by_line(
    data: Labeled | Documents, predicted: Sequence[Any]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return the labels that are known and those that are predicted, by the lines of their positions or documents."""
    places = data.places
    assert places is not None  # of a file
    known: dict[int, list[str]] = {}
    found: dict[int, list[str]] = {}
    if isinstance(data, Documents):
        for line, label, new in zip(places.lines.tolist(), data.labels, predicted, strict=True):
            found[line] = [new] if isinstance(new, str) else list(map(str, new))
            parts = [part.strip() for part in label.split(",")]
            is_same = label == ",".join(found[line]) or sorted(parts) == sorted(found[line])
            known[line] = found[line] if is_same else [label]
        return known, found
    lines = iter(places.lines.tolist())
    for own, labels in zip(data.labels, predicted, strict=True):
        for label, new in zip(own, labels, strict=True):
            line = next(lines)
            known.setdefault(line, []).append(label)
            found.setdefault(line, []).append(str(new))
    return known, found
