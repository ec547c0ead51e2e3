"""Numbers, keys and texts are what their format says, and not what Python makes of them; the place is named."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from typer import BadParameter

from crfqn.cli.options import parse_value
from crfqn.data.json_text import parse_json
from crfqn.data.label_arrays import number_of
from crfqn.data.matrices import is_numeric
from crfqn.errors import CrfqnError, DataError, InputError, ModelFileError
from crfqn.interchange import json_file
from crfqn.interchange.text_models import read_crfpp, read_wapiti
from crfqn.model.tables import CellError, numbers_of
from crfqn.numerals import number_in, whole_number_in
from crfqn.parameters import PARAMETERS, read_class_weight, read_factor_file, read_factors
from crfqn.readers import read
from crfqn.readers.arff import read_hierarchical_arff
from crfqn.readers.images import read_letter_table
from crfqn.service.labelling import LabelRequest
from crfqn.taxonomy.reading import read_taxonomy_file

# What Python's float() takes and no format has.
PYTHONS = ["1_0", "\uff11\uff10", "\u0661", "\xa010", "10\xa0", "1\x0c", "1\x1f", "\u20091"]
NO_NUMBERS = ["", "+", ".", "e5", "1e", "1-2", "0x10", "1,5", "1.5f", "--1", "nan", "inf", "-Infinity"]
NUMBERS = {"1": 1.0, "-.5": -0.5, "+2.": 2.0, "1e3": 1000.0, "1.5E-2": 0.015, "007": 7.0}


@pytest.mark.parametrize("text", [*PYTHONS, *NO_NUMBERS])
def test_what_is_no_number(text):
    assert math.isnan(number_in(text))
    assert not is_numeric(text)
    assert number_of(text) is None
    with pytest.raises(ValueError):  # noqa: PT011
        whole_number_in(text)
    with pytest.raises(CellError, match="column 'x': expected a finite number, got"):
        numbers_of("x", ["1", text])


@pytest.mark.parametrize("text", NUMBERS)
def test_what_is_a_number(text):
    assert number_in(text) == NUMBERS[text]
    assert is_numeric(text)
    assert numbers_of("x", [text, f" {text}\t", 2.5]).tolist() == [NUMBERS[text], NUMBERS[text], 2.5]


def test_whole_numbers():
    assert [whole_number_in(text) for text in ("0", "-12", "+7", "007")] == [0, -12, 7, 7]
    for text in ("9" * 5000, "1.0", "1e2"):
        with pytest.raises(ValueError):  # noqa: PT011
            whole_number_in(text)


def arff(tmp_path, cell):
    path = tmp_path / "a.arff"
    path.write_text(
        f"@attribute x numeric\n@attribute c hierarchical a,a/b\n@data\n{cell},a/b\n", encoding="utf-8"
    )
    return read_hierarchical_arff(path)


def letters(tmp_path, cell):
    path = tmp_path / "letters"
    path.write_text(f"{cell}\ta\t-1\t1\t1\t0\t0\t1\n", encoding="utf-8")
    return read_letter_table(path, 2)


def crfpp(tmp_path, cell):
    path = tmp_path / "crfpp"
    path.write_text(
        f"version: 100\nmaxid: 2\n\nA\nB\n\nU0:%x[0,0]\n\n0 U0:a\n\n{cell}\n0\n", encoding="utf-8"
    )
    return read_crfpp(path)


def wapiti_dump(tmp_path, cell):
    path = tmp_path / "wapiti"
    path.write_text(f"u:a\t#\tA\t{cell}\nu:a\t#\tB\t2\n", encoding="utf-8")
    return read_wapiti(path)


def factors(tmp_path, cell):
    path = tmp_path / "factors"
    path.write_text(f"age 2\nw=* {cell}\n", encoding="utf-8")
    return read_factor_file(path)


def text(format, content):
    return lambda _, cell: read(io.BytesIO(content.format(cell).encode()), format)


READERS = {
    "crfsuite": text("crfsuite", "A\tx:{}\n"),
    "crfsuite's weights": text("crfsuite", "@weight:{}\nA\tx\n"),
    "svmlight": text("svmlight", "A 1:{}\n"),
    "svmlight's ids": text("svmlight", "A {}:1\n"),
    "conllu's heads": text("conllu", "1\ta\t_\tX\t_\t_\t{}\t_\t_\t_\n"),
    "arff": arff,
    "letters": letters,
    "CRF++'s weights": crfpp,
    "a dump of Wapiti": wapiti_dump,
    "factors in a file": factors,
    "factors": lambda _, cell: read_factors(f"a={cell}"),
    "class weights": lambda _, cell: read_class_weight(f"a=1,b={cell}"),
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_take_no_numbers_of_pythons(tmp_path, reader):
    READERS[reader](tmp_path, "1")
    for cell in PYTHONS:
        with pytest.raises(CrfqnError):
            READERS[reader](tmp_path, cell)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("@weight:2\n\nA\tx\n", "line 1: '@weight:2' without an item"),
        ("A\tx\n\n@weight:2\n", "line 3: '@weight:2' without an item"),
        ("@weight:2\n@weight:3\nA\tx\n", "line 2: a second weight of one item"),
    ],
)
def test_weights_are_of_items(content, message):
    with pytest.raises(DataError, match=message):
        read(io.StringIO(content), "crfsuite")


@pytest.mark.parametrize("text", ["1_0", "\uff11", "\xa01", "nan", "inf"])
def test_parameters_on_the_command_line_are_no_numbers_of_pythons(text):
    assert parse_value(PARAMETERS["l1"], "1e1") == 10
    for name in ("l1", "max_iter", "max_seconds"):
        with pytest.raises(BadParameter, match="expected "):
            parse_value(PARAMETERS[name], text)


TOKENS = '{{"tokens": ["a", {}], "labels": ["X", "Y"]}}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a", "label": "A", "label": "B"}', "line 1: .*the key 'label' comes twice"),
        ('{"text": "a"}\n{"text": "a", "text": "b"}', "line 2: .*the key 'text' comes twice"),
        ('{"features": [{"w": 1, "w": 2}]}', "line 1: .*the key 'w' comes twice"),
        ('{"features": [{"w": NaN}]}', "line 1: .*NaN is no number of JSON"),
        ('[{"text": "a"},]', "line 1: expected an object after the comma, got ']'"),
        ('[{"text": "a"}\n,\n]', "line 3: expected an object after the comma, got ']'"),
        ('[{"text": "a"},,{"text": "b"}]', "line 1: expected a JSON object in the array"),
        ('\xa0[{"text": "a"}]', "line 1: expected a JSON object"),
        ('[{"text": "a"}\xa0]', "line 1: expected a comma or ]"),
        (TOKENS.format('"\\ud83d"'), r"line 1: .*half of a character, \\ud83d without .* after 18 characters"),
        ('{"text": "a"}\n{"text": "b\\udc80"}', r"line 2: .*half of a character, \\udc80"),
        ('[{"text": "a"},\n{"text": "b\\uD800\\u0041"}]', r"line 2: .*half of a character, \\uD800"),
        ('{"features": [{"\\\\\\udbff": 1}]}', r"line 1: .*half of a character, \\udbff"),
    ],
)  # fmt: skip
def test_json_is_strict(content, message):
    with pytest.raises(DataError, match=message):
        read(io.StringIO(content), "jsonl")


def test_characters_of_two_escapes_are_texts():
    whole = read(io.StringIO(TOKENS.format('"\\ud83d\\ude00 \\\\ud83d"')), "jsonl")
    assert whole.inputs.texts["w"] == ["a", "\U0001f600 \\ud83d"]


def test_bytes_that_are_no_text_come_back_where_they_may_be():
    line = TOKENS.format('"b\\udcff"').encode()
    assert read(io.BytesIO(line), "jsonl", encoding="bytes").inputs.texts["w"] == ["a", "b\udcff"]
    with pytest.raises(DataError, match=r"half of a character, \\ud801"):
        read(io.BytesIO(TOKENS.format('"\\ud801"').encode()), "jsonl", encoding="bytes")


def test_other_json_is_strict(tmp_path):
    for reason, content in {
        "the key 'a' comes twice": '{"a": ["b"], "a": ["c"]}',
        "half of a character": '{"a": ["\\ud800"]}',
    }.items():
        path = tmp_path / "taxonomy.json"
        path.write_text(content)
        with pytest.raises(DataError, match=reason):
            read_taxonomy_file(path)
        with pytest.raises(ModelFileError, match=f"not a JSON document: {reason}"):
            json_file.read(content.encode())
    with pytest.raises(InputError, match=r"expected JSON in UTF-8, .*the key 'item' comes twice"):
        LabelRequest.read(b'{"item": "a", "item": "b"}')
    with pytest.raises(InputError, match="expected JSON in UTF-8"):
        LabelRequest.read(b'{"item": "\xed\xa0\x80"}')  # half of a character in UTF-8's form


def test_json_of_bytes_may_have_a_mark():
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("field", ["feats", "misc"])
def test_a_key_of_conllu_comes_once(field):
    row = ["1", "a", "_", "X", "_", "A=1|B=2|A=3", "0", "root", "_", "A=1|B=2|A=3"]
    file = io.StringIO("\t".join(row) + "\n")
    with pytest.raises(DataError, match=f"line 1: A comes twice in {field}: 'A=1|B=2|A=3'"):
        read(file, "conllu", columns=[f"{field}:A"])
    file.seek(0)
    assert read(file, "conllu", columns=[f"{field}:B", field]).inputs[0] == [
        {f"{field}:B": "2", field: row[5]}
    ]


def test_names_come_once(tmp_path):
    path = tmp_path / "factors"
    path.write_text("a 1\nb 2\na 3\n")
    with pytest.raises(InputError, match="line 3: the name 'a' comes twice"):
        read_factor_file(path)
    with pytest.raises(InputError, match="class_weight: the label 'a' comes twice"):
        read_class_weight("a=1,b=2,a=3")
    path.write_text("@attribute x numeric\n@attribute x real\n@attribute c hierarchical a\n@data\n1,2,a\n")
    with pytest.raises(DataError, match="line 2: the attribute 'x' comes twice"):
        read_hierarchical_arff(path)


def test_numbers_of_arrays_are_as_they_are():
    assert np.array_equal(numbers_of("x", np.array([1, 2.5])), [1, 2.5])


def test_a_blank_that_is_a_token_needs_tabs():
    text = "a X\n  O\n  O\n\nb Y\n"
    with pytest.raises(
        DataError, match=r"line 2: expected 2 columns, as in line 1, got 1: '  O'; .* CRF\+\+ ends"
    ):
        read(io.StringIO(text), "conll")
    with pytest.raises(DataError, match=r"line 2: expected 2 columns, as in line 1, got 1: 'O'$"):
        read(io.StringIO(text.replace("  O", "O")), "conll")
    ended = "".join(
        "\n" if line[0] in " \t" else line for line in text.splitlines(keepends=True)
    )  # as by sed
    assert read(io.StringIO(ended), "conll").labels == [["X"], ["Y"]]
    tabs = read(io.StringIO("a\tX\n \tO\n \tO\n\nb\tY\n"), "conll")
    assert (tabs.inputs.texts["w"], tabs.labels) == (["a", " ", " ", "b"], [["X", "O", "O"], ["Y"]])
