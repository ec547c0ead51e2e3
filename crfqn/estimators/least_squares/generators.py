"""The parameter `generator`: a name, a generator with settings or a transformer, and its form in model files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crfqn.data.generators import GENERATORS, named_generator
from crfqn.data.generators.sources import result_dtype
from crfqn.errors import InputError

KINDS = {type(generator).__name__: type(generator) for generator in GENERATORS.values()}


@dataclass(frozen=True, eq=False)
class TransformedBatch:
    """Batch of features that a fitted transformer makes of rows (`crfqn.data.generators.sources.Batch`)."""

    fitted: Any
    n_features: int

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        found = self.fitted.transform(rows)
        found = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        return found[:, columns].astype(result_dtype(rows), copy=False)


@dataclass(eq=False)
class Transformed:
    """Source of batches by clones of a transformer, fitted to the first block of rows, each with its own seed."""

    KIND: ClassVar[str] = "transformed"

    transformer: Any
    rows: Any
    seed: int
    batches: dict[int, TransformedBatch] = field(default_factory=dict)

    @property
    def n_inputs(self) -> int:
        return int(self.rows.shape[1])

    def batch(self, number: int, size: int) -> TransformedBatch:
        if number not in self.batches:
            own, known = clone(self.transformer), self.transformer.get_params()
            wanted = {"random_state": (self.seed + number) % 2**32, "n_components": size}
            own.set_params(**{name: value for name, value in wanted.items() if name in known})
            own.fit(self.rows)
            self.batches[number] = TransformedBatch(own, int(own.transform(self.rows[:1]).shape[1]))
        return self.batches[number]

    def batch_width(self, number: int, size: int) -> int:
        return self.batch(number, size).n_features

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        raise InputError(f"generator: a model file has no place for transformers, got {self.transformer!r}")


@dataclass(frozen=True)
class FromTransformer:
    """Generator of features by a scikit-learn transformer, cloned for each batch."""

    transformer: Any

    def fit(self, blocks: Iterable[Any], seed: int) -> Transformed:
        first = next(iter(blocks), None)
        if first is None:
            raise InputError("expected at least one block of rows, got none")
        return Transformed(self.transformer, first, seed)


def as_generator(generator: Any) -> Any:
    """Return the generator for a name, a generator or a transformer; InputError for anything else."""
    return FromTransformer(generator) if hasattr(generator, "fit_transform") else named_generator(generator)


def stored_generator(generator: Any) -> Any:
    """Return a generator as JSON; InputError for a transformer and for a generator of the user's own."""
    if isinstance(generator, str):
        return generator
    if not is_dataclass(generator) or KINDS.get(type(generator).__name__) is not type(generator):
        raise InputError(f"generator: a model file holds those of crfqn.data.generators, got {generator!r}")
    return {"kind": type(generator).__name__, **asdict(generator)}  # type: ignore[arg-type, call-overload]


def restored_generator(stored: Any) -> Any:
    """Return the generator of `stored_generator`'s JSON; KeyError, TypeError or InputError for anything else."""
    if isinstance(stored, dict):
        return KINDS[stored["kind"]](**{name: stored[name] for name in stored if name != "kind"})
    named_generator(stored)
    return stored
