"""Files of annotation tools on the command line: train, predict, evaluate and suggest, and what is wrong in them."""

from __future__ import annotations

import json

import pytest

import crfqn
from crfqn.readers import read, write
from crfqn.recipes.finding import recipe_of_options
from crfqn.recipes.shards import prepare_shards

NAMES = {"Ann Lee": "PER", "Bob": "PER", "Rome": "LOC", "New York": "LOC"}
TEXTS = [
    "\U0001f600 Ann Lee lives in Rome.",
    "Bob's caf\u0065\u0301 is in New York\r\nand Rome",
    "Rome sees Bob",
    "Ann Lee went to New York.",
    "nobody is here",
]


def record(text):
    spans = [
        [text.index(name), text.index(name) + len(name), kind] for name, kind in NAMES.items() if name in text
    ]
    return {"text": text, "label": sorted(spans)}


@pytest.fixture
def train(here, tmp_path):
    """A function that trains on the texts in a format and returns the path of the data."""

    def trained(name, *options):
        lines = "".join(json.dumps(record(text)) + "\n" for text in TEXTS)
        (tmp_path / "all.jsonl").write_text(lines, "utf-8")
        path = tmp_path / ("corpus" if name == "brat" else f"train-{name}.json")
        write(read(tmp_path / "all.jsonl"), path, name)
        options = "--l1", "0.01", "-q", "-o", "names.crfqn", *options
        done = here("train", "--data", path.name, *options)
        assert done.returncode == 0, done.stderr
        return path

    return trained


@pytest.mark.parametrize("name", ["doccano", "spacy", "label-studio", "brat"])
def test_train_evaluate_and_predict_in_the_same_form(here, tmp_path, train, name):
    path = train(name)
    assert crfqn.Model.open(tmp_path / "names.crfqn").vocabulary.tokenizer[:2] == ("penn", 1.0)
    scores = here("evaluate", "names.crfqn", path.name, "--json")
    assert json.loads(scores.stdout)["chunks"]["f1"] == 1.0, scores.stderr
    assert (
        here("evaluate", "names.crfqn").returncode == 0
        or "without a recipe" in here("evaluate", "names.crfqn").stderr
    )
    if name == "brat":
        done = here("predict", "names.crfqn", "corpus", "--to", "brat", "--output-dir", "out")
        assert done.returncode == 0, done.stderr
        files = sorted(file.name for file in path.iterdir())
        assert [(tmp_path / "out" / file).read_bytes() for file in files] == [
            (path / file).read_bytes() for file in files
        ]
        return
    out = here("predict", "names.crfqn", path.name, "--to", name).stdout
    if name == "label-studio":
        for old, new in zip(json.loads(path.read_text("utf-8")), json.loads(out), strict=True):
            (prediction,) = new.pop("predictions")
            assert new == old
            assert [one["value"] for one in prediction["result"]] == [
                one["value"] for one in old["annotations"][0]["result"]
            ]
            assert all(0.5 < one["score"] <= 1 for one in prediction["result"])
            assert 0 < prediction["score"] <= 1
    else:
        assert out == path.read_text("utf-8")


def test_texts_without_labels_become_predictions(here, tmp_path, train):
    train("doccano")
    (tmp_path / "new.txt").write_text("Bob sees Rome\nnobody\n", "utf-8")
    (tmp_path / "new.jsonl").write_text(
        '{"text": "Bob sees Rome", "id": 3}\n{"text": "nobody", "id": 4}\n', "utf-8"
    )
    expected = [
        {"text": "Bob sees Rome", "label": [[0, 3, "PER"], [9, 13, "LOC"]]},
        {"text": "nobody", "label": []},
    ]
    lines = here("predict", "names.crfqn", "new.txt", "--to", "doccano").stdout.splitlines()
    assert [*map(json.loads, lines)] == expected
    lines = here("predict", "names.crfqn", "new.jsonl", "--to", "doccano").stdout.splitlines()
    assert [*map(json.loads, lines)] == [one | {"id": n} for n, one in enumerate(expected, start=3)]
    piped = here(
        "predict", "names.crfqn", "--to", "doccano", input=(tmp_path / "new.jsonl").read_text("utf-8")
    )
    assert piped.stdout.splitlines() == lines, piped.stderr
    piped = here("predict", "names.crfqn", "--to", "doccano", input=piped.stdout)
    assert piped.stdout.splitlines() == lines, piped.stderr
    assert here("predict", "names.crfqn", "new.txt", "--to", "brat", "--output-dir", "out").returncode == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "000001.ann", "000001.txt", "000002.ann", "000002.txt",
    ]  # fmt: skip
    assert (tmp_path / "out" / "000001.ann").read_text("utf-8") == "T1\tPER 0 3\tBob\nT2\tLOC 9 13\tRome\n"
    labelled = json.loads(here("predict", "names.crfqn", "new.jsonl", "--json").stdout.splitlines()[0])
    assert [(one["label"], one["start_char"], one["end_char"]) for one in labelled["spans"]] == [
        ("PER", 0, 3),
        ("LOC", 9, 13),
    ]


