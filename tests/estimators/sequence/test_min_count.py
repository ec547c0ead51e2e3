"""ChainCRF(min_count=): features at few positions are left out, whatever form the items have."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from crfqn import ChainCRF, Sequences, Templates
from crfqn.errors import InputError

X = [[{"a": 1.0, "w": "x"}, {"a": 2.0}], [{"b": 1.0, "w": "y"}, {"a": 1.0, "zero": 0.0}], [{"w": "x"}]]
Y = [["A", "B"], ["B", "A"], ["A"]]
WITHOUT_RARE = [[{"a": 1.0, "w": "x"}, {"a": 2.0}], [{}, {"a": 1.0}], [{"w": "x"}]]


def assert_same(model, reference):
    assert model.classes_.tolist() == reference.classes_.tolist()
    np.testing.assert_allclose(model.coef_.toarray(), reference.coef_.toarray(), atol=1e-12)
    np.testing.assert_allclose(
        model.transition_coef_.toarray(), reference.transition_coef_.toarray(), atol=1e-12
    )


@pytest.mark.parametrize("strengths", [{"l1": 0.1}, {"l1": 0.0, "l2": 0.5}], ids=str)
def test_it_is_a_training_without_these_features(strengths):
    model = ChainCRF(min_count=2, **strengths).fit(X, Y)
    assert model.feature_names_in_.tolist() == ["a", "w=x"]
    assert_same(model, ChainCRF(**strengths).fit(WITHOUT_RARE, Y))
    assert model.predict([[{"b": 1.0, "a": 1.0}]]).tolist() == model.predict([[{"a": 1.0}]]).tolist()


def test_named_sequences_and_lists_of_strings():
    strings = [[["a", "x"], ["a"]], [["b", "y"], ["a"]], [["x"]]]
    model = ChainCRF(l1=0.1, min_count=2).fit(strings, Y)
    assert model.feature_names_in_.tolist() == ["a", "x"]
    matrix = csr_array(np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1.0]]))
    sequences = Sequences(matrix, [0, 2, 4, 5], feature_names=["a", "b", "x"])
    assert_same(ChainCRF(l1=0.1, min_count=2).fit(sequences, Y), model)


def test_columns_without_names_keep_their_place():
    matrix = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1.0]])
    model = ChainCRF(l1=0.1, min_count=2).fit(Sequences(csr_array(matrix), [0, 2, 4, 5]), Y)
    assert model.n_features_in_ == 3
    assert not model.coef_[:, [1]].toarray().any()
    assert model.coef_.nnz


def test_mistakes_are_named():
    with pytest.raises(InputError, match="min_count: expected features at 9 positions, got none"):
        ChainCRF(min_count=9).fit(X, Y)
    with pytest.raises(InputError, match="min_count: expected an integer >= 1, got 0"):
        ChainCRF(min_count=0).fit(X, Y)
    with pytest.raises(InputError, match="min_count: partial_fit expects 1"):
        ChainCRF(min_count=2).partial_fit(X, Y)
    columns = Templates("U00:%x[0,0]").fit_transform([[["a"], ["b"]], [["a"], ["c"]], [["a"]]])
    with pytest.raises(InputError, match=r"Templates\(min_count=\)"):
        ChainCRF(min_count=2).fit(columns, Y)
