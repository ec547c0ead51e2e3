"""Models of Wapiti: its model files (`#mdl#...`), and what `wapiti dump` writes.

A model file has templates, labels and observations as netstrings (`5:hello,`), and a line `number=weight` for each
weight that is not zero. A dump has a line of observation, label before (or `#`), label and weight, tab-separated: six
digits unless Wapiti was asked for more, no templates, and only labels with a weight. Source: Lavergne, Cappé, Yvon:
Practical very large scale CRFs. ACL 2010; the formats of Wapiti 1.5.0.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from crfqn.data.model_file import ModelSource, at_hand, read_whole, shown_source
from crfqn.data.templates.patterns import BIGRAM, BOTH, UNIGRAM, WAPITI  # first letters of observations, too
from crfqn.errors import InputError, ModelFileError
from crfqn.interchange.chain_weights import IMPORTED_FROM, TEMPLATES, chain_estimator
from crfqn.interchange.observations import (
    Observations,
    chain_of,
    constants_of,
    same_everywhere,
    template_source,
)
from crfqn.model.chain_weights import ChainWeights, SparseTable
from crfqn.structures.edge_layout import EdgeLayout

NAME = "wapiti"
MAGIC = b"#mdl#"
MAXENT, MEMM, CRF = 0, 1, 2  # types of models
NO_LABEL = "#"  # in a dump, in the place of the label before
NETSTRING = re.compile(rb"(\d{1,18}):")
WEIGHT = re.compile(rb"(\d{1,18})=(\S+)")
MOST_LABELS = 100_000  # whose pairs can still be numbered by int64, for any number of observations in a file


def read(path: ModelSource, n_columns: int | None = None) -> Any:
    """Read a model of Wapiti, or a dump of one: return a fitted ChainCRF.

    Features are named as Wapiti's observations are (`u:hello`). The model makes them of columns of tokens by the
    templates of a model file (also in `extra_["templates"]`); that of a dump, which has none, takes lists of names.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode
    n_columns : int, optional
        How many columns the files to be labelled have before the label. By default there may be more behind those that
        the templates use; they are not read, and none of them is taken for the label by `crfqn predict`.

    Raises
    ------
    InputError
        Fewer columns than the templates use, or columns of a dump.
    ModelFileError
        Anything but such a file; a maximum-entropy Markov model.
    """
    path = at_hand(path)
    shown = shown_source(path)
    content = read_whole(path)
    if content.startswith(MAGIC):
        weights, templates = _Model(content, shown).weights()
        source = (
            template_source(templates, weights.attributes, WAPITI, shown, n_columns) if templates else None
        )
        return chain_estimator(weights, shown, {IMPORTED_FROM: NAME, TEMPLATES: templates}, source)
    if n_columns is not None:
        raise InputError(f"{shown}: n_columns: expected None, as a dump has no templates, which read columns")
    return chain_estimator(_read_dump(content, shown), shown, {IMPORTED_FROM: NAME})


def is_dump(start: bytes) -> bool:
    """Return whether the first line of a file is one of a dump."""
    fields = start.lstrip(b"\n").split(b"\n", 1)[0].split(b"\t")
    return len(fields) == 4 and fields[0][:1] in (b"u", b"b", b"*") and _is_number(fields[3])


def _is_number(text: bytes | str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class _Model:
    """A model file, read from its beginning to its end."""

    def __init__(self, content: bytes, path: str) -> None:
        self.content, self.path, self.at = content, path, 0

    def weights(self) -> tuple[ChainWeights, list[str]]:
        """Return the weights, and the templates."""
        *types, n_weights = self._numbers(rb"#mdl#(?:(\d{1,18})#)?(\d{1,18})\n")
        kind = types[0] if types else CRF
        if kind not in (MAXENT, CRF):
            raise ModelFileError(
                f"{self.path}: expected a CRF, or a maximum-entropy model; it is of type {kind}"
            )
        n_templates = self._numbers(rb"#rdr#(\d{1,18})/\d+(?:/\d+)?\n")[0]
        templates = [self._string() for _ in range(n_templates)]
        labels, names = self._strings(), self._strings()
        if not 0 < len(labels) <= MOST_LABELS:
            raise self._damage(f"a model of {len(labels)} labels")
        kinds = np.array([name[:1] for name in names], "U1")
        if not np.isin(kinds, (UNIGRAM, BIGRAM, BOTH)).all():
            raise self._damage("an observation begins with another letter than u, b or *")
        has_unigrams, has_bigrams = kinds != BIGRAM, kinds != UNIGRAM
        observations = Observations.in_order(names, has_unigrams, has_bigrams, len(labels))
        numbers, values = self._weights(n_weights)
        found = chain_of(labels, observations, numbers, values, constants_of(templates), self.path)
        return found, templates

    def _damage(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.path}, byte {self.at}: no model of Wapiti, or a damaged one: {reason}")

    def _numbers(self, pattern: bytes) -> list[int]:
        match = re.compile(pattern).match(self.content, self.at)
        if match is None:
            raise self._damage(f"expected a line like {pattern[:5].decode()}...")
        self.at = match.end()
        return [int(number) for number in match.groups() if number is not None]

    def _string(self) -> str:
        match = NETSTRING.match(self.content, self.at)
        if match is None:
            raise self._damage("expected a length and a colon")
        start, end = match.end(), match.end() + int(match[1])
        if self.content[end : end + 2] != b",\n":
            raise self._damage(f"a string of {match[1].decode()} bytes does not end with a comma")
        self.at = end + 2
        return self.content[start:end].decode("utf-8", "surrogateescape")

    def _strings(self) -> list[str]:
        (n_strings,) = self._numbers(rb"#qrk#(\d{1,18})\n")
        return [self._string() for _ in range(n_strings)]

    def _weights(self, n_weights: int) -> tuple[Any, Any]:
        lines = self.content[self.at :].split(b"\n")
        if lines[-1:] == [b""]:
            del lines[-1]
        if len(lines) != n_weights:
            raise self._damage(f"{len(lines)} lines of weights instead of {n_weights}")
        numbers, values = np.empty(n_weights, np.int64), np.empty(n_weights)
        for row, line in enumerate(lines):
            match = WEIGHT.fullmatch(line)
            try:
                if match is None:
                    raise ValueError
                numbers[row] = int(match[1])
                text = match[2].decode("ascii")
                values[row] = float.fromhex(text) if "x" in text else float(text)
            except (ValueError, OverflowError):
                raise self._damage(f"expected number=weight, got {line!r:.60}") from None
        return numbers, values


def _read_dump(content: bytes, path: str) -> ChainWeights:
    """Return the weights of a dump; labels and observations in the order in which they appear."""
    labels: dict[str, int] = {}
    names: dict[str, int] = {}
    state: list[tuple[int, int, float]] = []
    pairs: dict[str, list[tuple[int, int, float]]] = {}
    text = content.decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        if len(fields) != 4 or fields[0][:1] not in (UNIGRAM, BIGRAM, BOTH) or not _is_number(fields[3]):
            raise ModelFileError(
                f"{path}, line {number}: expected observation, label before or #, label and weight, "
                f"tab-separated, as `wapiti dump` writes them, got {line!r:.60}"
            )
        name, before, label, weight = fields
        to = labels.setdefault(label, len(labels))
        if before == NO_LABEL and not name.startswith(BIGRAM):
            state.append((names.setdefault(name, len(names)), to, float(weight)))
        else:
            pairs.setdefault(name, []).append((labels.setdefault(before, len(labels)), to, float(weight)))
    if not labels:
        raise ModelFileError(f"{path}: expected a dump of Wapiti, got no lines")
    same, transitions = same_everywhere(pairs, None, path), []
    bigrams: list[tuple[int, int, float]] = []
    layout = EdgeLayout(len(labels))
    for name, entries in pairs.items():
        if name in same:
            transitions += entries
            continue
        number = names.setdefault(name, len(names))
        bigrams += [(number, int(layout.numbers(before, to)), weight) for before, to, weight in entries]
    return ChainWeights(list(labels), list(names), _table(state), _table(transitions), _table(bigrams))


def _table(entries: list[tuple[int, int, float]]) -> SparseTable:
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    return SparseTable(np.array(rows, np.int64), np.array(columns, np.int64), np.array(values, np.float64))
