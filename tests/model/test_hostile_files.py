"""Model files and taxonomies that are small and ask for much: refused, or opened in memory of their own size."""

import bz2
import gzip
import os
import random
import tracemalloc

import numpy as np
import pytest
from command_line import run_here
from model_mutations import write_mutation
from scipy.sparse import csr_array

import crfqn
from crfqn import ChainCRF, Model, MulticlassClassifier, MulticlassCRF, Tagger, TaxonomyCRF, Templates
from crfqn.cli import inspection
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import DataError, ModelFileError
from crfqn.interchange import formats
from crfqn.model.content import MAX_WEIGHT
from crfqn.model.opening import open_model, read_any
from crfqn.service.labelling import LabelService
from crfqn.taxonomy.reading import open_taxonomy

READERS = (crfqn.load, open_model, Tagger, LabelService)
N_FEATURES = 2**31 - 1
RNG = np.random.default_rng(0)
ROWS, CODES = RNG.normal(size=(60, 5)), RNG.integers(0, 3, 60)


@pytest.fixture(scope="module", params=["chain", "flat"])
def path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "model.crfqn"
    if request.param == "chain":
        ChainCRF(l1=0.1, n_threads=1).fit([ROWS] * 3, [CODES.tolist()] * 3).save(path)
    else:
        MulticlassCRF(l1=0.1, n_threads=1).fit(ROWS, CODES).save(path)
    return path


def rewritten(path, target, arrays=None, **metadata):
    file = read_model(path)
    write_model(target, file.kind, file.arrays | (arrays or {}), file.strings, file.metadata | metadata)
    return target


def test_memory_is_that_of_the_weights_and_not_of_the_features(path, tmp_path):
    wide = rewritten(path, tmp_path / "wide.crfqn", n_features=N_FEATURES)
    assert wide.stat().st_size < 10_000
    narrow, rows = crfqn.load(path), csr_array(ROWS)
    as_wide = csr_array((rows.data, rows.indices, rows.indptr), shape=(60, N_FEATURES))
    is_chain = narrow.ANSWERS.has_positions
    X, wide_X = ([rows], [as_wide]) if is_chain else (rows, as_wide)
    expected = narrow.predict_marginals(X) if is_chain else narrow.predict_proba(X)
    reasons, strongest = Model.open(path).explain(X), Model.open(path).strongest_features(X)
    assert crfqn.load(path).result_.weights.size
    tracemalloc.start()
    for reader in (*READERS, lambda path: Tagger(path).info()):
        reader(wide)
    for model in (Model.open(wide), crfqn.load(wide)):
        found = model.predict_marginals(wide_X) if is_chain else model.predict_proba(wide_X)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    opened = Model.open(wide)
    assert (opened.explain(wide_X), opened.strongest_features(wide_X)) == (reasons, strongest)
    assert opened.weights_by_name() == Model.open(path).weights_by_name()
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()


@pytest.mark.parametrize("weight", [1.01 * MAX_WEIGHT, -1e100, np.inf, np.nan])
def test_weights_without_a_finite_score(path, tmp_path, weight):
    values = read_model(path).arrays["node_weight"].copy()
    values[1] = weight
    bad = rewritten(path, tmp_path / "bad.crfqn", {"node_weight": values})
    for reader in READERS:
        with pytest.raises(ModelFileError, match="node_weight"):
            reader(bad)


def test_labels_that_stand_for_large_arrays(tmp_path):
    X, path = [[["a"], ["b"]]] * 2, tmp_path / "model.crfqn"
    ChainCRF(l1=0.1, n_threads=1).fit(X, [["A", "B"]] * 2).save(path)
    file = read_model(path)
    many, long = [f"{k:x}" for k in range(30_000)], ["A" * 9000, *(f"{k:x}" for k in range(3000))]
    for labels, message in (
        (many, "n_classes: expected at most 4,096 labels"),
        (long, "expected shorter labels"),
    ):
        metadata = file.metadata | {"n_classes": len(labels)}
        write_model(path, file.kind, file.arrays, file.strings | {"classes": labels}, metadata)
        for reader in READERS:
            with pytest.raises(ModelFileError, match=message):
                reader(path)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_what_is_compressed_unpacks_to_a_bounded_size(tmp_path, pack):
    bomb = tmp_path / "bomb"
    bomb.write_bytes(pack(b"a b\n" * (1 << 18)) * 68)  # streams of a MiB, which are read as one
    assert bomb.stat().st_size < 100_000
    with pytest.raises(
        DataError, match="unpacks to more than 67108864 bytes; if that is meant, unpack it first"
    ):
        open_taxonomy(bomb)
    for source in (bomb, bomb.read_bytes()):
        with pytest.raises(ModelFileError, match="unpacks to more than"):
            formats.read(source, "crfsuite")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
