"""Recipes: found by name and path, checked key by key, and turned into matrices, from a wheel too."""

import gzip
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from crfqn.datasets import list_datasets
from crfqn.errors import CrfqnError, DataError, DataUnavailableError, InputError, RecipeError
from crfqn.readers.datasets import bundled
from crfqn.readers.images import make_digit_strings
from crfqn.recipes import build_estimator, find_recipe, list_recipes, load_recipe, observe, prepare_data
from crfqn.recipes.finding import skeleton
from crfqn.recipes.schema import parse_recipe

RECIPES = [
    *("banking77", "btc", "conll2000", "digits", "dutch-upos", "dutch-xpos", "imageclef", "lshtc1"),
    *("lshtc1-task1", "mnist", "newsgroups", "newsgroups-flat", "ocr"),
    *("probablepeople-company", "probablepeople-person", "stdlib", "stdlib-flat"),
]
ROOT = Path(__file__).resolve().parents[2]
DIGITS = """
name = "mine"
title = "Mine"
[data]
dataset = "digits"
[features]
kind = "pixel-pairs"
threshold = 8
[objective]
l1 = 2
"""
ATTRIBUTES = """
name = "mine"
title = "Mine"
[data]
train = "train.txt"
test = "test.txt"
[features]
kind = "attributes"
"""


