"""The sets of the study: items to train on and to test on, the estimator for them, and what is scored.

Files are looked for in the folder that CRFQN_DATA names, in folders of their own; without it only built-in sets work.
"""

from __future__ import annotations

import csv
import gzip
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from crfqn import ChainCRF, MulticlassCRF, TaxonomyCRF
from crfqn.data.encoding import encode_sequences
from crfqn.errors import DataUnavailableError
from crfqn.metrics import chunk_f1_score
from defaults_study.token_features import sentence_features

TEST_EVERY = 5  # of sets without a published split, the items 4, 9, ... are for testing
MNIST_ITEMS = 10_000
CHUNKS, ACCURACY = "F1 of chunks", "accuracy"


@dataclass(frozen=True, eq=False)
class Source:
    """A set: training and test items, the class of the estimator and its parameters besides the strengths.

    Attributes
    ----------
    measure : CHUNKS or ACCURACY
    """

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    estimator: type
    settings: dict[str, Any] = field(default_factory=dict)
    measure: str = ACCURACY

    def model(self, **settings: Any) -> Any:
        """A new estimator."""
        return self.estimator(**self.settings, **settings)

    def score(self, model: Any, X: Any, y: Any) -> float:
        """The measure in percent."""
        if self.measure == CHUNKS:
            return 100.0 * chunk_f1_score(y, model.predict(X))
        return 100.0 * model.score(X, y)

    @property
    def is_flat(self) -> bool:
        """Whether an item has one label."""
        return self.estimator is not ChainCRF

    @property
    def n_items(self) -> int:
        """Training items."""
        return len(self.y_train)


def file(*parts: str) -> Path:
    """A file below CRFQN_DATA."""
    found = Path(os.environ.get("CRFQN_DATA", "")).joinpath(*parts)
    if "CRFQN_DATA" not in os.environ or not found.exists():
        raise DataUnavailableError(f"{'/'.join(parts)}: not below the folder that CRFQN_DATA names")
    return found


def lines(path: Path) -> Iterator[str]:
    """The lines of a packed file, without their ends."""
    with gzip.open(path, "rt", encoding="utf-8") as opened:
        for line in opened:
            yield line.rstrip("\r\n")


Sentences = tuple[list[list[str]], list[list[str]]]  # words, labels


def chains(train: Sentences, test: Sentences, measure: str = ACCURACY) -> Source:
    """Sentences as sequences of token features."""
    X, vocabulary = encode_sequences([sentence_features(words) for words in train[0]])
    held_out, _ = encode_sequences([sentence_features(words) for words in test[0]], vocabulary)
    return Source(X, train[1], held_out, test[1], ChainCRF, measure=measure)


def every_fifth(words: list[Any], labels: list[Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Training and test part of a set that comes without."""
    is_test = np.arange(len(words)) % TEST_EVERY == TEST_EVERY - 1
    parts = [np.flatnonzero(~is_test), np.flatnonzero(is_test)]
    train, test = (([words[i] for i in part], [labels[i] for i in part]) for part in parts)
    return train, test


def names(kind: str) -> Source:
    """probablepeople: names of persons or companies, every fifth for testing."""
    with gzip.open(file("probablepeople", f"{kind}_labeled.xml.gz")) as opened:
        root = ElementTree.parse(opened).getroot()
    words, labels = [], []
    for item in root:
        tokens = [(token, part.tag) for part in item for token in (part.text or "").split()]
        if tokens:
            words.append([token for token, _ in tokens])
            labels.append([label for _, label in tokens])
    return chains(*every_fifth(words, labels))


def columns(path: Path, word: int, label: int, separator: str | None) -> Sentences:
    """Sentences of a file in columns, blank lines between them; comments and tokens without a number are left out."""
    words: list[list[str]] = [[]]
    labels: list[list[str]] = [[]]
    for line in lines(path):
        if not line.strip():
            words.append([])
            labels.append([])
            continue
        row = line.split(separator)
        if line.startswith("# ") or (word == 1 and not row[0].isdigit()):
            continue
        words[-1].append(row[word])
        labels[-1].append(row[label])
    kept = [i for i, sentence in enumerate(words) if sentence]
    return [words[i] for i in kept], [labels[i] for i in kept]


def dutch() -> Source:
    """Universal Dependencies, Dutch LassySmall: parts of speech; its development part trains."""
    parts = [file("ud_dutch_lassysmall", f"nl_lassysmall-ud-{part}.conllu.gz") for part in ("dev", "test")]
    train, test = (columns(part, 1, 3, "\t") for part in parts)
    return chains(train, test)


def tweets() -> Source:
    """Broad Twitter Corpus: named entities; section a tests."""
    words, labels = [], []
    for section in "befgh":
        part = columns(file("btc", f"{section}.conll.gz"), 0, 1, "\t")
        words += part[0]
        labels += part[1]
    return chains((words, labels), columns(file("btc", "a.conll.gz"), 0, 1, "\t"), CHUNKS)


def chunks(n_items: int) -> Source:
    """CoNLL-2000: base phrases from words alone, the first sentences."""
    words, labels = columns(file("conll2000", "train.txt.gz"), 0, 2, None)
    test = columns(file("conll2000", "test.txt.gz"), 0, 2, None)
    return chains((words[:n_items], labels[:n_items]), test, CHUNKS)


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
    parts = []
    for part in ("train", "test"):
        rows = list(csv.DictReader(lines(file("banking77", f"{part}.csv.gz"))))
        parts.append(([row["text"] for row in rows], [row["category"] for row in rows]))
    return texts(*parts, vectorizer)


def docstrings(estimator: type, fewest: int = 8) -> Source:
    """Docstrings of the standard library, flat or in the tree of modules, as TF-IDF."""
    from crfqn.readers.docstrings import collect_docstrings

    documents = collect_docstrings(fewest)
    settings = {"taxonomy": documents.taxonomy} if estimator is TaxonomyCRF else {}
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

    file("leukemia")
    data = read(None)
    return Source(data.X_train, data.y_train, data.X_test, data.y_test, MulticlassCRF)


def counts() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer()


def tf_idf() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer()


SOURCES: dict[str, Callable[[], Source]] = {
    "companies": lambda: names("company"),
    "persons": lambda: names("person"),
    "dutch": dutch,
    "tweets": tweets,
    "chunks-500": lambda: chunks(500),
    "chunks-2000": lambda: chunks(2000),
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
# Small parts of what comes with scikit-learn, for --quick.
QUICK: dict[str, Callable[[], Source]] = {
    "few-digits": lambda: part_of(digits(), 240),
    "few-strings": lambda: strings_of_digits(60),
}
