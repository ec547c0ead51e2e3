"""Unknown labels, labels that are numbers with names, and the keys of labels in JSON objects."""

from __future__ import annotations

import io
import json

import pytest

from crfqn import ChainCRF
from crfqn.data.files import Part
from crfqn.errors import DataError, InputError
from crfqn.readers import read
from crfqn.readers.label_values import names_of_labels
from crfqn.readers.registry import rewritten

OF_NAMES = {"label_names": ["O", "B-PER"]}


def jsonl(*records, **options):
    return read(io.StringIO("".join(json.dumps(record) + "\n" for record in records)), "jsonl", **options)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("conll", "Ann B-PER\nLee _\n"),
        ("crfsuite", "B-PER\ta\n_\tb\n"),
        ("csv", "w,label\nAnn,B-PER\nLee,_\n"),
        ("jsonl", '{"tokens": ["Ann", "Lee"], "labels": ["B-PER", "_"]}\n'),
        ("jsonl", '{"tokens": ["Ann", "Lee"], "labels": ["B-PER", null]}\n'),
        ("csv", "w,label\nAnn,B-PER\nLee,\n"),
        ("xml", "<a><b><B-PER>Ann</B-PER> <_>Lee</_></b></a>"),
    ],
)
def test_unknown_labels_of_positions(format, text):
    data = read(io.StringIO(text), format, missing="_")
    assert data.labels == [["B-PER", ""]]
    assert data.targets() == [["B-PER", None]]
    if "_" in text:
        assert read(io.StringIO(text), format).labels == [["B-PER", "_"]]


def test_unknown_labels_are_partly_known_ones():
    text = "Ann B-PER\nLee _\nsays O\n\nLee B-PER\nsays _\n\n"
    data = read(io.StringIO(text), "conll", missing="_")
    model = ChainCRF(l1=0.01).fit([[[w["w"]] for w in item] for item in data.inputs], data.targets())
    assert list(model.classes_) == ["B-PER", "O"]
    assert [*model.predict([[["Lee"], ["says"]]])[0]] == ["B-PER", "O"]


def test_unknown_labels_of_documents():
    assert read(io.StringIO("_\ta b\nx\tc\n"), "text", missing="_").labels == ["", "x"]


@pytest.mark.parametrize("key", ["labels", "tags", "ner_tags", "pos_tags"])
def test_usual_keys_of_labels(key):
    assert jsonl({"tokens": ["a", "b"], key: ["X", "Y"]}).labels == [["X", "Y"]]


def test_several_keys_of_labels():
    record = {"tokens": ["a"], "pos_tags": ["N"], "ner_tags": ["O"]}
    with pytest.raises(
        DataError, match=r"line 1: expected one key of labels, got 'ner_tags', 'pos_tags'; label="
    ):
        jsonl(record)
    assert jsonl(record, label="ner_tags").labels == [["O"]]
    assert jsonl(record | {"labels": ["Z"]}).labels == [["Z"]]
    of_model = jsonl(record, columns=["w", "pos_tags"])
    assert of_model.labels == [["O"]]
    assert of_model.inputs.names == ("w", "pos_tags")


def test_labels_within_tokens():
    record = {"tokens": [{"text": "Ann", "tag": "B-PER"}, {"text": "says", "tag": None}]}
    data = jsonl(record, label="tokens.tag")
    assert data.inputs[0] == [{"text": "Ann"}, {"text": "says"}]
    assert data.labels == [["B-PER", ""]]
    with pytest.raises(DataError, match=r"expected labels under 'tokens\.ner' \(label=\), got 'tokens'"):
        jsonl(record, label="tokens.ner")
    assert jsonl({"tokens": [{"text": "Ann"}]}, label="tokens.tag", needs_named=False).labels == [[""]]


def test_numbers_with_names():
    records = (
        {"tokens": ["Ann", "says"], "ner_tags": [1, 0]},
        {"tokens": ["Lee", "x"], "ner_tags": [-1, None]},
    )
    data = jsonl(*records, **OF_NAMES)
    assert data.labels == [["B-PER", "O"], ["", ""]]
    assert data.targets()[0] == ["B-PER", "O"]
    assert jsonl({"tokens": ["Ann", "says"], "tags": ["B-PER", "O"]}, **OF_NAMES).labels == [["B-PER", "O"]]
    message = (
        r"line 1, position 1: expected one of 2 names of labels \(O, B-PER\) or its number from 0, got .* '2'"
    )
    with pytest.raises(DataError, match=message):
        jsonl({"tokens": ["Ann", "says"], "tags": [1, 2]}, **OF_NAMES)
    texts = read(io.StringIO("text,label\nfine,1\nbad,0\n"), "csv", label_names=["no", "yes"])
    assert texts.labels == ["yes", "no"]
    assert texts.targets() == ["yes", "no"]


def test_numbers_with_names_are_written_as_numbers():
    line = '{"tokens": ["Ann", "says"], "ner_tags": [0, 0], "id": 7}\n'
    part = Part("a.jsonl", line)
    data = read(part, "jsonl", **OF_NAMES)
    assert rewritten(part, data, [["B-PER", "O"]]) == line.replace("[0, 0]", "[1, 0]")


def test_names_by_option_or_file(tmp_path):
    (tmp_path / "names").write_text("O\nB-PER\n\n")
    assert names_of_labels([str(tmp_path / "names")]) == names_of_labels(["O, B-PER"]) == ["O", "B-PER"]
    with pytest.raises(InputError, match="expected distinct names, separated by commas, got O, O"):
        names_of_labels(["O", "O"])
