"""Sheets of Excel workbooks: sequences, documents and rows, another sheet, wrong files."""

from __future__ import annotations

import pytest

from crfqn.errors import DataError, EmptyDataError
from crfqn.readers import read

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("pandas")


@pytest.fixture
def save(tmp_path):
    def saved(name="book.xlsx", **sheets):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in sheets.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
        book.save(tmp_path / name)
        return tmp_path / name

    return saved


WORDS = [
    ["w", "label"],
    ["Bob", "B-PER"],
    ["sleeps", "O"],
    [None, None],
    ["NA", "O"],
    [7, "O"],
    ["007", None],
]


def test_rows_without_cells_separate_sequences(save):
    data = read(save(First=WORDS))
    assert [*map(list, data.inputs)] == [
        [{"w": "Bob"}, {"w": "sleeps"}],
        [{"w": "NA"}, {"w": "7"}, {"w": "007"}],
    ]
    assert data.labels == [["B-PER", "O"], ["O", "O", ""]]
    assert data.places.where(1, 2).endswith("book.xlsx, line 7")


def test_a_sheet_is_named(save):
    path = save(Notes=[["x"], [1]], Data=WORDS)
    assert read(path, sheet="Data").n_items == 2
    with pytest.raises(DataError, match=r"book.xlsx: expected a sheet 'data', got Notes, Data"):
        read(path, sheet="data")
    assert read(save("new.xlsx", Other=WORDS), sheet="Data", needs_named=False).n_items == 2


def test_texts_and_rows_are_documents(save):
    texts = read(save(S=[["text", "label"], ["a film", "good"], [5, "bad"]]))
    assert (texts.inputs, texts.labels) == (["a film", "5"], ["good", "bad"])
    rows = read(save(S=[["size", "label"], [1.5, 1], [2, 0]]), rows=True)
    assert rows.inputs.texts == {"size": ["1.5", "2"]}
    assert (rows.labels, rows.has_numbers) == (["1", "0"], True)


def test_wrong_workbooks_are_errors(save, tmp_path):
    whole = save(S=WORDS).read_bytes()
    for content in (whole[: len(whole) // 2], b"hello", b""):
        (tmp_path / "bad.xlsx").write_bytes(content)
        with pytest.raises(DataError, match="no Excel workbook, or a damaged one"):
            read(tmp_path / "bad.xlsx")
    with pytest.raises(EmptyDataError, match="empty; expected a row of column names"):
        read(save(S=[]))
    with pytest.raises(EmptyDataError, match="no rows below the names"):
        read(save(S=WORDS[:1]))
    with pytest.raises(DataError, match="expected distinct names of columns, got w, w"):
        read(save(S=[["w", "w"], ["a", "b"]]))
