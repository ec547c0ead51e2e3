"""The registry of formats: what is written is read again, what is wrong is named with file and line, limits hold."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
import zstandard

from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, DataUnavailableError, InputError
from crfqn.readers import FORMATS, Documents, Labeled, find_format, from_frame, read, write

COLUMNS = Labeled(
    TokenColumns({"w": ["Der", "Hündin", "a:b", "."], "pos": ["D", "N", "X\\Y", "."]}, [0, 2, 4]),
    [["B-NP", "I-NP"], ["O", "O"]],
)
PREDICTED = [["B-VP", "O"], ["O", "B-NP"]]
TEXTS = Documents(["ein Text", 'mit "Komma", ja', ""], ["a", "b", "a"])
PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}


def sequences(data):
    return [[dict(position) for position in item] for item in data.inputs], data.labels


@pytest.mark.parametrize("packing", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["a.conll2000", "a.conll", "a.jsonl", "a.csv", "a.tsv", "a.parquet"])
def test_columns_come_back(tmp_path, name, packing):
    path = tmp_path / f"{name}{packing}"
    write(COLUMNS, path)
    assert sequences(read(path)) == sequences(COLUMNS)
    write(COLUMNS, path, predicted=PREDICTED)
    again = read(path, format="conll") if "conll" in name else read(path)
    if "conll" in name:  # the last column is the label
        assert again.labels == PREDICTED
        assert again.inputs.texts["chunk"] == ["B-NP", "I-NP", "O", "O"]
    else:
        assert again.labels == COLUMNS.labels
        assert [again.inputs.texts["predicted"]] == [["B-VP", "O", "O", "B-NP"]]


def test_attributes_come_back(tmp_path):
    data = Labeled(
        [[{"w=a:b\\c": 1.0, "x": -2.5}, {}], [{"y": 0.1}]], [["A", "B:C"], ["A"]], weights=[2.0, 1.0]
    )
    write(data, tmp_path / "a.crfsuite")
    again = read(tmp_path / "a.crfsuite")
    assert (again.inputs, again.labels, again.weights) == (data.inputs, data.labels, data.weights)
    write(data, tmp_path / "a.crfsuite", predicted=[["C", "C"], ["C"]])
    assert read(tmp_path / "a.crfsuite").labels == [["C", "C"], ["C"]]
    write(data, tmp_path / "a.jsonl")
    assert read(tmp_path / "a.jsonl").inputs == data.inputs


@pytest.mark.parametrize("name", ["a.text", "a.jsonl", "a.csv", "a.tsv", "a.parquet"])
def test_texts_come_back(tmp_path, name):
    write(TEXTS, tmp_path / name)
    again = read(tmp_path / name)
    assert (again.inputs, again.labels) == (TEXTS.inputs, TEXTS.labels)
    write(TEXTS, tmp_path / name, predicted=["b", ["a", "c"], "d"])
    if name == "a.text":
        assert read(tmp_path / name).labels == ["b", "a,c", "d"]


def test_tokens_of_json_may_be_objects():
    text = '{"tokens": [{"word": "the", "tag": "D"}, {"word": "dog", "tag": "N"}], "labels": ["O", "B"]}\n'
    data = read(io.StringIO(text), "jsonl")
    assert (data.inputs.texts, data.labels) == ({"word": ["the", "dog"], "tag": ["D", "N"]}, [["O", "B"]])
    with pytest.raises(
        DataError, match=r"line 2: expected objects with texts under 'word', 'tag' in 'tokens'"
    ):
        read(io.StringIO(text + '{"tokens": [{"word": "a"}]}\n'), "jsonl")


def test_a_table_for_a_model_may_lack_what_is_named():
    table = "item,word,tag\n1,the,D\n1,dog,N\n"
    given = {"columns": ["word", "tag"], "label": "ner", "needs_named": False}
    data = read(io.StringIO(table), "csv", sentence="item", **given)
    assert (data.inputs.texts["tag"], data.labels) == (["D", "N"], [["", ""]])
    data = read(io.StringIO(table.replace("item", "other")), "csv", sentence="item", **given)
    assert (data.n_items, data.inputs.names) == (1, ("word", "tag"))
    with pytest.raises(DataError, match=r"expected a column 'ner' \(label=\)"):
        read(io.StringIO(table), "csv", label="ner")


def test_numbers_come_back(tmp_path):
    text = "1,3 2:0.5 7:-1e-3\n2 1:1.0 # comment\n"
    data = read(io.StringIO(text), "svmlight")
    assert data.labels == ["1,3", "2"]
    write(data, tmp_path / "a.svm")
    again = read(tmp_path / "a.svm")
    assert again.labels == data.labels
    assert (again.inputs != data.inputs).nnz == 0


CONLLU = """# sent_id = 1
1-2	vámonos	_	_	_	_	_	_	_	_
1	vamos	ir	VERB	_	Mood=Imp|Number=Plur	0	root	_	NER=O
2	nos	nosotros	PRON	_	Case=Acc	1	obj	_	_

