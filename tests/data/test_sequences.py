"""Sequences: a list of items to Python and to scikit-learn, backed by one matrix."""

import copy
import pickle
import warnings
import weakref
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing, resample, shuffle

from crfqn import ChainCRF, MulticlassCRF
from crfqn.data.encoding import Sequences
from crfqn.data.items import Handover
from crfqn.errors import InputError

OFFSETS = np.array([0, 3, 4, 4, 9, 12])
DENSE = np.arange(36.0).reshape(12, 3) % 7
NAMES = ["a", "b", "c"]
ITEMS = [DENSE[start:stop] for start, stop in pairwise(OFFSETS)]


@pytest.fixture(params=["dense", "csr_array", "csr_matrix"])
def seqs(request):
    make = {"dense": np.asarray, "csr_array": sp.csr_array, "csr_matrix": sp.csr_matrix}[request.param]
    return Sequences(make(DENSE), OFFSETS, NAMES)


def as_dense(matrix):
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def assert_items(part, numbers):
    assert isinstance(part, Sequences)
    assert len(part) == len(numbers)
    assert part.shape == (len(numbers),)
    assert part.feature_names == NAMES
    assert part.offsets.dtype == np.int64
    assert part.offsets[0] == 0
    assert part.n_positions == part.offsets[-1] == part.matrix.shape[0]
    for found, number in zip(part, numbers, strict=True):
        np.testing.assert_array_equal(as_dense(found), ITEMS[number])


KEYS = [
    (slice(None), [0, 1, 2, 3, 4]),
    (slice(1, 3), [1, 2]),
    (slice(-2, None), [3, 4]),
    (slice(None, None, 2), [0, 2, 4]),
    (slice(None, None, -1), [4, 3, 2, 1, 0]),
    (slice(3, 0, -2), [3, 1]),
    (slice(4, 2), []),
    (slice(0, 99), [0, 1, 2, 3, 4]),
    ([3, 0, 3], [3, 0, 3]),
    ([-1, 2], [4, 2]),
    ([], []),
    (np.array([4, 1], np.uint8), [4, 1]),
    (np.array([], int), []),
    ([True, False, False, True, False], [0, 3]),
    (np.array([False] * 5), []),
    (range(2, 4), [2, 3]),
]


@pytest.mark.parametrize(("key", "numbers"), KEYS)
def test_parts(seqs, key, numbers):
    assert_items(seqs[key], numbers)
    assert_items(seqs[key, ...], numbers)


@pytest.mark.parametrize("index", [0, 2, 4, -1, -5, np.int32(3), np.array(3)])
def test_one_item(seqs, index):
    for item in (seqs[index], seqs[index, ...]):
        assert type(item) is type(seqs.matrix)
        np.testing.assert_array_equal(as_dense(item), ITEMS[int(index)])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (5, r"^item 5 is out of range for 5 items$"),
        (-6, r"^item -6 is out of range for 5 items$"),
        ([0, 7], r"^item 7 is out of range for 5 items$"),
        ([0, -6], r"^item -6 is out of range for 5 items$"),
        ([True, False], r"^a mask must have one entry for each of the 5 items, got 2$"),
        ([0.0, 1.0], r"got shape \(2,\) and dtype float64$"),
        ([[0, 1]], r"got shape \(1, 2\) and dtype int64$"),
        ("a", r"integer arrays or masks, got 'a'$"),
        (True, r"integer arrays or masks, got True$"),
        (None, r"got None$"),
        (1.0, r"got shape \(\) and dtype float64$"),
        ((0, 1), r"got \(0, 1\)$"),
    ],
)
def test_bad_keys(seqs, key, message):
    with pytest.raises(IndexError, match=message):
        seqs[key]


def test_nothing_is_copied_where_it_need_not_be():
    matrix = sp.csr_array(DENSE)
    assert Sequences(matrix, OFFSETS).matrix is matrix
    assert Sequences(DENSE, OFFSETS).matrix is DENSE
    assert np.shares_memory(Sequences(DENSE, OFFSETS)[1:4].matrix, DENSE)
    named = Sequences(DENSE, OFFSETS, NAMES)
    assert named[[0, 1]].feature_names is named.feature_names


