"""Weights of observations, as Wapiti and CRF++ number them, as weights of a chain.

A unigram observation has a weight for each label, a bigram observation one for each pair of labels (the label before
comes first). Those of bigram observations that are the same at every position add up to the chain's transitions, others
are bigram features. Shapes: K labels, O observations, N weights that are not zero.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.estimators.storage import restore
from crfqn.messages import describe
from crfqn.model.content import IMPORTED_FROM, Entries, chain_file
from crfqn.readers.conll import usual_names
from crfqn.structures.edge_layout import EdgeLayout

# The name of a bigram observation that looks the same at every position, where no templates say so: b, B, *, b01.
BARE = re.compile(r"[bB*]\w*:?")
COLUMN = re.compile(r"%[a-zA-Z]\[[@*]?[+-]?\d+,(\d{1,4})[,\]]")  # in a template
ChainWeights = tuple[list[str], list[str], Entries, Entries, Entries]  # as `chain_file` takes them


class Observations(NamedTuple):
    """Observations; `starts` are the numbers of their first weights, unigram weights before bigram weights."""

    names: list[str]
    has_unigrams: NDArray[np.bool_]  # (O,), as the next two
    has_bigrams: NDArray[np.bool_]
    starts: NDArray[np.int64]


def n_weights_of(
    has_unigrams: NDArray[np.bool_], has_bigrams: NDArray[np.bool_], n_labels: int
) -> NDArray[np.int64]:
    """Return how many weights each observation has, (O,)."""
    return n_labels * has_unigrams + EdgeLayout(n_labels).n_pairs * has_bigrams


def constants_of(templates: Collection[str]) -> Counter[str] | None:
    """Return the templates that look at no token, whose observations are the same everywhere, with how often each
    stands, and so how often its weight counts; None without any templates."""
    return Counter(template for template in templates if "%" not in template) if templates else None


def chain_of(
    labels: list[str],
    observations: Observations,
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    templates: Sequence[str],
    path: str,
) -> ChainWeights:
    """Return the chain of the N weights that are not zero, by their numbers; `templates` are those of the model, none
    where it does not tell. ModelFileError for other, repeated or unknown numbers."""
    names, n_labels = observations.names, len(labels)
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    if (np.diff(numbers) == 0).any():
        raise ModelFileError(f"{path}: the file is damaged: a weight comes twice")
    order = np.argsort(observations.starts, kind="stable")
    sizes = n_weights_of(observations.has_unigrams, observations.has_bigrams, n_labels)
    firsts, ends = observations.starts[order], (observations.starts + sizes)[order]
    place = np.searchsorted(firsts, numbers, side="right") - 1
    if (ends[:-1] > firsts[1:]).any() or (place < 0).any() or (numbers >= ends[place]).any():
        raise ModelFileError(
            f"{path}: the file is damaged: a weight belongs to no observation, or to more than one"
        )
    owner, within = order[place], numbers - firsts[place]
    n_unigrams = n_labels * observations.has_unigrams[owner]
    is_unigram = within < n_unigrams
    bigrams = np.unique(owner[~is_unigram])
    same = same_everywhere([names[o] for o in bigrams.tolist()], constants_of(templates), path)
    times = np.array([same[name] for name in names], np.int64)[owner]
    is_same = (times > 0) & ~is_unigram
    pairs, entry = np.unique(within[is_same] - n_unigrams[is_same], return_inverse=True)
    first, second, _ = EdgeLayout(n_labels).split(pairs)
    used = np.unique(owner[~is_same])
    rows, is_bigram = np.searchsorted(used, owner), ~is_unigram & ~is_same
    return (
        labels,
        [names[o] for o in used.tolist()],
        Entries(values[is_unigram], rows[is_unigram], within[is_unigram]),
        Entries(np.bincount(entry, (times * values)[is_same]).astype(np.float64), first, second),
        Entries(values[is_bigram], rows[is_bigram], (within - n_unigrams)[is_bigram]),
    )


def same_everywhere(bigrams: Collection[str], constants: Counter[str] | None, path: str) -> Counter[str]:
    """Return which bigram observations are the same at every position, and how often each counts there: `constants`,
    or, where these are None, one that its name tells. ModelFileError where names do not tell."""
    if constants is not None:
        return constants
    bare = Counter(name for name in bigrams if BARE.fullmatch(name))
    if len(bare) > 1:
        raise ModelFileError(
            f"{path}: without templates it is not known which of the bigram observations "
            f"{', '.join(map(repr, sorted(bare)[:3]))} are the same at every position: expected at most one that "
            "looks so, or a model file, which has the templates"
        )
    return bare


def chain_estimator(
    format_name: str,
    path: str,
    weights: ChainWeights,
    templates: list[str] | None = None,
    dialect: str = "",
    n_columns: int | None = None,
    n_least: int = 1,
) -> Any:
    """Return a fitted ChainCRF of the weights, labels and features in their order.

    It takes columns of tokens where the `templates`, lines of a pattern file, make its attributes, and lists of names
    otherwise, which a warning says. `n_columns` are those before the label in the files to be labelled, None if there
    may be more than the templates use, or than the number `n_least` that the model's file knows. InputError for fewer;
    ModelFileError, naming the path, for names that come twice or are not there, and bad weights.
    """
    source: TemplateSource | None = None
    if templates:
        used = [int(number) + 1 for template in templates for number in COLUMN.findall(template)]
        n_used = max([n_least, *used])
        if n_columns is not None and (type(n_columns) is not int or n_columns < n_used):
            raise InputError(
                f"{path}: n_columns: expected at least {n_used} columns, which the model uses, got "
                f"{describe(n_columns)}"
            )
        columns = tuple(usual_names(n_columns or n_used))
        patterns = "\n".join(templates) + "\n"
        source = TemplateSource(columns, patterns, dialect, has_more_columns=n_columns is None)
        try:
            source.vocabulary(weights[1])
        except InputError as error:
            source = None
            warn_caller(
                f"{path}: its templates cannot be used ({error}); the model takes lists of the names of features",
                UserWarning,
            )
    extra = {IMPORTED_FROM: format_name} | ({} if templates is None else {"templates": templates})
    return restore(chain_file(path, *weights, extra=extra, source=source))
