"""The data of the paper: leukemia, subsets of MNIST and of 20 newsgroups, and built-in digits in the place of all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import DataUnavailableError, InputError

FILES = ("data_set_ALL_AML_train", "data_set_ALL_AML_independent")
# Patients by number (Golub et al. 1999): B-cell leukemia is what is left.
T_CELL = (2, 3, 6, 9, 10, 11, 14, 23, 67)
MYELOID = (*range(28, 39), 50, 51, 52, 53, 54, 57, 58, *range(60, 67))
FLOOR, CEILING = 100.0, 16000.0  # of the scanner, as Dudoit, Fridlyand and Speed (2002) have it
SCALES, WAVELETS = 2, 2  # 2^J = 4, two layers


@dataclass(frozen=True, eq=False)
class Items:
    """Training and test items; `groups`: as of `MulticlassClassifier.feature_groups`."""

    X_train: Any
    y_train: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    groups: Any

    def subset(self, per_class: int, seed: int) -> Items:
        """As many training items of every class, at random."""
        random = np.random.default_rng(seed)
        rows = np.concatenate(
            [
                random.permutation(np.flatnonzero(self.y_train == label))[:per_class]
                for label in np.unique(self.y_train)
            ]
        )
        return Items(self.X_train[rows], self.y_train[rows], self.X_test, self.y_test, self.groups)


def expression_file(folder: Path, stem: str) -> Path:
    """The file of the Broad Institute, whatever its ending."""
    for ending in (".tsv", ".tsv.gz", ".txt", ".txt.gz", ".csv", ".csv.gz"):
        if (folder / f"{stem}{ending}").exists():
            return folder / f"{stem}{ending}"
    raise DataUnavailableError(
        f"{folder}: expected {stem}.tsv, .txt or .csv (perhaps .gz), the table of Golub et al. with a row a gene; "
        "--leukemia names its folder"
    )


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


def leukemia(folder: Path | None) -> Items:
    """38 and 34 patients of three classes, 7129 genes in blocks of 5, prepared as by Dudoit et al. (2002)."""
    place = folder or Path(os.environ.get("CRFQN_DATA", "")) / "leukemia"
    parts = [read_expression(expression_file(place, stem)) for stem in FILES]
    train, test = (per_array(levels) for levels, _ in parts)
    labels = [np.array([kind_of(number) for number in numbers]) for _, numbers in parts]
    # Offsets have no penalty: the optimum is that without the subtraction, in far fewer steps of FBPD.
    means = train.mean(axis=0)
    return Items(train - means, labels[0], test - means, labels[1], 5)


def per_array(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of levels within the scanner's range, each patient's with mean 0 and variance 1."""
    logarithms = np.log10(np.clip(levels, FLOOR, CEILING))
    centred = logarithms - logarithms.mean(axis=1, keepdims=True)
    return centred / centred.std(axis=1, keepdims=True)


def kind_of(patient: int) -> str:
    """The leukemia of a patient."""
    return "T" if patient in T_CELL else "AML" if patient in MYELOID else "B"


@cache
def mnist(scatters: bool) -> Items:
    """Grey values from 0 to 1 of 60,000 and 10,000 digits, or their scattering transform in blocks by place."""
    from crfqn.datasets import dataset

    images: Any = dataset("mnist").load()
    x, labels, n_train = images.inputs, np.array(images.labels), images.n_train
    if not scatters:
        return Items(x[:n_train], labels[:n_train], x[n_train:], labels[n_train:], None)
    # What training subsets may draw from, and all test images, are transformed once.
    few = np.concatenate([np.flatnonzero(labels[:n_train] == label)[:200] for label in np.unique(labels)])
    table, groups = scattering(x[few].toarray()), None
    test, groups = scattering(x[n_train:].toarray())[0], table[1]
    return Items(table[0], labels[few], test, labels[n_train:], groups)


def scattering(x: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Coefficients of Bruna and Mallat (2013), and the place, one of 7 x 7 or more, that each belongs to."""
    try:
        from kymatio.numpy import Scattering2D
    except ImportError:
        raise InputError(
            "scattering needs kymatio, which is not installed here: pip install 'crfqn[scattering]'"
        ) from None
    transform = Scattering2D(J=SCALES, shape=(28, 28), max_order=WAVELETS)
    found = np.concatenate(
        [
            transform(part.reshape(-1, 28, 28).astype(np.float32))
            for part in np.array_split(x, max(len(x) // 500, 1))
        ]
    )
    n_paths = found.shape[1]
    places = np.tile(np.arange(found[0, 0].size), n_paths)
    return found.reshape(len(x), -1), places


@cache
def news20() -> Items:
    """Term frequencies times inverse document frequencies of 20 newsgroups, the by-date split; rows are groups."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from crfqn.datasets import dataset

    posts: Any = dataset("newsgroups").load()
    n_train, labels = posts.n_train, np.array(posts.labels)
    vectors = TfidfVectorizer(min_df=3).fit(posts.inputs[:n_train])
    train, test = (vectors.transform(part) for part in (posts.inputs[:n_train], posts.inputs[n_train:]))
    return Items(train, labels[:n_train], test, labels[n_train:], None)


@cache
def digits() -> Items:
    """scikit-learn's 8 x 8 digits, blocks of 8 pixels, every third for testing."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    is_test = np.arange(y.size) % 3 == 0
    return Items(x[~is_test] / 16.0, y[~is_test], x[is_test] / 16.0, y[is_test], 8)
