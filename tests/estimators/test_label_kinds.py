"""Labels of every kind through every estimator: they come back as they came, also from a file; missing and mixed ones
are refused with their place, and labels to score by none of which the model has with those of both."""

from functools import partial

import numpy as np
import pandas as pd
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
    load,
)
from crfqn.compat import CRF
from crfqn.compat.metrics import flat_accuracy_score, flat_f1_score
from crfqn.errors import InputError
from crfqn.metrics import sequence_accuracy, span_f1_score, token_accuracy, token_confusion

N = 12
FLAT = {
    "crf": lambda: MulticlassCRF(l1=0.1),
    "classifier": lambda: MulticlassClassifier(),
    "svc": lambda: MulticlassSVC(),
    "taxonomy": lambda: TaxonomyCRF(l1=0.1),
    "ranker": lambda: MultilabelRanker(),
    "calibrated": lambda: CalibratedLeastSquares(),
    "generalized": lambda: GeneralizedLeastSquares(),
    "stagewise": lambda: StagewiseRegression(batch_size=20, max_iter=2),
    "online": lambda: MulticlassCRF(l1=0.1, solver="averaged-perceptron"),
}
flat = pytest.mark.parametrize("make", FLAT.values(), ids=FLAT)
BIG = 2**53
KINDS = {
    "int": ([1, 0] * 6, "i"),
    "signed": ([1, -1] * 6, "i"),
    "bool": ([True, False] * 6, "b"),
    "whole floats": ([1.0, 0.0] * 6, "f"),
    "strings": (["a", "b"] * 6, "U"),
    "numeric strings": (["1", "1.0"] * 6, "U"),
    "np.str_": ([np.str_("a"), np.str_("b")] * 6, "U"),
    "Int64": (pd.Series([1, 0] * 6, dtype="Int64"), "i"),
    "UInt8": (pd.Series([1, 0] * 6, dtype="UInt8"), "iu"),
    "boolean": (pd.Series([True, False] * 6, dtype="boolean"), "b"),
    "large Int64": (pd.Series([BIG, BIG + 1] * 6, dtype="Int64"), "i"),
    "arrow integers": (pd.Series([BIG, BIG + 1] * 6, dtype="int64[pyarrow]"), "i"),
    "arrow booleans": (pd.Series([True, False] * 6, dtype="bool[pyarrow]"), "b"),
    "arrow strings": (pd.Series(["a", "b"] * 6, dtype="string[pyarrow]"), "U"),
    "pandas strings": (pd.Series(["a", "b"] * 6, dtype="string"), "U"),
    "category": (pd.Series([1, 0] * 6).astype("category"), "i"),
    "objects": (np.array([3, 4] * 6, object), "i"),
}
MISSING = {
    "None": (["a", None] + ["b"] * 10, "got None"),
    "nan": ([1, float("nan")] + [0] * 10, "got nan"),
    "NA": (np.array(["a", pd.NA] + ["b"] * 10, object), "got <NA>"),
    "NaT": (["a", pd.NaT] + ["b"] * 10, "got NaT"),
    "NA of strings": (pd.Series(["a", None] + ["b"] * 10, dtype="string"), "got "),
    "NA of integers": (pd.Series([1, None] + [0] * 10, dtype="Int64"), "got "),
    "NA of booleans": (pd.Series([True, None] + [False] * 10, dtype="boolean"), "got "),
    "bytes": ([b"a", b"b"] * 6, "expected a string or number as label, got"),
    "empty": (["a", ""] + ["b"] * 10, "got an empty text"),
}
MIXED = {
    "strings and numbers": (["a", 1] + ["b"] * 10, "strings like 'a' .* and numbers like 1 "),
    "booleans and numbers": ([True, 2] + [False] * 10, "booleans like True .* and numbers like 2 "),
}


@pytest.fixture(scope="module")
def X():
    X = np.random.default_rng(0).standard_normal((N, 3))
    X[::2] += 1.5
    return X


def fitted(model, X, y):
    if getattr(model, "solver", None) == "averaged-perceptron":
        return model.partial_fit(X, y, classes=y)
    return model.fit(X, y)


