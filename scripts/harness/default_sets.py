"""Development sets: items to train on and to test on, the estimator for them, and what is scored.

All but leukemia, the entities and those of the Mulan collection are in the registry (`crfqn data get`, or a folder that
CRFQN_DATA names); these are in that folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import label_ranking_average_precision_score

from crfqn import ChainCRF, MulticlassCRF, MultilabelRanker, Sequences, TaxonomyCRF
from crfqn.data.files import text_lines
from crfqn.datasets import dataset
from crfqn.metrics import chunk_f1_score
from harness import data
from harness.data import CHUNKED, Texts, entity_texts
from harness.problems import Problem

TEST_EVERY = 5  # of digits the items 4, 9, ... are for testing
MNIST_ITEMS = 10_000
CHUNKS, ACCURACY, RANKS = "F1 of chunks", "accuracy", "label ranking average precision"


@dataclass(frozen=True, eq=False)
class TunedSet:
    """A set: its items, the class of the estimator and its parameters besides the strengths.

    measure : CHUNKS, ACCURACY or RANKS
    """

    items: Problem
    estimator: type
    settings: dict[str, Any] = field(default_factory=dict)
    measure: str = ACCURACY

    def model(self, **settings: Any) -> Any:
        return self.estimator(**self.settings, **settings)

    def score(self, model: Any, X: Any, y: Any) -> float:
        """The measure in percent."""
        if self.measure == CHUNKS:
            return 100.0 * chunk_f1_score(y, model.predict(X))
        if self.measure == RANKS:
            return 100.0 * float(label_ranking_average_precision_score(y, model.decision_function(X)))
        return 100.0 * model.score(X, y)

    @property
    def n_labels(self) -> int:
        """Labels that training items have."""
        y = self.items.y_train
        return int(y.any(axis=0).sum()) if self.measure == RANKS else len(self.items.classes)

    @property
    def n_items(self) -> int:
        return len(self.items.y_train)


def words(name: str) -> TunedSet:
    """A set of words to label, as the benchmark of texts has it, under all pairs of features and labels."""
    return TunedSet(Texts.load(name).problem(), ChainCRF, measure=CHUNKS if name in CHUNKED else ACCURACY)


def texts(name: str, vectorizer: Any) -> TunedSet:
    """20 newsgroups by date, headers included, or BANKING77, questions to a bank of 77 intents; all words."""
    return TunedSet(data.vectorised(data.split_of(name), vectorizer), MulticlassCRF)


def docstrings(estimator: type, fewest: int = 8) -> TunedSet:
    """Docstrings of the standard library, flat or in the tree of modules, as TF-IDF."""
    from crfqn.readers.texts import collect_docstrings

    documents: Any = collect_docstrings(fewest)
    settings: dict[str, Any] = {"taxonomy": documents.taxonomy} if estimator is TaxonomyCRF else {}
    return TunedSet(data.vectorised(data.parts_of(documents), TfidfVectorizer()), estimator, settings)


def tree_of_recipe(name: str) -> TunedSet:
    """A recipe's items in their taxonomy: LSHTC1, Task 1 (word counts by their largest, 2387 nodes), ImageCLEF (97)."""
    items = Problem.of_recipe(f"models/{name}")
    return TunedSet(items, TaxonomyCRF, {"taxonomy": items.taxonomy})


def mnist() -> TunedSet:
    """The first 10,000 of MNIST's training images, grey values from 0 to 1, and all that test."""
    return TunedSet(data.split_of("mnist").part(MNIST_ITEMS), MulticlassCRF)


def digits(n_items: int | None = None) -> TunedSet:
    """scikit-learn's 8 x 8 digits, values from 0 to 16, every fifth for testing; the first ones of both parts."""
    x, y = load_digits(return_X_y=True)
    is_test = np.arange(y.size) % TEST_EVERY == TEST_EVERY - 1
    parts = (x[~is_test], y[~is_test], x[is_test], y[is_test])
    return TunedSet(Problem(*(part[:n_items] for part in parts)), MulticlassCRF)


