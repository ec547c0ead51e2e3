"""Points of four classes, and a classifier trained on them, for the tests of scorers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression


@pytest.fixture(scope="module")
def blobs():
    X, numbers = make_blobs(120, centers=4, cluster_std=4.0, random_state=0)
    return X, np.array(["lion", "lynx", "dog", "rose"])[numbers]


@pytest.fixture(scope="module")
def fitted(blobs):
    X, y = blobs
    return LogisticRegression().fit(X, y), X, y
