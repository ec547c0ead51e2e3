"""`crfqn explain`: a table, or JSON, of what decided."""

from __future__ import annotations

import json

import pytest

from crfqn import Tagger

CONLL = "Ann\tP\nsees\tO\nNew\tL\nYork\tL\n\nBob\tP\nruns\tO\n\nthe\tO\ndog\tO\nsees\tO\nAnn\tP\n\n"
TEXTS = "label,text\nsport,the ball and the goal\nfood,bread and soup\nsport,a goal\nfood,soup and bread and salt\n"


@pytest.fixture
def names(here, tmp_path):
    (tmp_path / "names.conll").write_text(CONLL, encoding="utf-8")
    assert here("train", "--data", "names.conll", "-o", "names.crfqn", "-q").returncode == 0
    return tmp_path / "names.crfqn"


def test_a_text_and_a_file_of_sequences(here, names):
    table = here("explain", "names.crfqn", "Ann sees York", "--top", "2")
    assert table.returncode == 0
    head, *rows = table.stdout.splitlines()
    assert head.split() == ["label", "runner-up", "difference", "because", "of"]
    assert [row.split()[:2] for row in rows] == [["Ann", "P"], ["sees", "O"], ["York", "L"]]
    assert all(row.count(", ") == 2 for row in rows)  # two reasons and the others
    items = json.loads(here("explain", "names.crfqn", "-i", "names.conll", "--json", "--top", "1000").stdout)
    assert [item["tokens"] for item in items] == [
        ["Ann", "sees", "New", "York"],
        ["Bob", "runs"],
        ["the", "dog", "sees", "Ann"],
    ]
    for item in items:
        expected = Tagger(names).explain(item["tokens"], n=None)
        assert [one["label"] for one in item["explanation"]] == [one.label for one in expected]
        for one, other in zip(item["explanation"], expected, strict=True):
            assert one["difference"] == pytest.approx(other.difference)
            assert sum(term["value"] for term in one["terms"]) + one["rest"] == pytest.approx(
                other.difference
            )


def test_documents(here, tmp_path):
    (tmp_path / "texts.csv").write_text(TEXTS, encoding="utf-8")
    options = "--structure", "flat", "--l1", "0.01", "-o", "texts.crfqn", "-q"
    assert here("train", "--data", "texts.csv", *options).returncode == 0
    table = here("explain", "texts.crfqn", "soup and a goal")
    assert table.returncode == 0
    assert len(table.stdout.splitlines()) == 2
    assert "goal" in table.stdout
    both = here("explain", "texts.crfqn", "--input", "texts.csv", "--json")
    assert [item["explanation"]["label"] for item in json.loads(both.stdout)] == [
        "sport",
        "food",
        "sport",
        "food",
    ]


def test_labels_that_are_numbers(here, tmp_path):
    (tmp_path / "texts.csv").write_text(TEXTS.replace("sport", "1").replace("food", "2"), encoding="utf-8")
    options = "--structure", "flat", "--l1", "0.01", "-o", "texts.crfqn", "-q"
    assert here("train", "--data", "texts.csv", *options).returncode == 0
    (item,) = json.loads(here("explain", "texts.crfqn", "soup and a goal", "--json").stdout)
    assert {item["explanation"]["label"], item["explanation"]["runner_up"]} == {1, 2}


def test_wrong_input(here, names, tmp_path):
    for arguments, message in [
        ((), "expected either a text or --input FILE"), (("Ann", "-i", "names.conll"), "expected either a text"),
        (("-i", "none.conll"), "there is no such file"), (("Ann", "--top", "0"), "--top"),
    ]:  # fmt: skip
        done = here("explain", "names.crfqn", *arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
