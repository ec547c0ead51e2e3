"""Flat multiclass problems: 20 newsgroups and MNIST as the figures were asked on, and a made-up text collection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.items import ItemProblem, narrow

TEST_SHARE = 0.2
N_TOKENS = 48  # of a made-up text: 0.1 % of the vocabulary
TOPIC_WORDS, TOPIC_SHARE = 2000, 0.25  # words that a class prefers, and how many tokens come from them
ZIPF_SHIFT = 20.0  # rank r has probability ~ 1 / (r + shift)


def newsgroups() -> ItemProblem:
    """20 Newsgroups: word counts over the words of the by-date training part, rows of length 1.

    The posts are in the order in which scikit-learn's `fetch_20newsgroups` hands them out, the test part after the
    training part, each sorted and then shuffled.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    from crfqn.datasets import dataset

    posts: Any = dataset("newsgroups").load()
    n_train, labels = posts.n_train, np.array(posts.labels)
    vectorizer = CountVectorizer().fit(posts.inputs[:n_train])
    order = np.concatenate([_shuffled(n_train), n_train + _shuffled(posts.n_items - n_train)])
    return _stratified(normalize(vectorizer.transform(posts.inputs).astype(np.float64)), labels, order)


def mnist() -> ItemProblem:
    """MNIST: grey values from 0 to 1; sparse, since 81 % are 0 and saga is five times as fast on CSR as on an array."""
    from crfqn.datasets import dataset

    images: Any = dataset("mnist").load()
    return _stratified(images.inputs, np.array(images.labels), np.arange(images.n_items))


def rcv1_like(n_train: int = 500_000, n_test: int = 50_000) -> ItemProblem:
    """Texts as RCV1 might have them: 47,236 words by Zipf's law, 52 classes of sizes by Zipf's law, 0.1 % dense.

    A class has 2000 words of its own, among them words of any rank; a quarter of its tokens come from these. Counts
    are damped by 1 + log, rows have length 1.
    """
    from scipy.sparse import csr_array
    from sklearn.preprocessing import normalize

    n_words, n_classes, n_items = 47_236, 52, n_train + n_test
    generator = np.random.default_rng(0)
    codes = generator.choice(n_classes, n_items, p=zipf(n_classes, 0.0))
    words = generator.choice(n_words, (n_items, N_TOKENS), p=zipf(n_words, ZIPF_SHIFT)).astype(np.int32)
    topics = np.stack([generator.choice(n_words, TOPIC_WORDS, replace=False) for _ in range(n_classes)])
    is_topic = generator.random(words.shape) < TOPIC_SHARE
    ranks = generator.choice(TOPIC_WORDS, int(is_topic.sum()), p=zipf(TOPIC_WORDS, ZIPF_SHIFT))
    words[is_topic] = topics[np.repeat(codes, is_topic.sum(axis=1)), ranks]
    ends = N_TOKENS * np.arange(n_items + 1)
    matrix = csr_array((np.ones(words.size), words.ravel(), ends), shape=(n_items, n_words))
    matrix.sum_duplicates()
    matrix.data = 1.0 + np.log(matrix.data)
    matrix = normalize(matrix)
    labels = np.array([f"class {code:02}" for code in range(n_classes)])[codes]
    train, test = narrow(matrix[:n_train]), narrow(matrix[n_train:])
    return ItemProblem(train, labels[:n_train], test, labels[n_train:])


def _stratified(X: Any, labels: NDArray[np.str_], order: NDArray[np.int64]) -> ItemProblem:
    """Four fifths of every class for training."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(order, test_size=TEST_SHARE, random_state=0, stratify=labels[order])
    return ItemProblem(X[train], labels[train], X[test], labels[test])


def _shuffled(n: int) -> NDArray[np.int64]:
    order = np.arange(n)
    np.random.RandomState(0).shuffle(order)
    return order


def zipf(n: int, shift: float) -> NDArray[np.float64]:
    """Probabilities of the ranks 1 ... n."""
    p = 1.0 / (np.arange(1, n + 1) + shift)
    return p / p.sum()
