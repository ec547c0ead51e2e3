"""What sklearn-crfsuite's `tagger_` and `training_log_` give: a model that labels one sequence, and its training."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from crfqn import interchange
from crfqn.data.attributes import attributes
from crfqn.estimators.chain import ChainCRF
from crfqn.interchange.chain_weights import chain_weights
from crfqn.interchange.crfsuite import NAME
from crfqn.tagging import tagger
from crfqn.tagging.chain_weights import ChainWeights
from crfqn.tagging.crfsuite_model import encode


class Tagger(tagger.Tagger):
    """A fitted chain under the names of `pycrfsuite.Tagger`.

    Parameters
    ----------
    model : fitted ChainCRF
    """

    def __init__(self, model: ChainCRF) -> None:
        super().__init__()
        self._opened = model

    def open(self, path: str | os.PathLike[str]) -> Self:
        """Open a model file of any format that has a chain."""
        self._opened = interchange.read(path)
        self.__dict__.pop("weights", None)
        return self

    def set(self, xseq: Any) -> None:
        """Take a sequence for `tag`, `probability` and `marginal`."""
        super().set(attributes([xseq])[0])

    @cached_property
    def weights(self) -> ChainWeights:
        """Weights by name, labels and attributes in the order of the model."""
        return chain_weights(self._model, NAME)

    def info(self) -> tagger.ModelInfo:
        """Return the weights by name; attributes without a weight are left out."""
        labels, names, state, transition = self.weights
        rows = zip(*(column.tolist() for column in transition), strict=True)
        cells = zip(*(column.tolist() for column in state), strict=True)
        return tagger.ModelInfo(
            {(labels[a], labels[b]): weight for a, b, weight in rows},
            {(names[a], labels[k]): weight for a, k, weight in cells},
            {label: number for number, label in enumerate(labels)},
            {name: number for number, name in enumerate(names)},
        )

    def size(self) -> int:
        """Return the bytes of the model in CRFsuite's format."""
        return len(encode(self.weights))


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
