"""CRF++'s text models (`crf_learn -t`): five paragraphs of settings, labels, templates, observations and weights.

An observation is `number name`, the number that of its first weight: K weights of a name that begins with U, K x K of
one that begins with B (the label before comes first). All weights are there, zeros too. Source: Kudo: CRF++: yet
another CRF toolkit, 2005; the format of version 0.58.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crfqn.data.model_file import ModelSource, at_hand, read_whole, shown_source
from crfqn.data.templates.patterns import CRFPP
from crfqn.errors import ModelFileError
from crfqn.interchange.observations import Observations, chain_estimator, chain_of

NAME = "crfpp"
MAGIC = b"version: "
VERSION = 100
UNIGRAM, BIGRAM = "U", "B"  # first letters of observations
MOST_COLUMNS = 10_000
SETTINGS = ("version:", "cost-factor:", "maxid:", "xsize:")


def read(path: ModelSource, n_columns: int | None = None) -> Any:
    """Read a text model of CRF++: return a fitted ChainCRF, its weights multiplied by the model's cost factor.

    Features are named as CRF++'s observations are (`U00:hello`). The model makes them of columns of tokens by its
    templates (also in `extra_["templates"]`).

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode
    n_columns : int, optional
        How many columns the files to be labelled have before the label. By default there may be more behind those that
        the templates use; they are not read, and none of them is taken for the label by `crfqn predict`.

    Raises
    ------
    InputError
        Fewer columns than the model uses.
    ModelFileError
        Anything but such a file, also CRF++'s binary models.
    """
    path = at_hand(path)
    lines = _Lines(read_whole(path), shown_source(path))
    factor, n_weights, n_least = _settings(lines)
    labels, templates = list(lines.paragraph()), list(lines.paragraph())
    names: list[str] = []
    starts: list[int] = []
    for line in lines.paragraph():
        number, _, name = line.partition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) < 19
        if not is_number or name[:1] not in (UNIGRAM, BIGRAM):
            raise lines.damage(f"expected a number and the name of an observation, got {line!r:.60}")
        starts.append(int(number))
        names.append(name)
    if not labels:
        raise lines.damage("it has no labels")
    values = lines.weights(n_weights)
    is_bigram = np.array([name.startswith(BIGRAM) for name in names], bool)
    observations = Observations(names, ~is_bigram, is_bigram, np.array(starts, np.int64))
    used = np.flatnonzero(values)
    weights = chain_of(labels, observations, used, factor * values[used], templates, lines.path)
    return chain_estimator(NAME, lines.path, weights, templates, CRFPP, n_columns, n_least)


class _Lines:
    """Lines of a file, paragraph by paragraph."""

    def __init__(self, content: bytes, path: str) -> None:
        text = content.decode("utf-8", "surrogateescape")
        self.lines = [line.removesuffix("\r") for line in text.split("\n")]
        self.path, self.number = path, 0

    def paragraph(self) -> Iterator[str]:
        """Yield the lines up to the next empty one, which must be there."""
        while self.number < len(self.lines):
            self.number += 1
            line = self.lines[self.number - 1]
            if not line:
                return
            yield line
        raise self.damage("the file ends too early")

    def weights(self, n_weights: int) -> np.ndarray:
        """Return the weights, which are the rest of the file."""
        lines = self.lines[self.number :]
        while lines and not lines[-1]:
            del lines[-1]
        if len(lines) != n_weights:
            raise self.damage(f"{len(lines)} lines of weights instead of {n_weights}")
        values = np.empty(n_weights)
        for row, line in enumerate(lines):
            try:
                values[row] = float(line)
            except ValueError:
                self.number += row + 1
                raise self.damage(f"expected a weight, got {line!r:.60}") from None
        return values

    def damage(self, reason: str) -> ModelFileError:
        where = f"{self.path}, line {self.number}"
        return ModelFileError(f"{where}: no text model of CRF++ (crf_learn -t), or a damaged one: {reason}")


def _settings(lines: _Lines) -> tuple[float, int, int]:
    """Return the cost factor, the number of weights and that of columns."""
    settings: dict[str, str] = {}
    for line in lines.paragraph():
        name, _, value = line.partition(" ")
        if name not in SETTINGS:
            raise lines.damage(f"expected one of {', '.join(SETTINGS)} and a value, got {line!r:.60}")
        settings[name] = value
    try:
        version, n_weights = int(settings["version:"]), int(settings["maxid:"])
        factor, n_columns = float(settings.get("cost-factor:", "1")), int(settings.get("xsize:", "1"))
    except (KeyError, ValueError) as error:
        raise lines.damage(f"the settings lack a number: {error}") from None
    if version // 100 != VERSION // 100:
        raise lines.damage(f"a model of version {version}, instead of {VERSION}")
    if not 1 <= n_columns <= MOST_COLUMNS:
        raise lines.damage(f"expected 1 to {MOST_COLUMNS} columns (xsize:), got {n_columns}")
    return factor, n_weights, n_columns
