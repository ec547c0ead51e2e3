"""Weights of observations, as Wapiti and CRF++ number them, as weights of a chain.

A unigram observation has a weight for each label, a bigram observation one for each pair of labels (the label before
comes first). Those of bigram observations that are the same at every position add up to the chain's transitions, others
are bigram features. Shapes: K labels, O observations, N weights that are not zero.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.messages import describe
from crfqn.model.chain_weights import ChainWeights, SparseTable
from crfqn.readers.conll import usual_names
from crfqn.structures.edge_layout import EdgeLayout

# The name of a bigram observation that looks the same at every position, where no templates say so: b, B, *, b01.
BARE = re.compile(r"[bB*]\w*:?")


class Observations(NamedTuple):
    """Observations; `starts` are the numbers of their first weights, unigram weights before bigram weights."""

    names: list[str]
    has_unigrams: NDArray[np.bool_]  # (O,), as the next two
    has_bigrams: NDArray[np.bool_]
    starts: NDArray[np.int64]

    @classmethod
    def in_order(
        cls, names: list[str], has_unigrams: NDArray[np.bool_], has_bigrams: NDArray[np.bool_], n_labels: int
    ) -> Observations:
        """Return observations whose weights follow each other."""
        sizes = cls(names, has_unigrams, has_bigrams, np.empty(0, np.int64)).sizes(n_labels)
        return cls(names, has_unigrams, has_bigrams, np.cumsum(sizes) - sizes)

    def sizes(self, n_labels: int) -> NDArray[np.int64]:
        """Return how many weights each observation has, (O,)."""
        return n_labels * self.has_unigrams + EdgeLayout(n_labels).n_pairs * self.has_bigrams


def constants_of(templates: Collection[str]) -> Counter[str] | None:
    """Return the templates that look at no token, whose observations are the same everywhere, with how often each
    stands, and so how often its weight counts; None without any templates."""
    return Counter(template for template in templates if "%" not in template) if templates else None


def chain_of(
    labels: list[str],
    observations: Observations,
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    constants: Counter[str] | None,
    path: str,
) -> ChainWeights:
    """Return the chain of the N weights that are not zero, by their numbers; `constants` are bigram observations that
    are the same at every position, with how often each counts there; None: told by names. ModelFileError for others,
    repeated or unknown numbers."""
    names, n_labels = observations.names, len(labels)
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    if (np.diff(numbers) == 0).any():
        raise ModelFileError(f"{path}: the file is damaged: a weight comes twice")
    owner, within = _owners(observations, n_labels, numbers, path)
    n_unigrams = n_labels * observations.has_unigrams[owner]
    is_unigram = within < n_unigrams
    bigrams = np.unique(owner[~is_unigram])
    same = same_everywhere([names[o] for o in bigrams.tolist()], constants, path)
    times = np.array([same[name] for name in names], np.int64)[owner]
    is_same = (times > 0) & ~is_unigram
    pairs, entry = np.unique(within[is_same] - n_unigrams[is_same], return_inverse=True)
    first, second, _ = EdgeLayout(n_labels).split(pairs)
    used = np.unique(owner[~is_same])
    rows, is_bigram = np.searchsorted(used, owner), ~is_unigram & ~is_same
    return ChainWeights(
        labels,
        [names[o] for o in used.tolist()],
        SparseTable(rows[is_unigram], within[is_unigram], values[is_unigram]),
        SparseTable(first, second, np.bincount(entry, (times * values)[is_same]).astype(np.float64)),
        SparseTable(rows[is_bigram], (within - n_unigrams)[is_bigram], values[is_bigram]),
    )


def _owners(
    observations: Observations, n_labels: int, numbers: NDArray[np.int64], path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the observation of each weight, and the place of the weight among those of the observation."""
    order = np.argsort(observations.starts, kind="stable")
    firsts, ends = observations.starts[order], (observations.starts + observations.sizes(n_labels))[order]
    place = np.searchsorted(firsts, numbers, side="right") - 1
    if (ends[:-1] > firsts[1:]).any() or (place < 0).any() or (numbers >= ends[place]).any():
        raise ModelFileError(
            f"{path}: the file is damaged: a weight belongs to no observation, or to more than one"
        )
    return order[place], numbers - firsts[place]


def same_everywhere(bigrams: Collection[str], constants: Counter[str] | None, path: str) -> Counter[str]:
    """Return which bigram observations are the same at every position, and how often each counts there: `constants`,
    None: told by names, once. ModelFileError where names do not tell."""
    if constants is not None:
        return constants
    found = Counter(name for name in bigrams if BARE.fullmatch(name))
    if len(found) > 1:
        raise ModelFileError(
            f"{path}: without templates it is not known which of the bigram observations "
            f"{', '.join(map(repr, sorted(found)[:3]))} are the same at every position: expected at most one that "
            "looks so, or a model file, which has the templates"
        )
    return found


COLUMN = re.compile(r"%[a-zA-Z]\[[@*]?[+-]?\d+,(\d{1,4})[,\]]")


def template_source(
    templates: Sequence[str],
    attributes: Sequence[str],
    dialect: str,
    path: str,
    n_columns: int | None,
    least: int = 1,
) -> TemplateSource | None:
    """Return the templates of a model, lines of a pattern file; None, with a warning, where they do not make
    `attributes`. `n_columns` are those before the label in the files to be labelled, None if there may be more than the
    templates use, or than the `least` number that the model's file knows. InputError for fewer."""
    numbers = [int(number) for template in templates for number in COLUMN.findall(template)]
    n_used = max([least, *(number + 1 for number in numbers)])
    if n_columns is not None and (type(n_columns) is not int or n_columns < n_used):
        raise InputError(
            f"{path}: n_columns: expected at least {n_used} columns, which the model uses, got {describe(n_columns)}"
        )
    columns = tuple(usual_names(n_columns or n_used))
    patterns = "\n".join(templates) + "\n"
    source = TemplateSource(columns, patterns, dialect, has_more_columns=n_columns is None)
    try:
        source.vocabulary(attributes)
    except InputError as error:
        warn_caller(
            f"{path}: its templates cannot be used ({error}); the model takes lists of the names of features",
            UserWarning,
        )
        return None
    return source