def test_the_least_certain_texts_are_suggested_as_tasks(here, tmp_path, train):
    train("label-studio")
    (tmp_path / "new.txt").write_text("Bob sees Rome\nXy zz Rome qq ww\n", "utf-8")
    done = here("suggest", "names.crfqn", "new.txt", "-n", "1", "--to", "label-studio")
    (task,) = json.loads(done.stdout)
    first = here("suggest", "names.crfqn", "new.txt", "-n", "1").stdout.rstrip("\n")
    assert task["data"]["text"] == first
    assert 0 < task["predictions"][0]["score"] < 1
    write(read(tmp_path / "train-label-studio.json"), tmp_path / "all.json", "spacy")
    records = here("suggest", "names.crfqn", "all.json", "-n", "2").stdout.splitlines()
    assert next(json.loads(line) for line in records) in [
        {"text": one["text"], "entities": one["label"]} for one in map(record, TEXTS)
    ]
    assert here("suggest", "names.crfqn", "new.txt", "--to", "doccano", "--json").returncode == 2


def test_test_and_dev_files_are_cut_by_the_same_tokenizer(here, tmp_path, train):
    """The test texts alone have no clitic, so that they alone would be cut by another tokenizer."""
    (tmp_path / "test.jsonl").write_text(json.dumps(record("Ann Lee can't see Rome")) + "\n", "utf-8")
    train("doccano", "--test", "test.jsonl", "--dev", "test.jsonl", "--metric", "f1")
    done = here("predict", "names.crfqn", "test.jsonl", "--json")
    assert json.loads(done.stdout)["tokens"] == ["Ann", "Lee", "ca", "n't", "see", "Rome"]
    done = here("evaluate", "names.crfqn", "test.jsonl", "--json")
    assert json.loads(done.stdout)["n_positions"] == 6
    done = here(
        "train", "--data", "train-doccano.json", "--templates", "w[0] w[-1]", "-q", "-o", "windows.crfqn"
    )
    assert (
        done.returncode == 2 or "Bob's" in done.stderr
    )  # windows keep no tokenizer, and "unicode" cuts no clitics
    options = "--tokenizer", "penn", "--templates", "w[0] w[-1]", "-q", "-o", "windows.crfqn"
    assert here("train", "--data", "train-doccano.json", *options).returncode == 0
    done = here("predict", "windows.crfqn", "test.jsonl", "--json")
    assert json.loads(done.stdout)["tokens"] == ["Ann", "Lee", "ca", "n't", "see", "Rome"]


def test_several_files_are_cut_by_one_tokenizer(here, tmp_path, train, monkeypatch):
    train("doccano")
    (tmp_path / "more.jsonl").write_text(json.dumps(record("Ann Lee can't see Rome")) + "\n", "utf-8")
    options = "--l1", "0.01", "-q", "-o", "names.crfqn"
    assert here("train", "--data", "train-doccano.json", "--data", "more.jsonl", *options).returncode == 0
    tokens = json.loads(here("predict", "names.crfqn", "more.jsonl", "--json").stdout)["tokens"]
    assert tokens == ["Ann", "Lee", "ca", "n't", "see", "Rome"]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(crfqn.errors.InputError, match=r"one tokenizer for all files \(--tokenizer NAME\)"):
        prepare_shards(recipe_of_options("more.jsonl"))
    assert prepare_shards(recipe_of_options("more.jsonl", tokenizer="penn")).is_sharded


def test_what_is_wrong_is_said(here, tmp_path, train):
    path = train("doccano")
    text = '{"text": "An US-based Bob", "label": [[3, 5, "LOC"], [12, 15, "PER"]]}\n'
    (tmp_path / "odd.jsonl").write_text(text, "utf-8")
    wrong = "odd.jsonl, line 1: the span 3-5 LOC 'US' does not begin and end with tokens"
    for command in (
        ("train", "--data", "odd.jsonl", "-o", "odd.crfqn"),
        ("evaluate", "names.crfqn", "odd.jsonl"),
    ):
        done = here(*command)
        assert done.returncode != 0
        assert wrong in done.stderr
        assert here(*command, "--on-misaligned", "skip").returncode != 0
        done = here(*command, "--on-misaligned", "drop")
        assert done.returncode == 0
        assert "misaligned spans left out: 1" in done.stderr
    assert here("predict", "names.crfqn", "odd.jsonl").returncode == 0  # labels of the input are not read
    done = here("train", "--data", "odd.jsonl", "--tokenizer", "words")
    assert done.returncode == 2
    assert "unicode" in done.stderr
    done = here("predict", "names.crfqn", path.name, "--to", "brat")
    assert done.returncode == 2
    assert "--output-dir DIR" in done.stderr
    write(read(path), tmp_path / "corpus", "brat")
    before = {file.name: file.read_bytes() for file in (tmp_path / "corpus").iterdir()}
    done = here("predict", "names.crfqn", "corpus", "--to", "brat", "--output-dir", "corpus")
    assert done.returncode == 2
    assert "would be lost" in done.stderr
    assert {file.name: file.read_bytes() for file in (tmp_path / "corpus").iterdir()} == before
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.txt").write_text("Bob", "utf-8")
    done = here("predict", "names.crfqn", "plain")
    assert done.returncode == 2
    assert "a folder; expected a file" in done.stderr
    assert here("predict", "names.crfqn", "plain", "--format", "brat").stdout == "B-PER\n\n"
    done = here("train", "--data", "train-doccano.json", "--features", "text", "--structure", "flat")
    assert done.returncode == 2
