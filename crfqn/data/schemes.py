"""Schemes that write spans (phrases, names) as a label a position: IOB1, IOB2, IOE1, IOE2, BIOES, BILOU, BMES.

A label is `O` (outside) or a letter and the type of the span, `B-NP`; the letter alone is a span without a type. Each
scheme has its letters for the same four roles: begin, inside, end, single. Two rules on neighbouring labels define it:
whether the second continues the span of the first (`continues`), and whether it may follow the first at all (`allows`).
A span is a run of labels each of which continues the one before, so labels that are wrong in their scheme have spans
too: for IOB1 and IOB2 those that `conlleval` counts.

Sources: Ramshaw, Marcus: Text chunking using transformation-based learning. 1995 (IOB1). Tjong Kim Sang, Veenstra:
Representing text chunks. EACL 1999 (IOB2, IOE1, IOE2). Ratinov, Roth: Design challenges and misconceptions in named
entity recognition. CoNLL 2009 (BILOU).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import locate
from crfqn.errors import InputError
from crfqn.messages import describe, hint, shorten

OUTSIDE, BEGIN, INSIDE, END, SINGLE = "O", "B", "I", "E", "S"  # roles, independent of a scheme's letters


class Tag(NamedTuple):
    """Parts of a label: its role in the span, and the span's type ("" without one, and outside)."""

    role: str
    type: str


BORDER = Tag(OUTSIDE, "")  # before the first label and after the last


class Span(NamedTuple):
    """Span of the positions start ... stop - 1 of one item, and its type."""

    start: int
    stop: int
    type: str


class LabelSpan(NamedTuple):
    """A span of an item.

    Attributes
    ----------
    label : str, the type of the span, "" if labels have none
    start, end : int, the first position and the one after the last, from 0
    probability : float, that a labelling has exactly this span: this type, this beginning and this end
    """

    label: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Scheme:
    """Scheme of labels for spans: its name, and the letter of each role that it has."""

    name: str
    letters: Mapping[str, str]

    def parse(self, label: object) -> Tag:
        """Return role and type of a label, those of O for None, no label; InputError for one that the scheme does not
        have."""
        if label is None:
            return BORDER
        letter, hyphen, kind = str(label).partition("-")
        if letter == OUTSIDE and not hyphen:
            return BORDER
        for role, scheme_letter in self.letters.items():
            if letter == scheme_letter:
                return Tag(role, kind)
        known = ", ".join(f"{letter}-<type>" for letter in self.letters.values())
        raise InputError(f"{self.name}: expected labels {OUTSIDE}, {known}, got {shorten(label)}")

    def parse_all(
        self, labels: Sequence[object], codes: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> list[Tag]:
        """Return role and type of each of K labels; InputError for one that the scheme does not have, with its first
        place in items of the label numbers `codes`, int32 (N,), cut by `offsets` (I + 1,)."""
        tags = []
        for code, label in enumerate(labels):
            try:
                tags.append(self.parse(label))
            except InputError as error:
                positions = np.flatnonzero(codes == code)
                if not positions.size:
                    raise
                raise InputError(f"{locate(offsets, int(positions[0]))}: {error}") from None
        return tags

    def continues(self, before: Tag, here: Tag) -> bool:
        """Return whether a label belongs to the span of the label before it."""
        if OUTSIDE in (before.role, here.role) or before.type != here.type:
            return False
        return before.role not in (END, SINGLE) and here.role not in (BEGIN, SINGLE)

    def allows(self, before: Tag, here: Tag) -> bool:
        """Return whether a label may follow another; `BORDER` is either end of an item.

        IOB2 forbids an I that continues nothing; IOB1 a B that does not separate two spans; IOE2 an I that nothing
        continues; IOE1 an E that does not separate two spans; the others all but B (I ... I) E and S.
        """
        joined = self.continues(before, here)
        touches = OUTSIDE not in (before.role, here.role) and before.type == here.type
        if self.name == "IOB1":
            return here.role != BEGIN or touches
        if self.name == "IOE1":
            return before.role != END or touches
        if self.name == "IOB2":
            return here.role != INSIDE or joined
        if self.name == "IOE2":
            return before.role != INSIDE or joined
        return joined == (before.role in (BEGIN, INSIDE)) and joined == (here.role in (INSIDE, END))

    def roles(self, length: int, touches_before: bool, touches_after: bool) -> list[str]:
        """Return the roles in a span; `touches_...`: whether it touches another one of its type on that side."""
        if SINGLE in self.letters:
            return [SINGLE] if length == 1 else [BEGIN, *[INSIDE] * (length - 2), END]
        roles = [INSIDE] * length
        if BEGIN in self.letters and (self.name == "IOB2" or touches_before):
            roles[0] = BEGIN
        if END in self.letters and (self.name == "IOE2" or touches_after):
            roles[-1] = END
        return roles


ALL_ROLES = BEGIN + INSIDE + END + SINGLE
SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        name: Scheme(name, MappingProxyType(dict(zip(roles, letters, strict=True))))
        for name, roles, letters in (
            ("IOB1", BEGIN + INSIDE, "BI"),
            ("IOB2", BEGIN + INSIDE, "BI"),
            ("IOE1", INSIDE + END, "IE"),
            ("IOE2", INSIDE + END, "IE"),
            ("BIOES", ALL_ROLES, "BIES"),
            ("BILOU", ALL_ROLES, "BILU"),
            ("BMES", ALL_ROLES, "BMES"),
        )
    }
)
ALIASES = {"BIO": "IOB2", "IOBES": "BIOES", "BIOUL": "BILOU", "BMEOS": "BMES"}