def strings_of_digits(n_items: int) -> TunedSet:
    """Handwritten dates and times of the registry as sequences of 8 x 8 pixels, from 0 to 16."""
    labeled: Any = dataset("digits").load()
    parts: list[Any] = []
    for part in (range(n_items), range(labeled.n_train, labeled.n_train + n_items)):
        items = [labeled.inputs[i] for i in part]
        pixels = np.concatenate([item.reshape(len(item), -1) for item in items]).astype(np.float64)
        parts += [Sequences(pixels, np.cumsum([0, *map(len, items)])), [labeled.labels[i] for i in part]]
    return TunedSet(Problem(*parts), ChainCRF)


def read_mulan(name: str) -> Problem:
    """Features and tables of labels of the training and the test items, from the folder `mulan` below CRFQN_DATA."""
    header = data.below_data("mulan", f"{name}.xml")
    labels = re.findall(r'name="([^"]+)"', header.read_text(encoding="utf-8"))
    parts: list[Any] = []
    for part in ("train", "test"):
        file = header.with_name(f"{name}-{part}.arff")
        names, table = read_arff(file if file.exists() else file.with_suffix(".arff.gz"))
        is_label = np.isin(names, labels)
        parts += [table[:, ~is_label], table[:, is_label].toarray().astype(np.int64)]
    return Problem(*parts)


def read_arff(path: Path) -> tuple[list[str], Any]:
    """Names of the attributes, and the rows, all numbers, as CSR."""
    names: list[str] = []
    columns: list[int] = []
    values: list[float] = []
    starts = [0]
    for _, line in text_lines(path):
        if line[:10].lower() == "@attribute":
            names.append(line.split()[1])
        if not line.strip() or line[0] in "%@":
            continue
        fields = line.strip().strip("{}").split(",")
        pairs = [field.split() for field in fields] if line[0] == "{" else list(enumerate(fields))
        columns += [int(column) for column, _ in pairs]
        values += [float(value) for _, value in pairs]
        starts.append(len(values))
    table = csr_array((values, columns, starts), (len(starts) - 1, len(names)))
    table.eliminate_zeros()
    return names, table


SETS: dict[str, Callable[[], TunedSet]] = {
    "companies": lambda: words("company"),
    "persons": lambda: words("person"),
    "dutch": lambda: words("dutch-upos"),
    "tweets": lambda: words("btc"),
    "entities": lambda: TunedSet(entity_texts().problem(), ChainCRF, measure=CHUNKS),
    "ocr": lambda: TunedSet(Problem.of_recipe("ocr"), ChainCRF),
    "chunks-500": lambda: words("conll2000-500"),
    "chunks-2000": lambda: words("conll2000-2000"),
    "news-counts": lambda: texts("newsgroups", CountVectorizer()),
    "news-tf-idf": lambda: texts("newsgroups", TfidfVectorizer()),
    "banking-counts": lambda: texts("banking77", CountVectorizer()),
    "banking-tf-idf": lambda: texts("banking77", TfidfVectorizer()),
    "docstrings": lambda: docstrings(MulticlassCRF),
    "docstrings-tree": lambda: docstrings(TaxonomyCRF),
    "lshtc1": lambda: tree_of_recipe("lshtc1-task1"),
    "imageclef": lambda: tree_of_recipe("imageclef"),
    "mnist": mnist,
    "digits": digits,
    "leukemia": lambda: TunedSet(data.leukemia(), MulticlassCRF),
}
# Several labels an item.
MULTILABEL: dict[str, Callable[[], TunedSet]] = {
    "yeast": lambda: TunedSet(read_mulan("yeast"), MultilabelRanker, measure=RANKS),
    "bibtex": lambda: TunedSet(read_mulan("bibtex"), MultilabelRanker, measure=RANKS),
}
# Small parts of what comes with scikit-learn, for --quick.
QUICK: dict[str, Callable[[], TunedSet]] = {
    "few-digits": lambda: digits(240),
    "few-strings": lambda: strings_of_digits(60),
}
