"""Data of a recipe of sequences as shards, which the workers of a Dask cluster read themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crfqn.data.files import STANDARD_INPUT
from crfqn.distributed.sources import Shards
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sequences import OF_TEMPLATES, observe_sequences, templates_of
from crfqn.recipes.sources import Prepared, files_named

SHARDS_OF_FILE = (
    4  # of the only file, however many workers there are: what they have is not to change the result
)


@dataclass(frozen=True)
class RecipeShard:
    """The `number`-th of `of` runs of items of a file, with the features of a recipe but for templates."""

    recipe: Recipe
    path: str
    number: int
    of: int

    def __call__(self) -> Any:
        """Read the file and keep these items."""
        try:
            found = observe_sequences(self.recipe, self.path, self.recipe.features.column_names or None)
        except EmptyDataError:
            return [], []
        if found.y is None:
            raise DataError(f"{self.path}: expected labels, got none")
        n_items = len(found.y)
        own = slice(self.number * n_items // self.of, (self.number + 1) * n_items // self.of)
        weights = found.data.weights
        return found.X[own], found.y[own], weights and weights[own]


def prepare_shards(recipe: Recipe, paths: Sequence[str]) -> Prepared:
    """Return what is trained on: a shard a file, or `SHARDS_OF_FILE` of the only one. The test part is read here.

    InputError for datasets and standard input, which workers cannot read, and for other structures than chains.
    """
    if recipe.structure.kind != "chain":
        raise InputError(f"on a cluster expected sequences, got a recipe of {recipe.structure.kind} labels")
    if recipe.data.dataset or STANDARD_INPUT in paths:
        raise InputError("on a cluster expected files of one's own, which the workers read (--data FILE)")
    n_parts = SHARDS_OF_FILE if len(paths) == 1 else 1
    reads = [RecipeShard(recipe, path, number, n_parts) for path in paths for number in range(n_parts)]
    templates = templates_of(recipe) if recipe.features.kind in OF_TEMPLATES else None
    X_test, y_test = [], []
    if names := recipe.data.names("test"):
        test = observe_sequences(recipe, files_named(names, recipe.source.parent))
        X_test, y_test = test.X, test.y or []
    return Prepared(Shards(reads, templates=templates), [], X_test, y_test, None, "", is_sharded=True)


def files_of(recipe: Recipe) -> list[str]:
    """Return the training files that a recipe names, by their whole paths."""
    files = files_named(recipe.data.names("train"), recipe.source.parent)
    return [str(file if file == STANDARD_INPUT else Path(file).resolve()) for file in files]
