"""What commands say: mistakes of settings before the data are read, warnings as messages, all settings of a model, and
with -q nothing but what was asked for."""

import json
import re

import pytest
from command_line import assert_mistake

import crfqn
import crfqn.cli.training
from crfqn.cli import inspection
from crfqn.estimators.storage import ESTIMATORS_BY_KIND

ITEMS = "Ann\tB-P\nLee\tI-P\nsees\tO\n\nBob\tB-P\nruns\tO\n\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.conll").write_text(ITEMS * 3)
    (tmp_path / "broken.conll").write_text(ITEMS * 3 + "a\tO\nLee\tI-P\n\n")
    (tmp_path / "t.csv").write_text("n,size,kind\n" + "1,big,x\n2,small,y\n3,big,x\n" * 4)
    (tmp_path / "other.csv").write_text("n,size,of\n" + "1,big,x\n2,small,y\n" * 4)
    return tmp_path


@pytest.mark.parametrize("command", ["train", "path", "cv"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--solver", "lbfgs"), ("solver: expected one of", "did you mean l-bfgs?")),
        (("--scheme", "IOB3"), ("scheme: expected one of", "did you mean IOB2?")),
        (("--class-weight", "b-P=3"), ("no item has the label 'b-P'", "did you mean B-P?")),
        (("--penalty-factors", "w*=2", "--solver", "sgd"), ("penalty_factors",)),
    ],
)
def test_settings_are_refused_before_the_data_are_read_or_encoded(
    here, folder, monkeypatch, command, options, words
):
    def never(*args, **named):
        raise AssertionError("too late")

    monkeypatch.setattr(crfqn.ChainCRF, "fit", never)
    if options[0] != "--class-weight":  # which are checked by the labels of the data
        monkeypatch.setattr(crfqn.cli.training, "prepare_data", never)
    assert_mistake(here(command, "--data", "t.conll", *options), 2, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--on-violation", "drop", "--scheme", "IOB2"), "items break the rules and are left out"),
        (("--once", "b-P"), "do not have are ignored: ['b-P']; did you mean B-P?"),
    ],
)
def test_warnings_have_no_lines_of_source_code(here, folder, options, words):
    for command in ("train", "cv", "path"):
        run = here(command, "--data", "broken.conll", *options, "--threads", 1, "-q")
        lines = run.stderr.splitlines()
        assert run.returncode in (0, 4), run.stderr
        said = [line for line in lines if words in line]
        assert said or command == "path"  # whose held-out item may be the one
        assert all(line.startswith("Warning: ") for line in said)
        assert len(lines) == len({*lines})  # each is said once
        assert not re.search(r"\.py:\d+|warn\w*\(", run.stderr)


def test_a_full_disk_under_the_checkpoint_is_said_once(here, folder, monkeypatch):
    def full(*arguments):
        raise crfqn.errors.ModelFileError("cannot write the checkpoint: No space left on device")

    monkeypatch.setattr("crfqn.estimators.checkpoint.write_model", full)
    run = here(
        "train", "--data", "t.conll", "--checkpoint", "c", "--checkpoint-every", 1, "-o", "m.crfqn", code=0
    )
    assert run.stderr.count("Warning: no checkpoint was written: cannot write") == 1
    assert ".py:" not in run.stderr


