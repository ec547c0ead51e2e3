"""What commands write: never in the place of what they read or of another output, and as a whole or not at all."""

import errno
import subprocess
import sys
from importlib.util import find_spec

import pytest
from command_line import built_command

from crfqn import ChainCRF, Tagger
from crfqn.cli.app import app
from crfqn.cli.options import INPUT_PARAMETERS, OUTPUT_PARAMETERS, REPLACED_INPUTS
from crfqn.data.model_file import SUFFIXES_OF_OTHERS
from crfqn.data_options import SECTIONS, keys_in
from crfqn.errors import DataError
from crfqn.recipes import load_recipe
from crfqn.recipes.sources import files_of
from crfqn.regularization_path import Grid, crf_path

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
LOST = "expected a new file for the output, got an input, which would be lost"
TWICE = "expected a file for each output"
# Parameters with a text that names no file, and those that name folders.
TEXTS = {
    *("missing", "outside", "analyzer", "ngram_range", "weighting", "min_df", "max_df"),
    "recipe",  # its name may be that of its folder
    *(
        "format",
        "structure",
        "label",
        "drop",
        "labels",
        "separator",
        "encoding",
        "sentence",
        "columns",
        "features",
    ),
    *(
        "words",
        "metric",
        "loss",
        "penalty",
        "group_norm",
        "feature_groups",
        "loss_bound",
        "link",
        "class_weight",
    ),
    *(
        "threshold",
        "scheme",
        "transition_rules",
        "once",
        "enforce_rules_in",
        "on_violation",
        "solver",
        "tol",
        "stop",
        "worker_timeout",
    ),
    *(
        "random_state",
        "checkpoint_every",
        "basis",
        "generator",
        "update",
        "scheduler",
        "l1",
        "l2",
        "max_seconds",
    ),
    *("n_threads", "patience", "group_l1", "dense_l2", "margin", "cv", "max_iter", "validation_fraction"),
    *(
        "n_iter_no_change",
        "batch_size",
        "n_rounds",
        "inner_iter",
        "measure",
        "text",
        "title",
        "host",
        "name",
        "names",
    ),
    *(
        "source_format",
        "target_format",
        "dtype",
        "early_stopping",
        "comment",
        "sheet",
        "tokenizer",
        "on_misaligned",
    ),
}
FOLDERS = {"checkpoint", "output_dir", "to"}  # `to` of predict is a format
NUMBERS = {bool, int, float}


def commands(group=None, name=""):
    """Yield the name and the command of each row of the table of commands."""
    for part, each in (group or built_command(app)).commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, f"{part} ")
        else:
            yield name + part, each


def pairs():
    """Yield a command, an output of it, and each input and other output that it could replace."""
    for name, each in commands():
        parameters = {parameter.name: parameter for parameter in each.params}
        for output in sorted(parameters.keys() & {*OUTPUT_PARAMETERS}):
            for other in sorted(
                parameters.keys()
                & {*INPUT_PARAMETERS, *OUTPUT_PARAMETERS} - {output, REPLACED_INPUTS.get(name)}
            ):
                yield pytest.param(name, each, output, other, id=f"{name} {output} {other}")


def test_what_each_parameter_of_a_command_names_is_known():
    """A parameter that is new must be entered in INPUT_PARAMETERS or OUTPUT_PARAMETERS if it names a file."""
    known = {*INPUT_PARAMETERS, *OUTPUT_PARAMETERS, *FOLDERS, *TEXTS}
    for name, command in commands():
        texts = {each.name for each in command.params if each.type_descriptor.annotation not in NUMBERS}
        assert texts <= known, f"{name}: {texts - known}"


def test_the_files_of_a_recipe_are_those_of_its_keys(tmp_path):
    """Keys whose description has the word are files, or in the list of those that are not."""
    rows = {key: row for kind in SECTIONS.values() for key, row in keys_in(kind).items()}
    described = {key for key, row in rows.items() if "file" in row.rule.description.split()}
    of_files = {"train", "test", "dev", "templates", "taxonomy", "penalty_factors", "gazetteers"}
    assert described - {"path", "columns", "transitions", "dataset", "comment"} <= of_files
    (tmp_path / "r.toml").write_text(
        'name = "r"\ntitle = "R"\n[data]\ntrain = ["a", "b*"]\ntest = "c"\ndev = "d"\n'
        '[features]\nkind = "templates"\ntemplates = "e"\ngazetteers = ["g"]\ncolumns = "w"\n'
        '[objective]\npenalty_factors = "f"\n'
    )
    names = [file.name for file in files_of(load_recipe(tmp_path / "r.toml"))]
    assert names == ["r.toml", "a", "b*", "c", "d", "e", "g", "f"]


