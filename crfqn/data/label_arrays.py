"""Labels as texts, as numbers, and as codes 0 ... K - 1; labels by item, and partly known labels.

Labels may be flat, by position, or nested, a list an item; classes are sorted, whatever the order of the items. None is
an unknown label or an item without known labels, a set is one of several possible labels. Shapes: I items, N positions,
K classes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.inputs import LabelsLike
from crfqn.data.items import MAX_SHOWN_LABELS, locate
from crfqn.errors import InputError
from crfqn.messages import describe, place_of, shorten
from crfqn.numerals import BLANKS

NO_LABEL = "expected a label, got an empty text, which readers give where a file has none"


def encode_labels(y: LabelsLike, offsets: NDArray[np.int64]) -> tuple[NDArray, NDArray[np.int32]]:
    """Return the distinct labels sorted, (K,), and the code of each position's, int32 (N,); `y` is flat or a list of I
    array-likes. InputError if the counts differ, or labels are missing or of mixed kinds (place named)."""
    labels = flat_labels(y, offsets)
    check_labels(labels, offsets)
    if isinstance(labels, np.ndarray):
        classes, codes = np.unique(labels, return_inverse=True)
        classes = classes + 0.0 if classes.dtype.kind == "f" else classes  # 0.0, not -0.0
        return classes, codes.astype(np.int32)
    distinct = sorted(set(labels))
    classes = np.asarray(distinct) if distinct else np.empty(0, np.int64)
    classes = classes + 0.0 if classes.dtype.kind == "f" else classes
    if classes.dtype.kind not in "biufU":
        raise InputError(f"expected labels that fit 64-bit integers, got {shorten(distinct[-1])}")
    return classes, _codes(labels, distinct)


def item_labels(y: LabelsLike) -> LabelsLike:
    """Return labels, one an item, as an array of their own kind (I,), for scikit-learn, which would make floats of
    nullable integers and strings of labels of mixed kinds; tables, rows, sets and anything but a list are unchanged.
    InputError if labels are missing or of mixed kinds (item named)."""
    if isinstance(y, (str, bytes, Mapping)) or hasattr(y, "tocsr") or not isinstance(y, Iterable):
        return y
    if hasattr(y, "__array__"):
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] == 1:  # a column, about which scikit-learn warns
            column = item_labels(array[:, 0])
            return column.reshape(-1, 1) if isinstance(column, np.ndarray) else y
        if array.ndim != 1 or array.dtype.kind == "c":  # which scikit-learn refuses
            return y
        labels: NDArray | list = array if array.dtype.kind in "biuf" else array.tolist()
    else:
        labels = list(y)
    if isinstance(labels, list) and any(
        issubclass(kind, (list, tuple, set, frozenset, np.ndarray)) for kind in set(map(type, labels))
    ):
        return y
    check_labels(labels, np.arange(len(labels) + 1))
    return np.asarray(labels)


def check_any_known(labels: NDArray, classes: NDArray) -> None:
    """Raise InputError if the model has none of the true labels; the message shows labels of both."""
    known = set(classes.tolist())
    distinct = dict.fromkeys(labels.tolist())
    if distinct and known.isdisjoint(distinct):
        raise InputError(unknown_labels(distinct, classes.tolist()))


def unknown_labels(labels: Iterable[Any], known: Iterable[Any]) -> str:
    """Return the message for true labels none of which the model has, with some labels of both."""
    shown = []
    for names in map(list, (labels, known)):
        shown.append(
            ", ".join(map(shorten, names[:MAX_SHOWN_LABELS])) + ", ..." * (len(names) > MAX_SHOWN_LABELS)
        )
    return (
        f"none of the labels to score by is known to the model: they are {shown[0]}; the model has {shown[1]}"
    )


def encode_known_labels(y: LabelsLike, offsets: NDArray[np.int64], classes: NDArray) -> NDArray[np.int32]:
    """Return the codes of labels among `classes` (K,), int32 (N,); InputError also for one that is not among them."""
    labels = flat_labels(y, offsets)
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    known = classes.tolist()
    try:
        return _codes(labels, known)
    except (KeyError, TypeError):
        check_labels(labels, offsets)
    n = next(n for n, label in enumerate(labels) if label not in known)
    label = shorten(labels[n])
    raise InputError(f"{_locate(offsets, n)}: label {label} is not among the {len(known)} known classes")


def split_by_item(flat: ArrayLike, offsets: NDArray[np.int64]) -> list[NDArray]:
    """Cut an array of N rows, one for each position, into one view for each item."""
    rows = np.asarray(flat)
    cuts = offsets.tolist()
    return [rows[start:stop] for start, stop in pairwise(cuts)]


def lists_by_item(flat: NDArray, offsets: NDArray[np.int64]) -> NDArray[np.object_]:
    """Cut an array of N labels into a list an item: an array of these lists, (I,), even if all are of one length."""
    items, cuts = np.empty(offsets.size - 1, object), offsets.tolist()
    labels = flat.tolist()
    for i, (start, stop) in enumerate(pairwise(cuts)):
        items[i] = labels[start:stop]
    return items


def _codes(labels: list, classes: list) -> NDArray[np.int32]:
    code_of: Callable[[Any], int] = dict(zip(classes, range(len(classes)), strict=True)).__getitem__
    return np.fromiter(map(code_of, labels), np.int32, len(labels))


def flat_labels(y: LabelsLike, offsets: NDArray[np.int64]) -> NDArray | list:
    """Return the labels by position: an array of numbers, or a list of Python objects; `y`, errors: `encode_labels`."""
    n_items, n_positions = offsets.size - 1, int(offsets[-1])
    if isinstance(y, (str, bytes, Mapping)) or not isinstance(y, Iterable):
        raise InputError(f"expected labels by position, or one list of labels an item, got {describe(y)}")
    if hasattr(y, "__array__"):
        y = np.asarray(y)
        if y.ndim == 1 and y.dtype.kind in "biuf":
            labels: NDArray | list = y
        else:
            y = labels = y.tolist() if y.ndim == 1 else list(y)
    else:
        y = labels = list(y)
    if isinstance(labels, list):
        one_of_each_type = {type(label): label for label in labels}.values()
        if any(map(_is_label_list, one_of_each_type)):
            if len(labels) != n_items:
                raise InputError(f"expected labels for {n_items} items, got {len(labels)} lists of labels")
            pieces = []
            for i, (piece, length) in enumerate(zip(labels, np.diff(offsets).tolist(), strict=True)):
                if not _is_label_list(piece):
                    raise InputError(
                        f"{place_of(i)}: expected a list of {length} labels, got {describe(piece)}"
                    )
                piece = np.asarray(piece).tolist() if hasattr(piece, "__array__") else piece
                if not isinstance(piece, (list, tuple)) or len(piece) != length:
                    n = len(piece) if isinstance(piece, (list, tuple)) else 0
                    raise InputError(
                        f"{place_of(i)}: expected {length} labels, one for each position, got {n}"
                    )
                pieces.append(piece)
            return list(chain.from_iterable(pieces))
    if len(labels) != n_positions:
        raise InputError(
            f"expected one label for each of the {n_positions} positions (or one list for each of the "
            f"{n_items} items), got {len(labels)} labels"
        )
    return labels


def _is_label_list(label: object) -> bool:
    is_array = hasattr(label, "__array__") and not isinstance(label, np.generic)
    return is_array or isinstance(label, (list, tuple))


def _locate(offsets: NDArray[np.int64], n: int) -> str:
    """Return the place of position n in words: the item alone if every item has only one position."""
    is_single = offsets[-1] == offsets.size - 1 and (np.diff(offsets) == 1).all()
    return place_of(n) if is_single else locate(offsets, n)


LABEL_TYPES: dict[str, tuple[type, ...]] = {
    "strings": (str,),
    "booleans": (bool, np.bool_),
    "numbers": (int, float, np.integer, np.floating),
}  # a boolean is an integer, too, and comes first


def check_labels(labels: NDArray | list, offsets: NDArray[np.int64]) -> None:
    """Raise InputError for missing labels and for labels of different kinds."""
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            n = int(np.argmin(np.isfinite(labels)))
            raise InputError(f"{_locate(offsets, n)}: expected a label, got {labels[n]}")
        return
    kinds = {
        kind: next((name for name, types in LABEL_TYPES.items() if issubclass(kind, types)), None)
        for kind in set(map(type, labels))
    }
    suspects = {
        kind for kind, name in kinds.items() if name is None or issubclass(kind, (float, np.floating))
    }
    for n, label in enumerate(labels) if suspects else ():
        if kinds[type(label)] is None:
            reason = f"expected a string or number as label, got {describe(label)}"
            raise InputError(f"{_locate(offsets, n)}: {reason}")
        if type(label) in suspects and not math.isfinite(label):
            raise InputError(f"{_locate(offsets, n)}: expected a label, got {label}")
    if "" in labels:
        raise InputError(f"{_locate(offsets, labels.index(''))}: {NO_LABEL}")
    if len(set(kinds.values())) > 1:
        first = kinds[type(labels[0])]
        n = next(n for n, label in enumerate(labels) if kinds[type(label)] != first)
        raise InputError(
            f"expected labels of one kind, got {first} like {shorten(labels[0])} ({_locate(offsets, 0)}) "
            f"and {kinds[type(labels[n])]} like {shorten(labels[n])} ({_locate(offsets, n)})"
        )


UNKNOWN_CODE = -1  # the code of a position with several possible labels
PARTIAL_LABEL_TYPES = (type(None), set, frozenset)


class PartialLabels(NamedTuple):
    """Labels by position."""

    classes: NDArray  # (K,), the distinct labels, sorted
    targets: NDArray[np.int32]  # (N,), codes; UNKNOWN_CODE if more than one label is possible
    allowed: NDArray[np.bool_] | None  # (K, N), the possible labels; None if all labels are known


def flat_partial_labels(y: LabelsLike, offsets: NDArray[np.int64]) -> NDArray | list:
    """Return labels by position, as `flat_labels` does; an item may be None: its labels are unknown."""
    if isinstance(y, (list, tuple)) and any(item is None for item in y):
        lengths = np.diff(offsets).tolist()
        is_nested = any(isinstance(item, (list, tuple, np.ndarray)) for item in y)
        if len(y) == len(lengths) and (is_nested or offsets[-1] != len(lengths)):
            y = [[None] * n if item is None else item for item, n in zip(y, lengths, strict=True)]
    return flat_labels(y, offsets)


def encode_partial_labels(labels: NDArray | list, offsets: NDArray[np.int64]) -> PartialLabels:
    """Return classes and codes of labels by position; errors as `encode_labels`, and for an empty set of labels."""
    if not is_partial(labels):
        return PartialLabels(*encode_labels(labels, offsets), None)
    choices, members = _choices(labels, offsets)
    if not members:
        raise InputError("expected at least one known label, got none")
    kinds: dict[bool, str] = {}
    for member, position in members.items():
        kinds.setdefault(isinstance(member, str), f"{shorten(member)} ({locate(offsets, position)})")
    if len(kinds) > 1:
        raise InputError(f"expected labels of one kind, got {' and '.join(kinds.values())}")
    classes, _ = encode_labels(list(members), np.array([0, len(members)]))
    return PartialLabels(classes, *_encoded(choices, classes.tolist()))


def encode_allowed_labels(y: LabelsLike, offsets: NDArray[np.int64], classes: NDArray) -> NDArray[np.bool_]:
    """Return the labels that `y` allows at each position, bool (K, N): None allows all, a set its members. InputError
    if the counts differ, and (named by position) for a label not in `classes`."""
    labels = flat_partial_labels(y, offsets)
    choices, members = _choices(labels.tolist() if isinstance(labels, np.ndarray) else labels, offsets)
    known = classes.tolist()
    names = set(known)
    for label, position in members.items():
        if label not in names:
            raise InputError(
                f"{locate(offsets, position)}: label {shorten(label)} is not among the {len(known)} known classes"
            )
    return _encoded(choices, known)[1]


def is_partial(labels: NDArray | list) -> bool:
    """Return whether some of the labels by position are unknown."""
    return isinstance(labels, list) and any(kind in PARTIAL_LABEL_TYPES for kind in set(map(type, labels)))


def _choices(labels: Iterable[Any], offsets: NDArray[np.int64]) -> tuple[list[tuple | None], dict[Any, int]]:
    """Return the labels that each position may have, None for all, and for each label the first position that may have
    it; InputError for an empty set and for anything but a label."""
    choices: list[tuple | None] = []
    first: dict[Any, int] = {}
    for position, label in enumerate(labels):
        choice = None
        if label is not None:
            choice = tuple(label) if isinstance(label, (set, frozenset)) else (label,)
            if not choice:
                place = locate(offsets, position)
                raise InputError(f"{place}: expected at least one label in a set, got an empty one")
        choices.append(choice)
        for member in choice or ():
            if not isinstance(member, (str, int, float, np.generic)) or member != member or member == "":
                place = locate(offsets, position)
                raise InputError(f"{place}: expected a string or number as label, got {describe(member)}")
            first.setdefault(member, position)
    return choices, first


def _encoded(choices: list, classes: list) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    code_of = {label: code for code, label in enumerate(classes)}
    targets = np.full(len(choices), UNKNOWN_CODE, np.int32)
    allowed = np.zeros((len(choices), len(classes)), bool)
    for position, choice in enumerate(choices):
        if choice is None:
            allowed[position] = True
            continue
        codes = [code_of[member] for member in choice]
        allowed[position, codes] = True
    is_single = allowed.sum(axis=1) == 1
    targets[is_single] = allowed[is_single].argmax(axis=1)
    return targets, np.ascontiguousarray(allowed.T)


# Labels in files. In svmlight's format and in a table's column, labels are whole numbers if all are written as such:
# `1`, `+1`, `1.0` and `1e0` are one label. Numbers that are not whole stay texts, in one spelling. A text is no number
# if a number would lose a part of it: a leading zero (`007`), a zero at the end of decimals (`3.10`), or digits beyond
# 64 bits.

PLAIN_NUMBER = r"(?:0|[1-9][0-9]*)(?:\.(?:0*|[0-9]*[1-9]))?|\.[0-9]*[1-9]"
WITH_EXPONENT = r"(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+"
LABEL_NUMBER = re.compile(rf"[-+]?(?:{PLAIN_NUMBER}|{WITH_EXPONENT})")
LARGEST_LABEL = 2**63 - 1  # of an integer in 64 bits
LARGEST_EXACT_INTEGER = 2**53  # whole numbers in double precision are exact up to here


def number_of(text: str) -> int | float | None:
    """Return the number that a label's text means, an int if it is whole; None for another text."""
    text = text.strip(BLANKS)
    if not LABEL_NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit():
        whole = int(text)
        return whole if abs(whole) <= LARGEST_LABEL else None
    value = float(text)
    if not np.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= LARGEST_EXACT_INTEGER else value


