"""Texts with spans of characters: doccano's, spaCy's, Label Studio's and brat's files, and what is wrong in them."""

from __future__ import annotations

import io
import json

import pytest

from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError, TokenWarning
from crfqn.readers import Labeled, find_format, read, write

# An emoji (two UTF-16 units), a combining mark, a line end of Windows, a clitic, a type with a hyphen.
TEXT = "\U0001f600 Ann  Lee's caf\u0065\u0301 in\r\nNew York, Rome"
SPANS = [(2, 10, "PER"), (13, 18, "MY-ORG"), (23, 31, "LOC"), (33, 37, "LOC")]
LABELS = ["O", "B-PER", "I-PER", "O", "B-MY-ORG", "O", "B-LOC", "I-LOC", "O", "B-LOC"]
PLAIN = "No name here"


def doccano(key="label", text=TEXT, spans=SPANS):
    return json.dumps({"id": 7, "text": text, key: [[*span] for span in spans], "Comments": []})


def task(text, regions, **keys):
    results = [
        {"from_name": "ner", "to_name": "body", "type": "labels",
         "value": {"start": start, "end": end, "text": shown, "labels": [label]}}
        for start, end, shown, label in regions
    ]  # fmt: skip
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": results}]} | keys


def folder_of(path, text, annotations, name="one"):
    path.mkdir(exist_ok=True)
    (path / f"{name}.txt").write_bytes(text.encode())
    if annotations is not None:
        (path / f"{name}.ann").write_bytes(annotations.encode())
    return path


def read_lines(*lines, format="doccano", **options):
    return read(io.StringIO("\n".join(lines) + "\n"), format, **options)


@pytest.mark.parametrize("key", ["label", "labels", "entities", "spans", "ents"])
def test_offsets_count_characters(key):
    data = read_lines(doccano(key), doccano(key, PLAIN, []))
    assert data.labels == [LABELS, ["O"] * 3]
    assert data.inputs.texts["w"][:5] == ["\U0001f600", "Ann", "Lee", "'s", "cafe\u0301"]
    assert data.inputs.tokenizer.name == "penn"  # "unicode" keeps "Lee's" together
    assert [data.texts[0][a:b] for a, b in data.spans[0]] == data.inputs.first_texts()[0]
    assert data.where(1, 2) == "the stream, line 2, position 2"


@pytest.mark.parametrize("name", ["doccano", "spacy", "label-studio", "brat"])
def test_what_is_written_is_read_again(tmp_path, name):
    data = read_lines(doccano(), doccano(text=PLAIN, spans=[]))
    path = tmp_path / ("folder" if name == "brat" else "a.json")
    write(data, path, name)
    again = read(path, tokenizer="penn")
    assert (again.labels, again.texts) == (data.labels, data.texts)
    assert find_format(None, path).name == name
    changed = [["B-X", "I-X", *["O"] * 8], ["O", "O", "B-X"]]
    write(again, tmp_path / f"other{path.suffix}", name, predicted=changed)
    if name == "label-studio":  # predictions stand beside annotations
        tasks = json.loads((tmp_path / "other.json").read_text("utf-8"))
        assert [one["predictions"][0]["result"][0]["value"]["end"] for one in tasks] == [5, 12]
        assert [one["annotations"] for one in tasks] == [
            one["annotations"] for one in json.loads(path.read_text("utf-8"))
        ]
    else:
        assert read(tmp_path / f"other{path.suffix}", tokenizer="penn").labels == changed


