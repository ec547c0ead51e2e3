"""The data sets of the paper's table 1, and made-up texts of the same shape for those that are not on this machine.

Each is split four fifths to one fifth, the same share of every class, as in section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from benchmarks import flat_data
from benchmarks.flat_data import RCV1, TextShape, made_up_texts, stratified
from benchmarks.items import ItemProblem

from bcd_study.methods import OURS, PROX_QN
from crfqn.datasets import dataset
from crfqn.errors import DataUnavailableError

QUICK_ITEMS = 400
QUICK_SHAPE: Mapping[str, Any] = {
    "n_items": 500,
    "n_words": 800,
    "n_classes": 6,
    "n_tokens": 40,
    "topic_words": 80,
}
SECTOR = TextShape(n_items=9_619, n_words=55_197, n_classes=105, n_tokens=200, class_shift=1000.0)


def newsgroups(seed: int) -> ItemProblem:
    """20 Newsgroups: tf-idf of the words of the by-date training part, rows of length 1."""
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = flat_data.newsgroups(seed)
    weigh = TfidfTransformer().fit(counts.X_train)
    return replace(counts, X_train=weigh.transform(counts.X_train), X_test=weigh.transform(counts.X_test))


def mnist(seed: int) -> ItemProblem:
    """MNIST: the first 780 pixels, from 0 to 1; the last four are empty in all images."""
    digits = flat_data.mnist(seed)
    return replace(digits, X_train=digits.X_train[:, :780], X_test=digits.X_test[:, :780])


def of_publisher(name: str, seed: int) -> ItemProblem:
    """A data set in svmlight's format, its parts put together and split anew; features count from 1 there."""
    documents: Any = dataset(name).load()
    return stratified(documents.inputs[:, 1:], np.array(documents.labels), seed)


@dataclass(frozen=True)
class Data:
    """A data set.

    Attributes
    ----------
    registered : its name in the registry
    load : the split of a seed; DataUnavailableError where there are no files
    stand_in : the shape of texts that take its place then; None: nothing does
    grid : the largest and the smallest lambda of figure 5 and table 2
    reference : the solver that finds F*, the quickest here
    """

    name: str
    title: str
    registered: str
    load: Callable[[int], ItemProblem]
    stand_in: TextShape | None = None
    grid: tuple[float, float] = (1e-3, 1e-5)
    reference: str = OURS

    @property
    def is_here(self) -> bool:
        """Whether its files are on this machine."""
        return bool(dataset(self.registered).locate())

    @property
    def shown(self) -> str:
        """The title, and whether something stands in for the data."""
        return self.title + ("" if self.is_here else " stand-in")

    @property
    def is_possible(self) -> bool:
        return self.is_here or self.stand_in is not None

    @property
    def lambdas(self) -> list[float]:
        """10 values, as far from one another on a logarithmic scale."""
        return [float(value) for value in np.geomspace(*self.grid, 10)]


DATA: Mapping[str, Data] = {
    data.name: data
    for data in (
        Data("news20", "News20", "newsgroups", newsgroups),
        Data("news20-counts", "News20, counts", "newsgroups", flat_data.newsgroups),
        Data("mnist", "MNIST", "mnist", mnist, reference=PROX_QN),
        Data("sector", "Sector", "sector", partial(of_publisher, "sector"), SECTOR, (1e-2, 1e-4)),
        Data("rcv1", "RCV1", "rcv1", partial(of_publisher, "rcv1"), replace(RCV1, n_items=534_135)),
        Data("amazon7", "Amazon7", "amazon7", partial(of_publisher, "amazon7")),
    )
}
OF_THE_PAPER = [name for name in DATA if name != "news20-counts"]


@dataclass(frozen=True)
class Source:
    """The items of a case: a data set, the seed of its split, the whole or a small part of it."""

    data: Data
    split: int = 0
    is_quick: bool = False

    @property
    def title(self) -> str:
        """The data's name, and what is not as in the paper."""
        part = " (a small part)" if self.is_quick else ""
        split = f", split {self.split}" if self.split else ""
        return f"{self.data.shown}{part}{split}"

    def load(self) -> ItemProblem:
        """The items; where the data is not here, made-up ones.

        Raises
        ------
        DataUnavailableError
            Nothing stands in for it.
        """
        if self.data.is_here:
            problem = self.data.load(self.split)
            return problem.part(QUICK_ITEMS).without_unused() if self.is_quick else problem
        if self.data.stand_in is None:
            raise DataUnavailableError(dataset(self.data.registered).how_to_find())
        shape = replace(self.data.stand_in, **QUICK_SHAPE) if self.is_quick else self.data.stand_in
        return stratified(*made_up_texts(shape), self.split)


@dataclass(frozen=True)
class Case:
    """Items at a penalty; `strength` is the paper's lambda, which goes with a mean over the items."""

    source: Source
    strength: float

    def __str__(self) -> str:
        return f"{self.source.title}, lambda = {self.strength:.3g}"

    @property
    def data(self) -> Data:
        return self.source.data

    def quick(self) -> Case:
        """A small part of it."""
        return replace(self, source=replace(self.source, is_quick=True))

    def load(self) -> ItemProblem:
        """The items."""
        return self.source.load()
