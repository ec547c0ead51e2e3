"""A format that is added as a row is known by every command, and rows say the same by all of their traits."""

import json
from dataclasses import replace

import pytest

import crfqn
from crfqn.data_options import FEATURES_OF
from crfqn.readers import FORMATS
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.format import DOCUMENTS, ROWS, SEQUENCES
from crfqn.readers.tables import text_table
from crfqn.recipes.sources import OF_FEATURES, column_options, format_of_columns

TRAIN = ("train", "--threads", 1, "--l1", 0.01, "-q", "-o", "m.crfqn", "--data")


@pytest.fixture
def add():
    """Return the function that adds a row before all others, as long as a test runs."""

    def added(row):
        others = dict(FORMATS)
        FORMATS.clear()
        FORMATS.update({row.name: row} | others)

    before = dict(FORMATS)
    yield added
    FORMATS.clear()
    FORMATS.update(before)


def test_a_table_of_another_delimiter(tmp_path, run, add):
    add(text_table("bars", "cells between bars", "|"))
    train = "size|kind|label\n" + "1|a|A\n2|b|B\n" * 6
    (tmp_path / "t.bars").write_text(train)
    (tmp_path / "t.csv").write_text(train.replace("|", ","))
    (tmp_path / "new").write_text("size|kind\n2|b\n1|a\n2|b\n")
    (tmp_path / "texts.bars").write_text("label|text\n" + "A|red dog\nB|blue cat\n" * 6)
    expected = []
    for name in ("t.csv", "t.bars"):
        run(*TRAIN, name, "--structure", "flat", code=0)
        expected.append(run("predict", "m.crfqn", "t.csv", code=0).stdout)
    assert expected[0] == expected[1] == "A\nB\n" * 6
    assert run("predict", "m.crfqn", "new", code=0).stdout == "B\nA\nB\n"
    run("evaluate", "m.crfqn", "new", error="its columns are size, kind; --label names the one of the labels")
    run(*TRAIN, "t.bars", "--structure", "flat", "--label", "nothing", error="there are: size, kind, label")
    run(*TRAIN, "texts.bars", "--structure", "flat", code=0)
    assert crfqn.load(tmp_path / "m.crfqn").training_["recipe"]["features"]["kind"] == "text"


def test_another_format_of_attributes(tmp_path, run, add):
    def read(path):
        data = read_crfsuite_text(path)
        return replace(data, labels=[[label.removeprefix("=") for label in labels] for labels in data.labels])

    begins = lambda lines: lines[0].startswith("=")  # noqa: E731
    add(replace(FORMATS["crfsuite"], name="own", extensions=(".own",), read=read, begins=begins))
    (tmp_path / "t.own").write_text("=A\ta\n\n=B\tb\n\n" * 4)
    (tmp_path / "new").write_text("=B\tb\n\n=A\ta\n\n")
    run(*TRAIN, "t.own", code=0)
    crfqn.ChainCRF(l1=0.01).fit([[{"a": 1}], [{"b": 1}]] * 4, [["A"], ["B"]] * 4).save(
        tmp_path / "python.crfqn"
    )
    for model in ("m.crfqn", "python.crfqn"):  # of a recipe, and without one
        assert run("predict", model, "new", code=0).stdout == "B\n\nA\n\n"
        assert json.loads(run("evaluate", model, "new", "--json", code=0).stdout)["accuracy"] == 1.0


def test_columns_of_a_format_have_the_names_of_the_model():
    assert column_options("crfpp", ["form", "tag"]) == {"columns": ["form", "tag"]}
    assert column_options("conllu", None) == {"columns": ("form",)}
    assert column_options("csv", None) == column_options("conll2003", ["w"]) == {}
    for of_training in ("crfpp", "conll2003"):  # which no first lines tell
        assert format_of_columns(["a b c"], ["w", "pos"], {"c"}, of_training) == of_training
    assert format_of_columns(["a b c"], ["w", "pos"], {"c"}, "jsonl") == "conll"


@pytest.mark.parametrize("name", FORMATS)
def test_traits_agree(name):
    row = FORMATS[name]
    features = {*row.features}
    assert features <= {kind for kinds in FEATURES_OF.values() for kind in kinds}
    assert (SEQUENCES in row.holds) == bool(features & {*FEATURES_OF["chain"]})
    assert (DOCUMENTS in row.holds) == bool(features & {*FEATURES_OF["flat"]})
    assert (
        (ROWS in row.holds) == ("table" in features) == (row.titles is not None) == ("rows" in row.options())
    )
    assert row.titles is not None or not row.delimiter
    assert not row.is_uncut or "tokenizer" in row.options()
    assert not row.columns or "columns" in row.options()
    assert "text" not in row.options() or "text" in features


def test_every_kind_of_features_has_a_usual_format_that_holds_it():
    assert OF_FEATURES.keys() == {kind for kinds in FEATURES_OF.values() for kind in kinds}
    assert [kind for kind, name in OF_FEATURES.items() if kind not in FORMATS[name].features] == []