@pytest.mark.filterwarnings("ignore:relations left out")
def test_a_record_keeps_its_other_keys_and_its_form(tmp_path):
    relation = (
        '{"text": "Ann saw Bob", "entities": [{"id": 5, "label": "P", "start_offset": 0, "end_offset": 3}], '
        '"relations": [{"from_id": 5, "to_id": 5}], "meta": {"x": 1.50}}'
    )
    tokens = '{"tokens": ["Ann", "saw", "New York"], "spans": [{"start": 2, "end": 3, "label": "L"}], "n": 1}'
    cases = [
        ("doccano", doccano()),
        ("doccano", relation),
        ("spacy", doccano("entities")),
        ("spacy", '{"text": "Ann", "spans": [{"start": 0, "end": 3, "label": "P", "token_end": 0}], "a": 1}'),
        ("spacy", tokens),
        ("spacy", '{"text": "Ann saw Bob"}'),
    ]
    for name, line in cases:
        data = read_lines(line, format=name)
        write(data, tmp_path / "a.jsonl", name)
        assert json.loads((tmp_path / "a.jsonl").read_text("utf-8")) == json.loads(line)
    with pytest.warns(TokenWarning, match="^relations left out: 1, first the stream, line 1$"):
        data = read_lines(relation)
    write(data, tmp_path / "a.jsonl", "doccano", predicted=[["O", "B-V", "B-P"]])
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8")) == {
        "text": "Ann saw Bob",
        "entities": [
            {"id": 0, "label": "V", "start_offset": 4, "end_offset": 7},
            {"id": 1, "label": "P", "start_offset": 8, "end_offset": 11},
        ],
        "relations": [],
        "meta": {"x": 1.5},
    }
    write(data, tmp_path / "a.jsonl", "spacy")
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8"))["entities"] == [[0, 3, "P"]]
    data = read_lines(tokens, format="spacy")
    assert (data.inputs.texts["w"], data.labels) == (["Ann", "saw", "New York"], [["O", "O", "B-L"]])
    write(data, tmp_path / "a.jsonl", "spacy", predicted=[["B-P", "O", "O"]])
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8"))["spans"] == [
        {"start": 0, "end": 1, "label": "P"}
    ]


def test_tokens_and_plain_labels_become_texts_with_spans(tmp_path):
    data = Labeled(
        TokenColumns({"w": ["12", "Main", "Street", ",", "Rome"]}, [0, 5]), [["N", "S", "S", "O", "C"]]
    )
    write(data, tmp_path / "a.jsonl", "doccano")
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8")) == {
        "text": "12 Main Street, Rome",
        "label": [[0, 2, "N"], [3, 14, "S"], [16, 20, "C"]],
    }
    features = Labeled([[{"w=a": 1.0}]], [["A"]])
    with pytest.raises(InputError, match="these items have no words"):
        write(features, tmp_path / "b.jsonl", "doccano")


def test_misaligned_spans():
    line = doccano(text="The US-based Lee's", spans=[(4, 6, "LOC"), (13, 16, "PER")])
    message = (
        r"line 2: the span 4-6 LOC 'US' does not begin and end .*, which are 'US-based' 4-12 by the .*'penn'"
    )
    with pytest.raises(DataError, match=message):
        read_lines(doccano(), line)
    with pytest.warns(
        TokenWarning, match=r"expanded to whole tokens: 1, first the stream, line 1, 4-6 LOC 'US'"
    ):
        assert read_lines(line, on_misaligned="expand").labels == [["O", "B-LOC", "B-PER", "O"]]
    with pytest.warns(TokenWarning, match=r"misaligned spans left out: 2"):
        data = read_lines(line, on_misaligned="drop", tokenizer="unicode")
    assert data.labels == [["O"] * 3]
    assert read_lines(line, tokenizer="characters").n_positions == 16
    blanks = read_lines(doccano(text="a  Ann  b", spans=[(1, 8, "P")]))
    assert blanks.labels == [["O", "B-P", "O"]]  # blanks at the ends are no tokens
    with pytest.raises(DataError, match=r"which are none here"):
        read_lines(doccano(text="a  b", spans=[(1, 3, "P")]))
    with pytest.raises(InputError, match=r"on_misaligned: expected one of error, expand, drop, got 'skip'"):
        read_lines(line, on_misaligned="skip")
    with pytest.raises(InputError, match=r"tokenizer: expected one of unicode, .*, got 'words'"):
        read_lines(line, tokenizer="words")
    assert read_lines(line, reads_spans=False).labels == [[""] * 3]


