"""Tables in memory and Parquet files whose cells are lists: a row is an item, and metadata have the labels' names."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from crfqn import MulticlassClassifier
from crfqn.errors import DataError, InputError
from crfqn.readers import read

CLASSES = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
FEATURES = {"tokens": {"feature": {"dtype": "string"}, "_type": "List"}, "label": CLASSES}
ROWS = {"id": [1, 2], "tokens": [["Ann", "says"], ["Lee"]], "ner_tags": [[1, 0], [-1]], "label": [0, 1]}


def with_metadata(rows, of_tags):
    info = {"info": {"features": FEATURES | {"ner_tags": of_tags}}}
    return pyarrow.table(rows).replace_schema_metadata({"huggingface": json.dumps(info)})


@pytest.mark.parametrize("of_tags", [{"feature": CLASSES, "_type": "Sequence"}, [CLASSES]])
def test_names_of_labels_in_the_metadata(tmp_path, of_tags):
    table = with_metadata(ROWS, of_tags)
    parquet.write_table(table, tmp_path / "a.parquet")
    for origin in (table, tmp_path / "a.parquet"):
        data = read(origin, label="ner_tags")
        assert data.inputs.first_texts() == [["Ann", "says"], ["Lee"]]
        assert data.labels == [["B-PER", "O"], [""]]
    texts = read(with_metadata({"text": ["1", "2"], "label": [0, 1]}, of_tags))
    assert texts.inputs == ["1", "2"]
    assert texts.labels == ["O", "B-PER"]


def test_lists_in_the_cells_of_frames():
    frame = pandas.DataFrame({"tokens": [np.array(["a", "b"]), ("c",)], "tags": [[1, 0], [1]], "n": [1, 2]})
    data = read(frame)
    assert data.inputs.first_texts() == [["a", "b"], ["c"]]
    assert data.targets() == [[1, 0], [1]]
    assert read(frame, label_names=["O", "X"]).labels == [["X", "O"], ["X"]]
    with pytest.raises(DataError, match="the frame, line 2: expected 1 labels, one a position, got 2"):
        read(frame.assign(tags=[[1, 0], [1, 0]]))
    with pytest.raises(DataError, match="the frame, line 2: expected a list under 'tokens', got None"):
        read(frame.assign(tokens=[["a", "b"], None]))
    with pytest.raises(DataError, match="expected an object with the key 'tokens' or 'features'"):
        read(frame.rename(columns={"tokens": "terms"}))


def test_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"tokens": [["a", "b"], ["c"]], "tags": [["X", "Y"], ["X"]]})
    data = read(frame)
    assert data.inputs.first_texts() == [["a", "b"], ["c"]]
    assert data.labels == [["X", "Y"], ["X"]]
    numbers = polars.DataFrame({"a": [0.0, 1.0] * 9, "b": [1.0, 2.0] * 9})
    model = MulticlassClassifier().fit(numbers, polars.Series([0, 1] * 9))
    assert model.predict(numbers).tolist() == [0, 1] * 9


def test_datasets():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"])),
    )
    rows = datasets.Dataset.from_dict({name: ROWS[name] for name in features}, features=features)
    assert read(rows).labels == [["B-PER", "O"], [""]]
    assert read(rows.select([1])).inputs.first_texts() == [["Lee"]]
    with pytest.raises(InputError, match="the name of a file, a stream or a data frame"):
        read(datasets.DatasetDict(train=rows))
    numbers = datasets.Dataset.from_dict({"a": [0.0, 1.0] * 9, "b": [1.0, 2.0] * 9})
    model = MulticlassClassifier().fit(numbers, [0, 1] * 9)
    assert model.predict(numbers).tolist() == [0, 1] * 9
