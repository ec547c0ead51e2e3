"""Readers of words with labels: treebanks, tables with a head; what is wrong is named with its place."""

from __future__ import annotations

import gzip

import pytest

from crfqn.datasets import dataset
from crfqn.errors import DataError, DataUnavailableError
from crfqn.readers.conll import read_conll
from crfqn.readers.datasets import read_files

COLUMNS = "\t_" * 5
TREEBANK = f"""# text = Van het huis.
1-2\tVanhet\t_\t_\t_{COLUMNS}
1\tVan\tvan\tADP\tVZ|init{COLUMNS}
2\thet\thet\tDET\tLID|bep{COLUMNS}
2.1\tniets\t_\t_\t_{COLUMNS}

# text = Ja
1\tJa\tja\tINTJ\tTSW{COLUMNS}
"""
TABLE = 'id,text,category\n1,"where, please, is\nmy card?",card_arrival\n\n2,why,reason\n'


@pytest.fixture
def path(tmp_path):
    def write(text: str) -> str:
        target = tmp_path / "data"
        target.write_bytes(gzip.compress(text.encode()))
        return str(target)

    return write


def test_treebank(path):
    words = {"columns": {"w": "form"}}
    upos, xpos = (read_files("conllu", [path(TREEBANK)], label=tag, **words) for tag in ("upos", "xpos"))
    assert [[word["w"] for word in item] for item in upos.inputs] == [["Van", "het"], ["Ja"]]
    assert (upos.labels, xpos.labels) == ([["ADP", "DET"], ["INTJ"]], [["VZ|init", "LID|bep"], ["TSW"]])
    with pytest.raises(DataError, match=r"line 3: expected 10 columns of CoNLL-U, separated by tabs, got 9"):
        read_files("conllu", [path(TREEBANK.replace("\t_\n2\t", "\n2\t", 1))])
    with pytest.raises(DataError, match="no items; expected sentences in CoNLL-U"):
        read_files("conllu", [path("# nothing\n")])


def test_table(path):
    data = read_files("csv", [path(TABLE)], text="text", label="category")
    assert data.inputs == ["where, please, is\nmy card?", "why"]
    assert data.labels == ["card_arrival", "reason"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TABLE.replace("category", "kind"),
            r"expected a column 'category' \(label=\); there are: id, text, kind",
        ),
        (
            TABLE.replace("2,why", "why"),
            r"line 5: expected 3 cells \(id, text, category\), got 2: 'why,reason'",
        ),
        (TABLE + '3,"open', "line 6: malformed table: unexpected end of data"),
        ("text,category\n", "no rows below the names of the columns"),
    ],
)
def test_what_is_no_table(path, text, message):
    with pytest.raises(DataError, match=message):
        read_files("csv", [path(text)], text="text", label="category")


def test_columns_between_tabs_may_have_blanks(path):
    text = "ke s\tO\nAda\tB-PER\n"
    assert read_conll(path(text), ["w"], separator="\t").inputs == [[{"w": "ke s"}, {"w": "Ada"}]]
    for columns in (["w"], None):
        assert read_conll(path(text), columns).inputs == [[{"w": "ke s"}, {"w": "Ada"}]]
    with pytest.raises(DataError, match="line 1: expected 1 columns"):  # where tabs do not part all lines
        read_conll(path(text + "Ada B-PER\n"), ["w"])


@pytest.mark.parametrize(
    "name",
    ["banking77", "btc", "dutch-upos", "dutch-xpos", "probablepeople-company", "probablepeople-person"],
)
def test_real_data_are_what_they_should_be(name):
    entry = dataset(name)
    try:
        data = entry.load()
    except DataUnavailableError as error:
        pytest.skip(str(error))
    assert entry.verify().is_passed
    assert data.digest() == entry.content.sha256
