"""Texts with spans of characters, as annotation tools write them, as items of tokens with labels, and back.

A tokenizer cuts each text, and a span gives its tokens the labels B-<type> and I-<type>; all others have O. Offsets
count characters (Unicode code points) from 0, and a span ends before its `end`. A span is aligned if it does not
begin or end within a token and has a token; blanks at its ends do not matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np

from crfqn.choices import AUTO_TOKENIZER, MISALIGNED_RULES
from crfqn.data.files import Readable, shown_name
from crfqn.data.schemes import OUTSIDE, Span, labels_of, recognise_scheme, spans_of
from crfqn.data.token_columns import TokenColumns
from crfqn.data.tokenizers import PENN_RULES, UNICODE_RULES, Tokenizer, find_tokenizer, written_as
from crfqn.errors import DataError, EmptyDataError, InputError, TokenWarning, warn_caller
from crfqn.messages import describe, shorten
from crfqn.readers.format import Data
from crfqn.readers.json_lines import FIRST_COLUMN
from crfqn.readers.labelled_items import Documents, Labeled, Places

Offsets = Sequence[tuple[int, int]]  # the start and end of each token
ERROR_RULE, _, DROP_RULE = MISALIGNED_RULES
SCHEME_OF_SPANS = "IOB2"


class TextSpan(NamedTuple):
    """A span of the characters start ... end - 1 of a text, and its place in a file, for messages; `is_whole` is False
    if it has gaps."""

    start: int
    end: int
    type: str
    place: str = ""
    is_whole: bool = True


class MarkedText(NamedTuple):
    """A text with its spans, None if they are unknown.

    file, line : the place of the text; line None if its lines are those of the file
    record : the object that the text is from, for writing it again
    tokens : start and end of each token if the file has tokens; positions : the spans in tokens, of a text to write
    scores : the probabilities of the predicted labels and of each span, if known
    """

    text: str
    spans: Sequence[TextSpan] | None
    file: str
    line: int | None
    record: dict[str, Any]
    tokens: Offsets | None = None
    positions: Sequence[Span] = ()
    scores: tuple[float, Sequence[float]] | None = None


def span_from(
    place: str, text: str, start: object, end: object, label: object, shown: object = None
) -> TextSpan:
    """Return a checked span of a text. If the file shows the text of the span (`shown`), offsets that fit it only as
    UTF-16 units, which browsers count, are converted; DataError if they do not fit it at all."""
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        got = f"{shorten(start)}, {shorten(end)}, {shorten(label)}"
        raise DataError(f"{place}: expected start and end, whole numbers, and the type of a span, got {got}")
    if isinstance(shown, str) and not is_same_text(text[start:end], shown):
        units = _utf16_ends(text)
        pair = bisect_right(units, start), bisect_right(units, end)
        if not is_same_text(text[pair[0] : pair[1]], shown):
            raise DataError(
                f"{place}: the span {start}-{end} {label} has the text {shorten(shown)}, and these characters are "
                f"{shorten(text[max(start, 0) : max(end, 0)])}: expected offsets in characters of the text"
            )
        start, end = pair
    if not 0 <= start < end <= len(text):
        raise DataError(
            f"{place}: expected a span within the {len(text):,} characters of its text, got {start}-{end} {label}"
        )
    return TextSpan(start, end, label, place)


def warn_of_places(what: str, places: Sequence[str]) -> None:
    """Issue a TokenWarning with the number of places and the first one, if there are any."""
    if places:
        warn_caller(f"{what}: {len(places):,}, first {places[0]}", TokenWarning)


def is_same_text(text: str, shown: str) -> bool:
    """Return whether two texts are the same but for blanks and line ends, which tools show differently."""
    return text == shown or "".join(text.split()) == "".join(shown.replace("\\n", " ").split())


@lru_cache(maxsize=1)
def _utf16_ends(text: str) -> list[int]:
    return [*accumulate(1 + (character > "\uffff") for character in text)]


# ---- reading


def reader_of(
    texts: Callable[[Readable, bool], Iterable[MarkedText]], expected: str
) -> Callable[..., Labeled]:
    """Return the reader of a format, given the function that yields its texts, with spans or without; `expected` says
    in words what a file has."""

    def read_texts(
        path: Readable,
        columns: Sequence[str] | None = None,
        *,
        tokenizer: str | Tokenizer = AUTO_TOKENIZER,
        on_misaligned: str = ERROR_RULE,
        reads_spans: bool = True,
    ) -> Labeled:
        """Read texts with spans as items of tokens with labels.

        Parameters
        ----------
        columns : the name of the one column, by default "w"
        tokenizer : a name, or "auto" for the one of "unicode" and "penn" with fewer misaligned spans
        on_misaligned : "error", or "expand" misaligned spans to whole tokens, or "drop" them; both with a TokenWarning
        reads_spans : whether spans are read; otherwise all labels are unknown

        The outermost one of overlapping spans stays, the first one if neither contains the other, with a TokenWarning.
        DataError, with file and line, for malformed or misaligned spans; EmptyDataError for no texts; InputError for an
        unknown tokenizer or rule.
        """
        if on_misaligned not in MISALIGNED_RULES:
            names = ", ".join(MISALIGNED_RULES)
            raise InputError(f"on_misaligned: expected one of {names}, got {describe(on_misaligned)}")
        column, items = column_of_words(columns), [*texts(path, reads_spans)]
        if not items:
            raise EmptyDataError(f"{shown_name(path)}: no items; expected {expected}")
        has_tokens = items[0].tokens is not None
        is_auto = tokenizer == AUTO_TOKENIZER
        chosen = _fitting_tokenizer([] if has_tokens else items) if is_auto else find_tokenizer(tokenizer)
        tokens = [chosen.spans(item.text) if item.tokens is None else item.tokens for item in items]
        labels = _labels(items, tokens, on_misaligned, chosen)
        words = [item.text[a:b] for item, offsets in zip(items, tokens, strict=True) for a, b in offsets]
        inputs = TokenColumns({column: words}, np.cumsum([0, *map(len, tokens)], dtype=np.int64))
        places, records = _places(shown_name(path), items, tokens), [item.record for item in items]
        if has_tokens:
            return Labeled(inputs, labels, places=places, records=records)
        inputs.tokenizer = chosen
        inputs.blanks = [
            not item.text[b : b + 1].strip() for item, of in zip(items, tokens, strict=True) for _, b in of
        ]
        texts_of_items, spans = [item.text for item in items], [[*offsets] for offsets in tokens]
        return Labeled(inputs, labels, places=places, spans=spans, texts=texts_of_items, records=records)

    return read_texts


def _labels(
    items: Sequence[MarkedText], tokens: Sequence[Offsets], on_misaligned: str, tokenizer: Tokenizer
) -> list[list[str]]:
    """Return the labels of each item's tokens; errors and warnings as of the reader."""
    cases: dict[str, list[str]] = {}  # the spans that are changed
    labels, problems = [], []
    for item, offsets in zip(items, tokens, strict=True):
        if item.spans is None:
            labels.append([""] * len(offsets))
            continue
        runs = []
        for span, run, is_aligned in _runs(item.spans, offsets):
            shown = f"{span.start}-{span.end} {span.type} {shorten(item.text[span.start : span.end])}"
            if not span.is_whole or not is_aligned:
                if on_misaligned == ERROR_RULE:
                    problem = _misaligned(item.text, offsets[run.start : run.stop], span, tokenizer)
                    problems.append(f"{span.place}: the span {shown} {problem}")
                    continue
                is_left_out = on_misaligned == DROP_RULE or run.start >= run.stop
                what = "misaligned spans " + ("left out" if is_left_out else "expanded to whole tokens")
                cases.setdefault(what, []).append(f"{span.place}, {shown}")
                if is_left_out:
                    continue
            runs.append((run, f"{span.place}, {shown}"))
        runs.sort(key=lambda pair: (pair[0].start, -pair[0].stop))
        kept: list[Span] = []
        for run, shown in runs:
            if not kept or run.start >= kept[-1].stop:
                kept.append(run)
            elif run != kept[-1]:
                what = "spans that overlap left out, the outermost ones kept"
                cases.setdefault(what, []).append(shown)
        labels.append(labels_of(kept, len(offsets), SCHEME_OF_SPANS))
    if problems:
        raise DataError(problems[0] + (f"; {len(problems):,} spans are misaligned" if problems[1:] else ""))
    for what, shown_spans in cases.items():
        warn_of_places(what, shown_spans)
    return labels


