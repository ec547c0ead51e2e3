"""Recipes of documents, a label each: over a taxonomy of the labels, or flat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crfqn.errors import DataError, InputError, ModelFileError, RecipeError
from crfqn.readers.documents import Documents, concatenate
from crfqn.readers.labelled_text import read_labelled_texts
from crfqn.readers.svmlight import read_svmlight
from crfqn.readers.taxonomy_file import read_taxonomy_file
from crfqn.recipe_schema import Recipe
from crfqn.recipes.number_features import NumberFeatures
from crfqn.recipes.prepared import Features, Observed, Prepared
from crfqn.recipes.source import load_dataset, split
from crfqn.recipes.text_features import TextFeatures
from crfqn.taxonomies import open_taxonomy
from crfqn.wording import shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crfqn.label_tree import LabelTree


def prepare_documents(recipe: Recipe) -> Prepared:
    """See `crfqn.recipes.prepare`."""
    documents = _documents(recipe)
    tree = _taxonomy(recipe, documents) if recipe.structure.kind == "taxonomy" else None
    train, test = (_part(documents, items) for items in split(recipe, documents.n_items, documents.n_train))
    features, matrix = _fit(recipe, train)
    return Prepared(
        X_train=matrix,
        y_train=train.labels,
        X_test=features.transform(test.inputs),
        y_test=test.labels,
        feature_names=[features.name_of(column) for column in range(features.n_columns)],
        fingerprint=documents.digest(),
        taxonomy=tree,
        features=features,
    )


def observe_documents(recipe: Recipe, path: str | Path | None, features: Features | None) -> Observed:
    """See `crfqn.recipes.observe`."""
    if path is None or features is None:
        documents = _documents(recipe)
        train, test = split(recipe, documents.n_items, documents.n_train)
        features = features or _fit(recipe, _part(documents, train))[0]
        if path is None:
            part = _part(documents, test)
            return Observed(features.transform(part.inputs), part.labels)
    new = _read(recipe, path)
    matrix = features.transform(new.inputs, features.first_id)
    return Observed(matrix, new.labels if any(new.labels) else None)


def restore_features(recipe: Recipe, table: Any, path: str | Path) -> Features:
    """The features that a model file keeps (`Features.as_dict`); ModelFileError if they make no sense."""
    try:
        if recipe.features.kind == "text":
            return TextFeatures.from_dict(table, recipe.features)
        return NumberFeatures.from_dict(table)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: its features cannot be read: {error!r}") from error


def _documents(recipe: Recipe) -> Documents:
    """The recipe's data, all documents."""
    if recipe.data.dataset:
        documents = load_dataset(recipe)
        assert isinstance(documents, Documents)  # or it would have raised
        has = "text" if isinstance(documents.inputs, list) else "given"
        if recipe.features.kind != has:
            what = {"text": "texts", "given": "numbers"}[has]
            raise RecipeError(
                f'{recipe.source}: [features] kind = "{recipe.features.kind}": the dataset '
                f'{recipe.data.dataset!r} has {what}; use "{has}"'
            )
        return documents
    folder = recipe.source.parent
    train, test = (_read(recipe, folder / name) for name in (recipe.data.train, recipe.data.test))
    documents = concatenate(train, test)
    n_unknown = documents.labels.count("")
    if n_unknown:
        raise DataError(f"{recipe.source}: the files of [data] have {n_unknown} documents without a label")
    return documents


def _read(recipe: Recipe, path: str | Path) -> Documents:
    """A file of one's own."""
    if recipe.features.kind == "text":
        return read_labelled_texts(path)
    return Documents(*read_svmlight(path, ignore_features=()))


def _taxonomy(recipe: Recipe, documents: Documents) -> LabelTree:
    """The taxonomy of the labels, which are checked to be nodes of it."""
    where, labels = f"{recipe.source}: [structure]", documents.labels
    settings, tree = recipe.structure, documents.taxonomy
    separator = settings.separator or "/"
    try:
        if settings.taxonomy:
            where += f' taxonomy = "{settings.taxonomy}"'
            tree = read_taxonomy_file(recipe.source.parent / settings.taxonomy, separator)
        elif not recipe.data.dataset:
            tree = open_taxonomy(None, labels, separator)
        if tree is None:
            raise RecipeError(
                f'{where} kind = "taxonomy": the dataset {recipe.data.dataset!r} has no taxonomy; use "flat"'
            )
        nodes = tree.nodes_of(labels)
    except InputError as error:
        raise RecipeError(f"{where}: {error}") from error
    inner = nodes[~tree.is_leaf[nodes]]
    if inner.size and settings.labels == "leaves":
        raise RecipeError(
            f'{where} labels = "leaves": the label {shorten(tree.names[inner[0]])} is an inner node of the '
            f'taxonomy; labels = "nodes" lets documents stop there'
        )
    return tree


def _fit(recipe: Recipe, train: Documents) -> tuple[Features, Any]:
    """The features, and their values in the training part."""
    if not isinstance(train.inputs, list):
        if not train.inputs.nnz:
            raise DataError(f"{recipe.source}: the training part of [data] has no features")
        return NumberFeatures.fit(train, recipe.features.scale)
    try:
        return TextFeatures.fit(train.inputs, recipe.features)
    except ValueError as error:
        raise RecipeError(f"{recipe.source}: [features] cannot be learned from the texts: {error}") from error


def _part(documents: Documents, items: NDArray) -> Documents:
    inputs, names = documents.inputs, documents.feature_names
    taken = [inputs[item] for item in items] if isinstance(inputs, list) else inputs[items]
    return Documents(taken, [documents.labels[item] for item in items], feature_names=names)