def test_the_defaults_of_inspect_are_those_of_the_estimators():
    for kind, name in ESTIMATORS_BY_KIND.items():
        model = getattr(crfqn, name)()
        defaults = inspection.DEFAULT_SETTINGS | inspection.DEFAULTS_OF_KINDS.get(kind, {})
        for parameter, value in getattr(model, "stored_parameters", model.get_params)().items():
            if parameter not in (*inspection.SHOWN_SETTINGS, *inspection.RUN_PARAMETERS):
                assert (value or None) == (defaults.get(parameter) or None), (name, parameter)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--penalty-factors", "w*=2"), "penalty_factors = {'w*': 2.0}"),
        (("--class-weight", "O=0.5"), "class_weight = [['O', 0.5]]"),
        (("--scheme", "IOB2"), "scheme = IOB2"),
        (("--once", "B-P"), "once = ['B-P']"),
        (("--transition-rules", "seen"), "transition_rules = seen"),
        (("--no-all-possible-states",), "all_possible_states = False"),
        (("--group-l1", 0.1), "group_l1 = 0.1"),
        ((), "max_iter = 500"),
    ],
)
def test_inspect_shows_all_settings_that_are_no_defaults(here, folder, options, shown):
    here("train", "--data", "t.conll", *options, "--l1", 0.1, "-o", "m.crfqn", "--threads", 1, "-q")
    text = here("inspect", "m.crfqn", code=0).stdout
    line = next(line for line in text.splitlines() if line.startswith("settings"))
    assert line.endswith(shown)
    settings = json.loads(here("inspect", "m.crfqn", "--json", code=0).stdout)["settings"]
    assert len(settings) == 7 + bool(options)
    assert shown.split(" = ")[0] in here("inspect", "m.crfqn", "--card", code=0).stdout


def test_quiet_commands_print_what_was_asked_for_alone(here, folder):
    train = ("train", "--data", "t.conll", "-o", "m.crfqn", "--threads", 1)
    made = {
        train: 7,
        ("calibrate", "m.crfqn", "t.conll", "-o", "c.crfqn"): 0,
        ("convert", "m.crfqn", "m.json"): 0,
        ("quickstart", "-o", "q.crfqn", "--threads", 1): 8,
    }
    for words, least in made.items():
        run = here(*words, "-q", code=0)
        assert (run.stdout, run.stderr) == ("", ""), words
        assert isinstance(json.loads(here(*words, "-q", "--json", code=0).stdout), dict)
        assert here(*words, code=0).stdout.count("\n") >= least
    for words in (
        ("cv", "--data", "t.conll", "-k", 2),
        ("path", "--data", "t.conll", "--values", 2),
        ("data", "get", "digits"),
    ):
        assert here(*words, "-q", code=0).stdout.strip()


def test_a_table_whose_labels_have_another_name(here, folder):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.read_csv(folder / "other.csv").to_parquet(folder / "other.parquet")
    here("train", "--data", "t.csv", "--structure", "flat", "--label", "kind", "-o", "m.crfqn", "-q", code=0)
    for name in ("other.csv", "other.parquet"):
        for command in (("evaluate", "m.crfqn", name), ("calibrate", "m.crfqn", name, "-o", "c.crfqn")):
            words = ("has no labels to compare with", "its columns are n, size, of", "--label names the one")
            assert_mistake(here(*command), 2, name, *words)
            assert_mistake(
                here(*command, "--label", "off"), 2, "--label off: expected a column", "n, size, of"
            )
            for label in ("of", "3", "-1"):
                here(*command, f"--label={label}", code=0)
        assert (
            "accuracy               1.0000  of 8" in here("evaluate", "m.crfqn", name, "--label", "of").stdout
        )
    here("train", "--data", "t.conll", "-o", "w.crfqn", "-q", code=0)
    here(
        "evaluate",
        "w.crfqn",
        "t.conll",
        "--label",
        "of",
        error="--label of: the place of the labels is fixed",
    )
    here("evaluate", "w.crfqn", "--label", "of", error="name a labelled file")


@pytest.mark.parametrize("name", ["missing", "missing.foo", "sub/missing.conll", "missing.toml"])
@pytest.mark.parametrize("command", ["train", "path", "cv"])
def test_a_missing_file_is_not_called_a_recipe(here, tmp_path, command, name):
    run = here(command, name, error=f"{name}: there is no such file, nor a ready-made model of this name")
    assert f"no recipe {name!r}" not in run.stderr
    assert "--data" in run.stderr
