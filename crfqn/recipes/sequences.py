"""Data of recipes of sequences: pairs of pixels, attributes that the data names, windows over columns, words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.file_parts import cut_at_lines, cut_parts
from crfqn.data.files import STANDARD_INPUT, Part, is_blank, read_text
from crfqn.data.label_texts import target_reader
from crfqn.data.pixels import PixelPairs
from crfqn.data.sequences import Sequences
from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError, RecipeError
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.images import read_letter_matlab, read_letter_table
from crfqn.readers.items import Labeled, append_test
from crfqn.readers.tables import LABELS
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sources import (
    TABLES,
    Observed,
    Origin,
    Prepared,
    find_dataset,
    format_of,
    load_dataset,
    own_file,
    own_files,
    own_parts,
    read_items,
    read_set,
    split,
)

if TYPE_CHECKING:
    from crfqn.estimators.templates import Templates

OF_TEMPLATES = ("templates", "words")  # kinds of features that the model makes itself
OF_COLUMNS = ("windows", *OF_TEMPLATES)


def prepare_sequences(recipe: Recipe) -> Prepared:
    """Return the data of a recipe of sequences, cut and mapped to features; see `crfqn.recipes.prepare`."""
    labeled = _labeled(recipe)
    train, test = split(recipe, labeled.n_items, labeled.n_train)
    names = pixel_map(recipe).names if recipe.features.kind == "pixel-pairs" else None
    if recipe.features.kind in OF_TEMPLATES:
        return _prepare_templates(recipe, labeled, train, test)
    read = _reader(labeled, train)
    seen = _observed(recipe, labeled, train, read)
    held_out = _observed(recipe, labeled, test, read)
    X_test = held_out.X
    if recipe.features.kind == "windows":
        names = seen.X.feature_names
        X_test = X_test.with_names(names)
    weights = labeled.weights and [labeled.weights[item] for item in train]
    return Prepared(
        seen.X, seen.y or [], X_test, held_out.y or [], names, labeled.digest(), sample_weight=weights
    )


def _prepare_templates(recipe: Recipe, labeled: Labeled, train: np.ndarray, test: np.ndarray) -> Prepared:
    """Return the features of templates, or of words; the model encodes the columns of the test part."""
    columns = _columns(recipe, labeled)
    where = f"{recipe.source}: [features]"
    if recipe.features.kind == "templates":
        where = str(recipe.source.parent / recipe.features.templates)
    try:
        templates = templates_of(recipe)
        X_train = templates.fit_transform(columns[train])
    except InputError as error:
        raise RecipeError(f"{where}: {error}") from error
    read = _reader(labeled, train)
    labels = [[[*map(read, labeled.labels[item])] for item in items] for items in (train, test)]
    weights = labeled.weights and [labeled.weights[item] for item in train]
    return Prepared(
        X_train, labels[0], columns[test], labels[1], None, labeled.digest(), sample_weight=weights
    )


def templates_of(recipe: Recipe) -> Templates:
    """Return the templates that a recipe describes, not yet fitted."""
    from crfqn.estimators.templates import Templates

    settings = recipe.features
    names = settings.column_names or None
    options: dict[str, Any] = {
        "columns": names,
        "min_count": settings.min_count,
        "n_hashed": settings.n_hashed,
    }
    if settings.kind == "words":
        return Templates(**options)
    with own_files():
        text = read_text(own_file(recipe.source.parent / settings.templates))
    options |= {"shapes": settings.shapes.split(), "transitions": settings.transitions}
    return Templates(f"{text}\n", **options)


def _columns(recipe: Recipe, labeled: Labeled) -> TokenColumns:
    """Return the columns of a recipe's data; RecipeError for data that has images."""
    inputs = labeled.inputs
    if isinstance(inputs, TokenColumns):
        return inputs
    if inputs and isinstance(inputs[0], np.ndarray):
        raise RecipeError(
            f'{recipe.source}: [features] kind = "{recipe.features.kind}": the dataset {recipe.data.dataset!r} has '
            'images; use "pixel-pairs"'
        )
    try:
        return TokenColumns.from_items(inputs)
    except InputError as error:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "{recipe.features.kind}": {error}; for positions that name their own '
            "features choose attributes (--features attributes)"
        ) from error


def observe_sequences(recipe: Recipe, path: Origin, columns: Sequence[str] | None = None) -> Observed:
    """Return features and labels of a file of sequences, or of the recipe's test part; see `crfqn.recipes.observe`."""
    if path is None:
        labeled = _labeled(recipe)
        train, test = split(recipe, labeled.n_items, labeled.n_train)
        return _observed(recipe, labeled, test, _reader(labeled, train))
    with own_files():
        if isinstance(path, list):
            labeled = read_set(recipe, path, columns, is_new=True)
        elif recipe.features.kind == "pixel-pairs":
            labeled = _read_images(path, pixel_map(recipe).shape)
        else:
            labeled = read_items(recipe, path, columns, is_new=True)
    observed = _observed(recipe, labeled, np.arange(labeled.n_items), str)
    y = None if labeled.known_labels() is None else labeled.targets()
    return replace(observed, y=y, data=labeled)


