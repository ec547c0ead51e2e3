"""Features of documents, fitted to the training part: given numbers, or counts of words.

Both have `n_columns`, `columns`, `first_id`, `names`, `transform` and `as_dict`, which a model file keeps.
Shapes: I documents, F columns that have an entry in the training part, or words of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.estimators.checks import LARGEST_VALUE
from crfqn.messages import shorten
from crfqn.readers.items import Documents, drop_unseen_columns
from crfqn.readers.svmlight import LARGEST_ID
from crfqn.recipes.schema import FeaturesSection as Settings

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


def ascending_numbers(name: str, stored: Any, below: int) -> NDArray[np.int64]:
    """Return a list of a model file as ascending numbers 0 ... below - 1; ValueError or the like for anything else."""
    found = np.array(stored, np.int64)
    if (
        found.ndim != 1
        or not (found[1:] > found[:-1]).all()
        or (found.size and not 0 <= found[0] <= found[-1] < below)
    ):
        raise ValueError(f"{name}: expected ascending numbers from 0 to {below - 1}")
    return found


@dataclass(frozen=True, eq=False)
class NumberFeatures:
    """Columns of numbers in use in training (from a file: those with weights), divided by their largest sizes if asked
    for."""

    n_columns: int  # F
    columns: NDArray[np.int64]  # which of the F these are, ascending, (n,)
    sources: NDArray[np.int64]  # the columns of the data that they come from, ascending, counted from 0, (n,)
    names: list[str]
    scales: NDArray[np.float64]  # what they are divided by, (n,)
    # The number of the data's first column in svmlight's format: 0 if the data is in this format itself, so that ids
    # are columns; else 1.
    first_id: int

    @classmethod
    def fit(cls, train: Documents, scale: str) -> tuple[NumberFeatures, Any]:
        """Learn used columns and scales ("none", "max-abs"); return this and the training part's csr_array (I, F)."""
        assert not isinstance(train.inputs, list)
        seen = drop_unseen_columns(train)
        n = len(seen.feature_names or ())
        scales = np.ones(n)
        if scale == "max-abs":
            from sklearn.preprocessing import MaxAbsScaler

            scales = MaxAbsScaler().fit(seen.inputs).scale_
        sources = np.unique(train.inputs.indices).astype(np.int64)
        first_id = 0 if train.feature_names is None else 1
        features = cls(n, np.arange(n), sources, list(seen.feature_names or ()), scales, first_id)
        return features, features.transform(train.inputs)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> NumberFeatures:
        """Return the features that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        n_columns = int(table["n_columns"])
        columns = ascending_numbers("columns", table["columns"], n_columns)
        sources = ascending_numbers("sources", table["sources"], LARGEST_ID + 1)
        scales = np.ones(columns.size) if table["scales"] is None else np.array(table["scales"], np.float64)
        names = list(map(str, sources if table["names"] is None else table["names"]))
        features = cls(n_columns, columns, sources, names, scales, int(table["first_id"]))
        if not columns.shape == sources.shape == scales.shape == (len(names),):
            raise ValueError("columns, sources, scales and names differ in length")
        if not (np.isfinite(scales).all() and scales.all()):
            raise ValueError("scales: expected finite numbers other than 0")
        return features

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return as JSON values what computes the `used` columns, ascending numbers."""
        places = np.flatnonzero(np.isin(self.columns, used))
        sources = self.sources[places].tolist()
        names = [self.names[place] for place in places]
        scales = self.scales[places].tolist()
        return {
            "n_columns": self.n_columns,
            "columns": self.columns[places].tolist(),
            "sources": sources,
            "names": None if names == list(map(str, sources)) else names,
            "scales": None if set(scales) <= {1.0} else scales,
            "first_id": self.first_id,
        }

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other documents, csr_array (I, F), without new columns; theirs count from `first`."""
        from scipy.sparse import csr_array

        wanted = self.sources + first
        places = np.searchsorted(wanted, inputs.indices)
        is_in = np.append(wanted, -1)[places] == inputs.indices
        places = places[is_in]
        ends = np.concatenate([[0], np.cumsum(is_in)])[inputs.indptr]
        with np.errstate(over="ignore"):
            values = inputs.data[is_in] / self.scales[places]
        if not np.isfinite(values).all():
            name = self.names[places[~np.isfinite(values)][0]]
            raise InputError(f"feature {shorten(name)}: a value is too large for its scale in the training")
        parts = (values, self.columns[places], ends)
        return csr_array(parts, shape=(inputs.shape[0], self.n_columns))


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """Word counts of texts, weighted and scaled: scikit-learn's TfidfVectorizer, words being two or more letters or
    digits, case ignored; read from a model file those that are needed."""

    n_columns: int  # F
    columns: NDArray[np.int64]  # which of the F these are, ascending, (n,)
    names: list[str]  # the words in alphabetical order
    vectorizer: TfidfVectorizer  # over these words

    first_id = 0  # texts have no columns

    @classmethod
    def fit(cls, texts: list[str], settings: Settings) -> tuple[TextFeatures, Any]:
        """Learn the words, and in how many texts each is; return the features and the texts' csr_array (I, F)."""
        vectorizer = _vectorizer(settings, use_idf=settings.weighting == "tf-idf", min_df=settings.min_df)
        matrix = vectorizer.fit_transform(texts)
        words = vectorizer.get_feature_names_out().tolist()
        features = cls(len(words), np.arange(len(words)), words, vectorizer)
        return features, features._placed(matrix)

    @classmethod
    def from_dict(cls, table: dict[str, Any], settings: Settings) -> TextFeatures:
        """Return the features that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        weights = {word: float(idf) for idf, words in table["words"] for word in str.split(words)}
        words, n_columns = sorted(weights), int(table["n_columns"])
        given = range(len(words)) if table["columns"] is None else table["columns"]
        columns = ascending_numbers("columns", given, n_columns)
        if columns.shape != (len(words),):
            raise ValueError("columns and words differ in number")
        vectorizer = _vectorizer(settings, vocabulary=words)
        if words:  # none are left where no word has a weight
            vectorizer.idf_ = np.array([weights[word] for word in words])
            if not (np.abs(vectorizer.idf_) <= LARGEST_VALUE).all():
                raise ValueError(f"words: expected weights of at most {LARGEST_VALUE:g} in size")
        return cls(n_columns, columns, words, vectorizer)

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return the words and their idf as JSON values, words of one idf in one text, without those of no weight,
        unless rows are scaled to the norm 1, which needs all words."""
        needs_all = self.vectorizer.norm is not None
        places = np.arange(len(self.names)) if needs_all else np.flatnonzero(np.isin(self.columns, used))
        idf = self.vectorizer.idf_ if self.vectorizer.use_idf else np.ones(len(self.names))
        words_of = defaultdict(list)
        for place in places.tolist():
            words_of[float(idf[place])].append(self.names[place])
        return {
            "n_columns": self.n_columns,
            "columns": None if needs_all else self.columns[places].tolist(),
            "words": [[weight, " ".join(words)] for weight, words in sorted(words_of.items())],
        }

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other texts, csr_array (I, F); words not seen in training are left out."""
        from scipy.sparse import csr_array

        if not self.names:
            return csr_array((len(inputs), self.n_columns))
        return self._placed(self.vectorizer.transform(inputs))

    def _placed(self, matrix: Any) -> Any:
        """Return a matrix over the kept words with its columns moved to their places among all F."""
        from scipy.sparse import csr_array

        found = csr_array(matrix)
        found.sort_indices()
        parts = (found.data, self.columns[found.indices], found.indptr)
        return csr_array(parts, shape=(found.shape[0], self.n_columns))


def _vectorizer(settings: Settings, **options: Any) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        binary=settings.weighting == "binary",
        norm=None if settings.norm == "none" else settings.norm,
        sublinear_tf=settings.sublinear_tf,
        **options,
    )


Features = NumberFeatures | TextFeatures
