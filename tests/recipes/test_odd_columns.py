"""Columns that are hardly meant as features, and labels that differ in blanks: a warning says which, and what to do."""

from __future__ import annotations

import warnings

import pandas
import pytest

from crfqn import Templates
from crfqn.data.numbering import counts_rows, increasing_columns
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import ColumnWarning
from crfqn.readers.tables import has_header, titles
from crfqn.recipes import prepare_data
from crfqn.recipes.schema import parse_recipe

N = 12


def prepared(path, structure="flat", kind="table", **data):
    """Return the messages of the warnings of reading a file, and the names of its features."""
    table = {
        "name": "m", "title": "m", "data": {"train": path.name, "split": {"kind": "given"}, **data},
        "features": {"kind": kind}, "structure": {"kind": structure},
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = prepare_data(parse_recipe(table, path.parent / "recipe.toml"))
    assert {warning.category for warning in caught} <= {ColumnWarning}
    return [str(warning.message) for warning in caught], made


def frame():
    size = [(7 * n) % 5 for n in range(N)]
    return pandas.DataFrame({"size": size, "label": ["A" if n > 1 else "B" for n in size]})


@pytest.mark.parametrize("title", ["", "Unnamed: 0", "Id"])
def test_an_index_is_named(tmp_path, title):
    path = tmp_path / "t.csv"
    frame().to_csv(path, index_label=title or None)
    (message,), made = prepared(path)
    name = title or "1"
    assert list(made.feature_names) == [name, "size"]
    assert f"t.csv: the column {name!r} numbers the rows (0, 1, ...)" in message
    assert f"--drop {name})" in message
    assert prepared(path, drop=name)[0] == []
    frame().to_csv(path, index=False)
    assert prepared(path)[0] == []


def test_labels_that_differ_in_blanks_are_named(tmp_path):
    path, table = tmp_path / "t.csv", frame()
    table.loc[7, "label"] += " "
    table.to_csv(path, index=False)
    odd = table["label"][7]
    (message,), _ = prepared(path, label="label")
    assert message.startswith(
        f"{path}, line 9: the label {odd!r} of the column 'label' is a class of its own, though it differs from "
        f"{odd.strip()!r} in blanks alone"
    )
    table["label"] = [1, 2] * (N // 2)
    table["label"] = [f"{label}{' ' * (n == 7)}" for n, label in enumerate(table["label"])]
    table.to_csv(path, index=False)  # numbers, which are one whatever is around them
    assert prepared(path)[0] == []


def test_labels_of_positions_that_differ_in_blanks_are_named(tmp_path):
    path = tmp_path / "t.conll"
    path.write_text("a b\tX\nc\tY\n\nd\tX \ne\tY\n")
    (message,), _ = prepared(path, "chain", "words")
    assert message.startswith(f"{path}, line 4: the label 'X ' is a class of its own")


def offsets():
    """Words with their first and last characters in a document, as annotation files have them."""
    columns = {
        "w": ["the", "cat", "sat", "on"] * N,
        "start": [],
        "end": [],
        "number": [str(n % 3) for n in range(4 * N)],
    }
    for i in range(4 * N):
        columns["start"].append(str(4 * i + 100 * (i // 8)))
        columns["end"].append(str(4 * i + 100 * (i // 8) + 3))
    return TokenColumns(columns, range(0, 4 * N + 1, 4))


def test_offsets_are_named():
    columns = offsets()
    assert increasing_columns(columns) == ["start", "end"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Templates().fit(columns)
    assert [str(warning.message)[:14] for warning in caught] == ["column 'start'", "column 'end': "]
    assert all("(--columns)" in str(warning.message) for warning in caught)
    Templates(windows="w[0]").fit(columns)  # which reads none of them
    Templates(columns=["w", "number"]).fit(columns)
    assert increasing_columns(columns[:2]) == []  # which chance may bring about


def test_what_counts_rows():
    assert counts_rows([*map(str, range(10))])
    assert counts_rows([*map(str, range(7, 20))])
    for texts in (range(9), [*range(10), 10.0], [0, *range(10)], [*range(0, 30, 2)], [*range(9), "x"], []):
        assert not counts_rows([*map(str, texts)])


def test_a_title_that_is_empty_is_one_of_an_index():
    assert has_header([",size,kind", "0,2,a", "1,3,b"])
    assert not has_header([",size,kind", "a,2,a", "b,3,b"])  # a cell that is missing
    assert titles([",size,kind"]) == ["1", "size", "kind"]
