"""Attributes of a file in flat arrays: the same items, columns, errors and models as those of lists of dicts."""

import numpy as np
import pytest

from crfqn import ChainCRF
from crfqn.data.attribute_items import AttributeItems
from crfqn.data.encoding import encode_new, encode_sequences
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError
from crfqn.readers.crfsuite_text import read_crfsuite_text

TEXT = """A\tw=a\tbias\tx:0.5
B\tbias\tw=b\ty:0

A\tx:2\tx:-1\tz:3\tz:-3\tw=a\tw=a

B
A\tc\\:d\tbias:1.0\t
"""
DICTS = [
    [{"w=a": 1.0, "bias": 1.0, "x": 0.5}, {"bias": 1.0, "w=b": 1.0, "y": 0.0}],
    [{"x": 1.0, "z": 0.0, "w=a": 2.0}],
    [{}, {"c:d": 1.0, "bias": 1.0}],
]


@pytest.fixture
def items(tmp_path) -> AttributeItems:
    path = tmp_path / "a.crfsuite"
    path.write_text(TEXT)
    inputs = read_crfsuite_text(path).inputs
    assert isinstance(inputs, AttributeItems)
    return inputs


def test_items_are_lists_of_dicts(items):
    assert items == DICTS
    assert list(items) == DICTS
    assert (items[1], items[-1]) == (DICTS[1], DICTS[2])
    assert items[1:] == DICTS[1:]
    assert items[[2, 0, 2]] == [DICTS[2], DICTS[0], DICTS[2]]
    assert items[np.array([True, False, True])] == [DICTS[0], DICTS[2]]
    assert items[:0] == []
    assert items != DICTS[:2]
    assert repr(items) == "AttributeItems(3 items, 5 positions, 7 attributes)"


def test_an_attribute_of_value_1_takes_4_bytes(tmp_path):
    path = tmp_path / "ones.crfsuite"
    path.write_text("A\ta\tb:1\n" * 1000)
    rows = read_crfsuite_text(path).inputs.rows
    assert rows.columns.nbytes + rows.values.nbytes == 4 * 2000


def test_items_of_two_files_are_joined(items):
    others = items[[1]] + items[:2]
    assert isinstance(others, AttributeItems)
    assert others == [DICTS[1], DICTS[0], DICTS[1]]
    plain = AttributeItems(
        ["new", "bias"], items.rows._replace(columns=items.rows.columns % 2), items.offsets
    )
    assert [*(items + plain)] == [*DICTS, *plain]
    assert items + DICTS == DICTS + DICTS
    lists = [[{"w": "a"}]]
    assert lists + items == lists + DICTS
    with pytest.raises(TypeError):
        items + 3


@pytest.mark.parametrize("chosen", [slice(None), slice(1, 2), slice(2, 3)])
def test_new_columns_are_those_of_dicts(items, chosen):
    sequences, vocabulary = encode_sequences(items[chosen])
    expected, names = encode_sequences(DICTS[chosen])
    assert vocabulary == names
    assert vocabulary.value_starts.tolist() == names.value_starts.tolist()
    np.testing.assert_array_equal(sequences.matrix.toarray(), expected.matrix.toarray())
    assert sequences.matrix.nnz == expected.matrix.nnz
    assert sequences.offsets.tolist() == expected.offsets.tolist()
    assert items == DICTS  # they are unchanged


@pytest.mark.parametrize("has_attributes", [False, True])
def test_known_columns_are_those_of_dicts(items, has_attributes):
    vocabulary = Vocabulary(["bias", "c:d", "w=a", "x"], has_attributes=has_attributes)
    rows, expected = (
        encode_new(each, vocabulary, None, lambda known: known.pairs).matrix() for each in (items, DICTS)
    )
    np.testing.assert_array_equal(rows.toarray(), expected.toarray())
    assert rows.toarray().any()


def test_a_value_that_is_too_large_is_named(tmp_path):
    path = tmp_path / "large.crfsuite"
    path.write_text("A\ta\n\nA\ta\nB\ta:3\tb:2e12\n")
    items = read_crfsuite_text(path).inputs
    for each in (items, [*items]):
        with pytest.raises(
            InputError, match=r"item 1, position 1: feature 'b': expected a finite number .*2000000000000"
        ):
            encode_sequences(each)


def test_the_model_is_that_of_dicts(items):
    labels = [["A", "B"], ["A"], ["B", "A"]]
    model, expected = (ChainCRF(l1=0.01).fit(X, labels) for X in (items, DICTS))
    for one, other in zip(model.predict_marginals(items), expected.predict_marginals(DICTS), strict=True):
        np.testing.assert_array_equal(one, other)
