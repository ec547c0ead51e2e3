"""Parameters of the estimators as options of `crfqn train`: each arrives, and wrong ones are refused by name."""

import inspect
import re
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

import crfqn
from crfqn.cli.app import app
from crfqn.parameters import OPTION_NAMES, OPTIONS, PARAMETERS

TRAINED_BY_RECIPES = [
    crfqn.ChainCRF, crfqn.TaxonomyCRF, crfqn.MulticlassCRF, crfqn.MulticlassClassifier, crfqn.MultilabelRanker,
    crfqn.GeneralizedLeastSquares, crfqn.CalibratedLeastSquares, crfqn.StagewiseRegression,
]  # fmt: skip
# Python's alone, or options of other groups: --metric, --scheduler, --worker-timeout, --start, --quiet, and
# those of the data.
NO_OPTIONS = {
    "min_count",
    "callback",
    "dask_client",
    "scoring",
    "verbose",
    "warm_start",
    "taxonomy",
    "labels",
    "separator",
    "worker_timeout",
}
OPTION = {name for names in OPTIONS.values() for name in names}
SPANS = "John B-PER\nSmith I-PER\nsleeps O\n\nMary B-PER\nruns O\n\nLee B-PER\nKing I-PER\neats O\n\n"


@pytest.fixture
def settings_of(monkeypatch):
    """Return the settings that `crfqn train` trains with, given its options; or its exit code and message."""

    def run(*options):
        seen = []
        monkeypatch.setattr(
            "crfqn.cli.training.train_recipe", lambda settings, dev, **others: seen.append(settings | dev)
        )
        result = CliRunner().invoke(app, ["train", "digits", *options], env={"COLUMNS": "300"})
        return seen[0] if result.exit_code == 0 else (result.exit_code, " ".join(result.output.split()))

    return run


def test_every_parameter_of_a_recipes_estimator_is_an_option():
    taken = {name for kind in TRAINED_BY_RECIPES for name in inspect.signature(kind).parameters}
    assert taken - NO_OPTIONS == OPTION | {"patience"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("l1=2", 2.0), ("l1=auto", "auto"), ("l2=0.5", 0.5), ("group_l1=auto", "auto"), ("group_norm=linf", "linf"),
        ("dense_l2=2", 2.0), ("loss=stagewise-regression", "stagewise-regression"), ("penalty=l1/linf", "l1/linf"),
        ("feature_groups=3", 3), ("feature_groups=0,0,1", (0, 0, 1)), ("loss_bound=7", 7.0), ("margin=0.5", 0.5),
        ("link=softmax", "softmax"), ("class_weight=balanced", ["balanced"]), ("threshold=label", "label"), ("cv=3", 3),
        ("scheme=IOB2", "IOB2"), ("transition_rules=seen", "seen"), ("enforce_rules_in=decoding", "decoding"),
        ("on_violation=drop", "drop"), ("solver=owl-qn", "owl-qn"), ("tol=auto", "auto"), ("tol=1e-5", 1e-5),
        ("stop=certificate", "certificate"), ("max_iter=9", 9), ("max_seconds=2.5", 2.5), ("n_threads=2", 2),
        ("random_state=0", 0), ("checkpoint=here", "here"), ("checkpoint_every=5", 5), ("checkpoint_every=2s", "2s"),
        ("early_stopping=true", True), ("early_stopping=auto", "auto"), ("validation_fraction=0.2", 0.2),
        ("n_iter_no_change=3", 3), ("basis=1,2", (1, 2)), ("generator=fourier", "fourier"), ("batch_size=8", 8),
        ("update=logistic", "logistic"), ("n_rounds=2", 2), ("inner_iter=4", 4), ("patience=3", 3),
    ],
)  # fmt: skip
def test_a_value_arrives(settings_of, text, value):
    name, text = text.split("=")
    for option in OPTION_NAMES.get(name, (f"--{name.replace('_', '-')}",)):
        settings = settings_of(option, text)
        assert {key: found for key, found in settings.items() if found is not None} == {name: value}
        assert type(settings[name]) is type(value)


