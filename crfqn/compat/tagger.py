"""The tagger and the training log of sklearn-crfsuite: a model that labels one sequence, and the log of its
training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from operator import eq
from typing import Any, NamedTuple, Self

import numpy as np

from crfqn import interchange
from crfqn.compat.utils import flatten
from crfqn.data.attributes import attributes
from crfqn.data.model_file import ModelSource
from crfqn.estimators.chain import ChainCRF
from crfqn.interchange.crfsuite import named_weights
from crfqn.metrics.spans import SpanCounts
from crfqn.model import tagger
from crfqn.model.content import Entries
from crfqn.model.crfsuite_model import encode_model


class CrfsuiteTagger(tagger.Tagger):
    """A fitted chain under the names of `pycrfsuite.Tagger`.

    Parameters
    ----------
    model : fitted ChainCRF
    """

    def __init__(self, model: ChainCRF) -> None:
        super().__init__()
        self._opened = model

    def open(self, path: ModelSource) -> Self:
        """Open a model file of any format that has a chain."""
        for name in ("weights", "_info"):
            self.__dict__.pop(name, None)
        return super().open(path)

    def has(self, model: ChainCRF) -> bool:
        """Return whether this is the open model."""
        return self._opened is model

    @staticmethod
    def _open(path: ModelSource) -> ChainCRF:
        return interchange.read(path)

    def set(self, xseq: object) -> None:
        """Set the sequence for `tag`, `probability` and `marginal`."""
        super().set(attributes([xseq])[0])

    @cached_property
    def weights(self) -> tuple[list[str], list[str], Entries, Entries]:
        """Labels and attributes in the order of the model, and the weights of both, as CRFsuite's file has them."""
        return named_weights(self._model)

    def info(self) -> tagger.ModelInfo:
        """Return the weights by name; attributes without a weight are left out."""
        return self._info

    @cached_property
    def _info(self) -> tagger.ModelInfo:
        labels, names, state, transition = self.weights
        rows = zip(*(column.tolist() for column in transition), strict=True)
        cells = zip(*(column.tolist() for column in state), strict=True)
        return tagger.ModelInfo.from_weights(
            self._model.KIND,
            {(labels[a], labels[b]): weight for weight, a, b in rows},
            {(names[a], labels[k]): weight for weight, a, k in cells},
            {label: number for number, label in enumerate(labels)},
            {name: number for number, name in enumerate(names)},
            {},
        )

    def size(self) -> int:
        """Return the bytes of the model in CRFsuite's format."""
        return len(encode_model(*self.weights))


class LabelScore(NamedTuple):
    """Per label: the number of correctly predicted (match), predicted (model) and true positions (ref), and the scores,
    None without any true position."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass
class TrainingLog:
    """Log of a training, under the names of python-crfsuite's log.

    Each of `iterations` has `num`, `loss` (penalties included), `active_features`, `time` in seconds and `scores`,
    without the warm-up on samples; `last_iteration` also has the `feature_norm` of the model, and the results of
    `evaluate` on held-out data. `featgen_num_features` counts the weights that may be other than 0.
    """

    featgen_num_features: int | None
    iterations: list[dict[str, Any]] = field(default_factory=list)
    message: str = ""
    training_seconds: float | None = None

    @classmethod
    def from_model(cls, model: ChainCRF) -> TrainingLog:
        """Return the log of a fitted chain."""
        rows, iterations, before = model.result_.trace.rows, list[dict[str, Any]](), 0.0
        for row in rows:
            figures = {"loss": row.value, "active_features": row.n_nonzero, "time": row.seconds - before}
            iterations.append({"num": row.iteration, "scores": {}, **figures})
            before = row.seconds
        if iterations:
            iterations[-1]["feature_norm"] = float(np.linalg.norm(model.result_.weights))
        return cls(model.n_weights_, iterations, model.result_.message, model.result_.seconds)

    def evaluate(self, labels: Iterable[Any], y_true: list[list], y_pred: list[list]) -> None:
        """Store CRFsuite's figures of held-out items in `last_iteration`: `scores` by label, their means over `labels`
        (`avg_precision`, `avg_recall`, `avg_f1`), and the accuracy over positions and over items."""
        if self.last_iteration is None:
            return
        true, predicted = flatten(y_true), flatten(y_pred)
        right = [a for a, b in zip(true, predicted, strict=True) if a == b]
        match, model, ref = Counter(right), Counter(predicted), Counter(true)
        scores = {}
        for label in labels:
            counts = SpanCounts(ref[label], model[label], match[label])
            rates = counts.ratios if ref[label] else (None, None, None)
            scores[label] = LabelScore(match[label], model[label], ref[label], *rates)
        shares = {
            "item_accuracy": Fraction(len(right), max(len(true), 1)),
            "instance_accuracy": Fraction(sum(map(eq, y_true, y_pred)), max(len(y_true), 1)),
        }
        for name in LabelScore._fields[-3:]:
            values = [getattr(score, name) or 0.0 for score in scores.values()]
            self.last_iteration[f"avg_{name}"] = float(np.mean(values))
        self.last_iteration.update(
            shares, scores=scores, **{f"{name}_float": float(share) for name, share in shares.items()}
        )

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last of `iterations`, None without any."""
        return self.iterations[-1] if self.iterations else None
