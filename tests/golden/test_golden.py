"""Nothing that a stored model says has changed, nor a public name, an option or a key of recipes.

`python tests/golden/make.py` says what the files are and makes them anew, where a change is meant.
"""

import json
import shutil
from importlib.metadata import version

import numpy as np
import pytest
from command_line import run_here
from golden_cases import (
    EXPECTED,
    FILES,
    FOLDER,
    MODELS,
    N_BEST,
    TAGGED,
    answers_of,
    as_items,
    as_json,
    commands,
    compat_answers,
    differences,
    opened,
    public_names,
    recipe_keys,
    rendered,
    said,
    tagger_answers,
)

import crfqn.cli.loading
from crfqn import Tagger, interchange
from crfqn.data.model_file import read_model
from crfqn.model.opening import MODEL_CLASSES as PREDICTORS

pytestmark = [
    pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning"),
    pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning"),
]
EXACT, PRINTED = 1e-12, 1.1e-6  # tolerances of what has all digits, and of what is written with six
ITEMS = json.loads((FOLDER / "items.json").read_text(encoding="utf-8"))
COMMANDS = json.loads((FOLDER / "commands.json").read_text(encoding="utf-8"))
LARGEST = 1_500_000  # bytes of all golden files


def path_of(name):
    return MODELS / (name if (MODELS / name).exists() else f"{name}.crfqn")


def expected_of(name):
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def items_of(name):
    return as_items(ITEMS[name]["form"], ITEMS[name]["items"])


def item_of(name, X, i):
    """An item as a tagger takes it: a pair of a dense and a sparse part, of a sparse matrix a row."""
    if ITEMS[name]["form"].startswith("dense"):
        parts = as_items("json", ITEMS[name]["items"])
        sparse = parts["sparse"][i]
        return np.array(parts["dense"][i]), np.array(sparse) if ITEMS[name][
            "form"
        ] == "dense rows" else sparse
    return X[i] if isinstance(X, (list, np.ndarray)) else X[i : i + 1]


def is_labelled_by_numpy(name):
    path = path_of(name)
    return path.suffix == ".crfsuite" or (path.suffix == ".crfqn" and read_model(path).kind in PREDICTORS)


BY_NUMPY = [name for name in ITEMS if is_labelled_by_numpy(name)]


def test_every_model_is_asked():
    asked = {path_of(name).name for name in (*ITEMS, *TAGGED)} | {entry["words"][1] for entry in COMMANDS}
    assert asked == {path.name for path in MODELS.iterdir()}
    assert {path.name for path in EXPECTED.iterdir()} == {f"{name}.json" for name in ITEMS}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < LARGEST


@pytest.mark.parametrize("name", ITEMS)
def test_the_estimator_predicts_the_same(name):
    found = answers_of(opened(path_of(name)), items_of(name))
    assert differences(found, expected_of(name), EXACT) == []


@pytest.mark.parametrize("name", BY_NUMPY)
def test_the_tagger_predicts_the_same(name):
    """All items at once, and each by itself."""
    tagger, X, expected = Tagger(path_of(name)), items_of(name), expected_of(name)
    n_items = len(expected["predict"])
    labels = as_json(tagger.tag_items(X))
    assert labels == expected["predict"]
    assert as_json(tagger.labels()) == expected["classes"]
    if "decode" not in expected:  # no probabilities
        return
    marginals = expected["predict_proba" if "predict_proba" in expected else "predict_marginals"]
    for i in range(n_items):
        tagger.set(item_of(name, X, i))
        assert as_json(tagger.tag()) == labels[i]
        assert differences(as_json(tagger.marginals()), marginals[i], EXACT) == []
        best = as_json(tagger.nbest(n=N_BEST))
        if "predict_nbest" in expected:
            assert differences(best, expected["predict_nbest"][i], EXACT) == []
        assert best[0][0] == labels[i] or isinstance(labels[i], list)
        probability = np.exp(expected["decode"]["log_probability"][i])
        assert differences(best[0][1], float(probability), EXACT) == []
        assert differences(tagger.probability(labels[i]), float(probability), EXACT) == []