@pytest.fixture
def recipe_file(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "mine" / "recipe.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_found_by_name_and_by_path(monkeypatch, tmp_path, recipe_file):
    assert list_recipes() == RECIPES
    path = recipe_file(DIGITS)
    monkeypatch.chdir(tmp_path)
    for name in ("ocr", "models/ocr", Path("models/ocr"), "models/ocr/"):
        assert find_recipe(name) == bundled("models") / "ocr" / "recipe.toml"
    assert find_recipe("mine") == Path("mine/recipe.toml")
    assert find_recipe(path) == path
    (tmp_path / "ocr").mkdir()  # a folder of that name, perhaps with the data
    assert find_recipe("ocr") == bundled("models") / "ocr" / "recipe.toml"


@pytest.mark.parametrize("name", ["orc", "elsewhere/ocr", "", "models"])
def test_unknown_recipes_list_the_known(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=f"ready-made models: {', '.join(RECIPES)}$"):
        find_recipe(name)


@pytest.mark.parametrize("name", RECIPES)
def test_ready_made_recipes_survive_json(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.output_path == Path(f"{name}.crfqn")
    assert parse_recipe(json.loads(json.dumps(recipe.as_dict())), recipe.source) == recipe
    assert (ROOT / "models" / name / "README.md").is_file()


def test_attribute_recipes_survive_json(recipe_file):
    recipe = load_recipe(recipe_file(ATTRIBUTES + "[solver]\nmetric = 'identity'\nn_threads = 2"))
    assert recipe.solver.settings == {"metric": "identity", "n_threads": 2}
    assert parse_recipe(json.loads(json.dumps(recipe.as_dict())), recipe.source) == recipe


BAD = [
    (DIGITS.replace("l1 =", "lambda ="), r"\[objective\] has an unknown key: lambda = 2; allowed: l1, l2"),
    (DIGITS.replace("threshold", "treshold"), r"treshold = 8 \(did you mean threshold\?\)"),
    (DIGITS + "[penalty]\nl1 = 1", "the recipe has an unknown key: penalty = .*; allowed: name, title, data"),
    (DIGITS.replace("l1 = 2", 'l1 = "2"'), r'\[objective\] l1 = "2": expected "auto" or number >= 0'),
    (DIGITS.replace("l1 = 2", "l1 = -2"), r'\[objective\] l1 = -2: expected "auto" or number >= 0'),
    (DIGITS.replace("l1 = 2", "l1 = nan"), r'\[objective\] l1 = nan: expected "auto" or number >= 0'),
    (DIGITS.replace("l1 = 2", "l1 = true"), r"\[objective\] l1 = true: expected .auto. or number"),
    (DIGITS + "[solver]\ntol = 0", r"\[solver\] tol = 0: expected \"auto\" or number > 0"),
    (DIGITS + "[solver]\nmax_iter = 2.5", r"\[solver\] max_iter = 2.5: expected integer >= 1"),
    (DIGITS + "[solver]\nspeed = [1]", r"\[solver\] speed = \[1\]: expected a number, a text, true or false"),
    (DIGITS + "[structure]\nkind = 'tree'", r'\[structure\] kind = "tree": expected one of "chain"'),
    (DIGITS.replace("threshold = 8", "bias = 1"), r"\[features\] bias = 1: expected true or false"),
    (
        DIGITS.replace('kind = "pixel-pairs"', ""),
        r'\[features\] lacks the key kind: expected one of "pixel-pairs"',
    ),
    (
        DIGITS.replace('"pixel-pairs"', '"attributes"'),
        r"the dataset 'digits' has images; use \"pixel-pairs\"",
    ),
    (DIGITS.replace('name = "mine"', ""), "expected name = a text that is not empty, got nothing"),
    (
        DIGITS.replace("[objective]\nl1 = 2", "") + "[[objective]]\nl1 = 2",
        r"expected a section \[objective\]",
    ),
    (DIGITS + "[data.split]\nkind = 'permutation'\nseed = 0", r"\[data.split\] .*needs seed and train"),
    (DIGITS + "[data.split]\nkind = 'given'\nseed = 0", r'seed and train belong to kind = "permutation"'),
    (DIGITS + "[data.split]\nkind = 'permutation'\nseed = -1\ntrain = 5", "seed = -1: expected integer >= 0"),
    (DIGITS + "[data.split]\nkind = 'random'", 'kind = "random": expected one of "permutation", "given"'),
    (DIGITS.replace('dataset = "digits"', ""), r"\[data\] needs either dataset, or train"),
    (ATTRIBUTES.replace('train = "train.txt"', ""), r"\[data\] has a test file and no train"),
    (ATTRIBUTES + "threshold = 3", r"unknown key: threshold = 3; allowed: kind"),
    (
        ATTRIBUTES.replace('"attributes"', '"pixel-pairs"'),
        r"text files name their attributes; use \"attributes\"",
    ),
    ("name = ", "cannot be read as TOML"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_recipes_say_where_what_and_what_is_allowed(recipe_file, text, message):
    path = recipe_file(text)
    with pytest.raises(RecipeError, match=message) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(str(path))


def test_digits_are_prepared():
    data = prepare_data(load_recipe("digits"))
    assert (len(data.X_train), len(data.y_train)) == (1500, 1500)
    assert (len(data.X_test), len(data.y_test)) == (300, 300)
    assert data.X_train.n_features == 64 + 64 * 63 // 2 + 1
    assert data.X_train.lengths.tolist() == [len(labels) for labels in data.y_train]
    assert data.feature_names is not None
    assert data.feature_names[-1] == "bias"
    labeled = make_digit_strings()
    assert data.fingerprint == labeled.digest()
    np.testing.assert_array_equal(data.X_test[3].toarray()[:, :64], labeled.inputs[1503] >= 8)


def test_a_permutation_cuts_items(recipe_file):
    text = DIGITS + "[data.split]\nkind = 'permutation'\nseed = 5\ntrain = {}"
    data = prepare_data(load_recipe(recipe_file(text.format(1700))))
    order = np.random.RandomState(5).permutation(1800)
    labels = make_digit_strings().labels
    assert data.y_train == [labels[item] for item in order[:1700]]
    assert data.y_test == [labels[item] for item in order[1700:]]
    with pytest.raises(RecipeError, match=r"\[data.split\] train = 1800: expected 1 to 1799"):
        prepare_data(load_recipe(recipe_file(text.format(1800))))


def test_unknown_datasets_and_splits_that_are_not_there(recipe_file, monkeypatch, tmp_path):
    with pytest.raises(RecipeError, match=r"recipe\.toml: \[data\] dataset: there is no dataset 'digit'"):
        prepare_data(load_recipe(recipe_file(DIGITS.replace("digits", "digit"))))
    labeled = make_digit_strings(3, 2)
    monkeypatch.setattr(
        "crfqn.datasets.Dataset.load", lambda self: type(labeled)(labeled.inputs, labeled.labels)
    )
    with pytest.raises(RecipeError, match="has no split"):
        prepare_data(load_recipe(recipe_file(DIGITS)))


def test_missing_data_says_how_to_go_on(monkeypatch, tmp_path):
    monkeypatch.setenv("CRFQN_CACHE", str(tmp_path))
    monkeypatch.delenv("CRFQN_DATA", raising=False)
    with pytest.raises(DataUnavailableError) as caught:
        prepare_data(load_recipe("models/ocr"))
    for part in ("crfqn data get ocr", "CRFQN_DATA", "letter.data.gz", "crfqn train models/digits"):
        assert part in str(caught.value)


def test_attribute_files_beside_the_recipe(recipe_file, tmp_path):
    path = recipe_file(ATTRIBUTES)
    with pytest.raises(DataError, match="no such file"):
        prepare_data(load_recipe(path))
    (path.parent / "train.txt").write_text("A\tx\nB\ty:2\n\nA\tx\n")
    (path.parent / "test.txt").write_text("B\ty\n")
    recipe = load_recipe(path)
    data = prepare_data(recipe)
    assert (data.X_train, data.y_train) == ([[{"x": 1.0}, {"y": 2.0}], [{"x": 1.0}]], [["A", "B"], ["A"]])
    assert (data.X_test, data.y_test, data.feature_names) == ([[{"y": 1.0}]], [["B"]], None)
    assert observe(recipe).y == [["B"]]
    (path.parent / "train.txt").write_text("A\tx\n\tx\n")
    with pytest.raises(DataError, match=r"train\.txt, line 2: no label; expected"):
        prepare_data(recipe)


@pytest.mark.parametrize(
    ("text", "train", "message"),
    [
        (ATTRIBUTES, "A\tx\n\n\n\tx\n", r"train\.txt, line 4: no label; expected label TAB attribute"),
        (ATTRIBUTES.replace('"attributes"', '"windows"'), "the DT B\ndog NN\n",
            r"train\.txt, line 2: no label; expected `w pos label`$"),
    ],
)  # fmt: skip
def test_positions_without_a_label_are_named(recipe_file, tmp_path, text, train, message):
    path = recipe_file(text)
    for name in ("train.txt", "test.txt"):
        (path.parent / name).write_text(train)
    with pytest.raises(DataError, match=message):
        prepare_data(load_recipe(path))


def test_new_files_get_the_same_features(tmp_path):
    recipe = load_recipe("digits")
    images, labels = make_digit_strings(1, 0).inputs[0], make_digit_strings(1, 0).labels[0]
    rows, lines = [], []
    for t, (image, label) in enumerate(zip(images, labels, strict=True)):
        following = -1 if t + 1 == len(labels) else t + 1
        rows.append("\t".join([str(t), label, str(following), "0", str(t), "0", *map(str, image)]))
        values = [f"p{p // 8}_{p % 8}:{value}" for p, value in enumerate(image) if value]
        lines.append("\t".join([label, *values]))
    table, text = tmp_path / "new.gz", tmp_path / "new.txt"
    table.write_bytes(gzip.compress("\n".join(rows).encode()))
    text.write_text("\n".join(lines))
    expected = prepare_data(recipe).X_train[0]
    for path in (table, text):
        observed = observe(recipe, path)
        assert observed.y == [labels]
        assert observed.X.feature_names[-1] == "bias"
        assert (observed.X[0] != expected).nnz == 0
    text.write_text("\n".join("\t" + line.split("\t", 1)[1] for line in lines))
    assert observe(recipe, text).y is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tp0_0\n1\tp9_0\n", "line 2: 'p9_0' is not a pixel; expected p<row>_<column> within 8x8"),
        ("1\tp0_0\n\tp1_0\n", "no label, as at 1 of 2 positions|1 of 2 positions have no label"),
        ("1\ta\t-1\t1\t1\t0\t0\t1\n", r"line 1: expected 70 columns \(64 of them pixels\), got 8"),
    ],
)
def test_files_that_do_not_fit_the_recipe(tmp_path, text, message):
    path = tmp_path / "new.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        observe(load_recipe("digits"), path)


def test_the_estimator_takes_the_settings(recipe_file):
    pytest.importorskip("crfqn.estimators.chain")
    recipe = load_recipe(recipe_file(DIGITS + "[solver]\ntol = 1e-2\nn_threads = 1"))
    estimator = build_estimator(recipe, max_iter=7, l1=None)
    settings = estimator.get_params()
    assert (settings["l1"], settings["tol"], settings["n_threads"], settings["max_iter"]) == (2.0, 1e-2, 1, 7)
    recipe = load_recipe(recipe_file(DIGITS + "[solver]\nspeed = 3"))
    with pytest.raises(RecipeError, match=r"\[solver\] has an unknown key: speed; allowed: name, "):
        build_estimator(recipe)


SOLVER = "[solver]\nname = 'prox-qn'\n[solver.settings]\nmemory = 20\n[solver.settings.entry]\nmost = 7\n"


def test_settings_of_the_solver(recipe_file):
    recipe = load_recipe(recipe_file(DIGITS + SOLVER))
    assert parse_recipe(json.loads(json.dumps(recipe.as_dict())), recipe.source) == recipe
    model = build_estimator(recipe)
    assert (type(model.solver).__name__, model.solver.memory, model.solver.entry.most) == ("ProxQN", 20, 7)
    assert (model.solver.entry.excluded_fraction, model.solver.cooling) == (0.5, 0.1)  # the defaults
    assert build_estimator(recipe, solver="owl-qn").solver == "owl-qn"
    sgd = SOLVER.replace("prox-qn", "sgd").split("memory")[0] + "eta0 = 1\ncalibration_items = 5"
    seeds = [
        build_estimator(load_recipe(recipe_file(DIGITS + sgd)), random_state=s).solver.random_state
        for s in (1, 1, 2)
    ]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("memory = 20", "memry = 20", r"\[solver\.settings\] has an unknown key: memry = 20 \(did you mean memory"),
        ("memory = 20", "memory = 0", r"\[solver\.settings\] memory"),
        ("memory = 20", "memory = 2.5", r"\[solver\.settings\] memory = 2\.5: expected integer"),
        ("memory = 20", "memory = true", r"\[solver\.settings\] memory = true: expected integer"),
        ("memory = 20", "entry = 3", r"\[solver\.settings\] entry = 3: expected a section \[solver\.settings\.entry\]"),
        ("most = 7", "least = 7", r"entry\] has an unknown key: least = 7.*allowed: most, excluded_fraction"),
        ("'prox-qn'", "'auto'", r"\[solver\.settings\] needs \[solver\] name, .*expected .*prox-qn, "),
        ("'prox-qn'", "'newton'", "solver: expected one of .*, got 'newton'"),
    ],
)  # fmt: skip
def test_wrong_settings_of_the_solver_are_named(recipe_file, right, wrong, message):
    text = SOLVER.replace(right, wrong)
    if wrong == "entry = 3":
        text = text.split("[solver.settings.entry]")[0]
    with pytest.raises(CrfqnError, match=message):
        build_estimator(load_recipe(recipe_file(DIGITS + text)))


