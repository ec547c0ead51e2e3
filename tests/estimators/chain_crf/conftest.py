"""Small chains for the tests of `ChainCRF`, and trained models to compare."""

from __future__ import annotations

import pytest
from chain_estimators import fitted

from crfqn import ChainCRF


@pytest.fixture(scope="module")
def model() -> ChainCRF:
    return fitted()
