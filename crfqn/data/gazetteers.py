"""Gazetteers: lists of names whose occurrences among the words of items are features.

Each list makes a column of marks: B at the first word of an entry, I at its other words, O elsewhere. Entries are found
from left to right, the longest first: those without capital letters in any case, others as they are written and in
capitals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from crfqn.data.schemes import BEGIN, INSIDE, OUTSIDE
from crfqn.data.token_columns import TokenColumns
from crfqn.data.tokenizers import Tokenizer
from crfqn.errors import InputError
from crfqn.messages import describe, shorten


class PhraseIndex:
    """Index of the entries of a list."""

    def __init__(self, entries: Sequence[str]) -> None:
        self.in_any_case = {entry for entry in entries if entry == entry.lower()}
        cased = [entry for entry in entries if entry not in self.in_any_case]
        self.as_written = {*cased, *map(str.upper, cased)}
        self.max_length: dict[str, int] = {}  # in words, by the first word in small letters
        for entry in map(str.lower, entries):
            first, length = entry.partition(" ")[0], entry.count(" ") + 1
            if length > self.max_length.get(first, 0):
                self.max_length[first] = length

    def marks(self, words: list[str], small_words: list[str]) -> list[str]:
        """Return the marks of the words of an item, which are also given in small letters."""
        marks, start = [OUTSIDE] * len(words), 0
        while start < len(words):
            stop = min(start + self.max_length.get(small_words[start], 0), len(words))
            while stop > start and not (
                " ".join(words[start:stop]) in self.as_written
                or " ".join(small_words[start:stop]) in self.in_any_case
            ):
                stop -= 1
            if stop > start:
                marks[start:stop] = [BEGIN, *[INSIDE] * (stop - start - 1)]
            start = max(stop, start + 1)
        return marks


class Gazetteers:
    """The lists of a model: the entries of each by its name, as `cut_entries` returns them, and the column of words."""

    def __init__(self, entries: Mapping[str, Sequence[str]], word_column: str) -> None:
        self.entries, self.word_column = entries, word_column

    def add_marks(self, columns: TokenColumns) -> TokenColumns:
        """Return the columns and, for each list, the column of its marks."""
        words = columns.texts[self.word_column]
        small_words, cuts = [*map(str.lower, words)], [*pairwise(columns.offsets.tolist())]
        marks = {
            name: [mark for a, b in cuts for mark in index.marks(words[a:b], small_words[a:b])]
            for name, index in self._indices.items()
        }
        return columns.extended(marks)

    @cached_property
    def _indices(self) -> dict[str, PhraseIndex]:
        return {name: PhraseIndex(entries) for name, entries in self.entries.items()}


def check_gazetteers(lists: object) -> dict[str, tuple[str, ...]]:
    """Return lists of entries by name; InputError for anything but sequences of texts that are not empty."""
    if not isinstance(lists, Mapping) or not all(isinstance(name, str) and name for name in lists):
        raise InputError(f"gazetteers: expected lists of texts by name, got {describe(lists)}")
    for name, entries in lists.items():
        if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence) or not entries:
            raise InputError(f"gazetteers: {name}: expected a list of texts, got {describe(entries)}")
        for number, entry in enumerate(entries):
            if not isinstance(entry, str) or not entry.strip():
                raise InputError(f"gazetteers: {name}, entry {number}: expected a name, got {shorten(entry)}")
    return {name: tuple(entries) for name, entries in lists.items()}


def cut_entries(entries: Sequence[str], tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return entries, each once, as their words with single blanks between; InputError for one without words."""
    known = tokenizer.abbreviations  # lists in small letters have them in small letters
    tokenizer = tokenizer._replace(abbreviations=known.union(map(str.lower, known)))
    cut = [" ".join(entry[start:stop] for start, stop in tokenizer.spans(entry)) for entry in entries]
    if "" in cut:
        raise InputError(f"gazetteers: expected names of words, got {shorten(entries[cut.index('')])}")
    return tuple(dict.fromkeys(cut))
