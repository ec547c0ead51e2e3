"""The sets of the study: items to train on and to test on, the estimator for them, and what is scored.

All but leukemia and the sets of `multilabel.py` are in the registry (`crfqn data get`, or a folder that CRFQN_DATA
names); these are in that folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics import label_ranking_average_precision_score

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, TaxonomyCRF
from crfqn.errors import InputError
from crfqn.metrics import chunk_f1_score

TEST_EVERY = 5  # of digits the items 4, 9, ... are for testing
MNIST_ITEMS = 10_000
CHUNKED = ("btc", "conll2000-500", "conll2000-2000")  # whose labels are IOB tags
CHUNKS, ACCURACY, RANKS = "F1 of chunks", "accuracy", "label ranking average precision"
VARIED = ("l1", "group_l1", "l2")  # the strengths that there are curves of


@dataclass(frozen=True, eq=False)
class Source:
    """A set: training and test items, the class of the estimator and its parameters besides the strengths.

    Attributes
    ----------
    measure : CHUNKS, ACCURACY or RANKS
    varied : one of VARIED
    """

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    estimator: type
    settings: dict[str, Any] = field(default_factory=dict)
    measure: str = ACCURACY
    varied: str = "l1"

    def varying(self, varied: str) -> Source:
        """The set with another strength that varies; for rows of weights, the estimator whose penalty they are."""
        if varied == "group_l1" and self.estimator not in (MulticlassCRF, MultilabelRanker):
            raise InputError(
                f"group_l1: expected a set of flat labels, got one for {self.estimator.__name__}"
            )
        if varied != "group_l1" and self.estimator is MultilabelRanker:
            raise InputError(
                f"{varied}: expected a set of one label an item; of several there is group_l1 only"
            )
        rows = varied == "group_l1" and self.estimator is MulticlassCRF
        return replace(self, varied=varied, estimator=MulticlassClassifier if rows else self.estimator)

    def strengths(self, strength: Any, l2: float = 0.0) -> dict[str, Any]:
        """The parameters of a strength that varies; l2 besides an l1."""
        if self.varied == "l2":
            return {"l1": 0.0, "l2": strength}
        return {"l1": strength, "l2": l2} if self.varied == "l1" else {"group_l1": strength}

    def model(self, **settings: Any) -> Any:
        """A new estimator."""
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
        if self.measure == RANKS:
            return int(self.y_train.any(axis=0).sum())
        items = self.y_train if self.estimator is ChainCRF else [self.y_train]
        return len({label for item in items for label in item})

    @property
    def n_items(self) -> int:
        """Training items."""
        return len(self.y_train)


def words(name: str) -> Source:
    """A set of words to label, as the benchmark of texts has it, under all pairs of features and labels."""
    from benchmarks.text.problems import Texts

    problem = Texts.load(name).problem()
    measure = CHUNKS if name in CHUNKED else ACCURACY
    return Source(problem.X_train, problem.y_train, problem.X_test, problem.y_test, ChainCRF, measure=measure)


def texts(train: tuple[Any, Any], test: tuple[Any, Any], vectorizer: Any, **settings: Any) -> Source:
    """Documents by a vectorizer that the training part has fitted."""
    X = vectorizer.fit_transform(train[0])
    estimator = settings.pop("estimator", MulticlassCRF)
    return Source(
        X, np.array(train[1]), vectorizer.transform(test[0]), np.array(test[1]), estimator, settings
    )


def cut(documents: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Training and test part of documents, the first ones and the others."""
    n_train = documents.n_train
    inputs, labels = documents.inputs, documents.labels
    return (inputs[:n_train], labels[:n_train]), (inputs[n_train:], labels[n_train:])


def newsgroups(vectorizer: Any) -> Source:
    """20 newsgroups by date, headers included, all words."""
    from crfqn.datasets import dataset

    return texts(*cut(dataset("newsgroups").load()), vectorizer)


def banking(vectorizer: Any) -> Source:
    """BANKING77: questions to a bank, 77 intents."""
    from crfqn.datasets import dataset

    return texts(*cut(dataset("banking77").load()), vectorizer)


def docstrings(estimator: type, fewest: int = 8) -> Source:
    """Docstrings of the standard library, flat or in the tree of modules, as TF-IDF."""
    from crfqn.readers.collections.texts import collect_docstrings

    documents = collect_docstrings(fewest)
    settings: dict[str, Any] = {"taxonomy": documents.taxonomy} if estimator is TaxonomyCRF else {}
    return texts(*cut(documents), tf_idf(), estimator=estimator, **settings)


