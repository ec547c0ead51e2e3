"""Reads the data of recipes of documents.

A document has one label, which may be a node of a taxonomy, or several labels, for rankings.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.choices import BY_FEATURE, WORD_CHARACTER_NGRAMS, WORD_NGRAMS
from crfqn.data.files import check_regular
from crfqn.data.matrices import is_numeric
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError, RecipeError, UnknownFeaturesWarning
from crfqn.messages import Where, shorten
from crfqn.model.featurizers import Featurizer, Numbers, Table, Words
from crfqn.model.tables import CellError
from crfqn.readers.labelled_items import Documents
from crfqn.readers.tables import with_point
from crfqn.recipes import sources
from crfqn.recipes.building import build_estimator
from crfqn.recipes.schema import Recipe
from crfqn.taxonomy.reading import open_taxonomy, read_taxonomy_file

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from crfqn.taxonomy.tree import LabelTree

# What `analyzer = "auto"` chooses from; the first of those with the same accuracy.
NGRAM_CANDIDATES = ((WORD_NGRAMS, (1, 1)), (WORD_NGRAMS, (1, 2)), (WORD_CHARACTER_NGRAMS, (2, 5)))
HELD_OUT_STEP = 5  # one of so many texts of a label, in a seeded order, is held out to choose n-grams


@contextmanager
def cells(where: Where) -> Iterator[None]:
    """Convert the CellError of an item into a DataError with its place."""
    try:
        yield
    except CellError as error:
        raise DataError(f"{where(error.item, None)}: {error.reason}") from error


def check_kind(recipe: Recipe, documents: Documents) -> None:
    """Raise RecipeError if a dataset does not have the inputs of the features."""
    kind, what = ("text", "texts") if isinstance(documents.inputs, list) else ("given", "numbers")
    if recipe.data.dataset and recipe.features.kind != kind:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "{recipe.features.kind}": the dataset '
            f'{recipe.data.dataset!r} has {what}; use "{kind}"'
        )


def check_label_column(recipe: Recipe, documents: Documents, labels: list[str]) -> None:
    """Raise DataError if a table's column of labels has only one label, or continuous numbers."""
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


def recipe_taxonomy(recipe: Recipe, documents: Documents, is_inferred: bool) -> LabelTree:
    """Return the taxonomy of the labels: that of the recipe's file or dataset, or if `is_inferred` that of the paths in
    the training labels, in which test labels may be missing.

    RecipeError for other labels that are not nodes, and for inner nodes if the recipe allows only leaves.
    """
    where, structure = f"{recipe.source}: [structure]", recipe.structure
    place_of = sources.places_of(recipe, documents)
    separator, labels = structure.separator or "/", documents.labels
    tree: LabelTree | None
    if is_inferred:
        try:
            open_taxonomy(None, labels, separator)  # checks that the test labels are paths, too
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
            f'{where} labels = "leaves": {place_of(item, None)}: the label {shorten(labels[item])} is an '
            'inner node of the taxonomy; labels = "nodes" lets documents stop there'
        )
    return tree


def choose_ngrams(
    recipe: Recipe,
    texts: list[str],
    y: Sequence[Any],
    taxonomy: LabelTree | None,
    overrides: Mapping[str, Any],
) -> Recipe:
    """Return the recipe with the analyzer and the range of n-grams out of NGRAM_CANDIDATES whose model has the best
    accuracy on held-out training texts; `overrides` replace parameters of the estimator."""
    from sklearn.exceptions import ConvergenceWarning

    counts: Counter[str] = Counter()
    is_held_out = np.zeros(len(texts), bool)
    for i in np.random.RandomState(0).permutation(len(texts)).tolist():
        counts[str(y[i])] += 1
        is_held_out[i] = counts[str(y[i])] % HELD_OUT_STEP == 0
    if not is_held_out.any():
        raise RecipeError(
            f"{recipe.source}: [features] analyzer: to choose n-grams on held-out texts expected {HELD_OUT_STEP} "
            "training texts or more of a label"
        )

    def part(values: Sequence[Any], places: ArrayLike) -> list[Any]:
        return [values[i] for i in np.flatnonzero(places).tolist()]

    best, best_accuracy = recipe, -1.0
    for analyzer, ngram_range in NGRAM_CANDIDATES:
        features = replace(recipe.features, analyzer=analyzer, ngram_range=ngram_range)
        candidate = replace(recipe, features=features)
        model: Any = build_estimator(candidate, taxonomy=taxonomy, **overrides)
        # Values by the names of features, and a file of the whole training.
        unused = (*BY_FEATURE, "checkpoint")
        model.set_params(**{name: None for name in unused if name in model.get_params()})
        featurizer, X = fit_words(candidate, part(texts, ~is_held_out))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UnknownFeaturesWarning)
            model.fit(X, part(y, ~is_held_out))
            accuracy = model.score(featurizer.transform(part(texts, is_held_out)), part(y, is_held_out))
        if accuracy > best_accuracy:
            best, best_accuracy = candidate, accuracy
    return best


def fit_words(recipe: Recipe, texts: list[str]) -> tuple[Words, csr_array]:
    """Return the vectorizer of texts and their features; RecipeError if there are none."""
    try:
        return Words.fit(texts, recipe.features)
    except ValueError as error:
        raise RecipeError(f"{recipe.source}: [features] has no words: {error}") from error


def fit_documents(
    recipe: Recipe, documents: Documents, items: NDArray
) -> tuple[Featurizer, NDArray | csr_array]:
    """Fit the features to the training part, which has these items; return the features and their matrix."""
    train = documents.part(items)
    if isinstance(train.inputs, TokenColumns):
        with cells(sources.places_of(recipe, documents, items)):
            return Table.fit(train.inputs)
    if not isinstance(train.inputs, list):
        if not train.inputs.nnz:
            raise DataError(f"{recipe.source}: the training part of [data] has no features")
        return Numbers.fit(train.inputs, train.feature_names, recipe.features.scale)
    return fit_words(recipe, train.inputs)
