"""Features of documents, fitted to the training part: given numbers, counts of words, or the cells of a table.

All have `n_columns`, `columns`, `first_id`, `names`, `columns_read`, `transform`, and `as_dict`, which a model file
keeps.
Shapes: I documents, F columns that have an entry in the training part, or words of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.matrices import is_number
from crfqn.data.token_columns import TokenColumns
from crfqn.data.tokens import find_words
from crfqn.errors import InputError, TextColumnWarning, warn_caller
from crfqn.messages import shorten
from crfqn.model.tables import CellError, NumberColumn, TableColumns, TextColumn, is_missing, numbers_of
from crfqn.model.texts import WordCounts, ascending_numbers
from crfqn.readers.items import Documents, drop_unseen_columns
from crfqn.readers.svmlight import LARGEST_ID
from crfqn.recipes.schema import FeaturesSection as Settings

LARGEST = 1e150  # number of a column, whose squares can be summed
SMALLEST = 1e-12  # deviation, to the largest number of a column, below which all its numbers are one but for rounding


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

    columns_read = None

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
    """Word counts of texts, weighted and scaled as by scikit-learn's TfidfVectorizer, words being those of
    `crfqn.data.tokens.find_words`; read from a model file those that are needed."""

    counts: WordCounts

    first_id, columns_read = 0, None  # texts have no columns

    @property
    def n_columns(self) -> int:
        """The number of columns, F."""
        return self.counts.n_columns

    @property
    def columns(self) -> NDArray[np.int64]:
        """Which of the F these are, ascending, (n,)."""
        return self.counts.columns

    @property
    def names(self) -> list[str]:
        """The words in alphabetical order."""
        return self.counts.words

    @classmethod
    def fit(cls, texts: list[str], settings: Settings) -> tuple[TextFeatures, Any]:
        """Learn the words, and in how many texts each is; return the features and the texts' csr_array (I, F)."""
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
        matrix = csr_array(vectorizer.fit_transform(texts))
        matrix.sort_indices()
        words = vectorizer.get_feature_names_out().tolist()
        idf = vectorizer.idf_ if vectorizer.use_idf else np.ones(len(words))
        weights = list(zip(idf, words, strict=True))
        table = {"n_columns": len(words), "columns": None, "words": weights, "rules": settings.words}
        return cls.from_dict(table, settings), matrix

    @classmethod
    def from_dict(cls, table: dict[str, Any], settings: Settings) -> TextFeatures:
        """Return the features that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        return cls(WordCounts.from_dict(table, settings.weighting, settings.norm, settings.sublinear_tf))

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return the words and their idf as JSON values, words of one idf in one text, without those of no weight,
        unless rows are scaled to the norm 1, which needs all words."""
        needs_all = self.counts.is_normed
        places = np.arange(len(self.names)) if needs_all else np.flatnonzero(np.isin(self.columns, used))
        words_of = defaultdict(list)
        for place in places.tolist():
            words_of[float(self.counts.idf[place])].append(self.names[place])
        return {
            "n_columns": self.n_columns,
            "columns": None if needs_all else self.columns[places].tolist(),
            "words": [[weight, " ".join(words)] for weight, words in sorted(words_of.items())],
            "rules": self.counts.rules,
        }

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other texts, csr_array (I, F); words not seen in training are left out."""
        from scipy.sparse import csr_array

        row_ends, columns, values = self.counts.rows(inputs)
        return csr_array((values, columns, row_ends), shape=(len(inputs), self.n_columns))


OWN_TEXTS = (
    "column {name!r}: {n:,} different texts in {n_items:,} items, each of them a feature, which new items will hardly "
    "have; to train on their words choose features text (--features text --columns {name}), or leave it out by drop "
    "(--drop {name})"
)
MISSING_HINT = (
    "fill it in (a column of texts may have empty cells), or leave the column out by drop (--drop {name})"
)


@dataclass(frozen=True, eq=False)
class TableFeatures:
    """Columns of a table: one all of whose cells are numbers, or missing, is a column of numbers, divided by its
    standard deviation, and centred unless most are 0; any other has a feature for each of its texts, but not
    for the empty one."""

    table: TableColumns

    first_id = 0

    @property
    def n_columns(self) -> int:
        """The number of features, F."""
        return self.table.n_features

    @property
    def columns(self) -> NDArray[np.int64]:
        """Which of the F these are, ascending, (n,)."""
        return np.array([*self.table.names()], np.int64)

    @property
    def names(self) -> list[str]:
        """The names of the features: `x` of numbers, `colour=red` of texts."""
        return [*self.table.names().values()]

    @property
    def columns_read(self) -> list[str]:
        """The columns of a table that are needed."""
        return self.table.titles

    @classmethod
    def fit(cls, cells: TokenColumns) -> tuple[TableFeatures, Any]:
        """Learn the columns; return the features and the rows' csr_array (I, F). CellError for a missing number, and
        for a text among numbers, which more than half of a column's different cells are."""
        columns: list[NumberColumn | TextColumn] = []
        n_features = 0
        for name, texts in cells.texts.items():
            distinct = set(texts)
            known = [text for text in distinct if not is_missing(text)]
            if known and all(map(is_number, known)):
                columns.append(_number_column(name, n_features, texts))
                n_features += 1
            elif 2 * sum(map(is_number, known)) > len(known):
                raise _odd_cell(name, texts, known)
            else:
                values = sorted(distinct - {""})
                if 2 * len(values) > len(texts):
                    warn_caller(
                        OWN_TEXTS.format(name=name, n=len(values), n_items=len(texts)), TextColumnWarning
                    )
                columns.append(TextColumn(name, {text: n_features + n for n, text in enumerate(values)}))
                n_features += len(values)
        features = cls(TableColumns(columns, n_features))
        return features, features.transform(cells)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> TableFeatures:
        """Return the features that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        return cls(TableColumns.from_dict(table))

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return as JSON values what computes the `used` features."""
        return self.table.as_dict(used)

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other rows, csr_array (I, F); texts not seen in training have none."""
        from scipy.sparse import csr_array

        row_ends, columns, values = self.table.rows(inputs.texts, len(inputs))
        return csr_array((values, columns, row_ends), shape=(len(inputs), self.n_columns))


def _odd_cell(name: str, texts: list[str], known: list[str]) -> CellError:
    """Return what is wrong with a column of numbers and of texts, fewer of these."""
    item = next(i for i, text in enumerate(texts) if not is_missing(text) and not is_number(text))
    n_numbers = sum(map(is_number, known))
    return CellError(
        item,
        f"column {name!r}: expected a number, as {n_numbers} of its {len(known)} different cells are, got "
        f"{shorten(texts[item])}; correct it, leave the column out by drop (--drop {name}), or, if its cells name "
        "kinds, put a letter before its numbers",
    )


def _number_column(name: str, feature: int, texts: list[str]) -> NumberColumn:
    try:
        values = numbers_of(name, texts)
    except CellError as error:
        raise CellError(error.item, f"{error.reason}; {MISSING_HINT.format(name=name)}") from error
    largest = int(np.abs(values).argmax())
    if abs(values[largest]) > LARGEST:
        raise CellError(
            largest,
            f"column {name!r}: expected a number of at most {LARGEST:g} in size, got {shorten(texts[largest])}",
        )
    center = float(values.mean()) if 2 * np.count_nonzero(values) > values.size else 0.0
    scale = float(np.sqrt(np.mean((values - center) ** 2)))
    return NumberColumn(name, feature, center, scale if scale > np.abs(values).max() * SMALLEST else 1.0)


Features = NumberFeatures | TextFeatures | TableFeatures