@pytest.mark.parametrize("name", TAGGED)
def test_the_tagger_says_the_same_of_texts_and_cells(name):
    expected = json.loads((FOLDER / "taggers.json").read_text(encoding="utf-8"))[name]
    assert differences(tagger_answers(path_of(name), TAGGED[name]), expected, EXACT) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden")
    shutil.copytree(FILES, path, dirs_exist_ok=True)
    shutil.copytree(MODELS, path, dirs_exist_ok=True)
    return path


WAYS = {"by numpy": 10**9, "compiled": -1}
ASKED = {
    f"{' '.join(entry['words'])} {way}": (entry, limit)
    for entry in COMMANDS
    for way, limit in WAYS.items()
    if limit > 0 or entry["words"][0] != "inspect"  # which labels nothing
}


@pytest.mark.parametrize(("entry", "limit"), ASKED.values(), ids=ASKED)
def test_a_command_says_the_same(folder, monkeypatch, entry, limit):
    words = entry["words"]
    monkeypatch.setattr(crfqn.cli.loading, "MAX_NUMPY_POSITIONS", limit)
    run = run_here(monkeypatch, folder, *words)
    assert run.returncode == 0, run.stderr
    tolerance = PRINTED if words[0] == "predict" or "--json" not in words else EXACT
    assert differences(said(run.stdout), entry["said"], tolerance) == []


@pytest.mark.parametrize("name", [name for name in ITEMS if path_of(name).suffix == ".crfqn"])
def test_a_file_that_is_read_is_written_as_it_was(name, tmp_path):
    """Read again and saved, the file has the same content."""
    before, model = read_model(path_of(name)), crfqn.load(path_of(name))
    is_narrow = before.arrays.get("node_weight", np.zeros(1)).dtype == np.float32
    model.save(tmp_path / "again.crfqn", model.extra_, dtype="float32" if is_narrow else "float64")
    after = read_model(tmp_path / "again.crfqn")
    assert (
        differences(
            answers_of(crfqn.load(tmp_path / "again.crfqn"), items_of(name)), expected_of(name), EXACT
        )
        == []
    )
    assert (after.kind, after.strings) == (before.kind, before.strings)
    assert after.arrays.keys() == before.arrays.keys()
    for key, array in before.arrays.items():
        np.testing.assert_array_equal(after.arrays[key], array)


@pytest.mark.parametrize("name", ["chain-dicts", "chain-scheme", "flat-logistic", "taxonomy-paths"])
def test_json_holds_the_same_model(name, tmp_path):
    interchange.write(opened(path_of(name)), tmp_path / "model.json")
    assert (
        differences(answers_of(opened(tmp_path / "model.json"), items_of(name)), expected_of(name), EXACT)
        == []
    )


def test_the_names_of_sklearn_crfsuite_say_the_same():
    expected = json.loads((FOLDER / "compat.json").read_text(encoding="utf-8"))
    found = compat_answers(MODELS / "other-chain.crfsuite", ITEMS["other-chain.crfsuite"]["items"])
    assert differences(found, expected, EXACT) == []
    assert len(expected["predict"]) > 3


def stored(part):
    return json.loads((FOLDER / "names.json").read_text(encoding="utf-8"))[part]


def test_public_names_are_there_as_they_were():
    """Nothing is missing or takes other parameters; what is new stands there when it is made anew."""
    gone = [
        line for line in differences(public_names(), stored("names"), 0.0) if not line.endswith(" is new")
    ]
    assert gone == []


def test_help_says_the_same():
    found = commands()
    assert differences(found, stored("commands"), 0.0) == []
    assert len(found) > 15


def test_recipes_have_the_same_keys():
    assert differences(json.loads(json.dumps(recipe_keys())), stored("recipes"), 0.0) == []


@pytest.mark.parametrize("command", [name.split()[1:] for name in stored("commands")], ids=" ".join)
def test_help_names_every_option(command, monkeypatch, tmp_path):
    run = run_here(monkeypatch, tmp_path, *command, "--help")
    assert run.returncode == 0
    if version("typer") == stored("typer"):  # others break its lines and name its types otherwise
        assert rendered(run.stdout) == stored("help")[" ".join(["crfqn", *command])]
    for option in stored("commands")[" ".join(["crfqn", *command])]["parameters"]:
        assert all(name in run.stdout for name in option["names"] if name.startswith("--"))
