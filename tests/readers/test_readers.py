"""Readers: letter tables, CRFsuite's text format, generated strings, and what they say of bad files."""

import datetime
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from crfqn.errors import DataError, DataUnavailableError
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.images import make_digit_strings, read_letter_matlab, read_letter_table
from crfqn.readers.labelled_items import Labeled

N_PIXELS = 6


def letter_row(id_: int, letter: str, next_id: int, pixels: str = "010011", end: str = "") -> str:
    return "\t".join([str(id_), letter, str(next_id), "1", "1", "0", *pixels]) + end


@pytest.fixture
def table(tmp_path: Path):
    def write(*rows: str, name: str = "letter.data") -> Path:
        path = tmp_path / name
        text = "".join(row + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


@pytest.mark.parametrize("end", ["", "\t", "\r", "\t\r"])
@pytest.mark.parametrize("name", ["letter.data", "letter.data.gz"])
def test_words_are_the_chains_of_next_id(table, end, name):
    rows = [letter_row(7, "o", 9, "000001", end), letter_row(9, "k", -1, "111111", end)]
    labeled = read_letter_table(table(*rows, letter_row(2, "x", -1, "100000", end), name=name), N_PIXELS)
    assert labeled.labels == [["o", "k"], ["x"]]
    assert [item.tolist() for item in labeled.inputs] == [[[0, 0, 0, 0, 0, 1], [1] * 6], [[1, 0, 0, 0, 0, 0]]]
    assert labeled.inputs[0].dtype == np.uint8


def test_a_chain_may_jump_between_rows(table):
    rows = [letter_row(1, "a", 3, "100000"), letter_row(2, "z", -1), letter_row(3, "b", -1, "010000")]
    labeled = read_letter_table(table(*rows), N_PIXELS)
    assert labeled.labels == [["a", "b"], ["z"]]
    assert labeled.inputs[0].argmax(axis=1).tolist() == [0, 1]


def test_grey_values_of_several_digits(table):
    path = table("1\ta\t-1\t1\t1\t0\t0\t16\t255\t7\t0\t10", letter_row(2, "b", -1))
    labeled = read_letter_table(path, N_PIXELS)
    assert labeled.inputs[0].tolist() == [[0, 16, 255, 7, 0, 10]]
    assert labeled.inputs[1].tolist() == [[0, 1, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2\tb\t-1\t1", "line 3: expected id, letter"),
        ("x\tb\t-1\t1\t1\t0\t0\t0\t0\t0\t0\t0", "line 3: expected id, letter"),
        (letter_row(2, "b", -1, "01001"), r"line 3: expected 12 columns \(6 of them pixels\), got 11"),
        (letter_row(2, "b", -1, "0100110"), "got 13"),
        (letter_row(2, "b", -1, "01001x"), "line 3, column 12: expected a pixel value 0..255, got 'x'"),
        ("2\tb\t-1\t1\t1\t0\t0\t256\t0\t0\t0\t0", "line 3, column 8: .*'256'"),
        (letter_row(2, "b", 5), "line 3: next_id 5 is the id of no row; is the file cut short"),
        (letter_row(1, "b", -1), "line 1: id 1 comes again"),
        (letter_row(2, "b", 2), "in a circle"),
        (f"{letter_row(2, 'b', 1)}\n{letter_row(3, 'c', 1)}", "line 4: a second row leads to id 1"),
    ],
)
def test_bad_rows_are_named(table, row, message):
    with pytest.raises(DataError, match=message) as caught:
        read_letter_table(table(letter_row(1, "a", -1), "", row), N_PIXELS)
    assert "letter.data" in str(caught.value)


def test_bad_files_are_named(table, tmp_path):
    with pytest.raises(DataError, match="no rows"):
        read_letter_table(table(""), N_PIXELS)
    with pytest.raises(DataUnavailableError, match="no such file"):
        read_letter_table(tmp_path / "nothing", N_PIXELS)
    with pytest.raises(DataError, match="a folder"):
        read_letter_table(tmp_path, N_PIXELS)


@pytest.mark.parametrize("keep", [11, 0.3, 0.9, -1])
def test_truncated_gzip(table, keep):
    path = table(*(letter_row(i, "a", -1) for i in range(200)), name="letter.data.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(DataError, match=r"letter\.data\.gz: the gzip file is cut short"):
        read_letter_table(path, N_PIXELS)


def test_damaged_gzip(table):
    path = table(*(letter_row(i, "a", -1) for i in range(200)), name="letter.data.gz")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(DataError, match=r"letter\.data\.gz: the gzip file is (damaged|cut short)"):
        read_letter_table(path, N_PIXELS)


def test_matlab_images_are_turned_to_rows(tmp_path):
    from scipy.io import savemat

    image = np.array([[1, 0], [1, 1], [0, 0]], dtype=np.uint8)  # 3 rows, 2 columns
    column_major = np.append(image.ravel(order="F"), 1)
    patterns, letters = np.empty((1, 1), dtype=object), np.empty((1, 1), dtype=object)
    patterns[0, 0], letters[0, 0] = np.stack([column_major, column_major], axis=1), np.array([[0, 25]])
    path = tmp_path / "letters.mat"
    parts = {f"{what}_{part}": value for part in ("train", "test") for what, value in
             (("patterns", patterns), ("labels", letters))}  # fmt: skip
    savemat(path, parts)
    labeled = read_letter_matlab(path, (3, 2))
    assert labeled.labels == [["a", "z"], ["a", "z"]]
    assert labeled.inputs[0].tolist() == [[1, 0, 1, 1, 0, 0]] * 2
    path.write_bytes(path.read_bytes()[:150])
    with pytest.raises(DataError, match="not the expected MATLAB file"):
        read_letter_matlab(path, (3, 2))


def test_digest_ignores_the_order_of_items_only():
    one, two = np.zeros((2, 3), dtype=np.uint8), np.ones((1, 3), dtype=np.uint8)
    labeled = Labeled([one, two], [["a", "b"], ["c"]])
    assert labeled.digest() == Labeled([two, one], [["c"], ["a", "b"]]).digest()
    assert labeled.digest() != Labeled([one, two], [["a", "b"], ["d"]]).digest()
    assert labeled.digest() != Labeled([one, 1 - two], [["a", "b"], ["c"]]).digest()
    assert labeled.digest() != Labeled([one], [["a", "b"]]).digest()


def test_crfsuite_text(tmp_path):
    path = tmp_path / "train.txt"
    lines = ["B-NP\tw=He\tcap:2.5\tw=He", "I-NP\ta\\:b:3\tc\\\\d\te\\x\t", "", "", "O", "O\tzw\u00f6lf:-1e-3"]
    path.write_text("\r\n".join(lines) + "\n", encoding="utf-8")
    labeled = read_crfsuite_text(path)
    assert labeled.labels == [["B-NP", "I-NP"], ["O", "O"]]
    assert labeled.inputs == [
        [{"w=He": 2.0, "cap": 2.5}, {"a:b": 3.0, "c\\d": 1.0, "e\\x": 1.0}],
        [{}, {"zw\u00f6lf": -0.001}],
    ]


def test_crfsuite_text_from_standard_input(monkeypatch):
    class Input:
        buffer = io.BytesIO(b"X\ta\n\nY\tb:2\n")

    monkeypatch.setattr("sys.stdin", Input)
    labeled = read_crfsuite_text("-")
    assert (labeled.labels, labeled.inputs) == ([["X"], ["Y"]], [[{"a": 1.0}], [{"b": 2.0}]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b"A\tx\nA x y\n",
            "line 2: spaces, but no tab: 'A x y'; expected a label and its attributes, tab-separated",
        ),
        (
            b"A\tx\nB\ty\ttime=12:30:59",
            r"line 2, field 3: 'time=12:30:59' has the value '30:59'; .*written \\:",
        ),
        (b"A\tx:", "line 1, field 2: 'x:' has the value ''"),
        (b"A\tx:nan", "finite number"),
        (b"A\tx:inf", "finite number"),
        (b"A\t:3", "line 1, field 2: an attribute without a name"),
        (b"@weight:-2\nA\tx", r"line 1: expected @weight:<number >= 0>, got '@weight:-2'"),
        (b"@weight\t2\nA\tx", "line 1: the declaration"),
        (b"@group:1\nA\tx", "line 1: the declaration '@group' is not known"),
        (b"A\tx\n@weight:2\n", "line 2: .* comes after positions"),
        (b"\n\n", "no items"),
        (b"A\tx\nB\t\xff", "line 2: not UTF-8"),
    ],
)
def test_bad_crfsuite_text_is_named(tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message) as caught:
        read_crfsuite_text(path)
    assert "bad.txt" in str(caught.value)


def test_digit_strings_are_dates_and_times():
    labeled = make_digit_strings(40, 20, seed=3)
    assert (labeled.n_items, labeled.n_train) == (60, 40)
    for images, labels in zip(labeled.inputs, labeled.labels, strict=True):
        text = "".join(labels)
        datetime.datetime.strptime(text, "%Y%m%d" if len(text) == 8 else "%H%M%S")
        assert images.shape == (len(text), 64)
        assert images.max() <= 16
    assert make_digit_strings(40, 20, seed=3).digest() == labeled.digest()
    assert make_digit_strings(40, 20, seed=4).digest() != labeled.digest()


def test_digit_strings_are_tested_on_other_scans():
    labeled = make_digit_strings()
    seen = {scan.tobytes() for item in labeled.inputs[: labeled.n_train] for scan in item}
    held_out = {scan.tobytes() for item in labeled.inputs[labeled.n_train :] for scan in item}
    assert len(seen) > 1000
    assert len(held_out) > 300
    assert not seen & held_out
