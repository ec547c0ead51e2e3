"""The data of the study: MNIST, or scikit-learn's digits where it must be quick; News20, or made-up texts; CIFAR-10.

Shapes: I images, d pixels or principal components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from benchmarks.flat_data import RCV1, made_up_texts, stratified
from numpy.typing import NDArray

from crfqn.data.generators.projections import RandomFourier
from crfqn.datasets import dataset

COMPONENTS = 35  # principal components of the training images, before random features of MNIST
SCALE = 100.0  # s of the kernel exp(-||x - x'||^2 / s) on these
QUICK_SCALE, QUICK_COMPONENTS = 4.0, 30  # of digits


class Parts(NamedTuple):
    """Training and test items."""

    X_train: Any
    y_train: NDArray
    X_test: Any
    y_test: NDArray


@dataclass(frozen=True, eq=False)
class Images:
    """Images, and how random features of them are made.

    Attributes
    ----------
    raw : grey values from 0 to 1, float32 (I, d)
    components : principal components of the training images, float32
    scale : s
    """

    title: str
    raw: Parts
    components: Parts
    scale: float

    def features(self, n_features: int) -> Parts:
        """Random Fourier features of the components, float32."""
        source = RandomFourier(self.scale).fit([self.components.X_train], 0)
        batch = source.batch(0, n_features)
        train, test = (batch.transform(X) for X in (self.components.X_train, self.components.X_test))
        return self.components._replace(X_train=train, X_test=test)


def mnist(is_quick: bool) -> Images:
    """MNIST, or the digits that scikit-learn brings along."""
    if is_quick:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = (X / 16.0).astype(np.float32)
        parts = Parts(X[:1300], y[:1300], X[1300:], y[1300:])
        return Images("digits", parts, principal(parts, QUICK_COMPONENTS), QUICK_SCALE)
    found: Any = dataset("mnist").load()
    X, n, labels = found.inputs.toarray().astype(np.float32), found.n_train, np.array(found.labels)
    parts = Parts(X[:n], labels[:n], X[n:], labels[n:])
    return Images("MNIST", parts, principal(parts, COMPONENTS), SCALE)


def principal(parts: Parts, n: int) -> Parts:
    """The first principal components of the training items."""
    mean = parts.X_train.mean(axis=0)
    centred = parts.X_train - mean
    axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))[1][:, ::-1][:, :n].astype(np.float32)
    return replace_rows(parts, centred @ axes, (parts.X_test - mean) @ axes)


def replace_rows(parts: Parts, train: Any, test: Any) -> Parts:
    """The same items with other features."""
    return parts._replace(X_train=train, X_test=test)


def texts(is_quick: bool) -> tuple[str, Parts]:
    """News20, log(1 + count) of the words, rows of length 1; made-up texts where it must be quick or has no files."""
    from sklearn.preprocessing import normalize

    if is_quick or not dataset("newsgroups").locate():
        shape = replace(RCV1, n_items=600, n_words=900, n_classes=6, n_tokens=40, topic_words=80)
        problem, title = stratified(*made_up_texts(shape), 0), "made-up texts"
        problem = problem.without_unused()
    else:
        from sklearn.feature_extraction.text import CountVectorizer

        posts: Any = dataset("newsgroups").load()
        n, labels = posts.n_train, np.array(posts.labels)
        vectorizer = CountVectorizer().fit(posts.inputs[:n])
        counts = normalize(vectorizer.transform(posts.inputs).astype(np.float64).log1p())
        return "News20", Parts(narrowed(counts[:n]), labels[:n], narrowed(counts[n:]), labels[n:])
    train, test = (narrowed(normalize(X.log1p())) for X in (problem.X_train, problem.X_test))
    return title, Parts(train, np.asarray(problem.y_train), test, np.asarray(problem.y_test))


def narrowed(matrix: Any) -> Any:
    """The CSR matrix with indices of 32 bits, which LIBLINEAR asks for."""
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def cifar(is_quick: bool) -> tuple[str, Parts]:
    """CIFAR-10 from files of one's own, (items, 3072) in 0 ... 1; generated images of two sizes of stripes if quick."""
    if is_quick:
        return "generated images", striped()
    found: Any = dataset("cifar10").load()
    X, n, labels = found.inputs.toarray().astype(np.float32), found.n_train, np.array(found.labels)
    return "CIFAR-10", Parts(X[:n], labels[:n], X[n:], labels[n:])


def striped(n: int = 240, side: int = 32, seed: int = 0) -> Parts:
    """Colour images of stripes: a class is a direction and a width, phases and noise are random."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 4
    rows, columns = np.mgrid[:side, :side]
    images = np.empty((n, 3, side, side), np.float32)
    for item, label in enumerate(labels):
        along = rows if label % 2 else columns
        wave = np.sin(2 * np.pi * along / (6 if label < 2 else 12) + random.uniform(0, 2 * np.pi))
        images[item] = 0.5 + 0.3 * wave + 0.1 * random.normal(size=(3, side, side))
    flat, half = images.reshape(n, -1), n // 2
    return Parts(flat[:half], labels[:half], flat[half:], labels[half:])
