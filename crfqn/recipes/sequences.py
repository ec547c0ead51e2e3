"""Data of recipes of sequences: pairs of pixels, attributes that the data names, windows over columns, words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.file_parts import cut_at_lines, cut_parts
from crfqn.data.files import STANDARD_INPUT, Part, check_regular, is_blank, is_stream, read_text
from crfqn.data.labels import target_reader
from crfqn.data.pixels import PixelPairs
from crfqn.data.sequences import Sequences
from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.data.token_columns import TokenColumns
from crfqn.data_options import OF_COLUMNS, OF_TEMPLATES
from crfqn.errors import DataError, EmptyDataError, InputError, RecipeError
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.images import read_letter_matlab, read_letter_table
from crfqn.readers.items import Labeled
from crfqn.readers.registry import find_format
from crfqn.readers.tables import LABELS
from crfqn.recipes import sources
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sources import Observed, Origin, Prepared

if TYPE_CHECKING:
    from crfqn.estimators.templates import Templates

# Of the only file, however many workers there are: what they have is not to change the result.
SHARDS_OF_FILE = 4


def prepare_sequences(recipe: Recipe) -> Prepared:
    """Return the data of a recipe of sequences, cut and mapped to features; see `crfqn.recipes.prepare`."""
    kind = recipe.features.kind
    labeled: Labeled = sources.load_items(recipe, partial(_check_labels, recipe))
    train, test = sources.split(recipe, labeled)
    names: Sequence[str] | None = pixel_map(recipe).names if kind == "pixel-pairs" else None
    read = _reader(labeled, train)
    fingerprint = labeled.digest()
    if kind in OF_COLUMNS:
        labeled = replace(labeled, inputs=_columns(recipe, labeled))
    (X_train, y_train), (X_test, y_test) = (_observed(recipe, labeled, part, read) for part in (train, test))
    if kind in OF_TEMPLATES:  # the model encodes the columns of the test part
        where = f"{recipe.source}: [features]"
        if kind == "templates":
            where = str(recipe.source.parent / recipe.features.templates)
        try:
            X_train = templates_of(recipe).fit_transform(X_train)
        except InputError as error:
            raise RecipeError(f"{where}: {error}") from error
    elif kind == "windows":
        names = X_train.feature_names
        X_test = X_test.with_names(names)
    weights = labeled.weights and [labeled.weights[item] for item in train]
    return Prepared(
        X_train,
        y_train,
        X_test,
        y_test,
        names,
        fingerprint,
        sample_weight=weights,
        train_places=sources.places_of(recipe, labeled, train),
        test_places=sources.places_of(recipe, labeled, test),
    )


def templates_of(recipe: Recipe) -> Templates:
    """Return the templates that a recipe describes, not yet fitted."""
    from crfqn.estimators.templates import Templates

    settings = recipe.features
    options: dict[str, Any] = {
        "columns": settings.column_names or None,
        "min_count": settings.min_count,
        "n_hashed": settings.n_hashed,
    }
    if settings.kind == "words":
        return Templates(**options)
    file = recipe.source.parent / settings.templates
    with sources.own_files():
        check_regular(file)
        text = read_text(file)
    options |= {"shapes": settings.shapes.split(), "transitions": settings.transitions}
    return Templates(f"{text}\n", **options)


def observe_sequences(recipe: Recipe, path: Origin, columns: Sequence[str] | None = None) -> Observed:
    """Return features and labels of a file of sequences, or of the recipe's test part; see `crfqn.recipes.observe`."""
    if path is None:
        labeled: Labeled = sources.load_items(recipe, partial(_check_labels, recipe))
        train, items = sources.split(recipe, labeled)
        read = _reader(labeled, train)
    else:
        with sources.own_files():
            if isinstance(path, list):
                labeled = sources.read_set(recipe, path, columns, is_new=True)
            elif recipe.features.kind == "pixel-pairs":
                labeled = _read_images(path, pixel_map(recipe).shape)
            else:
                labeled = sources.read_items(recipe, path, columns, is_new=True)
        items, read = np.arange(labeled.n_items), str
    X, y = _observed(recipe, labeled, items, read)
    texts = None
    if recipe.features.kind in OF_COLUMNS:
        texts = (X if isinstance(X, TokenColumns) else _columns(recipe, labeled)[items]).first_texts()
    if path is None:
        return Observed(X, y, texts=texts)
    known = None if labeled.known_labels() is None else labeled.targets()
    return Observed(X, known, labeled, texts)


def _reader(labeled: Labeled, train: np.ndarray) -> Callable[[str], Any]:
    """Return the function from a label's text to its target (text or number) that the training labels determine."""
    texts = chain.from_iterable(labeled.labels[item] for item in train)
    return target_reader(texts) if labeled.has_numbers else str


def _check_labels(recipe: Recipe, labeled: Labeled) -> None:
    """Raise DataError if a position has no label; the message names the line of the first one."""
    for item, labels in enumerate(labeled.labels):
        if "" in labels:
            assert labeled.places is not None  # of a file
            row = find_format(sources.format_of(recipe))
            form = row.title
            if row.titles is not None:
                titles = recipe.data.label or ", ".join(LABELS)
                form = f"one in each row, in a column called {titles} (--label names another)"
            elif recipe.features.column_names and "separator" in row.options():
                form = f"`{' '.join([*recipe.features.column_names, 'label'])}`"
            place = labeled.places.where(item, labels.index(""))
            raise DataError(f"{place}: no label; expected {form}")


