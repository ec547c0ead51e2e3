"""The parameters `basis` and `generator`, where they may be transformers, and their form in model files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.papers.agarwal2014.generators import GENERATORS, named_generator
from crfqn.papers.agarwal2014.sources import NO_ROWS, Batch, Source, result_dtype

CUBIC = (1, 2, 3)
KINDS = {type(generator).__name__: type(generator) for generator in GENERATORS.values()}


def dense(table: Any) -> NDArray:
    """Return what a transformer has made as an array."""
    return table.toarray() if hasattr(table, "toarray") else np.asarray(table)


class Basis:
    """Functions of predictions that calibrate them, G(y) of Agarwal et al. (2014), Algorithm 2: powers, or a
    transformer fitted to the first ones, behind the predictions themselves, so that calibration cannot make these
    worse."""

    def __init__(self, basis: Any) -> None:
        self.basis = basis
        self.fitted: Any = None

    def __call__(self, predictions: Vector) -> Vector:
        """Return the m functions of predictions (K, N), (m, N)."""
        if is_powers(self.basis):
            return np.concatenate([predictions**power for power in self.basis])
        if self.fitted is None:
            self.fitted = clone(self.basis).fit(predictions.T)
        return np.concatenate([predictions, dense(self.fitted.transform(predictions.T)).T])


def is_powers(basis: Any) -> bool:
    """Return whether a basis is a sequence of whole numbers from 1 on."""
    return (
        isinstance(basis, Sequence)
        and bool(basis)
        and all(
            isinstance(power, (int, np.integer)) and not isinstance(power, bool) and power >= 1
            for power in basis
        )
    )


def check_basis(basis: Any) -> None:
    """Raise InputError unless a basis is a transformer, or a sequence of powers, 1 among them."""
    if is_powers(basis):
        if 1 not in basis:  # or a calibration could make predictions worse
            raise InputError(f"basis: expected powers with 1 among them, got {basis!r}")
    elif not hasattr(basis, "fit_transform"):
        raise InputError(
            f"basis: expected powers such as {CUBIC}, or a scikit-learn transformer, got {basis!r}"
        )


def stored_basis(basis: Any) -> list[int]:
    """Return a basis as JSON; InputError for a transformer, whose code and state a model file has no place for."""
    if not is_powers(basis):
        raise InputError(f"basis: a model file holds powers, and no transformers; got {basis!r}")
    return [int(power) for power in basis]


def restored_basis(basis: Any) -> tuple[int, ...]:
    """Return what `stored_basis` stored; InputError for anything else."""
    check_basis(basis)
    return tuple(basis)


@dataclass(frozen=True, eq=False)
class TransformedBatch(Batch):
    """Batch of features that a fitted transformer makes of rows."""

    fitted: Any
    n_features: int

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        return dense(self.fitted.transform(rows))[:, columns].astype(result_dtype(rows), copy=False)


@dataclass(eq=False)
class Transformed(Source):
    """Source of batches by clones of a transformer, fitted to the first block of rows, each with its own seed."""

    KIND: ClassVar[str] = "transformed"

    transformer: Any
    rows: Any
    seed: int
    batches: dict[int, TransformedBatch] = field(default_factory=dict)

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
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
            raise InputError(NO_ROWS)
        return Transformed(self.transformer, first, seed)


def as_generator(generator: Any) -> Any:
    """Return the generator for a name, a generator or a transformer; InputError for anything else."""
    return FromTransformer(generator) if hasattr(generator, "fit_transform") else named_generator(generator)


def stored_generator(generator: Any) -> Any:
    """Return a generator as JSON; InputError for a transformer and for a generator of the user's own."""
    if isinstance(generator, str):
        return generator
    if not is_dataclass(generator) or KINDS.get(type(generator).__name__) is not type(generator):
        raise InputError(
            f"generator: a model file holds those of crfqn.papers.agarwal2014.generators, got {generator!r}"
        )
    return {"kind": type(generator).__name__, **asdict(generator)}  # type: ignore[arg-type, call-overload]


def restored_generator(stored: Any) -> Any:
    """Return the generator of `stored_generator`'s JSON; KeyError, TypeError or InputError for anything else."""
    if isinstance(stored, dict):
        return KINDS[stored["kind"]](**{name: stored[name] for name in stored if name != "kind"})
    named_generator(stored)
    return stored