def web_pages() -> Source:
    """LSHTC1, Task 1: the validation part trains; word counts by their largest, in a taxonomy of 2387 nodes."""
    from crfqn.recipes import load_recipe, prepare

    data = prepare(load_recipe("models/lshtc1-task1"))
    return Source(
        data.X_train,
        np.array(data.y_train),
        data.X_test,
        np.array(data.y_test),
        TaxonomyCRF,
        {"taxonomy": data.given_taxonomy},
    )


def mnist() -> Source:
    """The first 10,000 of MNIST's training images, grey values from 0 to 1, and all that test."""
    from crfqn.datasets import dataset

    images: Any = dataset("mnist").load()
    x, labels, n_train = images.inputs, np.array(images.labels), images.n_train
    return Source(x[:MNIST_ITEMS], labels[:MNIST_ITEMS], x[n_train:], labels[n_train:], MulticlassCRF)


def digits() -> Source:
    """scikit-learn's 8 x 8 digits, values from 0 to 16, every fifth for testing."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    is_test = np.arange(y.size) % TEST_EVERY == TEST_EVERY - 1
    return Source(x[~is_test], y[~is_test], x[is_test], y[is_test], MulticlassCRF)


def strings_of_digits(n_items: int) -> Source:
    """Handwritten dates and times of the registry as sequences of 8 x 8 pixels, from 0 to 16."""
    from crfqn import Sequences
    from crfqn.datasets import dataset

    labeled: Any = dataset("digits").load()
    parts = [range(n_items), range(labeled.n_train, labeled.n_train + n_items)]
    images = [[labeled.inputs[i] for i in part] for part in parts]
    X, held_out = (
        Sequences(
            np.concatenate([item.reshape(len(item), -1) for item in items]).astype(np.float64),
            np.cumsum([0, *map(len, items)]),
        )
        for items in images
    )
    y, y_test = ([labeled.labels[i] for i in part] for part in parts)
    return Source(X, y, held_out, y_test, ChainCRF)


def part_of(source: Source, n_items: int) -> Source:
    """The first items of a set's two parts."""
    train, test = ((X[:n_items], y[:n_items]) for X, y in (
        (source.X_train, source.y_train), (source.X_test, source.y_test)
    ))  # fmt: skip
    return replace(source, X_train=train[0], y_train=train[1], X_test=test[0], y_test=test[1])


def leukemia() -> Source:
    """Golub et al.: 38 and 34 patients of three classes, 7129 genes, as Dudoit et al. prepare them."""
    from fbpd_study.sources import leukemia as read

    data = read(None)
    return Source(data.X_train, data.y_train, data.X_test, data.y_test, MulticlassCRF)


def multilabel(name: str) -> Source:
    """A set of the Mulan collection."""
    from defaults_study.multilabel import read_mulan

    return Source(*read_mulan(name), MultilabelRanker, measure=RANKS)


def counts() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer()


def tf_idf() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer()


SOURCES: dict[str, Callable[[], Source]] = {
    "companies": lambda: words("company"),
    "persons": lambda: words("person"),
    "dutch": lambda: words("dutch-upos"),
    "tweets": lambda: words("btc"),
    "chunks-500": lambda: words("conll2000-500"),
    "chunks-2000": lambda: words("conll2000-2000"),
    "news-counts": lambda: newsgroups(counts()),
    "news-tf-idf": lambda: newsgroups(tf_idf()),
    "banking-counts": lambda: banking(counts()),
    "banking-tf-idf": lambda: banking(tf_idf()),
    "docstrings": lambda: docstrings(MulticlassCRF),
    "docstrings-tree": lambda: docstrings(TaxonomyCRF),
    "lshtc1": web_pages,
    "mnist": mnist,
    "digits": digits,
    "leukemia": leukemia,
}
# Several labels an item: for group_l1 alone.
MULTILABEL: dict[str, Callable[[], Source]] = {
    "yeast": lambda: multilabel("yeast"),
    "bibtex": lambda: multilabel("bibtex"),
}
# Small parts of what comes with scikit-learn, for --quick.
QUICK: dict[str, Callable[[], Source]] = {
    "few-digits": lambda: part_of(digits(), 240),
    "few-strings": lambda: strings_of_digits(60),
}
