"""Lists of names by file: `crfqn train --gazetteer`, and what the commands do with such models."""

import json

import pytest

from crfqn import Tagger, load
from crfqn.recipes.schema import parse_recipe
from crfqn.recipes.sequences import read_gazetteers

WORDS = ["Ann left Rome .", "Bob saw NEW YORK and Oslo .", "Eve slept here ."]
LABELS = ["O O B O", "O O B I O B O", "O O O O"]
TRAIN = "\n".join(
    "".join(f"{word} {label}\n" for word, label in zip(words.split(), labels.split(), strict=True))
    for words, labels in zip(WORDS, LABELS, strict=True)
)
LIST = "# places\n\n\u00a0\nRome\n  New York\t\r\n#\noslo\nLa Paz\n#tag\n"
OPTIONS = ("--l1", 0.01, "--threads", 1, "-q", "-o", "m.crfqn", "--data", "train.conll")


@pytest.fixture
def trained(run, tmp_path):
    (tmp_path / "train.conll").write_text(TRAIN)
    (tmp_path / "cities.v2.txt").write_text(LIST, encoding="utf-8")
    (tmp_path / "names.txt").write_text("\ufeffann\nbob\neve\n", encoding="utf-8")
    run("train", *OPTIONS, "--gazetteer", "cities.v2.txt", "--gazetteer", "names.txt", code=0)
    for name in ("train.conll", "cities.v2.txt", "names.txt"):
        (tmp_path / name).unlink()  # the model needs none of them
    return run


def test_all_commands_agree(trained, tmp_path):
    new = ["Tom called La Paz", "OSLO fell"]
    (tmp_path / "new.txt").write_text("".join(f"{line}\n" for line in new))
    (tmp_path / "new.conll").write_text("\n".join("".join(f"{w}\n" for w in line.split()) for line in new))
    (tmp_path / "labelled.conll").write_text("Tom O\ncalled O\nLa B\nPaz I\n\nOSLO B\nfell O\n")
    labels = [["O", "O", "B", "I"], ["B", "O"]]
    flat = [label for item in labels for label in item]
    tagger, model = Tagger(tmp_path / "m.crfqn"), load(tmp_path / "m.crfqn")
    assert [tagger.tag(line) for line in new] == labels
    assert [*map(list, model.predict([line.split() for line in new]))] == labels
    assert trained("predict", "m.crfqn", "new.conll", code=0).stdout.split() == flat
    raw = trained("predict", "m.crfqn", "new.txt", "--text", "--json", code=0).stdout.splitlines()
    assert [json.loads(line)["labels"] for line in raw] == labels
    scores = json.loads(trained("evaluate", "m.crfqn", "labelled.conll", "--json", code=0).stdout)
    assert scores["accuracy"] == 1.0
    suggested = trained("suggest", "m.crfqn", "new.txt", "--to", "conll", "-n", 2, code=0).stdout
    assert "La B" in suggested.replace("\t", " ")


def test_the_lists_are_shown(trained):
    assert "cities (5 names), names (3 names)" in trained("inspect", "m.crfqn", code=0).stdout
    facts = json.loads(trained("inspect", "m.crfqn", "--json", code=0).stdout)
    assert facts["gazetteers"] == {"cities": 5, "names": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "list.txt: no such file"),
        (b"", "list.txt: empty; expected names, one a line"),
        (b"# Rome\n\n", "list.txt: empty; expected names, one a line"),
        (b"Rome\nK\xf6ln\n", "list.txt, line 2: not UTF-8 text"),
        (b"Rome\nOslo\tcity\n", "list.txt, line 2: expected a name, got 'Oslo\\tcity'"),
        (b"Rome\rOslo\n", "list.txt, line 1: a carriage return (CR) within the line"),
        (b"\x1f\x8b\x08\x00", "list.txt: "),
    ],
)
def test_wrong_files(run, tmp_path, content, message):
    (tmp_path / "train.conll").write_text(TRAIN)
    if content is not None:
        (tmp_path / "list.txt").write_bytes(content)
    run("train", *OPTIONS, "--gazetteer", "list.txt", error=message)
    assert not (tmp_path / "m.crfqn").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gazetteer", "a/list.txt"), "two files are called 'list'"),
        (("--features", "attributes"), "--gazetteer: expected kind = words or templates"),
        (("--templates", "w[0]", "--columns", "w"), "--gazetteer: expected kind = words or templates"),
        (("--features", "text", "--structure", "flat"), "--gazetteer: expected kind = words or templates"),
        (("-o", "list.txt"), "expected a new file for the output, got an input"),
    ],
)
def test_options_that_do_not_fit(run, tmp_path, options, message):
    (tmp_path / "train.conll").write_text(TRAIN)
    (tmp_path / "a").mkdir()
    for name in ("list.txt", "a/list.txt"):
        (tmp_path / name).write_text("Rome\n")
    data = ("--data", "train.conll", "--gazetteer", "list.txt")
    run("train", "-q", *(("-o", "m.crfqn") if "-o" not in options else ()), *data, *options, error=message)
    assert (tmp_path / "list.txt").read_text() == "Rome\n"


def test_recipes_have_them_beside_them(tmp_path):
    (tmp_path / "cities.txt").write_text(LIST, encoding="utf-8")
    features = {"kind": "words", "gazetteers": ["cities.txt"]}
    table = {"name": "a", "title": "b", "data": {"train": "t.conll"}, "features": features}
    recipe = parse_recipe(table, tmp_path / "recipe.toml")
    assert read_gazetteers(recipe) == {"cities": ["Rome", "New York", "oslo", "La Paz", "#tag"]}
    assert parse_recipe(recipe.as_dict(), tmp_path / "recipe.toml") == recipe
