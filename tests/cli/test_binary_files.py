"""Binary files in the place of text are named, with what to do; Excel's line of the delimiter; categories in frames."""

from __future__ import annotations

import gzip
import io
import pickle
import sqlite3
import tarfile
import zipfile

import numpy as np
import pandas
import pytest

from crfqn import ChainCRF, MulticlassCRF
from crfqn.data.binary_files import BINARY_KINDS
from crfqn.data.file_parts import read_parts
from crfqn.errors import DataError, InputError
from crfqn.readers import FORMATS, read


def zipped(**contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name.replace("__", "/"), content)
    return buffer.getvalue()


def tarred():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.conll"), io.BytesIO(b""))
    return buffer.getvalue()


def saved(tmp_path, save, ending=""):
    save(tmp_path / f"made{ending}")
    return (tmp_path / f"made{ending}").read_bytes()


def database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table words (word text)")
    connection.close()


def model(path):
    ChainCRF(n_threads=1).fit([[["a"], ["b"]]] * 3, [["x", "y"]] * 3).save(path)


MADE = {
    "an Excel workbook; name its format": lambda path: zipped(xl__workbook="<a/>"),
    "a Word document": lambda path: zipped(word__document="<a/>"),
    "a ZIP archive; unpack it": lambda path: zipped(data="a O"),
    "an .npz file of numpy": lambda path: saved(path, lambda file: np.savez(file, x=np.ones(2)), ".npz"),
    "an array of numpy": lambda path: saved(path, lambda file: np.save(file, np.ones(2)), ".npy"),
    "a Parquet file; name its format": lambda path: saved(path, pandas.DataFrame({"a": ["b"]}).to_parquet),
    "a Feather file|an Arrow file": lambda path: saved(path, pandas.DataFrame({"a": ["b"]}).to_feather),
    "an SQLite database": lambda path: saved(path, database),
    "a tar archive": lambda path: tarred(),
    "a model of crfqn": lambda path: saved(path, model),
    **{
        f"a pickle; it {'is':{n}}": lambda path, n=n: pickle.dumps(["a"] * 9, protocol=n) for n in range(2, 6)
    },
    r"binary data \(the byte after 3 others is 0\)": lambda path: b"abc\0\n" * 9,
}


@pytest.mark.parametrize("words", MADE)
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_what_they_are(tmp_path, words, packed):
    path = tmp_path / "data.conll"
    path.write_bytes(packed(MADE[words](tmp_path)))
    message = f"data.conll: expected text, got ({' '.join(words.split())})"
    for encoding in ("utf-8", "latin-1"):
        with pytest.raises(DataError, match=message):
            read(path, encoding=encoding)
    with pytest.raises(DataError, match=message):
        list(read_parts(path, FORMATS["conll"].cut(), lambda part: read(part, "conll")))


def test_on_the_command_line(here, tmp_path):
    for name in ("train.docx", "train.conll"):
        (tmp_path / name).write_bytes(zipped(word__document="<a/>"))
        here("train", "--data", name, error=f"crfqn: {name}: expected text, got a Word document; save it")
    (tmp_path / "train.conll").write_text("Ann B\nsings O\n\n" * 3)
    here("train", "--data", "train.conll", "--l1", 0.1, "-q", "-o", "m.crfqn", code=0)
    here("predict", "m.crfqn", "train.docx", error="got a Word document")
    here("predict", "m.crfqn", "m.crfqn", error="got a model of crfqn")
    here("predict", "m.crfqn", "/dev/zero", error="/dev/zero: expected text, got binary data")


LETTERS = [kind.magic.decode() for kind in BINARY_KINDS if kind.magic.isalnum() and not kind.at]


@pytest.mark.parametrize("word", LETTERS)
def test_a_text_may_begin_with_letters_that_are_magic(word):
    assert read(io.StringIO(f"{word} B\nis O\n"), "conll").inputs[0][0] == {"w": word}


def test_bytes_of_zero_are_taken_where_all_bytes_are():
    assert read(io.BytesIO(b"a\0 B\n"), "conll", encoding="bytes").inputs[0] == [{"w": "a\0"}]
    assert read(io.BytesIO("a B\n".encode("utf-16-le")), "conll", encoding="utf-16-le").labels == [["B"]]


class TestDeclaredDelimiter:
    TABLE = "sep=;\r\nx;y;label\r\n1,5;a;A\r\n2;b;B\r\n"

    def test_of_rows(self, here, tmp_path):
        (tmp_path / "t.csv").write_text(self.TABLE + "1;a;A\r\n2;b;B\r\n" * 3, newline="")
        data = read(tmp_path / "t.csv", rows=True)
        assert (data.inputs.texts["x"][:2], data.labels[:2], data.where(0)[-6:]) == (
            ["1.5", "2"],
            ["A", "B"],
            "line 3",
        )
        here("train", "--structure", "flat", "--data", "t.csv", "--l1", 0.01, "-q", "-o", "m.crfqn", code=0)
        for text in (self.TABLE, self.TABLE.replace(";label", "").replace(";A", "").replace(";B", "")):
            done = here("predict", "m.crfqn", "--format", "csv", "--to", "csv", input=text, code=0)
            assert done.stdout == self.TABLE

    @pytest.mark.parametrize("delimiter", [";", "|", "\t", ","])
    def test_in_parts(self, tmp_path, monkeypatch, delimiter):
        path = tmp_path / "t.csv"
        text = f"sep={delimiter}\nw{delimiter}label\n" + f"a{delimiter}A\nb{delimiter}B\n\n" * 30
        path.write_text(text)
        monkeypatch.setattr("crfqn.data.file_parts.PART_LINES", 10)
        monkeypatch.setattr("crfqn.data.file_parts.READ_SIZE", 50)
        parts = [part for _, part in read_parts(path, FORMATS["csv"].cut(), lambda part: read(part, "csv"))]
        assert len(parts) > 1
        assert [labels for part in parts for labels in part.labels] == [["A", "B"]] * 30


@pytest.mark.parametrize("dtype", ["category", "string"])
def test_categories_in_frames(dtype):
    frame = pandas.DataFrame({"size": [1.0, 2, 3, 4], "colour": pandas.Series(["a", "b"] * 2, dtype=dtype)})
    with pytest.raises(InputError, match="column 'colour': expected numbers, got the type"):
        MulticlassCRF().fit(frame, ["x", "y"] * 2)
    data = read(frame.assign(label=["x", "y"] * 2), rows=True)
    assert data.inputs.texts["colour"] == ["a", "b"] * 2


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[ns]"])
def test_moments_in_frames(dtype):
    frame = pandas.DataFrame({"size": [1.0, 2], "day": pandas.Series([1, 2]).astype(dtype)})
    with pytest.raises(InputError, match=r"column 'day': expected numbers, got the type .*64"):
        MulticlassCRF().fit(frame, ["x", "y"])


def test_dicts_are_no_rows():
    with pytest.raises(InputError, match=r"expected rows of numbers, got dicts; .*DictVectorizer"):
        MulticlassCRF().fit([{"a": 1}, {"b": 2}], ["x", "y"])
