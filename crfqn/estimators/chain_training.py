"""Labels of a chain's training, checked against its rules: which items are left out, what is known of the others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import locate
from crfqn.data.label_codes import PartialLabels, encode_partial_labels, flat_partial_labels
from crfqn.data.sequences import Sequences
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.transitions import Transitions
from crfqn.messages import shorten
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import TransitionRules, Violation

ERROR, DROP = "error", "drop"


class TrainingData(NamedTuple):
    """Items that count and their labels; `weights` (I,) are None where each counts once, `rules` where all is
    allowed."""

    sequences: Sequences
    labels: PartialLabels
    weights: NDArray[np.float64] | None
    rules: TransitionRules | None


class BrokenRules(NamedTuple):
    """Items that break the rules, and the first of them in words."""

    items: NDArray[np.intp]
    first: str


def training_data(
    sequences: Sequences,
    y: Any,
    weights: NDArray[np.float64] | None,
    transitions: Transitions,
    is_trained: bool,
    on_violation: str,
) -> TrainingData:
    """Return the items with positions and weight that keep the rules, which labels have to keep in training only if
    `is_trained`; an item without positions has one labelling, and teaches nothing.
    `on_violation` ("error", "drop") is what becomes of others; InputError names item, position and labels."""
    flat = flat_partial_labels(y, sequences.offsets)
    labels = encode_partial_labels(flat, sequences.offsets)
    stays = items_that_count(sequences, weights)
    if not stays.all():
        sequences, flat, weights = take_items(sequences, flat, weights, stays)
        labels = encode_partial_labels(flat, sequences.offsets)
    if transitions.is_empty:
        return TrainingData(sequences, labels, weights, None)
    rules = transitions.rules(labels.classes, labels.targets, sequences.offsets)
    broken = find_broken(rules, labels, sequences.offsets) if is_trained else None
    if broken is not None:
        stays = items_that_stay(broken, len(sequences), on_violation)
        sequences, flat, weights = take_items(sequences, flat, weights, stays)
        labels = encode_partial_labels(flat, sequences.offsets)
        rules = transitions.rules(labels.classes, labels.targets, sequences.offsets)
    return TrainingData(sequences, labels, weights, rules)


def items_that_count(sequences: Any, weights: NDArray[np.float64] | None) -> NDArray[np.bool_]:
    """Return which items have positions and weight, bool (I,); InputError if none has."""
    has_positions = sequences.lengths > 0
    stays = has_positions if weights is None else has_positions & (weights > 0)
    if not stays.any():
        raise InputError("sample_weight: expected a positive weight of an item with positions, got none")
    return stays


def items_that_stay(broken: BrokenRules, n_items: int, on_violation: str) -> NDArray[np.bool_]:
    """Return which items keep the rules, bool (I,), with a warning; InputError if that is an error, or none does."""
    if on_violation == ERROR or broken.items.size == n_items:
        raise InputError(
            f"{broken.first}; on_violation={DROP!r} leaves out items that break the rules, constrain='decoding' "
            "trains without rules"
        )
    warn_caller(
        f"{broken.items.size} of {n_items} items break the rules and are left out; {broken.first}",
        UserWarning,
    )
    stays = np.ones(n_items, bool)
    stays[broken.items] = False
    return stays


def find_broken(
    rules: TransitionRules, labels: PartialLabels, offsets: NDArray[np.int64]
) -> BrokenRules | None:
    """Return the items that break rules, or None: known labels that do, and items that no labelling is left for."""
    violations = rules.violations(labels.targets, offsets)
    items = np.searchsorted(offsets, [found.position for found in violations], side="right") - 1
    if violations:
        return BrokenRules(np.unique(items), _in_words(violations[0], labels, offsets))
    if labels.allowed is None:
        return None
    impossible = Chain(offsets, len(labels.classes), rules=rules).impossible(labels.allowed)
    if not impossible.size:
        return None
    return BrokenRules(impossible, f"item {impossible[0]}: no labelling of its labels keeps the rules")


def _in_words(found: Violation, labels: PartialLabels, offsets: NDArray[np.int64]) -> str:
    here = shorten(labels.classes[labels.targets[found.position]].item())
    where = locate(offsets, found.position)
    if found.rule != "transition":
        return f"{where}: the rules do not allow {here} at the {found.rule} of an item"
    before = shorten(labels.classes[labels.targets[found.position - 1]].item())
    return f"{where}: the rules do not allow {here} behind {before}"


def take_items(
    sequences: Sequences, flat: NDArray | list, weights: NDArray[np.float64] | None, stays: NDArray[np.bool_]
) -> tuple[Sequences, NDArray | list, NDArray[np.float64] | None]:
    """Keep some items."""
    positions = np.flatnonzero(np.repeat(stays, sequences.lengths))
    kept = flat[positions] if isinstance(flat, np.ndarray) else [flat[n] for n in positions]
    return sequences[stays], kept, None if weights is None else weights[stays]
