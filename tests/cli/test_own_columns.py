"""Training on files of several columns without a recipe, and new files for such models, by every way they can come."""

from __future__ import annotations

import json

import pytest

ROWS = [
    [("the", "D", "O"), ("Rome", "P", "B"), ("falls", "V", "O")],
    [("Oslo", "P", "B"), ("sees", "V", "O"), ("a", "D", "O"), ("dog", "N", "O")],
    [("Lima", "P", "B"), ("calls", "V", "O"), ("the", "D", "O"), ("cat", "N", "O")],
    [("a", "D", "O"), ("Cairo", "P", "B"), ("sees", "V", "O")],
]
NEW = [("Kyiv", "P"), ("falls", "V")]  # a word that only the tag tells


def conll(rows):
    return "\n".join("".join(" ".join(row) + "\n" for row in item) for item in rows)


def table(rows, header):
    lines = [f"{i},{','.join(row)}\n" for i, item in enumerate(rows) for row in item]
    return f"sentence,{header}\n" + "".join(lines)


def json_lines(rows):
    items = [
        dict(zip(("tokens", "tag", "labels"), map(list, zip(*item, strict=True)), strict=False))
        for item in rows
    ]
    return "".join(json.dumps(item) + "\n" for item in items)


TRAIN = ("--l1", 0.01, "--threads", 1, "-q", "-o", "m.crfqn", "--data")


@pytest.mark.parametrize(
    ("name", "content", "new", "more"),
    [
        ("train.conll", conll(ROWS), conll([NEW]), ()),
        ("train.csv", table(ROWS, "word,tag,label"), table([NEW], "word,tag"), ("--hashed", 4096)),
        ("train.jsonl", json_lines(ROWS), json_lines([NEW]), ("--min-count", 2)),
    ],
    ids=["conll", "csv, hashed", "jsonl, frequent"],
)
def test_other_columns_count_and_standard_input_has_the_format_of_training(
    run, tmp_path, name, content, new, more
):
    (tmp_path / name).write_text(content)
    done = run("train", *TRAIN, name, "--structure", "chain", *more, code=0)
    done = run("predict", "m.crfqn", input=new)
    assert (done.returncode, done.stdout) == (0, "B\nO\n\n"), done.stderr
    assert run("evaluate", "m.crfqn", name, "--json").returncode == 0


def test_a_new_file_has_the_format_that_its_name_tells(run, tmp_path):
    (tmp_path / "train.txt").write_text(conll(ROWS))
    assert run("train", *TRAIN, "train.txt", "--format", "conll", "--columns", "word tag").returncode == 0
    (tmp_path / "new.csv").write_text(table([NEW], "word,tag"))
    (tmp_path / "new.txt").write_text(conll([NEW]))
    for arguments in (("new.csv",), ("new.txt",), ("new.csv", "--format", "csv")):
        assert run("predict", "m.crfqn", *arguments).stdout == "B\nO\n\n"
    done = run("predict", "m.crfqn", "new.csv", "--format", "conll")
    assert "line 1: expected 2 columns (word, tag) and perhaps a label" in done.stderr


def test_each_file_has_the_separator_and_the_format_that_it_tells(run, tmp_path):
    items = [[(word, label) for word, _, label in item] for item in ROWS]
    (tmp_path / "blanks.conll").write_text(conll(items))
    (tmp_path / "tabs.conll").write_text(conll(items).replace(" ", "\t"))
    (tmp_path / "table.csv").write_text(table(items, "w,label"))
    for test in ("table.csv", "blanks.conll"):
        done = run("train", *TRAIN, "tabs.conll", "--test", test, "--dev", test, code=0)
    for text, words in (
        ("Paris LOC\nran O\n", ["Paris", "ran"]),  # a label that the model has not
        ("Paris LOC\nran O\n-DOCSTART- -X- O O\n\nwas LOC\n", ["Paris", "ran"]),
        ("New York\nis\n", ["New York", "is"]),
        ("New York\tB\nLos Angeles\tB\n", ["New York", "Los Angeles"]),
    ):
        (tmp_path / "new.conll").write_text(text)
        done = run("predict", "m.crfqn", "new.conll", "--to", "jsonl")
        assert json.loads(done.stdout.split("\n")[0])["tokens"] == words, done.stderr
        assert ("the token 'New York' contains a blank" in done.stderr) == ("New York" in words)
    for text, message in (
        ("Paris B\nran O\nthere\n", "line 3: 1 of 3 positions have no label"),
        (conll(ROWS), "line 1: expected 1 columns (w) and perhaps a label, got 3"),
    ):
        (tmp_path / "new.conll").write_text(text)
        assert message in run("predict", "m.crfqn", "new.conll").stderr
    done = run("train", *TRAIN, "tabs.conll", "--test", "new.conll")
    assert "new.conll: expected the columns w, got w, pos" in done.stderr


