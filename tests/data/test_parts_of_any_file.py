"""Files of chance are in parts what they are as a whole: the same items, labels, lines and weights, or an error."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from crfqn.data import file_parts, files
from crfqn.data.file_parts import read_parts
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import CrfqnError
from crfqn.readers import FORMATS, Labeled, conll, read

UD = "\t_" * 6 + "\n"
# Pieces of files, the likely ones first, by format and options.
PIECES = {
    "conll": ["a B X\n", "a\tB\tX\n", "\n", "a b\tB\tX\n", "-DOCSTART- a b\n", "a X\n", "# a\n"],
    "conll, words and perhaps labels": ["a\tX\n", "a b\tX\n", "\n", "a X\n", "a\n", "a b X\n"],
    "conll, more columns": ["a B X\n", "a\tB\tX\n", "\n", "a B C X\n"],
    "conllu": [f"1\ta\t_\tX{UD}", "# x\n", "\n", f"1-2\ta\t_\t_{UD}", "1\ta\n"],
    "crfsuite": ["A\tx:2\n", "B\ty\n", "\n", "@weight:3\n", "A\tx:1_0\n"],
    "svmlight": ["1 2:1\n", "1.0 3:1 1:2\n", "# no item\n", "\n", "a 1:1 1:2\n"],
    "jsonl": [
        '{"tokens": ["a", "b"], "labels": ["X", "Y"], "tag": ["c", "d"]}\n', '{"tokens": ["a"], "tag": ["b"]}\n',
        '{"tokens": ["a"], "tag": ["b"], "other": ["c"]}\n', "\n", '{"tokens": [], "tag": []}\n', '{"tokens": ["a"]}\n',
    ],
    "jsonl, objects": [
        '{"tokens": [{"w": "a", "t": "b"}], "labels": ["X"]}\n', '{"tokens": [{"w": "a"}]}\n', "\n", '{"tokens": []}\n',
        '{"tokens": [{"w": "a", "t": 2}]}\n', '{"tokens": [{"w": "a", "t": "b"}, {"x": "a"}]}\n', '{"tokens": ["a"]}\n',
    ],
    "jsonl, any": ['{"text": "a", "label": "X"}\n', '{"features": [{"a": 1}], "text": "b"}\n', '{"tokens": ["a"]}\n'],
    "csv": ["a,X\n", "b,Y\n", "\n", '"c\n\nd",X\n', "a,X,Y\n"],
    "csv, sentences": ["1,a,X\n", ",b,Y\n", "2,a,X\n", "\n", "3,a,X\n", "4,a,X\n", "5,a,\n"],
    "csv, rows": ["1,a,X\n", ",b,Y\n", "\n", "2,a\n"],
    "csv, no header": ["a,b,X\n", "a,b\n", "\n", "a,b,c,X\n"],
    "csv, texts": ["a,X\n", '"c\n\nd",X\n', "\n", "a\n"],
    "tsv": ["a\tX\n", "b\tY\n", "\n", "a b\n"],
    "text": ["A\tone\n", "two\n", "\n", " \t\n"],
    "raw": ["a b.\n", "\n", " \t\n"],
}  # fmt: skip
OPTIONS = {
    "conll, words and perhaps labels": {"columns": ["w"]},
    "conll, more columns": {"columns": ["w"], "has_more": True},
    "csv, rows": {"rows": True},
    "csv, no header": {"rows": True, "header": False, "label": "3"},
}
BEGINS = {
    "csv": "w,label\n",
    "csv, sentences": "sentence,w,label\n",
    "csv, rows": "a,b,label\n",
    "csv, texts": "text,label\n",
    "tsv": "w\tlabel\n",
}


def content(data):
    """Return the items of data, each with its labels, lines and weight."""
    if not isinstance(data, Labeled):
        inputs = data.inputs
        rows = (
            inputs if isinstance(inputs, (list, TokenColumns)) else [sorted(row) for row in entries(inputs)]
        )
        return [*zip(map(repr, rows), data.labels, data.places.lines.tolist(), strict=True)]
    weights = data.weights or [1.0] * data.n_items
    lines = [[data.places.line(i, t) for t in range(len(item))] for i, item in enumerate(data.labels)]
    return [*zip(map(repr, data.inputs), data.labels, lines, weights, strict=True)]


def entries(matrix):
    for start, stop in itertools.pairwise(matrix.indptr):
        yield zip(matrix.indices[start:stop].tolist(), matrix.data[start:stop].tolist(), strict=True)


@pytest.mark.parametrize("name", PIECES)
def test_parts_are_the_whole(tmp_path, monkeypatch, name):
    monkeypatch.setattr(file_parts, "READ_SIZE", 7)
    monkeypatch.setattr(files, "PIECE_SIZE", 7)
    monkeypatch.setattr(file_parts, "PART_LINES", 3)
    monkeypatch.setattr(
        conll, "N_LINES_TO_DECIDE", 1
    )  # which are in the first part, as they are in long ones
    format, options, pieces = name.partition(",")[0], OPTIONS.get(name, {}), PIECES[name]
    rng, path = np.random.default_rng(sum(name.encode())), tmp_path / "file"
    cut, n_whole, n_refused, n_parts = FORMATS[format].cut(**options), 0, 0, 0
    for _ in range(300):
        p = 2.0 ** -(np.arange(len(pieces)) * rng.integers(0, 4))
        text = "".join(rng.choice(pieces, rng.integers(1, 30), p=p / p.sum()))
        if random.Random(text).random() < 0.1:
            text = text[:-1]
        path.write_text(BEGINS.get(name, "") + text)
        try:
            whole = content(read(path, format, **options))
        except CrfqnError:
            whole = None
        n_whole, n_refused = n_whole + (whole is not None), n_refused + (whole is None)
        found = []
        try:
            for _, data in read_parts(path, cut, lambda part: read(part, format, **options)):
                found += [] if data is None else content(data)
                n_parts += 1
        except CrfqnError:
            found = None
        assert found == whole, text
    assert n_whole > 20
    assert n_refused > 0
    assert n_parts > 1.5 * n_whole
