"""XML, partly labelled files and numbers as labels on the command line: train, predict, evaluate, suggest."""

import json

import crfqn

TRAIN = ("train", "--threads", 1, "--l1", 0.01, "-q", "-o", "m.crfqn", "--data")
ADDRESSES = """<AddressCollection>
  <AddressString><Number>12</Number> <Street>Main</Street> <Street>St.</Street></AddressString>
  <AddressString><Number>7</Number> <Street>Oak</Street> <Street>St.</Street></AddressString>
  <AddressString><Number>9</Number> <Street>Elm</Street></AddressString>
</AddressCollection>
"""


def test_xml(tmp_path, run):
    (tmp_path / "a.xml").write_text(ADDRESSES)
    (tmp_path / "new").write_text("12 Oak St.\n")
    run(*TRAIN, "a.xml", "--test", "a.xml", code=0)
    assert run("predict", "m.crfqn", "new", code=0).stdout == "Number\nStreet\nStreet\n\n"
    written = run("predict", "m.crfqn", "new", "--to", "xml", code=0).stdout
    assert "<sequence><Number>12</Number> <Street>Oak</Street> <Street>St.</Street></sequence>" in written
    (tmp_path / "p.xml").write_text(written)
    scores = json.loads(run("evaluate", "m.crfqn", "p.xml", "--json", code=0).stdout)
    assert scores["accuracy"] == 1.0
    assert run("suggest", "m.crfqn", "a.xml", "-n", 1, code=0).stdout.count("<sequence>") == 1
    (tmp_path / "b.xml").write_text(ADDRESSES.replace("<Number>7</Number>", "7"))
    run(*TRAIN, "b.xml", error="b.xml, line 3, position 0: no label; expected items of elements")
    run(*TRAIN, "b.xml", "--outside", "O", code=0)
    assert "O" in crfqn.load(tmp_path / "m.crfqn").classes_
    run(*TRAIN, "a.xml", "--sentence", "bibl", error="a.xml: no items; expected elements <bibl>")
    assert json.loads(run("evaluate", "m.crfqn", "a.xml", "--json", code=0).stdout)["n_items"] == 3


def test_partly_labelled_sequences(tmp_path, run):
    (tmp_path / "a.conll").write_text("Ann B-PER\nsays O\n\nAnn _\nsays O\n\n")
    (tmp_path / "b.conll").write_text("Ann B-PER\nsays O\n\n")
    run(*TRAIN, "a.conll", "--missing", "_", "--test", "b.conll", code=0)
    assert list(crfqn.load(tmp_path / "m.crfqn").classes_) == ["B-PER", "O"]
    assert run("predict", "m.crfqn", "a.conll", code=0).stdout == "B-PER\nO\n\nB-PER\nO\n\n"
    assert run("predict", "m.crfqn", "a.conll", "--to", "conll", code=0).stdout.count("B-PER") == 2
    said = run("evaluate", "m.crfqn", "a.conll", code=0).stdout
    assert "accuracy, positions    1.0000  of 3, without 1 of unknown labels\n" in said
    scores = json.loads(run("evaluate", "m.crfqn", "a.conll", "--json", code=0).stdout)
    assert (scores["n_items"], scores["n_positions"], scores["n_unknown"]) == (2, 3, 1)
    assert -1 < scores["log_likelihood"] < 0
    assert "n_unknown" not in run("evaluate", "m.crfqn", "b.conll", "--json", code=0).stdout
    run("calibrate", "m.crfqn", "a.conll", "-o", "c.crfqn", code=0)
    (tmp_path / "bare.conll").write_text("Ann _\n")
    run("evaluate", "m.crfqn", "bare.conll", error="bare.conll: has no labels to compare with")
    loud = [word for word in TRAIN if word != "-q"]
    said = run(*loud, "a.conll", "--missing", "_", "--test", "a.conll", code=0).stdout
    assert "1.0000 of 2 whole items, F1 of chunks 1.0000, without 1 of unknown labels (test part)" in said
    run(
        "report",
        "m.crfqn",
        "a.conll",
        error="a.conll, line 4: no label to compare with; expected one at each",
    )
    run(
        *TRAIN,
        "b.conll",
        "--missing",
        "_",
        "--dev",
        "a.conll",
        error="a.conll, line 4: no label to compare with",
    )
    run(*TRAIN, "a.conll", code=0)  # a label of its own
    assert "_" in crfqn.load(tmp_path / "m.crfqn").classes_
    (tmp_path / "c.jsonl").write_text('{"tokens": ["Ann", "says"], "labels": [null, "O"]}\n')
    run(*TRAIN, "c.jsonl", error="c.jsonl, line 1, position 0: no label")


def test_documents_without_a_label_are_left_out(tmp_path, run):
    (tmp_path / "a.csv").write_text("text,label\n" + "fine day,yes\nbad day,no\nsome day,?\n" * 4)
    said = run(*TRAIN, "a.csv", "--structure", "flat", "--missing", "?", code=0).stderr
    assert "4 of 12 items have no label and are left out" in said
    assert list(crfqn.load(tmp_path / "m.crfqn").classes_) == ["no", "yes"]
    (tmp_path / "b.csv").write_text("text,label\nfine day,?\n")
    run(
        *TRAIN, "b.csv", "--structure", "flat", "--missing", "?",
        error="b.csv, line 2: expected items with a label, got none",
    )  # fmt: skip


def test_numbers_with_names(tmp_path, run):
    (tmp_path / "a.jsonl").write_text('{"tokens": ["Ann", "says"], "ner_tags": [1, 0]}\n' * 3)
    (tmp_path / "names.txt").write_text("O\nB-PER\n")
    for names in ("O,B-PER", "names.txt"):
        run(*TRAIN, "a.jsonl", "--label-names", names, code=0)
        assert run("predict", "m.crfqn", "a.jsonl", code=0).stdout == "B-PER\nO\n\n" * 3
        assert json.loads(run("evaluate", "m.crfqn", "a.jsonl", "--json", code=0).stdout)["accuracy"] == 1.0
    wrong = "a.jsonl, line 1, position 0: expected one of 1 names of labels (O) or its number from 0, got the label '1'"
    run(*TRAIN, "a.jsonl", "--label-names", "O", error=wrong)


def test_labels_within_tokens(tmp_path, run):
    tokens = [{"text": "Ann", "tag": "B-PER"}, {"text": "says", "tag": "O"}]
    (tmp_path / "a.jsonl").write_text((json.dumps({"tokens": tokens}) + "\n") * 3)
    (tmp_path / "new.jsonl").write_text('{"tokens": [{"text": "Ann"}]}\n')
    run(*TRAIN, "a.jsonl", "--label", "tokens.tag", code=0)
    assert run("predict", "m.crfqn", "new.jsonl", code=0).stdout == "B-PER\n\n"
    assert json.loads(run("evaluate", "m.crfqn", "a.jsonl", "--json", code=0).stdout)["accuracy"] == 1.0