def test_of_overlapping_spans_the_outermost_stays():
    spans = [(4, 8, "LOC"), (0, 13, "ORG"), (0, 13, "ORG"), (9, 16, "PER")]
    with pytest.warns(
        TokenWarning,
        match=r"overlap left out, the outermost ones kept: 2, first the stream, line 1, 4-8 LOC 'Rome'",
    ):
        data = read_lines(doccano(text="The Rome Club is", spans=spans))
    assert data.labels == [["B-ORG", "I-ORG", "I-ORG", "O"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "Ann", "label": [[0, 4, "P"]]}', r"line 2: expected a span within the 3 characters .* 0-4 P"),
        ('{"text": "Ann", "label": [[2, 2, "P"]]}', r"line 2: expected a span within .* got 2-2 P"),
        ('{"text": "Ann", "label": [[0, 2.5, "P"]]}', r"line 2: expected start and end, whole numbers"),
        ('{"text": "Ann", "label": [[0, 2]]}', r"line 2: expected start and end, whole numbers, and the type"),
        ('{"text": "Ann", "label": [{"start": 0, "end": 3}]}', r"line 2: expected start .* got 0, 3, None"),
        ('{"text": "Ann", "label": [[0, 3, ""]]}', r"line 2: expected start .* got 0, 3, ''"),
        ('{"body": "Ann", "label": []}', r"line 2: expected a text under 'text', or a list of texts under 'tokens'"),
        ('{"tokens": ["Ann"], "spans": []}', r"line 2: expected a text, as in the records before"),
        ('{"text": "Ann"', r"line 2: expected a JSON object"),
        ('{"text": "Ann saw", "spans": [{"start": 0, "end": 3, "label": "P", "text": "saw"}]}',
         r"line 2: the span 0-3 P has the text 'saw', and these characters are 'Ann'"),
    ],
)  # fmt: skip
def test_a_wrong_record_is_named(line, message):
    with pytest.raises(DataError, match=message):
        read_lines(doccano(), line)


def test_unknown_spans_are_no_labels_and_refused_answers_no_items():
    refused = '{"text": "Ann", "spans": [{"start": 0, "end": 3, "label": "P"}], "answer": "reject"}'
    accepted = '{"text": "no one", "answer": "accept"}'
    lines = '{"text": "Ann saw"}', refused, accepted
    with pytest.warns(
        TokenWarning, match="rejected or ignored records left out: 1, first the stream, line 2"
    ):
        data = read_lines(*lines, format="spacy")
    assert (data.labels, data.places.where(1)) == ([["", ""], ["O", "O"]], "the stream, line 3")
    assert read_lines(*lines, format="spacy", reads_spans=False).n_items == 3


def test_label_studio_counts_characters_and_once_counted_units(tmp_path):
    text = "\U0001f600\U0001f600 Ann saw Bob"
    now, then = [(3, 6, "Ann", "P"), (11, 14, "Bob", "P")], [(5, 8, "Ann", "P"), (13, 16, "Bob", "P")]
    for regions in (now, then):
        (tmp_path / "a.json").write_text(json.dumps([task(text, regions)]), "utf-8")
        data = read(tmp_path / "a.json")
        assert data.labels == [["O", "O", "B-P", "O", "B-P"]]
        assert data.texts == [text]
    (tmp_path / "a.json").write_text(json.dumps([task(text, [(4, 7, "Ann", "P")])]), "utf-8")
    with pytest.raises(DataError, match=r"a.json, line 1, task 1: the span 4-7 P has the text 'Ann'"):
        read(tmp_path / "a.json")


def test_label_studio_annotation_that_counts(tmp_path):
    regions = [{"result": task("", [(0, 3, None, label)])["annotations"][0]["result"]} for label in "ABC"]
    tasks = [
        task("Ann", [], annotations=regions),
        task("Ann", [], annotations=[regions[0] | {"ground_truth": True}, regions[1]]),
        task("Ann", [], annotations=[regions[0], regions[1] | {"was_cancelled": True}]),
        task("Ann", [], annotations=[{"result": []}]),
        task("Ann", [], annotations=[], predictions=regions),
        {"data": {"body": "Ann"}},
    ]
    (tmp_path / "a.json").write_text(json.dumps(tasks, indent=1), "utf-8")
    with pytest.warns(
        TokenWarning, match=r"annotations left out, .*: 3, first .*a.json, line 2, task 1"
    ) as caught:
        data = read(tmp_path / "a.json")
    assert len(caught) == 1
    assert read(tmp_path / "a.json", reads_spans=False).labels == [[""]] * 6
    assert data.labels == [["B-C"], ["B-A"], ["B-A"], ["O"], [""], [""]]
    write(data, tmp_path / "b.json", "label-studio", predicted=[["B-X"]] * 6)
    written = json.loads((tmp_path / "b.json").read_text("utf-8"))
    region = {"id": "0", "from_name": "ner", "to_name": "body", "type": "labels",
              "value": {"start": 0, "end": 3, "text": "Ann", "labels": ["X"]}}  # fmt: skip
    assert written[0] == tasks[0] | {"predictions": [{"result": [region], "model_version": "crfqn"}]}
    assert written[5]["predictions"][0]["result"][0]["from_name"] == "label"  # the usual name