def test_devices_are_no_models(tmp_path, monkeypatch):
    for reader in READERS:
        with pytest.raises(ModelFileError, match="/dev/zero: not a file"):
            reader("/dev/zero")
    for command in (("predict", "/dev/zero"), ("inspect", "/dev/zero"), ("convert", "/dev/zero", "m.json")):
        run = run_here(monkeypatch, tmp_path, *command, input="a\n")
        assert run.returncode == 2
        assert "Traceback" not in run.stderr


def trained_models(folder):
    """Write a model of each kind that labels without its estimator; return their files."""
    words = [["Ann", "sees", "Bob"], ["a", "b"]] * 5
    windows = Templates(windows="w[-1] w[0]", columns=("w",))
    X, y = (
        windows.fit_transform([[[word] for word in item] for item in words]),
        [["B-P", "O", "B-P"], ["O", "O"]] * 5,
    )
    models = {
        "chain": ChainCRF(l1=0.1, scheme="IOB2", transition_rules="seen", n_threads=1).fit(X, y),
        "flat": MulticlassCRF(l1=0.1, n_threads=1).fit(ROWS, CODES),
        "hinge": MulticlassClassifier(loss="hinge", penalty="l2", n_threads=1).fit(ROWS, CODES),
        "tree": TaxonomyCRF(l1=0.1, n_threads=1).fit(ROWS, np.array(["a/x", "a/y", "b"])[CODES]),
    }
    for name, model in models.items():
        model.save(folder / f"{name}.crfqn")
    return [folder / f"{name}.crfqn" for name in models]


def damaged(content, rng):
    """Bytes of a model file with a byte changed, a number of its header, or its size."""
    kind, n_header = rng.randrange(4), int.from_bytes(content[:8], "little")
    if kind == 0:
        return content[: rng.randrange(len(content))]
    place = rng.randrange(8, 8 + n_header) if kind == 1 else rng.randrange(len(content))
    if kind == 3:
        return content[:place] + bytes(rng.randrange(1, 100)) + content[place:]
    new = rng.choice(b"0123456789") if kind == 1 else rng.randrange(256)
    return content[:place] + bytes([new]) + content[place + 1 :]


def test_all_that_open_a_model_file_agree_on_it(tmp_path):
    """Contents with a right checksum that no training writes, and damaged bytes: all open it, or all refuse it with the
    documented error, without having asked for memory. Settings that contradict each other matter to training alone."""
    rng, path, n_open, n_contradictions = random.Random(0), tmp_path / "changed.crfqn", [0, 0], 0
    files = trained_models(tmp_path)
    readers = (*READERS, lambda path: inspection._opened(read_any(path)))
    for k in range(480):
        source = files[k % len(files)]
        is_content = k % 3 > 0
        if is_content:
            write_mutation(path, read_model(source), rng)
        else:
            path.write_bytes(damaged(source.read_bytes(), rng))
        refusals = {}
        for reader in readers:
            try:
                reader(path)
            except ModelFileError as error:
                refusals[reader] = str(error)
        if [*refusals] == [crfqn.load]:
            assert " settings: " in refusals[crfqn.load], (source.name, k, refusals)
            n_contradictions += 1
            continue
        assert len(refusals) in (0, len(readers)), (source.name, k, refusals)
        assert not any("MemoryError" in message for message in refusals.values()), refusals
        n_open[is_content] += not refusals
    assert n_contradictions < 15
    assert n_open[0] < 15  # a byte that was changed to what it is
    assert 30 < n_open[1] < 200
