"""Data in a folder of blocks: the same model as from memory, whatever stays in memory, and nothing half-written."""

from __future__ import annotations

import os
from itertools import chain

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import Blocks, ChainCRF, MulticlassCRF, StagewiseRegression, TaxonomyCRF, Templates, load
from crfqn.errors import DataError, InputError, ModelFileError
from crfqn.estimators import blocks as module

SEEDS = range(4)


def sentences(seed, n_items=30):
    """Items of dicts with texts and numbers, and a weight each; a batch has names that others lack."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_items):
        labels = random.integers(0, 3, random.integers(1, 7)).tolist()
        X.append(
            [{"w": f"{label}{random.integers(3)}", f"only{seed}": True, "n": 0.5 * label} for label in labels]
        )
        y.append([f"L{label}" for label in labels])
    return X, y, random.integers(1, 4, n_items).astype(float)


def all_items():
    X, y, weights = zip(*map(sentences, SEEDS), strict=True)
    return [*chain(*X)], [*chain(*y)], np.concatenate(weights)


@pytest.fixture
def blocks(tmp_path):
    return Blocks.write(tmp_path / "blocks", lambda: map(sentences, SEEDS), n_positions=100)


@pytest.fixture(scope="module")
def from_memory():
    return ChainCRF(l1=0.3, l2=0.1, tol=1e-6).fit(*all_items())


@pytest.mark.parametrize("kept", [1 << 20, 300, 0])
def test_the_same_model_as_from_memory(blocks, from_memory, kept, monkeypatch, tmp_path):
    """Residuals in memory, some of them or none: the same passes and bits; nothing but the blocks is left."""
    monkeypatch.setattr(module, "KEPT_NUMBERS", max(kept, 1))
    before = sorted(os.listdir(blocks.folder))
    model = ChainCRF(l1=0.3, l2=0.1, tol=1e-6).fit(blocks)
    assert model.feature_names_in_.tolist() == from_memory.feature_names_in_.tolist()
    assert model.classes_.tolist() == from_memory.classes_.tolist()
    np.testing.assert_allclose(model.coef_.toarray(), from_memory.coef_.toarray(), atol=1e-4)
    assert model.result_.value == pytest.approx(from_memory.result_.value, rel=1e-6)
    monkeypatch.setattr(module, "KEPT_NUMBERS", 1 << 20)
    again = ChainCRF(l1=0.3, l2=0.1, tol=1e-6).fit(blocks)
    assert again.coef_.toarray().tobytes() == model.coef_.toarray().tobytes()
    assert again.result_.passes == pytest.approx(model.result_.passes)
    assert sorted(os.listdir(blocks.folder)) == before
    model.save(tmp_path / "model.crfqn")
    X = all_items()[0]
    assert load(tmp_path / "model.crfqn").predict(X).tolist() == model.predict(X).tolist()


def test_blocks_hold_every_item_once_in_bounded_pieces(blocks):
    X, y, weights = all_items()
    assert (len(blocks), blocks.n_items.size > 4) == (len(X), True)
    assert blocks.n_positions.max() <= 100
    found = [blocks.read(number) for number in range(blocks.n_items.size)]
    assert np.concatenate([block.weights for block in found]).tolist() == weights.tolist()
    labels = blocks.classes[np.concatenate([block.targets for block in found])]
    assert labels.tolist() == [*chain(*y)]


@pytest.mark.parametrize("given", ["model", "file", "warm_start"])
def test_continues_from_a_model_with_new_items_labels_and_features(blocks, from_memory, tmp_path, given):
    """Items of one batch first, then all: what was learned is where the training begins, and it takes fewer passes."""
    X, y, _ = sentences(0)
    known = [[label if label != "L2" else "L1" for label in labels] for labels in y]
    first = ChainCRF(l1=0.3, l2=0.1).fit(X, known)
    assert len(first.classes_) < len(blocks.classes)
    first.save(tmp_path / "first")
    start = {"model": first, "file": load(tmp_path / "first"), "warm_start": None}[given]
    settings = {"tol": 1e-6, "warm_start": start is None}
    model = first.set_params(**settings) if start is None else ChainCRF(l1=0.3, l2=0.1, **settings)
    model.fit(blocks, start=start)
    cold = ChainCRF(l1=0.3, l2=0.1, tol=1e-6).fit(blocks)
    assert model.result_.trace.value[0] < cold.result_.trace.value[0]  # equal if the start were ignored
    assert model.result_.value == pytest.approx(from_memory.result_.value, rel=1e-5)
    again = ChainCRF(l1=0.3, l2=0.1, tol=1e-3).fit(blocks, start=model)
    assert again.result_.n_iter <= 2


@pytest.mark.filterwarnings("ignore:stopped")
@pytest.mark.parametrize("n_steps", [1, 4])
def test_a_training_goes_on_from_its_checkpoint(blocks, n_steps, tmp_path, monkeypatch):
    """Also where residuals have to be made anew; blocks of other labels are refused."""
    monkeypatch.setattr(module, "KEPT_NUMBERS", 300)
    settings = {"l1": 0.3, "l2": 0.1, "tol": 1e-6, "checkpoint_every": 1}
    whole = ChainCRF(**settings, checkpoint=tmp_path / "whole").fit(blocks)
    ChainCRF(**settings, checkpoint=tmp_path / "cut", max_iter=n_steps).fit(blocks)
    again = ChainCRF(**settings, checkpoint=tmp_path / "cut").fit(Blocks.open(blocks.folder))
    assert again.result_.status.is_success
    assert again.result_.value == pytest.approx(whole.result_.value, rel=2e-6)
    X, y, weights = sentences(0)
    other = Blocks.write(tmp_path / "other", [(X, [item[::-1] for item in y], weights)])
    with pytest.raises(InputError, match="data: n_items: checkpoint has 120, this training 30"):
        ChainCRF(**settings, checkpoint=tmp_path / "cut").fit(other)


@pytest.mark.parametrize("solver", ["owl-qn", "fista", "sgd"])
def test_other_solvers(blocks, from_memory, solver):
    model = ChainCRF(l1=0.3, l2=0.1, solver=solver, tol=1e-2).fit(blocks)
    assert model.result_.value <= from_memory.result_.value * (1.02 if solver == "sgd" else 1.011)


def test_solvers_that_need_all_items_refuse_by_name(blocks):
    with pytest.raises(
        InputError, match="FeatureBCD cannot train this: BlockState is kept for items in one part"
    ):
        ChainCRF(l1=0.3, solver="feature-bcd").fit(blocks)


def test_rows_and_their_labels(tmp_path):
    random = np.random.default_rng(0)
    x = sp.csr_array(random.random((120, 12)) * (random.random((120, 12)) < 0.4))
    y = np.array(["a/b", "a/c", "d"])[random.integers(0, 3, 120)]
    cuts = [(x[first : first + 50], y[first : first + 50]) for first in range(0, 120, 50)]
    blocks = Blocks.write(tmp_path / "rows", cuts, n_positions=40)
    for make in (
        lambda: MulticlassCRF(l1=0.5, tol=1e-5),
        lambda: TaxonomyCRF(l1=0.5, tol=1e-5, separator="/"),
    ):
        one, other = make().fit(x, y), make().fit(blocks)
        np.testing.assert_allclose(one.predict_proba(x), other.predict_proba(x), atol=1e-3)
    stages = [StagewiseRegression(max_iter=2, random_state=0).fit_blocks(given) for given in (cuts, blocks)]
    np.testing.assert_allclose(*(model.predict_proba(x) for model in stages), atol=1e-6)
    with pytest.raises(InputError, match="expected blocks of sequences, got rows"):
        ChainCRF().fit(blocks)


def test_templates_and_rare_features(tmp_path):
    """Token columns by templates, and features that are too rare: as of all items at once."""
    items = [[("the", "D"), ("dog", "N")], [("a", "D"), ("cat", "N")], [("the", "D"), ("end", "N")]]
    labels = [["x", "y"], ["x", "y"], ["x", "z"]]
    templates = Templates("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB", min_count=2)
    written = Blocks.write(
        tmp_path / "b", [(items[:1], labels[:1]), (items[1:], labels[1:])], templates=templates
    )
    assert sorted(written.vocabulary.names) == sorted(templates.fit(items).vocabulary_.names)
    model = ChainCRF(l1=0.01).fit(written)
    assert model.predict([[("a", "D"), ("dog", "N")]])[0] == ["x", "y"]
    dicts = [([[{"w": "a"}, {"w": "b"}]], [["x", "y"]]), ([[{"w": "a"}]], [["x"]])]
    assert Blocks.write(tmp_path / "c", dicts, min_count=2).vocabulary.names == ["w=a"]


class TestMistakes:
    @pytest.mark.parametrize(("batches", "message"), [
        (iter([]), "batches: expected .* read twice"),
        ([], "expected at least one, got none"),
        ([([[{"a": 1}]],)], r"batch 0: expected \(X, y\)"),
        ([([[{"a": 1}]], [["x"]]), ([[{"a": 1}]], [["x", "y"]])], "batch 1: item 0: expected 1 labels"),
        ([([[{"a": np.nan}]], [["x"]])], "batch 0: item 0, position 0"),
        ([([[{"a": 1}]], [["x"]]), (np.eye(2), [0, 1])], "expected all of one kind"),
    ])  # fmt: skip
    def test_of_batches_leave_nothing_behind(self, tmp_path, batches, message):
        with pytest.raises(InputError, match=message):
            Blocks.write(tmp_path / "blocks", batches)
        assert os.listdir(tmp_path) == []

    def test_of_folders(self, blocks, tmp_path):
        with pytest.raises(InputError, match="expected a folder that does not exist"):
            Blocks.write(blocks.folder, [sentences(0)])
        with pytest.raises(ModelFileError, match="there is no such file"):
            Blocks.open(tmp_path / "nowhere")

    def test_of_what_is_beside_blocks(self, blocks):
        with pytest.raises(InputError, match="y: blocks have their own labels"):
            ChainCRF().fit(blocks, [["x"]])
        with pytest.raises(
            InputError, match="transition_rules: in blocks expected no rules of seen transitions"
        ):
            ChainCRF(transition_rules="seen").fit(blocks)
        with pytest.raises(InputError, match="all_possible_states: in blocks expected True"):
            ChainCRF(all_possible_states=False).fit(blocks)

    @pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
    def test_a_damaged_block_is_named(self, blocks, damage):
        path = blocks.folder / module.BLOCK_FILE.format(2)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink()
        if damage != "gone":
            path.write_bytes(content if damage == "flipped" else content[:-9])
        with pytest.raises(DataError, match="block-000002"):
            ChainCRF().fit(Blocks.open(blocks.folder))
