"""Generators of features in batches, which stagewise regression fits one after the other: by name, and as stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.papers.agarwal2014.random_projections import Projections, RandomFourier, RandomProjections
from crfqn.papers.agarwal2014.sources import ByFrequency, Ordered, RandomSubsets, Shuffled, Source

GENERATORS: Mapping[str, Any] = {
    "fourier": RandomFourier(),
    "projections": RandomProjections(),
    "subsets": RandomSubsets(),
    "frequency": ByFrequency(),
}
SOURCES: Mapping[str, type[Source]] = {kind.KIND: kind for kind in (Projections, Shuffled, Ordered)}


def named_generator(generator: object) -> Any:
    """Return the generator of this name, or the object itself if it is a generator; InputError for anything else."""
    if isinstance(generator, str) and generator in GENERATORS:
        return GENERATORS[generator]
    if hasattr(generator, "fit") and not isinstance(generator, type):
        return generator
    raise InputError(f"generator: expected one of {[*GENERATORS]} or a generator, got {generator!r}")


def restored_source(kind: str, table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Source:
    """Return the source that a model file describes; KeyError or ValueError for anything else."""
    if kind not in SOURCES:
        raise ValueError(f"generator: expected one of {[*SOURCES]}, got {kind!r}")
    return SOURCES[kind].restored(table, arrays)