@pytest.mark.parametrize(
    "name", sorted(name for name in OPTION if PARAMETERS[name].expected == "True or False")
)
def test_flags_are_on_and_off_and_else_as_the_recipe_says(settings_of, name):
    option = name.replace("_", "-")
    assert settings_of(f"--{option}")[name] is True
    assert settings_of(f"--no-{option}")[name] is False
    assert settings_of()[name] is None


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--l1", "much", "'auto' or a finite number >= 0, got 'much'"),
        ("--l2", "auto", "a finite number >= 0, got 'auto'"), ("--max-seconds", "0", "a number > 0, got '0'"),
        ("--max-iter", "0", "an integer >= 1, got '0'"), ("--max-iter", "2.5", "an integer >= 1, got '2.5'"),
        ("--penalty", "l9", "one of ['l1/l2', 'l1/linf', 'sparse-group', 'l1', 'elastic-net', 'l2'], got 'l9'"),
        ("--random-state", "1.5", "an integer or a RandomState, got '1.5'"),
        ("--random-state", "-1", "an integer or a RandomState, got '-1'"),
        ("--checkpoint-every", "0s0", 'an integer >= 1 or seconds such as "30s", got'),
        ("--class-weight", "much", "'balanced' or label=weight,label=weight, got 'much'"),
        ("--early-stopping", "perhaps", "'auto' or True or False, got 'perhaps'"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_name(settings_of, option, text, expected):
    code, message = settings_of(option, text)
    assert code == 2
    assert option in message
    assert f"expected {expected}" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--margin", "1"), "margin: .* have none, got 1.0; ChainCRF takes l1, l2, .*scheme, transition_rules, "),
        (("--cv", "3"), "cv: .* have none, got 3; ChainCRF takes "),
        (("--scheme", "IOB3"), "scheme: expected one of IOB1, IOB2, .*, got 'IOB3'"),
        (("--transition-rules", "known"), "transition_rules: expected .*'seen' or None, got 'known'"),
        (("--solver", "newton"), r"solver: expected one of \[.*'auto', .*, got 'newton'"),
    ],
)  # fmt: skip
def test_what_the_estimator_refuses(tmp_path, run, options, message):
    (tmp_path / "names.conll").write_text(SPANS)
    assert re.search(message, run("train", "--data", "names.conll", *options, code=2).stderr)


def test_factors_of_features_come_by_name_and_from_files(tmp_path, settings_of):
    (tmp_path / "factors.txt").write_text("w=the\t2\nbias 0\n\nw=New York 1.5\n")
    settings = settings_of("--penalty-factors", "w=*=0.5", "--penalty-factors", str(tmp_path / "factors.txt"))
    assert settings["penalty_factors"] == [{"w=*": 0.5}, {"w=the": 2.0, "bias": 0.0, "w=New York": 1.5}]
    assert settings_of()["penalty_factors"] is None
    (tmp_path / "wrong.txt").write_text("a 1\nb much\n")
    for text, message in (
        ("wrong.txt", "wrong.txt, line 2: expected a name and its factor, got 'b much'"),
        ("none.txt", "penalty_factors: expected name=factor or a file of factors, got"),
    ):
        code, output = settings_of("--penalty-factors", str(tmp_path / text))
        assert (code, message in output) == (2, True), output


def test_factors_of_recipes_and_options_are_trained_with(tmp_path, run):
    (tmp_path / "names.conll").write_text(SPANS)
    (tmp_path / "texts.csv").write_text("label,text\na,red dog\nb,blue dog\na,red cat\nb,blue cat\n")
    options = ("--l1", 0.1, "-q", "--penalty-factors", "w=*=5", "--penalty-factors", "*:*=100")
    run("train", "--data", "names.conll", "-o", "m.crfqn", *options, code=0)
    model = crfqn.load(tmp_path / "m.crfqn")
    assert model.penalty_factors == {"w=*": 5.0, "*:*": 100.0}
    assert not any(":" in model.feature_names_in_[column] for column in model.model_.kept_features_)
    (tmp_path / "factors.txt").write_text("red 100\n")
    for name, factors, error in (
        ("file", '"factors.txt"', None), ("table", "{ red = 100 }", None),
        ("none", '"none"', "expected name=factor or a file of factors"),
        ("new", "{ green = 2 }", "got 'green', which no feature has"),
    ):  # fmt: skip
        (tmp_path / f"{name}.toml").write_text(
            'name = "t"\ntitle = "t"\n[data]\ntrain = "texts.csv"\n[features]\nkind = "text"\n[structure]\n'
            f'kind = "flat"\n[objective]\nl1 = 0.1\npenalty_factors = {factors}\n'
        )
        done = run("train", f"{name}.toml", "-o", f"{name}.crfqn", "-q", error=error)
        assert error is not None or done.returncode == 0, done.stderr
    first, second = (crfqn.load(tmp_path / f"{name}.crfqn") for name in ("file", "table"))
    assert first.penalty_factors == second.penalty_factors == [1.0, 1.0, 1.0, 100.0]
    assert 3 not in first.kept_features_


def test_parameters_of_a_taxonomy_are_those_of_the_recipe(tmp_path, run):
    (tmp_path / "shop.txt").write_text("a\tred\na.b\tgreen\na.c\tblue\nd\tred green\n")
    flat = ("train", "--data", "shop.txt", "--format", "text")
    tree = (*flat, "--structure", "taxonomy", "--separator", ".")
    run(*tree, error="the label 'a' is an inner node")
    run(*tree, "--labels", "nodes", "-q", "--l1", 0.1, "-o", "m.crfqn", code=0)
    model = crfqn.load(tmp_path / "m.crfqn")
    assert (model.labels, model.separator) == ("nodes", ".")
    assert {"a", "a.b", "a.c", "d"} <= {*model.tree_.names}
    run(*flat, "--labels", "nodes", error="does not take --labels nodes")