def find_scheme(name: str | Scheme) -> Scheme:
    """Return a scheme by its name, in small or capital letters; InputError for an unknown one."""
    if isinstance(name, Scheme):
        return name
    key = name.upper() if isinstance(name, str) else ""
    known_scheme = SCHEMES.get(ALIASES.get(key, key))
    if known_scheme is None:
        known = ", ".join([*SCHEMES, *ALIASES])
        raise InputError(
            f"scheme: expected one of {known}, got {describe(name)}{hint(key, (*SCHEMES, *ALIASES))}"
        )
    return known_scheme


def recognise_scheme(labels: Iterable[object]) -> Scheme | None:
    """Return the first scheme of IOB2, IOE2, BIOES, BILOU, BMES that has the labels' letters, or None. All labels but O
    must have a type, or names that happen to be letters would be read as spans."""
    names = {*map(str, labels)} - {OUTSIDE}
    return next(iter(fitting_schemes(names)), None) if names else None


def fitting_schemes(labels: Iterable[object]) -> list[Scheme]:
    """Return the schemes that have all of the labels, the one that `recognise_scheme` chooses first."""
    split = {str(label).partition("-")[::2] for label in labels} - {(OUTSIDE, "")}
    if not all(kind for _, kind in split):
        return []
    letters = {letter for letter, _ in split}
    fitting = (scheme for scheme in SCHEMES.values() if letters <= {*scheme.letters.values()})
    return [scheme for scheme in fitting if scheme.name not in ("IOB1", "IOE1")]


def spans_of(labels: Iterable[object], scheme: str | Scheme, strict: bool = True) -> list[Span]:
    """Return the spans of an item's labels in order; unless `strict` they are runs of labels that continue each other.
    InputError, naming the position, for a label not of the scheme or, if strict, not allowed there."""
    rules = find_scheme(scheme)
    shown = list(labels)
    tags = [rules.parse(label) for label in shown]
    for position, (before, here) in enumerate(pairwise([BORDER, *tags, BORDER]) if strict else ()):
        if not rules.allows(before, here):
            names = ["the beginning", *map(shorten, shown), "the end"]
            raise InputError(
                f"position {position}: {rules.name} does not allow {names[position + 1]} after {names[position]}"
            )
    spans: list[Span] = []
    before = BORDER
    for position, tag in enumerate(tags):
        if rules.continues(before, tag):
            spans[-1] = spans[-1]._replace(stop=position + 1)
        elif tag.role != OUTSIDE:
            spans.append(Span(position, position + 1, tag.type))
        before = tag
    return spans


def labels_of(spans: Sequence[Span], length: int, scheme: str | Scheme) -> list[str]:
    """Return the labels of an item with `length` positions and these spans, ascending and disjoint; InputError for
    spans that are empty, overlap, are out of order or outside of the item."""
    rules = find_scheme(scheme)
    labels = [OUTSIDE] * length
    nowhere = Span(-1, -1, "")
    around = [nowhere, *(Span(*span) for span in spans), nowhere._replace(start=length + 1)]
    for before, span in pairwise(around[:-1]):
        if not max(before.stop, 0) <= span.start < span.stop <= length:
            raise InputError(
                f"expected disjoint, ascending spans in 0 ... {length}, got {tuple(span)} after {tuple(before)}"
            )
    for before, span, following in zip(around, around[1:-1], around[2:], strict=False):
        touches_before = before.stop == span.start and before.type == span.type
        touches_after = span.stop == following.start and span.type == following.type
        roles = rules.roles(span.stop - span.start, touches_before, touches_after)
        ending = f"-{span.type}" if span.type else ""
        labels[span.start : span.stop] = [f"{rules.letters[role]}{ending}" for role in roles]
    return labels


def convert_labels(
    labels: Iterable[object], source: str | Scheme, target: str | Scheme, strict: bool = True
) -> list[str]:
    """Return one item's labels of scheme `source` in scheme `target`; parameters and errors as in `spans_of`.

    Examples
    --------
    >>> convert_labels(["I-NP", "B-NP", "I-NP", "O"], "IOB1", "BIOES")
    ['S-NP', 'B-NP', 'E-NP', 'O']
    """
    known = list(labels)
    return labels_of(spans_of(known, source, strict), len(known), target)
