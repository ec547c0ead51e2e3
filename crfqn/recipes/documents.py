"""Data of recipes of documents.

A document has a label, a node of a taxonomy or flat, or several labels that are ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.files import check_regular
from crfqn.data.labels import target_reader
from crfqn.data.matrices import is_numeric
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError, RecipeError
from crfqn.messages import Where, shorten
from crfqn.model.featurizers import Featurizer, Numbers, Table, Words
from crfqn.model.tables import CellError
from crfqn.readers.items import Documents
from crfqn.readers.registry import find_format
from crfqn.readers.tables import with_point
from crfqn.recipes import sources
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sources import Observed, Origin, Prepared
from crfqn.taxonomy.reading import open_taxonomy, read_taxonomy_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crfqn.taxonomy.tree import LabelTree


def prepare_documents(recipe: Recipe) -> Prepared:
    """Return the data of a recipe of documents, cut and mapped to features; see `crfqn.recipes.prepare`."""
    documents = _documents(recipe)
    train_items, test_items = sources.split(recipe, documents)
    train, test = _part(documents, train_items), _part(documents, test_items)
    is_tree = recipe.structure.kind == "taxonomy"
    is_inferred = is_tree and not (recipe.structure.taxonomy or recipe.data.dataset)
    tree = _taxonomy(recipe, documents, is_inferred) if is_tree else None
    if recipe.features.kind == "table" and recipe.structure.kind == "flat":
        _check_classes(recipe, documents, train.labels)
    features, matrix = _fit(recipe, documents, train_items)
    X_test = matrix[:0]
    if test.labels:
        with _cells(sources.places_of(recipe, documents, test_items)):
            X_test = features.transform(test.inputs)
    return Prepared(
        X_train=matrix,
        y_train=_targets(recipe, documents, train.labels, train.labels),
        X_test=X_test,
        y_test=_targets(recipe, documents, test.labels, train.labels),
        feature_names=features.names,
        fingerprint=documents.digest(),
        taxonomy=tree,
        is_inferred=is_inferred,
        features=features,
        train_places=sources.places_of(recipe, documents, train_items),
        test_places=sources.places_of(recipe, documents, test_items),
    )


def observe_documents(
    recipe: Recipe, path: Origin, features: Featurizer | None, keeps_blank: bool = False
) -> Observed:
    """Return features and labels of a file of documents, or of the recipe's test part; see `crfqn.recipes.observe`."""
    if path is None or features is None:
        documents = _documents(recipe)
        train, test = sources.split(recipe, documents)
        features = features or _fit(recipe, documents, train)[0]
        if path is None:
            part = _part(documents, test)
            known = [documents.labels[item] for item in train]
            texts = None if hasattr(part.inputs, "tocsr") else part.inputs
            y = _targets(recipe, documents, part.labels, known)
            return Observed(features.transform(part.inputs), y, texts=texts)
    if isinstance(path, list):
        new = sources.read_set(recipe, path, features.columns_read, is_new=True)
    else:
        with sources.own_files():
            new = sources.read_items(
                recipe, path, features.columns_read, keeps_blank=keeps_blank, is_new=True
            )
    with _cells(new.where):
        matrix = features.transform(new.inputs, features.first_id)
    labels = _targets(recipe, new, new.labels, new.labels) if any(new.labels) else None
    return Observed(matrix, labels, new, None if hasattr(new.inputs, "tocsr") else new.inputs)


@contextmanager
def _cells(where: Where) -> Iterator[None]:
    """Turn the CellError of an item into a DataError with the item's place."""
    try:
        yield
    except CellError as error:
        raise DataError(f"{where(error.item, None)}: {error.reason}") from error


def _targets(recipe: Recipe, documents: Documents, labels: list[str], known: list[str]) -> list[Any]:
    """Return labels as the estimator takes them. They are numbers where the labels `known` of the training or new file
    are; names of a taxonomy's nodes stay texts, and the labels of a ranking are separated by commas."""
    is_ranking = recipe.structure.kind == "ranking"

    def parts(label: str) -> list[str]:
        return [part for part in map(str.strip, label.split(",")) if part]

    read: Callable[[str], Any] = str
    if documents.has_numbers and recipe.structure.kind != "taxonomy":
        read = target_reader(chain.from_iterable(map(parts, known)) if is_ranking else known)
    return [[*map(read, parts(label))] for label in labels] if is_ranking else [*map(read, labels)]


def _documents(recipe: Recipe) -> Documents:
    """Return the recipe's data, all documents."""
    documents: Documents = sources.load_items(
        recipe, partial(_check_labels, form=find_format(sources.format_of(recipe)).title)
    )
    if recipe.data.dataset:
        kind, what = ("text", "texts") if isinstance(documents.inputs, list) else ("given", "numbers")
        if recipe.features.kind != kind:
            raise RecipeError(
                f'{recipe.source}: [features] kind = "{recipe.features.kind}": the dataset '
                f'{recipe.data.dataset!r} has {what}; use "{kind}"'
            )
    return documents