def test_regions_that_are_no_labels_are_said(tmp_path):
    with_relation = task("Ann saw Bob", [(0, 3, "Ann", "P")])
    with_relation["annotations"][0]["result"].append({"type": "relation", "from_id": "a", "to_id": "b"})
    (tmp_path / "a.json").write_text(json.dumps([task("Bob", []), with_relation | {"id": 2}]), "utf-8")
    with pytest.warns(TokenWarning, match=r"no labels of a text .* left out: 1, first .*, line 1, task 2$"):
        assert read(tmp_path / "a.json").labels == [["O"], ["B-P", "O", "O"]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": {"image": "a.png", "url": "b"}}, r"line 2, task 1: expected a text under 'text' of 'data'"),
        ({"data": "Ann"}, r"line 2, task 1: expected a task with an object under 'data'"),
        (
            {"annotations": [{"result": [{"type": "hypertextlabels"}]}]},
            r"got a region of the type 'hypertextlabels'",
        ),
        (
            {"annotations": [{"result": [{"type": "labels", "value": {"start": "0", "end": 2}}]}]},
            "expected start and end",
        ),
    ],
)
def test_a_wrong_task_is_named(wrong, message):
    lines = json.dumps(task("Ann", [])), json.dumps(task("Ann", []) | wrong)
    with pytest.raises(DataError, match=message):
        read_lines(*lines, format="label-studio")


@pytest.mark.filterwarnings("ignore:relations, events")
def test_brat_counts_as_the_file_has_it(tmp_path):
    annotations = (
        "T1\tPER 2 10\tAnn  Lee\nT2\tORG 13 18\tcafe\u0301\r\nR1\tIn Arg1:T1 Arg2:T2\n#1\tNote T1\tx\n"
        "T3\tLOC 20 21;23 31\tn New York\nA1\tSure T1\n"
    )
    path = folder_of(tmp_path / "a", TEXT, annotations)
    folder_of(path, "Bob\nsaw\n\nAnn", None, "two")
    folder_of(path, "", "", "zero")
    with pytest.raises(
        DataError, match=r"one.ann, line 5: the span 20-31 LOC .* does not begin and end with tokens"
    ):
        read(path)
    with pytest.warns(TokenWarning) as caught:
        read(path, on_misaligned="expand")
    others = f"relations, events, attributes and notes left out: 3, first {path / 'one.ann'}, line 3"
    assert [str(one.message) for one in caught].count(others) == 1
    with pytest.warns(TokenWarning, match="expanded"):
        data = read(path, on_misaligned="expand", tokenizer="penn")
    assert data.labels[0] == ["O", "B-PER", "I-PER", "O", "B-ORG", "B-LOC", "I-LOC", "I-LOC", "O", "O"]
    assert data.labels[1:] == [[""] * 3, []]
    assert data.texts[0] == TEXT
    assert data.where(1, 2) == f"{path / 'two.txt'}, line 4"
    with pytest.warns(TokenWarning, match="left out: 1, first"):
        assert read(path / "one.ann", on_misaligned="drop", tokenizer="penn").n_items == 1
    write(data, tmp_path / "b", "brat", predicted=[*data.labels[:1], ["O", "B-X", "I-X"], []])
    assert (tmp_path / "b" / "one.txt").read_bytes() == TEXT.encode()
    assert (tmp_path / "b" / "one.ann").read_text("utf-8") == (
        "T1\tPER 2 10\tAnn  Lee\nT2\tORG 13 18\tcafe\u0301\nT3\tLOC 19 21;23 31\tin New York\n"
    )
    assert (tmp_path / "b" / "two.ann").read_text("utf-8") == "T1\tX 4 7;9 12\tsaw Ann\n"
    assert (tmp_path / "b" / "zero.ann").read_text("utf-8") == ""
    assert read(tmp_path / "b", tokenizer="penn").labels == [data.labels[0], ["O", "B-X", "I-X"], []]


