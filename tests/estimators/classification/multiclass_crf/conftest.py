"""The model that most tests look at, trained once a file."""

from __future__ import annotations

import pytest
from multiclass_items import fitted

from crfqn import MulticlassCRF


@pytest.fixture(scope="module")
def model() -> MulticlassCRF:
    return fitted()
