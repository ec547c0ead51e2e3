"""Changed files of every text format are read or refused with an error of ours; what is written again, too."""

from __future__ import annotations

import io
import json
import random

import pytest

from crfqn.errors import CrfqnError, InputError
from crfqn.readers import FORMATS, Documents, Labeled, read, write

TEXTS = {
    "conll": "The DT B-NP\ncat NN I-NP\n\nIt PRP O\n-DOCSTART- a b\n\nx y z\n",
    "conllu": "# a\n1\tVan\tvan\tADP\tVZ|i\tCase=Acc|N=1\t2\tcase\t_\tNER=O\n2-3\thuis.\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\thuis\thuis\tNOUN\tN\t_\t0\troot\t0:root\t_\n\n1\tJa\tja\tINTJ\tT\t_\t0\troot\t_\t_\n\n",
    "crfsuite": "@weight:2.5\nB\tw=the\tk:2\ta\\:b:-.5\nO\tw=\\\\x\n\n\tw=a\tk:1e3\n",
    "svmlight": "1,3 2:0.5 7:-1e-3\n2 1:1.0 # comment\n17 3:4\n",
    "jsonl": '{"features": [{"w": "a", "k": 2}, {"w": "b", "x": ["y"], "z": {"a": true}}], "labels": ["B", "O"]}\n'
    '{"features": [["w", "v"]]}\n',
    "csv": 'w,pos,label\nThe,DT,B-NP\n"ca""t",NN,I-NP\n\nIt,PRP,B-NP\n',
    "tsv": "text\tlabel\na b\tx\nc\ty\n",
    "text": "a\tsome text\n\tno label\ntext alone\n\nb\t\n",
}
ODD = [
    "\t", "\n", " ", "\0", "\r", "\ufeff", "\u2028", "\x85", "\xa0", '"', ":", "\\", ",", "#", "@", "@weight:", "_",
    "1-2", "1e400", "nan", "9" * 30, "{", "}", "[", "null", "\\ud800", "é", "|", "=", "-DOCSTART-", "label", "1:1",
]  # fmt: skip


def changed(text: str, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at, odd = rng.randrange(len(text) + 1), rng.choice(["", *ODD])
        text = text[:at] + odd + text[at + rng.choice([0, 0, 1, 5]) :]
    content = bytearray(text.encode())
    if content and rng.random() < 0.1:
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


@pytest.mark.parametrize("name", TEXTS)
def test_changed_files_are_read_or_refused(name):
    rng, n_read = random.Random(name), 0
    for _ in range(150):
        try:
            data = read(io.BytesIO(changed(TEXTS[name], rng)), name)
        except CrfqnError:
            continue
        n_read += 1
        for other in {name, rng.choice([*FORMATS])}:
            try:
                write(data, io.BytesIO(), other)
            except CrfqnError:
                continue
    assert 0 < n_read < 150


def test_labelled_texts_are_written_as_they_are_read_or_refused():
    rng, n_written = random.Random(5), 0
    pieces = ["", "a", "\t", "\n", " ", "\r", "\ufeff", "\x85", "\xa0", "b"]
    for _ in range(400):
        size = rng.randint(1, 3)
        texts, labels = (
            ["".join(rng.choices(pieces, k=rng.randint(0, longest))) for _ in range(size)]
            for longest in (3, 2)
        )
        target = io.BytesIO()
        try:
            write(Documents(texts, labels), target, "text")
        except InputError:
            continue
        n_written += 1
        again = read(io.BytesIO(target.getvalue()), "text")
        assert (again.inputs, again.labels) == (texts, labels)
    assert n_written > 50


@pytest.mark.parametrize(
    ("position", "name"),
    [(["w"], "crfsuite"), ({"x": ["y"]}, "crfsuite"), (["w"], "conll"), ({"x": {"y": 1}}, "conllu")],
)
def test_features_that_only_json_holds_are_refused(position, name):
    with pytest.raises(
        InputError, match=f"item 0, position 0: format '{name}' holds texts and numbers by name"
    ):
        write(Labeled([[position]], [["O"]]), io.BytesIO(), name)


def test_numbers_are_no_texts():
    numbers = read(io.BytesIO(TEXTS["svmlight"].encode()), "svmlight")
    for name in ("text", "jsonl", "csv", "parquet"):
        with pytest.raises(InputError, match="the documents are numbers, not texts: write them as svmlight"):
            write(numbers, io.BytesIO(), name)


def test_json_escapes_what_cannot_be_encoded():
    stream = io.BytesIO()
    write(Documents(["a\ud800"], ["x"]), stream, "jsonl")
    assert json.loads(stream.getvalue()) == {"text": "a\ud800", "label": "x"}


@pytest.mark.parametrize("name", ["text", "csv", "parquet"])
def test_texts_that_cannot_be_encoded_are_refused(name):
    with pytest.raises(InputError, match=r"'utf-8' cannot encode '\\ud800', which is in the data"):
        write(Documents(["a\ud800"], ["x"]), io.BytesIO(), name)


def test_encodings_that_are_none_are_refused():
    with pytest.raises(InputError, match="encoding: expected the name of an encoding"):
        write(Documents(["a"], ["x"]), io.BytesIO(), "text", encoding="utf-99")
