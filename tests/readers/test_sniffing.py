"""Formats told by content, raw text cut into tokens, and what parts fields, lines and items in all formats."""

import gzip
import io
from dataclasses import replace

import pytest
from command_line import run_here

from crfqn.data.file_parts import cut_at_blank_lines
from crfqn.errors import DataError, InputError
from crfqn.readers import FORMATS, read, registry, write
from crfqn.readers.registry import are_sentences, first_lines, sniff
from crfqn.recipes.sources import format_of_columns
from crfqn.taxonomy.reading import read_taxonomy_file

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


def test_a_format_with_a_row_of_its_own_is_told_in_all_places(monkeypatch):
    begins = lambda lines: lines[0] == "@mine"  # noqa: E731
    row = replace(FORMATS["conll"], name="mine", begins=begins, names_columns=True)
    monkeypatch.setattr(registry, "FORMATS", {"mine": row, **FORMATS})
    lines = ["@mine", "a b c", "d"]
    assert sniff(lines) == "mine"
    assert format_of_columns(lines, ["w"], {"X"}, "conll") == "mine"


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
    assert data.places.where(1, 0) == "the stream, line 3, position 0"
    out = io.StringIO()
    write(data, out, "jsonl")
    assert '"start": [1, 5], "end": [4, 9]}\n' in out.getvalue()
    with pytest.raises(InputError, match="no place for labels"):
        write(data, out, "raw")
    with pytest.raises(InputError, match="words alone, and w, pos are needed"):
        read(io.StringIO(text), "raw", columns=["w", "pos"])
    with pytest.raises(DataError, match="no items; expected lines of text"):
        read(io.StringIO(" \n"), "raw")


# White space of Python's: controls, a line and a paragraph separator, no-break and wide spaces.
OTHERS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u2003", "\u2028", "\u2029"]


@pytest.mark.parametrize("letter", ["e", "é"])
@pytest.mark.parametrize("space", OTHERS, ids=ascii)
class TestOtherSpacesAreText:
    def read(self, text, name, **options):
        data = read(io.StringIO(text), name, **options)
        return data.inputs, data.labels

    @pytest.mark.parametrize("between", [" ", "\t", "   "])
    def test_columns(self, space, letter, between):
        word = f"pag{letter}{space}x"
        inputs, labels = self.read(f"{word}{between}N\n \t\n{space}{between}V\n", "conll")
        assert [[position["w"] for position in item] for item in inputs] == [[word], [space]]
        assert labels == [["N"], ["V"]]

    def test_attributes(self, space, letter):
        inputs, labels = self.read(f"N\t{letter}{space}x\n{space}\ta\n", "crfsuite")
        assert (inputs, labels) == ([[{f"{letter}{space}x": 1.0}, {"a": 1.0}]], [["N", space]])

    def test_documents(self, space, letter):
        assert self.read(f"N\t{letter}{space}x\n{space}\n", "text") == (
            [f"{letter}{space}x", space],
            ["N", ""],
        )

    def test_numbers(self, space, letter):
        inputs, labels = self.read(f"{letter}{space}x 1:2\n", "svmlight")
        assert (inputs.nnz, labels) == (1, [f"{letter}{space}x"])

    def test_taxonomies(self, space, letter, tmp_path):
        (tmp_path / "tree.txt").write_text(f"{letter}{space}x a\n{letter}{space}x b\n", encoding="utf-8")
        assert set(read_taxonomy_file(tmp_path / "tree.txt").names) == {f"{letter}{space}x", "a", "b"}

    def test_parts_of_files(self, space, letter):
        assert cut_at_blank_lines([f"{letter}\n", f"{space}\n"]) == (0, 0)
        assert cut_at_blank_lines([f"{letter}\n", " \t\r\n", f"{space}\n"]) == (0, 2)


def test_a_word_is_one_whatever_its_letters(tmp_path, monkeypatch):
    """Words with and without letters beyond ASCII are read alike, in training and labelling."""
    for name, word in (("plain", "page"), ("accent", "pagé")):
        text = f"{word}\x0cone A\nelse B\n\nelse B\n{word}\x0cone A\n\n"
        (tmp_path / f"{name}.conll").write_text(text * 5, encoding="utf-8")
        run = run_here(
            monkeypatch, tmp_path, "train", "--data", f"{name}.conll", "-q", "--l1", 0.1, "-o", "m.crfqn"
        )
        assert run.returncode == 0, run.stderr
        run = run_here(monkeypatch, tmp_path, "evaluate", "m.crfqn", f"{name}.conll")
        assert "accuracy, positions    1.0000  of 20" in run.stdout, run.stderr
