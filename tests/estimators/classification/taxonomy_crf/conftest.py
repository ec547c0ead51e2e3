"""The models that most tests look at, trained once for all of them."""

from __future__ import annotations

import pytest
from taxonomy_items import ANY, GRAPH, fitted

from crfqn import TaxonomyCRF


@pytest.fixture(scope="session")
def model() -> TaxonomyCRF:
    return fitted()


@pytest.fixture(scope="session")
def any_model() -> TaxonomyCRF:
    return fitted(GRAPH, ANY, labels="nodes", fit_intercept=True)
