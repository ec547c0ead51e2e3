"""Training on files without a recipe, cross-validation, skeletons, and predictions in other formats."""

from __future__ import annotations

import gzip
import json

import pytest
from command_line import run_here

COLUMNS = "the DT B-NP\ndog NN I-NP\nbarks VBZ B-VP\n\nit PRP B-NP\nsleeps VBZ B-VP\n\n"
TEXTS = "text,label\ngood film,pos\nbad film,neg\nvery good,pos\nawful,neg\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    path.joinpath("train.conll.gz").write_bytes(gzip.compress((COLUMNS * 3).encode()))
    path.joinpath("texts.csv").write_text(TEXTS)
    path.joinpath("words.conll").write_text("the\ndog\n")
    path.joinpath("other.jsonl").write_text('{"words": ["the"], "tags": ["D"]}\n')
    with pytest.MonkeyPatch.context() as patch:
        for arguments in (
            ("--data", "train.conll.gz", "--l1", 0.1, "-o", "chunker.crfqn"),
            ("--data", "texts.csv", "--structure", "flat", "--l1", 0.1),
        ):
            run_here(patch, path, "train", *arguments, "--threads", 1, "-q", code=0)
    return path


class TestTraining:
    def test_the_files_name_is_the_models(self, folder):
        assert (folder / "texts.crfqn").is_file()

    def test_from_standard_input_with_a_test_file(self, folder, monkeypatch):
        run = run_here(
            monkeypatch, folder,
            *("train", "--data", "-", "--format", "conll", "--columns", "w pos", "--test", "train.conll.gz"),
            *("--l1", 0.1, "-o", "piped.crfqn", "--json", "-q"), input=COLUMNS,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        facts = json.loads(run.stdout)
        assert facts["model"] == "piped.crfqn"
        assert facts["scores"]["accuracy"] == 1.0
        assert facts["strengths"]["l1"] == 0.1

    def test_with_a_file_that_the_training_is_stopped_by(self, folder, monkeypatch):
        (folder / "dev.conll").write_text(COLUMNS)
        (folder / "stopped.toml").write_text(
            'name = "stopped"\ntitle = "Stopped"\n[data]\ntrain = "train.conll.gz"\ndev = "dev.conll"\n'
            '[features]\nkind = "words"\ncolumns = "w pos"\n[objective]\nl1 = 0.001\n[solver]\nscoring = "f1"\n'
        )
        options = ("--l1", 0.001, "--tol", 1e-9, "--patience", 1, "--threads", 1, "--json", "-q")
        for source in (
            ("--data", "train.conll.gz", "--dev", "dev.conll", "--metric", "f1"),
            ("stopped.toml",),
        ):
            run = run_here(monkeypatch, folder, "train", *source, *options, "-o", "stopped.crfqn", code=0)
            facts = json.loads(run.stdout)
            assert facts["status"] == "held_out"
            assert facts["dev"]["metric"] == "chunk_f1"
            assert facts["dev"]["best"] == max(facts["dev"]["scores"]) == 1.0
            assert facts["dev"]["is_patience_over"]
        run = run_here(monkeypatch, folder, "inspect", "stopped.crfqn")
        assert "stopped by the validation items: best chunk_f1 1.0000 at iteration" in run.stdout

    def test_a_file_to_stop_by_needs_labels(self, folder, monkeypatch):
        (folder / "unlabelled.csv").write_text("text\ngood film\n")
        arguments = ("--data", "texts.csv", "--structure", "flat", "--dev", "unlabelled.csv", "-q")
        run_here(
            monkeypatch, folder, "train", *arguments, error="unlabelled.csv: has no labels to compare with"
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "expected a recipe or --data FILE, got neither"),
            (("digits", "--data", "texts.csv"), "--data: a recipe has this setting itself"),
            (("--data", "gone.conll"), "gone.conll: no such file"),
            (("--data", "texts.csv"), "format csv holds sequences or documents; say --structure"),
            (("--data", "texts.csv", "--structure", "tree"), "--structure tree: expected one of chain, taxonomy"),
            (("--data", "texts.csv", "--structure", "chain", "--format", "conll"), "texts.csv, line 2: expected 1 col"),
            (("--data", "notes"), "notes: no such file"),
            (("words.conll",), "to train on a file of data, say --data words.conll"),
            (("--data", "other.jsonl"), "other.jsonl, line 1: expected an object with the key 'tokens'"),
            (("--data", "words.conll"), "words.conll: one column, 'the'; expected words and, in the last one, labels"),
            (("--data", "-", "--format", "conll"), "standard input: empty, no items; expected lines of columns"),
            (("--data", "train.conll.gz", "--structure", "flat"), "train.conll.gz holds sequences"),
        ],
    )  # fmt: skip
    def test_wrong_input(self, folder, monkeypatch, arguments, message):
        before = sorted(folder.iterdir())
        run_here(monkeypatch, folder, "train", *arguments, "-q", error=message)
        assert sorted(folder.iterdir()) == before


