"""Reader of raw text, an item a line, cut into words and punctuation as `crfqn.tokenize` does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crfqn.data.files import Readable, shown_name, text_lines
from crfqn.data.token_columns import TokenColumns
from crfqn.data.tokenizers import Tokenizer
from crfqn.errors import EmptyDataError, InputError
from crfqn.readers.format import SEQUENCES, Format, by_lines
from crfqn.readers.items import Labeled, Places

WORDS = ("w",)
UNICODE_WORDS = Tokenizer()


def read_raw_text(
    path: Readable, columns: Sequence[str] | None = WORDS, *, tokens: Tokenizer = UNICODE_WORDS
) -> Labeled:
    """Read each line that is not blank as an item: TokenColumns of one column, the tokens by a tokenizer
    (`crfqn.tokenize`), without labels; `spans` has where in its line each begins and ends, in characters. DataError
    for none; InputError for several columns."""
    (name, *others) = columns or WORDS
    if others:
        raise InputError(f"raw text has words alone, and {', '.join(columns or ())} are needed: give columns")
    words: list[str] = []
    spans: list[list[tuple[int, int]]] = []
    numbers: list[int] = []
    for number, line in text_lines(path):
        line_spans = tokens.spans(line)
        if line_spans:
            words += [line[start:stop] for start, stop in line_spans]
            spans.append(line_spans)
            numbers.append(number)
    if not spans:
        raise EmptyDataError(f"{shown_name(path)}: no items; expected lines of text")
    lengths = [*map(len, spans)]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    places = Places(shown_name(path), np.repeat(np.array(numbers, np.int64), lengths), offsets)
    labels = [[""] * n for n in lengths]
    return Labeled(TokenColumns({name: words}, offsets), labels, places=places, spans=spans)


FORMAT = Format(
    "raw", "raw text, a line an item, cut into words", (), (SEQUENCES,), read_raw_text, None, by_lines
)