def label_text(label: object) -> str:
    """Return the text of a label in files: whole numbers as `1`, never `1.0`."""
    if (
        isinstance(label, (float, np.floating))
        and float(label).is_integer()
        and abs(float(label)) <= LARGEST_EXACT_INTEGER
    ):
        return str(int(label))
    return str(label)


def position_labels(labels: Iterable[Any]) -> list[Any]:
    """Return the labels of all positions in one list, single labels unchanged; rows of a path's parts are joined."""
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        return ["/".join(str(part) for part in row if part) for row in labels.tolist()]
    values = list(labels)
    is_sequence = bool(values) and all(np.ndim(value) == 1 for value in values)
    return list(chain.from_iterable(values)) if is_sequence else values


def target_reader(labels: Iterable[str]) -> Callable[[str], str | float]:
    """Return the function from a label's text to its target, where labels may be numbers: the same text, unless all
    nonempty `labels` are numbers: then an integer, or a text of one spelling if some are not whole."""
    numbers = {number_of(label) for label in set(labels) if label}
    if None in numbers or not numbers:
        return str
    is_whole = all(isinstance(number, int) for number in numbers)

    def read(text: str) -> str | float:
        number = number_of(text)
        return text if number is None else number if is_whole else label_text(number)

    return read


def are_equal(labels: Iterable[str], others: Iterable[Any]) -> bool:
    """Return whether two lists of labels are the same numbers, in whatever order and spelling."""
    numbers, expected = ([*map(number_of, map(label_text, texts))] for texts in (labels, others))
    return None not in numbers and None not in expected and sorted(numbers) == sorted(expected)  # type: ignore


def labels_like(labels: list[Any], training: list[Any]) -> list[Any]:
    """Return labels, flat or a list an item, in the kind of the training labels: numbers or texts."""
    nested = (label if isinstance(label, list) else [label] for label in training)
    first = next(chain.from_iterable(nested), None)

    def like(label: object) -> object:
        if isinstance(label, list):
            return [*map(like, label)]
        if isinstance(first, str):
            return label_text(label)
        number = number_of(label_text(label))
        return label if number is None else number

    return labels if first is None else [*map(like, labels)]
