"""Recipes: a ready-made model is a folder with `recipe.toml` (data, features, structure, objective, solver).

From the name of a recipe to the matrices and the estimator that train it, and from a new file to the same
features. For the command line, and for anyone who wants the data of a recipe in Python.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.bundled import bundled
from crfqn.datasets import dataset
from crfqn.errors import DataError, DataUnavailableError, RecipeError
from crfqn.pixels import PixelPairs
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.labeled import Labeled
from crfqn.readers.letters import read_letter_matlab, read_letter_table
from crfqn.readers.lines import STANDARD_INPUT, text_lines
from crfqn.recipe_schema import Recipe, parse_recipe

if TYPE_CHECKING:
    from crfqn.estimators.chain import ChainCRF

FILE_NAME = "recipe.toml"
EMBEDDED = "digits"


@dataclass(frozen=True)
class Observed:
    """Features `X` (for `ChainCRF.predict`) and labels `y`, one list an item; None if none are known."""

    X: Any
    y: list[list[str]] | None


@dataclass
class Prepared:
    """The data of a recipe, cut and mapped.

    `X_*` is a `Sequences` for pixels, a list of lists of dicts for attributes; `y_*` has a list of labels for
    each item. `fingerprint`: SHA-256 over all labels and observations (64 hex digits), the same for every
    format of the file.
    """

    X_train: Any
    y_train: list[list[str]]
    X_test: Any
    y_test: list[list[str]]
    feature_names: Sequence[str] | None
    fingerprint: str

    def take_train(self) -> Any:
        """Hand over X_train and forget it: a training then holds it only until its own store is built."""
        taken, self.X_train = self.X_train, None
        return taken


def list_recipes() -> list[str]:
    """Names of the ready-made recipes."""
    return sorted(path.parent.name for path in bundled("models").glob(f"*/{FILE_NAME}"))


def find_recipe(name_or_path: str | Path) -> Path:
    """The recipe's file, from a path to it or to its folder, or from the name of a ready-made model.

    `models/ocr` is taken as a path if it is one here, else as the ready-made model `ocr`.

    Raises
    ------
    RecipeError
        There is no such recipe; the text lists the ready-made ones.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    if (path / FILE_NAME).is_file():
        return path / FILE_NAME
    names = list_recipes()
    if path.name in names and path.parts in ((path.name,), ("models", path.name)):
        return bundled("models") / path.name / FILE_NAME
    here = f"the folder {path} has no {FILE_NAME}" if path.is_dir() else f"no recipe {str(name_or_path)!r}"
    raise RecipeError(f"{here}; give a path to a recipe, or one of the ready-made models: {', '.join(names)}")


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Find, read and check a recipe.

    Raises
    ------
    RecipeError
        Not found, not TOML, or a key or value that is not allowed.
    """
    path = find_recipe(name_or_path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # bad TOML and bad UTF-8 are ValueErrors
        raise RecipeError(f"{path}: cannot be read as TOML: {error}") from error
    return parse_recipe(table, path)


def prepare(recipe: Recipe) -> Prepared:
    """Read the recipe's data, cut it into training and test items, compute the features.

    Raises
    ------
    DataUnavailableError
        The data is not on this machine; the text says how to get it, and what can be trained without.
    DataError
        The data is there, but malformed.
    RecipeError
        The split does not fit the data.
    """
    labeled = _labeled(recipe)
    train, test = _split(recipe, labeled)
    names = _pixel_map(recipe).names if recipe.features.kind == "pixel-pairs" else None
    seen = _observed(recipe, labeled, train)
    held_out = _observed(recipe, labeled, test)
    return Prepared(seen.X, seen.y or [], held_out.X, held_out.y or [], names, labeled.digest())


def observe(recipe: Recipe, path: str | Path | None = None) -> Observed:
    """Features (and labels, where there are any) of a new file, computed as the recipe does.

    Parameters
    ----------
    recipe : Recipe
    path : str, Path or None
        None: the test items of the recipe's own data. A pixel recipe reads letter tables (plain, .gz, .mat)
        of its image size, and CRFsuite's text format with an attribute `p<row>_<column>[:value]` for each
        pixel that is not 0; an attribute recipe reads the text format. `-` is that format on standard input.

    Raises
    ------
    DataError
        Malformed file (file and line named), an attribute that is no pixel, labels for some positions only.
    """
    if path is None:
        labeled = _labeled(recipe)
        return _observed(recipe, labeled, _split(recipe, labeled)[1])
    if recipe.features.kind == "attributes":
        labeled = read_crfsuite_text(path)
    else:
        labeled = _read_images(path, _pixel_map(recipe).shape)
    observed = _observed(recipe, labeled, np.arange(labeled.n_items))
    is_known = [bool(label) for item in labeled.labels for label in item]
    if any(is_known) and not all(is_known):
        raise DataError(
            f"{path}: {is_known.count(False)} of {len(is_known)} positions have no label; label all or none"
        )
    return observed if any(is_known) else Observed(observed.X, None)


def build_estimator(recipe: Recipe, **overrides: Any) -> "ChainCRF":
    """The untrained estimator of a recipe.

    Parameters
    ----------
    recipe : Recipe
    **overrides
        Parameters of `ChainCRF` that replace the recipe's; None keeps what the recipe says.

    Raises
    ------
    RecipeError
        The solver section has a setting that the estimator does not know.
    """
    from crfqn.estimators.chain import ChainCRF

    allowed = sorted(ChainCRF().get_params().keys() - {"l1", "l2", "solver", "callback"})
    for name in recipe.solver.settings:
        if name not in allowed:
            raise RecipeError(
                f"{recipe.source}: [solver] has an unknown key: {name}; allowed: name, {', '.join(allowed)}"
            )
    settings = {
        "l1": recipe.objective.l1,
        "l2": recipe.objective.l2,
        "solver": recipe.solver.name,
        "tol": recipe.solver.tol,
        "max_iter": recipe.solver.max_iter,
        **recipe.solver.settings,
        **{name: value for name, value in overrides.items() if value is not None},
    }
    return ChainCRF(**settings)


def _labeled(recipe: Recipe) -> Labeled:
    """The recipe's data, all items."""
    if not recipe.data.dataset:
        folder = recipe.source.parent
        train, test = (read_crfsuite_text(folder / name) for name in (recipe.data.train, recipe.data.test))
        labeled = Labeled(train.inputs + test.inputs, train.labels + test.labels, n_train=train.n_items)
        if "" in labeled.distinct_labels():
            raise DataError(f"{recipe.source}: the files of [data] have positions without a label")
        return labeled
    try:
        return _dataset(recipe).load()
    except DataUnavailableError as error:
        raise DataUnavailableError(
            f"{error}\nWithout any download: `crfqn train models/{EMBEDDED}` trains on data that is built in."
        ) from error


