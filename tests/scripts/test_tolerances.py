"""The table of accuracy by tolerance, on digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from harness.default_sets import QUICK
from measurements import tolerances


def test_looser_fits_take_less_and_score_alike():
    source = QUICK["few-digits"]()
    found = tolerances.measure(source, 100, draws=2)
    assert found.shape == (2, len(tolerances.TOLERANCES), 3)
    score, seconds, warned = (found[:, :, i] for i in range(3))
    assert (score > 50.0).all()
    assert (seconds > 0).all()
    assert not warned.any()
    row = tolerances.row_of("few-digits", source, found)
    assert row["at 1e-3"] == f"{score[:, -1].mean():.2f}"
    lost = score[:, 1] - score[:, -1]
    assert row["0.03: difference, time"].startswith(
        f"{lost.mean():+.2f} ± {np.abs(np.diff(lost))[0] / 2:.2f}, "
    )


@pytest.mark.parametrize("penalty", ["l1", "l2", "rows"])
def test_strengths_are_multiples_of_the_default(penalty):
    source = QUICK["few-digits"]()
    X, y = source.items.X_train, source.items.y_train
    one, ten = (tolerances.penalised(source, penalty, strength, X, y) for strength in (1.0, 10.0))
    name = {"rows": "group_l1"}.get(penalty, penalty)
    assert ten[name] == pytest.approx(10.0 * one[name])
    fitted = source.model(**one).fit(X, y)
    automatic = source.model(**one | {name: 1.0 if penalty == "l2" else "auto"}).fit(X, y)
    assert getattr(automatic, f"{name}_") == pytest.approx(getattr(fitted, f"{name}_"))
