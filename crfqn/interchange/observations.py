"""Weights of observations, as Wapiti and CRF++ number them, as weights of a chain.

A unigram observation has a weight for each label, a bigram observation one for each pair of labels (the label before
comes first). A chain has one table of transitions: the bigram observations that are the same at every position add up
to it; others are refused. Shapes: K labels, O observations, N weights that are not zero.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.readers.conll import usual_names
from crfqn.tagging.chain_weights import ChainWeights, SparseTable

# The name of a bigram observation that looks the same at every position, where no templates say so: b, B, *, b01.
BARE = re.compile(r"[bB*]\w*:?")


class Observations(NamedTuple):
    """Observations; `starts` are the numbers of their first weights, unigram weights before bigram weights."""

    names: list[str]
    has_unigrams: NDArray[np.bool_]  # (O,), as the next two
    has_bigrams: NDArray[np.bool_]
    starts: NDArray[np.int64]


def constants_of(templates: Collection[str]) -> set[str] | None:
    """Return the templates that look at no token, whose observations are the same everywhere; None without any."""
    return {template for template in templates if "%" not in template} if templates else None


def chain_of(
    labels: list[str],
    observations: Observations,
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    constants: set[str] | None,
    path: str,
) -> ChainWeights:
    """Return the chain of the N weights that are not zero, by their numbers; `constants` are bigram observations that
    are the same at every position, None: told by names. ModelFileError for others, repeated or unknown numbers."""
    names, n_labels = observations.names, len(labels)
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    if (np.diff(numbers) == 0).any():
        raise ModelFileError(f"{path}: the file is damaged: a weight comes twice")
    owner, within = _owners(observations, n_labels, numbers, path)
    n_unigrams = n_labels * observations.has_unigrams[owner]
    is_unigram = within < n_unigrams
    bigrams = np.unique(owner[~is_unigram])
    check_constant([names[o] for o in bigrams.tolist()], constants, path)
    pairs, entry = np.unique(within[~is_unigram] - n_unigrams[~is_unigram], return_inverse=True)
    used, rows = np.unique(owner[is_unigram], return_inverse=True)
    return ChainWeights(
        labels,
        [names[o] for o in used.tolist()],
        SparseTable(rows, within[is_unigram], values[is_unigram]),
        SparseTable(
            pairs // n_labels, pairs % n_labels, np.bincount(entry, values[~is_unigram]).astype(np.float64)
        ),
    )


def _owners(
    observations: Observations, n_labels: int, numbers: NDArray[np.int64], path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the observation of each weight, and the place of the weight among those of the observation."""
    _, has_unigrams, has_bigrams, starts = observations
    sizes = n_labels * has_unigrams + n_labels**2 * has_bigrams
    order = np.argsort(starts, kind="stable")
    firsts, ends = starts[order], (starts + sizes)[order]
    place = np.searchsorted(firsts, numbers, side="right") - 1
    if (ends[:-1] > firsts[1:]).any() or (place < 0).any() or (numbers >= ends[place]).any():
        raise ModelFileError(
            f"{path}: the file is damaged: a weight belongs to no observation, or to more than one"
        )
    return order[place], numbers - firsts[place]


def check_constant(bigrams: list[str], constants: set[str] | None, path: str) -> None:
    """Raise ModelFileError unless the bigram observations with a weight are the same at every position."""
    if constants is None:
        others = [name for name in bigrams if len(bigrams) > 1 or not BARE.fullmatch(name)]
    else:
        others = [name for name in bigrams if name not in constants]
    if others:
        raise ModelFileError(
            f"{path}: label pairs have weights of their own for {len(others)} observations, {others[0]!r:.60} the "
            "first; expected one table of transitions, of bigram templates without %x, as a chain has it: train it "
            "again with these templates as unigrams, U01:%x[0,0] for B01:%x[0,0]"
        )


COLUMN = re.compile(r"%[a-zA-Z]\[[@*]?[+-]?\d+,(\d{1,4})[,\]]")

PAIRS = re.compile(r"[bB][^#]*%")  # of label pairs and tokens: a model that was read has no weight for them


def template_source(
    templates: Sequence[str], attributes: Sequence[str], dialect: str, path: str, n_columns: int = 1
) -> TemplateSource | None:
    """Return the templates of a model, lines of a pattern file; None, with a warning, where they do not make
    `attributes`. `n_columns` are those before the label, if the file knows them."""
    numbers = [int(number) for template in templates for number in COLUMN.findall(template)]
    columns = tuple(usual_names(max([n_columns, *(number + 1 for number in numbers)])))
    kept = [template for template in templates if not PAIRS.match(template)]
    source = TemplateSource(columns, "\n".join(kept) + "\n", dialect)
    try:
        source.vocabulary(attributes)
    except InputError as error:
        warn_caller(
            f"{path}: its templates cannot be used ({error}); the model takes lists of the names of features",
            UserWarning,
        )
        return None
    return source