@pytest.mark.parametrize(("name", "command", "output", "other"), [*pairs()])
@pytest.mark.parametrize("spelling", ["f.svg", "sub/../f.svg", "link"])
def test_of_all_commands_no_output_replaces_an_input_or_output(
    here, tmp_path, name, command, output, other, spelling
):
    (tmp_path / "f.svg").write_text("a 1\n")
    (tmp_path / "link").symlink_to("f.svg")
    (tmp_path / "sub").mkdir()
    words = name.split()
    for each in command.params:
        value = {output: spelling, other: "f.svg"}.get(each.name)
        if each.param_type_name == "argument":
            words.append(value or "none")
        elif value is not None:
            words += [each.opts[0], value]
    run = here(*words, error=TWICE if other in OUTPUT_PARAMETERS else LOST)
    assert run.stdout == ""
    assert (tmp_path / "f.svg").read_text() == "a 1\n"


@pytest.mark.parametrize(
    "words",
    [
        "train --data train.conll -o train.conll",
        "train --data train.* -o train.conll",
        "train --data folder -o folder/one.conll",
        "train --data train.conll --test test.conll -o test.conll",
        "train --data train.conll --dev test.conll -o test.conll",
        "train --data train.conll --dev test.* -o test.conll",
        "train --data train.conll --templates patterns -o patterns",
        "train recipe.toml -o recipe.toml",
        "train recipe.toml -o train.conll",
        "path --data train.conll -o train.conll",
        "path --data train.conll --csv ./train.conll",
        "calibrate m.crfqn test.conll -o test.conll",
        "predict m.crfqn test.conll -o test.conll",
        "predict m.crfqn test.conll -o link",
        "predict m.crfqn test.conll -o m.crfqn",
        "suggest m.crfqn test.conll -o test.conll",
        "report m.crfqn test.conll -o test.conll",
        "report m.crfqn test.conll -o m.crfqn",
        "convert m.crfqn m.crfqn --to json",
        "train --data **/one.conll -o folder/one.conll",
        "train --data train.conll --penalty-factors factors -o factors",
        "train --data train.conll --penalty-factors factors -o link-to-factors",
        "train --data train.conll --penalty-factors factors -o folder/../factors",
        "path --data train.conll --penalty-factors factors --csv factors",
        "train factors.toml -o factors",
        "train --data train.conll --checkpoint . -o checkpoint.crfqn",
        "report own.crfqn -o test.conll",
        "report own.crfqn -o folder/../train.conll",
        "report own.crfqn -o recipe.toml",
        "path --data train.conll -o new.x --csv new.x",
        "path --data train.conll --csv new.svg --plot folder/../new.svg",
    ],
)
def test_no_output_replaces_an_input(here, tmp_path, words):
    """Those that come out of recipes, models and patterns included."""
    items = "Ann\tP\nsees\tO\n\nBob\tP\nruns\tO\n\n" * 3
    (tmp_path / "folder").mkdir()
    for name in ("train.conll", "test.conll", "folder/one.conll"):
        (tmp_path / name).write_text(items)
    (tmp_path / "recipe.toml").write_text(
        RECIPE.replace("train.txt", "train.conll").replace("test.txt", "test.conll")
    )
    (tmp_path / "factors.toml").write_text(
        RECIPE.replace("train.txt", "train.conll").replace("test.txt", "test.conll")
        + 'penalty_factors = "factors"\n'
    )
    (tmp_path / "factors").write_text("w=Ann 2\n")
    (tmp_path / "link-to-factors").symlink_to("factors")
    (tmp_path / "link").symlink_to("test.conll")
    (tmp_path / "patterns").write_text("U00:%x[0,0]\nB\n")
    X = [[{"word": "Ann"}, {"word": "sees"}]] * 4
    model = ChainCRF(l1=0.1, n_threads=1).fit(X, [["P", "O"]] * 4)
    model.save(tmp_path / "m.crfqn")
    recipe = load_recipe(tmp_path / "recipe.toml")
    model.training_ = {"recipe": recipe.as_dict(), "recipe_source": str(recipe.source)}
    model.save(tmp_path / "own.crfqn")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    run = here(*words.split())
    assert run.returncode == 2
    assert (TWICE if "new." in words or "checkpoint" in words else LOST) in run.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_model_is_calibrated_and_trained_on_in_its_place(here, tmp_path):
    (tmp_path / "train.conll").write_text("Ann\tP\nsees\tO\n\nBob\tP\nruns\tO\n\n" * 3)
    for words in (
        "train --data train.conll -o m.crfqn -q",
        "train --data train.conll --start m.crfqn -o m.crfqn -q",
        "calibrate m.crfqn train.conll -o m.crfqn",
    ):
        assert here(*words.split()).returncode == 0
    assert "- calibrated: temperature" in here("inspect", "m.crfqn", "--card").stdout


