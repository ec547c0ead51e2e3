"""`crfqn suggest`: the items that a model is least sure of, as they stand in the input."""

from __future__ import annotations

import json

import numpy as np
import pytest

import crfqn

CONLL = "Ann\tP\nsees\tO\nNew\tL\nYork\tL\n\nBob\tP\nruns\tO\n\nthe\tO\ndog\tO\nsees\tO\nAnn\tP\n\n"
NEW = ["the dog", "Xy sees zz qq", "Ann sees", "Xy sees zz qq qq", "York runs"]
TEXTS = "label,text\nsport,the ball and the goal\nfood,bread and soup\nsport,a goal\nfood,soup and bread and salt\n"


@pytest.fixture
def names(here, tmp_path):
    (tmp_path / "names.conll").write_text(CONLL, encoding="utf-8")
    options = "--columns", "w", "-o", "names.crfqn", "-q"
    assert here("train", "--data", "names.conll", *options).returncode == 0
    (tmp_path / "raw.txt").write_text("".join(f"{line}\n" for line in NEW), encoding="utf-8")
    columns = "".join("\n".join(line.split()) + "\n\n" for line in NEW)
    (tmp_path / "new.conll").write_text(columns, encoding="utf-8")
    return crfqn.Model.open(tmp_path / "names.crfqn")


@pytest.mark.parametrize("measure", ["confidence", "margin", "entropy"])
def test_sequences_in_the_order_of_uncertainty(here, names, tmp_path, measure):
    values = names.uncertainty([[{"w": word} for word in line.split()] for line in NEW], measure)
    order = np.argsort(-values, kind="stable").tolist()
    options = "-n", "3", "--measure", measure
    raw = here("suggest", "names.crfqn", "raw.txt", *options)
    assert raw.stdout.splitlines() == [NEW[i] for i in order[:3]]
    assert here("suggest", "names.crfqn", "new.conll", *options, "-o", "least.conll").returncode == 0
    text = (tmp_path / "least.conll").read_text(encoding="utf-8")
    assert text == "".join("\n".join(NEW[i].split()) + "\n\n" for i in order[:3])
    answers = [
        *map(json.loads, here("suggest", "names.crfqn", "raw.txt", "--json", *options).stdout.splitlines())
    ]
    assert [(one["item"], one["text"]) for one in answers] == [(i, NEW[i]) for i in order[:3]]
    assert [one["uncertainty"] for one in answers] == pytest.approx(values[order[:3]].tolist(), abs=1e-6)
    assert len(here("suggest", "names.crfqn", "raw.txt").stdout.splitlines()) == len(NEW)


def test_similar_items_are_left_out(here, names, tmp_path):
    (tmp_path / "twice.txt").write_text("Ann sees\n" * 3 + "the dog\n", encoding="utf-8")
    done = here("suggest", "names.crfqn", "twice.txt", "--diverse", "-n", "3")
    assert sorted(done.stdout.splitlines()) == ["Ann sees", "the dog"]
    assert len(here("suggest", "names.crfqn", "twice.txt", "-n", "3").stdout.splitlines()) == 3


@pytest.mark.parametrize("is_diverse", [False, True])
def test_rows_of_a_table_and_texts(here, tmp_path, is_diverse):
    (tmp_path / "texts.csv").write_text(TEXTS, encoding="utf-8")
    options = "--structure", "flat", "--l1", "0.01", "-o", "texts.crfqn", "-q"
    assert here("train", "--data", "texts.csv", *options).returncode == 0
    rows = ["the goal", '"bread, a ball\nand goal"', "soup"]
    (tmp_path / "new.csv").write_text("text\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    done = here("suggest", "texts.crfqn", "new.csv", "-n", "1", *["--diverse"] * is_diverse)
    assert done.stdout == f"text\n{rows[1]}\n"
    answers = here(
        "suggest", "texts.crfqn", "new.csv", "--json", *["--diverse"] * is_diverse
    ).stdout.splitlines()
    values = [json.loads(line)["uncertainty"] for line in answers]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)


def test_items_that_are_not_read_by_lines(here, names, tmp_path):
    items = [{"tokens": line.split()} for line in NEW]
    (tmp_path / "new.json").write_text(json.dumps(items), encoding="utf-8")
    done = here("suggest", "names.crfqn", "new.json", "--format", "jsonl", "-n", "2")
    lines = here("suggest", "names.crfqn", "raw.txt", "-n", "2").stdout.splitlines()
    assert [json.loads(line)["tokens"] for line in done.stdout.splitlines()] == [
        line.split() for line in lines
    ]


def test_comments_go_with_their_item(here, tmp_path):
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    text = "".join(
        f"# sent_id = {i}\n" + "".join(row.format(t + 1, w, k) for t, (w, k) in enumerate(item)) + "\n"
        for i, item in enumerate([[("Ann", "N"), ("runs", "V")], [("runs", "V")], [("Ann", "N")]])
    )
    (tmp_path / "a.conllu").write_text(text, encoding="utf-8")
    assert here("train", "--data", "a.conllu", "-o", "a.crfqn", "-q").returncode == 0
    done = here("suggest", "a.crfqn", "a.conllu")
    assert sorted(done.stdout.split("\n\n")) == sorted(text.split("\n\n"))
    assert done.stdout.startswith("# sent_id")


def test_wrong_input(here, names, tmp_path):
    (tmp_path / "y.svmlight").write_text("1 1:1\n2 2:1\n", encoding="utf-8")
    options = "--structure", "flat", "--loss", "squared-hinge", "-o", "hinge.crfqn", "-q"
    assert here("train", "--data", "y.svmlight", *options).returncode == 0
    for arguments, message in [
        (("names.crfqn", "none.txt"), "there is no such file"), (("names.crfqn", "raw.txt", "-n", "0"), "-n"),
        (("names.crfqn", "raw.txt", "--measure", "luck"), "measure: expected one of confidence, margin, entropy"),
        (("hinge.crfqn", "y.svmlight"), "items are chosen by probabilities, and this model has none"),
    ]:  # fmt: skip
        done = here("suggest", *arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
