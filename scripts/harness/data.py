"""Known data sets as problems: by their own split or stratified anew, and made-up texts of the same shape.

Blondel's studies share `DATA`; made-up texts take the place of what is not on this machine. Sentences to label are
`Texts`, words and tags, with the features of `crfqn.data.templates.windows` for every library: every run has a process
of its own, words are stored once, and each process makes features of them as its library takes them, dicts or columns.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.datasets import dataset
from crfqn.errors import DataUnavailableError, InputError
from crfqn.readers.conll import read_conll
from harness.problems import Problem, narrow

Words = list[list[str]]
TEST_SHARE = 0.2
ZIPF_SHIFT = 20.0  # a word of rank r has probability ~ 1 / (r + shift)


@dataclass(frozen=True)
class TextShape:
    """What made-up texts are like.

    A class has `topic_words` words of its own, among them words of any rank; `topic_share` of its tokens come from
    these. The class of rank r has probability ~ 1 / (r + class_shift).
    """

    n_items: int
    n_words: int
    n_classes: int
    n_tokens: int
    topic_words: int = 2000
    topic_share: float = 0.25
    class_shift: float = 0.0


RCV1 = TextShape(n_items=550_000, n_words=47_236, n_classes=52, n_tokens=48)
SECTOR = TextShape(n_items=9_619, n_words=55_197, n_classes=105, n_tokens=200, class_shift=1000.0)
QUICK_ITEMS = 400
QUICK_SHAPE = {"n_items": 500, "n_words": 800, "n_classes": 6, "n_tokens": 40, "topic_words": 80}


def split_of(name: str) -> Problem:
    """A registered set of single items by its own split: inputs as they are, texts or rows."""
    return parts_of(dataset(name).load())


def parts_of(documents: Any) -> Problem:
    """The training and the test part of single items that were read."""
    n, labels = documents.n_train, np.array(documents.labels)
    return Problem(documents.inputs[:n], labels[:n], documents.inputs[n:], labels[n:])


def vectorised(texts: Problem, vectorizer: Any) -> Problem:
    """Rows of texts by a vectorizer that the training part fits."""
    X = vectorizer.fit_transform(texts.X_train)
    return replace(texts, X_train=X, X_test=vectorizer.transform(texts.X_test))


def banking() -> Problem:
    """BANKING77: customers' questions, 77 intents, term frequencies times inverse document frequencies."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = vectorised(split_of("banking77"), TfidfVectorizer())
    return replace(words, X_train=narrow(words.X_train), X_test=narrow(words.X_test))


def newsgroups(seed: int = 0) -> Problem:
    """20 Newsgroups: word counts over the words of the by-date training part, rows of length 1.

    The posts are in the order in which scikit-learn's `fetch_20newsgroups` hands them out, the test part after the
    training part, each sorted and then shuffled. seed: of the split.
    """
    counts, labels, n_train = newsgroup_counts()
    parts = np.arange(n_train), np.arange(n_train, labels.size)
    for part in parts:
        np.random.RandomState(0).shuffle(part)
    return stratified(counts, labels, seed, np.concatenate(parts))


@cache
def newsgroup_counts() -> tuple[Any, NDArray[np.str_], int]:
    """The rows and labels of all posts, and how many are of the by-date training part: counted once for all splits."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    posts: Any = dataset("newsgroups").load()
    vectorizer = CountVectorizer().fit(posts.inputs[: posts.n_train])
    counts = normalize(vectorizer.transform(posts.inputs).astype(np.float64))
    return counts, np.array(posts.labels), posts.n_train


def mnist(seed: int = 0) -> Problem:
    """MNIST: grey values from 0 to 1; sparse, since 81 % are 0 and saga is five times as fast on CSR as on an array."""
    images: Any = dataset("mnist").load()
    return stratified(images.inputs, np.array(images.labels), seed)


def rcv1_like(n_train: int = 500_000) -> Problem:
    """Texts as RCV1 might have them: 47,236 words and 52 classes of sizes by Zipf's law, 0.1 % dense."""
    matrix, labels = made_up_texts(RCV1)
    return Problem(narrow(matrix[:n_train]), labels[:n_train], narrow(matrix[n_train:]), labels[n_train:])


