"""Exchange with CRFsuite on sentences of CoNLL-2000: only where CRFQN_DATA names the folder with the data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

from crfqn import interchange
from crfqn.compat import CRF, attributes
from crfqn.readers.conll import read_conll

FOLDER = Path(os.environ.get("CRFQN_DATA", ""), "conll2000")
pytestmark = pytest.mark.skipif(
    not os.environ.get("CRFQN_DATA") or not (FOLDER / "test.txt.gz").is_file(), reason="needs CRFQN_DATA"
)


def features(sentence):
    """Word and tag of a position and of those beside it."""
    around = [{"w": "BOS", "pos": "BOS"}, *sentence, {"w": "EOS", "pos": "EOS"}]
    return [
        {f"{name}[{step}]": around[t + 1 + step][name] for name in ("w", "pos") for step in (-1, 0, 1)}
        for t in range(len(sentence))
    ]


def test_both_ways_to_the_last_label(tmp_path):
    data = read_conll(FOLDER / "test.txt.gz")
    X, y = [features(sentence) for sentence in data.inputs], data.labels
    crf = CRF(c1=0.5, c2=0.0, delta=1e-2).fit(X[:300], y[:300])
    interchange.write(crf.model_, tmp_path / "ours.crfsuite")
    trainer = pycrfsuite.Trainer(params={"c1": 0.5, "c2": 0.0, "max_iterations": 15}, verbose=False)
    for item, labels in zip(X[:300], y[:300], strict=True):
        trainer.append(item, labels)
    trainer.train(str(tmp_path / "theirs.crfsuite"))
    theirs = interchange.read(tmp_path / "theirs.crfsuite")
    items = attributes(X[300:])
    for model, name in ((crf.model_, "ours"), (theirs, "theirs")):
        tagger = pycrfsuite.Tagger()
        tagger.open(str(tmp_path / f"{name}.crfsuite"))
        predicted, marginals = model.predict(items), model.predict_marginals(items)
        assert [list(path) for path in predicted] == [tagger.tag(item) for item in items]
        for item, table in zip(items[:50], marginals, strict=False):
            tagger.set(item)
            expected = [[tagger.marginal(label, t) for label in model.classes_] for t in range(len(item))]
            np.testing.assert_allclose(table, expected, atol=1e-9)
    interchange.write(theirs, tmp_path / "again.crfsuite")
    assert (tmp_path / "again.crfsuite").read_bytes() == (tmp_path / "theirs.crfsuite").read_bytes()
