"""Make the golden files: `python tests/golden/make.py` makes all, `make.py expected` only what stored models say.

Models are small, of made-up items, and trained here once; what they predict is written with all digits. The files
change only where what crfqn says of a stored model is meant to change, and a commit that does it gives the reason.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
    Templates,
    Transitions,
    interchange,
)

sys.path[:0] = [str(Path(__file__).parents[1] / "references"), str(Path(__file__).parents[1] / "interchange")]

import test_text_models as other_tools  # noqa: E402
from command_line import run_here  # noqa: E402
from golden_cases import (  # noqa: E402
    EXPECTED,
    FILES,
    FOLDER,
    MODELS,
    TAGGED,
    answers_of,
    as_items,
    as_json,
    commands,
    compat_answers,
    opened,
    public_names,
    recipe_keys,
    rendered,
    said,
    tagger_answers,
)

COMPAT = "other-chain.crfsuite"
RANDOM = np.random.default_rng(20)
WORDS = [
    "the",
    "dog",
    "sees",
    "a",
    "cat",
    "Ann",
    "Lee",
    "in",
    "New",
    "York",
    "é\u0301tude",
    "हिन्दी",
    "runs",
    "3.14",
]
NAMES = {"Ann": "PER", "Lee": "PER", "New": "LOC", "York": "LOC"}
NEW_WORDS = ["unseen", *WORDS]
N_FEATURES = 6


def sentences(n: int, words: list[str]) -> list[list[str]]:
    return [RANDOM.choice(words, RANDOM.integers(1, 7)).tolist() for _ in range(n)]


def tags(sentence: list[str]) -> list[str]:
    """Labels with some noise: IOB2, whatever is next to what."""
    found: list[str] = []
    for word in sentence:
        kind = NAMES.get(word) if RANDOM.random() < 0.9 else "PER"
        is_inside = kind is not None and bool(found) and found[-1].endswith(kind) and RANDOM.random() < 0.8
        found.append("O" if kind is None else f"{'I' if is_inside else 'B'}-{kind}")
    return found


TRAIN, NEW = sentences(24, WORDS), sentences(6, NEW_WORDS)
TAGS = [tags(sentence) for sentence in TRAIN]


def dicts(sentence: list[str]) -> list[dict[str, Any]]:
    return [
        {"w": word, "title": word.istitle(), "size": len(word) / 3, "at": {"first": t == 0}, "bias": 1}
        for t, word in enumerate(sentence)
    ]


def strings(sentence: list[str]) -> list[list[str]]:
    return [[f"w={word}", f"s={word[-1]}", *["twice"] * 2] for word in sentence]


def columns(sentence: list[str]) -> list[dict[str, str]]:
    return [{"w": word, "pos": word[:1]} for word in sentence]


def arrays(sentence: list[str]) -> list[list[float]]:
    return [[0.7 * (word == other) + 0.1 * (word[0] == other[0]) for other in WORDS] for word in sentence]


def dense(sentence: list[str]) -> list[list[float]]:
    return [[len(word) / 4, float(word.islower())] for word in sentence]


Items = list[Any]
Made = tuple[Any, str, Any]  # a fitted estimator, the form of items, and items as JSON has them


def chain(form: Callable[[list[str]], Any], shape: str = "json", labels: Any = TAGS, **settings: Any) -> Made:
    X = as_items(shape, [form(sentence) for sentence in TRAIN])
    model = ChainCRF(**{"l1": 0.1, "n_threads": 1, **settings}).fit(X, labels)
    return model, shape, [form(sentence) for sentence in NEW]


def templates(**settings: Any) -> Made:
    scheme = settings.pop("scheme", None)
    given = Templates(columns=("w", "pos"), **settings)
    X = given.fit_transform([columns(sentence) for sentence in TRAIN])
    model = ChainCRF(l1=0.1, n_threads=1, scheme=scheme).fit(X, TAGS)
    return model, "json", [columns(sentence) for sentence in NEW]


def beside(part: list[list[str]]) -> dict[str, Any]:
    return {
        "dense": [dense(sentence) for sentence in part],
        "sparse": [strings(sentence) for sentence in part],
    }


def hybrid_chain() -> Made:
    model = ChainCRF(l1=0.1, n_threads=1).fit(as_items("dense sequences", beside(TRAIN)), TAGS)
    return model, "dense sequences", beside(NEW)


CHAINS: dict[str, Callable[[], Made]] = {
    "chain-dicts": lambda: chain(dicts),
    "chain-strings": lambda: chain(strings),
    "chain-arrays": lambda: chain(arrays, "sequences"),
    "chain-l2": lambda: chain(strings, l1=0.0, l2=0.5),
    "chain-rows-of-weights": lambda: chain(strings, l1=0.0, group_l1=0.3),
    "chain-numbers": lambda: chain(strings, labels=[[*map(len, item)] for item in TAGS]),
    "chain-scheme": lambda: chain(dicts, scheme="IOB2", on_violation="drop"),
    "chain-transitions": lambda: chain(
        strings,
        transition_rules=Transitions(
            forbidden=[("O", "I-PER"), ("O", "I-LOC")], start=["B-PER", "B-LOC", "O"]
        ),
        enforce_rules_in="decoding",
    ),
    "chain-seen": lambda: chain(strings, transition_rules="seen"),
    "chain-support": lambda: chain(strings, all_possible_states=False, all_possible_transitions=False),
    "chain-hinge": lambda: chain(dicts, loss="hinge", l1=0.0, l2=1.0),
    "chain-perceptron": lambda: chain(strings, l1=0.0, solver="averaged-perceptron"),
    "chain-dense": hybrid_chain,
    "chain-windows": lambda: templates(windows="w[-1] w[0] w[0]|pos[1]", scheme="IOB2"),
    "chain-words": lambda: templates(words="w"),
    "chain-hashed": lambda: templates(windows="w[-1] w[0] pos[1]", n_hashed=64),
    "chain-bigrams": lambda: templates(
        patterns="U:%x[0,0]\nU:%x[-1,1]/%x[0,1]\nB:%x[0,1]\nB\n", dialect="crf++"
    ),
    "chain-wapiti-patterns": lambda: templates(patterns='u:%m[0,0,"^.?."]\n*:%x[0,1]\nb\n', dialect="wapiti"),
}

ROWS = np.round(RANDOM.normal(size=(70, N_FEATURES)) * (RANDOM.random((70, N_FEATURES)) < 0.7), 3)
CODES = np.argmax(ROWS[:, :4] + RANDOM.normal(0, 0.4, (70, 4)), axis=1)
NEW_ROWS = np.round(RANDOM.normal(size=(9, N_FEATURES)) * (RANDOM.random((9, N_FEATURES)) < 0.7), 3)
PATHS = np.array(["a/x", "a/y", "b/z", "c"])
LEVELS = np.array([["a", "x", ""], ["a", "y", "q"], ["a", "y", "r"], ["c", "", ""]])
TREE = networkx.DiGraph([("root", 1), ("root", 2), (1, 11), (1, 12), (2, 21), (2, 22), (2, 23)])
SETS = [{f"l{k}" for k in np.flatnonzero(row[:4] > -0.3)} for row in ROWS]
LABELS = np.array(["é", "b", "c", "d"])


def rows(estimator: Any, labels: Any = None, form: str = "rows") -> Made:
    model = estimator.fit(as_items(form, ROWS.tolist()), LABELS[CODES] if labels is None else labels)
    return model, form, NEW_ROWS.tolist()


def hybrid_rows() -> Made:
    def parts(X: Any) -> dict[str, Any]:
        return {"dense": X[:, :2].tolist(), "sparse": X[:, 2:].tolist()}

    model = MulticlassCRF(l1=0.1, n_threads=1).fit(as_items("dense rows", parts(ROWS)), LABELS[CODES])
    return model, "dense rows", parts(NEW_ROWS)


ONE = {"n_threads": 1}
FLAT: dict[str, Callable[[], Made]] = {
    "flat-logistic": lambda: rows(MulticlassCRF(l1=0.1, **ONE)),
    "flat-logistic-csr": lambda: rows(
        MulticlassCRF(l1=0.1, fit_intercept=False, **ONE), CODES * 3 - 2, "csr"
    ),
    "flat-logistic-l2": lambda: rows(MulticlassCRF(penalty="l2", l2=0.3, **ONE), CODES > 1),
    "flat-weighted": lambda: rows(MulticlassCRF(l1=0.1, class_weight="balanced", **ONE), CODES.astype(float)),
    "flat-dense": hybrid_rows,
    "flat-perceptron": lambda: rows(MulticlassCRF(l1=0.1, solver="averaged-perceptron", **ONE), form="csr"),
    "classifier-squared-hinge": lambda: rows(MulticlassClassifier(group_l1=0.5, **ONE)),
    "classifier-multitask": lambda: rows(
        MulticlassClassifier(loss="multitask-squared-hinge", penalty="l2", l2=0.5, **ONE)
    ),
    "classifier-logistic": lambda: rows(
        MulticlassClassifier(loss="logistic", penalty="l1/linf", group_l1=0.3, **ONE)
    ),
    "classifier-hinge": lambda: rows(MulticlassClassifier(loss="hinge", penalty="l2", l2=1.0, **ONE)),
    "classifier-hinge-l1": lambda: rows(MulticlassClassifier(loss="hinge", penalty="l1", l1=0.5, **ONE)),
    "taxonomy-paths": lambda: rows(TaxonomyCRF(l1=0.1, **ONE), PATHS[CODES]),
    "taxonomy-levels": lambda: rows(TaxonomyCRF(l1=0.1, separator=".", **ONE), LEVELS[CODES]),
    "taxonomy-graph": lambda: rows(
        TaxonomyCRF(taxonomy=TREE, l1=0.2, fit_intercept=True, **ONE), np.array([11, 12, 21, 22])[CODES]
    ),
    "taxonomy-nodes": lambda: rows(
        TaxonomyCRF(taxonomy=TREE, labels="nodes", l1=0.2, **ONE), np.array([11, 1, 21, 2])[CODES]
    ),
    "taxonomy-hinge": lambda: rows(TaxonomyCRF(loss="hinge", l1=0.0, l2=1.0, **ONE), PATHS[CODES]),
    "ranker": lambda: rows(MultilabelRanker(group_l1=0.2, **ONE), SETS),
    "ranker-label-thresholds": lambda: rows(MultilabelRanker(group_l1=0.2, threshold="label", **ONE), SETS),
    "svc-rbf": lambda: rows(MulticlassSVC()),
    "svc-poly": lambda: rows(MulticlassSVC(kernel="poly", coef0=1.0, degree=2), form="csr"),
    "svc-linear": lambda: rows(MulticlassSVC(kernel="linear"), CODES),
    "svc-sigmoid": lambda: rows(MulticlassSVC(kernel="sigmoid", gamma=0.1)),
    "least-squares": lambda: rows(GeneralizedLeastSquares(**ONE)),
    "least-squares-sets": lambda: rows(GeneralizedLeastSquares(**ONE), SETS),
    "least-squares-calibrated": lambda: rows(CalibratedLeastSquares(max_iter=20, **ONE)),
    "least-squares-stages": lambda: rows(
        StagewiseRegression(batch_size=8, max_iter=3, random_state=0, **ONE)
    ),
    "least-squares-projections": lambda: rows(
        StagewiseRegression(
            generator="projections", update="logistic", batch_size=8, max_iter=3, random_state=0, **ONE
        )
    ),
    "least-squares-subsets": lambda: rows(
        StagewiseRegression(
            generator="subsets", update="calibrated", batch_size=3, max_iter=3, random_state=0, **ONE
        )
    ),
}
NARROW = ("chain-l2", "flat-logistic-l2")  # saved with weights of 4 bytes


# ---- models of the command line, and what is asked of them

TEXTS = [
    ("animals/dogs", "the dog barks in the yard"), ("animals/cats", "a cat purrs, the cat sleeps"),
    ("plants", "green leaves and a tree"), ("animals/dogs", "dogs bark; a dog runs"), ("plants", "the tree has leaves"),
    ("animals/cats", "cats purr"), ("plants", "trees grow leaves"), ("animals/dogs", "the dog runs"),
]  # fmt: skip
CHAIN_QUESTIONS = (
    ("predict", ()), ("predict", ("--marginals", "--score")), ("predict", ("--n-best", N := 2)),
    ("predict", ("--json", "--marginals", "--score", "--n-best", N)), ("predict", ("--to", "jsonl")),
)  # fmt: skip
ITEM_QUESTIONS = (
    ("predict", ()), ("predict", ("--marginals", "--score")), ("predict", ("--top", 2)),
    ("predict", ("--json", "--marginals", "--score")),
)  # fmt: skip
FACTS = (("inspect", ("--json",)), ("inspect", ()))
# A model: the file that it was trained on, options of `crfqn train`, the file that it labels, and questions.
COMMANDS: dict[str, tuple[str, tuple[Any, ...], str, tuple[Any, ...]]] = {
    "cli-words": ("words.conll", ("--columns", "w"), "raw.txt", CHAIN_QUESTIONS),
    "cli-columns": (
        "columns.conll", ("--columns", "w pos"), "new.conll",
        (*CHAIN_QUESTIONS, ("predict", ("--to", "conll")), ("predict", ("--n-best", N, "--to", "crfpp"))),
    ),
    "cli-windows": ("columns.conll", ("--columns", "w pos", "--templates", "w[-1] w[0] pos[0]|pos[1]"), "new.conll",
        CHAIN_QUESTIONS),
    "cli-patterns": ("columns.conll", ("--templates", "patterns.txt"), "new.conll", CHAIN_QUESTIONS),
    "cli-hashed": ("columns.conll", ("--columns", "w pos", "--hashed", 64), "new.conll", CHAIN_QUESTIONS),
    "cli-dense": ("columns.conll", ("--columns", "w pos", "--dense", "columns.npy"), "new.conll",
        tuple((name, (*more, "--dense", "new.npy")) for name, more in CHAIN_QUESTIONS)),
    "cli-attributes": ("attributes.crfsuite", (), "new.crfsuite", CHAIN_QUESTIONS),
    "cli-hinge": ("attributes.crfsuite", ("--loss", "hinge", "--l1", 0, "--l2", 1), "new.crfsuite",
        (("predict", ()), ("predict", ("--json",)))),
    "cli-texts": ("texts.text", ("--structure", "flat"), "new.text", ITEM_QUESTIONS),
    "cli-texts-tree": ("texts.text", ("--structure", "taxonomy"), "new.text",
        (*ITEM_QUESTIONS, ("predict", ("--threshold", 0.7, "--score")))),
    "cli-table": ("table.csv", ("--structure", "flat", "--label", "kind"), "new.csv", ITEM_QUESTIONS),
    "cli-table-rows-of-weights": ("table.csv", ("--structure", "flat", "--label", "kind", "--loss", "squared-hinge"),
        "new.csv", (("predict", ()), ("predict", ("--json",)))),
    "cli-numbers": ("numbers.svmlight", ("--structure", "flat"), "new.svmlight", ITEM_QUESTIONS),
    "cli-sets": ("sets.svmlight", ("--structure", "ranking"), "new.svmlight",
        (("predict", ()), ("predict", ("--json",)))),
    "cli-pixels": ("pixels.toml", (), "new-pixels.crfsuite", CHAIN_QUESTIONS[:3]),
}  # fmt: skip
PIXELS = """
name = "pixels"
title = "Digits"
[data]
dataset = "digits"
[data.split]
kind = "given"
[features]
kind = "pixel-pairs"
threshold = 8
[structure]
kind = "chain"
[objective]
l1 = 60.0
[output]
path = "cli-pixels.crfqn"
"""


def write_files() -> None:
    """Write the files that commands train on and label."""

    def conll(items: list[list[str]], labels: list[list[str]] | None, with_pos: bool) -> str:
        lines = []
        for i, item in enumerate(items):
            for t, word in enumerate(item):
                row = [word, *([word[:1]] if with_pos else []), *([] if labels is None else [labels[i][t]])]
                lines.append(" ".join(row) + "\n")
            lines.append("\n")
        return "".join(lines)

    def attributes(items: list[list[str]], labels: list[list[str]]) -> str:
        def line(label: str, word: str) -> str:
            return f"{label}\tw={word}\tsize:{len(word) / 3:.4f}\n"

        pairs = [zip(own, item, strict=True) for own, item in zip(labels, items, strict=True)]
        return "".join("".join(line(*pair) for pair in item) + "\n" for item in pairs)

    def svmlight(X: Any, labels: list[str]) -> str:
        cells = [" ".join(f"{f + 1}:{value}" for f, value in enumerate(row) if value) for row in X.tolist()]
        return "".join(f"{label} {row}\n" for label, row in zip(labels, cells, strict=True))

    new_tags = [tags(sentence) for sentence in NEW]
    sets = [",".join(str(int(label[1:])) for label in sorted(one)) or "0" for one in SETS]
    table = [("n,colour,size,kind")] + [
        f"{row[0]},{['red', 'green', 'blue'][code % 3]},{row[1]},{LABELS[code]}"
        for row, code in zip(ROWS, CODES)  # noqa: B905
    ]
    contents = {
        "pixels.toml": PIXELS,
        "new-pixels.crfsuite": "1\tp0_4:12\tp1_2:12\tp1_4:12\tp7_4:12\n7\tp0_4:12\tp0_5:12\tp1_4:12\tp6_3:12\n\n"
        "0\tp1_2:12\tp1_4:12\tp2_5:12\tp5_5:12\n",
        "words.conll": conll(TRAIN, TAGS, False),
        "columns.conll": conll(TRAIN, TAGS, True),
        "new.conll": conll(NEW, new_tags, True),
        "raw.txt": "Ann Lee sees New York, and a dog.\n\nThe étude runs 3.14; हिन्दी!\n",
        "patterns.txt": "U00:%x[0,0]\nU01:%x[-1,1]/%x[0,1]\nB\nB01:%x[0,1]\n",
        "attributes.crfsuite": attributes(TRAIN, TAGS),
        "new.crfsuite": attributes(NEW, new_tags),
        "texts.text": "".join(f"{label}\t{text}\n" for label, text in TEXTS),
        "new.text": "animals/dogs\ta dog and a tree\nplants\tunheard of\nanimals/cats\tthe cat\n",
        "table.csv": "\n".join(table) + "\n",
        "new.csv": "n,colour,size,kind\n0.5,red,1.5,b\n-1.25,unknown,0,c\n2,blue,-0.5,d\n",
        "numbers.svmlight": svmlight(ROWS, [str(code + 1) for code in CODES]),
        "sets.svmlight": svmlight(ROWS, sets),
        "new.svmlight": svmlight(NEW_ROWS, ["1"] * len(NEW_ROWS)),
    }
    FILES.mkdir(exist_ok=True)
    for name, content in contents.items():
        (FILES / name).write_text(content, encoding="utf-8")
    np.save(FILES / "columns.npy", np.array([row for item in TRAIN for row in dense(item)]))
    np.save(FILES / "new.npy", np.array([row for item in NEW for row in dense(item)]))


def write(path: Path, content: Any) -> None:
    """Write JSON, short values in one line, so that a change is a line."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    path.write_text(text.replace('],"', '],\n"') + "\n", encoding="utf-8")