def made_up_texts(shape: TextShape) -> tuple[Any, NDArray[np.str_]]:
    """A matrix (items, words), counts damped by 1 + log, rows of length 1; and the classes of the items."""
    from scipy.sparse import csr_array
    from sklearn.preprocessing import normalize

    n_items, n_words, n_classes = shape.n_items, shape.n_words, shape.n_classes
    generator = np.random.default_rng(0)
    codes = generator.choice(n_classes, n_items, p=zipf(n_classes, shape.class_shift))
    words = generator.choice(n_words, (n_items, shape.n_tokens), p=zipf(n_words, ZIPF_SHIFT)).astype(np.int32)
    topics = np.stack([generator.choice(n_words, shape.topic_words, replace=False) for _ in range(n_classes)])
    is_topic = generator.random(words.shape) < shape.topic_share
    ranks = generator.choice(shape.topic_words, int(is_topic.sum()), p=zipf(shape.topic_words, ZIPF_SHIFT))
    words[is_topic] = topics[np.repeat(codes, is_topic.sum(axis=1)), ranks]
    ends = shape.n_tokens * np.arange(n_items + 1)
    matrix = csr_array((np.ones(words.size), words.ravel(), ends), shape=(n_items, n_words))
    matrix.sum_duplicates()
    matrix.data = 1.0 + np.log(matrix.data)
    return normalize(matrix), np.array([f"class {code:03}" for code in range(n_classes)])[codes]


def stratified(
    X: Any, labels: NDArray[np.str_], seed: int, order: NDArray[np.int64] | None = None
) -> Problem:
    """Four fifths of every class for training."""
    from sklearn.model_selection import train_test_split

    order = np.arange(labels.size) if order is None else order
    train, test = train_test_split(order, test_size=TEST_SHARE, random_state=seed, stratify=labels[order])
    return Problem(X[train], labels[train], X[test], labels[test])


def zipf(n: int, shift: float) -> NDArray[np.float64]:
    """Probabilities of the ranks 1 ... n."""
    p = 1.0 / (np.arange(1, n + 1) + shift)
    return p / p.sum()


def newsgroups_tf_idf(seed: int) -> Problem:
    """20 Newsgroups: tf-idf of the words of the by-date training part, rows of length 1."""
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = newsgroups(seed)
    weigh = TfidfTransformer().fit(counts.X_train)
    return replace(counts, X_train=weigh.transform(counts.X_train), X_test=weigh.transform(counts.X_test))


def mnist_780(seed: int) -> Problem:
    """MNIST: the first 780 pixels, from 0 to 1; the last four are empty in all images."""
    digits = mnist(seed)
    return replace(digits, X_train=digits.X_train[:, :780], X_test=digits.X_test[:, :780])


def of_publisher(name: str, seed: int) -> Problem:
    """A data set in svmlight's format, its parts put together and split anew; features count from 1 there."""
    documents: Any = dataset(name).load()
    return stratified(documents.inputs[:, 1:], np.array(documents.labels), seed)


@dataclass(frozen=True)
class Data:
    """A data set of Blondel, Seki and Uehara (2013), table 1, split four fifths to one fifth as in section 5.1.

    registered : its name in the registry
    split : that of a seed; DataUnavailableError where there are no files
    stand_in : the shape of texts that take its place then; None: nothing does
    grid : the largest and the smallest lambda of their figure 5 and table 2
    """

    name: str
    title: str
    registered: str
    split: Callable[[int], Problem]
    stand_in: TextShape | None = None
    grid: tuple[float, float] = (1e-3, 1e-5)

    @property
    def is_here(self) -> bool:
        """Whether its files are on this machine."""
        return bool(dataset(self.registered).locate())

    @property
    def shown(self) -> str:
        """The title, and whether something stands in for the data."""
        return self.title + ("" if self.is_here else " (made-up texts)")

    @property
    def is_possible(self) -> bool:
        return self.is_here or self.stand_in is not None

    def check(self) -> None:
        """Raise DataUnavailableError where neither it nor anything in its place is here."""
        if not self.is_possible:
            raise DataUnavailableError(dataset(self.registered).how_to_find())

    @property
    def lambdas(self) -> list[float]:
        """10 values, as far from one another on a logarithmic scale."""
        return [float(value) for value in np.geomspace(*self.grid, 10)]


DATA: Mapping[str, Data] = {
    data.name: data
    for data in (
        Data("news20", "News20", "newsgroups", newsgroups_tf_idf),
        Data("news20-counts", "News20, counts", "newsgroups", newsgroups),
        Data("mnist", "MNIST", "mnist", mnist_780),
        Data("sector", "Sector", "sector", partial(of_publisher, "sector"), SECTOR, (1e-2, 1e-4)),
        Data("rcv1", "RCV1", "rcv1", partial(of_publisher, "rcv1"), replace(RCV1, n_items=534_135)),
        Data("amazon7", "Amazon7", "amazon7", partial(of_publisher, "amazon7")),
    )
}


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

    def load(self) -> Problem:
        """The items; where the data is not here, made-up ones; DataUnavailableError: nothing stands in for it."""
        self.data.check()
        if self.data.is_here:
            problem = self.data.split(self.split)
            return problem.part(QUICK_ITEMS).without_unused() if self.is_quick else problem
        assert self.data.stand_in is not None
        shape = replace(self.data.stand_in, **QUICK_SHAPE) if self.is_quick else self.data.stand_in
        return stratified(*made_up_texts(shape), self.split)