def test_inspect_shows_the_solver_with_its_settings(tmp_path, run):
    (tmp_path / "names.conll").write_text(SPANS)
    (tmp_path / "recipe.toml").write_text(
        'name = "n"\ntitle = "N"\n[data]\ntrain = "names.conll"\n[features]\nkind = "words"\n[objective]\nl1 = 0.1\n'
        '[solver]\nname = "owl-qn"\n[solver.settings]\nmemory = 3\n'
    )
    run("train", "recipe.toml", "-q", "-o", "m.crfqn", code=0)
    assert "solver = OWLQN(memory=3," in run("inspect", "m.crfqn").stdout


@pytest.mark.parametrize("solver", ["averaged-perceptron", "passive-aggressive", "arow"])
def test_strengths_that_a_solver_does_not_use_are_not_shown(tmp_path, run, solver):
    (tmp_path / "train.txt").write_text(SPANS)
    (tmp_path / "own.toml").write_text(
        f'name = "n"\ntitle = "N"\n[data]\ntrain = "train.txt"\n[features]\nkind = "words"\n'
        f'[solver]\nname = "{solver}"\n'
    )
    done = run("train", "own.toml", "-o", "m.crfqn", code=0)
    output = done.stdout + done.stderr
    assert "learns from its mistakes, without a penalty" in output
    assert not any(words in output for words in ("l1 = ", "tol = ", "strengths"))


def test_rules_and_solver_of_the_command_line_are_those_of_python(tmp_path, run):
    (tmp_path / "names.conll").write_text(SPANS)
    options = (
        "--l1 0.1 --scheme IOB2 --transition-rules seen --solver owl-qn --max-seconds 600 --quiet -o m.crfqn"
    )
    run("train", "--data", "names.conll", *options.split(), code=0)
    model = crfqn.load(tmp_path / "m.crfqn")
    assert (model.scheme, model.transition_rules, model.solver) == ("IOB2", "seen", "owl-qn")
    assert model.max_seconds == 600
    assert run("predict", "m.crfqn", input="Smith\nSmith\n\n").stdout.split()[0] != "I-PER"


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--c1", "expected --l1 (l1, the same number)"), ("--n-jobs", "expected --threads"),
        ("--min-freq", "expected --min-count"), ("--scoring", "expected --metric"),
        ("--warm_start", "expected --start"), ("--schem", "did you mean --scheme"),
        ("--max-secs", "did you mean --max-time"), ("--qwzx", "crfqn train --help lists all"),
    ],
)  # fmt: skip
def test_an_option_that_there_is_not_gets_a_hint(settings_of, option, hint):
    for given in ((option, "1"), (f"{option}=1",)):
        code, message = settings_of(*given)
        assert code == 2
        assert f"no option {option}; {hint}" in message


def test_the_help_has_the_dozen_first_and_groups(monkeypatch):
    text = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "160"}).output
    panels = re.findall(r"─ ([A-Z][^─]*) ─", text)
    assert panels[:2] == ["Arguments", "Options"]
    assert [*OPTIONS][1:] == [panel for panel in panels if panel in OPTIONS]
    first = text[text.index("─ Options ─") : text.index(f"─ {panels[2]} ─")]
    options = re.findall(r"^│ (--[\w-]+)", first, re.M)
    assert len(options) == 13  # --help among them
    assert {"--data", "--test", "--dev", "--output", "--l1", "--l2", "--max-time", "--quiet"} < {*options}
    assert len(set(re.findall(r"^│ (--[\w-]+)", text, re.M))) > 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--worker-timeout", "-1"], "'--worker-timeout': expected a number >= 0, got '-1'"),
        (["--worker-timeout", "soon"], "'--worker-timeout': expected a number >= 0, got 'soon'"),
        (["--worker-timeout", "nan"], "'--worker-timeout': expected a number >= 0, got 'nan'"),
        (["--worker-timeout", "5"], "--worker-timeout: expected with --scheduler or --workers"),
    ],
)
def test_a_wait_for_workers_that_cannot_be_is_refused(options, message):
    result = CliRunner().invoke(app, ["train", "models/digits", *options], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_the_wait_for_workers_arrives(monkeypatch):
    settings = []
    monkeypatch.setattr("crfqn.cli.training.cluster_of", lambda options: nullcontext())
    monkeypatch.setattr("crfqn.cli.training._fit_and_save", lambda *args, **how: settings.append(args[3]))
    assert (
        CliRunner().invoke(app, ["train", "digits", "--workers", "2", "--worker-timeout", "7.5"]).exit_code
        == 0
    )
    assert settings[0]["worker_timeout"] == 7.5