def sequences(y):
    """A pair of positions an item, and their labels."""
    X = [[{"odd": i % 2, "a": 1}, {"odd": i % 2, "b": 1}] for i in range(N // 2)]
    return X, [list(y)[i : i + 2] for i in range(0, N, 2)]


@flat
@pytest.mark.parametrize(("y", "kind"), KINDS.values(), ids=KINDS)
def test_labels_of_items_come_back(make, X, y, kind, tmp_path):
    model = fitted(make(), X, y)
    expected = sorted(set(y))
    assert model.classes_.tolist() == expected
    assert model.classes_.dtype.kind in kind
    predicted = model.predict(X).tolist()
    assert set(map(type, predicted)) <= set(map(type, model.classes_.tolist()))
    share = np.mean([a == b for a, b in zip(predicted, y, strict=True)])
    assert model.score(X, y) == pytest.approx(share)
    model.save(tmp_path / "m.crfqn")
    again = load(tmp_path / "m.crfqn")
    assert again.classes_.dtype.kind == model.classes_.dtype.kind
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.predict(X).tolist() == predicted


@pytest.mark.parametrize(("y", "kind"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("is_flat", [True, False])
def test_labels_of_positions_come_back(y, kind, is_flat, tmp_path):
    X, nested = sequences(y)
    model = ChainCRF(l1=0.1).fit(X, y if is_flat else nested)
    assert model.classes_.tolist() == sorted(set(y))
    assert model.classes_.dtype.kind in kind
    model.save(tmp_path / "m.crfqn")
    again = load(tmp_path / "m.crfqn")
    assert again.classes_.dtype.kind == model.classes_.dtype.kind
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.score(X, nested) == model.score(X, y if is_flat else nested)


@flat
@pytest.mark.parametrize(("y", "reason"), [*MISSING.values(), *MIXED.values()], ids=[*MISSING, *MIXED])
def test_missing_and_mixed_labels_of_items(make, X, y, reason):
    place = r"^(classes: )?(item [01]: .*|.*\(item 1\)$)"
    with pytest.raises(InputError, match=reason) as refused:
        fitted(make(), X, y)
    assert refused.match(place)
    with pytest.raises(InputError, match=reason) as refused:
        fitted(make(), X, ["a", "b"] * 6).score(X, y)
    assert refused.match(place)


@pytest.mark.parametrize("make", [lambda: ChainCRF(l1=0.1), CRF], ids=["chain", "compat"])
@pytest.mark.parametrize(("y", "reason"), [*MISSING.values(), *MIXED.values()], ids=[*MISSING, *MIXED])
def test_missing_and_mixed_labels_of_positions(make, y, reason):
    X, nested = sequences(y)
    model = make()
    if nested[0][1] is not None or isinstance(model, CRF):  # which a chain learns from
        with pytest.raises(InputError, match=reason) as refused:
            model.fit(X, nested)
        assert refused.match("item 0, position [01]")
    model.fit(X, [["a", "b"]] * len(X))
    with pytest.raises(InputError, match=reason) as refused:
        model.score(X, nested)
    assert refused.match("item 0, position [01]")


SKLEARN_CRFSUITE = [flat_accuracy_score, partial(flat_f1_score, average="macro")]


@pytest.mark.parametrize(
    "metric",
    [
        *(token_accuracy, sequence_accuracy, token_confusion, partial(span_f1_score, scheme="IOB2")),
        *SKLEARN_CRFSUITE,
    ],
)
def test_missing_and_mixed_labels_in_metrics(metric):
    labels = [["O"], ["O", "B-x"]]
    for wrong, reason in ((None, "got None"), (pd.NA, "got <NA>"), (float("nan"), "got nan")):
        with pytest.raises(InputError, match=rf"^y_true: item 1, position 1: .*{reason}"):
            metric([["O"], ["O", wrong]], labels)
        if wrong is not None:
            with pytest.raises(InputError, match=rf"^y_pred: item 1, position 1: .*{reason}"):
                metric(labels, [["O"], ["O", wrong]])
        elif metric in SKLEARN_CRFSUITE:
            with pytest.raises(InputError, match=r"^y_pred: expected a label at each position, got None"):
                metric(labels, [["O"], ["O", None]])
        else:  # a label that a threshold refused
            metric(labels, [["O"], ["O", None]])
    with pytest.raises(InputError, match=r"^y_true: expected labels of one kind"):
        metric([["O"], ["O", 1]], labels)
    with pytest.raises(
        InputError, match=r"^expected labels of one kind, got 1 of type int in y_true and 'O'"
    ):
        metric([[1], [1, 2]], labels)


@flat
def test_labels_none_of_which_the_model_has(make, X):
    model = fitted(make(), X, [1, 2] * 6)
    message = r"^none of the labels to score by is known to the model: they are '1', '2'; the model has 1, 2$"
    with pytest.raises(InputError, match=message):
        model.score(X, ["1", "2"] * 6)
    assert model.score(X, [1.0, 2.0] * 6) == model.score(X, [1, 2] * 6)
    assert model.score(X, [1, 3] * 6) <= 0.5  # a label that is new is a miss


def test_labels_none_of_which_a_chain_has():
    X, y = sequences(["a", "b"] * 6)
    model = ChainCRF(l1=0.1).fit(X, y)
    with pytest.raises(InputError, match=r"they are 'A', 'B'; the model has 'a', 'b'$"):
        model.score(X, [[label.upper() for label in labels] for labels in y])
    assert model.score(X, [["a", "new"]] * len(y)) == 0.5


@flat
def test_zero_is_one_label(make, X):
    model = fitted(make(), X, [-0.0, 1.0, 0.0] * 4)
    assert str(model.classes_.tolist()) == "[0.0, 1.0]"


def test_classes_of_partial_fit_are_checked(X):
    model = MulticlassCRF(l1=0.1, solver="averaged-perceptron")
    with pytest.raises(InputError, match=r"^classes: item 1: .* got <NA>"):
        model.partial_fit(X, [1, 0] * 6, classes=np.array([1, pd.NA], object))
    model.partial_fit(
        X, pd.Series([BIG, BIG + 1] * 6, dtype="Int64"), classes=pd.Series([BIG, BIG + 1], dtype="Int64")
    )
    assert model.classes_.tolist() == [BIG, BIG + 1]