def train_all() -> None:
    """Train and save all models, and keep the items that they are asked about."""
    write_files()
    items: dict[str, Any] = {}
    for name, made in (CHAINS | FLAT).items():
        model, form, X = made()
        model.save(MODELS / f"{name}.crfqn", dtype="float32" if name in NARROW else "float64")
        items[name] = {"form": form, "items": as_json(X)}
    named = ChainCRF(l1=0.1, n_threads=1).fit([[{"w": word} for word in item] for item in TRAIN], TAGS)
    for suffix in ("crfsuite", "json"):
        interchange.write(named, MODELS / f"other-chain.{suffix}")
        items[f"other-chain.{suffix}"] = {
            "form": "json",
            "items": [[{"w": word} for word in item] for item in NEW],
        }
    flat, form, X = FLAT["flat-logistic"]()
    interchange.write(flat, MODELS / "other-flat.json")
    items["other-flat.json"] = {"form": form, "items": as_json(X)}
    items |= write_other_tools()
    folder = Path(tempfile.gettempdir()) / "crfqn-golden"  # its name is in the models
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FILES, folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, (source, options, _, _) in COMMANDS.items():
            has_own = {"--loss", "ranking"} & {*options}
            is_recipe = source.endswith(".toml")
            given = options if has_own or is_recipe else ("--l1", 0.05, *options)
            run = run_here(
                patch,
                folder,
                "train",
                *(() if is_recipe else ("--data",)),
                source,
                *given,
                "-q",
                "--threads",
                1,
                "-o",
                f"{name}.crfqn",
            )
            if run.returncode:
                raise SystemExit(f"{name}: {run.stderr}")
            shutil.copy(folder / f"{name}.crfqn", MODELS)
    shutil.rmtree(folder)
    write(FOLDER / "items.json", items)


