"""Items of four classes, and `MulticlassCRF` trained on them."""

from __future__ import annotations

import numpy as np

from crfqn import MulticlassCRF

RNG = np.random.default_rng(41)
X = RNG.poisson(0.7, (90, 12)) * RNG.choice([0.5, 1.0, 2.0], (90, 12))
W = RNG.normal(size=(12, 4))
Y = np.argmax(X @ W + RNG.gumbel(size=(90, 4)) - [0.0, -1.0, 0.0, 1.0], axis=1)
NAMES = np.array(["b", "a", "d", "c"])[Y]
N_CLASSES = 4


def fitted(**settings) -> MulticlassCRF:
    return MulticlassCRF(**{"l1": 0.5, **settings}).fit(X, Y)


def assert_same_model(left: MulticlassCRF, right: MulticlassCRF) -> None:
    """Bit by bit."""
    assert left.coef_.toarray().tobytes() == right.coef_.toarray().tobytes()
    assert left.intercept_.tobytes() == right.intercept_.tobytes()
    assert left.result_.value == right.result_.value
