"""Parameters by the names that other libraries have: a TypeError that says which of ours is meant."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import dataclass

import pytest
from sklearn.base import clone

import crfqn
from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MulticlassSVC, TaxonomyCRF
from crfqn.compat import CRF
from crfqn.parameters import NAMES_ELSEWHERE

ESTIMATORS = [
    *(getattr(crfqn, name) for name in crfqn.__all__ if hasattr(getattr(crfqn, name), "score")),
    CRF,
]


@pytest.mark.parametrize(
    ("estimator", "named", "expected"),
    [
        (ChainCRF, {"c1": 0.1}, "'c1'; expected l1, the same number"),
        (ChainCRF, {"l1": 0.1, "c2": 0.1}, "'c2'; expected l2, twice the number"),
        (ChainCRF, {"max_iterations": 50}, "'max_iterations'; expected max_iter"),
        (ChainCRF, {"delta": 1e-3}, "'delta'; expected tol"),
        (ChainCRF, {"algorithm": "lbfgs"}, "'algorithm'; expected solver"),
        (ChainCRF, {"min_freq": 2}, r"'min_freq'; expected min_count"),
        (ChainCRF, {"n_jobs": -1}, "'n_jobs'; expected n_threads"),
        (ChainCRF, {"seed": 0}, "'seed'; expected random_state"),
        (ChainCRF, {"model_filename": "m"}, r"'model_filename'; expected save\(path\)"),
        (ChainCRF, {"penalty": "l1"}, "'penalty'; expected l1, l2 and group_l1"),
        (MulticlassCRF, {"C": 1.0}, "'C'; expected l1 or l2, which are 1 / C"),
        (MulticlassClassifier, {"alpha": 1.0}, "'alpha'; expected l1, l2 and group_l1"),
        (
            MulticlassClassifier,
            {"early_stopping": True},
            r"'early_stopping'; expected fit\(validation=\(X, y\)\)",
        ),
        (TaxonomyCRF, {"max_itr": 5}, "'max_itr'; expected max_iter$"),
        (TaxonomyCRF, {"zzz": 5}, "'zzz'; expected one of l1, l2, "),
        (MulticlassSVC, {"seed": 1}, "'seed'; expected random_state"),
        (CRF, {"l1": 0.1}, "'l1'; expected c1"),
        (CRF, {"max_iter": 5}, "'max_iter'; expected max_iterations"),
    ],
)
def test_ours_is_named(estimator, named, expected):
    with pytest.raises(
        TypeError, match=rf"^{estimator.__name__}\(\) got an unexpected keyword argument {expected}"
    ):
        estimator(**named)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_is_named_is_a_parameter_and_what_is_one_is_taken(estimator):
    known = [*inspect.signature(estimator).parameters]
    defaults = estimator().get_params(deep=False)
    assert estimator(**defaults).get_params(deep=False) == defaults
    for name in {*NAMES_ELSEWHERE} - {*known}:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; expected ") as info:
            estimator(**{name: 1})
        own, words = NAMES_ELSEWHERE[name]
        assert str(info.value).endswith(words) == (own in known)


def test_copies_and_subclasses():
    @dataclass(eq=False, repr=False, kw_only=True)
    class More(ChainCRF):
        depth: int = 1

    class Other(ChainCRF):
        def __init__(self, strength=1.0):
            super().__init__(l1=strength)
            self.strength = strength

    class Open(ChainCRF):
        def __init__(self, **named):
            super().__init__(l1=named.pop("c1"))

    assert clone(More(depth=2, l1=0.5)).get_params()["depth"] == 2
    assert Other(strength=0.5).l1 == 0.5
    assert Open(c1=0.25).l1 == 0.25
    with pytest.raises(TypeError, match="'c1'; expected l1"):
        More(c1=1.0)
    for again in (copy.copy, copy.deepcopy, clone, lambda model: pickle.loads(pickle.dumps(model))):
        assert again(ChainCRF(l1=0.5)).l1 == 0.5