def _observed(
    recipe: Recipe, labeled: Labeled, items: np.ndarray, read: Callable[[str], Any]
) -> tuple[Any, list[list[Any]]]:
    """Return features and labels of some items; of templates their columns."""
    settings, labels = recipe.features, [[*map(read, labeled.labels[item])] for item in items]
    if settings.kind in OF_COLUMNS:
        columns = _columns(recipe, labeled)[items]
        if settings.kind in OF_TEMPLATES:
            return columns, labels
        windows = WindowFeatures.parse(settings.templates, settings.column_names, settings.ends)
        try:
            return windows.encode(columns), labels
        except InputError as error:
            raise RecipeError(f"{recipe.source}: [features] columns: {error}") from error
    inputs = [labeled.inputs[item] for item in items]
    if settings.kind == "attributes":
        return inputs, labels
    pixels = pixel_map(recipe)
    offsets = np.cumsum([0, *map(len, inputs)], dtype=np.int64)
    matrix = pixels.transform(np.concatenate(inputs))
    return Sequences(matrix, offsets, feature_names=pixels.names), labels


def _columns(recipe: Recipe, labeled: Labeled) -> TokenColumns:
    """Return the columns of a recipe's data; RecipeError for data that has images."""
    inputs = labeled.inputs
    if isinstance(inputs, TokenColumns):
        return inputs
    where = f'{recipe.source}: [features] kind = "{recipe.features.kind}"'
    if inputs and isinstance(inputs[0], np.ndarray):
        raise RecipeError(f'{where}: the dataset {recipe.data.dataset!r} has images; use "pixel-pairs"')
    try:
        return TokenColumns.from_items(inputs)
    except InputError as error:
        raise RecipeError(
            f"{where}: {error}; for positions that name their own features choose attributes (--features attributes)"
        ) from error


def pixel_map(recipe: Recipe) -> PixelPairs:
    """Return the map from images to features of a recipe; RecipeError where its dataset has no images."""
    shape = sources.find_dataset(recipe).shape
    if shape is None:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "pixel-pairs": the dataset {recipe.data.dataset!r} has no '
            "images in sequences"
        )
    return PixelPairs(shape, recipe.features.threshold, recipe.features.bias)


def holds_letters(path: str | Path) -> bool:
    """Return whether a file is a letter table, which its first line tells, or the MATLAB copy of one."""
    if str(path) == STANDARD_INPUT or Path(path).suffix == ".mat":
        return str(path) != STANDARD_INPUT
    lines = next(cut_parts(path, cut_at_lines), Part("", "")).text.split("\n")
    first = next((line.split("\t") for line in lines if not is_blank(line)), [])
    return len(first) > 2 and first[0].isdigit() and first[2].removeprefix("-").isdigit()


def _read_images(path: str | Path, shape: tuple[int, int]) -> Labeled:
    """Return images from a letter table, its MATLAB copy or, also in parts, the text format, whose attributes are named
    after pixels."""
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
                        f"{text.where(number, position)}: {name!r} is no pixel; expected p<row>_<column> within "
                        f"{shape[0]}x{shape[1]}, counted from 0"
                    )
                images[number][position, pixel_of[name]] = value
    return Labeled(images, text.labels, places=text.places)


@dataclass(frozen=True)
class RecipeShard:
    """The `number`-th of `of` runs of items of a file, with the features of a recipe but for templates; called, it
    reads the file and keeps these items."""

    recipe: Recipe
    path: str
    number: int
    of: int

    def __call__(self) -> Any:
        try:
            observed = observe_sequences(self.recipe, self.path, self.recipe.features.column_names or None)
        except EmptyDataError:
            return [], []
        if observed.y is None:
            raise DataError(f"{self.path}: expected labels, got none")
        n_items = len(observed.y)
        run = slice(self.number * n_items // self.of, (self.number + 1) * n_items // self.of)
        weights = observed.data.weights
        return observed.X[run], observed.y[run], weights and weights[run]


def prepare_shards(recipe: Recipe) -> Prepared:
    """Return the training data as shards that the workers of a Dask cluster read themselves: one for each training
    file, or `SHARDS_OF_FILE` of the only one. The test part is read here.

    InputError for datasets and standard input, which workers cannot read, and for other structures than chains.
    """
    from crfqn.distributed.sources import Shards

    paths = sources.files_named(recipe.data.names("train"), recipe.source.parent)
    if recipe.structure.kind != "chain":
        raise InputError(f"on a cluster expected sequences, got a recipe of {recipe.structure.kind} labels")
    if recipe.data.dataset or any(map(is_stream, paths)):
        raise InputError("on a cluster expected files of one's own, which the workers read (--data FILE)")
    n_parts = SHARDS_OF_FILE if len(paths) == 1 else 1
    reads = [
        RecipeShard(recipe, str(Path(path).resolve()), number, n_parts)
        for path in paths
        for number in range(n_parts)
    ]
    templates = templates_of(recipe) if recipe.features.kind in OF_TEMPLATES else None
    X_test, y_test = [], []
    if names := recipe.data.names("test"):
        test = observe_sequences(recipe, sources.files_named(names, recipe.source.parent))
        X_test, y_test = test.X, test.y or []
    return Prepared(Shards(reads, templates=templates), [], X_test, y_test, None, "", is_sharded=True)
