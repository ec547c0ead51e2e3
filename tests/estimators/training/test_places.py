"""Messages number the items as the caller does: whatever part of them a training is of."""

import warnings

import pytest

from crfqn import ChainCRF, crf_path
from crfqn.errors import InputError
from crfqn.messages import named_places, numbered, place_of, places_among
from crfqn.regularization_path import Grid

GOOD, BROKEN = ["B-X", "I-X"], ["O", "I-X"]
ITEM = [["a"], ["b"]]


def model(**options):
    return ChainCRF(scheme="IOB2", l1=0.1, l2=0.1, **options)


def test_items_that_are_left_out_are_counted():
    X, y = [ITEM, [], ITEM, ITEM], [GOOD, [], GOOD, BROKEN]
    with pytest.raises(InputError, match=r"^item 3, position 1: the rules"):
        model().fit(X, y)
    with pytest.raises(InputError, match=r"^item 3, position 1: the rules"):
        model().fit(X[2:] * 2, [GOOD, GOOD, GOOD, BROKEN], [0, 1, 1, 1])


def test_a_label_of_another_scheme_has_its_place():
    with pytest.raises(InputError, match=r"^item 2, position 0: IOB2: expected labels"):
        model().fit([ITEM, [], ITEM], [GOOD, [], ["Z", "O"]])


def test_validation_items_are_called_so():
    with pytest.raises(InputError, match=r"^validation: item 1, position 0: IOB2: expected labels"):
        model(scoring="f1").fit([ITEM], [GOOD], validation=([ITEM, ITEM], [GOOD, ["Z", "O"]]))


def test_the_items_of_a_fold_have_the_numbers_of_all():
    X, y = [ITEM] * 6, [*[GOOD] * 4, BROKEN, GOOD]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        crf_path(model(on_violation="drop"), X, y, grid=Grid(2), cv=2)
    broken = [str(each.message) for each in caught if "break the rules" in str(each.message)]
    assert [text.partition("; ")[2][:20] for text in broken] == ["item 4, position 1: "] * 2


def test_places_are_those_of_the_innermost_selection():
    with named_places(lambda item, position: f"file {numbered(item, position)}"):
        assert place_of(3, 1) == "file item 3, position 1"
        with named_places(places_among([5, 7])), named_places(places_among([1])):
            assert place_of(0) == "file item 7"
        with named_places(None):
            assert place_of(0) == "item 0"
    assert place_of(3, 1) == "item 3, position 1"
