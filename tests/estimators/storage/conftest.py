"""A model with named features, and a place for its file."""

from __future__ import annotations

import numpy as np
import pytest
from stored_models import PROBLEM, named

from crfqn import ChainCRF


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.crfqn"


@pytest.fixture(scope="session")
def named_model() -> ChainCRF:
    model = ChainCRF(l1=2.5).fit(named(), PROBLEM.labels)
    n_used = np.unique(model.coef_.tocoo().col).size
    assert 0 < n_used < PROBLEM.n_features
    return model
