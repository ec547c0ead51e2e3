"""Rules on neighbouring labels by the labels' names: a scheme, pairs, first and last labels, or what was seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels
from crfqn.data.schemes import BORDER, Scheme, find_scheme
from crfqn.errors import InputError, warn_caller
from crfqn.messages import describe, shorten
from crfqn.structures.transition_rules import TransitionRules

ANY = "any"
SEEN = "seen"
Pairs = Mapping[Any, Collection[Any]] | Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class Transitions:
    """Rules on the labels of sequences, for `ChainCRF(constraints=...)`; a labelling has to keep all that are given.

    Parameters
    ----------
    allowed : pairs (label, label behind it), or mapping of a label to those that may stand behind it, optional
        The only transitions that are allowed.
    forbidden : as `allowed`, optional
    start, end : collection of labels, or "any", optional
        The only labels that an item may begin, or end, with. "any" lifts what the scheme says of it: for items that are
        windows of longer texts.
    scheme : str, optional
        Scheme of labels for spans: "IOB1", "IOB2" ("BIO"), "IOE1", "IOE2", "BIOES" ("IOBES"), "BILOU", "BMES".
    seen : bool, default False
        Allow only what occurs in the training data: transitions, first labels, last labels.

    Notes
    -----
    Labels that the training data do not have are ignored, with a warning: folds of a cross-validation lack rare ones.

    Examples
    --------
    >>> from crfqn import ChainCRF, Transitions
    >>> rules = Transitions(forbidden=[("A", "B")], start=["A"])
    >>> X = [[["a"], ["b"]], [["a"], ["a"]], [["a"], ["b"], ["b"]]]
    >>> model = ChainCRF(l1=0.01, constraints=rules).fit(X, [["A", "C"], ["A", "A"], ["A", "C", "B"]])
    >>> model.predict([[["b"], ["b"]]])[0]
    ['A', 'C']
    """

    allowed: Pairs | None = None
    forbidden: Pairs | None = None
    start: Collection[Any] | str | None = None
    end: Collection[Any] | str | None = None
    scheme: str | None = None
    seen: bool = False

    def __post_init__(self) -> None:
        for name in ("allowed", "forbidden"):
            pairs = getattr(self, name)
            object.__setattr__(self, name, None if pairs is None else _as_pairs(name, pairs))
        for name in ("start", "end"):
            labels = getattr(self, name)
            if labels is not None and labels != ANY:
                object.__setattr__(self, name, _as_labels(name, labels))
        if self.scheme is not None:
            object.__setattr__(self, "scheme", find_scheme(self.scheme).name)
        if not isinstance(self.seen, (bool, np.bool_)):
            raise InputError(f"seen: expected True or False, got {self.seen!r}")

    @property
    def is_empty(self) -> bool:
        """Whether no rule is given."""
        return self == Transitions()

    def rules(self, classes: NDArray, targets: Labels, offsets: NDArray[np.int64]) -> TransitionRules:
        """Return the rules over the states of some labels.

        Parameters
        ----------
        classes : ndarray, shape (K,), the labels
        targets : int32 (N,), the training data's labels, -1 for unknown ones, for `seen`
        offsets : int64 (I + 1,)

        Raises
        ------
        InputError
            A label that the scheme does not have.
        """
        labels = classes.tolist()
        found = TransitionRules.everything(len(labels))
        if self.scheme is not None:
            found &= scheme_rules(find_scheme(self.scheme), labels, self.start != ANY, self.end != ANY)
        if self.seen:
            found &= TransitionRules.observed(targets, offsets, len(labels))
        self._warn_of_strangers(labels)
        code_of = {label: code for code, label in enumerate(labels)}
        own = TransitionRules.everything(len(labels))
        if self.allowed is not None:
            own.transitions[:] = False
        for pairs, value in ((self.allowed, True), (self.forbidden, False)):
            for first, second in pairs or ():
                if first in code_of and second in code_of:
                    own.transitions[code_of[first], code_of[second]] = value
        for given, allowed in ((self.start, own.start), (self.end, own.end)):
            if given is not None and given != ANY:
                allowed[:] = [label in given for label in labels]
        return found & own

    def _warn_of_strangers(self, labels: list) -> None:
        named = {label for pair in (*(self.allowed or ()), *(self.forbidden or ())) for label in pair}
        named |= {
            label for given in (self.start, self.end) if given not in (None, ANY) for label in given or ()
        }
        strangers = sorted(map(repr, named - set(labels)))
        if strangers:
            warn_caller(
                f"rules of labels that the training data do not have are ignored: {', '.join(strangers)}",
                UserWarning,
            )

    def to_json(self) -> dict[str, Any]:
        """Return the rules as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, saved: Any) -> Transitions:
        """Return the rules that `to_json` has made; InputError for anything else."""
        names = set(cls.__dataclass_fields__)
        if not isinstance(saved, dict) or not set(saved) <= names:
            raise InputError(f"constraints: expected a table of {sorted(names)}, got {describe(saved)}")
        return cls(**saved)


def scheme_rules(
    scheme: Scheme, labels: list, has_start: bool = True, has_end: bool = True
) -> TransitionRules:
    """Return what a scheme says of labels; InputError for one that it does not have."""
    tags = [scheme.parse(label) for label in labels]
    everything = TransitionRules.everything(len(labels))
    return TransitionRules(
        np.array([[scheme.allows(one, other) for other in tags] for one in tags], bool).reshape(
            everything.transitions.shape
        ),
        np.array([scheme.allows(BORDER, tag) for tag in tags], bool) if has_start else everything.start,
        np.array([scheme.allows(tag, BORDER) for tag in tags], bool) if has_end else everything.end,
    )


def as_transitions(constraints: Any, scheme: str | None) -> Transitions:
    """Return the rules that an estimator's two parameters stand for; InputError for anything else."""
    if constraints is None or constraints == SEEN:
        return Transitions(scheme=scheme, seen=constraints == SEEN)
    if not isinstance(constraints, Transitions):
        raise InputError(
            f"constraints: expected a crfqn.Transitions, {SEEN!r} or None, got {describe(constraints)}"
        )
    if scheme is None or constraints.scheme in (None, find_scheme(scheme).name):
        return Transitions(**{**constraints.__dict__, "scheme": scheme or constraints.scheme})
    raise InputError(
        f"expected one scheme, got scheme={scheme!r} and constraints of scheme {constraints.scheme!r}"
    )


def _as_pairs(name: str, pairs: Any) -> tuple[tuple[Any, Any], ...]:
    if isinstance(pairs, Mapping):
        pairs = [(first, second) for first, others in pairs.items() for second in _as_labels(name, others)]
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InputError(f"{name}: expected pairs of labels, got {describe(pairs)}")
    found = list(pairs)
    for pair in found:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"{name}: expected pairs of labels, got {shorten(pair)} among them")
    return tuple((_plain(first), _plain(second)) for first, second in found)


def _as_labels(name: str, labels: Any) -> tuple[Any, ...]:
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise InputError(f"{name}: expected a collection of labels, got {describe(labels)}")
    return tuple(map(_plain, labels))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
