"""Several files as one set, and options that can be given once only."""

import json

import pytest
from command_line import run_here

import crfqn
from crfqn.cli.app import app
from crfqn.recipes import load_recipe, prepare_data

FILES = {
    "a.conll": "one A\ntwo B\n\n",
    "b.conll": "three C\ntwo B\n\nfour D\n\n",
    "wide.conll": "one X A\n\n",
    "bare.conll": "five\tE\n\none\n\n",
    "c.jsonl": '{"tokens": ["five"], "labels": ["E"]}\n',
    "features.jsonl": '{"features": [{"a": 1}], "labels": ["E"]}\n',
    "t1.labels": "x\tred apple\n",
    "t2.labels": "y\tblue sky\n\nx\tred car\n",
    "t3.labels": "y\tblue sea\nno label here\n",
    "n.svmlight": "x 1:1\n",
    "r1.csv": "size,day,shop,kind\n1,2,3,x\n2,3,4,y\n",
    "r2.csv": "day,size,shop,kind\n1,8,3,z\n2,9,4,y\n",
}
QUICK = ("-q", "--l1", "0.1", "--threads", "1", "-o", "m.crfqn")


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "parts").mkdir()
    for name in ("b.conll", "a.conll"):
        (tmp_path / "parts" / name).write_text(FILES[name])
    (tmp_path / "parts" / ".hidden").write_text("of the system")
    return tmp_path


@pytest.fixture
def run(folder, monkeypatch):
    return lambda *arguments, **options: run_here(monkeypatch, folder, *arguments, **options)


def fingerprint(run, folder, *arguments):
    run("train", *QUICK, *arguments, code=0)
    return crfqn.load(folder / "m.crfqn").training_["data_fingerprint"]


class TestTraining:
    @pytest.mark.parametrize(
        "names",
        [
            ("a.conll", "b.conll"),
            ("parts",),
            ("parts/*.conll",),
            ("[ab].conll",),
            ("parts/a.conll", "b.conl?"),
        ],
    )
    def test_files_folders_and_patterns_are_one_set(self, run, folder, names):
        (folder / "whole.conll").write_text(FILES["a.conll"] + FILES["b.conll"])
        whole = fingerprint(run, folder, "--data", "whole.conll")
        weights = crfqn.load(folder / "m.crfqn")
        options = [option for name in names for option in ("--data", name)]
        assert fingerprint(run, folder, *options) == whole
        model = crfqn.load(folder / "m.crfqn")
        assert model.classes_.tolist() == ["A", "B", "C", "D"]
        assert (model.coef_ != weights.coef_).nnz == 0  # in their order

    @pytest.mark.parametrize("name", ["a.conll", "./a.conll", "[ab].conll", "a.*"])
    def test_a_file_that_is_named_twice_counts_once(self, run, folder, name):
        once = fingerprint(run, folder, "--data", "a.conll", "--data", "b.conll")
        done = run("train", *QUICK, "--data", "a.conll", "--data", name, "--data", "b.conll", code=0)
        assert crfqn.load(folder / "m.crfqn").training_["data_fingerprint"] == once
        assert done.stderr.count("Warning: named twice, and counted once: a.conll") == 1

    def test_files_of_different_formats(self, run, folder):
        assert fingerprint(run, folder, "--data", "a.conll", "--data", "c.jsonl") == fingerprint(
            run, folder, "--data", "c.jsonl", "--data", "a.conll"
        )

    def test_standard_input_is_one_of_them(self, run, folder):
        run("train", *QUICK, "--data", "a.conll", "--data", "-", input=FILES["b.conll"], code=0)
        assert crfqn.load(folder / "m.crfqn").classes_.tolist() == ["A", "B", "C", "D"]

    def test_texts_and_tables(self, run, folder):
        fingerprint(run, folder, "--data", "t1.labels", "--data", "t2.labels")
        assert crfqn.load(folder / "m.crfqn").classes_.tolist() == ["x", "y"]

    def test_test_and_dev_files(self, run):
        options = [option for name in ("a.conll", "b.conll") for option in ("--test", name, "--dev", name)]
        done = run("train", *QUICK[1:], "--data", "a.conll", "--data", "b.conll", *options)
        assert "of 5 positions" in done.stdout, done.stderr
        assert "of 3 whole items (test part)" in done.stdout

    def test_the_model_knows_its_test_files(self, run, folder):
        run("train", *QUICK, "--data", "parts", "--test", "parts", code=0)
        recipe = crfqn.load(folder / "m.crfqn").training_["recipe"]
        assert recipe["data"]["train"] == [str(folder / "parts" / name) for name in ("a.conll", "b.conll")]
        assert recipe["name"] == "parts"

    def test_dropped_columns(self, run, folder):
        run(
            "train", *QUICK, "--data", "r1.csv", "--structure", "flat", "--drop", "day", "--drop", "3", code=0
        )
        assert crfqn.load(folder / "m.crfqn").training_["recipe"]["data"]["drop"] == "day,shop"

    @pytest.mark.parametrize("command", ["path", "cv"])
    def test_other_commands(self, run, folder, command):
        for copy in ("a1.conll", "a2.conll"):
            (folder / copy).write_text(FILES["a.conll"])
        names = ("a.conll", "a1.conll", "a2.conll")
        more = ("--values", 1, "--holdout", 0.4) if command == "path" else ("--folds", 3)
        done = run(command, *(option for name in names for option in ("--data", name)), "-q", *more)
        assert done.returncode in (0, 4), done.stderr

    def test_recipes(self, folder):
        recipe = folder / "recipe.toml"
        for train in ('["a.conll", "b.conll"]', '"parts"', '"parts/*.conll"'):
            recipe.write_text(
                f'name = "mine"\ntitle = "Mine"\n[data]\ntrain = {train}\ntest = "parts"\n'
                '[features]\nkind = "words"\n[objective]\nl1 = 1.0\n'
            )
            prepared = prepare_data(load_recipe(recipe))
            assert prepared.y_train == prepared.y_test == [["A", "B"], ["C", "B"], ["D"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("a.conll", "wide.conll"), "wide.conll: expected the columns w, got w, pos"),
        (("a.conll", "bare.conll"), "bare.conll, line 3: expected 2 columns, as in line 1, got 1"),
        (("c.jsonl", "features.jsonl"), "features.jsonl: expected columns, as in the files before, got features"),
        (("t1.labels", "t3.labels"), "t3.labels, line 2: no label"),
        (("t1.labels", "n.svmlight"), "n.svmlight holds numbers"),
        (("a.conll", "none.conll"), "none.conll: no such file"),
        (("a.conll", "none*"), "none*: there is no such file"),
        (("a.conll", "hollow"), "hollow: a folder without files"),
    ],
)  # fmt: skip
def test_errors_name_the_file(run, folder, options, message):
    (folder / "hollow").mkdir()
    run("train", *QUICK, *(option for name in options for option in ("--data", name)), error=message)
    assert not (folder / "m.crfqn").exists()