FILES = ("data_set_ALL_AML_train", "data_set_ALL_AML_independent")
ENDINGS = (".tsv", ".tsv.gz", ".txt", ".txt.gz", ".csv", ".csv.gz")
# Patients by number (Golub et al. 1999): B-cell leukemia is what is left.
T_CELL = (2, 3, 6, 9, 10, 11, 14, 23, 67)
MYELOID = (*range(28, 39), 50, 51, 52, 53, 54, 57, 58, *range(60, 67))
FLOOR, CEILING = 100.0, 16000.0  # of the scanner, as Dudoit, Fridlyand and Speed (2002) have it


def leukemia(folder: Path | None = None) -> Problem:
    """38 and 34 patients of three classes, 7129 genes in blocks of 5, prepared as by Dudoit et al. (2002).

    Levels are cut to the scanner's range; their logarithms have mean 0 and variance 1 within each patient.
    """
    place = folder or Path(os.environ.get("CRFQN_DATA", "")) / "leukemia"
    parts: list[Any] = []
    for stem in FILES:
        file = next((place / f"{stem}{end}" for end in ENDINGS if (place / f"{stem}{end}").exists()), None)
        if file is None:
            raise DataUnavailableError(
                f"{place}: expected {stem}.tsv, .txt or .csv (perhaps .gz), the table of Golub et al. with a row a "
                "gene; --leukemia names its folder"
            )
        levels, numbers = read_expression(file)
        logarithms = np.log10(np.clip(levels, FLOOR, CEILING))
        centred = logarithms - logarithms.mean(axis=1, keepdims=True)
        kinds = ["T" if n in T_CELL else "AML" if n in MYELOID else "B" for n in numbers]
        parts += [centred / centred.std(axis=1, keepdims=True), np.array(kinds)]
    train, y, test, y_test = parts
    # Offsets have no penalty: the optimum is that without the subtraction, in far fewer steps of FBPD.
    means = train.mean(axis=0)
    return Problem(train - means, y, test - means, y_test, groups=5)


def read_expression(file: Path) -> tuple[NDArray[np.float64], list[int]]:
    """Levels (patients, genes) and the patients' numbers; columns named by a number alternate with calls."""
    import pandas as pd

    table = pd.read_csv(file, sep="," if ".csv" in file.name else "\t", index_col=False, encoding="latin-1")
    names = [name for name in table.columns if name.strip().isdigit()]
    if not names:
        raise InputError(
            f"{file}: expected columns named by the patients' numbers, got {list(table.columns)[:6]}"
        )
    return table[names].to_numpy(np.float64).T, [int(name) for name in names]


@dataclass(frozen=True)
class TextSource:
    """A set of texts in the registry, and how it is cut.

    n_train : training items by a seeded permutation, where the set brings no split (0: it does)
    n_first : only so many training items, the first ones (0: all)
    all_pairs : whether pairs that never occur have weights as well
    """

    dataset: str
    n_train: int = 0
    n_first: int = 0
    all_pairs: bool = False


SOURCES = {
    "company": TextSource("probablepeople-company", n_train=1106),
    "person": TextSource("probablepeople-person", n_train=2318),
    "conll2000-500": TextSource("conll2000", n_first=500),
    "conll2000-2000": TextSource("conll2000", n_first=2000),
    "dutch-upos": TextSource("dutch-upos"),
    "btc": TextSource("btc", all_pairs=True),
    "conll2000": TextSource("conll2000"),
    "dutch-xpos": TextSource("dutch-xpos"),
}
MADE_UP = "made-up"
CHUNKED = ("btc", "conll2000-500", "conll2000-2000", "conll2000", "entities")  # whose labels are IOB tags