def test_standard_input_that_comes_from_the_output(tmp_path):
    model = ChainCRF(l1=0.1, n_threads=1).fit([[{"word": "Ann"}, {"word": "sees"}]] * 4, [["P", "O"]] * 4)
    model.save(tmp_path / "m.crfqn")
    (tmp_path / "data").write_text("P\tword=Ann\n\n")
    command = [sys.executable, "-m", "crfqn", "predict", "m.crfqn", "-o", "data"]
    with open(tmp_path / "data") as stream:
        run = subprocess.run(command, stdin=stream, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, LOST in run.stderr) == (2, True), run.stderr
    assert (tmp_path / "data").read_text() == "P\tword=Ann\n\n"


def test_devices_and_new_files_beside_inputs_are_no_inputs(here, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.conll").write_text("Ann\tP\nsees\tO\n\nBob\tP\nruns\tO\n\n" * 3)
    for _ in range(2):
        here("train", "--data", "folder/*.conll", "-o", "folder/m.crfqn", "-q", code=0)
    (tmp_path / "recipe.toml").write_text(RECIPE.replace("train.txt", "t.txt").replace("test.txt", "t.txt"))
    (tmp_path / "t.txt").write_text("A\tw=the\n\nN\tw=cat\n\n" * 5)
    for _ in range(2):
        here("train", ".", "-q", code=0)  # mine.crfqn beside the recipe
    here("predict", "folder/m.crfqn", "/dev/null", "-o", "/dev/null", error="/dev/null: empty, no items")


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    """Tables, pictures and dumps of weights."""
    model = ChainCRF(l1=0.1, n_threads=1).fit([[{"word": "Ann"}, {"word": "sees"}]] * 4, [["P", "O"]] * 4)
    model.save(tmp_path / "m.crfqn")
    tagger = Tagger(tmp_path / "m.crfqn")
    path = crf_path(
        ChainCRF(n_threads=1), [[{"word": "Ann"}, {"word": "sees"}]] * 4, [["P", "O"]] * 4, grid=Grid(2)
    )
    writers = {"p.csv": path.write_csv, "dump.txt": tagger.dump}
    if find_spec("matplotlib"):
        from crfqn.plot import PathDisplay
        from crfqn.plot.canvas import save_picture

        writers["p.svg"] = lambda file: save_picture(PathDisplay.from_rows(path.rows()), file)

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name, write in writers.items():
        write(tmp_path / name)
        before = (tmp_path / name).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("crfqn.atomic_write.os.fsync", fail)
            with pytest.raises(DataError, match=f"cannot write {tmp_path / name}: No space left"):
                write(tmp_path / name)
        assert before
        assert (tmp_path / name).read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"m.crfqn", *writers}


MODEL_WRITERS = (
    *(
        "train --data t.conll",
        "train own.toml",
        "path --data t.conll",
        "quickstart",
        "calibrate none t.conll",
    ),
)


@pytest.mark.parametrize("suffix", SUFFIXES_OF_OTHERS)
@pytest.mark.parametrize("command", MODEL_WRITERS)
def test_own_models_are_not_named_as_those_of_other_tools(here, tmp_path, command, suffix):
    """Refused before the training; a recipe's output, too."""
    (tmp_path / "t.conll").write_text("Ann\tP\nsees\tO\n\n" * 3)
    (tmp_path / "own.toml").write_text(RECIPE + f'[output]\npath = "m{suffix}"\n')
    output = () if "own" in command else ("-o", f"m{suffix}")
    run = here(*command.split(), *output, error=f"m{suffix}: expected a name for crfqn's own")
    assert f"`crfqn convert m.crfqn m{suffix}`" in run.stderr
    assert not (tmp_path / f"m{suffix}").exists()
