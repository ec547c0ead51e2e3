"""Labels of which not all are known: None for an unknown one, a set for one of some, None for a whole item.

Shapes: I items, N positions, K classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import locate
from crfqn.data.labels.codes import encode_labels, flat_labels
from crfqn.errors import InputError
from crfqn.messages import describe, shorten

UNKNOWN = -1
PARTIAL = (type(None), set, frozenset)


class PartialLabels(NamedTuple):
    """Labels by position."""

    classes: NDArray  # (K,), the distinct labels, sorted
    targets: NDArray[np.int32]  # (N,), codes; UNKNOWN where more than one label is possible
    allowed: NDArray[np.bool_] | None  # (K, N), the labels that are possible; None where all labels are known


def flat_partial_labels(y: Any, offsets: NDArray[np.int64]) -> NDArray | list:
    """Return labels by position, as `codes.flat_labels` does; an item may be None: nothing is known."""
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
    choices = [_choice(label) for label in labels]
    members = _members(choices, offsets)
    if not members:
        raise InputError("expected at least one known label, got none")
    kinds: dict[bool, str] = {}
    for member, position in members.items():
        kinds.setdefault(isinstance(member, str), f"{shorten(member)} ({locate(offsets, position)})")
    if len(kinds) > 1:
        raise InputError(f"expected labels of one kind, got {' and '.join(kinds.values())}")
    classes, _ = encode_labels(list(members), np.array([0, len(members)]))
    return PartialLabels(classes, *_encoded(choices, classes.tolist()))


def encode_constraints(y: Any, offsets: NDArray[np.int64], classes: NDArray) -> NDArray[np.bool_]:
    """Return the labels that `y` allows at each position, bool (K, N): None allows all, a set its members.

    InputError for numbers of labels that do not fit the positions, and (named by position) for one not in `classes`.
    """
    labels = flat_partial_labels(y, offsets)
    choices = [_choice(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)]
    known = classes.tolist()
    names = set(known)
    for label, position in _members(choices, offsets).items():
        if label in names:
            continue
        raise InputError(
            f"{locate(offsets, position)}: label {shorten(label)} is not among the {len(known)} known classes"
        )
    return _encoded(choices, known)[1]


def is_partial(labels: NDArray | list) -> bool:
    """Return whether labels by position have unknown ones."""
    return isinstance(labels, list) and any(kind in PARTIAL for kind in set(map(type, labels)))


def _choice(label: Any) -> tuple | None:
    """Return the labels that a position may have, None for all."""
    return None if label is None else tuple(label) if isinstance(label, (set, frozenset)) else (label,)


def _members(choices: list, offsets: NDArray[np.int64]) -> dict[Any, int]:
    """Return each label and the first position that has it; InputError for an empty set and for what is no label."""
    first: dict[Any, int] = {}
    for position, choice in enumerate(choices):
        if choice is None:
            continue
        if not choice:
            raise InputError(
                f"{locate(offsets, position)}: expected at least one label in a set, got an empty one"
            )
        for member in choice:
            if not isinstance(member, (str, int, float, np.generic)) or member != member:
                raise InputError(
                    f"{locate(offsets, position)}: expected a string or number as label, got {describe(member)}"
                )
            first.setdefault(member, position)
    return first


def _encoded(choices: list, classes: list) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    code_of = {label: code for code, label in enumerate(classes)}
    targets = np.full(len(choices), UNKNOWN, np.int32)
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
