"""Items of four classes, and `MulticlassCRF` trained on them."""

from __future__ import annotations

import pytest
from multiclass_items import fitted

from crfqn import MulticlassCRF


@pytest.fixture(scope="module")
def model() -> MulticlassCRF:
    return fitted()