# sent_id = 2
1	al	a	_	_	_	0	root	_	_
1.1	x	x	X	_	_	_	_	_	_

"""


def test_conllu():
    data = read(io.StringIO(CONLLU), "conllu", columns=["form", "feats", "feats:Case", "misc:NER"])
    assert data.labels == [["VERB", "PRON"], [""]]
    assert data.inputs[0] == [
        {"form": "vamos", "feats": "Mood=Imp|Number=Plur", "feats:Case": "_", "misc:NER": "O"},
        {"form": "nos", "feats": "Case=Acc", "feats:Case": "Acc", "misc:NER": "_"},
    ]
    assert data.places.where(0, 1) == "the stream, line 4"
    out = io.StringIO()
    write(data, out, "conllu", predicted=[["X", "Y"], ["Z"]])
    again = read(io.StringIO(out.getvalue()), "conllu", columns=["form", "feats:Case", "misc:NER"])
    assert again.labels == [["X", "Y"], ["Z"]]
    assert again.inputs.texts["feats:Case"] == ["_", "Acc", "_"]


def test_fields_of_conllu_are_as_they_are_written():
    names = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
    word = ["http://x/?a=1&b=2", "_", "NOUN", "P_q", "A=x=y|B=1,2", "2", "nsubj:pass", "8.1:nsubj|9:conj:en"]
    word += ["Ref=http://x/?q=1|NER=B-LOC=x|SpaceAfter=No|Plain"]
    columns = [*names, "feats:A", "misc:Ref", "misc:NER", "misc:Plain", "misc:Re"]
    data = read(
        io.StringIO("\t".join(["1", *word]) + "\n8.1\te" + "\t_" * 8 + "\n"), "conllu", columns=columns
    )
    assert data.inputs[0] == [
        dict(zip(columns, [*word, "x=y", "http://x/?q=1", "B-LOC=x", "_", "_"], strict=True))
    ]
    assert data.inputs.blanks == [False]


@pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="CRFQN_DATA names no folder of data")
def test_every_field_of_a_treebank_is_as_it_is_written():
    path = Path(os.environ["CRFQN_DATA"], "ud_dutch_lassysmall", "nl_lassysmall-ud-test.conllu.gz")
    names = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
    text = gzip.decompress(path.read_bytes()).decode()
    rows = [line.split("\t") for line in text.split("\n")]
    words = [row[1:] for row in rows if row[0].isdigit()]
    assert any(re.search(r"\b[0-9]+\.[0-9]+:", word[7]) for word in words)  # heads that are empty nodes
    found = read(path, columns=names).inputs.texts
    assert [[*row] for row in zip(*(found[name] for name in names), strict=True)] == words


class TestConll:
    def test_documents_and_comments(self):
        text = "-DOCSTART- -X- O O\n\n# id 7\nEU NNP I-NP I-ORG\n\n-DOCSTART- -X- O O\nU.N. NNP I-NP I-ORG\n"
        data = read(io.StringIO(text), "conll2003", comment="# ")
        assert data.labels == [["I-ORG"], ["I-ORG"]]
        assert [data.places.line(i) for i in range(2)] == [4, 7]

    def test_a_hash_is_a_word(self):
        assert read(io.StringIO("# # B-NP\n"), "conll").inputs[0] == [{"w": "#", "pos": "#"}]

    def test_columns_by_the_first_line(self):
        data = read(io.StringIO("a b c d e\n"), "conll")
        assert (data.inputs.names, data.labels) == (("w", "pos", "chunk", "column3"), [["e"]])
        assert read(io.StringIO("a b\n"), "conll", is_labeled=False).inputs[0] == [{"w": "a", "pos": "b"}]
        tabs = read(io.StringIO("New York\t\tB\n"), "conll", separator="\t")
        assert tabs.inputs[0] == [{"w": "New York", "pos": ""}]

    def test_a_no_break_space_parts_no_columns(self):
        assert read(io.StringIO("1\u00a0000 CD O\n"), "conll").inputs.texts["w"] == ["1\u00a0000"]


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        (
            "conll",
            "a X L\n# note\n",
            r"line 2: expected 3 columns, as in line 1, got 2: '# note'; if it is a comment",
        ),
        ("conll", "", "the stream: empty, no items"),
        ("jsonl", '{"tokens": ["a"]}\n{"tokens": "a"}', "line 2: expected a list under 'tokens', got 'a'"),
        ("jsonl", '{"tokens": ["a"], "labels": []}', "line 1: expected 1 labels, one a position, got 0"),
        ("jsonl", '{"tokens": ["a"], "pos": ["b"]}\n{"tokens": ["a"]}', "line 2: expected the key 'pos'"),
        ("jsonl", '{"tokens": [1]}', "line 1: expected 1 texts under 'tokens'"),
        ("jsonl", '\n{"a": 1', "line 2: expected a JSON object"),
        (
            "jsonl",
            '{"a": 1}',
            "line 1: expected an object with the key 'tokens' or 'features' .*, or 'text' .*, got 'a'",
        ),
        ("jsonl", '{"text": "a", "label": ["x,y", "z"]}', "line 1: a comma parts several labels"),
        ("jsonl", "\n", "no items"),
        ("csv", "w,label\na,b,c\n", r"line 2: expected 2 cells \(w, label\), got 3: 'a,b,c'"),
        ("csv", 'w,label\n"a,b\n', "line 2: malformed table"),
        ("csv", "sentence,w\n1,a\n2,b\n1,c\n", "line 4: '1' again, which began in line 2"),
        ("csv", "w,w\na,b\n", "expected distinct names of columns"),
        ("csv", "", "empty; expected a line of column names"),
        ("csv", "w\n", "no rows below"),
        ("csv", "label\na\n", "expected columns besides the label"),
        ("conllu", "1\ta\n", "line 1: expected 10 columns of CoNLL-U, separated by tabs, got 2"),
        ("conllu", "a" + "\t_" * 9, "line 1: expected the number of a word, 3, 3-4 or 3.1, got 'a'"),
        (
            "conllu",
            "1\ta" + "\t_" * 4 + "\t1_0" + "\t_" * 3,
            "line 1: expected the number of the word's head, or _, got '1_0'",
        ),
        ("conllu", "\n", "no items; expected sentences in CoNLL-U"),
        ("parquet", "abc", "no Parquet file, or a damaged one"),
    ],
)
def test_wrong_content_is_named(format, text, message):
    with pytest.raises(DataError, match=message):
        read(io.BytesIO(text.encode()), format)


class TestTables:
    def test_items_by_blank_lines(self):
        data = read(io.StringIO("w,label\r\na,X\r\n\r\n\r\nb,Y\r\nc,Z\r\n\r\n"), "csv")
        assert data.labels == [["X"], ["Y", "Z"]]
        assert data.places.line(1, 1) == 6

    def test_items_by_a_column_with_gaps(self):
        text = "Sentence #,Word,Tag\nS 1,a,X\n,b,Y\nS 2,c,Z\n"
        assert read(io.StringIO(text), "csv").labels == [["X", "Y"], ["Z"]]

    def test_named_columns(self):
        text = "s;ner;w;x\n1;A;a;1\n"
        data = read(io.StringIO(text), "csv", delimiter=";", sentence="s", label="ner", columns=["w"])
        assert (list(data.inputs), data.labels) == ([[{"w": "a"}]], [["A"]])
        with pytest.raises(DataError, match=r"expected a column 'tag' \(label=\); there are: s, ner, w, x"):
            read(io.StringIO(text), "csv", delimiter=";", label="tag")

    def test_frames(self):
        frame = pandas.DataFrame({"sentence": [1, 1, 2], "w": ["a", "b", "c"], "label": ["X", None, "Y"]})
        assert read(frame).labels == [["X", ""], ["Y"]]
        assert from_frame(frame, sentence="sentence", columns=["w"]).inputs.names == ("w",)
        texts = pandas.DataFrame({"text": ["a b", "c"], "label": [1, 2]})
        assert read(texts).labels == ["1", "2"]


class TestBytes:
    CONTENT = "Ä X L\n" * 2000

    @pytest.mark.parametrize("name", PACKERS)
    def test_compression_is_told_by_the_content(self, name):
        assert read(io.BytesIO(PACKERS[name](self.CONTENT.encode())), "conll").n_positions == 2000

    @pytest.mark.parametrize("name", PACKERS)
    def test_compressed_files_that_are_cut_short_or_damaged(self, name):
        packed = PACKERS[name](self.CONTENT.encode())
        with pytest.raises(DataError, match="cut short"):
            read(io.BytesIO(packed[:-5]), "conll")
        damaged = packed[:20] + bytes(255 - byte for byte in packed[20:40]) + packed[40:]
        with pytest.raises(DataError, match=r"damaged|cut short"):
            read(io.BytesIO(damaged), "conll")

    @pytest.mark.parametrize("name", PACKERS)
    def test_size_is_limited(self, name):
        packed = PACKERS[name](b"a" * 3_000_000)
        with pytest.raises(
            DataError, match=r"the stream: the \w+ file of \d+ bytes unpacks to more than 100000 bytes"
        ):
            read(io.BytesIO(packed), "conll", largest_size=100_000)

    def test_several_zstd_frames(self):
        frames = zstandard.compress(b"a X L\n") + zstandard.compress(b"b X L\n")
        assert read(io.BytesIO(frames), "conll").n_positions == 2

    def test_encodings(self):
        for encoding in ("utf-8-sig", "latin-1", "utf-16"):
            named = {} if encoding == "utf-8-sig" else {"encoding": encoding}
            data = read(io.BytesIO("Ä X L\r\n".encode(encoding)), "conll", **named)
            assert (data.inputs.texts["w"], data.labels) == (["Ä"], [["L"]])
        with pytest.raises(DataError, match=r"line 2: not UTF-8 text: byte 0xc4 after 0 others"):
            read(io.BytesIO(b"a X L\n\xc4 X L\n"), "conll")
        with pytest.raises(DataError, match="it begins as utf-16 does; read it with encoding='utf-16'"):
            read(io.BytesIO("a X L".encode("utf-16")), "conll")
        with pytest.raises(InputError, match="encoding: expected the name of an encoding"):
            read(io.BytesIO(b""), "conll", encoding="klingon")


class TestRegistry:
    def test_formats_by_extension(self):
        assert [find_format(None, name).name for name in ("a.CSV.gz", "x/b.jsonl", "c.conllu.zst")] == [
            "csv", "jsonl", "conllu",
        ]  # fmt: skip
        with pytest.raises(
            InputError,
            match=r"a.txt.gz: its name does not determine the format; name one \(--format, format=\): spacy .* jsonl",
        ):
            read("a.txt.gz")
        with pytest.raises(InputError, match=r"format: expected one of spacy, .*, jsonl"):
            read("a.txt", "excel")

    def test_options(self):
        assert FORMATS["csv"].options() == (
            "delimiter",
            "sentence",
            "label",
            "text",
            "columns",
            "needs_named",
            "rows",
            "header",
            "drop",
        )
        with pytest.raises(InputError, match="format 'crfsuite' has no option 'columns'; it has none"):
            read("a.txt", "crfsuite", columns=["w"])
        with pytest.raises(InputError, match="of data frames has no option 'delimiter'"):
            read(pandas.DataFrame({"w": ["a"]}), delimiter=";")
        with pytest.raises(InputError, match="expected the name of a file, a stream or a data frame"):
            read(3)
        with pytest.raises(DataUnavailableError, match="no such file"):
            read("gone.csv")

    def test_standard_streams(self, monkeypatch):
        out = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a X L\n")))
        monkeypatch.setattr("sys.stdout", out)
        write(read("-", "conll"), "-", "conll", predicted=[["M"]])
        assert out.buffer.getvalue() == b"a X L M\n\n"

    def test_a_file_is_whole_or_as_it_was(self, tmp_path):
        path = tmp_path / "a.conll"
        path.write_text("old")
        with pytest.raises(InputError, match="item 0, position 0: 'a b' cannot be the text of a column"):
            write(Labeled(TokenColumns({"w": ["a b"]}, [0, 1]), [["X"]]), path)
        assert path.read_text() == "old"
        with pytest.raises(DataError, match=r"cannot write .*gone"):
            write(COLUMNS, tmp_path / "gone" / "a.conll")

    @pytest.mark.parametrize(
        ("data", "format", "predicted", "message"),
        [
            (TEXTS, "conll", None, "holds sequences, and these are documents"),
            (COLUMNS, "conll", [["X", "X"]], "predicted: expected labels for 2 items, got 1"),
            (COLUMNS, "csv", [["X"], ["X", "Y"]], "predicted: item 0: expected 2 labels, got 1"),
            (TEXTS, "text", ["a"], "predicted: expected labels for 3 documents, got 1"),
            (TEXTS, "svmlight", None, "the documents are texts"),
            (Labeled([[{"x": 1.0}]], [["A"]]), "csv", None, "these items have attributes"),
        ],
    )
    def test_what_a_format_cannot_hold(self, data, format, predicted, message):
        with pytest.raises(InputError, match=message):
            write(data, io.StringIO(), format, predicted=predicted)


def test_token_columns_are_indexed_as_lists_are():
    columns = COLUMNS.inputs
    assert [len(columns[key]) for key in (slice(1, None), [1, 0, 1], np.array([True, False]))] == [1, 3, 1]
    assert columns[-1] == columns[1] == [{"w": "a:b", "pos": "X\\Y"}, {"w": ".", "pos": "."}]
    assert columns[[1, 0]] + columns[[0]] == [columns[1], columns[0], columns[0]]
    with pytest.raises(IndexError, match="item 2 is out of range for 2 items"):
        columns[2]
    with pytest.raises(InputError, match="item 0, position 1: expected a text in the column 'w', got 3"):
        TokenColumns({"w": ["a", 3]}, [0, 2])
    with pytest.raises(InputError, match="expected columns of one length, got w: 1, pos: 2"):
        TokenColumns({"w": ["a"], "pos": ["b", "c"]}, [0, 1])


def test_some_labels_are_missing():
    data = read(io.StringIO("a X L\nb X\n"), "conll2000")
    with pytest.raises(DataError, match="the stream, line 2: 1 of 2 positions have no label, here first"):
        data.known_labels()
