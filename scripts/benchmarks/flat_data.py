"""Flat multiclass problems: 20 newsgroups and MNIST as the figures were asked on, and a made-up text collection."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.items import ItemProblem, narrow

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


def newsgroups(seed: int = 0) -> ItemProblem:
    """20 Newsgroups: word counts over the words of the by-date training part, rows of length 1.

    The posts are in the order in which scikit-learn's `fetch_20newsgroups` hands them out, the test part after the
    training part, each sorted and then shuffled. seed: of the split.
    """
    counts, labels, n_train = newsgroup_counts()
    order = np.concatenate([_shuffled(n_train), n_train + _shuffled(labels.size - n_train)])
    return stratified(counts, labels, seed, order)


@cache
def newsgroup_counts() -> tuple[Any, NDArray[np.str_], int]:
    """The rows and labels of all posts, and how many are of the by-date training part: counted once for all splits."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    from crfqn.datasets import dataset

    posts: Any = dataset("newsgroups").load()
    vectorizer = CountVectorizer().fit(posts.inputs[: posts.n_train])
    counts = normalize(vectorizer.transform(posts.inputs).astype(np.float64))
    return counts, np.array(posts.labels), posts.n_train


def mnist(seed: int = 0) -> ItemProblem:
    """MNIST: grey values from 0 to 1; sparse, since 81 % are 0 and saga is five times as fast on CSR as on an array."""
    from crfqn.datasets import dataset

    images: Any = dataset("mnist").load()
    return stratified(images.inputs, np.array(images.labels), seed)


def rcv1_like(n_train: int = 500_000) -> ItemProblem:
    """Texts as RCV1 might have them: 47,236 words and 52 classes of sizes by Zipf's law, 0.1 % dense."""
    matrix, labels = made_up_texts(RCV1)
    train, test = narrow(matrix[:n_train]), narrow(matrix[n_train:])
    return ItemProblem(train, labels[:n_train], test, labels[n_train:])


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
) -> ItemProblem:
    """Four fifths of every class for training."""
    from sklearn.model_selection import train_test_split

    order = np.arange(labels.size) if order is None else order
    train, test = train_test_split(order, test_size=TEST_SHARE, random_state=seed, stratify=labels[order])
    return ItemProblem(X[train], labels[train], X[test], labels[test])


def _shuffled(n: int) -> NDArray[np.int64]:
    order = np.arange(n)
    np.random.RandomState(0).shuffle(order)
    return order


def zipf(n: int, shift: float) -> NDArray[np.float64]:
    """Probabilities of the ranks 1 ... n."""
    p = 1.0 / (np.arange(1, n + 1) + shift)
    return p / p.sum()