def test_spans_with_gaps(tmp_path):
    path = folder_of(tmp_path / "a", "North and South America", "T1\tLOC 0 5;16 23\tNorth America\n")
    with pytest.raises(DataError, match=r"one.ann, line 1: the span 0-23 LOC .* has gaps"):
        read(path)
    with pytest.warns(TokenWarning, match="left out"):
        assert read(path, on_misaligned="drop").labels == [["O"] * 4]
    with pytest.warns(TokenWarning, match="expanded"):
        assert read(path, on_misaligned="expand").labels == [["B-LOC", *["I-LOC"] * 3]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("T1\tPER 0 3", r"one.ann, line 2: expected `T1 TAB type start end TAB text`"),
        ("T1\tPER 0\tAnn", r"line 2: expected `T1"),
        ("T1\tPER 0 \u0663\tAnn", r"line 2: expected `T1"),
        ("T1\tPER 1 4\tAnn", r"line 2: the span 1-4 PER has the text 'Ann', and these characters are 'nn '"),
        ("T1\tPER 0 9\tAnn", r"line 2: the span 0-9 PER"),
        ("T1\tPER 0 3;4 7\tAnn Bob", r"line 2: expected the text at 0 3;4 7, got 'Ann Bob'"),
    ],
)
def test_a_wrong_annotation_is_named(tmp_path, line, message):
    path = folder_of(tmp_path / "a", "Ann saw", f"T2\tPER 0 3\tAnn\n{line}\n")
    with pytest.raises(DataError, match=message):
        read(path)


def test_brat_needs_names(tmp_path):
    with pytest.raises(InputError, match="expected a folder with texts"):
        read(io.StringIO("Ann"), "brat")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no items; expected texts"):
        read(tmp_path / "empty", "brat")
    data = read_lines(doccano(text="Ann", spans=[(0, 3, "first name")]))
    with pytest.raises(InputError, match="brat has types without blanks, got 'first name'"):
        write(data, tmp_path / "b", "brat")
    assert not (tmp_path / "b").exists()
    with pytest.raises(InputError, match="expected the name of a folder"):
        write(data, io.StringIO(), "brat")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("doccano", doccano()),
        ("doccano", '{"text": "Ann", "entities": [{"id": 1, "start_offset": 0, "end_offset": 3, "label": "P"}]}'),
        ("doccano", '[{"text": "A", "label": [{"start": 0, "end": 1, "labels": ["P"]}] }, {"text": "", "label": []}]'),
        ("spacy", doccano("entities")),
        ("spacy", '{"text": "Ann", "entities": []}'),
        ("spacy", '[{"text": "Ann", "spans": [{"text": "Ann", "start": 0, "end": 3, "label": "P"}]}]'),
        ("spacy", '{"tokens": ["Ann"], "spans": [[0, 1, "P"]]}'),
        ("label-studio", json.dumps([task("Ann", [])], indent=2)),
        ("label-studio", '[{"data": {"text": "Ann"}}]'),
        ("jsonl", '{"text": "Ann", "label": []}'),
        ("jsonl", '{"text": "Ann", "label": ["a", "b"]}'),
        ("jsonl", '{"tokens": ["Ann"], "labels": ["B-P"], "spans": [{"label": "P", "start": 0, "end": 1}]}'),
        ("jsonl", '{"text": "Ann", "annotations": [{"label": 12, "start_offset": 9, "end_offset": 14}]}'),
        ("jsonl", '{"text": "say \\"label\\": [[0, 1, 2]]", "label": "a"}'),
        ("jsonl", ""),
    ],
)  # fmt: skip
def test_formats_that_share_an_extension_are_told_apart_by_content(tmp_path, name, text):
    for extension in (".json", ".jsonl"):
        path = tmp_path / f"a{extension}"
        path.write_text(text, "utf-8")
        assert find_format(None, path).name == name
        assert find_format(None, path, reads=False).name == "jsonl"


def test_joined_and_chosen_items_keep_their_tokenizer():
    data = read_lines(doccano(), doccano(text=PLAIN, spans=[]), tokenizer="characters")
    part = data.part([1])
    assert (part.texts, part.spans, part.records[0]["id"]) == ([PLAIN], [data.spans[1]], 7)
    assert part.inputs.tokenizer.name == (data.inputs + part.inputs).tokenizer.name == "characters"