def _check_labels(documents: Documents, form: str) -> None:
    """Raise DataError if a document has no label; the message names the line of the first one."""
    n_unknown = documents.labels.count("")
    if n_unknown:
        others = f" (and {n_unknown - 1} more)" if n_unknown > 1 else ""
        raise DataError(f"{documents.where(documents.labels.index(''))}: no label{others}; expected {form}")


def _check_classes(recipe: Recipe, documents: Documents, labels: list[str]) -> None:
    """Raise DataError where a table's column of labels has one label only, or continuous numbers."""
    distinct, remedy = set(labels), "; label (--label) names another column"
    if len(distinct) == 1:
        names = ", ".join(recipe.data.names("train"))
        raise DataError(f"{names}: expected at least two labels, all items have {shorten(labels[0])}{remedy}")
    numbers = [float(with_point(label)) for label in distinct if is_numeric(with_point(label))]
    is_whole = all(number.is_integer() for number in numbers)
    if 2 * len(distinct) > len(labels) and len(numbers) == len(distinct) and not is_whole:
        odd = next(label for label in labels if not float(with_point(label)).is_integer())
        place = sources.places_of(recipe, documents)(documents.labels.index(odd), None)
        raise DataError(
            f"{place}: expected a class as label, got {shorten(odd)}, one of {len(distinct)} continuous numbers of "
            f"{len(labels)} items{remedy}"
        )


def _taxonomy(recipe: Recipe, documents: Documents, is_inferred: bool) -> LabelTree:
    """Return the taxonomy of the labels: the one of the recipe's file or dataset, or the paths in the labels of the
    training part; test labels need not be nodes of that one. RecipeError for other labels that are no nodes, and for
    inner nodes where the recipe allows only leaves."""
    where, structure = f"{recipe.source}: [structure]", recipe.structure
    place_of = sources.places_of(recipe, documents)
    separator, labels = structure.separator or "/", documents.labels
    tree: LabelTree | None
    if is_inferred:
        try:
            open_taxonomy(None, labels, separator)  # that the test part's are paths as well
            tree = open_taxonomy(None, labels[: documents.n_train], separator)
        except InputError as error:
            is_broken = [not all(map(str.strip, label.split(separator))) for label in labels]
            place = f" {place_of(is_broken.index(True), None)}:" if any(is_broken) else ""
            raise RecipeError(f"{where}:{place} {error}") from error
        nodes = tree.nodes_of(labels[: documents.n_train])
    else:
        tree = documents.taxonomy
        if structure.taxonomy:
            where += f' taxonomy = "{structure.taxonomy}"'
            file = recipe.source.parent / structure.taxonomy
            with sources.own_files():
                check_regular(file)
                tree = read_taxonomy_file(file, separator)
        if tree is None:
            raise RecipeError(
                f'{where} kind = "taxonomy": the dataset {recipe.data.dataset!r} has no taxonomy; use "flat"'
            )
        try:
            nodes = tree.nodes_of(labels)
        except InputError as error:
            known = set(tree.names)
            item = next(i for i, label in enumerate(labels) if label not in known)
            raise RecipeError(f"{where}: {place_of(item, None)}: {error}") from error
    inner = np.flatnonzero(~tree.is_leaf[nodes])
    if inner.size and structure.labels == "leaves":
        item = int(inner[0])
        raise RecipeError(
            f'{where} labels = "leaves": {place_of(item, None)}: the label {shorten(labels[item])} is an inner node of '
            'the taxonomy; labels = "nodes" lets documents stop there'
        )
    return tree


def _fit(recipe: Recipe, documents: Documents, items: NDArray) -> tuple[Featurizer, Any]:
    """Return the features fitted to the training part, which has these items, and their matrix there."""
    train = _part(documents, items)
    if isinstance(train.inputs, TokenColumns):
        with _cells(sources.places_of(recipe, documents, items)):
            return Table.fit(train.inputs)
    if not isinstance(train.inputs, list):
        if not train.inputs.nnz:
            raise DataError(f"{recipe.source}: the training part of [data] has no features")
        return Numbers.fit(train.inputs, train.feature_names, recipe.features.scale)
    try:
        return Words.fit(train.inputs, recipe.features)
    except ValueError as error:
        raise RecipeError(f"{recipe.source}: [features] has no words: {error}") from error


def _part(documents: Documents, items: NDArray) -> Documents:
    inputs = documents.inputs
    inputs = [inputs[item] for item in items] if isinstance(inputs, list) else inputs[items]
    labels = [documents.labels[item] for item in items]
    return replace(documents, inputs=inputs, labels=labels, taxonomy=None, places=None)