@dataclass(frozen=True, eq=False)
class Texts:
    """Words and their labels, item by item."""

    name: str
    train: Words
    y_train: Words
    test: Words
    y_test: Words
    all_pairs: bool = False

    @classmethod
    def load(cls, name: str) -> Texts:
        """A set by its name in `SOURCES`, or the made-up one."""
        if name == MADE_UP:
            return made_up()
        source = SOURCES[name]
        data: Any = dataset(source.dataset).load()
        order = np.arange(data.n_items)
        if source.n_train:
            order = np.random.RandomState(0).permutation(data.n_items)
        n_train = source.n_train or data.n_train
        words = [[position["w"] for position in item] for item in data.inputs]
        train, test = order[: source.n_first or n_train], order[n_train:]
        parts = [[rows[item] for item in part] for part in (train, test) for rows in (words, data.labels)]
        return cls(name, parts[0], parts[1], parts[2], parts[3], source.all_pairs)

    @cached_property
    def dicts(self) -> tuple[list[Any], list[Any]]:
        """Features of the training and of the test items."""
        from crfqn.data.templates.windows import word_features

        return [word_features(item) for item in self.train], [word_features(item) for item in self.test]

    def problem(self) -> Problem:
        """The same as columns."""
        from crfqn.data.encoding import encode_sequences

        train, test = self.dicts
        X, vocabulary = encode_sequences(train)
        assert vocabulary is not None
        named = type(X)(X.matrix, X.offsets, list(vocabulary.names))
        X_test, _ = encode_sequences(test, vocabulary, allow_empty=True)
        return Problem(named, self.y_train, X_test, self.y_test)

    def describe(self) -> str:
        n_labels = len({label for item in self.y_train for label in item})
        return f"{len(self.train):,} items, {sum(map(len, self.train)):,} words, {n_labels} labels"


def made_up(n_train: int = 60, n_test: int = 20) -> Texts:
    """Short addresses with a house number somewhere: what runs anywhere, in a second."""
    draw = random.Random(0)
    streets = [
        f"{first}{second}" for first in ("Elm", "Oak", "Mill", "Kirk") for second in ("wood", "gate", "by")
    ]
    kinds, towns = ("Street", "Road", "St."), ("Leeds", "York", "Hull", "Bath")
    items, labels = [], []
    for _ in range(n_train + n_test):
        words = [(str(draw.randint(1, 300)), "Number"), (draw.choice(streets), "Street")]
        words += [(draw.choice(kinds), "Kind")] if draw.random() < 0.8 else []
        words = words[1:] + words[:1] if draw.random() < 0.2 else words
        words.append((draw.choice(towns + tuple(streets[:2])), "Town"))
        items.append([word for word, _ in words])
        labels.append([label if draw.random() > 0.03 else "Street" for _, label in words])
    return Texts(MADE_UP, items[:n_train], labels[:n_train], items[n_train:], labels[n_train:])


def entity_texts() -> Texts:
    """GUM (Zeldes 2017), entities in eight genres; from the folder `gum_ner` below CRFQN_DATA."""
    parts: list[Any] = []
    for part in ("train", "test"):
        labeled = read_conll(below_data("gum_ner", f"{part}.conll.gz"), ("w",))
        parts += [[[position["w"] for position in item] for item in labeled.inputs], labeled.labels]
    return Texts("entities", *parts)


def units() -> Problem:
    """GROBID's units of measurement, characters, by its own templates; from `grobid_units` below CRFQN_DATA."""
    from crfqn import Templates

    names = ("w", *map(str, range(1, 7)))
    train, test = (
        read_conll(below_data("grobid_units", f"{part}.data.gz"), names) for part in ("train", "test")
    )
    templates = Templates(below_data("grobid_units", "units.template").read_text(encoding="utf-8"))
    return Problem(
        templates.fit_transform(train.inputs), train.labels, templates.transform(test.inputs), test.labels
    )


def below_data(folder: str, name: str) -> Path:
    """A file of a folder below CRFQN_DATA; DataUnavailableError where there is none."""
    file = Path(os.environ.get("CRFQN_DATA", "")) / folder / name
    if not file.exists():
        raise DataUnavailableError(f"{file}: expected a file of this name; CRFQN_DATA names the folder above")
    return file


class UserItems(NamedTuple):
    """Training and test items as users hold them: lists of dicts, or of lists of strings; their labels.

    is_chunked : whether the labels are IOB tags
    """

    X: list[Any]
    y: list[Any]
    X_test: list[Any]
    y_test: list[Any]
    is_chunked: bool

    def score(self, predicted: list[Any]) -> float:
        """F1 of chunks where labels are IOB tags, elsewhere the share of positions labelled right."""
        from crfqn.metrics import chunk_f1_score, token_accuracy

        score = chunk_f1_score if self.is_chunked else token_accuracy
        return float(score(self.y_test, predicted))


def user_items(name: str) -> UserItems:
    """A set of texts, entities, units of measurement or handwritten words."""
    if name in ("ocr", "units"):
        from benchmarks.crfsuite import strings

        problem = units() if name == "units" else Problem.of_recipe("ocr")
        X, X_test = (list(strings(each)) for each in (problem.X_train, problem.X_test))
        return UserItems(X, problem.y_train, X_test, problem.y_test, is_chunked=False)
    texts = entity_texts() if name == "entities" else Texts.load(name)
    return UserItems(texts.dicts[0], texts.y_train, texts.dicts[1], texts.y_test, name in CHUNKED)
