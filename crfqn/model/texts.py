"""Weighted counts of the words of texts, equal to those of scikit-learn's TfidfVectorizer, without scikit-learn.

`crfqn.data.tokenizers.find_words` finds the words. Shapes: I texts, W words, F columns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.arrays import Vector
from crfqn.data.items import WRAP_HINT, check_is_list_of_items
from crfqn.data.token_rows import Rows
from crfqn.data.tokenizers import BLANK_RULES, LETTER_RULES, UNICODE_RULES, Tokenizer, find_words
from crfqn.errors import InputError, TokenWarning, warn_caller
from crfqn.messages import describe, place_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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

    names : the words in alphabetical order (W,); columns : the column of each among F, ascending; idf : float64 (W,)
    is_binary : whether a word counts once a text; is_sublinear : whether counts are replaced by 1 + log(count)
    is_normed : whether rows have the norm 1; rules : of words, as in `find_words`
    """

    names: list[str]
    n_columns: int
    columns: NDArray[np.int64]
    idf: Vector
    is_binary: bool
    is_sublinear: bool
    is_normed: bool
    rules: str = UNICODE_RULES

    KIND: ClassVar[str] = "text"
    first_id: ClassVar[int] = 0
    columns_read: ClassVar[None] = None  # texts have no columns

    @classmethod
    def fit(cls, texts: list[str], settings: Any) -> tuple[Words, csr_array]:
        """Learn the words and the number of texts with each; return the vectorizer and the texts' features (I, F).
        `settings`: `words` (rules), `weighting`, `norm`, `sublinear_tf` and `min_df` of a recipe's features."""
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            analyzer=partial(find_words, rules=settings.words),
            binary=settings.weighting == "binary",
            norm=None if settings.norm == "none" else settings.norm,
            sublinear_tf=settings.sublinear_tf,
            use_idf=settings.weighting == "tf-idf",
            min_df=settings.min_df,
        )
        analyze = vectorizer.build_analyzer()
        if not any(map(analyze, texts)):
            raise ValueError(
                f"expected words of at least two letters or digits (words = {settings.words}), got none"
            )
        matrix = csr_array(vectorizer.fit_transform(texts))
        matrix.sort_indices()
        words = vectorizer.get_feature_names_out().tolist()
        idf = vectorizer.idf_ if vectorizer.use_idf else np.ones(len(words))
        is_binary, is_normed = settings.weighting == "binary", settings.norm == "l2"
        columns, is_sublinear = np.arange(len(words)), settings.sublinear_tf
        featurizer = cls(words, len(words), columns, idf, is_binary, is_sublinear, is_normed, settings.words)
        return featurizer, matrix

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Words:
        """Return the vectorizer that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        weights = {word: float(idf) for idf, words in table["words"] for word in str.split(words)}
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
        is_binary, is_normed = table["weighting"] == "binary", table["norm"] == "l2"
        return cls(words, n_columns, columns, idf, is_binary, bool(table["sublinear_tf"]), is_normed, rules)

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
            "words": [[weight, " ".join(words)] for weight, words in sorted(words_of.items())],
            "rules": self.rules,
        }

    def transform(self, inputs: Sequence[str], first: int = 0) -> csr_array:
        """Return the features of texts, csr_array (I, F); without words not seen in training."""
        from scipy.sparse import csr_array

        row_ends, columns, values = self.rows(inputs)
        return csr_array((values, columns, row_ends), shape=(len(inputs), self.n_columns))

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return dict(zip(self.names, range(len(self.names)), strict=True))

    def rows(self, texts: Sequence[object]) -> Rows:
        """Return the features of texts, without words not seen in training."""
        check_is_list_of_items(texts, "a list of texts", WRAP_HINT)
        ends, places, counts = [0], [], []
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"{place_of(i)}: expected a text, got {describe(text)}")
            words = find_words(text, self.rules)
            counted_places = sorted(
                Counter(self._place_of[word] for word in words if word in self._place_of).items()
            )
            places += [place for place, _ in counted_places]
            counts += [count for _, count in counted_places]
            ends.append(len(places))
        at, values = np.array(places, np.int64), np.array(counts, np.float64)
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