def test_places_of_labels_are_those_of_their_files(run, folder):
    (folder / "p1.labels").write_text("a/b\tone\n")
    (folder / "p2.labels").write_text("a/c\ttwo\n\na//d\tthree\n")
    run(
        "train",
        *QUICK,
        *["--data", "p1.labels", "--data", "p2.labels", "--structure", "taxonomy"],
        error="p2.labels, line 3",
    )


class TestOptionsGivenTwice:
    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            (("train", "--data", "a.conll", "--l1", 1, "--l1", 2), "--l1"),
            (("train", "--data", "a.conll", "-o", "x", "--output=y"), "--output"),
            (("train", "--data", "r1.csv", "--header", "--no-header"), "--header/--no-header"),
            (("predict", "m.crfqn", "a.conll", "--to", "conll", "--to", "jsonl"), "--to"),
            (("evaluate", "m.crfqn", "a.conll", "--json", "--json"), "--json"),
            (("report", "m.crfqn", "--top", 1, "--top", 2), "--top"),
            (("inspect", "m.crfqn", "--label", "A", "--label", "B"), "--label"),
            (("convert", "m.crfqn", "m.json", "--to", "json", "--to", "onnx"), "--to"),
            (("path", "--data", "a.conll", "--cv", 2, "--cv", 3), "--cv"),
            (("data", "list", "--json", "--json"), "--json"),
        ],
    )
    def test_are_refused(self, run, arguments, name):
        run(*arguments, error=f"{name} given twice")

    def test_by_every_command(self, run):
        """No command keeps the last of two values without a word."""
        import typer

        group = typer.main.get_command(app)
        commands = {**group.commands, **{("data", n): c for n, c in group.commands["data"].commands.items()}}
        commands.pop("data")
        n_options = 0
        for name, command in commands.items():
            for option in command.params:
                if option.param_type_name != "option" or option.multiple or option.name == "help":
                    continue
                value = () if option.is_flag else ("1",)
                words = (name,) if isinstance(name, str) else name
                done = run(*words, option.opts[0], *value, option.opts[-1], *value, code=2)
                assert "given twice" in " ".join(done.stderr.split()), (name, option.name, done.stderr)
                n_options += 1
        assert n_options > 50


def test_a_value_that_was_given_once_is_taken(run, folder):
    done = run("train", *QUICK, "--data", "a.conll", "--json")
    assert json.loads(done.stdout)["strengths"]["l1"] == 0.1, done.stderr
