"""Templates: a scikit-learn transformer from token columns to features for `ChainCRF`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from crfqn.data.encoding import Sequences
from crfqn.data.files import read_text
from crfqn.data.gazetteers import check_gazetteers
from crfqn.data.inputs import ItemsLike
from crfqn.data.numbering import increasing_columns
from crfqn.data.schemes import BEGIN
from crfqn.data.templates.encoder import Encoder
from crfqn.data.templates.vocabulary import TemplateSource, TemplateVocabulary
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import ColumnWarning, InputError, warn_caller
from crfqn.messages import describe


@dataclass(eq=False, repr=False)
class Templates(TransformerMixin, BaseEstimator):
    r"""Features of token columns by templates, computed from integers without making a text for each token.

    Parameters
    ----------
    patterns : str, path-like, or None
        A pattern file of CRF++ or Wapiti: its name, or its text if the str has a `%` or several lines.
    windows : str, optional
        Window templates, `w[-1]|w[0] pos[0]`; `w.suffix3[0]` is a form of a word.
    shapes : str or list of str, optional
        Columns whose forms are features: prefixes and suffixes of up to 4 letters, shape, digits, capitals, hyphens,
        ...
    words : str, optional
        The column of words, for the features of `crfqn.word_features`: prefixes, suffixes, shape and neighbours of the
        word, and the texts of all other columns up to two positions away, with pairs of neighbours. By default, if no
        other templates are given, it is the first column.
    gazetteers : dict of str to list of str, optional
        Lists of names, `{"cities": ["Rome", "New York"]}`: whether words of the first column, up to two positions away,
        begin or are in an entry is a feature. Entries without capital letters are found in any case, others as they are
        written and in capitals.
    functions : list of functions, optional
        Each returns a list of texts for a token (a dict `column -> text`); it is called once for each distinct token.
    columns : sequence of str, optional
        The columns to read, in the order of their numbers in patterns; by default those of the training data.
    dialect : {"crf++", "wapiti"}, optional
        By default the dialect whose syntax the patterns use.
    has_ends : bool, default True
        Whether windows mark the first and the last position of an item.
    min_count : int, default 1
        Features at fewer positions of the training data are ignored.
    n_hashed : int, optional
        Number of columns that all features share by hashing; features have no names then.
    transitions : bool, default False
        Whether transitions have weights even if a pattern file has no `B`. Without a pattern file they always have.

    Attributes
    ----------
    vocabulary_ : TemplateVocabulary
    n_features_ : int
    has_transitions_ : bool
        Whether a ChainCRF of these features has transitions, weights of neighbouring labels that do not depend on the
        position. Several patterns such as `B0` and `B1` are bigram features instead.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from crfqn import ChainCRF, Templates
    >>> X = [[("the", "DT"), ("dog", "NN")], [("a", "DT"), ("cat", "NN")]]
    >>> model = make_pipeline(Templates("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB"), ChainCRF(l1=0.1))
    >>> labels = model.fit(X, [["D", "N"], ["D", "N"]]).predict(X)
    >>> [list(map(str, path)) for path in labels]
    [['D', 'N'], ['D', 'N']]
    >>> model[0].get_feature_names_out()[:2].tolist()
    ['U0:a', 'U0:cat']
    """

    patterns: str | PathLike[str] | None = None
    _: KW_ONLY
    windows: str | None = None
    shapes: str | Sequence[str] | None = None
    words: str | None = None
    functions: Sequence[Callable[[dict[str, str]], list[str]]] | None = None
    columns: Sequence[str] | None = None
    dialect: str | None = None
    has_ends: bool = True
    min_count: int = 1
    n_hashed: int | None = None
    transitions: bool = False
    gazetteers: Mapping[str, Sequence[str]] | None = None

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: token columns are not 2-D arrays."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    def set_output(self, *, transform: str | None = None) -> Templates:
        """Return the transformer; raises InputError for another form of the output, which is always `Sequences`.

        Parameters
        ----------
        transform : {None, "default"}

        Raises
        ------
        InputError
            "pandas" and "polars": a data frame has no items.
        """
        if transform not in (None, "default"):
            raise InputError(
                f"transform: expected None or 'default', as features are crfqn.Sequences, sparse rows divided into "
                f"items, which are not a data frame; got {describe(transform)}"
            )
        return self

    def fit(self, X: ItemsLike, y: object = None) -> Templates:
        """Find the features that occur in X.

        Parameters
        ----------
        X : TokenColumns, or list of items
            An item is a list of positions: dicts `column -> text`, sequences of texts, or texts (one column).
        y : ignored

        Raises
        ------
        InputError
            An invalid template (with its line), a missing column, a position without a text in a column.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: ItemsLike, y: object = None, **fit_params: object) -> Sequences:
        """Find the features that occur in X, and return those of X; parameters and errors as in `fit`."""
        columns = self._fit(X)
        return self.vocabulary_.encode(columns)

    def transform(self, X: ItemsLike) -> Sequences:
        """Return the features of X, in any form of `fit`; features that `fit` has not found are ignored."""
        check_is_fitted(self)
        return self.vocabulary_.encode(
            X if self.columns is None else TokenColumns.from_items(X, self.columns)
        )

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the features."""
        check_is_fitted(self)
        return np.array(self.vocabulary_.names, dtype=object)

    def _fit(self, X: ItemsLike) -> TokenColumns:
        columns = TokenColumns.from_items(X, self.columns)
        text = self.patterns
        if text is None:
            text = ""
        elif not isinstance(text, (str, PathLike)):
            raise InputError(
                f"patterns: expected the name or the text of a pattern file, got {describe(text)}"
            )
        elif not (isinstance(text, str) and ("%" in text or "\n" in text)):
            text = read_text(Path(text))
        shapes = (self.shapes,) if isinstance(self.shapes, str) else tuple(self.shapes or ())
        names = tuple(self.columns or columns.names)
        has_patterns = any((self.patterns is not None, self.windows, shapes, self.words, self.functions))
        source = TemplateSource(
            names,
            text,
            self.dialect,
            self.windows or "",
            self.has_ends,
            shapes,
            self.min_count,
            self.n_hashed,
            words=self.words or ("" if has_patterns else "".join(names[:1])),
            transitions=self.transitions,
            gazetteers=check_gazetteers(self.gazetteers or {}),
        )
        increasing = set(increasing_columns(columns) if source.words else ())
        for name in filter(increasing.__contains__, names):
            warn_caller(
                f"column {name!r}: its numbers increase from position to position, as offsets and row numbers do, and "
                "each is a separate feature, which new items will hardly have; to leave it out name the other "
                "columns of a table (--columns), or templates without it (--templates 'w[-1] w[0] w[1]')",
                ColumnWarning,
            )
        functions = tuple(self.functions or ())
        source = source.fitted_to(columns, source.settings(functions))
        settings, marked = source.settings(functions), columns
        if settings.gazetteers is not None:
            marked = settings.gazetteers.add_marks(columns)
            for name in source.gazetteers:
                if BEGIN not in marked.texts[name]:
                    warn_caller(
                        f"gazetteers: no entry of {name!r} occurs in the training data, so it has no effect; entries "
                        "without capital letters are found in any case, others as they are written and in capitals",
                        ColumnWarning,
                    )
        encoder = Encoder.fit(settings, marked)
        self.vocabulary_ = TemplateVocabulary(encoder, asdict(source))
        self.n_features_ = encoder.n_features
        self.has_transitions_ = self.vocabulary_.has_transitions
        return columns