def _dataset(recipe: Recipe) -> Any:
    try:
        return dataset(recipe.data.dataset)
    except DataError as error:
        raise RecipeError(f"{recipe.source}: [data] dataset: {error}") from error


def _split(recipe: Recipe, labeled: Labeled) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the training items and of the test items."""
    split, n_items = recipe.data.split, labeled.n_items
    if split.kind == "given":
        if labeled.n_train is None:
            raise RecipeError(
                f"{recipe.source}: [data.split] the dataset {recipe.data.dataset!r} brings no split "
                f'of its own; use kind = "permutation" with seed and train'
            )
        order, n_train = np.arange(n_items), labeled.n_train
    else:
        assert split.train is not None  # the schema saw to it
        order, n_train = np.random.RandomState(split.seed).permutation(n_items), split.train
        if n_train >= n_items:
            raise RecipeError(
                f"{recipe.source}: [data.split] train = {n_train}: expected 1 to {n_items - 1}, since the "
                f"data has {n_items} items and some must be left for the test"
            )
    return order[:n_train], order[n_train:]


def _observed(recipe: Recipe, labeled: Labeled, items: np.ndarray) -> Observed:
    inputs = [labeled.inputs[item] for item in items]
    labels = [labeled.labels[item] for item in items]
    if recipe.features.kind == "attributes":
        return Observed(inputs, labels)
    from crfqn.sequences import Sequences

    pixel_map = _pixel_map(recipe)
    offsets = np.zeros(len(inputs) + 1, dtype=np.int64)
    np.cumsum([len(images) for images in inputs], out=offsets[1:])
    matrix = pixel_map.transform(np.concatenate(inputs))
    return Observed(Sequences(matrix, offsets, feature_names=pixel_map.names), labels)


def _pixel_map(recipe: Recipe) -> PixelPairs:
    return PixelPairs(_dataset(recipe).shape, recipe.features.threshold, recipe.features.bias)


def _read_images(path: str | Path, shape: tuple[int, int]) -> Labeled:
    """Images from a letter table, its MATLAB copy or the text format: told apart by the first line."""
    if str(path) != STANDARD_INPUT:
        if Path(path).suffix == ".mat":
            return read_letter_matlab(path, shape)
        first = next((line.split("\t") for _, line in text_lines(path) if line.strip()), [])
        if len(first) > 2 and first[0].isdigit() and first[2].removeprefix("-").isdigit():
            return read_letter_table(path, shape[0] * shape[1])
    text = read_crfsuite_text(path)
    return Labeled(
        [_images(path, number, item, shape) for number, item in enumerate(text.inputs)], text.labels
    )


def _images(
    path: str | Path, number: int, item: list[dict[str, float]], shape: tuple[int, int]
) -> np.ndarray:
    """Grey values (T, pixels) of one item whose attributes are named after pixels."""
    n_pixels = shape[0] * shape[1]
    pixel_of = {name: pixel for pixel, name in enumerate(PixelPairs(shape).names[:n_pixels])}
    images = np.zeros((len(item), n_pixels))
    for position, attributes in enumerate(item):
        for name, value in attributes.items():
            if name not in pixel_of:
                raise DataError(
                    f"{path}: item {number + 1}, position {position + 1}: {name!r} is no pixel; expected "
                    f"p<row>_<column> within {shape[0]}x{shape[1]}, counted from 0"
                )
            images[position, pixel_of[name]] = value
    return images
