"""Features in batches, GEN of Agarwal et al. (2014), Algorithm 3: random features, or batches of the given features.

A generator holds settings. Its `fit(blocks, seed)`, with arrays or CSR arrays (rows, d), returns a source of batches:
functions of a row that depend only on the seed and the number of the batch, so that a model stores no features.
Random Fourier features, cos(x . omega + b) with omega normal of variance 2 / s and b uniform, approximate the Gaussian
kernel exp(-||x - x'||^2 / s): Rahimi and Recht (NIPS 2007). Shapes: N rows of d numbers, p features of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.base import clone

from crfqn.arrays import Vector
from crfqn.data.inputs import ItemTable
from crfqn.data.items import positions_of
from crfqn.errors import InputError
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.feature_map import MAX_TILE_POSITIONS, FeatureMap
from crfqn.threads import Pool

SCALE_SAMPLE_ROWS = 1000  # maximum number of rows from which a scale is estimated
ALL_COLUMNS = slice(None)
NO_ROWS = "expected at least one block of rows, got none"
FOURIER_NONLINEARITY = "cos"
# Functions that overwrite their argument.
NONLINEARITIES: Mapping[str, Callable[[NDArray], NDArray]] = {
    FOURIER_NONLINEARITY: lambda x: np.cos(x, out=x),
    "relu": lambda x: np.maximum(x, 0.0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "abs": lambda x: np.abs(x, out=x),
    "square": lambda x: np.square(x, out=x),
}


Columns: TypeAlias = slice | NDArray[np.integer]


class Batch(NamedTuple):
    """Features of a stage, each a function of a row.

    transform : function (rows, columns) that returns some features of some rows, (rows, columns); columns : a slice, by
        default of all, or an array of numbers
    chosen : int64 (p,), the numbers of the given features that they are, None if they are others
    """

    n_features: int
    transform: Callable[..., NDArray[np.floating]]
    chosen: NDArray[np.int64] | None = None


class FeatureSource(ABC):
    """Source of batches: a generator fitted to rows of d numbers (`n_inputs`)."""

    n_inputs: int

    @abstractmethod
    def batch(self, number: int, size: int) -> Batch:
        """Return the batch `number`, counted from 0, of up to `size` features."""

    def batch_width(self, number: int, size: int) -> int:
        """Return the number of features of the batch `number`, if possible without making it."""
        return size

    @abstractmethod
    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return the content for a model file, which `restored_source` reads: JSON values, and arrays by name;
        InputError if that is impossible."""


def draws(seed: int, number: int) -> np.random.RandomState:
    """Return the random numbers of a batch, of numpy's RandomState, whose streams stay the same in all versions."""
    return np.random.RandomState([seed, number])


def result_dtype(rows: ItemTable) -> np.dtype:
    """Return float32 for rows of float32 and small integers, float64 for others."""
    return np.result_type(rows.dtype, np.float32)


def to_dense(table: ItemTable) -> NDArray:
    """Return a table, perhaps sparse, as an array."""
    return table.toarray() if hasattr(table, "toarray") else np.asarray(table)


def first_block(blocks: Iterable[ItemTable]) -> ItemTable:
    """Return the first block of rows; InputError if there is none."""
    for block in blocks:
        return block
    raise InputError(NO_ROWS)


