"""Weighted counts of the n-grams of texts, equal to those of scikit-learn's TfidfVectorizer, without scikit-learn.

`crfqn.data.tokenizers.find_ngrams` finds the n-grams, by default words. Shapes: I texts, W n-grams, F columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.arrays import Vector
from crfqn.choices import ANALYZERS, WORD_CHARACTER_NGRAMS, WORD_NGRAMS
from crfqn.data.items import WRAP_HINT, check_is_list_of_items
from crfqn.data.token_rows import Rows
from crfqn.data.tokenizers import (
    BLANK_RULES,
    LETTER_RULES,
    UNICODE_RULES,
    Tokenizer,
    find_ngrams,
    find_pieces,
    ngrams_of_piece,
)
from crfqn.errors import InputError, TokenWarning, warn_caller
from crfqn.messages import describe, place_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NO_PLACES: NDArray[np.int64] = np.empty(0, np.int64)
MAX_STORED_PIECES = 20_000  # blank-separated pieces whose n-grams a vectorizer keeps: some megabytes
SEPARATOR = "\n"  # of n-grams in a model file; none contains it
MAX_IDF = 1e12  # of a file, in absolute value: products of counts and idf stay finite; ln I + 1 is far below


def is_text_list(X: Any) -> bool:
    """Return whether items are texts, in a list, an array or a column of a data frame."""
    is_list = isinstance(X, (list, tuple)) or (getattr(X, "ndim", 0) == 1 and hasattr(X, "__iter__"))
    return is_list and len(X) > 0 and all(isinstance(text, str) for text in X)


# Fraction of the training tokens that a tokenizer must get right; otherwise users are warned.
MIN_TOKENIZER_SHARE = 0.98


def tokenizer_of(model: Any) -> Tokenizer:
    """Return the tokenizer of a model's training data, or the default one if it is not known."""
    vocabulary = getattr(model, "vocabulary", None)
    return (None if vocabulary is None else vocabulary.tokenizer) or Tokenizer(UNICODE_RULES)


def cut_text(model: Any, text: str) -> list[str]:
    """Return the tokens of a raw text for a chain's model. Issues a TokenWarning, once, if the tokenizer gets less than
    MIN_TOKENIZER_SHARE of the training tokens right."""
    tokenizer = tokenizer_of(model)
    is_poor = tokenizer.share is not None and tokenizer.share < MIN_TOKENIZER_SHARE
    if is_poor and not model.vocabulary.has_warned_of_share:
        model.vocabulary.has_warned_of_share = True
        warn_caller(share_text(tokenizer), TokenWarning)
    return [text[start:end] for start, end in tokenizer.spans(text)]


def share_text(tokenizer: Tokenizer) -> str:
    """Return a sentence on the fraction of the training tokens that a tokenizer gets right."""
    return (
        f"raw text is cut by the tokenizer {tokenizer.name!r}, which gets {100 * (tokenizer.share or 0):.1f} % of the "
        "training tokens right"
    )