def _runs(spans: Sequence[TextSpan], offsets: Offsets) -> Iterator[tuple[TextSpan, Span, bool]]:
    """Yield each span, the tokens that it touches, and whether it is aligned; O(log T) each."""
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    for span in spans:
        first, stop = bisect_right(ends, span.start), bisect_left(starts, span.end)
        is_aligned = first < stop and starts[first] >= span.start and ends[stop - 1] <= span.end
        yield span, Span(first, stop, span.type), is_aligned


def _fitting_tokenizer(items: Sequence[MarkedText]) -> Tokenizer:
    """Return the first of the tokenizers with the smallest number of misaligned spans."""
    candidates = [find_tokenizer(UNICODE_RULES), find_tokenizer(PENN_RULES)]
    counts: list[int] = []
    for tokenizer in candidates:
        if counts[:1] != [0]:
            runs = (_runs(item.spans, tokenizer.spans(item.text)) for item in items if item.spans)
            counts.append(sum(not is_aligned for of_item in runs for _, _, is_aligned in of_item))
    return candidates[counts.index(min(counts))]


def _misaligned(text: str, offsets: Offsets, span: TextSpan, tokenizer: Tokenizer) -> str:
    """Return what is wrong with a misaligned span that touches these tokens, and what to do."""
    remedy = "--on-misaligned expand takes whole tokens, drop leaves it out (on_misaligned=)"
    if not span.is_whole:
        return f"has gaps, and labels of tokens have no place for these; {remedy}"
    around = " ".join(f"{shorten(text[start:end])} {start}-{end}" for start, end in offsets) or "none here"
    return (
        f"does not begin and end with tokens, which are {around:.300} by the tokenizer {tokenizer.name!r}; --tokenizer "
        f"names another one, {remedy}"
    )


