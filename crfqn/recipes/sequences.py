"""Recipes of sequences: images as pairs of pixels, or attributes that the data names."""

from pathlib import Path

import numpy as np

from crfqn.errors import DataError, RecipeError
from crfqn.pixels import PixelPairs
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.labeled import Labeled
from crfqn.readers.letters import read_letter_matlab, read_letter_table
from crfqn.readers.lines import STANDARD_INPUT, text_lines
from crfqn.recipe_schema import Recipe
from crfqn.recipes.prepared import Observed, Prepared
from crfqn.recipes.source import find_dataset, load_dataset, split


def prepare_sequences(recipe: Recipe) -> Prepared:
    """See `crfqn.recipes.prepare`."""
    labeled = _labeled(recipe)
    train, test = split(recipe, labeled.n_items, labeled.n_train)
    names = _pixel_map(recipe).names if recipe.features.kind == "pixel-pairs" else None
    seen = _observed(recipe, labeled, train)
    held_out = _observed(recipe, labeled, test)
    return Prepared(seen.X, seen.y or [], held_out.X, held_out.y or [], names, labeled.digest())


def observe_sequences(recipe: Recipe, path: str | Path | None) -> Observed:
    """See `crfqn.recipes.observe`."""
    if path is None:
        labeled = _labeled(recipe)
        return _observed(recipe, labeled, split(recipe, labeled.n_items, labeled.n_train)[1])
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


def _labeled(recipe: Recipe) -> Labeled:
    """The recipe's data, all items."""
    if not recipe.data.dataset:
        folder = recipe.source.parent
        train, test = (read_crfsuite_text(folder / name) for name in (recipe.data.train, recipe.data.test))
        labeled = Labeled(train.inputs + test.inputs, train.labels + test.labels, n_train=train.n_items)
        if "" in labeled.distinct_labels():
            raise DataError(f"{recipe.source}: the files of [data] have positions without a label")
        return labeled
    data = load_dataset(recipe)
    assert isinstance(data, Labeled)  # or it would have raised
    return data


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
    shape = find_dataset(recipe).shape
    if shape is None:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "pixel-pairs": the dataset {recipe.data.dataset!r} has no '
            "images in sequences"
        )
    return PixelPairs(shape, recipe.features.threshold, recipe.features.bias)


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
