"""The largest value of a feature, 1e12: one limit and one message wherever items come in, in training and labelling."""

from __future__ import annotations

import json
from functools import cache

import dask.bag
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from command_line import run_here

from crfqn import (
    Blocks,
    CalibratedLeastSquares,
    ChainCRF,
    Features,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    Sequences,
    StagewiseRegression,
    Tagger,
    TaxonomyCRF,
    interchange,
)
from crfqn.compat import CRF
from crfqn.errors import InputError
from crfqn.service.labelling import LabelRequest, LabelService

LIMIT = r"expected a finite number of at most 1e\+12 in size, got "
WRONG = [1e17, -1e308, 1.0001e12, np.float32(1e13), 10**13, np.inf, np.nan]
ITEMS, LABELS = [[{"a": 1.0}, {"b": 1.0}], [{"b": 2.0}, {"a": 1e12}]], [["A", "B"], ["B", "A"]]
ROWS = np.random.default_rng(0).normal(size=(30, 4))
CODES = ROWS[:, :3].argmax(axis=1)
METHODS = ["predict", "decode", "predict_marginals", "predict_proba", "predict_nbest", "predict_single"]


def chain_item(value):
    return [{"c": 1}, {"b": 1, "a": value}]


@cache
def chain():
    return ChainCRF(l1=0.1).fit(ITEMS, LABELS)


def refused(value="", place="item 0, position 1: feature 'a'"):
    return pytest.raises(InputError, match=f"{place}: {LIMIT}{value}")


@pytest.mark.parametrize("value", WRONG, ids=str)
class TestChains:
    def test_training(self, value, tmp_path):
        X, y = [ITEMS[0], chain_item(value)], LABELS
        for model in (ChainCRF(l1=0.1), ChainCRF(solver="averaged-perceptron")):
            with refused(place="item 1, position 1: feature 'a'"):
                model.fit(X, y)
        with refused(place="item 1, position 1: feature 'a'"):
            ChainCRF(l1=0.1).partial_fit(X, y)
        with refused(place="item 1, position 1: feature 'a'"):
            ChainCRF(solver="passive-aggressive").partial_fit(X, y, ["A", "B"])
        with refused(place="item 1, position 1: feature 'a'"):
            CRF().fit(X, y)
        with refused(place="batch 0: item 1, position 1: feature 'a'"):
            Blocks.write(tmp_path / "blocks", [(X, y)])

    @pytest.mark.parametrize("method", METHODS)
    def test_labelling(self, value, method):
        items = chain_item(value) if method == "predict_single" else [chain_item(value)]
        with refused():
            getattr(chain(), method)(items)

    def test_scores_of_labels(self, value):
        for method in ("score", "log_likelihood"):
            with refused():
                getattr(chain(), method)([chain_item(value)], [["A", "B"]])

    def test_taggers_and_models_of_other_tools(self, value, tmp_path):
        chain().save(tmp_path / "m.crfqn")
        interchange.write(chain(), tmp_path / "m.crfsuite")
        imported = interchange.read(tmp_path / "m.crfsuite")
        for name in ("m.crfqn", "m.crfsuite"):
            tagger = Tagger(tmp_path / name)
            for label in (tagger.tag, tagger.marginals, tagger.nbest):
                with refused():
                    label(chain_item(value))
        with refused():
            imported.predict([chain_item(value)])
        crf = CRF().fit(ITEMS, LABELS)
        with refused():
            crf.predict([chain_item(value)])

    def test_arrays(self, value):
        rows = np.array([[1.0, 0.0], [0.5, value]])
        model = ChainCRF(l1=0.1).fit([np.eye(2), np.ones((1, 2))], [["A", "B"], ["A"]])
        place = "item 1, position 1: feature 1"
        for items in ([np.eye(2), rows], [sp.csr_array(np.eye(2)), sp.csr_array(rows)]):
            with refused(place=place):
                model.predict(items)
            with refused(place=place):
                ChainCRF().fit(items, LABELS)
        with refused(place="item 0, position 1: feature 'size'"):
            Sequences(rows, [0, 2], ["word", "size"])

    def test_beside_a_dense_block(self, value):
        with refused(place="item 0, position 1: dense column 0"):
            Features([[[1.0], [value]]], [[{"a": 1}, {"b": 1}]])


