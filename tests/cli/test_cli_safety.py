"""Model files and recipes from anyone: which files a command opens, and what reaches the terminal."""

import json
import os
import re

import pytest
from command_line import crfqn as run_apart
from problems import ends_within

import crfqn
from crfqn import ChainCRF, MulticlassCRF
from crfqn.cli.output import printable_lines, to_json
from crfqn.messages import printable

RECIPE = """name = "mine"
title = "Mine"
[data]
train = "train.txt"
test = "test.txt"
[features]
kind = "attributes"
[objective]
l1 = 0.1
"""
FOREIGN = {"name": "m", "title": "M", "features": {"kind": "attributes"}}
TEXT = "A\tw=the\n\nN\tw=cat\n\n" * 5
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(TEXT)
    return tmp_path


class TestFilesThatAModelNames:
    @pytest.fixture
    def model(self, here, folder):
        assert here("train", folder, "--threads", 1).returncode == 0
        return folder / "mine.crfqn"

    def test_of_a_recipe_of_ones_own(self, here, model):
        assert here("evaluate", model).returncode == 0
        (model.parent / "recipe.toml").write_text(RECIPE.replace("0.1", "0.2"))  # the files are the same
        assert here("evaluate", model).returncode == 0

    @pytest.mark.parametrize("change", ["moved", "other files", "no recipe"])
    def test_of_another_recipe(self, here, model, change):
        recipe = model.parent / "recipe.toml"
        if change == "moved":
            recipe.rename(model.parent / "other.toml")
        else:
            recipe.write_text(RECIPE.replace("test.txt", "more.txt") if change == "other files" else "\x00")
        run = here("evaluate", model, error="'train.txt' and 'test.txt'")
        assert "name a labelled file to evaluate on" in run.stderr
        assert here("evaluate", model, model.parent / "test.txt").returncode == 0

    @pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
    def test_of_a_foreign_model(self, here, folder, name):
        """The device in a process of its own, as what fills the memory cannot be ended from within."""
        if name == "pipe":
            os.mkfifo(folder / name)
        model = ChainCRF(n_threads=1).fit([[["a"], ["b"]]] * 5, [["x", "y"]] * 5)
        recipe = FOREIGN | {"data": {"train": "train.txt", "test": name}}
        model.training_ = {"recipe": recipe, "recipe_source": str(folder / "gone.toml")}
        model.save(folder / "m")
        with ends_within():
            run = here("evaluate", "m") if name == "pipe" else run_apart("evaluate", "m", cwd=folder)
        assert run.returncode == 2
        assert "names files for training and test" in run.stderr

    def test_a_place_that_is_no_name(self, here, folder):
        model = ChainCRF(n_threads=1).fit([[["a"], ["b"]]] * 5, [["x", "y"]] * 5)
        recipe = FOREIGN | {"data": {"train": "a", "test": "b"}}
        for source, words in ((7, "recipe_source: expected the name of a file"), ("\x00", "is not there")):
            model.training_ = {"recipe": recipe, "recipe_source": source}
            model.save(folder / "m")
            here("evaluate", "m", error=words)

    def test_a_pipe_in_the_place_of_a_taxonomy(self, here, folder):
        os.mkfifo(folder / "pipe")
        (folder / "recipe.toml").write_text(
            RECIPE.replace("attributes", "text") + '[structure]\nkind = "taxonomy"\ntaxonomy = "pipe"\n'
        )
        with ends_within():
            here("train", "recipe.toml", error="pipe: a pipe or a device; expected a regular file")


def test_printable():
    assert printable("größe 犬 \U0001f600 a b\\n") == "größe 犬 \U0001f600 a b\\n"
    assert printable("a\x1b[2J\tb\n\r\x7f\x9b\u2028\u202e\x00") == (
        "a\\x1b[2J\\x09b\\x0a\\x0d\\x7f\\x9b\\u2028\\u202e\\x00"
    )
    assert printable_lines("a\x1bb\nc\r") == "a\\x1bb\nc\\x0d"
    content = {"a\x1b\x9b\n": ["\x7fé\u202e", 1.5, None]}
    assert json.loads(to_json(content)) == content
    assert not STEERING.search(to_json(content))


EVIL = "x\x1b[2J\x9b1m\u202e\nB\tC"


class TestControlCodes:
    @pytest.fixture
    def sequences(self, tmp_path):
        items = [[[f"f{EVIL}"], ["b"], [f"f{EVIL}"], [f"f{EVIL}"], ["b"], ["b"]]] * 5
        labels = [[EVIL, "y", EVIL, EVIL, "y", "y"]] * 5
        model = ChainCRF(l1=0.01, tol=0.1, n_threads=1)
        model.fit([*items, *[[["c"], ["c"]]] * 5], [*labels, *[[EVIL, "y"]] * 5])
        model.save(tmp_path / "m")
        return model

    def run(self, here, *arguments, **options):
        run = here(*arguments, **options)
        assert not STEERING.search(run.stdout.replace("\t", "")), run.stdout
        assert not STEERING.search(run.stderr), run.stderr
        return run

    def test_of_sequences(self, here, sequences):
        shown = printable(EVIL)
        text = self.run(here, "inspect", "m").stdout
        assert f"\n{shown}: the " in text
        assert f"f{shown}\n" in text
        assert f"{shown} -> " in text
        content = json.loads(self.run(here, "inspect", "m", "--json").stdout)
        assert content["labels"] == sorted([EVIL, "y"])
        lines = self.run(here, "predict", "m", input="\tb\n", **{}).stdout
        assert lines == "y\n\n"
        marginals = self.run(here, "predict", "m", "--marginals", input="\tb\n").stdout
        assert f"\t{shown}:0." in marginals
        assert self.run(here, "inspect", "m", "--label", EVIL + "z").returncode == 2
        labelled = self.run(here, "evaluate", "m", "-", input="z\x1b[2J\tb\n\ny\tb\n")
        assert "z\\x1b[2J" in labelled.stdout

    def test_of_documents(self, here, tmp_path):
        (tmp_path / "recipe.toml").write_text(
            'name = "own"\ntitle = "T\\u001b[2J"\n[data]\ntrain = "d"\ntest = "d"\n[structure]\nkind = "flat"\n'
            '[features]\nkind = "text"\n[objective]\nl1 = 0.01\n'
        )
        (tmp_path / "d").write_text("do\x1b[2Jg\twoof\ncat\tmiaow\n" * 5)
        train = self.run(here, "train", "recipe.toml", "--threads", 1)
        assert train.returncode == 0, train.stderr
        assert "T\\x1b[2J" in train.stderr
        assert "do\\x1b[2Jg" in self.run(here, "evaluate", "own.crfqn").stdout
        assert "T\\x1b[2J" in self.run(here, "inspect", "own.crfqn").stdout
        assert self.run(here, "predict", "own.crfqn", input="woof\n").stdout == "do\\x1b[2Jg\n"
        assert self.run(here, "predict", "own.crfqn", "--top", 1, input="woof\n").stdout.startswith(
            "do\\x1b[2Jg\tdo\\x"
        )

    def test_labels_without_are_written_as_they_are(self, here, tmp_path):
        model = MulticlassCRF(l1=0.01, n_threads=1).fit([[1.0, 0], [0, 1.0]] * 5, ["größe 犬", "b c"] * 5)
        model.save(tmp_path / "m")
        assert crfqn.load(tmp_path / "m").classes_.tolist() == ["b c", "größe 犬"]
        assert "größe 犬: the" in self.run(here, "inspect", "m").stdout
