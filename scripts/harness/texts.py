"""Texts to label, as words and tags, with the features of `crfqn.data.templates.windows` for every library.

Every run has a process of its own: words are stored once, and each process makes features of them as its library takes
them, dicts or columns.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.problems import Problem

Words = list[list[str]]


@dataclass(frozen=True)
class Source:
    """A set of the registry, and how it is cut.

    n_train : training items by a seeded permutation, where the set brings no split (0: it does)
    n_first : only so many training items, the first ones (0: all)
    all_pairs : whether pairs that never occur have weights as well
    """

    dataset: str
    n_train: int = 0
    n_first: int = 0
    all_pairs: bool = False


SOURCES = {
    "company": Source("probablepeople-company", n_train=1106),
    "person": Source("probablepeople-person", n_train=2318),
    "conll2000-500": Source("conll2000", n_first=500),
    "conll2000-2000": Source("conll2000", n_first=2000),
    "dutch-upos": Source("dutch-upos"),
    "btc": Source("btc", all_pairs=True),
    "conll2000": Source("conll2000"),
    "dutch-xpos": Source("dutch-xpos"),
}
MADE_UP = "made-up"


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
        from crfqn.datasets import dataset

        source = SOURCES[name]
        data: Any = dataset(source.dataset).load()
        order = np.arange(data.n_items)
        if source.n_train:
            order = np.random.RandomState(0).permutation(data.n_items)
        n_train = source.n_train or data.n_train
        words = [[position["w"] for position in item] for item in data.inputs]
        train, test = order[: source.n_first or n_train], order[n_train:]
        parts: list[Any] = [
            [rows[item] for item in part] for part in (train, test) for rows in (words, data.labels)
        ]
        return cls(name, parts[0], parts[1], parts[2], parts[3], source.all_pairs)

    @property
    def n_tokens(self) -> int:
        """Words of the training part."""
        return sum(map(len, self.train))

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
        return f"{len(self.train):,} items, {self.n_tokens:,} words, {n_labels} labels"


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
