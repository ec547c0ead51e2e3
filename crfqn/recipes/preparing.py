"""Preparation of data by a recipe: its own training and test items, and new files with the same features."""

from collections.abc import Sequence
from pathlib import Path

from crfqn.recipes.document_features import Features
from crfqn.recipes.documents import observe_documents, prepare_documents
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sequences import observe_sequences, prepare_sequences
from crfqn.recipes.sources import Observed, Prepared


def prepare(recipe: Recipe) -> Prepared:
    """Read the recipe's data, cut it into training and test items, compute the features.

    Raises
    ------
    DataUnavailableError
        The data is not on this machine; the text says how to get it, and what can be trained without.
    DataError
        The data is there, but malformed.
    RecipeError
        Split, features or structure do not fit the data.
    """
    return (prepare_sequences if recipe.structure.kind == "chain" else prepare_documents)(recipe)


def observe(
    recipe: Recipe,
    path: str | Path | None = None,
    features: Features | None = None,
    *,
    keeps_blank: bool = False,
    columns: Sequence[str] | None = None,
) -> Observed:
    """Return the features of a new file, computed as the recipe does, and its labels if it has any.

    Parameters
    ----------
    recipe : Recipe
    path : str, Path or None
        None: the test items of the recipe's own data. `-` is standard input. A pixel recipe reads letter tables
        (plain, .gz, .mat) of its image size, and CRFsuite's text format with an attribute `p<row>_<column>[:value]`
        for each pixel that is not 0; an attribute recipe reads the text format, one of windows, templates or words its
        columns, with a label or without. Of documents, given numbers are read from svmlight's
        format, whose ids are those of the training data, or count its columns from 1; texts from lines
        `label TAB text`, or `text`.
    features : Features or None
        Features of documents, as a model file keeps them; None fits them to the training data again.
    keeps_blank : bool
        Whether a blank line among texts is a document without words; otherwise it is skipped.
    columns : sequence of str or None
        The columns that the recipe's model reads, where the recipe takes those of its training data.

    Raises
    ------
    DataError
        No such file, malformed file (file and line named), an attribute that is no pixel, labels for some
        positions only.
    """
    if recipe.structure.kind == "chain":
        return observe_sequences(recipe, path, columns)
    return observe_documents(recipe, path, features, keeps_blank)
