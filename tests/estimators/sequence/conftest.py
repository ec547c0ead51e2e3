"""The model that most tests look at, trained once a file."""

from __future__ import annotations

import pytest
from chain_estimators import fitted

from crfqn import ChainCRF


@pytest.fixture(scope="module")
def model() -> ChainCRF:
    return fitted()