@pytest.mark.parametrize("value", [1e17, -1e13])
class TestItems:
    @pytest.mark.parametrize(
        "model",
        [
            MulticlassCRF(l1=0.1),
            MulticlassClassifier(),
            MulticlassClassifier(penalty="l2", loss="hinge"),
            TaxonomyCRF(l1=0.1),
            MultilabelRanker(),
            MulticlassSVC(),
            GeneralizedLeastSquares(),
            CalibratedLeastSquares(max_iter=2),
            StagewiseRegression(max_iter=2, batch_size=2),
        ],
        ids=lambda model: type(model).__name__,
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_estimators(self, value, model):
        sets = isinstance(model, MultilabelRanker)
        y = [(f"c{code}",) for code in CODES] if sets else CODES
        model.fit(ROWS, y)
        rows = ROWS.copy()
        rows[3, 2] = value
        for X in (
            rows,
            sp.csr_array(rows),
            sp.csc_array(rows),
            np.asfortranarray(rows),
            rows[:, ::-1][:, ::-1],
        ):
            with refused(place="item 3: feature 2"):
                model.predict(X)
            with refused(place="item 3: feature 2"):
                type(model)(**model.get_params()).fit(X, y)

    def test_frames_name_the_column(self, value):
        frame = pd.DataFrame(ROWS, columns=list("abcd"))
        model = MulticlassCRF(l1=0.1).fit(frame, CODES)
        frame.loc[3, "c"] = value
        for use in (model.predict, model.predict_proba, lambda X: model.fit(X, CODES)):
            with refused(place="item 3: feature 'c'"):
                use(frame)

    def test_taggers(self, value, tmp_path):
        MulticlassCRF(l1=0.1).fit(pd.DataFrame(ROWS, columns=list("abcd")), CODES).save(tmp_path / "m")
        tagger, rows = Tagger(tmp_path / "m"), ROWS[:4].copy()
        rows[3, 2] = value
        with refused(place="item 3: feature 'c'"):
            tagger.tag_items(rows)
        with refused(place="item 0: feature 'c'"):
            tagger.tag({"c": value})

    def test_blocks(self, value, tmp_path):
        rows = ROWS.copy()
        rows[3, 2] = value
        with refused(place="batch 0: item 3, position 0: feature 2"):
            Blocks.write(tmp_path / "blocks", [(rows, CODES)])


def test_the_next_position_keeps_its_label_up_to_the_limit():
    """Sums of scores keep the digits that tell labels apart."""
    model = ChainCRF(l1=0.01).fit([[{"a": 1}, {"b": 1}], [{"b": 1}, {"a": 1}]] * 3, LABELS * 3)
    for value in (1e6, 1e12, -1e12):
        labels = model.predict([[{"a": value}, {"b": 1}]])[0]
        assert labels[1] == "B"
        assert np.isfinite(model.predict_marginals([[{"a": value}, {"b": 1}]])[0]).all()


def test_the_command_line_and_the_service(monkeypatch, tmp_path):
    chain().save(tmp_path / "m.crfqn")
    (tmp_path / "new.crfsuite").write_text("A\tb:1\nB\ta:1e308\n")
    for command in ("predict", "evaluate"):
        done = run_here(monkeypatch, tmp_path, command, "m.crfqn", "new.crfsuite", "--json")
        assert (done.returncode, done.stdout) == (2, "")
        assert "position 1: feature 'a': expected a finite number of at most 1e+12" in " ".join(
            done.stderr.split()
        )
    service = LabelService(tmp_path / "m.crfqn")
    body = json.dumps({"item": [{"b": 1}, {"a": 1e308}], "marginals": True}).encode()
    with refused("1e\\+308"):
        service.answer(LabelRequest.read(body), np.inf)


def test_shards():
    bag = dask.bag.from_sequence([(ITEMS[0], LABELS[0]), (chain_item(1e17), LABELS[1])], npartitions=1)
    from distributed import Client

    with (
        Client(n_workers=1, processes=False, dashboard_address=None) as client,
        refused(place=".*position 1: feature 'a'"),
    ):
        ChainCRF(l1=0.1, dask_client=client).fit(bag)
