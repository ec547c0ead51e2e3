"""Computes the features of recipes of sequences: pixel pairs, attributes in the data, windows over columns, words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.encoding import Sequences
from crfqn.data.file_parts import cut_at_lines, cut_parts
from crfqn.data.files import STANDARD_INPUT, Part, check_regular, is_blank, read_text, safe_source, text_lines
from crfqn.data.pixels import PixelPairs
from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.data.token_columns import TokenColumns
from crfqn.data_options import OF_COLUMNS, OF_TEMPLATES
from crfqn.errors import DataError, InputError, RecipeError
from crfqn.messages import shorten
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.images import read_letter_matlab, read_letter_table
from crfqn.readers.labelled_items import Labeled
from crfqn.recipes import sources
from crfqn.recipes.schema import Recipe

if TYPE_CHECKING:
    from crfqn.estimators.templates import Templates


def fit_sequences(recipe: Recipe, train: Labeled, test: Labeled) -> tuple[Any, Any, Sequence[str] | None]:
    """Return the features of the training and the test part, and their names if the features do not contain names.

    For templates, the test part is returned as columns, which the model encodes.
    """
    settings = recipe.features
    X_train, X_test = sequence_features(recipe, train), sequence_features(recipe, test)
    if settings.kind in OF_TEMPLATES:
        where = f"{recipe.source}: [features]"
        if settings.kind == "templates":
            where = str(recipe.source.parent / settings.templates)
        try:
            return templates_of(recipe).fit_transform(X_train), X_test, None
        except InputError as error:
            raise RecipeError(f"{where}: {error}") from error
    if settings.kind == "windows":
        return X_train, X_test.with_names(X_train.feature_names), X_train.feature_names
    return X_train, X_test, pixel_map(recipe).names if settings.kind == "pixel-pairs" else None


def templates_of(recipe: Recipe) -> Templates:
    """Return the templates that a recipe describes, not yet fitted."""
    from crfqn.estimators.templates import Templates

    settings = recipe.features
    options: dict[str, Any] = {
        "columns": settings.column_names or None,
        "min_count": settings.min_count,
        "n_hashed": settings.n_hashed,
        "gazetteers": read_gazetteers(recipe),
    }
    if settings.kind == "words":
        return Templates(**options)
    file = recipe.source.parent / settings.templates
    with sources.own_files():
        check_regular(file)
        text = read_text(file)
    options |= {"shapes": settings.shapes.split(), "transitions": settings.transitions}
    return Templates(f"{text}\n", **options)


def read_gazetteers(recipe: Recipe) -> dict[str, list[str]]:
    """Return the entries of a recipe's lists of names, by the names of their files without extensions.

    A file has an entry a line. Blank lines and comments (`#`, or `# ...`) are skipped. DataError for a malformed file,
    RecipeError for two of one name.
    """
    lists: dict[str, list[str]] = {}
    for file in map(recipe.source.parent.joinpath, recipe.features.gazetteers):
        name, entries = file.name.lstrip(".").split(".")[0], []
        if name in lists:
            raise RecipeError(
                f"{recipe.source}: [features] gazetteers: two files are called {name!r}; rename one"
            )
        with sources.own_files():
            check_regular(file)
            for number, line in text_lines(safe_source(file)):
                if "\t" in line.strip():
                    raise DataError(f"{file}, line {number}: expected a name, got {shorten(line)}")
                if line.split()[:1] not in ([], ["#"]):
                    entries.append(line.strip())
            if not entries:
                raise DataError(f"{file}: empty; expected names, one a line")
        lists[name] = entries
    return lists


def sequence_features(recipe: Recipe, labeled: Labeled) -> Any:
    """Return the features of items; for templates the columns."""
    settings = recipe.features
    if settings.kind in OF_TEMPLATES or settings.kind == "attributes":
        return labeled.inputs
    if settings.kind == "windows":
        windows = WindowFeatures.parse(settings.templates, settings.column_names, settings.ends)
        try:
            return windows.encode(labeled.inputs)
        except InputError as error:
            raise RecipeError(f"{recipe.source}: [features] columns: {error}") from error
    pixels = pixel_map(recipe)
    offsets = np.cumsum([0, *map(len, labeled.inputs)], dtype=np.int64)
    return Sequences(pixels.transform(np.concatenate(labeled.inputs)), offsets, feature_names=pixels.names)


def columns_of(recipe: Recipe, labeled: Labeled) -> Labeled:
    """Return items as TokenColumns if the features are made from columns; RecipeError for images."""
    inputs = labeled.inputs
    if isinstance(inputs, TokenColumns) or recipe.features.kind not in OF_COLUMNS:
        return labeled
    where = f'{recipe.source}: [features] kind = "{recipe.features.kind}"'
    if inputs and isinstance(inputs[0], np.ndarray):
        raise RecipeError(f'{where}: the dataset {recipe.data.dataset!r} has images; use "pixel-pairs"')
    try:
        return replace(labeled, inputs=TokenColumns.from_items(inputs))
    except InputError as error:
        raise RecipeError(
            f"{where}: {error}; for positions with lists of features choose attributes (--features attributes)"
        ) from error


def pixel_map(recipe: Recipe) -> PixelPairs:
    """Return a recipe's map from images to features; RecipeError if its dataset has no images."""
    shape = sources.find_dataset(recipe).shape
    if shape is None:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "pixel-pairs": the dataset {recipe.data.dataset!r} has no '
            "images in sequences"
        )
    return PixelPairs(shape, recipe.features.threshold, recipe.features.bias)


def holds_letters(path: str | Path) -> bool:
    """Return whether a file is a letter table, by its first line, or the MATLAB copy of one."""
    if str(path) == STANDARD_INPUT or Path(path).suffix == ".mat":
        return str(path) != STANDARD_INPUT
    lines = next(cut_parts(path, cut_at_lines), Part("", "")).text.split("\n")
    first = next((line.split("\t") for line in lines if not is_blank(line)), [])
    return len(first) > 2 and first[0].isdigit() and first[2].removeprefix("-").isdigit()


def read_images(path: str | Path, shape: tuple[int, int]) -> Labeled:
    """Return images from a letter table, its MATLAB copy, or the text format, whose attributes are pixels.

    A file in the text format may be read in parts.
    """
    n_pixels = shape[0] * shape[1]
    if isinstance(path, (str, Path)) and holds_letters(path):
        if Path(path).suffix == ".mat":
            return read_letter_matlab(path, shape)
        return read_letter_table(path, n_pixels)
    text = read_crfsuite_text(path)
    pixel_of = {name: pixel for pixel, name in enumerate(PixelPairs(shape).names[:n_pixels])}
    images = [np.zeros((len(item), n_pixels)) for item in text.inputs]
    for number, item in enumerate(text.inputs):
        for position, attributes in enumerate(item):
            for name, value in attributes.items():
                if name not in pixel_of:
                    raise DataError(
                        f"{text.where(number, position)}: {name!r} is not a pixel; expected p<row>_<column> within "
                        f"{shape[0]}x{shape[1]}, counted from 0"
                    )
                images[number][position, pixel_of[name]] = value
    return Labeled(images, text.labels, places=text.places)