def test_columns_by_their_names(run, tmp_path):
    (tmp_path / "train.csv").write_text(table(ROWS, "word,tag,ner").replace("sentence", "part"))
    run("train", *TRAIN, "train.csv", "--structure", "chain", "--label", "ner", "--sentence", "part", code=0)
    assert run("predict", "m.crfqn", input="word,tag\nKyiv,P\nfalls,V\n").stdout == "B\nO\n\n"


def test_standard_input_has_as_many_columns_as_its_first_line(run):
    assert run("train", *TRAIN, "-", "--format", "conll", input=conll(ROWS)).returncode == 0
    assert run("predict", "m.crfqn", input=conll([NEW])).stdout == "B\nO\n\n"
    assert "expected 2 columns (w, pos)" in run("predict", "m.crfqn", input="Kyiv\n").stderr


def test_a_tag_of_conllu_is_no_feature_unless_asked_for(run, tmp_path):
    words = "".join(
        "".join(f"{t}\t{w}\t_\t{tag}\tX{tag}\t_\t_\t_\t_\t_\n" for t, (w, tag, _) in enumerate(item, 1))
        + "\n"
        for item in ROWS
    )
    (tmp_path / "train.conllu").write_text(words)
    assert run("train", *TRAIN, "train.conllu").returncode == 0
    names = json.loads(run("inspect", "m.crfqn", "--json").stdout)
    assert "xpos" not in json.dumps(names["weights"])
    assert run("train", *TRAIN, "train.conllu", "--columns", "form xpos", "--label", "upos").returncode == 0
    assert run("evaluate", "m.crfqn", "train.conllu").returncode == 0


COMMANDS = (("train", *TRAIN), ("cv", "--folds", 2, "--data"), ("path", "--values", 2, "--data"))


def test_weights_of_items_count(run, tmp_path):
    first, second = "A\tx\n\nB\ty\n\n" * 4 + "A\tz\n\n", "B\tz\n\n"
    (tmp_path / "train.crfsuite").write_text(f"{first}@weight:3\n{second}")
    for command in COMMANDS:
        run(*command, "train.crfsuite", code=0)
    assert run("predict", "m.crfqn", input="\tz\n").stdout == "B\n\n"
    (tmp_path / "train.crfsuite").write_text(first + "@weight:0.5\n" + second)
    assert run(*COMMANDS[0], "train.crfsuite").returncode == 0
    assert run("predict", "m.crfqn", input="\tz\n").stdout == "A\n\n"


def test_json_on_every_command(run, tmp_path):
    keys = json.loads(run("recipe", "chain", "--json").stdout)
    assert keys["objective"]["l1"]["says"].startswith("L1 penalty")
    assert keys["objective"]["loss"]["choices"] == ["logistic", "hinge"]
    (tmp_path / "train.conll").write_text(conll(ROWS))
    assert run("train", *TRAIN, "train.conll").returncode == 0
    facts = json.loads(run("convert", "m.crfqn", "m.json", "--json").stdout)
    assert (facts["path"], facts["n_labels"], facts["kind"]) == ("m.json", 2, "chain-crf")
    assert facts["bytes"] == (tmp_path / "m.json").stat().st_size
