"""Word counts of texts as features, weighted and scaled: scikit-learn's TfidfVectorizer, fitted to the training part.

A word is two or more letters or digits, its case ignored. Shapes: I documents, F words of the training part.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crfqn.estimators.checks import LARGEST_VALUE
from crfqn.recipes.number_features import ascending_numbers
from crfqn.recipes.schema import Features as Settings

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """Words as features: all F after `fit`, those that are needed when read from a model file.

    Attributes
    ----------
    n_columns : int
        F.
    columns : ndarray of int64, shape (n,)
        Which of the F these are, ascending.
    words : list of n str
        In alphabetical order.
    vectorizer : TfidfVectorizer over these words
    """

    n_columns: int
    columns: NDArray[np.int64]
    words: list[str]
    vectorizer: TfidfVectorizer

    first_id = 0  # texts have no columns

    @classmethod
    def fit(cls, texts: list[str], settings: Settings) -> tuple[TextFeatures, Any]:
        """Learn the words and in how many texts each is; return the features and the texts' csr_array (I, F).

        Raises
        ------
        ValueError
            There are no words.
        """
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
        """Return the words and their idf as JSON values, words of one idf in one text; see `crfqn.recipes.Features`.

        Unless rows are scaled to the norm 1, words without a weight are left out: such a norm needs all words.
        """
        needs_all = self.vectorizer.norm is not None
        places = np.arange(len(self.words)) if needs_all else np.flatnonzero(np.isin(self.columns, used))
        idf = self.vectorizer.idf_ if self.vectorizer.use_idf else np.ones(len(self.words))
        words_of = defaultdict(list)
        for place in places.tolist():
            words_of[float(idf[place])].append(self.words[place])
        return {
            "n_columns": self.n_columns,
            "columns": None if needs_all else self.columns[places].tolist(),
            "words": [[weight, " ".join(words)] for weight, words in sorted(words_of.items())],
        }

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other texts; words not seen in training are left out. See `crfqn.recipes.Features`."""
        from scipy.sparse import csr_array

        if not self.words:
            return csr_array((len(inputs), self.n_columns))
        return self._placed(self.vectorizer.transform(inputs))

    def _placed(self, matrix: Any) -> Any:
        """Return a matrix over the kept words with its columns moved to their places among all F."""
        from scipy.sparse import csr_array

        found = csr_array(matrix)
        found.sort_indices()
        parts = (found.data, self.columns[found.indices], found.indptr)
        return csr_array(parts, shape=(found.shape[0], self.n_columns))

    def name_of(self, column: int) -> str:
        """Return the word of a column."""
        return self.words[int(np.searchsorted(self.columns, column))]


def _vectorizer(settings: Settings, **options: Any) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        binary=settings.weighting == "binary",
        norm=None if settings.norm == "none" else settings.norm,
        sublinear_tf=settings.sublinear_tf,
        **options,
    )