def sample_rows(blocks: Iterable[ItemTable]) -> NDArray[np.float64]:
    """Return up to SCALE_SAMPLE_ROWS different rows, float64 (rows, d), evenly spread over the blocks, or all if there
    are fewer. They are sorted, so that repetitions and the order of the blocks do not change the result."""
    samples = [
        to_dense(block[:: max(1, block.shape[0] // SCALE_SAMPLE_ROWS)][:SCALE_SAMPLE_ROWS]).astype(np.float64)
        for block in blocks
    ]
    if not samples:
        raise InputError(NO_ROWS)
    rows = np.unique(np.concatenate(samples), axis=0)
    return rows[:: max(1, rows.shape[0] // SCALE_SAMPLE_ROWS)][:SCALE_SAMPLE_ROWS]


def median_distance(rows: NDArray[np.float64]) -> float:
    """Return the median of the squared distances between different rows, 1 if the median is 0."""
    median = float(np.median(pdist(rows, "sqeuclidean"))) if len(rows) > 1 else 0.0
    return median if median > 1e-12 * float(np.square(rows).sum(axis=1).max(initial=0.0)) else 1.0


def checked_scale(scale: float) -> float:
    """Return the scale; InputError unless it is a finite number > 0."""
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(f"scale: expected None or a finite number > 0, got {scale!r}")
    return scale


@dataclass(frozen=True)
class Projections(FeatureSource):
    """Source of random projections f(x . omega_j + b_j), j = 1 ... p, of rows of d numbers; spread: the standard
    deviation of the entries of omega."""

    n_inputs: int
    spread: float
    nonlinearity: str
    seed: int

    def batch(self, number: int, size: int) -> Batch:
        random = draws(self.seed, number)
        omega = self.spread * random.normal(size=(self.n_inputs, size))
        is_wave = self.nonlinearity == FOURIER_NONLINEARITY
        shifts = random.uniform(0.0, 2.0 * np.pi, size) if is_wave else random.normal(size=size)

        def transform(rows: ItemTable, columns: Columns = ALL_COLUMNS) -> NDArray[np.floating]:
            dtype = result_dtype(rows)
            rows = rows if rows.dtype == dtype else rows.astype(dtype)
            products = rows @ np.ascontiguousarray(omega[:, columns], dtype)
            products += shifts[columns].astype(dtype)
            return NONLINEARITIES[self.nonlinearity](products)

        return Batch(size, transform)

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        return {"kind": "projections", **vars(self)}, {}


@dataclass(frozen=True)
class RandomFourier:
    """Generator of random Fourier features cos(x . omega + b) of the Gaussian kernel exp(-||x - x'||^2 / scale).

    Parameters
    ----------
    scale : float > 0, optional
        s; by default the median of ||x - x'||^2 over pairs of up to 1,000 rows.
    """

    scale: float | None = None

    def fit(self, blocks: Iterable[ItemTable], seed: int) -> Projections:
        rows = sample_rows(blocks)
        scale = median_distance(rows) if self.scale is None else checked_scale(self.scale)
        return Projections(rows.shape[1], float(np.sqrt(2.0 / scale)), FOURIER_NONLINEARITY, seed)


@dataclass(frozen=True)
class RandomProjections:
    """Generator of projections in random directions with a non-linearity, f(x . omega + b), b normal.

    Parameters
    ----------
    nonlinearity : {"relu", "tanh", "abs", "square"}
    scale : float > 0, optional
        The variance of x . omega is ||x||^2 / scale; by default the mean of ||x||^2 over up to 1,000 rows.
    """

    nonlinearity: str = "relu"
    scale: float | None = None

    def fit(self, blocks: Iterable[ItemTable], seed: int) -> Projections:
        known = [name for name in NONLINEARITIES if name != FOURIER_NONLINEARITY]
        if self.nonlinearity not in known:
            raise InputError(f"nonlinearity: expected one of {known}, got {self.nonlinearity!r}")
        rows = sample_rows(blocks)
        usual = float(np.square(rows).sum(axis=1).mean()) or 1.0
        scale = usual if self.scale is None else checked_scale(self.scale)
        return Projections(rows.shape[1], float(scale**-0.5), self.nonlinearity, seed)


@dataclass(frozen=True, eq=False)
class InTurn(FeatureSource):
    """Source of rounds over the given features: each round has every feature once, in the order `order`, int64 (d,), or
    if that is None in a new permutation."""

    n_inputs: int
    seed: int = 0
    order: NDArray[np.int64] | None = None

    def batch(self, number: int, size: int) -> Batch:
        """Return the batch `number`, its features ascending."""
        turn, place = divmod(number, -(-self.n_inputs // size))
        order = draws(self.seed, turn).permutation(self.n_inputs) if self.order is None else self.order
        chosen = np.sort(order[place * size : (place + 1) * size])

        def transform(rows: ItemTable, columns: Columns = ALL_COLUMNS) -> NDArray[np.floating]:
            return to_dense(rows[:, chosen[columns]]).astype(result_dtype(rows))

        return Batch(chosen.size, transform, chosen)

    def batch_width(self, number: int, size: int) -> int:
        """Return the number of features of the batch `number`: the last of a round may have fewer."""
        place = number % -(-self.n_inputs // size)
        return min(size, self.n_inputs - place * size)

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        if self.order is None:
            return {"kind": "subsets", "n_inputs": self.n_inputs, "seed": self.seed}, {}
        return {"kind": "ordered"}, {"order": self.order}


@dataclass(frozen=True)
class RandomSubsets:
    """Generator that draws the given features at random without replacement; all are used before one is repeated."""

    def fit(self, blocks: Iterable[ItemTable], seed: int) -> InTurn:
        return InTurn(int(first_block(blocks).shape[1]), seed)


@dataclass(frozen=True)
class ByFrequency:
    """Generator that takes the given features in the order of decreasing frequency: the paper's choice for text."""

    def fit(self, blocks: Iterable[ItemTable], seed: int) -> InTurn:
        counts: Any = sum(np.bincount(block.nonzero()[1], minlength=block.shape[1]) for block in blocks)
        if not np.ndim(counts):
            raise InputError(NO_ROWS)
        return InTurn(len(counts), order=np.argsort(-counts, kind="stable").astype(np.int64))


@dataclass(eq=False)
class Transformed(FeatureSource):
    """Generator, and once it has `rows` source, of batches by clones of a scikit-learn transformer, fitted to the first
    block of rows, each with its own seed."""

    transformer: Any
    rows: Any = None
    seed: int = 0
    twins: dict[int, Any] = field(default_factory=dict)  # by the numbers of batches

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
        return int(self.rows.shape[1])

    def fit(self, blocks: Iterable[ItemTable], seed: int) -> Transformed:
        return Transformed(self.transformer, first_block(blocks), seed)

    def batch(self, number: int, size: int) -> Batch:
        if number not in self.twins:
            settings = {"random_state": (self.seed + number) % 2**32, "n_components": size}
            known = self.transformer.get_params()
            twin = clone(self.transformer).set_params(**{k: v for k, v in settings.items() if k in known})
            self.twins[number] = twin.fit(self.rows)
        twin = self.twins[number]

        def transform(rows: ItemTable, columns: Columns = ALL_COLUMNS) -> NDArray[np.floating]:
            return to_dense(twin.transform(rows))[:, columns].astype(result_dtype(rows), copy=False)

        return Batch(int(twin.transform(self.rows[:1]).shape[1]), transform)

    def batch_width(self, number: int, size: int) -> int:
        return self.batch(number, size).n_features

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        raise InputError(f"generator: a model file has no place for transformers, got {self.transformer!r}")


NAMED_GENERATORS: Mapping[str, Any] = {
    "fourier": RandomFourier(),
    "projections": RandomProjections(),
    "subsets": RandomSubsets(),
    "frequency": ByFrequency(),
}
GENERATOR_CLASSES = {type(generator).__name__: type(generator) for generator in NAMED_GENERATORS.values()}
STORED_SOURCES = ("projections", "subsets", "ordered")  # that model files hold


def as_generator(generator: Any) -> Any:
    """Return the generator for a name, a generator or a transformer; InputError for anything else."""
    if isinstance(generator, str) and generator in NAMED_GENERATORS:
        return NAMED_GENERATORS[generator]
    if hasattr(generator, "fit_transform"):
        return Transformed(generator)
    if hasattr(generator, "fit") and not isinstance(generator, type):
        return generator
    raise InputError(f"generator: expected one of {[*NAMED_GENERATORS]} or a generator, got {generator!r}")


def stored_generator(generator: Any) -> Any:
    """Return a generator as JSON; transformers and users' own generators are returned unchanged."""
    is_known = is_dataclass(generator) and GENERATOR_CLASSES.get(type(generator).__name__) is type(generator)
    return {"kind": type(generator).__name__, **asdict(generator)} if is_known else generator  # type: ignore[arg-type, call-overload]


def restored_generator(stored: Any) -> Any:
    """Return the generator of `stored_generator`'s JSON; KeyError, TypeError or InputError for anything else."""
    if isinstance(stored, dict):
        return GENERATOR_CLASSES[stored["kind"]](**{name: stored[name] for name in stored if name != "kind"})
    as_generator(stored)
    return stored


def restored_source(table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> FeatureSource:
    """Return the source whose `content` a model file holds; KeyError or ValueError for anything else."""

    def check(name: str, is_right: bool, expected: str) -> None:
        if not is_right:
            raise ValueError(f"{name}: expected {expected}, got {table[name]!r}")

    check("kind", table["kind"] in STORED_SOURCES, f"one of {[*STORED_SOURCES]}")
    if table["kind"] == "ordered":
        order = np.asarray(arrays["order"])
        if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(order.size)):
            raise ValueError("order: expected every feature once")
        return InTurn(order.size, order=order.astype(np.int64))
    for name in ("n_inputs", "seed"):
        is_whole = type(table[name]) is int and 0 <= table[name] < 2**32
        check(name, is_whole, f"a whole number from 0 to {2**32 - 1}")
    if table["kind"] == "subsets":
        return InTurn(table["n_inputs"], table["seed"])
    check("nonlinearity", table["nonlinearity"] in NONLINEARITIES, f"one of {[*NONLINEARITIES]}")
    is_size = type(table["spread"]) in (int, float) and 0 < table["spread"] < np.inf
    check("spread", is_size, "a finite number above 0")
    return Projections(*(table[name] for name in ("n_inputs", "spread", "nonlinearity", "seed")))


@dataclass(eq=False)
class GeneratedMap(FeatureMap):
    """Scores from features that are functions (`batch`) of N rows, such as random features. Each pass computes them
    again. Shapes as in `objectives/linear/feature_map.py`.

    has_constant : whether there is one more feature than those of the batch, the last, that is 1 at every position
    """

    rows: ItemTable
    batch: Batch
    offsets: NDArray[np.int64]
    has_constant: bool = False
    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        self.n_features = self.batch.n_features + self.has_constant

    def take(self, items: NDArray[np.integer]) -> tuple[GeneratedMap, NDArray[np.int64]]:
        positions, offsets = positions_of(self.offsets, items)
        rows = self.rows[positions]
        return GeneratedMap(rows, self.batch, offsets, self.has_constant, self.pool), positions

    def tile(self, positions: Columns, features: Columns) -> Vector:
        return np.asarray(self.batch.transform(self.rows[positions], features), np.float64)

    def kept(self) -> DenseMap:
        """Return the map of their array, made once: in float32 where the rows are float32 or small integers."""
        table = np.empty((self.n_positions, self.n_stored), result_dtype(self.rows))

        def make(part: int) -> None:
            stretch = slice(part * MAX_TILE_POSITIONS, (part + 1) * MAX_TILE_POSITIONS)
            table[stretch] = self.batch.transform(self.rows[stretch])

        self.pool.each(-(-self.n_positions // MAX_TILE_POSITIONS), make)
        return DenseMap(table, self.offsets, self.has_constant, self.pool)
