"""Reading in parts of whole items: the same as all at once, with bounded reading ahead, and what has come is there."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import select

import pytest

from crfqn.data import file_parts as parts
from crfqn.data import files as packing
from crfqn.data.file_parts import read_parts
from crfqn.errors import DataError, InputError
from crfqn.readers import FORMATS, Labeled, read

ITEM = "the DT A\ndog NN B\n\n"
TEXTS = {
    "conll": "-DOCSTART- O\n\n" + ITEM * 7 + "\n\n" + ITEM * 3,
    "conllu": "# x\n1\ta\t_\tX" + "\t_" * 6 + "\n\n\n2\tb\t_\tY" + "\t_" * 6 + "\n\n" * 3,
    "crfsuite": "A\tx\n\n@weight:2\nB\ty\nA\n\n" * 5,
    "svmlight": "1 2:1\n# no item\n2 1:1\n" * 4,
    "jsonl": '{"tokens": ["a", "b"], "labels": ["A", "B"]}\n\n' * 5,
    "csv": "\n" + 'w,label\n"the\n\ndog",A\nit,B\n\n' + "it,A\n\n" * 5,
    "tsv": "sentence\tw\ttag\n" + "".join(f"{i}\ta\tA\n\tb\tB\n" for i in range(6)),
    "text": "A\tone\n\nB\ttwo\n" * 5,
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(parts, "READ_SIZE", 7)
    monkeypatch.setattr(packing, "PIECE_SIZE", 7)
    monkeypatch.setattr(parts, "PART_LINES", 3)


def all_parts(origin, format, use=lambda data: data, **options):
    cut = FORMATS[format].cut(**options)
    return [
        (part, data)
        for part, data in read_parts(origin, cut, lambda part: use(read(part, format, **options)))
    ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("format", TEXTS)
def test_parts_are_the_whole(tmp_path, small, format, pack):
    path = tmp_path / "file"
    path.write_bytes(pack(TEXTS[format].encode()))
    whole = read(path, format)
    found = all_parts(path, format)
    assert "".join(part.text for part, _ in found) == TEXTS[format]
    assert len(found) > 2
    several = [data for _, data in found if data is not None]
    assert [label for data in several for label in data.labels] == whole.labels
    assert list(itertools.chain.from_iterable(data.places.lines for data in several)) == list(
        whole.places.lines
    )
    if isinstance(whole, Labeled):
        assert [item for data in several for item in data.inputs] == list(whole.inputs)


class Endless(io.BytesIO):
    """A pipe that never ends, and counts what was read from it."""

    n_items = 0

    def read1(self, size=-1):
        self.n_items += 1
        return ITEM.encode()


class Stdin:
    def __init__(self, buffer):
        self.buffer = buffer


def test_reading_ahead_is_bounded(monkeypatch):
    stream = Endless()
    monkeypatch.setattr("sys.stdin", Stdin(stream))
    monkeypatch.setattr(select, "select", lambda streams, *_: (streams, [], []))
    monkeypatch.setattr(parts, "PART_LINES", 300)
    found = read_parts("-", FORMATS["conll"].cut(), lambda part: read(part, "conll"))
    for n_parts in (1, 2, 3):
        _, data = next(found)
        assert 100 <= data.n_items < 110
        assert stream.n_items < 110 * n_parts


def test_what_has_come_is_there_before_more_is_waited_for(monkeypatch):
    receiver, sender = os.pipe()
    with os.fdopen(sender, "wb", buffering=0) as write, os.fdopen(receiver, "rb") as pipe:
        monkeypatch.setattr("sys.stdin", Stdin(pipe))
        found = read_parts("-", FORMATS["conll"].cut(), lambda part: read(part, "conll").n_items)
        write.write(ITEM.encode() + b"a b ")
        assert next(found)[1] == 1
        write.write(b"c\n\n" + ITEM.encode())
        assert next(found)[1] == 2
        write.write(b"the last one")
        write.close()
        assert next(found)[1] == 1
        assert next(found, None) is None


@pytest.mark.parametrize(
    ("format", "text", "n_before", "message"),
    [
        ("conll", f"{ITEM * 2}a\n\n{ITEM}".encode(), 2, "line 7: expected 2 columns"),
        ("conll", ITEM.encode() * 2 + b"\xc4 X L\n\n", 2, "line 7: not UTF-8 text: byte 0xc4 after 0"),
        ("conll", gzip.compress(ITEM.encode() * 2, mtime=0)[:-4], 2, r"the gzip file is cut short \(\d+ bytes"),
        ("jsonl", b'{"text": "a"}\n' * 3 + b"[]\n", 3, "line 4: expected a JSON object, got"),
        ("csv", b'w,label\na,A\n\nb,B\n\nc\n', 2, "line 6: expected 2 cells"),
        ("csv", b'text\na\nb\n"c\n', 2, "line 4: malformed table: unexpected end of data"),
        ("csv", b'text\na\n"b"c\n"d', 1, "line 3: malformed table: "),
        ("conll", "a X L\n".encode("utf-16"), 0, "it begins as utf-16 does"),
        ("conll", b"\n\n", 0, "no items; expected lines of w, pos"),
        ("csv", b"w,label\n", 0, "no rows below the names of the columns"),
        ("csv", b"label\na\nb\n", 0, "expected columns besides the label"),
    ],
)  # fmt: skip
def test_items_before_an_error_come_first(tmp_path, format, text, n_before, message):
    path = tmp_path / "file"
    path.write_bytes(text)
    options = {"columns": ["w", "pos"]} if format == "conll" else {}
    found, n_items = read_parts(path, FORMATS[format].cut(), lambda part: read(part, format, **options)), 0
    with pytest.raises(DataError, match=message):  # noqa: PT012
        for _, data in found:
            n_items += 0 if data is None else data.n_items
    assert n_items == n_before


def test_errors_of_items_get_their_line(tmp_path):
    path = tmp_path / "file"
    path.write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n')

    def refuse(data):
        if "c" in data.inputs:
            raise InputError(f"item {data.inputs.index('c')}: it is c")
        return data.n_items

    found = read_parts(path, FORMATS["jsonl"].cut(), lambda part: refuse(read(part, "jsonl")))
    assert [next(found)[1], next(found)[1]] in ([1, 1], [2, None])
    with pytest.raises(InputError, match="file, line 3: it is c"):
        next(found)


def test_lines_have_a_largest_size(monkeypatch):
    monkeypatch.setattr("sys.stdin", Stdin(Endless()))
    monkeypatch.setattr(Endless, "read1", lambda self, size: b"a")
    monkeypatch.setattr(parts, "MAX_LINE_SIZE", 50)
    with pytest.raises(DataError, match="standard input, line 1: longer than 50 bytes"):
        next(read_parts("-", FORMATS["text"].cut(), lambda part: part))


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("conll", "a X L\n", "line 7: an item of more than 50 lines; a blank line ends an item"),
        ("csv", "1,a,A\n", "line 4: an item of more than 50 lines; another name in the column of sentences"),
        ("jsonl", "[\n", "line 1: an item of more than 50 lines; an array of objects is read as a whole"),
    ],
)
def test_an_item_has_an_end(monkeypatch, format, text, message):
    start = {"conll": ITEM * 2, "csv": "sentence,w,label\n1,a,A\n0,a,A\n", "jsonl": "[\n"}[format]
    stream = Endless()
    pieces = iter([start.encode()])
    monkeypatch.setattr("sys.stdin", Stdin(stream))
    monkeypatch.setattr(stream, "read1", lambda size: next(pieces, text.encode()))
    options = {"columns": ["w", "pos"]} if format == "conll" else {}
    end = FORMATS[format].item_end
    found = read_parts("-", FORMATS[format].cut(), lambda part: read(part, format, **options), 50, end)
    with pytest.raises(DataError, match=message):
        list(found)
    monkeypatch.setattr(parts, "MAX_ITEM_LENGTH", 50)  # of streams alone
    pieces = iter([start.encode()])
    with pytest.raises(DataError, match="an item of more than 50 lines"):
        list(read_parts("-", FORMATS[format].cut(), lambda part: read(part, format, **options)))


def test_an_item_of_a_file_may_be_long(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MAX_ITEM_LENGTH", 50)
    path = tmp_path / "long.conll"
    path.write_text("a X L\n" * 100)
    cut = FORMATS["conll"].cut()
    ((_, data),) = read_parts(path, cut, lambda part: read(part, "conll"))
    assert data.n_positions == 100
    with pytest.raises(DataError, match="line 1: an item of more than 50 lines"):
        list(read_parts(path, cut, lambda part: read(part, "conll"), 50))
