"""What sklearn-crfsuite's `tagger_` and `training_log_` give: a model that labels one sequence, and its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.attributes import attributes
from crfqn.errors import InputError
from crfqn.estimators.chain import ChainCRF
from crfqn.interchange.chain_weights import ChainWeights, chain_weights
from crfqn.interchange.crfsuite import NAME, encode


class ModelInfo(NamedTuple):
    """Content of a model by names, as `pycrfsuite.Tagger.info` gives it: weights of (label, next label) and (attribute,
    label), and the numbers of labels and attributes."""

    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]
    labels: dict[str, int]
    attributes: dict[str, int]


class Tagger:
    """A fitted chain under the names of `pycrfsuite.Tagger`.

    Parameters
    ----------
    model : fitted ChainCRF
    """

    def __init__(self, model: ChainCRF) -> None:
        self._model = model
        self._items: list[list[dict[str, float]]] | None = None
        self._marginals: Any = None

    @cached_property
    def weights(self) -> ChainWeights:
        """Weights by name, labels and attributes in the order of the model."""
        return chain_weights(self._model, NAME)

    def labels(self) -> list[str]:
        """Return the labels."""
        return self._model.classes_.tolist()

    def set(self, xseq: Any) -> None:
        """Take a sequence for `tag`, `probability` and `marginal`."""
        self._items, self._marginals = attributes([xseq]), None

    def tag(self, xseq: Any = None) -> list[str]:
        """Return the best labels of a sequence, by default of the one that was `set`."""
        if xseq is not None:
            self.set(xseq)
        return self._model.predict(self._sequence())[0]

    def probability(self, yseq: Sequence[str]) -> float:
        """Return the probability of the labels of the sequence that was `set`."""
        return float(np.exp(self._model.log_likelihood(self._sequence(), [list(yseq)])[0]))

    def marginal(self, y: str, pos: int) -> float:
        """Return the probability of a label at a position, from 0, of the sequence that was `set`."""
        labels = self.labels()
        if y not in labels:
            raise InputError(f"y: expected one of the {len(labels)} labels, got {y!r}")
        if self._marginals is None:
            self._marginals = self._model.predict_marginals(self._sequence())[0]
        if not 0 <= pos < len(self._marginals):
            raise InputError(f"pos: expected a position from 0 to {len(self._marginals) - 1}, got {pos!r}")
        return float(self._marginals[pos, labels.index(y)])

    def info(self) -> ModelInfo:
        """Return the weights by name; attributes without a weight are left out."""
        labels, names, state, transition = self.weights
        rows = zip(*(column.tolist() for column in transition), strict=True)
        cells = zip(*(column.tolist() for column in state), strict=True)
        return ModelInfo(
            {(labels[a], labels[b]): weight for a, b, weight in rows},
            {(names[a], labels[k]): weight for a, k, weight in cells},
            {label: number for number, label in enumerate(labels)},
            {name: number for number, name in enumerate(names)},
        )

    def size(self) -> int:
        """Return the bytes of the model in CRFsuite's format."""
        return len(encode(self.weights))

    def _sequence(self) -> list[list[dict[str, float]]]:
        if self._items is None:
            raise InputError("expected a sequence first: set(xseq)")
        return self._items


@dataclass
class TrainingLog:
    """Course of a training, under the names of python-crfsuite's log.

    Each of `iterations` has `num`, `loss` (penalties included), `active_features` and `time` in seconds, those of the
    warm-up on samples left out; `last_iteration` also the final model's `item_accuracy_float` and
    `instance_accuracy_float` on held-out data. `featgen_num_features` counts the weights that may be other than 0.
    """

    featgen_num_features: int | None
    iterations: list[dict[str, Any]] = field(default_factory=list)
    message: str = ""

    @classmethod
    def of(cls, model: ChainCRF) -> TrainingLog:
        """Return the log of a fitted chain."""
        rows = model.result_.trace.rows
        seconds = np.diff([0.0, *(row.seconds for row in rows)]).tolist()
        iterations = [
            {"num": row.iteration, "loss": row.value, "active_features": row.n_nonzero, "time": time}
            for row, time in zip(rows, seconds, strict=True)
        ]
        return cls(getattr(model, "n_generated_", None), iterations, model.result_.message)

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last of `iterations`, None without any."""
        return self.iterations[-1] if self.iterations else None