def _reader(labeled: Labeled, train: np.ndarray) -> Callable[[str], Any]:
    """Return what makes targets of the texts of labels, as it is with those of the training items."""
    texts = chain.from_iterable(labeled.labels[item] for item in train)
    return target_reader(texts) if labeled.has_numbers else str


def _labeled(recipe: Recipe) -> Labeled:
    """Return the recipe's data, all items."""
    if not recipe.data.dataset:
        train, *others = own_parts(recipe, partial(_check_labels, recipe))
        return append_test(train, others[0]) if others else replace(train, n_train=train.n_items)
    data = load_dataset(recipe)
    assert isinstance(data, Labeled)  # or it would have raised
    return data


def _check_labels(recipe: Recipe, labeled: Labeled) -> None:
    """Raise DataError if a position has no label; the message names the line of the first one."""
    for item, labels in enumerate(labeled.labels):
        if "" in labels:
            assert labeled.places is not None  # of a file
            form = "`label TAB attribute TAB ...`"
            if recipe.data.train and format_of(recipe) in TABLES:
                named = recipe.data.label or ", ".join(LABELS)
                form = f"one in each row, in a column called {named} (--label names another)"
            elif recipe.data.train and format_of(recipe) == "jsonl":
                form = "a list of them under 'labels'"
            elif recipe.features.kind in OF_COLUMNS:
                form = f"`{' '.join([*recipe.features.column_names, 'label'])}`"
            place = labeled.places.where(item, labels.index(""))
            raise DataError(f"{place}: no label; expected {form}")


def _observed(recipe: Recipe, labeled: Labeled, items: np.ndarray, read: Callable[[str], Any]) -> Observed:
    labels = [[*map(read, labeled.labels[item])] for item in items]
    if recipe.features.kind in OF_COLUMNS:
        columns = _columns(recipe, labeled)[items]
        X = columns if recipe.features.kind in OF_TEMPLATES else _windows(recipe, columns)
        return Observed(X, labels, texts=columns.first_texts())
    inputs = [labeled.inputs[item] for item in items]
    if recipe.features.kind == "attributes":
        return Observed(inputs, labels)
    pixels = pixel_map(recipe)
    offsets = np.zeros(len(inputs) + 1, dtype=np.int64)
    np.cumsum([len(images) for images in inputs], out=offsets[1:])
    matrix = pixels.transform(np.concatenate(inputs))
    return Observed(Sequences(matrix, offsets, feature_names=pixels.names), labels)


def _windows(recipe: Recipe, inputs: TokenColumns) -> Sequences:
    settings = recipe.features
    features = WindowFeatures.parse(settings.templates, settings.column_names, settings.ends)
    try:
        return features.encode(inputs)
    except InputError as error:
        raise RecipeError(f"{recipe.source}: [features] columns: {error}") from error


def pixel_map(recipe: Recipe) -> PixelPairs:
    """Return the map from images to features of a recipe; RecipeError where its dataset has no images."""
    shape = find_dataset(recipe).shape
    if shape is None:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "pixel-pairs": the dataset {recipe.data.dataset!r} has no '
            "images in sequences"
        )
    return PixelPairs(shape, recipe.features.threshold, recipe.features.bias)


def _read_images(path: str | Path, shape: tuple[int, int]) -> Labeled:
    """Return images from a letter table, its MATLAB copy or, also in parts, the text format."""
    if isinstance(path, (str, Path)) and holds_letters(path):
        if Path(path).suffix == ".mat":
            return read_letter_matlab(path, shape)
        return read_letter_table(path, shape[0] * shape[1])
    text = read_crfsuite_text(path)
    images = [_images(text, number, shape) for number in range(text.n_items)]
    return Labeled(images, text.labels, places=text.places)


def holds_letters(path: str | Path) -> bool:
    """Return whether a file is a letter table, which its first line tells, or the MATLAB copy of one."""
    if str(path) == STANDARD_INPUT or Path(path).suffix == ".mat":
        return str(path) != STANDARD_INPUT
    lines = next(cut_parts(path, cut_at_lines), Part("", "")).text.split("\n")
    first = next((line.split("\t") for line in lines if not is_blank(line)), [])
    return len(first) > 2 and first[0].isdigit() and first[2].removeprefix("-").isdigit()


def _images(text: Labeled, number: int, shape: tuple[int, int]) -> np.ndarray:
    """Return the grey values (T, pixels) of one item whose attributes are named after pixels."""
    n_pixels = shape[0] * shape[1]
    pixel_of = {name: pixel for pixel, name in enumerate(PixelPairs(shape).names[:n_pixels])}
    item = text.inputs[number]
    images = np.zeros((len(item), n_pixels))
    for position, attributes in enumerate(item):
        for name, value in attributes.items():
            if name not in pixel_of:
                assert text.places is not None  # of a file
                raise DataError(
                    f"{text.places.where(number, position)}: {name!r} is no pixel; expected p<row>_<column> within "
                    f"{shape[0]}x{shape[1]}, counted from 0"
                )
            images[position, pixel_of[name]] = value
    return images