class TestPredictions:
    def test_the_input_with_one_more_column(self, folder, monkeypatch):
        run = run_here(
            monkeypatch, folder, "predict", "chunker.crfqn", "--to", "conll", input="it PRP\nsleeps VBZ\n"
        )
        assert run.stdout.split() == ["it", "PRP", "B-NP", "sleeps", "VBZ", "B-VP"]

    def test_another_format_than_the_training_file_had(self, folder, monkeypatch):
        run = run_here(
            monkeypatch,
            folder,
            *["predict", "texts.crfqn", "--format", "text", "--to", "jsonl"],
            input="good day\n",
        )
        assert json.loads(run.stdout) == {"text": "good day", "label": "pos"}

    def test_a_json_object_an_item(self, folder, monkeypatch):
        run = run_here(
            monkeypatch, folder, "predict", "chunker.crfqn", "--json", "--marginals", input=COLUMNS
        )
        items = [json.loads(line) for line in run.stdout.splitlines()]
        assert [item["labels"] for item in items] == [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]]
        assert sum(items[0]["marginals"][1].values()) == pytest.approx(1.0, abs=1e-4)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--to", "conll"), "format 'conll' holds sequences, and these are documents"),
            (("--to", "text", "--score"), "--to text: writes labels alone; leave out --score"),
            (("--format", "yaml"), "format: expected one of spacy, "),
        ],
    )
    def test_wrong_options(self, folder, monkeypatch, options, message):
        run_here(monkeypatch, folder, "predict", "texts.crfqn", "texts.csv", *options, error=message)


def test_cross_validation(folder, monkeypatch):
    arguments = ("cv", "--data", "train.conll.gz", "--folds", 3, "--l1", 0.1, "--threads", 1, "-q")
    run = run_here(monkeypatch, folder, *arguments, "--json")
    content = json.loads(run.stdout)
    assert [fold["accuracy"] for fold in content["folds"]] == [1.0, 1.0, 1.0]
    assert content["summary"]["F1"] == {"mean": 1.0, "std": 0.0}
    table = run_here(monkeypatch, folder, *arguments).stdout
    assert "mean         1.0000" in table
    for command, option in (("cv", "--folds"), ("path", "--cv")):
        run = run_here(monkeypatch, folder, command, "--data", "train.conll.gz", option, 99, "-q")
        assert (run.returncode, run.stdout) == (2, "")
        assert f"{option} 99: the recipe has 6 training items" in run.stderr


def test_rows_of_a_table_that_are_one_item(tmp_path, monkeypatch):
    (tmp_path / "train.csv").write_text("doc,token,label\n1,Ada,B\n1,wrote,O\n2,Ada,B\n2,slept,O\n")
    train = ("train", "--data", "train.csv", "--structure", "chain", "--l1", 0.1, "--threads", 1, "-q")
    run = run_here(monkeypatch, tmp_path, *train)
    assert run.stderr.startswith("Warning: train.csv: all its rows (4) are one item; ")
    assert run_here(monkeypatch, tmp_path, *train, "--sentence", "doc").stderr == ""
    (tmp_path / "train.conll").write_text("Ada B\nwrote O\n" * 500)
    run = run_here(monkeypatch, tmp_path, "train", "--data", "train.conll", "--l1", 1, "--threads", 1)
    assert run.stderr.startswith(
        "Warning: train.conll: all its lines (1,000) are one item; blank lines between "
    )


def test_the_name_of_a_pattern_file_among_templates(folder, monkeypatch):
    (folder / "patterns").write_text("U0:%x[0,0]\nB\n")
    options = ("--templates", "patterns", "--l1", 0.1, "--threads", 1, "-o", "patterns.crfqn", "-q")
    run = run_here(monkeypatch, folder, "train", "--data", "train.conll.gz", *options, code=0)
    run = run_here(monkeypatch, folder, "inspect", "patterns.crfqn", "--json")
    assert "U0:dog" in run.stdout


def test_a_skeleton_is_written(folder, monkeypatch):
    run_here(monkeypatch, folder, "recipe", "taxonomy", "-o", "recipe.toml", code=0)
    assert 'kind = "taxonomy"' in (folder / "recipe.toml").read_text()
    run_here(
        monkeypatch,
        folder,
        "recipe",
        "tree",
        error="expected one of chain, taxonomy, flat, ranking, got 'tree'",
    )


@pytest.mark.parametrize("option", [("--metric", "f1"), ("--patience", 3)])
def test_options_of_held_out_items_need_some(tmp_path, monkeypatch, option):
    (tmp_path / "train.conll").write_text("a\tA\nb\tB\n\nb\tB\n\n")
    done = run_here(monkeypatch, tmp_path, "train", "--data", "train.conll", "-o", "m.crfqn", *option)
    assert done.returncode == 2
    assert f"{option[0]}: expected with --dev FILE" in done.stderr
    assert not (tmp_path / "m.crfqn").exists()
