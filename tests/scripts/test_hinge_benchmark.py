"""The benchmark of the multiclass hinge: both curves go to the same dual optimum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import hinge


def test_both_find_the_dual_optimum():
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.random((60, 20)) * (rng.random((60, 20)) < 0.4))
    y = (X @ rng.normal(size=(20, 3))).argmax(axis=1)
    curve = hinge.ours(X, y, 1.0, 1e-6)
    assert np.isfinite(curve.values).all()
    _, value = hinge.liblinear(X, y, 1.0, 1e-6)
    assert curve.values[-1] == pytest.approx(value, rel=1e-4)
    assert 0 < curve.seconds_to(value, 1e-2) <= curve.seconds[-1]