def column_of_words(columns: Sequence[str] | None) -> str:
    """Return the name of the one column that texts have; InputError for several columns."""
    name, *others = columns or (FIRST_COLUMN,)
    if others:
        raise InputError(f"texts have words alone, and {', '.join(columns or ())} are needed: give columns")
    return name


def _places(shown: str, items: Sequence[MarkedText], tokens: Sequence[Offsets]) -> Places:
    """Return the places of items in one file, each on a line, or in a file each."""
    lengths = [*map(len, tokens)]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    if items[0].line is not None:
        numbers = np.array([item.line for item in items], np.int64)
        return Places(shown, numbers.repeat(lengths), offsets, item_lines=numbers)
    parts = []
    for item, of_item in zip(items, tokens, strict=True):
        line_ends = [at for at, character in enumerate(item.text) if character == "\n"]
        lines = 1 + np.searchsorted(line_ends, [start for start, _ in of_item])
        line_of_empty = None if lines.size else np.array([1])
        parts.append((1, Places(item.file, lines, np.array([0, lines.size]), item_lines=line_of_empty)))
    return Places(shown, np.concatenate([place.lines for _, place in parts]), offsets, parts=parts)


# ---- writing


def marked_texts(data: Data, predicted: Sequence[Any] | None) -> Iterator[MarkedText]:
    """Yield the text of each item with the spans of its labels, or of the predicted ones.

    Without a text, it is made of the tokens with the usual blanks. Labels without a scheme of spans are the types of
    runs of equal labels. InputError for items without words.
    """
    if isinstance(data, Documents) or not isinstance(data.inputs, TokenColumns):
        raise InputError("spans are written of tokens of a text, and these items have no words")
    words, blanks = data.inputs.first_texts(), data.inputs.blanks_by_item()
    for i, labels in enumerate(data.labels if predicted is None else predicted):
        if data.texts is not None and data.spans is not None:
            text, offsets = data.texts[i], data.spans[i]
        else:
            text, offsets = written_as(words[i], None if blanks is None else blanks[i])
        positions = _spans_in(labels)
        spans = [TextSpan(offsets[run.start][0], offsets[run.stop - 1][1], run.type) for run in positions]
        is_known = all(labels) if len(labels) else predicted is not None
        record = {} if data.records is None else data.records[i]
        scores = None if data.scores is None else data.scores[i]
        yield MarkedText(
            text, spans if is_known else None, data.where(i), None, record, offsets, positions, scores
        )


def _spans_in(labels: Sequence[str]) -> list[Span]:
    scheme = recognise_scheme(labels)
    if scheme is not None:
        return spans_of(labels, scheme, strict=False)
    spans, at = [], 0
    for label, run in groupby(labels):
        stop = at + len([*run])
        if label not in ("", OUTSIDE):
            spans.append(Span(at, stop, label))
        at = stop
    return spans
