"""`crfqn predict` and `evaluate` by numpy alone and by compiled code: the same bytes; what the first one imports."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from command_line import run_here

import crfqn.cli.inspection
import crfqn.cli.loading
from crfqn import ChainCRF, MulticlassCRF, MultilabelRanker, Tagger, TaxonomyCRF, Templates
from crfqn.errors import UnknownFeaturesWarning
from crfqn.solvers.prox_qn import ProxQN

HEAVY = ("scipy", "sklearn", "numba", "pandas", "networkx", "ssl")
WORDS = ["the", "dog", "sees", "Rome", "and", "a", "cat", "of", "Oslo", "by", "the", "sea"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of windows over words, one of attributes under rules, and files for both."""
    folder, random = tmp_path_factory.mktemp("light"), np.random.default_rng(0)
    items = [list(random.choice(WORDS, random.integers(1, 9))) for _ in range(60)]
    y = [["B-LOC" if word[0].isupper() or random.random() < 0.1 else "O" for word in item] for item in items]
    windows = Templates(windows="w[-1] w[0] w[1]", columns=("w",))
    X = windows.fit_transform([[[word] for word in item] for item in items])
    ChainCRF(l1=0.1, n_threads=1).fit(X, y).save(folder / "words.crfqn")
    attributes = [[[f"w={word}", f"l={len(word)}"] for word in item] for item in items]
    ruled = ChainCRF(l1=0.1, scheme="IOB2", n_threads=1)
    ruled.fit(attributes, y).save(folder / "attributes.crfqn")
    pairs = [[*zip(labels, item, strict=True)] for labels, item in zip(y, items, strict=True)]
    for name, row in (("attributes.txt", "{0}\tw={1}\tl={2}"), ("words.conll", "{1} {0}")):
        lines = ["\n".join(row.format(label, word, len(word)) for label, word in pair) for pair in pairs]
        (folder / name).write_text("\n\n".join(lines) + "\n")
    return folder


def test_columns_of_words_are_no_features(folder, monkeypatch, tmp_path):
    tabs = tmp_path / "tabs.conll"
    tabs.write_text("Rome\tB-LOC\n")
    for source, shown in (("words.conll", "words.conll"), (tabs, tabs), ("-", "standard input")):
        run = run_here(monkeypatch, folder, "predict", "attributes.crfqn", source, input="Rome B-LOC\n")
        assert (run.returncode, run.stdout) == (2, "")
        assert "attributes.crfqn: takes features" in run.stderr
        assert f"{shown} has columns of words" in run.stderr


@pytest.mark.parametrize(
    ("model", "source", "options"),
    [
        ("words", "words.conll", []),
        ("words", "words.conll", ["--marginals", "--score"]),
        ("words", "words.conll", ["--json", "--marginals", "--score"]),
        ("words", "words.conll", ["--to", "conll"]),
        ("attributes", "attributes.txt", ["--marginals", "--score"]),
        ("attributes", "attributes.txt", ["--to", "jsonl"]),
    ],
)
def test_the_same_bytes_either_way(folder, monkeypatch, model, source, options):
    written = []
    for limit in (10**9, 100, -1):  # numpy alone, numpy at first, compiled
        monkeypatch.setattr(crfqn.cli.loading, "MAX_NUMPY_POSITIONS", limit)
        for command in (
            ["predict", f"{model}.crfqn", source, *options],
            ["evaluate", f"{model}.crfqn", source],
        ):
            run = run_here(monkeypatch, folder, *command, code=0)
            written.append((run.stdout, run.stderr))
    assert written[0][0].count("\n") >= 60
    assert written[:2] == written[2:4] == written[4:]


def runs_of_places(labels):
    return sum(b == "B-LOC" != a for a, b in pairwise(["O", *labels]))


def labels_of(text, options):
    """Return the labels of each item, or labelling, in what `predict` has written."""
    if "--json" in options or "jsonl" in options:
        items = [json.loads(line) for line in text.splitlines()]
        return [item.get("predicted", item.get("labels")) for item in items] + [
            one["labels"] for item in items for one in item.get("nbest", ())
        ]
    column = -1 if "--to" in options else 0
    items = [[line.split() for line in item.split("\n")] for item in text.rstrip("\n").split("\n\n")]
    return [[line[column] for line in item if not line[0].startswith("@")] for item in items]