@dataclass(frozen=True, eq=False)
class Words:
    """A vectorizer of texts.

    names : the n-grams in alphabetical order (W,); columns : the column of each among F, ascending; idf : float64 (W,)
    is_binary : whether an n-gram counts once a text; is_sublinear : whether counts are replaced by 1 + log(count)
    is_normed : whether rows have the norm 1; rules, analyzer, ngram_range : as in `find_ngrams`
    """

    names: list[str]
    n_columns: int
    columns: NDArray[np.int64]
    idf: Vector
    is_binary: bool
    is_sublinear: bool
    is_normed: bool
    rules: str = UNICODE_RULES
    analyzer: str = WORD_NGRAMS
    ngram_range: tuple[int, int] = (1, 1)

    KIND: ClassVar[str] = "text"
    first_id: ClassVar[int] = 0
    columns_read: ClassVar[None] = None  # texts have no columns

    @property
    def description(self) -> str:
        """The kind of n-grams as text, "word 1- to 2-grams"."""
        smallest, largest = self.ngram_range
        lengths = f"{smallest}-" if smallest == largest else f"{smallest}- to {largest}-"
        return f"{self.analyzer} {lengths}grams"

    @classmethod
    def fit(cls, texts: list[str], settings: Any) -> tuple[Words, csr_array]:
        """Learn the n-grams and the number of texts with each; return the vectorizer and the texts' features (I, F).
        `settings`: `words` (rules), `analyzer`, `ngram_range`, `weighting`, `norm`, `sublinear_tf`, `min_df` and
        `max_df` of a recipe's features."""
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import TfidfTransformer

        smallest, largest = settings.ngram_range
        counts, words = count_ngrams(texts, settings.words, settings.analyzer, smallest, largest)
        n_texts = np.bincount(counts.indices, minlength=len(words))
        low, high = (
            number if isinstance(number, int) else number * len(texts)
            for number in (settings.min_df, settings.max_df)
        )
        stays = np.flatnonzero((n_texts >= low) & (n_texts <= high))
        if not stays.size:
            raise ValueError(f"expected words in {low:g} to {high:g} texts (min_df, max_df), got none")
        counts, words = counts[:, stays], words[stays].tolist()
        if is_binary := settings.weighting == "binary":
            counts.data[:] = 1
        norm = None if settings.norm == "none" else settings.norm
        has_idf, is_sublinear = settings.weighting == "tf-idf", settings.sublinear_tf
        weigher = TfidfTransformer(norm=norm, use_idf=has_idf, sublinear_tf=is_sublinear)
        matrix = csr_array(weigher.fit_transform(counts.astype(np.float64)))
        matrix.sort_indices()
        idf = weigher.idf_ if has_idf else np.ones(len(words))
        columns, is_normed = np.arange(len(words)), norm is not None
        found_by = settings.words, settings.analyzer, (smallest, largest)
        featurizer = cls(words, len(words), columns, idf, is_binary, is_sublinear, is_normed, *found_by)
        return featurizer, matrix

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Words:
        """Return the vectorizer that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        weights = {word: float(idf) for idf, words in table["words"] for word in words.split(SEPARATOR)}
        words, n_columns = sorted(weights), int(table["n_columns"])
        numbers = range(len(words)) if table["columns"] is None else table["columns"]
        columns = ascending_numbers("columns", numbers, n_columns)
        if columns.shape != (len(words),):
            raise ValueError("columns and words differ in number")
        idf = np.array([weights[word] for word in words], np.float64)
        if not (np.abs(idf) <= MAX_IDF).all():
            raise ValueError(f"words: expected weights up to {MAX_IDF:g} in absolute value")
        rules = table["rules"]
        if rules not in (UNICODE_RULES, LETTER_RULES, BLANK_RULES):
            raise ValueError(f"rules of words: expected {UNICODE_RULES}, {LETTER_RULES} or {BLANK_RULES}")
        analyzer, (smallest, largest) = table["analyzer"], map(int, table["ngram_range"])
        if analyzer not in ANALYZERS or not 1 <= smallest <= largest:
            raise ValueError(f"n-grams: expected {', '.join(ANALYZERS)} and two integers >= 1 in order")
        is_binary, is_normed = table["weighting"] == "binary", table["norm"] == "l2"
        found_by = rules, analyzer, (smallest, largest)
        is_sublinear = bool(table["sublinear_tf"])
        return cls(words, n_columns, columns, idf, is_binary, is_sublinear, is_normed, *found_by)

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return the words and their idf as JSON values, the words of one idf in one text: those in `used` columns, or
        all words if rows have the norm 1, which depends on all."""
        needs_all = self.is_normed
        places = np.arange(len(self.names)) if needs_all else np.flatnonzero(np.isin(self.columns, used))
        words_of = defaultdict(list)
        for place in places.tolist():
            words_of[float(self.idf[place])].append(self.names[place])
        return {
            "kind": self.KIND,
            "weighting": "binary" if self.is_binary else "count",
            "norm": "l2" if self.is_normed else "none",
            "sublinear_tf": self.is_sublinear,
            "n_columns": self.n_columns,
            "columns": None if needs_all else self.columns[places].tolist(),
            "words": [[weight, SEPARATOR.join(words)] for weight, words in sorted(words_of.items())],
            "rules": self.rules,
            "analyzer": self.analyzer,
            "ngram_range": list(self.ngram_range),
        }

    def transform(self, inputs: Sequence[str], first: int = 0) -> csr_array:
        """Return the features of texts, csr_array (I, F); without n-grams not seen in training."""
        from scipy.sparse import csr_array

        row_ends, columns, values = self.rows(inputs)
        return csr_array((values, columns, row_ends), shape=(len(inputs), self.n_columns))

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return dict(zip(self.names, range(len(self.names)), strict=True))

    def _places(self, text: str) -> NDArray[np.int64]:
        """Return the places in `names` of the n-grams of a text, (n,), in any order, as often as they occur."""
        if self.analyzer != WORD_CHARACTER_NGRAMS:
            return self._known_places(find_ngrams(self.rules, self.analyzer, *self.ngram_range, text))
        places, by_piece = [NO_PLACES], self._places_by_piece
        for piece in find_pieces(text):
            if (of_piece := by_piece.get(piece)) is None:
                of_piece = self._known_places(ngrams_of_piece(*self.ngram_range, piece))
                if len(by_piece) < MAX_STORED_PIECES:
                    by_piece[piece] = of_piece
            places.append(of_piece)
        return np.concatenate(places)

    def _known_places(self, ngrams: list[str]) -> NDArray[np.int64]:
        place_of = self._place_of
        return np.array([place_of[ngram] for ngram in ngrams if ngram in place_of], np.int64)

    @cached_property
    def _places_by_piece(self) -> dict[str, NDArray[np.int64]]:
        return {}

    def rows(self, texts: Sequence[object]) -> Rows:
        """Return the features of texts, without n-grams not seen in training."""
        check_is_list_of_items(texts, "a list of texts", WRAP_HINT)
        ends, places, counts = [0], [NO_PLACES], [np.empty(0, np.intp)]
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"{place_of(i)}: expected a text, got {describe(text)}")
            distinct_places, text_counts = np.unique(self._places(text), return_counts=True)
            places.append(distinct_places)
            counts.append(text_counts)
            ends.append(ends[-1] + distinct_places.size)
        at, values = np.concatenate(places), np.concatenate(counts).astype(np.float64)
        if self.is_binary:
            values[:] = 1.0
        if self.is_sublinear:
            values = np.log(values) + 1.0
        values *= self.idf[at]
        if self.is_normed:
            text_of = np.repeat(np.arange(len(texts)), np.diff(ends))
            squares = np.bincount(text_of, values * values, len(texts))
            squares[squares == 0] = 1.0
            values /= np.sqrt(squares)[text_of]
        return Rows(np.array(ends, np.int64), self.columns[at], values)


