"""XML of labelled elements: words, labels and lines of the forms of parserator, anystyle and TEI, and what is wrong."""

from __future__ import annotations

import io

import pytest

from crfqn.data.token_columns import TokenColumns
from crfqn.errors import ColumnWarning, DataError, EmptyDataError, InputError
from crfqn.readers import Labeled, find_format, read, write
from crfqn.readers.registry import sniff

NAMES = """<NameCollection>
  <Name><GivenName>Drake</GivenName> <Surname>van der
  Rice</Surname></Name>
  <Name></Name>
  <!-- a comment --><Name><And>&amp;</And></Name>
</NameCollection>"""
TEI = """<?xml version="1.0" encoding="UTF-8"?>
<tei:TEI xmlns:tei="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc xml:id="0">no item</fileDesc></teiHeader>
<text><listBibl>
<bibl><author>Abel T.</author>, <title level="j">Ap<lb/>J</title> <biblScope unit="page">39</biblScope>—,</bibl>
</listBibl></text></tei:TEI>
"""


def xml(text, **options):
    return read(io.BytesIO(text.encode()), "xml", **options)


def words(data):
    return data.inputs.first_texts()


def test_words_have_the_labels_of_their_elements_and_their_lines():
    data = xml(NAMES)
    assert words(data) == [["Drake", "van", "der", "Rice"], ["&"]]
    assert data.labels == [["GivenName", "Surname", "Surname", "Surname"], ["And"]]
    assert [data.places.line(0, t) for t in range(4)] == [2, 2, 2, 3]
    assert data.places.where(1) == "the stream, line 5"


def test_items_named_by_their_elements_and_labels_with_the_values_of_attributes():
    data = xml(TEI, sentence="bibl", label="level,unit", outside="O")
    assert words(data) == [["Abel", "T.", ",", "Ap", "J", "39", "—,"]]
    assert data.labels == [["author", "author", "O", "title.j", "title.j", "biblScope.page", "O"]]
    assert data.inputs.blanks == [True, False, True, True, True, False, True]
    assert xml(TEI, sentence="bibl").labels == [["author", "author", "", "title", "title", "biblScope", ""]]


def test_elements_within_labelled_ones_have_the_label_of_the_outermost():
    with pytest.warns(
        ColumnWarning, match=r"line 1: the words of <i> .* label of the outermost, here 'title'"
    ):
        data = xml("<d><s><title>On <i>Homo</i> and <i>Pan</i></title></s></d>")
    assert words(data) == [["On", "Homo", "and", "Pan"]]
    assert data.labels == [["title"] * 4]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (NAMES.replace("</And>", ""), {}, r"line 5: no XML: mismatched tag, after \d+ characters"),
        (NAMES.replace("<Name></Name>", "Jr."), {}, r"line 4: expected elements .* below the root, got 'Jr\.'"),
        ('<!DOCTYPE a [\n<!ENTITY b "c">]>' + NAMES, {}, "line 2: expected XML that defines no entities, got 'b'"),
        ('<!DOCTYPE a SYSTEM "a.dtd"><a><b><c>&d;</c></b></a>', {}, "that defines no entities, got 'd'"),
        (NAMES, {"label": "level"}, "an attribute level"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', {}, "unknown encoding: klingon"),
    ],
)  # fmt: skip
def test_what_is_no_xml_of_labelled_elements(text, options, message):
    with pytest.raises(DataError, match=message):
        xml(text, **options)


def test_no_items():
    with pytest.raises(EmptyDataError, match="no items; expected elements of labelled words below the root"):
        xml("<Names/>")
    with pytest.raises(EmptyDataError, match="no items; expected elements <bibl>"):
        xml(NAMES, sentence="bibl")
    with pytest.raises(InputError, match="texts have words alone, and w, pos are needed"):
        xml(NAMES, columns=["w", "pos"])


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_the_declared_encoding(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?><a><b><c>Zoë</c></b></a>'
    assert words(read(io.BytesIO(text.encode(encoding)), "xml")) == [["Zoë"]]
    undeclared = "<a><b><c>Zoë</c></b></a>".encode("cp1252")
    assert words(read(io.BytesIO(undeclared), "xml", encoding="cp1252")) == [["Zoë"]]
    with pytest.raises(DataError, match="line 1: no XML: not well-formed"):
        read(io.BytesIO(undeclared), "xml")


def test_what_is_written_is_read_again(tmp_path):
    data = Labeled(
        TokenColumns({"w": ["R&D", "<b>", "日本", "x"]}, [0, 3, 4]), [["B-ORG", "", "título"], ["O"]]
    )
    write(data, tmp_path / "a.xml.gz")
    again = read(tmp_path / "a.xml.gz")
    assert (words(again), again.labels) == (words(data), data.labels)
    write(data, tmp_path / "a.xml", predicted=[["A", "B", "C"], ["D"]])
    assert read(tmp_path / "a.xml").labels == [["A", "B", "C"], ["D"]]
    for label in ("$", "1st", "New York"):
        with pytest.raises(
            InputError, match=r"item 1, position 0: expected .* a label that can name an element"
        ):
            write(data, tmp_path / "a.xml", predicted=[["A", "B", "C"], [label]])
    assert read(tmp_path / "a.xml").labels == [["A", "B", "C"], ["D"]]  # as before
    with pytest.raises(
        InputError, match=r"item 0, position 0: expected a word alone, .* got {'w': 'a', 'pos': 'b'}"
    ):
        write(Labeled(TokenColumns({"w": ["a"], "pos": ["b"]}, [0, 1]), [["X"]]), tmp_path / "b.xml")
    assert not (tmp_path / "b.xml").exists()


def test_the_first_lines_of_xml():
    assert sniff(NAMES.split("\n")) == sniff(TEI.split("\n")) == find_format(None, "a.xml").name == "xml"
    assert sniff(["<s> O", "Ann B-PER", "</s> O"]) == "conll"
