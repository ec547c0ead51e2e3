"""Formats told by content, and raw text cut into tokens."""

import gzip
import io

import pytest

from crfqn.errors import DataError, InputError
from crfqn.readers import read, write
from crfqn.readers.registry import are_sentences, first_lines, sniff

CONTENTS = {
    "jsonl": '{"tokens": ["a"], "labels": ["X"]}\n',
    "conllu": "# text = a\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n",
    "svmlight": "3 1:0.5 7:-1e-3 # note\n4 2:1\n",
    "csv": "w,pos,label\nthe,D,O\n\ndog,N,B\n",
    "tsv": "1\t2.5\tx\n2\t3.5\ty\n",
    "text": "sports\tThe team has won\ntrade\tPrices fell, and rose\n",
    "crfsuite": "O\tw=a\tb\nB\tw=c\n\nO\tx\n",
    "conll": "New York\tB-LOC\nis\tO\n\nhere\tO\n",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_formats_are_told_by_content(tmp_path, name):
    path = tmp_path / "train.data"
    path.write_bytes(gzip.compress(CONTENTS[name].encode("utf-16")))
    lines = first_lines(path, "utf-16")
    assert sniff(lines) == name
    assert sniff(lines, ["text"]) == ("text" if name == "text" else None)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("B-NP he PRP\nO , ,\n\nO a b\n", "conll"),  # a comma is a word
        ("1.5,2,a\n2,3,b\n", "csv"),
        ("O\ta:1\tb:2\nO\ta:3\tb:4\n", "crfsuite"),
        ("a\tD\tO\nb\tN\tO\n", "conll"),
        ("w\tpos\tlabel\na\tD\tO\n", "tsv"),
        ("I live in Paris\nNo\n", None),
    ],
)
def test_what_may_be_taken_for_something_else(content, name):
    assert sniff(content.split("\n")) == name


def test_sentences_and_columns():
    labels = {"O", "B"}
    for text in ("I live in Paris", "a word\n\nno", "Hello Paris\nHello Rome"):
        assert are_sentences(text.split("\n"), labels)
    for text in (
        "Paris",
        "a\nb\n\nc",
        "a O\nRome B",
        "a D O\nb D O",
        "a X\nb O",
        "New York\tB\nis\tO",
        "a X\n\nb Y",
    ):
        assert not are_sentences(text.split("\n"), labels)


def test_raw_text_has_tokens_with_their_places():
    text = "I don't: 3.14, well-known (é).\r\n\n x_1 e.g.\n"
    data = read(io.StringIO(text), "raw", columns=["form"])
    words = ["I", "don't", ":", "3.14", ",", "well-known", "(", "é", ")", ".", "x_1", "e.g."]
    assert data.inputs.texts["form"] == words
    lines = [text.split("\r\n")[0], " x_1 e.g."]
    assert [line[a:b] for line, spans in zip(lines, data.spans, strict=True) for a, b in spans] == words
    assert data.places.where(1, 0) == "the stream, line 3"
    out = io.StringIO()
    write(data, out, "jsonl")
    assert '"start": [1, 5], "end": [4, 9]}\n' in out.getvalue()
    with pytest.raises(InputError, match="no place for labels"):
        write(data, out, "raw")
    with pytest.raises(InputError, match="words alone, and w, pos are needed"):
        read(io.StringIO(text), "raw", columns=["w", "pos"])
    with pytest.raises(DataError, match="no items; expected lines of text"):
        read(io.StringIO(" \n"), "raw")
