"""Models to write and read back, and how they are compared."""

from __future__ import annotations

import numpy as np
from problems import make_problem

from crfqn import ChainCRF
from crfqn.data.model_file import read_model, write_model

PROBLEM = make_problem(31, n_items=30, n_features=8)
TRACE = ("seconds", "value", "gap", "violation", "passes", "n_active", "n_nonzero", "is_screening")
RESULT = ("value", "gap", "violation", "status", "passes", "n_iter", "seconds", "message")


def named(suffix: str = "") -> list[list[list[str]]]:
    return [[[f"é{j}{suffix}" for j in np.flatnonzero(row)] for row in item] for item in PROBLEM.items]


def assert_same_predictions(left: ChainCRF, right: ChainCRF, X) -> None:
    for a, b in zip(left.predict_marginals(X), right.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)
    one, other = left.decode(X), right.decode(X)
    assert [path.tolist() for path in one.labels] == [path.tolist() for path in other.labels]
    assert {path.dtype for path in one.labels} == {path.dtype for path in other.labels}
    np.testing.assert_array_equal(one.log_probability, other.log_probability)


def assert_same_result(left, right) -> None:
    for name in RESULT:
        np.testing.assert_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert len(left.trace) == len(right.trace)
    for name in TRACE:
        one, other = getattr(left.trace, name), getattr(right.trace, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, err_msg=name)


def rewriter(model, path):
    """Save the model; returns a function that writes the file again with changes, None for what is to go."""
    model.save(path)
    file = read_model(path)

    def present(old: dict, new: dict | None) -> dict:
        return {name: value for name, value in {**old, **(new or {})}.items() if value is not None}

    def write(kind=file.kind, arrays=None, strings=None, **metadata):
        known = present(file.metadata, metadata)
        write_model(path, kind, present(file.arrays, arrays), present(file.strings, strings), known)

    return write