def test_settings_of_the_solver_are_a_section(recipe_file):
    with pytest.raises(RecipeError, match=r"expected a section \[solver\.settings\], got 3"):
        load_recipe(recipe_file(DIGITS + "[solver]\nsettings = 3"))


def test_recipes_travel_in_the_wheel(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        "import crfqn.datasets as d, crfqn.recipes as r; r.load_recipe('models/ocr');"
        "print(r.find_recipe('digits'), len(d.list_datasets()), *r.list_recipes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [
        str(site / "crfqn" / "_bundled" / "models" / "digits" / "recipe.toml"),
        str(len(list_datasets())),
        *RECIPES,
    ]


REAL_DATA = os.environ.get("CRFQN_DATA")


@pytest.mark.skipif(not REAL_DATA, reason="CRFQN_DATA names no folder with the real files")
def test_real_letters_are_prepared():
    data = prepare_data(load_recipe("models/ocr"))
    assert (len(data.X_train), len(data.X_test), data.X_train.n_features) == (6216, 661, 8257)
    assert data.X_train.n_positions + data.X_test.n_positions == 52152


class TestSkeleton:
    @pytest.mark.parametrize("structure", ["chain", "taxonomy", "flat", "ranking"])
    def test_it_is_a_recipe_with_and_without_its_comments(self, structure):
        text = skeleton(structure)
        assert parse_recipe(tomllib.loads(text)).structure.kind == structure
        keys = re.findall(r"^# (\w+ = (?!\.\.\.).*)$", text, re.M)
        assert keys
        for key in keys:
            if key not in ('dataset = ""', 'path = ""'):
                assert parse_recipe(tomllib.loads(text.replace(f"# {key}", key))).structure.kind == structure

    def test_every_key_says_what_it_means(self):
        lines = skeleton("ranking").splitlines()
        meanings = [before for before, line in pairwise(lines) if re.match(r"(# )?\w+ = ", line)]
        assert all(re.match(r"# \w+", meaning) and " = " not in meaning for meaning in meanings[2:])

    def test_unknown_kinds_are_named(self):
        with pytest.raises(InputError, match="expected one of chain, taxonomy, flat, ranking, got 'tree'"):
            skeleton("tree")
