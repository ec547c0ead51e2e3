"""Labels that are numbers, in files: one label however it is written, and what is predicted is read back as it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from crfqn import load

N = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3)).round(3)
SIGN = np.where(X[:, 0] > 0, 1, -1)
TRAIN = ("train", "--structure", "flat", "--threads", 1, "-q")


def svmlight(path, labels):
    lines = [
        f"{label} " + " ".join(f"{i + 1}:{value}" for i, value in enumerate(row))
        for label, row in zip(labels, X, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def table(path, labels):
    rows = [f"{row[0]},{row[1]},{label}" for label, row in zip(labels, X, strict=True)]
    path.write_text("\n".join(["a,b,label", *rows]) + "\n")


def records(path, labels):
    texts = ["high" if row[0] > 0 else "low" for row in X]
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def spelled(high, low):
    return [high if sign > 0 else low for sign in SIGN]


@pytest.fixture
def accuracy(here):
    def accuracy(model, name):
        done = here("evaluate", model, name, "--json", code=0)
        return json.loads(done.stdout)["accuracy"]

    return accuracy


@pytest.fixture
def train(here):
    def train(name, *options):
        here(*TRAIN, "--data", name, "-o", "m.crfqn", *options, code=0)

    return train


def test_labels_of_svmlight_are_numbers(here, tmp_path, train, accuracy):
    svmlight(tmp_path / "train.svm", spelled("+1", "-1"))
    dump_svmlight_file(X, SIGN, str(tmp_path / "dumped.svm"), zero_based=False)
    svmlight(tmp_path / "floats.svm", spelled("1.0", "-1e0"))
    svmlight(tmp_path / "queries.svm", spelled("1 qid:1", "-1 qid:2"))
    train("train.svm", "--test", "floats.svm", "--dev", "dumped.svm")
    model = load(tmp_path / "m.crfqn")
    assert model.classes_.tolist() == [-1, 1]
    assert model.classes_.dtype.kind == "i"
    expected = accuracy("m.crfqn", "train.svm")
    assert expected > 0.9
    for name in ("dumped.svm", "floats.svm", "queries.svm"):
        assert accuracy("m.crfqn", name) == expected
    lines = here("predict", "m.crfqn", "floats.svm").stdout.split()
    assert set(lines) == {"1", "-1"}
    done = here("predict", "m.crfqn", "floats.svm", "--to", "svmlight")
    (tmp_path / "predicted.svm").write_text(done.stdout)
    assert accuracy("m.crfqn", "predicted.svm") == 1.0
    spellings = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"1.0", "-1e0"} <= spellings  # a label that stays is left as it is written


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_labels_of_tables_are_numbers(here, tmp_path, train, accuracy, ending):
    def write(name, labels):
        table(tmp_path / "t.csv", labels)
        frame = pd.read_csv(tmp_path / "t.csv")
        path = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep={"csv": ",", "tsv": "\t"}[ending])

    write("train", spelled("1", "0"))
    write("test", spelled("1.0", "0.0"))
    train(f"train.{ending}")
    assert load(tmp_path / "m.crfqn").classes_.tolist() == [0, 1]
    assert accuracy("m.crfqn", f"test.{ending}") == accuracy("m.crfqn", f"train.{ending}") > 0.9
    assert set(here("predict", "m.crfqn", f"test.{ending}").stdout.split()) == {"0", "1"}
    if ending != "parquet":
        done = here("predict", "m.crfqn", f"test.{ending}", "--to", ending)
        (tmp_path / f"predicted.{ending}").write_text(done.stdout)
        assert accuracy("m.crfqn", f"predicted.{ending}") == 1.0


def test_labels_that_a_number_would_change_stay_texts(here, tmp_path, train, accuracy):
    for high, low in (("01067", "10115"), ("3.1", "3.10"), ("a1", "1")):
        table(tmp_path / "train.csv", spelled(high, low))
        train("train.csv")
        assert load(tmp_path / "m.crfqn").classes_.tolist() == sorted([high, low])
        assert set(here("predict", "m.crfqn", "train.csv").stdout.split()) == {high, low}
    table(tmp_path / "train.csv", spelled("01067", "10115"))
    table(tmp_path / "test.csv", spelled("10115", "10115"))  # numbers by themselves
    train("train.csv", "--dev", "test.csv")
    assert 0.0 < accuracy("m.crfqn", "test.csv") < 1.0


def test_numbers_that_are_not_whole(tmp_path, train, accuracy):
    table(tmp_path / "train.csv", spelled("0.5", "1.0"))
    table(tmp_path / "test.csv", spelled(".5", "1"))
    train("train.csv")
    assert load(tmp_path / "m.crfqn").classes_.tolist() == ["0.5", "1"]
    assert accuracy("m.crfqn", "test.csv") == accuracy("m.crfqn", "train.csv") > 0.9


def test_labels_of_json_lines(here, tmp_path, train, accuracy):
    for high, low, classes in ((1, -1, [-1, 1]), ("1", "-1", ["-1", "1"]), (True, False, ["false", "true"])):
        records(tmp_path / "train.jsonl", spelled(high, low))
        train("train.jsonl", "--features", "text")
        assert load(tmp_path / "m.crfqn").classes_.tolist() == classes
        done = here("predict", "m.crfqn", "train.jsonl", "--to", "jsonl")
        written = [json.loads(line)["label"] for line in done.stdout.splitlines()]
        assert written == spelled(high, low)
        assert {*map(type, written)} == {type(high)}
        assert accuracy("m.crfqn", "train.jsonl") == 1.0
    records(tmp_path / "train.jsonl", spelled(1, 0))
    records(tmp_path / "test.jsonl", spelled(1.0, 0.0))
    train("train.jsonl", "--features", "text")
    assert accuracy("m.crfqn", "test.jsonl") == 1.0


def test_label_sets_of_numbers(here, tmp_path, accuracy):
    svmlight(tmp_path / "train.svm", spelled("1,3", "2"))
    svmlight(tmp_path / "test.svm", spelled("3.0,1", "+2"))
    here("train", "--structure", "ranking", "-q", "--data", "train.svm", "-o", "m.crfqn", code=0)
    assert load(tmp_path / "m.crfqn").classes_.tolist() == [1, 2, 3]
    assert accuracy("m.crfqn", "test.svm") == accuracy("m.crfqn", "train.svm") > 0.8
    assert set(here("predict", "m.crfqn", "test.svm").stdout.split()) >= {"1,3", "2"}


def test_sequences_in_a_table(here, tmp_path, accuracy):
    rows = "".join(f"{i // 2},{'up' if i % 3 else 'down'},{{{int(i % 3 == 0)}}}\n" for i in range(60))
    (tmp_path / "train.csv").write_text("sentence,w,label\n" + rows.format("1", "0"))
    (tmp_path / "test.csv").write_text("sentence,w,label\n" + rows.format("+1", "0.0"))
    here(
        *("train", "--structure", "chain", "--l1", "0.1", "-q", "--data", "train.csv", "-o", "m.crfqn"),
        *("--test", "test.csv"),
        code=0,
    )
    assert load(tmp_path / "m.crfqn").classes_.tolist() == [0, 1]
    assert accuracy("m.crfqn", "test.csv") == 1.0
    assert set(here("predict", "m.crfqn", "test.csv").stdout.split()) == {"0", "1"}


def test_a_file_none_of_whose_labels_the_model_has(here, tmp_path, train):
    svmlight(tmp_path / "train.svm", spelled("1", "-1"))
    svmlight(tmp_path / "other.svm", spelled("2", "3"))
    train("train.svm")
    done = here(
        "evaluate",
        "m.crfqn",
        "other.svm",
        error="other.svm: none of the labels to score by is known to the model: they are '",
    )
    assert "the model has '-1', '1'" in done.stderr
    svmlight(tmp_path / "some.svm", spelled("1", "3"))
    assert here("evaluate", "m.crfqn", "some.svm").returncode == 0


def test_a_model_of_texts_from_before(here, tmp_path, accuracy, train):
    """A model whose labels are texts of numbers, as they were kept once, knows those of a file of numbers."""
    svmlight(tmp_path / "train.svm", spelled("+1", "-1"))
    train("train.svm")
    model = load(tmp_path / "m.crfqn")
    labels = type(model.model_.labels).flat(np.array(["-1", "+1"]))
    model.model_ = replace(model.model_, labels=labels, classes_=labels.classes)
    model.save(tmp_path / "old.crfqn")
    assert accuracy("old.crfqn", "train.svm") == accuracy("m.crfqn", "train.svm") > 0.9
    assert set(here("predict", "old.crfqn", "train.svm").stdout.split()) == {"+1", "-1"}
