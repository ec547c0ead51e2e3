"""Reads and encodes the data of a recipe for training, and new files into the same features."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from crfqn.data_options import AUTO_NGRAMS, OF_COLUMNS
from crfqn.model.featurizers import Featurizer
from crfqn.readers.labelled_items import Labeled, LabelledItems
from crfqn.recipes import documents, sources
from crfqn.recipes.prepared import Observed, Origin, Prepared
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sequences import columns_of, fit_sequences, pixel_map, read_images, sequence_features

NO_OVERRIDES: Mapping[str, Any] = MappingProxyType({})


def prepare_data(recipe: Recipe, overrides: Mapping[str, Any] = NO_OVERRIDES) -> Prepared:
    """Read the recipe's data, split it into training and test items, and compute the features.

    `overrides` replace parameters of the estimator, which chooses n-grams if the recipe's are "auto".

    DataUnavailableError, with advice how to get the data; DataError for malformed data; RecipeError if the split, the
    features or the structure do not match the data.
    """
    return _prepared(recipe, sources.load_items(recipe), overrides)


def _prepared(recipe: Recipe, data: Any, overrides: Mapping[str, Any] = NO_OVERRIDES) -> Prepared:
    train_items, test_items = sources.split(recipe, data)
    places: dict[str, Any] = {
        "train_places": sources.places_of(recipe, data, train_items),
        "test_places": sources.places_of(recipe, data, test_items),
    }
    if recipe.structure.kind == "chain":
        columns = columns_of(recipe, data)
        train, test = columns.part(train_items), columns.part(test_items)
        y_train, y_test = targets(recipe, train, train), targets(recipe, test, train)
        X_train, X_test, names = fit_sequences(recipe, train, test)
        weights = train.weights
        return Prepared(
            X_train, y_train, X_test, y_test, names, data.digest(), sample_weight=weights, **places
        )
    documents.check_kind(recipe, data)
    train, test = data.part(train_items), data.part(test_items)
    is_tree = recipe.structure.kind == "taxonomy"
    is_inferred = is_tree and not (recipe.structure.taxonomy or recipe.data.dataset)
    tree = documents.recipe_taxonomy(recipe, data, is_inferred) if is_tree else None
    if recipe.features.kind == "table" and recipe.structure.kind == "flat":
        documents.check_label_column(recipe, data, train.labels)
    y_train = targets(recipe, train, train)
    if recipe.features.analyzer == AUTO_NGRAMS:
        given_tree = None if is_inferred else tree
        recipe = documents.choose_ngrams(recipe, train.inputs, y_train, given_tree, overrides)
    features, matrix = documents.fit_documents(recipe, data, train_items)
    with documents.cells(places["test_places"]):
        X_test = features.transform(test.inputs) if test.labels else matrix[:0]
    return Prepared(
        matrix,
        y_train,
        X_test,
        targets(recipe, test, train),
        features.names,
        data.digest(),
        tree,
        features,
        is_inferred,
        **places,
    )


def observe(
    recipe: Recipe,
    path: Origin = None,
    features: Featurizer | None = None,
    *,
    keeps_blank: bool = False,
    columns: Sequence[str] | None = None,
) -> Observed:
    """Return the features of new files, and the labels, if any.

    Recipes of pixels read letter tables (plain, .gz, .mat) of their image size, and CRFsuite's text format with an
    attribute `p<row>_<column>[:value]` for each pixel that is not 0. Recipes of attributes read the text format; those
    of windows, templates or words read columns, with labels or without; those of documents read svmlight's format,
    whose ids are those of the training data or the columns counted from 1, or lines `label TAB text`, or `text`.

    path : a file, a list of files, `-` for standard input, or None for the recipe's test items
    features : those of a model file; None fits them to the training data again
    keeps_blank : whether a blank line among texts is a document without words
    columns : the columns that the model reads, if they are not those of the training data

    DataError for a missing or malformed file (with file and line), for attributes that are not pixels, and, unless the
    recipe has `missing`, for items in which only some positions have labels.
    """
    is_chain = recipe.structure.kind == "chain"
    is_fitted = is_chain or features is not None
    data: Any = sources.load_items(recipe) if path is None or not is_fitted else None
    if not is_fitted:
        features = _prepared(recipe, data).features
    if path is None:
        train_items, test_items = sources.split(recipe, data)
        if not is_chain:
            documents.check_kind(recipe, data)
    new: Any  # Labeled or Documents
    y: list[Any] | None
    if path is None:
        new = data.part(test_items)
        y = targets(recipe, new, data.part(train_items))
    else:
        with sources.own_files():
            if features is not None:
                columns = features.columns_read
            if isinstance(path, list):
                new = sources.read_set(recipe, path, columns, is_new=True)
            elif recipe.features.kind == "pixel-pairs":
                new = read_images(path, pixel_map(recipe).shape)
            else:
                new = sources.read_items(recipe, path, columns, keeps_blank=keeps_blank, is_new=True)
        if is_chain and recipe.data.missing is None:
            has_labels = new.known_labels() is not None
        else:
            has_labels = any(new.each_label())
        y = targets(recipe, new, new) if has_labels else None
    origin = None if path is None else new
    if is_chain:
        new = columns_of(recipe, new)
        texts = new.inputs.first_texts() if recipe.features.kind in OF_COLUMNS else None
        return Observed(sequence_features(recipe, new), y, origin, texts)
    assert features is not None
    with documents.cells(new.where):
        matrix = features.transform(new.inputs, 0 if path is None else features.first_id)
    return Observed(matrix, y, origin, None if hasattr(new.inputs, "tocsr") else new.inputs)


def targets(recipe: Recipe, data: LabelledItems, known: LabelledItems) -> list[Any]:
    """Return labels for the estimator.

    They are numbers if the labels of `known`, the training or new items, are. Names of a taxonomy's nodes stay texts,
    and the labels of a ranking are lists, separated by commas in the data.
    """
    kind = recipe.structure.kind

    def sets(items: LabelledItems) -> LabelledItems:
        names = [[part for part in map(str.strip, label.split(",")) if part] for label in items.labels]
        return Labeled(items.inputs, names, has_numbers=items.has_numbers)

    if kind == "ranking":
        data, known = sets(data), sets(known)
    return data.targets(str if kind == "taxonomy" else known.reader())
