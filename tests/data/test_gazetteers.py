"""Lists of names found in words, against a search of all entries at each position."""

import numpy as np
import pytest

from crfqn import TokenColumns
from crfqn.data.gazetteers import Gazetteers, check_gazetteers, cut_entries
from crfqn.data.tokenizers import find_tokenizer
from crfqn.errors import InputError


def marks(items, entries):
    columns = TokenColumns.from_items(items, ["w"])
    marked = Gazetteers({"list": entries}, "w").add_marks(columns)
    assert columns.names == ("w",)  # unchanged
    return ["".join(position["list"] for position in item) for item in marked]


def expected_marks(words, entries):
    """Try each entry at each position, and take the longest from left to right."""
    found, start = "", 0
    while start < len(words):
        lengths = [0]
        for entry in entries:
            parts = entry.split()
            here = words[start : start + len(parts)]
            fits = here in (parts, [part.upper() for part in parts])
            if entry == entry.lower():
                fits = [word.lower() for word in here] == parts
            lengths += [len(parts)] * fits
        length = max(lengths)
        found += "B" + "I" * (length - 1) if length else "O"
        start += length or 1
    return found


def test_the_longest_entry_from_left_to_right():
    entries = ["New York", "New York City", "York", "City Hall"]
    items = [
        ["in", "New", "York", "City", "Hall"],
        ["New", "New", "York", "Hall"],
        ["York", "York", "new", "york"],
        [],
        ["New"],
        ["York"],
    ]
    assert marks(items, entries) == ["OBIIO", "OBIO", "BBOO", "", "O", "B"]


@pytest.mark.parametrize(
    ("entry", "found", "not_found"),
    [
        ("Rome", ["Rome", "ROME"], ["rome", "rOME"]),
        ("rome", ["Rome", "ROME", "rome"], []),
        ("iPhone X", ["iPhone X", "IPHONE X"], ["iphone x", "Iphone X"]),
        ("ΟΔΟΣ", ["ΟΔΟΣ"], ["οδος"]),
        ("東京", ["東京"], ["京"]),
    ],
)
def test_case(entry, found, not_found):
    for text in found:
        assert marks([text.split()], [entry])[0][0] == "B"
    for text in not_found:
        assert "B" not in marks([text.split()], [entry])[0]


@pytest.mark.parametrize("seed", range(5))
def test_as_a_search_of_all_entries(seed):
    random = np.random.default_rng(seed)
    words = ["a", "A", "b", "B", "ab", "Ab"]
    entries = [" ".join(random.choice(words, random.integers(1, 4))) for _ in range(12)]
    items = [random.choice([*words, "other"], random.integers(0, 15)).tolist() for _ in range(40)]
    found = marks(items, entries)
    assert found == [expected_marks(item, entries) for item in items]
    assert {*"".join(found)} == {*"BIO"}


def test_entries_are_cut_as_the_words_are():
    entries = ["St. Louis", "Land's  End", "Rome", "Rome"]
    assert cut_entries(entries, find_tokenizer("penn")) == ("St. Louis", "Land 's End", "Rome")
    assert cut_entries(entries, find_tokenizer("unicode")) == ("St . Louis", "Land's End", "Rome")
    with pytest.raises(InputError, match="expected names of words, got '\\\\u200b'"):
        cut_entries(["\u200b"], find_tokenizer("unicode"))


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (["Rome"], "expected lists of texts by name, got"),
        ({"": ["Rome"]}, "expected lists of texts by name, got"),
        ({"cities": "Rome"}, "cities: expected a list of texts, got"),
        ({"cities": []}, "cities: expected a list of texts, got"),
        ({"cities": ["Rome", 3]}, "cities, entry 1: expected a name, got 3"),
        ({"cities": [" "]}, "cities, entry 0: expected a name, got ' '"),
    ],
)
def test_wrong_lists(lists, message):
    with pytest.raises(InputError, match=message):
        check_gazetteers(lists)