def write_other_tools() -> dict[str, Any]:
    """Write models as Wapiti and CRF++ do, of made-up weights; return items for them."""
    texts = other_tools
    contents = {
        "other-wapiti.model": texts.wapiti_model(), "other-wapiti.dump": texts.wapiti_dump().encode(),
        "other-crfpp.txt": texts.crfpp_model().encode(),
    }  # fmt: skip
    for name, content in contents.items():
        (MODELS / name).write_bytes(content)
    items = {"other-wapiti.dump": texts.ITEMS}
    return {name: {"form": "json", "items": items.get(name, texts.WORDS)} for name in contents}


def ask_all() -> None:
    """Write what all models say."""
    shutil.rmtree(EXPECTED, ignore_errors=True)
    EXPECTED.mkdir()
    items = json.loads((FOLDER / "items.json").read_text(encoding="utf-8"))
    for path in sorted(MODELS.iterdir()):
        name = path.name.removesuffix(".crfqn")
        if name in items:
            answers = answers_of(opened(path), as_items(items[name]["form"], items[name]["items"]))
            write(EXPECTED / f"{name}.json", answers)
    write(
        FOLDER / "taggers.json",
        {name: tagger_answers(MODELS / f"{name}.crfqn", X) for name, X in TAGGED.items()},
    )
    write(FOLDER / "compat.json", compat_answers(MODELS / COMPAT, items[COMPAT]["items"]))
    asked = []
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        shutil.copytree(FILES, folder, dirs_exist_ok=True)
        shutil.copytree(MODELS, folder, dirs_exist_ok=True)
        for name, (_, _, new, questions) in COMMANDS.items():
            for command, options in (
                *questions,
                *FACTS,
                *((("evaluate", ("--json",)),) if new != "raw.txt" else ()),
            ):
                more = ("--dense", "new.npy") if command == "evaluate" and name == "cli-dense" else ()
                source = () if command == "inspect" else (new,)
                words = [command, f"{name}.crfqn", *source, *map(str, (*options, *more))]
                run = run_here(patch, folder, *words)
                if run.returncode:
                    raise SystemExit(f"{words}: {run.stderr}")
                asked.append({"words": words, "said": said(run.stdout)})
    write(FOLDER / "commands.json", asked)


def help_pages() -> dict[str, str]:
    """Return the words of every command's `--help`."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        return {
            name: rendered(run_here(patch, folder, *name.split()[1:], "--help").stdout) for name in commands()
        }


def main() -> None:
    """Make what is asked for, all without arguments."""
    parts = sys.argv[1:] or ["models", "expected", "names"]
    warnings.simplefilter("ignore")
    MODELS.mkdir(exist_ok=True)
    if "models" in parts:
        train_all()
    if "expected" in parts:
        ask_all()
    if "names" in parts:
        write(
            FOLDER / "names.json",
            {
                "names": public_names(),
                "commands": commands(),
                "recipes": recipe_keys(),
                "help": help_pages(),
                "typer": version("typer"),
            },
        )


if __name__ == "__main__":
    main()
