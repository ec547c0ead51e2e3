"""What parts fields, lines and items, in all formats: blanks, tabs and line ends, and no other white space."""

import io

import pytest
from command_line import run_here

from crfqn.data.file_parts import cut_at_blank_lines
from crfqn.readers import read
from crfqn.taxonomy.reading import read_taxonomy_file

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
