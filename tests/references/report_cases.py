"""Tiny models of each structure with labelled data, for the tests of reports; names are as nasty as names can be."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from crfqn import ChainCRF, MulticlassCRF, Sequences, TaxonomyCRF
from crfqn.data.pixels import PixelPairs

SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
QUOTED, NUL, RTL = "\"quoted\" 'label' & co", "nul\0inside", "\u200fימין"


class Case(NamedTuple):
    """A fitted model, labelled data, and what else its report is given."""

    model: Any
    X: Any
    y: Any
    contents: Mapping[str, Any] = MappingProxyType({})


def chain_case() -> Case:
    X = [
        [{"w": SCRIPT}, {"w": "$x^2$"}, {"w": "a"}],
        [{"w": "$x^2$"}, {"w": "b"}],
        [{"w": "b"}, {"w": SCRIPT}],
    ] * 4
    y = [[QUOTED, NUL, RTL], [NUL, RTL], [RTL, QUOTED]] * 4
    wrong = [[QUOTED, NUL, NUL], [NUL, RTL], [RTL, "unheard of"]]
    return Case(ChainCRF(l1=0.1).fit(X, y), X[:3], wrong)


def taxonomy_case() -> Case:
    names = [f"science/{IMAGE}", "science/physics", "art/music", "art/dance"]
    X, y = np.tile(np.eye(4), (4, 1)), np.tile(names, 4)
    return Case(
        TaxonomyCRF(l1=0.1).fit(X, y),
        X[:4],
        [*names[1:], names[0]],
        {"feature_names": [SCRIPT, "b", "c", "d"]},
    )


def flat_case() -> Case:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + np.eye(3, 4)[y]
    rows = [
        {
            "l1": l1,
            "score": 0.5 + 0.1 / l1,
            "n_nonzero": int(9 / l1),
            "gap": None,
            "seconds": 0.1,
            "status": "converged",
        }
        for l1 in (9.0, 3.0, 1.0)
    ]
    return Case(MulticlassCRF(l1=1.0).fit(X, y), X, y, {"regularization_path": rows, "title": SCRIPT})


def image_case() -> Case:
    rng = np.random.default_rng(0)
    letters = {"I": [[0, 1, 0]] * 4, "L": [[1, 0, 0]] * 3 + [[1, 1, 1]]}
    labels = rng.choice(list(letters), size=(10, 3))
    images = np.array([letters[label] for label in labels.ravel()], float).reshape(30, 12)
    images[::7] = 1 - images[::7]
    pairs = PixelPairs((4, 3))
    X = Sequences(pairs.transform(images), np.arange(0, 31, 3), feature_names=pairs.names)
    return Case(ChainCRF(l1=0.5).fit(X, labels.tolist()), X, [[*item[:-1], "I"] for item in labels.tolist()])


MAKERS = {"chain": chain_case, "taxonomy": taxonomy_case, "flat": flat_case, "images": image_case}
