"""Sources of a recipe's data, and how the items are cut: shared by sequences and documents."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from crfqn.data.files.lines import check_regular
from crfqn.datasets import Dataset, dataset
from crfqn.errors import DataError, DataUnavailableError, RecipeError
from crfqn.readers.documents import Documents
from crfqn.readers.labeled import Labeled
from crfqn.recipes.schema import Recipe

EMBEDDED = "digits"
EMBEDDED_DOCUMENTS = "stdlib"


def load_dataset(recipe: Recipe) -> Labeled | Documents:
    """Return the recipe's dataset, of the kind that its structure needs.

    Raises
    ------
    DataUnavailableError
        It is not on this machine; the text says how to get it, and what can be trained without.
    DataError
        It is there, but malformed.
    RecipeError
        There is no such dataset, or it has sequences where documents are needed or the other way.
    """
    is_chain = recipe.structure.kind == "chain"
    try:
        data = find_dataset(recipe).load()
    except DataUnavailableError as error:
        name = EMBEDDED if is_chain else EMBEDDED_DOCUMENTS
        raise DataUnavailableError(
            f"{error}\nWithout any download: `crfqn train models/{name}` trains on data that is built in."
        ) from error
    if isinstance(data, Labeled) != is_chain:
        has, fitting = (
            ("single items", '"taxonomy", "flat" or "ranking"') if is_chain else ("sequences", '"chain"')
        )
        raise RecipeError(
            f'{recipe.source}: [structure] kind = "{recipe.structure.kind}": the dataset '
            f"{recipe.data.dataset!r} has {has}; use {fitting}"
        )
    return data


@contextmanager
def own_files() -> Iterator[None]:
    """Turn DataUnavailableError into DataError: a missing file that the user named is a mistake, no data to fetch."""
    try:
        yield
    except DataUnavailableError as error:
        raise DataError(str(error)) from error


def own_file(path: Path) -> Path:
    """Return the path of a file that a recipe names; DataError for a pipe or device.

    It is read as a whole, and twice where a message needs its line.
    """
    check_regular(path)
    return path


def find_dataset(recipe: Recipe) -> Dataset:
    """Return the registry's entry of the recipe's dataset; RecipeError if there is none."""
    try:
        return dataset(recipe.data.dataset)
    except DataError as error:
        raise RecipeError(f"{recipe.source}: [data] dataset: {error}") from error


def split(recipe: Recipe, n_items: int, n_given: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and of the test items, ascending or in the order of a permutation.

    n_given : items of the training part that the data brings, its first ones, for the split `given`

    Raises
    ------
    RecipeError
        The data has no split of its own, or fewer items than the recipe asks for.
    """
    cut = recipe.data.split
    if cut.kind == "given":
        if n_given is None:
            raise RecipeError(
                f"{recipe.source}: [data.split] the dataset {recipe.data.dataset!r} brings no split "
                f'of its own; use kind = "permutation" with seed and train'
            )
        order, n_train = np.arange(n_items), n_given
    else:
        assert cut.train is not None  # the schema saw to it
        order, n_train = np.random.RandomState(cut.seed).permutation(n_items), cut.train
        if n_train >= n_items:
            raise RecipeError(
                f"{recipe.source}: [data.split] train = {n_train}: expected 1 to {n_items - 1}, since the "
                f"data has {n_items} items and some must be left for the test"
            )
    return order[:n_train], order[n_train:]