@pytest.mark.parametrize("limit", [10**9, -1])  # numpy alone, compiled
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--score", "--marginals"],
        ["--threshold", "0"],
        ["--n-best", "3"],
        ["--json", "--n-best", "3", "--score"],
        ["--to", "conll"],
        ["--to", "jsonl"],
    ],
    ids=" ".join,
)
def test_every_output_keeps_the_rule_of_single_runs(folder, monkeypatch, options, limit):
    monkeypatch.setattr(crfqn.cli.loading, "MAX_NUMPY_POSITIONS", limit)
    command = ["predict", "words.crfqn", "words.conll", *options]
    free = labels_of(run_here(monkeypatch, folder, *command, code=0).stdout, options)
    kept = labels_of(run_here(monkeypatch, folder, *command, "--once", "B-LOC", code=0).stdout, options)
    assert max(map(runs_of_places, free)) > 1 == max(map(runs_of_places, kept))
    run = run_here(monkeypatch, folder, *command, "--once", "PER")
    assert (run.returncode, run.stdout) == (2, "")
    assert "once: expected labels of the model, got ['PER']" in run.stderr


def test_many_positions_go_to_the_estimator(folder, monkeypatch):
    labeller = crfqn.cli.loading.Labeller(folder / "attributes.crfqn")
    monkeypatch.setattr(crfqn.cli.loading, "MAX_NUMPY_POSITIONS", 5)
    assert not isinstance(labeller.model_for([[["a"]] * 3]), ChainCRF)
    assert isinstance(labeller.model_for([[["a"]] * 3]), ChainCRF)


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "words.crfqn", "words.conll", "--marginals"],
        ["predict", "attributes.crfqn", "attributes.txt", "--to", "jsonl"],
        ["evaluate", "words.crfqn", "words.conll"],
        ["train", "--help"],
        ["inspect", "attributes.crfqn"],
    ],
)
def test_nothing_heavy_is_imported(folder, arguments):
    heavy = HEAVY[1:] if arguments[0] == "inspect" else HEAVY  # it has sparse matrices
    script = (
        "import sys; from crfqn.cli import main\n"
        f"sys.argv = ['crfqn', *{arguments}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*(name for name in {heavy} if name in sys.modules), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    assert run.stderr == "\n"


@pytest.mark.parametrize("kind", ["chain", "flat", "taxonomy", "ranking", "solver"])
def test_inspect_says_what_the_estimator_says(folder, tmp_path, monkeypatch, kind):
    random = np.random.default_rng(2)
    X, y = random.normal(size=(40, 5)), random.integers(0, 3, 40)
    path = tmp_path / "model.crfqn"
    if kind == "chain":
        path.write_bytes((folder / "attributes.crfqn").read_bytes())
    elif kind == "taxonomy":
        TaxonomyCRF(l1=0.1, n_threads=1).fit(X, np.array(["a/x", "a/y", "b"])[y]).save(path)
    elif kind == "ranking":
        MultilabelRanker(n_threads=1).fit(X, [{int(k)} for k in y]).save(path)
    else:
        solver = ProxQN() if kind == "solver" else "auto"
        MulticlassCRF(n_threads=1, solver=solver).fit(X, y).save(path)
    found = []
    for is_light in (True, False):
        if not is_light:
            monkeypatch.setattr(crfqn.cli.inspection, "MODEL_CLASSES", {})
        for options in ([], ["--json"]):
            run = run_here(monkeypatch, tmp_path, "inspect", "model.crfqn", *options, code=0)
            found.append(run.stdout)
    assert found[:2] == found[2:]


def test_texts(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    lines = [
        f"{k}\t{' '.join(random.choice([*'abcdef'], 3))} {'xyz'[k]}{k}" for k in random.integers(0, 3, 60)
    ]
    (tmp_path / "texts.tsv").write_text("\n".join(lines) + "\n")
    train = ["train", "--data", "texts.tsv", "--format", "text", "--structure", "flat", "-o", "m.crfqn"]
    assert run_here(monkeypatch, tmp_path, *train).returncode == 0
    written = []
    for limit in (10**9, -1):
        monkeypatch.setattr(crfqn.cli.loading, "MAX_NUMPY_POSITIONS", limit)
        given = ["predict", "m.crfqn", "texts.tsv", "--top", "2", "--score"]
        written.append(run_here(monkeypatch, tmp_path, *given).stdout)
    assert written[0] == written[1] != ""
    tagger, texts = Tagger(tmp_path / "m.crfqn"), [line.split("\t")[1] for line in lines]
    assert tagger.tag_items(texts) == [line.split("\t")[1] for line in written[0].splitlines()]
    best, probability = written[0].splitlines()[0].split("\t")[2].split(":")
    assert tagger.nbest(texts[0], 1) == [(best, pytest.approx(float(probability), abs=1e-6))]
    with pytest.warns(UnknownFeaturesWarning):
        tagger.tag("nothing known")
