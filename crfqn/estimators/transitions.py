"""Rules on neighbouring labels by name, and checks of the training data of a chain against them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels
from crfqn.data.encoding import Sequences
from crfqn.data.inputs import LabelsLike
from crfqn.data.items import locate
from crfqn.data.label_arrays import PartialLabels, encode_partial_labels, flat_partial_labels
from crfqn.data.schemes import BORDER, find_scheme
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError, warn_caller
from crfqn.messages import describe, named_places, place_of, places_among, shorten
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import TransitionRules

ANY_LABEL = "any"
SEEN_TRANSITIONS = "seen"
Pairs: TypeAlias = Mapping[Any, Collection[Any]] | Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class Transitions:
    """Rules on the labels of sequences, for `ChainCRF(transition_rules=...)`. A labelling satisfies all of them.

    Parameters
    ----------
    allowed : pairs (label, next label), or mapping of a label to possible next labels, optional
        The only transitions that are allowed.
    forbidden : as `allowed`, optional
    start, end : collection of labels, or "any", optional
        The only labels with which an item may begin, or end. "any" overrides the rule of the scheme, for items that are
        windows of longer texts.
    scheme : str, optional
        Scheme of labels for spans: "IOB1", "IOB2" ("BIO"), "IOE1", "IOE2", "BIOES" ("IOBES"), "BILOU", "BMES".
    seen : bool, default False
        Allow only what occurs in the training data: transitions, first labels, last labels.
    once : collection of labels, optional
        Labels with one run of neighbouring positions in an item or none, as "City" in an address. With a scheme, the
        name of a type, such as "LOC", means its spans. The rule holds in prediction, not in training; `predict(X,
        once=...)` replaces it.

    Notes
    -----
    Labels that the training data do not have are ignored with a warning, because folds of a cross-validation may not
    have rare labels.

    Examples
    --------
    >>> from crfqn import ChainCRF, Transitions
    >>> rules = Transitions(forbidden=[("A", "B")], start=["A"])
    >>> X = [[["a"], ["b"]], [["a"], ["a"]], [["a"], ["b"], ["b"]]]
    >>> model = ChainCRF(l1=0.01, transition_rules=rules).fit(X, [["A", "C"], ["A", "A"], ["A", "C", "B"]])
    >>> model.predict([[["b"], ["b"]]])[0]
    ['A', 'C']
    """

    allowed: Pairs | None = None
    forbidden: Pairs | None = None
    start: Collection[Any] | str | None = None
    end: Collection[Any] | str | None = None
    scheme: str | None = None
    seen: bool = False
    once: Collection[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("allowed", "forbidden"):
            pairs = getattr(self, name)
            object.__setattr__(self, name, None if pairs is None else _as_pairs(name, pairs))
        for name in ("start", "end"):
            labels = getattr(self, name)
            if labels is not None and labels != ANY_LABEL:
                object.__setattr__(self, name, _as_labels(name, labels))
        if self.once is not None:
            object.__setattr__(self, "once", _as_labels("once", self.once))
        if self.scheme is not None:
            object.__setattr__(self, "scheme", find_scheme(self.scheme).name)
        if not isinstance(self.seen, (bool, np.bool_)):
            raise InputError(f"seen: expected True or False, got {self.seen!r}")

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules on neighbouring labels."""
        return replace(self, once=None) == Transitions()

    def rules(self, classes: NDArray, targets: Labels, offsets: NDArray[np.int64]) -> TransitionRules:
        """Return the rules over labels.

        Parameters
        ----------
        classes : ndarray, shape (K,), the labels
        targets : int32 (N,), the labels of the training data, -1 for unknown ones, for `seen`
        offsets : int64 (I + 1,)

        Raises
        ------
        InputError
            A label that the scheme does not have.
        """
        labels = classes.tolist()
        rules = TransitionRules.everything(len(labels))
        if self.scheme is not None:
            scheme = find_scheme(self.scheme)
            tags = scheme.parse_all(labels, targets, offsets)
            pairs = [[scheme.allows(first, second) for second in tags] for first in tags]
            rules = TransitionRules(
                np.array(pairs, bool).reshape(rules.transitions.shape),
                rules.start
                if self.start == ANY_LABEL
                else np.array([scheme.allows(BORDER, tag) for tag in tags], bool),
                rules.end
                if self.end == ANY_LABEL
                else np.array([scheme.allows(tag, BORDER) for tag in tags], bool),
            )
        if self.seen:
            rules &= TransitionRules.observed(targets, offsets, len(labels))
        named = {label for pair in (*(self.allowed or ()), *(self.forbidden or ())) for label in pair}
        named |= {
            label for ends in (self.start, self.end) if ends not in (None, ANY_LABEL) for label in ends or ()
        }
        unknown = sorted(map(repr, named - set(labels)))
        if unknown:
            warn_caller(
                f"rules of labels that the training data do not have are ignored: {', '.join(unknown)}"
            )
        code_of = {label: code for code, label in enumerate(labels)}
        by_label = TransitionRules.everything(len(labels))
        if self.allowed is not None:
            by_label.transitions[:] = False
        for label_pairs, value in ((self.allowed, True), (self.forbidden, False)):
            for first, second in label_pairs or ():
                if first in code_of and second in code_of:
                    by_label.transitions[code_of[first], code_of[second]] = value
        for ends, is_allowed in ((self.start, by_label.start), (self.end, by_label.end)):
            if ends is not None and ends != ANY_LABEL:
                is_allowed[:] = [label in ends for label in labels]
        return rules & by_label

    def rules_without_data(self, classes: NDArray) -> TransitionRules | None:
        """Return the rules over labels, without training data; None without rules."""
        return None if self.is_empty else self.rules(classes, np.empty(0, np.int32), np.zeros(1, np.int64))

    def to_json(self) -> dict[str, Any]:
        """Return the rules as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, saved: object) -> Transitions:
        """Return the rules of JSON values from `to_json`; InputError for anything else."""
        names = set(cls.__dataclass_fields__)
        if not isinstance(saved, dict) or not set(saved) <= names:
            raise InputError(f"transition_rules: expected a table of {sorted(names)}, got {describe(saved)}")
        return cls(**saved)


def as_transitions(
    transition_rules: Transitions | str | None, scheme: str | None, once: Collection[Any] | None = None
) -> Transitions:
    """Return the rules of three parameters of an estimator; InputError for invalid ones."""
    if transition_rules is None or transition_rules == SEEN_TRANSITIONS:
        rules = Transitions(seen=transition_rules == SEEN_TRANSITIONS)
    elif isinstance(transition_rules, Transitions):
        rules = transition_rules
    else:
        raise InputError(
            f"transition_rules: expected a crfqn.Transitions, {SEEN_TRANSITIONS!r} or None, "
            f"got {describe(transition_rules)}"
        )
    if scheme is not None and rules.scheme not in (None, find_scheme(scheme).name):
        raise InputError(
            f"expected one scheme, got scheme={scheme!r} and transition_rules of scheme {rules.scheme!r}"
        )
    if once is not None and rules.once is not None:
        raise InputError("once: expected it as a parameter or in transition_rules, got both")
    once = rules.once if once is None else once
    return replace(rules, scheme=rules.scheme if scheme is None else scheme, once=once)


def _as_pairs(name: str, pairs: object) -> tuple[tuple[Any, Any], ...]:
    if isinstance(pairs, Mapping):
        pairs = [(first, second) for first, others in pairs.items() for second in _as_labels(name, others)]
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InputError(f"{name}: expected pairs of labels, got {describe(pairs)}")
    label_pairs = list(pairs)
    for pair in label_pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"{name}: expected pairs of labels, got {shorten(pair)} among them")
    return tuple((_plain(first), _plain(second)) for first, second in label_pairs)


def _as_labels(name: str, labels: object) -> tuple[Any, ...]:
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise InputError(f"{name}: expected a collection of labels, got {describe(labels)}")
    return tuple(map(_plain, labels))


def _plain(label: object) -> object:
    return label.item() if isinstance(label, np.generic) else label


ERROR_ON_VIOLATION, DROP_ON_VIOLATION = "error", "drop"


class BrokenRules(NamedTuple):
    """Items that break the rules, and a text on the first of them."""

    items: NDArray[np.intp]
    first: str


class TrainingData(NamedTuple):
    """Items with their labels, the weights of items, (I,), and of positions, (N,), None if all are 1, and the rules or
    None."""

    sequences: Sequences
    labels: PartialLabels
    weights: NDArray[np.float64] | None
    position_weights: NDArray[np.float64] | None
    rules: TransitionRules | None


def training_data(
    sequences: Sequences,
    y: LabelsLike | None,
    weights: NDArray[np.float64] | None,
    position_weights: NDArray[np.float64] | None,
    transitions: Transitions,
    is_trained: bool,
    on_violation: str,
) -> TrainingData:
    """Return the items to train on, without items that have no positions or the weight 0.

    is_trained : whether the rules hold in training, so that labels must satisfy them
    on_violation : "error" raises InputError for items that break a rule, naming item, position and labels; "drop"
    leaves
        them out with a warning
    """
    flat = flat_partial_labels(y, sequences.offsets)
    labels = encode_partial_labels(flat, sequences.offsets)
    stays = sequences.lengths > 0
    if weights is not None:
        stays &= weights > 0
    with_positions = np.flatnonzero(stays)
    if not stays.any():
        raise InputError("sample_weight: expected a positive weight of an item with positions, got none")
    if not stays.all():
        position_weights = (
            None if position_weights is None else position_weights[np.repeat(stays, sequences.lengths)]
        )
        sequences, flat, weights = take_items(sequences, flat, weights, stays)
        labels = encode_partial_labels(flat, sequences.offsets)
    if transitions.is_empty:
        return TrainingData(sequences, labels, weights, position_weights, None)
    with named_places(places_among(with_positions)):
        rules = transitions.rules(labels.classes, labels.targets, sequences.offsets)
        broken = find_broken(rules, labels, sequences.offsets) if is_trained else None
    if broken is not None:
        stays = items_that_stay(broken, len(sequences), on_violation)
        position_weights = (
            None if position_weights is None else position_weights[np.repeat(stays, sequences.lengths)]
        )
        sequences, flat, weights = take_items(sequences, flat, weights, stays)
        labels = encode_partial_labels(flat, sequences.offsets)
        rules = transitions.rules(labels.classes, labels.targets, sequences.offsets)
    return TrainingData(sequences, labels, weights, position_weights, rules)


def items_that_stay(broken: BrokenRules, n_items: int, on_violation: str) -> NDArray[np.bool_]:
    """Return which items satisfy the rules, bool (I,), and warn of the others; InputError if `on_violation` is "error"
    or if no item does."""
    if on_violation == ERROR_ON_VIOLATION or broken.items.size == n_items:
        raise InputError(
            f"{broken.first}; on_violation={DROP_ON_VIOLATION!r} leaves out items that break the rules, "
            "enforce_rules_in='decoding' trains without rules"
        )
    warn_caller(f"{broken.items.size} of {n_items} items break the rules and are left out; {broken.first}")
    stays = np.ones(n_items, bool)
    stays[broken.items] = False
    return stays


def find_broken(
    rules: TransitionRules, labels: PartialLabels, offsets: NDArray[np.int64]
) -> BrokenRules | None:
    """Return the items whose known labels break rules, or without any allowed labelling; None if there are none."""
    violations = rules.violations(labels.targets, offsets)
    if violations:
        items = np.searchsorted(offsets, [each.position for each in violations], side="right") - 1
        first = violations[0]
        where = locate(offsets, first.position)
        label = shorten(labels.classes[labels.targets[first.position]].item())
        text = f"{where}: the rules do not allow {label} "
        if first.rule == "transition":
            text += f"after {shorten(labels.classes[labels.targets[first.position - 1]].item())}"
        else:
            text += f"at the {first.rule} of an item"
        return BrokenRules(np.unique(items), text)
    if labels.allowed is None:
        return None
    impossible = Chain(offsets, len(labels.classes), rules=rules).impossible(labels.allowed)
    if not impossible.size:
        return None
    return BrokenRules(impossible, f"{place_of(impossible[0])}: no labelling of its labels keeps the rules")


def take_items(
    sequences: Sequences, flat: NDArray | list, weights: NDArray[np.float64] | None, stays: NDArray[np.bool_]
) -> tuple[Sequences, NDArray | list, NDArray[np.float64] | None]:
    """Return some of the items, with their labels and weights."""
    positions = np.flatnonzero(np.repeat(stays, sequences.lengths))
    labels = flat[positions] if isinstance(flat, np.ndarray) else [flat[n] for n in positions]
    return sequences[stays], labels, None if weights is None else weights[stays]


def refuse_bigrams(vocabulary: Vocabulary | None, what: str) -> None:
    """Raise InputError for templates with bigram features; `what` names the data that do not support them."""
    if vocabulary is not None and vocabulary.bigram_columns.size:
        raise InputError(
            f"{what}: expected no patterns of label pairs and tokens, like B01:%x[0,0], which need all items in "
            "memory: write U01:%x[0,0] and B, or call fit with all items"
        )
