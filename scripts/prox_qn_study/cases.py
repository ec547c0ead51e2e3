"""The problems of the study: a data set at a penalty, whole or a part of it.

`ocr` and `lshtc1` are the paper's (section 6) as the recipes of these names prepare them; `digits` and `stdlib` are
built in, and stand in for them in small runs on machines that have no files of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from benchmarks import item_judge, judge
from benchmarks.items import ItemProblem
from benchmarks.judge import Verdict
from benchmarks.problem import Problem
from numpy.typing import NDArray

from crfqn.datasets import dataset
from crfqn.errors import DataUnavailableError

AnyProblem = Problem | ItemProblem
BUILT_IN = "Of the study, `--quick` and `--figure digits` need no files."


@dataclass(frozen=True)
class Data:
    """A recipe's data.

    Attributes
    ----------
    registered : the name of the data in the registry
    eta0 : the paper's first learning rate of SGD
    quick : share of the items in a small run
    stand_in : what a small run takes where the files of the data are not on this machine; None: nothing
    """

    recipe: str
    registered: str
    title: str
    eta0: float | None
    quick: float
    is_chain: bool = True
    stand_in: StandIn | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is built in or its files are on this machine."""
        entry = dataset(self.registered)
        return entry.is_embedded or bool(entry.locate())


class StandIn(NamedTuple):
    """Built-in data, and by what an l1 of the data that it stands for is multiplied."""

    data: Data
    factor: float


DIGITS = Data("digits", "digits", "Digits", None, 0.1)
STDLIB = Data("stdlib", "stdlib", "Docstrings", None, 0.25, is_chain=False)
OCR = Data("ocr", "ocr", "OCR", 2e-4, 0.05, stand_in=StandIn(DIGITS, 0.1))
LSHTC1 = Data("lshtc1", "lshtc1-task2", "LSHTC1", 10.0, 0.1, is_chain=False, stand_in=StandIn(STDLIB, 1.0))


@dataclass(frozen=True)
class Case:
    """A data set at a penalty.

    Attributes
    ----------
    l1 : for all training items
    share : of the training items that take part
    stands_for : the data in whose place these are; None: they are what was asked for
    """

    data: Data
    l1: float
    share: float = 1.0
    stands_for: Data | None = field(default=None, compare=False)

    def __str__(self) -> str:
        part = "" if self.share == 1.0 else f" ({100 * self.share:g} % of the items)"
        return f"{self.data.title}, l1 = {self.strength:.3g}{part}"

    @property
    def strength(self) -> float:
        """The penalty for the items that take part: the noise of a gradient grows with the root of their number."""
        return float(np.sqrt(self.share)) * self.l1

    @property
    def source(self) -> tuple[Data, float]:
        """What the items depend on: the penalty is not among it."""
        return self.data, self.share

    def quick(self) -> Case:
        """A small part of it; of the built-in data that stands in for it where its files are not here."""
        if self.data.stand_in is None or self.data.is_here:
            return replace(self, share=self.data.quick)
        data, factor = self.data.stand_in
        return Case(data, factor * self.l1, data.quick, stands_for=self.data)

    def load(self) -> AnyProblem:
        """The items, as the recipe cuts and maps them.

        Raises
        ------
        DataUnavailableError
            They are not on this machine; the text says what can be measured without.
        """
        kind: type[Problem] | type[ItemProblem] = Problem if self.data.is_chain else ItemProblem
        try:
            problem = kind.of_recipe(self.data.recipe)
        except DataUnavailableError as error:
            raise DataUnavailableError(f"{error}\n{BUILT_IN}") from error
        return problem if self.share == 1.0 else some_items(problem, round(self.share * len(problem.y_train)))


def some_items(problem: AnyProblem, n_items: int) -> AnyProblem:
    """A part of the training items.

    Sequences come in random order: the first ones. Documents come in the order of their labels: some of all labels, and
    without the words that do not occur in them, whose weights are zero.
    """
    if isinstance(problem, Problem):
        return problem.part(n_items)
    n_documents = len(problem.y_train)
    rows = np.arange(n_items) * n_documents // n_items
    return replace(problem, X_train=problem.X_train[rows], y_train=problem.y_train[rows]).without_unused()


def fingerprint(problem: AnyProblem) -> str:
    """Of the training items: the labels, and the size of the matrix."""
    matrix = problem.X_train.matrix if isinstance(problem, Problem) else problem.X_train
    return f"{problem.fingerprint} {matrix.shape[1]} {matrix.nnz}"


def estimator(problem: AnyProblem, **settings: Any) -> Any:
    """A ChainCRF, or a TaxonomyCRF over the problem's taxonomy."""
    from crfqn import ChainCRF, TaxonomyCRF

    kind = ChainCRF if isinstance(problem, Problem) else partial(TaxonomyCRF, taxonomy=problem.taxonomy)
    return kind(**settings)


@dataclass(frozen=True, eq=False)
class Model:
    """Weights (K, F), CSR, and those of a chain's transitions (K, K), from x to; of a taxonomy (0, 0)."""

    weights: Any
    edges: NDArray[np.float64]

    @classmethod
    def of(
        cls, coords: NDArray[np.int64], values: NDArray[np.float64], n_states: int, n_features: int
    ) -> Model:
        """From what a solver works on: coordinate state * F + feature, then the transitions."""
        n_nodes = n_states * n_features
        is_node = coords < n_nodes
        where = np.divmod(coords[is_node], n_features)
        weights = scipy.sparse.coo_array((values[is_node], where), shape=(n_states, n_features)).tocsr()
        edges = np.zeros(n_states * n_states)
        edges[coords[~is_node] - n_nodes] = values[~is_node]
        return cls(weights, edges.reshape(n_states, n_states))


def judged(problem: AnyProblem, l1: float, model: Model) -> Verdict:
    """Objective and test accuracy, by the judges of the benchmarks."""
    if isinstance(problem, Problem):
        return judge.judge(problem, l1, model.weights, model.edges)
    return item_judge.judge_items(problem, l1, model.weights)


def accuracy(problem: AnyProblem, model: Model) -> float:
    """The share of test positions (chains) or items (taxonomies) that the model labels right."""
    if isinstance(problem, ItemProblem):
        return item_judge.worth(problem, item_judge.predictions(problem, model.weights))[0]
    best = judge.best_labels(problem, model.weights, model.edges)
    pairs = zip(np.concatenate(best), np.concatenate(problem.y_test), strict=True)
    return float(np.mean([found == hoped for found, hoped in pairs]))


PAPER: Mapping[str, Mapping[float, tuple[int, float]]] = {
    "ocr": {50.0: (2542, 0.834928), 100.0: (1544, 0.736643), 500.0: (223, 0.407895)},
    "lshtc1": {0.5: (28483, 0.262648), 1.0: (4301, 0.249731), 2.0: (1505, 0.185684)},
}  # tables 1 and 2: non-zeros at the optimum, test accuracy
