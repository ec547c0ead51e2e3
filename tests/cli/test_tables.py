"""Tables of numbers and texts, and words in whatever form, on the command line."""

import json
import math
import re

import numpy as np
import pandas
import pycrfsuite
import pytest
from command_line import run_here
from scipy.sparse import csr_array

from crfqn import MulticlassCRF, Tagger, load
from crfqn.errors import InputError
from crfqn.recipes import build_estimator, prepare_data
from crfqn.recipes.finding import recipe_of_options
from crfqn.service.labelling import LabelRequest, LabelService

TRAIN = ("train", "--structure", "flat", "--threads", 1, "-q", "-o", "m.crfqn", "--data")


def table(n=60):
    """A table of a number, a text with a comma, an identifier, and the label."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=n)
    return pandas.DataFrame(
        {
            "size": np.round(kind + 0.3 * rng.standard_normal(n), 3),
            "colour": np.array(["red", 'blue, "dark"', ""])[kind],
            "id": [f"2024-01-{i}" for i in range(n)],
            "animal": np.array(["cat", "dog", "cow"])[kind],
        }
    )


def trained(run, *arguments):
    run(*TRAIN, *arguments, code=0)


def test_a_model_is_that_of_columns_made_by_hand(tmp_path, monkeypatch):
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    recipe = recipe_of_options("t.csv", structure="flat", drop="id")
    model = build_estimator(recipe, l1=0.1, tol=1e-8).fit(prepare_data(recipe).X_train, frame["animal"])
    size = (frame["size"] - frame["size"].mean()) / frame["size"].std(ddof=0)
    X = np.column_stack([size, frame["colour"] == 'blue, "dark"', frame["colour"] == "red"]).astype(float)
    expected = MulticlassCRF(l1=0.1, tol=1e-8, fit_intercept=True).fit(X, frame["animal"])
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "bare.data", "semicolons.csv"])
def test_every_form_of_a_table(run, tmp_path, name):
    frame, separator = table(), {"t.tsv": "\t", "semicolons.csv": ";"}.get(name, ",")
    bare = name == "bare.data"
    for file, columns in ((name, frame), (f"new-{name}", frame.drop(columns="animal"))):
        if name.endswith("parquet"):
            columns.to_parquet(tmp_path / file)
        else:
            columns.to_csv(tmp_path / file, index=False, sep=separator, header=not bare)
    trained(run, name, "--drop", "-2")  # the labels are in the last column
    labels = "".join(f"{label}\n" for label in frame["animal"])
    for file in (name, f"new-{name}"):
        done = run("predict", "m.crfqn", file)
        assert (done.returncode, done.stdout) == (0, labels), done.stderr
    assert "accuracy               1.0000  of 60" in run("evaluate", "m.crfqn", name).stdout
    assert ("  2=red\n" if bare else "  colour=red\n") in run("inspect", "m.crfqn").stdout
    if name != "t.parquet":
        content = (tmp_path / name).read_text()
        assert run("predict", "m.crfqn", input=content).stdout == labels
        assert (
            run("predict", "m.crfqn", "--to", "tsv" if name == "t.tsv" else "csv", input=content).stdout
            == content
        )
        first = frame.iloc[0]
        names = ("1", "2") if bare else ("size", "colour")
        cells = dict(zip(names, (first["size"], first["colour"]), strict=True))
        assert Tagger(tmp_path / "m.crfqn").tag(cells) == first["animal"]


def test_rows_of_numbers_go_through_the_columns_in_their_order(run, tmp_path):
    frame = table().assign(weight=lambda t: 400 - 50 * t["size"])[["weight", "size", "animal"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    trained(run, "t.csv")
    expected, rows = run("predict", "m.crfqn", "t.csv").stdout.split(), frame[["weight", "size"]].to_numpy()
    tagger, model, service = (opened(tmp_path / "m.crfqn") for opened in (Tagger, load, LabelService))
    dicts = frame.to_dict("records")
    for X in (rows, rows.tolist(), frame[["animal", "size", "weight"]], dicts):
        assert model.predict(X).tolist() == tagger.tag_items(X) == expected
    assert [tagger.tag(row) for row in rows] == expected
    answers = service.answer(LabelRequest(items=rows.tolist()), math.inf).content["items"]
    assert [answer["label"] for answer in answers] == expected
    assert [service.answer(LabelRequest(item=row), math.inf).content["label"] for row in dicts] == expected
    for X in (rows[:, :1], rows[:, [0, 1, 1]].tolist(), [3.0, 4.0], rows[:, :, None], [dicts[0], rows[1]]):
        for predict in (model.predict, tagger.tag_items):
            with pytest.raises(InputError, match=r"item \d: .*expected a "):
                predict(X)
    (tmp_path / "bare.csv").write_text("300.5,1.5\n301,1\n")
    assert (
        "its first line has to name the columns, and has numbers"
        in run("predict", "m.crfqn", "bare.csv").stderr
    )
    model.fit(rows, expected)  # its items are features from now on
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(csr_array(rows)), atol=1e-9)


def test_cells_of_a_table_with_texts_are_dicts(run, tmp_path):
    frame = table().drop(columns="id")
    frame.to_csv(tmp_path / "t.csv", index=False)
    trained(run, "t.csv")
    tagger, model, service = (opened(tmp_path / "m.crfqn") for opened in (Tagger, load, LabelService))
    assert (service.describe()["takes"], service.describe()["columns"]) == ("cells", ["size", "colour"])
    for label in (
        tagger.tag,
        lambda row: model.predict([row]),
        lambda row: service.answer(LabelRequest(item=row), np.inf),
    ):
        with pytest.raises(
            InputError, match=r"item 0: expected a dict of a table's cells .*\(size, colour\)"
        ):
            label([0.5, 0.0, 1.0])
        with pytest.raises(
            InputError, match="item 0: expected a cell, None if it is empty, of column 'colour'"
        ):
            label({"size": 0.5, "color": "red"})


@pytest.mark.parametrize("header", [True, False])
def test_decimal_commas_between_semicolons(tmp_path, header):
    frame = table().drop(columns="id")
    frame.to_csv(tmp_path / "t.csv", index=False, header=header)
    frame.to_csv(tmp_path / "de.csv", index=False, header=header, sep=";", decimal=",")
    by_points, by_commas = (
        prepare_data(recipe_of_options(str(tmp_path / file), structure="flat"))
        for file in ("t.csv", "de.csv")
    )
    assert by_commas.feature_names == by_points.feature_names
    assert len(by_points.feature_names) == 3
    np.testing.assert_array_equal(by_commas.X_train.toarray(), by_points.X_train.toarray())


def test_a_column_of_sentences_is_told(run, tmp_path):
    kinds = ["weather", "time"] * 10
    rows = [f"is this {kind} number {n},{kind}\n" for n, kind in enumerate(kinds)]
    (tmp_path / "t.csv").write_text("".join(["question,intent\n", *rows]))
    warning = "Warning: column 'question': 20 different texts in 20 items"
    assert warning in run(*TRAIN, "t.csv").stderr
    (tmp_path / "t.csv").write_text("".join(["text,intent\n", *rows]))  # as the warning says
    done = run(*TRAIN, "t.csv", "--label", "intent")
    assert (done.returncode, "Warning" in done.stderr) == (0, False), done.stderr
    assert run("predict", "m.crfqn", input="what weather\nwhat time\n").stdout == "weather\ntime\n"


@pytest.mark.parametrize("has_titles", [True, False])
def test_the_column_of_texts_is_found_or_named(run, tmp_path, has_titles):
    lines = 'question,label\r\n"where, is it",place\r\nwho is it,person\r\nwhere are we,place\r\n'
    (tmp_path / "t.csv").write_text(lines if has_titles else lines.partition("\n")[2], newline="")
    named = () if has_titles else ("--columns", "1", "--label", "2")
    done = run(
        *["train", "--data", "t.csv", "--features", "text"],
        *named,
        *["--l1", "0", "--l2", "1", "--threads", "1", "-o", "m.crfqn"],
    )
    assert f"the column '{'question' if has_titles else 1}' of a table" in done.stderr
    assert run("predict", "m.crfqn", "t.csv").stdout == "place\nperson\nplace\n"
    assert run("predict", "m.crfqn", input="where\r\nwho is it\r\n").stdout == "place\nperson\n"


def test_a_tree_of_labels(run, tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "tree").write_text("pet cat\npet dog\nfarm cow\n")
    run("train", "--data", "t.csv", "--drop", "id", "--taxonomy", "tree", "-q", "-o", "m.crfqn", code=0)
    assert "hierarchical F1        1.0000" in run("evaluate", "m.crfqn", "t.csv").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t.csv", "--label", "kind"), "--label kind: expected a column, or its number from 1; there are: size, col"),
        (("t.csv", "--drop", "9"), "--drop 9: expected a column"),
        (("gap.csv",), "gap.csv, line 4: column 'size': expected a finite number, got a missing value; fill it in"),
        (("t.csv", "--test", "gap.csv"), "gap.csv, line 4: column 'size': expected a finite number, got a missing"),
        (("odd.csv",),
            "odd.csv, line 4: column 'size': expected a number, as 3 of its 4 different cells are, got 'big'; correct"),
        (("same.csv",), "same.csv: expected at least two labels, all items have 'x'; label"),
        (("t.csv", "--label", "size"),
            "line 2: expected a class as label, got '1.697', one of 59 continuous numbers of 60 items"),
        (("one.csv",), "expected columns besides the label, got label"),
        (("empty.csv",), "empty.csv: empty; expected a table"),
        (("ragged.csv",), "ragged.csv, line 3: expected 2 cells (a, label), got 3"),
        (("unlabelled.csv",), "unlabelled.csv, line 3: no label"),
        (("iris.csv", "--structure", "chain"),
            "iris.csv, line 2: no label; expected one in each row, in a column called label, labels, tag, tags (--"),
        (("head.csv",), "head.csv: no rows below the names of the columns"),
        (("twice.csv",), "twice.csv: expected distinct names of columns, got a, a, label"),
        (("huge.csv",), "huge.csv, line 3: column 'a': expected a number of at most 1e+150 in size, got '-1e308'"),
        (("t.csv", "--structure", "chain", "--features", "table"), "--features table is for single items, not for seq"),
        (("t.csv", "--features", "text"),
            "size, colour, id, animal; say which, as by --columns colour --label animal;"),
        (("t.csv", "--features", "text", "--label", "animal"),
            "there are: size, colour, id, animal; say which, as by --columns colour;"),
        (("t.csv", "--features", "text", "--columns", "word"), "--columns word: expected a column, or its number"),
        (("returns.csv",), "returns.csv, line 1: a carriage return (CR) within the line; expected lines that end"),
        (("stray.csv",), "stray.csv, line 3: a carriage return (CR) within the line; expected lines that end"),
        (("words.txt",), "words.txt holds sequences; use chain"),
        (("words.txt", "--drop", "w"), "--drop, --header and --no-header are for tables"),
    ],
)  # fmt: skip
def test_mistakes_are_told_by_options_and_lines(run, tmp_path, arguments, message):
    table().to_csv(tmp_path / "t.csv", index=False)
    gap = table()
    gap.loc[2, "size"] = np.nan
    gap.to_csv(tmp_path / "gap.csv", index=False)
    contents = {
        "one": "label\na\n",
        "empty": "",
        "ragged": "a,label\n1,x\n1,2,x\n",
        "odd": "size,label\n1,x\n2.5,y\nbig,x\n4,y\n",
        "returns": "a,label\r1,x\r2,y\r",
        "stray": "a,label\n1,x\n2\r,y\n",
        "iris": "red,x\nblue,x\n",
        "head": "a,label\n",
        "twice": "a,a,label\n1,2,x\n3,4,y\n",
        "huge": "a,label\n1,x\n-1e308,y\n",
        "same": "a,label\n1,x\n2,x\n",
        "unlabelled": "a,label\n1,x\n2,\n",
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.csv").write_text(content, newline="")
    (tmp_path / "words.txt").write_text("a O\nb B\n\nc O\n")
    train = TRAIN if "--structure" not in arguments else (TRAIN[0], *TRAIN[3:])
    done = run(*train, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not re.search(r"command line:|\[structure\]|\[features\]", done.stderr)
    assert not (tmp_path / "m.crfqn").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    (folder / "train.txt").write_text("I O\nlive O\nin O\nParis B\n\nNew-York B\nis O\ncafé O\n", "latin-1")
    with pytest.MonkeyPatch.context() as patch:
        options = ("--l1", "0.01", "--threads", 1, "--encoding", "latin-1", "-q", "-o", "m.crfqn")
        run_here(patch, folder, "train", "--data", "train.txt", *options, code=0)
    return folder


@pytest.fixture
def in_folder(folder, here):
    return lambda *arguments, **options: here(*arguments, cwd=folder, **options)


@pytest.mark.parametrize(
    "new", ["I live in Paris\n", "I\nlive\nin\nParis\n",
        "I O\nlive O\nin O\nParis B\n", '{"tokens": ["I", "live", "in", "Paris"]}\n']
)  # fmt: skip
def test_whatever_comes_is_read(in_folder, new):
    assert in_folder("predict", "m.crfqn", input=new, code=0).stdout == "O\nO\nO\nB\n\n"


def test_raw_text_and_encodings(in_folder):
    as_json = "--text", "--to", "jsonl", "--encoding", "utf-8"
    found = json.loads(in_folder("predict", "m.crfqn", *as_json, input="Paris café\n").stdout)
    assert (found["start"], found["end"], len(found["labels"])) == ([0, 6], [5, 10], 2)
    for options in ((), ("--encoding", "latin-1")):  # the first is that of the training
        done = in_folder("evaluate", "m.crfqn", "train.txt", *options)
        assert "accuracy, positions    1.0000  of 7" in done.stdout
    in_folder("evaluate", "m.crfqn", "train.txt", "--encoding", "utf-8", error="--encoding latin-1")


def test_the_best_labellings(folder, in_folder):
    best = Tagger(folder / "m.crfqn").nbest(["in", "Paris"], 2)
    plain = "".join(f"@probability\t{p:.6f}\n" + "\n".join(labels) + "\n\n" for labels, p in best)
    crfpp = "".join(f"# {i} {p:.6f}\nin\t{x}\nParis\t{y}\n\n" for i, ((x, y), p) in enumerate(best))
    ask = ("predict", "m.crfqn", "--n-best", 2)
    for options, expected in (((), plain), (("--to", "crfpp"), crfpp)):
        assert in_folder(*ask, *options, input="in\nParis\n", code=0).stdout == expected
    answer = json.loads(in_folder(*ask, "--json", input="in\nParis\n").stdout)
    assert [entry["labels"] for entry in answer["nbest"]] == [labels for labels, _ in best]
    message = "with --n-best: crfpp, wapiti, jsonl, or --json"
    in_folder(*ask, "--to", "csv", input="in\nParis\n", error=message)


def test_models_of_crfsuite(run, tmp_path):
    trainer = pycrfsuite.Trainer(verbose=False)
    for _ in range(3):
        trainer.append([["w=a", "b"], ["w=c"]], ["X", "Y"])
    trainer.train(str(tmp_path / "m.crfsuite"))
    (tmp_path / "new.txt").write_text("X\tw=a\tb\nY\tw=c\n")
    assert run("predict", "m.crfsuite", "new.txt").stdout == "X\nY\n\n"
    assert "accuracy, positions    1.0000  of 2" in run("evaluate", "m.crfsuite", "new.txt").stdout
    assert "  w=a\n" in run("inspect", "m.crfsuite").stdout
    assert "with scores of 1 items" in run("report", "m.crfsuite", "new.txt").stdout
    run("predict", "m.crfsuite", "--text", input="a b\n", error="raw text is for models of words")


def test_a_sheet_of_a_workbook_is_read_by_name_or_content(run, tmp_path):
    pytest.importorskip("openpyxl")
    frame = table().drop(columns="id")
    with pandas.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame[:1].to_excel(book, sheet_name="Notes", index=False)
        frame.to_excel(book, sheet_name="Animals", index=False)
    (tmp_path / "t.xlsx").rename(tmp_path / "t.data")
    frame.drop(columns="animal").to_excel(tmp_path / "new.xlsx", index=False)
    trained(run, "t.data", "--sheet", "Animals")
    labels = "".join(f"{label}\n" for label in frame["animal"])
    assert run("predict", "m.crfqn", "new.xlsx").stdout == labels
    assert run("predict", "m.crfqn", "t.data").stdout == labels
    assert "a sheet 'animals', got Notes, Animals" in run(*TRAIN, "t.data", "--sheet", "animals").stderr
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "has no such option" in run(*TRAIN, "t.csv", "--sheet", "Animals").stderr
