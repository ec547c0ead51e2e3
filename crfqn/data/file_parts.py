"""Reading of long files and endless streams in parts of whole items, so that memory does not grow with them.

A part ends with the last whole item received: it has some PART_LINES lines, or fewer if the next read would block, as
at a pipe into which somebody types.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from crfqn.data.files import (
    MAX_LINE_SIZE,
    PACKINGS,
    Ahead,
    Part,
    Source,
    check_text,
    decode_line,
    find_packing,
    has_come,
    is_blank,
    is_stream,
    opened,
    shown_name,
    source_of,
    unpacked_pieces,
)
from crfqn.errors import DataError, EmptyDataError, InputError

READ_SIZE = 1 << 18  # bytes read at a time
PART_LINES = 20_000  # enough that the fixed cost of a prediction is negligible
PART_SIZE = 1 << 22  # characters, for long lines
MAX_ITEM_LENGTH = 1_000_000  # lines of an item that comes through a pipe, which may never end
ITEM_END = "a blank line ends an item"
Result = TypeVar("Result")

# A function that returns how many lines name the columns, and how many, including these, are whole items.
Cut = Callable[[Sequence[str]], tuple[int, int]]


def cut_at_lines(lines: Sequence[str]) -> tuple[int, int]:
    """Cut a format with an item a line."""
    return 0, len(lines)


def cut_at_blank_lines(lines: Sequence[str]) -> tuple[int, int]:
    """Cut a format with a blank line after each item."""
    return 0, next((n for n in range(len(lines), 0, -1) if is_blank(lines[n - 1])), 0)


def read_parts(
    origin: str | Path | Source,
    cut: Cut,
    read: Callable[[Part], Result],
    max_item_length: int | None = None,
    item_end: str = ITEM_END,
) -> Iterator[tuple[Part, Result | None]]:
    """Yield the parts of a file or of standard input, each with its data from `read`, None for one without items. In a
    part with an error, the items before the error come first. Raises as `text_lines`, and for a file without items.

    max_item_length : maximum number of lines of an item; a longer one is a DataError that says how items end
        (`item_end`); by default MAX_ITEM_LENGTH for standard input and pipes, none for files
    """
    part, n_read = Part(shown_name(origin), ""), 0
    for whole in cut_parts(origin, cut, max_item_length, item_end):
        for part, result in _results(whole, cut, read):
            n_read += result is not None
            yield part, result
    if not n_read:
        read(part)  # which raises


def cut_parts(
    origin: str | Path | Source, cut: Cut, max_item_length: int | None = None, item_end: str = ITEM_END
) -> Iterator[Part]:
    """Yield the parts of a file or of standard input; the items before an error of reading come first."""
    if max_item_length is None and is_stream(source_of(origin).origin):
        max_item_length = MAX_ITEM_LENGTH
    pending = _Pending(shown_name(origin), cut, max_item_length or sys.maxsize, item_end)
    try:
        for lines in _lines(origin):
            yield from pending.take(lines)
    except DataError:
        yield from pending.take([])
        raise
    yield from pending.take([], is_end=True)


def _results(part: Part, cut: Cut, read: Callable[[Part], Result]) -> Iterator[tuple[Part, Result | None]]:
    """Yield a part with its data from `read`; halve one with an error, down to the item that has the error."""
    result: Result | None = None
    try:
        result = read(part)
    except EmptyDataError:
        pass
    except (DataError, InputError) as error:
        head = _with_ends(part.head)
        lines = head + _with_ends(part.text)
        tried = len(lines) // 2
        while tried < len(lines):
            n_head, n = cut(lines[:tried])
            if n > n_head:
                first = replace(part, text="".join(lines[len(head) : n]))
                start = part.first + n - len(head)
                text, head_of_second = "".join(lines[n:]), "".join(lines[:n_head])
                second = Part(part.name, text, start, head_of_second, facts=part.facts)
                yield from _results(first, cut, read)
                yield from _results(second, cut, read)
                return
            tried = (tried + len(lines) + 1) // 2
        if isinstance(error, InputError):  # which knows items, but no files
            reason = str(error).removeprefix("item 0: ").removeprefix("item 0, ")
            raise InputError(f"{part.name}, line {part.first}: {reason}") from error
        raise
    yield part, result


class _Pending:
    """Received lines that belong to no part yet."""

    def __init__(self, name: str, cut: Cut, max_item_length: int, item_end: str) -> None:
        self._name, self._cut = name, cut
        self._max_item_length, self._item_end = max_item_length, item_end
        self._head: list[str] = []
        self._facts: dict[str, Any] = {}
        self._lines: list[str] = []
        self._size, self._first, self._mark = 0, 1, ""
        self._n_tried = (
            1  # number of cuts without a whole item: the longer an item, the rarer the next attempt
        )

    def take(self, lines: list[str], is_end: bool = False) -> Iterator[Part]:
        """Add received lines. If there are many, or none since the next read would block, yield a part of the whole
        items, if any; at the end, one of all lines."""
        if self._first == 1 and not self._lines and lines and lines[0].startswith("\ufeff"):
            self._mark, lines = "\ufeff", [lines[0][1:], *lines[1:]]
        self._lines += lines
        self._size += sum(map(len, lines))
        most_lines = min(self._n_tried * PART_LINES, self._max_item_length)
        is_full = len(self._lines) > most_lines or self._size > self._n_tried * PART_SIZE
        if lines and not is_full:
            return
        n_before = len(self._head)
        n_head, n = self._cut([*self._head, *self._lines])
        if is_end:
            n = n_before + len(self._lines)
        elif n <= n_head:
            if len(self._lines) > self._max_item_length:
                del self._lines[:]  # it is no part
                raise DataError(
                    f"{self._name}, line {self._first}: an item of more than {self._max_item_length:,} lines; "
                    f"{self._item_end} (--max-item-length N allows for longer ones)"
                )
            n = n_before
            self._n_tried *= 1 + is_full
        n -= n_before
        if not n:
            return
        taken = self._lines[:n]
        yield Part(self._name, "".join(taken), self._first, "".join(self._head), self._mark, self._facts)
        self._head = self._head or taken[:n_head]
        self._first, self._mark, self._n_tried = self._first + n, "", 1
        self._lines = self._lines[n:]
        self._size = sum(map(len, self._lines))


def _lines(origin: str | Path | Source) -> Iterator[list[str]]:
    """Yield lists of received lines, with their ends; an empty list if the next read would block."""
    source, number, n_begun = source_of(origin), 1, 0
    begun: list[bytes] = []  # pieces of an incomplete line
    is_first = True
    for piece in _pieces(source):
        if is_first and piece:
            check_text(source, piece)
            is_first = False
        block, end, unread = piece.rpartition(b"\n")
        if end:
            content = b"".join([*begun, block, end])
            try:
                lines = _with_ends(content.decode("utf-8", source.errors))
                yield lines
                number += len(lines)
            except UnicodeDecodeError:  # the lines before the one that is no text come first
                for line in content.split(b"\n")[:-1]:
                    yield [decode_line(source, number, line + b"\n")]
                    number += 1
            begun, n_begun = [], 0
        elif not piece:
            yield []
        n_begun += len(unread)
        if n_begun > MAX_LINE_SIZE:
            raise DataError(f"{source}, line {number}: longer than {MAX_LINE_SIZE:,} bytes")
        begun.append(unread)
    if n_begun:
        yield [decode_line(source, number, b"".join(begun))]


def _with_ends(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _pieces(source: Source) -> Iterator[bytes]:
    """Yield the received pieces of a file, unpacked and as UTF-8; an empty one if the next read would block."""
    if "utf-8" not in codecs.lookup(source.codec).name:
        decoder = codecs.getincrementaldecoder(source.encoding)()
        try:
            for piece in _pieces(replace(source, encoding="utf-8")):
                yield decoder.decode(piece).encode("utf-8") if piece else piece
            yield decoder.decode(b"", final=True).encode("utf-8")
        except UnicodeError as error:
            raise DataError(f"{source}: not {source.encoding} text: {error}") from error
        return
    with opened(source.origin) as stream:
        piece = more = stream.read1(READ_SIZE)  # type: ignore[attr-defined]
        while more and any(len(piece) < len(p.magic) and p.magic.startswith(piece) for p in PACKINGS):
            more = stream.read1(READ_SIZE)  # type: ignore[attr-defined]
            piece += more
        packing = find_packing(piece)
        if packing is not None:
            rest = io.BufferedReader(Ahead(stream, closes=False, start=piece))
            yield from unpacked_pieces(rest, packing, shown_name(source))
            return
        while piece:
            yield piece
            if not has_come(stream):
                yield b""
            piece = stream.read1(READ_SIZE)  # type: ignore[attr-defined]
