"""Every estimator on a sparse matrix of every form: the same model and predictions, and the matrix left as it was."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    Features,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    Sequences,
    StagewiseRegression,
    TaxonomyCRF,
)
from crfqn.model.opening import open_model

N, F = 60, 8
RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((N, F)) < 0.5, RNG.standard_normal((N, F)).round(2), 0.0)
Y = (DENSE[:, 0] + DENSE[:, 1] > 0).astype(int) + 2 * (DENSE[:, 2] > 0.5)
SETS = [{"a"} if value else {"a", "b"} for value in Y]


def scattered(matrix):
    """Data, indices and indptr with each entry in two pieces, out of order, and zeros stored among them."""
    data, indices, ends = [], [], [0]
    for row in sp.csr_array(matrix):
        columns, values = row.indices.tolist(), row.data.tolist()
        indices += [*columns[::-1], *columns, 0]
        data += [*(0.25 * value for value in values[::-1]), *(0.75 * value for value in values), 0.0]
        ends.append(len(indices))
    return np.array(data), np.array(indices, np.int32), np.array(ends, np.int32)


def of_int64(matrix):
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def doubled_blocks():
    blocks = sp.bsr_array(DENSE, blocksize=(2, 2))
    cuts = [slice(a, b) for a, b in zip(blocks.indptr[:-1], blocks.indptr[1:], strict=True)]
    data = np.concatenate([part * blocks.data[cut] for cut in cuts for part in (0.25, 0.75)])
    indices = np.concatenate([blocks.indices[cut] for cut in cuts for _ in range(2)])
    return sp.bsr_array((data, indices, 2 * blocks.indptr), shape=DENSE.shape)


FORMS = {
    "csr": lambda: sp.csr_array(scattered(DENSE), shape=(N, F)),
    "csr matrix": lambda: sp.csr_matrix(scattered(DENSE), shape=(N, F)),
    "csr of int64": lambda: of_int64(sp.csr_array(scattered(DENSE), shape=(N, F))),
    "csc": lambda: sp.csc_array(scattered(DENSE.T), shape=(N, F)),
    "coo": lambda: sp.csr_array(scattered(DENSE), shape=(N, F)).tocoo(),
    "bsr": doubled_blocks,
    "dia": lambda: sp.dia_array(DENSE),
    "lil": lambda: sp.lil_array(DENSE),
}
ITEMS = {
    "rbf": lambda: MulticlassSVC(),
    "polynomial": lambda: MulticlassSVC(kernel="poly", coef0=1.0),
    "linear": lambda: MulticlassSVC(kernel="linear"),
    "crf": lambda: MulticlassCRF(l1=0.1),
    "auto": lambda: MulticlassCRF(),
    "classifier": lambda: MulticlassClassifier(),
    "hinge": lambda: MulticlassClassifier(loss="hinge", penalty="l2", l2=1.0),
    "online": lambda: MulticlassCRF(l1=0.1, solver="averaged-perceptron"),
    "taxonomy": lambda: TaxonomyCRF(l1=0.1),
    "ranker": lambda: MultilabelRanker(),
    "calibrated": lambda: CalibratedLeastSquares(),
    "generalized": lambda: GeneralizedLeastSquares(),
    "stagewise": lambda: StagewiseRegression(batch_size=20, max_iter=2),
}
forms = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)


def contents(matrix):
    names = [name for name in ("data", "indices", "indptr", "row", "col", "offsets") if hasattr(matrix, name)]
    return {name: np.array(getattr(matrix, name), copy=True) for name in names}


def check_unchanged(matrix, before):
    for name, array in before.items():
        assert np.array_equal(getattr(matrix, name), array), name
        assert getattr(matrix, name).dtype == array.dtype


@pytest.fixture(scope="module")
def canonical_fits():
    """The models of the features as a canonical matrix, by name and by whether they learn sets; fitted once."""

    @cache
    def fit(name, are_sets=False):
        return ITEMS[name]().fit(sp.csr_array(DENSE), SETS if are_sets else Y)

    return fit


@forms
@pytest.mark.parametrize("name", ITEMS)
def test_items(name, make, canonical_fits, tmp_path):
    expected, X = canonical_fits(name), make()
    before = contents(X)
    model = ITEMS[name]().fit(X, Y)
    scores = expected.decision_function(sp.csr_array(DENSE))
    np.testing.assert_allclose(model.decision_function(sp.csr_array(DENSE)), scores, atol=1e-8)
    np.testing.assert_allclose(expected.decision_function(X), scores, atol=1e-8)
    assert model.score(X, Y) == expected.score(DENSE, Y)
    if isinstance(model, (MulticlassCRF, TaxonomyCRF)):  # of which numpy alone can label
        expected.save(tmp_path / "m.crfqn")
        light = open_model(tmp_path / "m.crfqn")
        assert light.predict(X).tolist() == expected.predict(DENSE).tolist()
    check_unchanged(X, before)


@forms
@pytest.mark.parametrize("name", ["ranker", "calibrated", "stagewise"])
def test_label_sets(name, make, canonical_fits):
    expected, X = canonical_fits(name, are_sets=True), make()
    before = contents(X)
    model = ITEMS[name]().fit(X, SETS)
    scores = expected.decision_function(DENSE)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-8)
    check_unchanged(X, before)


@forms
def test_dense_blocks(make):
    block = RNG.standard_normal((N, 2))
    expected = MulticlassCRF(l1=0.1).fit(Features(block, sp.csr_array(DENSE)), Y)
    X = make()
    before = contents(X)
    model = MulticlassCRF(l1=0.1).fit(Features(block, X), Y)
    pair = [m.decision_function(Features(block, X)) for m in (expected, model)]
    np.testing.assert_allclose(*pair, atol=1e-8)
    check_unchanged(X, before)


@forms
@pytest.mark.parametrize("options", [{}, {"all_possible_states": False}, {"l1": 0.0, "l2": 1.0}])
def test_positions(options, make):
    cuts = np.arange(0, N + 1, 3)
    settings = {"l1": 0.1, **options}
    expected = ChainCRF(**settings).fit(Sequences(sp.csr_array(DENSE), cuts), Y)
    marginals = np.concatenate(expected.predict_marginals(Sequences(DENSE, cuts)))
    X = make()
    before = contents(X)
    items = Sequences(X, cuts)
    model = ChainCRF(**settings).fit(items, Y)
    for found in (model, expected):
        np.testing.assert_allclose(np.concatenate(found.predict_marginals(items)), marginals, atol=1e-8)
        np.testing.assert_allclose(np.concatenate(found.predict_marginals([*items])), marginals, atol=1e-8)
    check_unchanged(X, before)