def count_ngrams(
    texts: list[str], rules: str, analyzer: str, smallest: int, largest: int
) -> tuple[csr_array, NDArray[np.object_]]:
    """Return the counts of the n-grams of texts, (I, W), and their names, sorted; ValueError if there are none."""
    from sklearn.feature_extraction.text import CountVectorizer

    ngrams_of = partial(find_ngrams, rules, analyzer, smallest, largest)
    if not any(map(ngrams_of, texts)):
        words = f"words of at least two letters or digits (words = {rules})"
        expected = words if largest == 1 else f"{smallest} ({analyzer}) or more in a row"
        raise ValueError(f"expected {expected}, got none")
    if analyzer != WORD_CHARACTER_NGRAMS:
        vectorizer = CountVectorizer(analyzer=ngrams_of)
        return vectorizer.fit_transform(texts), vectorizer.get_feature_names_out()
    pieces = CountVectorizer(analyzer=find_pieces)  # texts repeat pieces: each is analyzed once
    of_texts = pieces.fit_transform(texts)
    vectorizer = CountVectorizer(analyzer=partial(ngrams_of_piece, smallest, largest))
    of_pieces = vectorizer.fit_transform(pieces.get_feature_names_out())
    return of_texts @ of_pieces, vectorizer.get_feature_names_out()


def ascending_numbers(name: str, stored: ArrayLike, below: int) -> NDArray[np.int64]:
    """Return a list of a model file as an array; ValueError unless it has ascending numbers from 0 to below - 1."""
    numbers = np.array(stored, np.int64)
    if (
        numbers.ndim != 1
        or not (numbers[1:] > numbers[:-1]).all()
        or (numbers.size and not 0 <= numbers[0] <= numbers[-1] < below)
    ):
        raise ValueError(f"{name}: expected ascending numbers from 0 to {below - 1}")
    return numbers