@pytest.mark.parametrize("layout", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_other_formats_become_csr(layout):
    seqs = Sequences(sp.csr_array(DENSE).asformat(layout), OFFSETS, NAMES)
    assert seqs.matrix.format == "csr"
    assert_items(seqs, range(5))


def test_properties_and_repr(seqs):
    assert (len(seqs), seqs.n_positions, seqs.n_features) == (5, 12, 3)
    np.testing.assert_array_equal(seqs.lengths, [3, 1, 0, 5, 3])
    storage = "dense float64" if isinstance(seqs.matrix, np.ndarray) else "CSR float64, 30 stored"
    assert repr(seqs) == f"Sequences(5 items, 12 positions, 3 features, named, {storage})"
    assert repr(Sequences([[1, 2]], [0, 1])) == "Sequences(1 items, 1 positions, 2 features, dense int64)"


def test_pickle_and_copies(seqs):
    for twin in (pickle.loads(pickle.dumps(seqs)), copy.copy(seqs), copy.deepcopy(seqs)):
        assert_items(twin, range(5))
    assert copy.copy(seqs).matrix is seqs.matrix


def test_no_items():
    seqs = Sequences(np.empty((0, 3)), [0])
    assert len(seqs) == 0
    assert list(seqs) == []
    assert len(seqs[:]) == len(seqs[[]]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(12), OFFSETS), r"^expected a 2-D matrix \(positions x features\).* got shape \(12,\)"),
        ((np.full((12, 3), "x"), OFFSETS), r"booleans or real numbers, got shape \(12, 3\) and dtype <U1$"),
        (([[1], [1, 2]], [0, 2]), r"got rows of different lengths$"),
        ((sp.csr_array(DENSE + 0j), OFFSETS), r"complex128$"),
        ((sp.coo_array(np.ones(12)), OFFSETS), r"got shape \(12,\)"),
        ((DENSE, OFFSETS + 1), r"^offsets must start at 0, but offsets\[0\] is 1$"),
        ((DENSE, [0, 5]), r"^offsets must end at the number of positions, 12, but end at 5$"),
        ((DENSE, [0, 5, 3, 12]), r"item 1 goes from offsets\[1\] = 5 to offsets\[2\] = 3$"),
        ((DENSE, [0.0, 12.0]), r"integers, got shape \(2,\) and dtype float64$"),
        ((DENSE, OFFSETS, ["a", "b"]), r"^feature_names must name each of the 3 columns, got 2 names$"),
        ((DENSE, OFFSETS, "abc"), r"^feature_names must be a list of 3 strings, got the single 'abc'$"),
        ((DENSE, OFFSETS, ["a", 1, "c"]), r"but that of column 1 is of type int: 1$"),
        ((DENSE, OFFSETS, ["a", "b", "a"]), r"^feature_names must be distinct, but 'a' comes twice$"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        Sequences(*arguments)


# ---- scikit-learn


class MeanScorer(BaseEstimator):
    """Remembers what it saw; its score is the number of positions minus a parameter."""

    def __init__(self, shift=0):
        self.shift = shift

    def fit(self, X, y):
        assert isinstance(X, Sequences)
        assert [item.shape[0] for item in X] == [len(labels) for labels in y]
        self.n_positions_ = X.n_positions
        return self

    def predict(self, X):
        return np.array([item.sum() for item in X])

    def score(self, X, y):
        assert [item.shape[0] for item in X] == [len(labels) for labels in y]
        return X.n_positions - self.shift


class PassThrough(BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


LABELS = [[i] * (OFFSETS[i + 1] - OFFSETS[i]) for i in range(5)]


def test_train_test_split(seqs):
    X_train, X_test, y_train, y_test = train_test_split(seqs, LABELS, test_size=2, random_state=0)
    for part, labels in ((X_train, y_train), (X_test, y_test)):
        assert isinstance(part, Sequences)
        assert part.feature_names == NAMES
        assert part.lengths.tolist() == [len(item) for item in labels]
    assert len(X_test) == 2
    together = sorted([*y_train, *y_test])
    assert together == sorted(LABELS)


def test_cross_validation_and_search(seqs):
    lengths = np.array([3, 1, 0, 5, 3])
    np.testing.assert_array_equal(cross_val_score(MeanScorer(), seqs, LABELS, cv=KFold(5)), lengths)
    scores = cross_val_score(MeanScorer(), seqs, LABELS, cv=ShuffleSplit(3, test_size=2, random_state=0))
    assert scores.shape == (3,)
    predicted = cross_val_predict(MeanScorer(), seqs, LABELS, cv=KFold(5))
    np.testing.assert_array_equal(predicted, [item.sum() for item in ITEMS])
    search = GridSearchCV(MeanScorer(), {"shift": [2, 0, 1]}, cv=KFold(2)).fit(seqs, LABELS)
    assert search.best_params_ == {"shift": 0}
    assert search.best_estimator_.n_positions_ == 12
    pipeline = make_pipeline(PassThrough(), MeanScorer())
    search = GridSearchCV(pipeline, {"meanscorer__shift": [2, 0]}, cv=KFold(2), n_jobs=1).fit(seqs, LABELS)
    assert search.score(seqs, LABELS) == 12


def test_resampling(seqs):
    assert sorted(shuffle(seqs, random_state=0).lengths.tolist()) == [0, 1, 3, 3, 5]
    assert len(resample(seqs, n_samples=8, random_state=0)) == 8
    assert_items(_safe_indexing(seqs, [True, False, True, False, False]), [0, 2])
    assert_items(_safe_indexing(seqs, slice(1, 3)), [1, 2])
    np.testing.assert_array_equal(as_dense(_safe_indexing(seqs, 3)), ITEMS[3])


@pytest.mark.parametrize("is_chain", [True, False])
def test_items_handed_over_are_freed_before_the_first_iteration(is_chain):
    random = np.random.default_rng(0)
    matrix = sp.csr_array((random.random((60, 9)) < 0.4).astype(float))
    labels = np.array(["a", "b"])[random.integers(2, size=60)]
    model = ChainCRF() if is_chain else MulticlassCRF()
    is_held: list[bool] = []
    model.set_params(
        l1=0.1, max_iter=2, tol=1e-12, callback=lambda _: is_held.append(reference() is not None)
    )
    expected = clone(model).set_params(callback=None)
    offsets = np.arange(0, 61, 6)
    reference = weakref.ref(matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected.fit(Sequences(matrix, offsets) if is_chain else matrix, labels)
        items = Handover(Sequences(matrix, offsets) if is_chain else matrix)
        del matrix
        model.fit(items, labels)
    assert is_held
    assert not any(is_held)
    assert (model.coef_ != expected.coef_).nnz == 0
