"""The encoding of the training files is kept with the model, and output has the input's bytes."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest
from command_line import run_here

import crfqn
from crfqn import Tagger, interchange
from crfqn.errors import InputError
from crfqn.readers.registry import read, write

WORDS = ["café", "père", "noël", "der", "groß", "für"]
QUICK = ("--l1", "0.1", "-q", "--threads", 1)


@pytest.fixture
def run(tmp_path, monkeypatch):
    return lambda *arguments, **options: run_here(monkeypatch, tmp_path, *arguments, **options, code=0)


def columns(encoding="latin-1", n_bytes=1):
    """Words, their last bytes, which may be half a character, and whether they end beyond ASCII, a label beyond it."""
    draw, lines = random.Random(0), []
    for _ in range(15):
        for _ in range(3):
            word = draw.choice(WORDS)
            label = b"O" if word.isascii() or word[-1].isascii() else "É".encode(encoding)
            lines.append(b" ".join([word.encode(encoding), word.encode(encoding)[-n_bytes:], label]))
        lines.append(b"")
    return b"\n".join(lines) + b"\n"


UTF8 = columns().decode("latin-1").encode()
CASES = {
    "latin-1": ("latin-1", "conll", columns()),
    "cp1252": ("cp1252", "crfpp", columns("cp1252")),
    "utf-16": ("utf-16", "conll", columns().decode("latin-1").encode("utf-16")),
    "bytes, cut": ("bytes", "conll", columns("utf-8")),
    "bytes, of another encoding": ("bytes", "wapiti", columns()),
    "bytes, of UTF-8": ("bytes", "conll", UTF8),
    "attributes": ("bytes", "crfsuite", b"\xe9\tw=caf\xe9\tb\nO\tw=d\xc3\tb\n\nO\tw=d\xc3\tb\n\n" * 5),
    "attributes, latin-1": ("latin-1", "crfsuite", b"\xe9\tw=caf\xe9\tb\nO\tw=d\xe4\tb\n\nO\tw=d\xe4\tb\n\n" * 5),
    "texts": ("latin-1", "text", b"\xe9t\xe9\tgro\xdfer caf\xe9\nO\tkleiner tee\n" * 5),
    "texts of bytes": ("bytes", "text", b"\xe9t\xe9\tgro\xdfer caf\xe9\nO\tkleiner tee\n" * 5),
    "a table": ("latin-1", "csv", b"caf\xe9,n,label\n" + b"gro\xdf,1,\xe9\nklein,2,O\n" * 5),
    "a table of bytes": ("bytes", "csv", b"caf\xe9,n,label\n" + b"gro\xdf,1,\xe9\nklein,2,O\n" * 5),
}  # fmt: skip


@pytest.mark.parametrize(("encoding", "format", "content"), CASES.values(), ids=[*CASES])
def test_bytes_come_back(run, tmp_path, encoding, format, content):
    (tmp_path / "train.data").write_bytes(content)
    structure = () if format != "csv" else ("--features", "table", "--structure", "flat")
    how = ("--format", format)
    run("train", "--data", "train.data", *how, "--encoding", encoding, "-o", "m", *QUICK, *structure)
    run("predict", "m", "train.data", *how, "--to", format, "-o", "out")
    assert (tmp_path / "out").read_bytes() == content or format == "csv"
    run("predict", "m", "train.data", *how, "-o", "labels")
    run("predict", "m", "train.data", *how, "--encoding", encoding, "-o", "named")
    assert (tmp_path / "labels").read_bytes() == (tmp_path / "named").read_bytes()
    scores = json.loads(run("evaluate", "m", "train.data", *how, "--json").stdout)
    assert scores == json.loads(
        run("evaluate", "m", "train.data", *how, "--json", "--encoding", encoding).stdout
    )
    assert scores["accuracy"] == 1
    run("predict", "m", "train.data", *how, "--json", "-o", "json")
    for line in (tmp_path / "json").read_text("utf-8").splitlines():  # JSON is UTF-8
        json.loads(line)
    assert json.loads(run("inspect", "m", "--json").stdout)["encoding"] == encoding
    assert f"encoding   {encoding}\n" in run("inspect", "m").stdout
    interchange.convert(tmp_path / "m", tmp_path / "m.json")
    interchange.convert(tmp_path / "m.json", tmp_path / "again.crfqn")
    run("predict", "again.crfqn", "train.data", *how, "-o", "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "labels").read_bytes()
    run("report", "m", "train.data", "-o", "page.html") if format == "conll" else None


class TestOtherFiles:
    @pytest.fixture
    def model(self, run, tmp_path):
        (tmp_path / "train.conll").write_bytes(columns())
        run("train", "--data", "train.conll", "--encoding", "latin-1", "-o", "m", *QUICK)
        return tmp_path / "m"

    def test_of_utf8_are_warned_of(self, run, model, tmp_path):
        (tmp_path / "new.conll").write_bytes(UTF8)
        warned = run("predict", "m", "new.conll", "-o", "out")
        assert "looks like UTF-8 and is read as latin-1" in warned.stderr
        named = run("predict", "m", "new.conll", "--encoding", "utf-8", "--to", "conll", "-o", "out")
        assert "looks like" not in named.stderr
        assert (tmp_path / "out").read_bytes() == UTF8
        (tmp_path / "new.conll").write_bytes(b"der r O\n")
        assert run("predict", "m", "new.conll", "-o", "out").stderr == ""

    def test_of_json_are_utf8(self, run, model, tmp_path):
        record = {"features": [{"w": "café", "pos": "é"}, {"w": "der", "pos": "r"}], "labels": ["É", "O"]}
        (tmp_path / "new.jsonl").write_text(json.dumps(record, ensure_ascii=False) + "\n", "utf-8")
        found = run("predict", "m", "new.jsonl", "--to", "jsonl", "-o", "out")
        assert found.stderr == ""
        assert json.loads((tmp_path / "out").read_text("utf-8"))["labels"] == ["É", "O"]

    def test_a_tagger_takes_text(self, model):
        assert Tagger(model).tag([["café", "é"], ["der", "r"]]) == ["É", "O"]

    def test_an_encoding_that_does_not_exist(self, model, tmp_path, monkeypatch):
        (tmp_path / "new.conll").write_bytes(b"der r O\n")
        run_here(monkeypatch, tmp_path, "predict", "m", "new.conll", "--encoding", "ebcdic", error="'ebcdic'")


def test_the_message_names_the_choice(tmp_path, monkeypatch):
    (tmp_path / "train.conll").write_bytes(columns())
    done = run_here(
        monkeypatch, tmp_path, "train", "--data", "train.conll", "-o", "m", error="not UTF-8 text"
    )
    assert "bytes, which keeps all bytes unchanged" in done.stderr


def test_in_python(tmp_path):
    (tmp_path / "a.conll").write_bytes(columns())
    data = read(tmp_path / "a.conll", encoding="bytes")
    write(data, tmp_path / "b.conll", encoding="bytes")
    assert (tmp_path / "b.conll").read_bytes() == columns()
    model = crfqn.ChainCRF(l1=0.1).fit(data.inputs, data.labels)
    model.save(tmp_path / "m")
    tagger = Tagger(tmp_path / "m")
    assert [tagger.tag(item) for item in data.inputs] == [
        list(labels) for labels in model.predict(data.inputs)
    ]
    tagger.dump(tmp_path / "dump")
    assert b"\xc9" in (tmp_path / "dump").read_bytes()
    np.testing.assert_array_equal(crfqn.load(tmp_path / "m").classes_, model.classes_)
    with pytest.raises(InputError, match="cannot encode"):
        write(data, tmp_path / "c.conll", encoding="ascii")
    data = read(tmp_path / "a.conll", encoding="latin-1")
    write(data, tmp_path / "c.conll", encoding="utf-16")
    assert (tmp_path / "c.conll").read_bytes() == columns().decode("latin-1").encode("utf-16")


def test_halves_of_characters_in_a_model_are_shown(tmp_path):
    X, y = [[{"w": "a\ud800"}, {"w": "\udce9"}]] * 3, [["P\ud800", "\udce9"]] * 3
    crfqn.ChainCRF(l1=0.01).fit(X, y).save(tmp_path / "m.crfqn")
    command = [sys.executable, "-m", "crfqn", "inspect", "m.crfqn"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert b"P\\ud800 -> \xe9" in done.stdout  # as their bytes, where they stand for some
