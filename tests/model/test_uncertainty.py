"""Measures of uncertainty: against enumeration of all labellings of short chains, and of all labels of items."""

from itertools import product

import numpy as np
import pytest

import crfqn
from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, TaxonomyCRF
from crfqn.errors import InputError


def expected(p, n_positions, n=None):
    """The three measures of probabilities of labellings (n_positions of each) or labels (None), the largest first."""
    p = np.sort(p)[::-1]
    best = p[:n] / p[:n].sum()
    confidence = 1 - p[0] if n_positions is None else -np.log(p[0]) / n_positions
    return {"confidence": confidence, "margin": 1 - (p[0] - p[1]), "entropy": -(best * np.log(best)).sum()}


@pytest.mark.parametrize(("once", "is_calibrated"), [((), False), (("b",), False), ((), True)])
def test_of_chains(once, is_calibrated, tmp_path):
    rng = np.random.default_rng(0)
    X = [[[str(word)] for word in rng.integers(0, 5, rng.integers(1, 5))] for _ in range(40)]
    y = [["abc"[(int(word) + rng.integers(2)) % 3] for (word,) in item] for item in X]
    model = ChainCRF(l1=0.1, transition_rules=crfqn.Transitions(once=once)).fit(X, y)
    if is_calibrated:
        model.calibrate(X[:20], [["a"] * len(item) for item in X[:20]])
        assert abs(model.temperature_ - 1) > 0.1
    model.save(tmp_path / "model.crfqn")
    light = crfqn.Model.open(tmp_path / "model.crfqn")
    X = X[:12]
    wanted = []
    for item in X:
        labellings = [[*labels] for labels in product("abc", repeat=len(item))]
        if once:
            text = ["".join(labels) for labels in labellings]
            labellings = [
                labels
                for labels, each in zip(labellings, text, strict=True)
                if each.strip("ac").strip("b") == ""
            ]
        p = np.exp(model.log_likelihood([item] * len(labellings), labellings))
        wanted.append(expected(p, len(item), 10))
    for measure in wanted[0]:
        values = [one[measure] for one in wanted]
        np.testing.assert_allclose(model.uncertainty(X, measure), values, atol=1e-9)
        np.testing.assert_allclose(light.uncertainty(X, measure), values, atol=1e-9)
        assert model.uncertainty([[], X[0]], measure).tolist()[0] == 0


def test_a_long_sequence_has_an_entropy_although_its_probabilities_underflow():
    X, y = [[["x"]], [["x"]], [["z"]]], [["a"], ["b"], ["b"]]
    model = ChainCRF(l1=0.1).fit(X, y)
    value = model.uncertainty([[["x"]] * 3000], "entropy")[0]
    assert model.predict_nbest([[["x"]] * 3000], 2)[0][0][1] == 0
    assert 0 < value <= np.log(10) + 1e-12


@pytest.mark.parametrize("kind", ["flat", "taxonomy"])
def test_of_single_items(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.array(["a/x", "a/y", "b"])[np.argmax(X[:, :3] + rng.normal(size=(60, 3)), axis=1)]
    model = (MulticlassCRF(l1=0.1) if kind == "flat" else TaxonomyCRF(l1=0.1)).fit(X, y)
    wanted = [expected(p, None) for p in model.predict_proba(X[:9])]
    for measure in wanted[0]:
        np.testing.assert_allclose(
            model.uncertainty(X[:9], measure), [one[measure] for one in wanted], atol=1e-12
        )


def test_what_is_refused():
    X, y = [[["x"]], [["z"]]], [["a"], ["b"]]
    with pytest.raises(InputError, match="measure: expected one of confidence, margin, entropy, got 'x'"):
        ChainCRF(l1=0.1).fit(X, y).uncertainty(X, "x")
    assert not hasattr(MulticlassClassifier(loss="hinge").fit([[0.0], [1.0]], ["a", "b"]), "uncertainty")
