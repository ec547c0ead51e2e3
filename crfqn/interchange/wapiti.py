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
from crfqn.interchange.observations import (
    ChainWeights,
    Observations,
    chain_estimator,
    chain_of,
    n_weights_of,
    same_everywhere,
)
from crfqn.model.content import Entries
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
        weights, templates = _Model(content, shown).read()
        return chain_estimator(NAME, shown, weights, templates, WAPITI, n_columns)
    if n_columns is not None:
        raise InputError(f"{shown}: n_columns: expected None, as a dump has no templates, which read columns")
    return chain_estimator(NAME, shown, _read_dump(content, shown))


def begins(start: bytes) -> bool:
    """Return whether a file begins like a model, or its first line like one of a dump."""
    fields = start.lstrip(b"\n").split(b"\n", 1)[0].split(b"\t")
    is_dump = len(fields) == 4 and fields[0][:1] in (b"u", b"b", b"*") and _is_number(fields[3])
    return start.startswith(MAGIC) or is_dump


def _is_number(text: bytes | str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class _Model:
    """A model file, read from its beginning to its end."""

    def __init__(self, content: bytes, path: str) -> None:
        self.content, self.path, self.at = content, path, 0

    def read(self) -> tuple[ChainWeights, list[str]]:
        """Return the weights, and the templates."""
        *types, n_weights = self._numbers(rb"#mdl#(?:(\d{1,18})#)?(\d{1,18})\n")
        kind = types[0] if types else CRF
        if kind not in (MAXENT, CRF):
            raise ModelFileError(
                f"{self.path}: expected a CRF, or a maximum-entropy model; it is of type {kind}"
            )
        templates = self._strings(rb"#rdr#(\d{1,18})/\d+(?:/\d+)?\n")
        labels, names = (self._strings(rb"#qrk#(\d{1,18})\n") for _ in range(2))
        if not 0 < len(labels) <= MOST_LABELS:
            raise self._damage(f"a model of {len(labels)} labels")
        kinds = np.array([name[:1] for name in names], "U1")
        if not np.isin(kinds, (UNIGRAM, BIGRAM, BOTH)).all():
            raise self._damage("an observation begins with another letter than u, b or *")
        has_unigrams, has_bigrams = kinds != BIGRAM, kinds != UNIGRAM
        sizes = n_weights_of(has_unigrams, has_bigrams, len(labels))
        observations = Observations(names, has_unigrams, has_bigrams, np.cumsum(sizes) - sizes)
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
        return chain_of(labels, observations, numbers, values, templates, self.path), templates

    def _damage(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.path}, byte {self.at}: no model of Wapiti, or a damaged one: {reason}")

    def _numbers(self, pattern: bytes) -> list[int]:
        match = re.compile(pattern).match(self.content, self.at)
        if match is None:
            raise self._damage(f"expected a line like {pattern[:5].decode()}...")
        self.at = match.end()
        return [int(number) for number in match.groups() if number is not None]

    def _strings(self, pattern: bytes) -> list[str]:
        """Return as many netstrings as a line says."""
        strings = []
        for _ in range(self._numbers(pattern)[0]):
            match = NETSTRING.match(self.content, self.at)
            if match is None:
                raise self._damage("expected a length and a colon")
            start, end = match.end(), match.end() + int(match[1])
            if self.content[end : end + 2] != b",\n":
                raise self._damage(f"a string of {match[1].decode()} bytes does not end with a comma")
            self.at = end + 2
            strings.append(self.content[start:end].decode("utf-8", "surrogateescape"))
        return strings


def _read_dump(content: bytes, path: str) -> ChainWeights:
    """Return the weights of a dump; labels and observations in the order in which they appear."""
    labels: dict[str, int] = {}
    names: dict[str, int] = {}
    state: list[tuple[float, int, int]] = []
    pairs: dict[str, list[tuple[float, int, int]]] = {}
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").split("\n"), start=1):
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
            state.append((float(weight), names.setdefault(name, len(names)), to))
        else:
            pairs.setdefault(name, []).append((float(weight), labels.setdefault(before, len(labels)), to))
    if not labels:
        raise ModelFileError(f"{path}: expected a dump of Wapiti, got no lines")
    same = same_everywhere(pairs, None, path)
    transitions = [entry for name in pairs if name in same for entry in pairs[name]]
    layout = EdgeLayout(len(labels))
    bigrams = [
        (weight, names.setdefault(name, len(names)), int(layout.numbers(before, to)))
        for name, entries in pairs.items()
        if name not in same
        for weight, before, to in entries
    ]
    return list(labels), list(names), _entries(state), _entries(transitions), _entries(bigrams)


def _entries(table: list[tuple[float, int, int]]) -> Entries:
    values, rows, columns = zip(*table, strict=True) if table else ((), (), ())
    return Entries(np.array(values, np.float64), np.array(rows, np.int64), np.array(columns, np.int64))
