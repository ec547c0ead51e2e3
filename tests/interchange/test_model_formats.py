"""JSON with all weights, the table of formats, and `crfqn convert`."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import numpy as np
import pytest
from command_line import run_here

import crfqn
from crfqn import (
    ChainCRF,
    Model,
    MulticlassClassifier,
    MulticlassSVC,
    StagewiseRegression,
    TaxonomyCRF,
    interchange,
)
from crfqn.data.model_file import SUFFIXES_NEVER_WRITTEN, SUFFIXES_OF_OTHERS
from crfqn.errors import InputError, ModelFileError
from crfqn.interchange.formats import FORMATS, OWN_FORMAT

ROWS = np.array([[2, 0, 0, 1], [1, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 1], [0, 0, 3, 1], [0, 0, 1, 0.1]] * 2)
CLASSES = ["a/x", "a/x", "a/ü", "a/ü", "b", "b"] * 2
SEQUENCES, LABELS = [[["x"], ["y"]], [["y", "z"]]], [["é", "N"], ["N"]]

MODELS = {
    "chain": lambda: ChainCRF(l1=0.01).fit(SEQUENCES, LABELS),
    "taxonomy": lambda: TaxonomyCRF(l1=0.1, fit_intercept=True).fit(ROWS, CLASSES),
    "flat": lambda: MulticlassClassifier(group_l1=0.1).fit(ROWS, [1, 1, 2, 2, 3, 3] * 2),
    "kernel": lambda: MulticlassSVC().fit(ROWS, CLASSES),
    "stages": lambda: StagewiseRegression(max_iter=2, random_state=0).fit(ROWS, CLASSES),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def chain():
    return MODELS["chain"]()


class TestJson:
    def test_it_reads_back_equal(self, model, tmp_path):
        path = tmp_path / "m.json"
        interchange.write(model, path)
        again = interchange.read(path)
        X = SEQUENCES if isinstance(model, ChainCRF) else ROWS
        found, expected = (np.concatenate(fitted.predict(X), axis=None) for fitted in (again, model))
        assert found.tolist() == expected.tolist()
        model.save(tmp_path / "m.crfqn")  # which leaves out names without a weight
        saved = crfqn.load(tmp_path / "m.crfqn")
        for name in ("coords", "weights"):
            assert np.array_equal(getattr(again.result_, name), getattr(saved.result_, name))
        assert again.result_.status is model.result_.status
        assert again.stored_parameters() == model.stored_parameters()
        interchange.write(again, tmp_path / "again.json")
        assert json.loads((tmp_path / "again.json").read_text()) == json.loads(path.read_text())

    def test_weights_stand_by_name(self, chain, tmp_path):
        interchange.write(chain, tmp_path / "m.json")
        content = json.loads((tmp_path / "m.json").read_text())
        names, labels = content["strings"]["feature_names"], content["strings"]["classes"]
        columns = (content["arrays"][f"node_{part}"]["values"] for part in ("feature", "state", "weight"))
        weights = {(names[f], labels[k]): weight for f, k, weight in zip(*columns, strict=True)}
        dense = chain.coef_.toarray()
        assert weights["y", "N"] == dense[chain.classes_.tolist().index("N"), chain.vocabulary["y"]]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.pop("format"), "'format' is 'crfqn-model'"),
            (lambda d: d.update(version=4), "version: expected 1, got 4"),
            (lambda d: d.update(kind="unheard-of"), "expected a model of kind"),
            (lambda d: d.update(arrays=[]), "arrays: expected a JSON object"),
            (lambda d: d["strings"].update(classes=[1]), "strings: classes: expected a list of strings"),
            (lambda d: d["arrays"]["node_weight"].update(values=["x", 1.0]), "expected values of float64"),
            (
                lambda d: d["arrays"]["node_weight"]["values"].__setitem__(0, None),
                "expected values of float64, got None",
            ),
            (lambda d: d["arrays"]["node_weight"].update(shape=[10**12]), "do not have the shape"),
            (lambda d: d["arrays"]["node_weight"].update(dtype="object"), "expected a dtype"),
            (
                lambda d: d["arrays"]["node_feature"]["values"].__setitem__(0, 2**70),
                "expected values of uint8",
            ),
            (lambda d: d["arrays"]["node_feature"]["values"].__setitem__(0, 77), "out of the range"),
            (lambda d: d["arrays"]["node_weight"]["values"].__setitem__(0, "NaN"), "not finite"),
            (lambda d: d["metadata"].pop("settings"), "settings: expected a table"),
        ],
    )
    def test_damage(self, chain, tmp_path, change, message):
        path = tmp_path / "m.json"
        interchange.write(chain, path)
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
        with pytest.raises(ModelFileError, match=message):
            interchange.read(path)

    def test_changed_bytes_are_told_or_give_a_model(self, model, tmp_path):
        path, rng, n_read = tmp_path / "m.json", random.Random(11), 0
        interchange.write(model, path)
        content = path.read_bytes()
        for _ in range(60):
            changed = bytearray(content)
            at = rng.randrange(len(changed))
            odd = rng.choice(
                [b"", b"0", b"-", b"9", b'"', b"[", b"null", b"x", b"\\ud800", b"\xff", b"1e999"]
            )
            changed[at : at + rng.randint(0, 2)] = odd
            path.write_bytes(changed)
            try:
                found = interchange.read(path)
            except ModelFileError:
                continue
            n_read += 1
            with suppress(InputError):
                interchange.write(found, tmp_path / "again.crfqn")
        assert 0 < n_read < 60

    def test_no_json(self, tmp_path):
        (tmp_path / "m.json").write_text('{"a": ')
        with pytest.raises(ModelFileError, match="not a JSON document"):
            interchange.read(tmp_path / "m.json")


class TestFormats:
    def test_every_kind_is_written_as_crfqns_own(self, model, tmp_path):
        interchange.write(model, tmp_path / "m.json")
        interchange.convert(tmp_path / "m.json", tmp_path / "m.crfqn", dtype="float32")
        X = SEQUENCES if isinstance(model, ChainCRF) else ROWS
        found, expected = (fitted.predict(X).tolist() for fitted in (crfqn.load(tmp_path / "m.crfqn"), model))
        assert found == expected

    def test_files_are_known_by_how_they_begin(self, chain, tmp_path):
        for suffix in ("crfqn", "crfsuite", "json"):
            interchange.write(chain, tmp_path / f"m.{suffix}")
            (tmp_path / f"m.{suffix}").rename(tmp_path / "m")
            assert interchange.read(tmp_path / "m").classes_.tolist() == chain.classes_.tolist()

    def test_options_are_of_the_format(self, chain, tmp_path):
        interchange.write(chain, tmp_path / "m.crfqn", dtype="float32")
        read = interchange.read(tmp_path / "m.crfqn")
        assert read.coef_.data.tolist() == chain.coef_.data.astype(np.float32).tolist()
        with pytest.raises(
            InputError, match=r"crfsuite: dtype: expected one of the options \['feature_names', 'lossy'\]"
        ):
            interchange.write(chain, tmp_path / "m.crfsuite", dtype="float32")

    @pytest.mark.parametrize(
        ("target", "format", "message"),
        [
            ("m.bin", None, r"expected one of the extensions .crfqn, .crfsuite, .json, .onnx"),
            (
                "m.bin",
                "wapiti",
                r"expected one of \['crfqn', 'crfsuite', 'json', 'onnx'\] to write, got 'wapiti'",
            ),
        ],
    )
    def test_formats_that_cannot_be_written(self, chain, tmp_path, target, format, message):
        with pytest.raises(InputError, match=message):
            interchange.write(chain, tmp_path / target, format)
        assert not list(tmp_path.iterdir())

    def test_other_models_are_no_chains(self, tmp_path):
        with pytest.raises(InputError, match="crfsuite: expected a ChainCRF, got a MulticlassClassifier"):
            interchange.write(MODELS["flat"](), tmp_path / "m.crfsuite")

    def test_files_that_are_no_models(self, tmp_path):
        (tmp_path / "m.onnx").write_bytes(b"\x08\x08")
        with pytest.raises(ModelFileError, match="ONNX, of classifiers and chains are written only"):
            interchange.read(tmp_path / "m.onnx")
        with pytest.raises(ModelFileError, match="no such file"):
            interchange.read(tmp_path / "missing")
        with pytest.raises(ModelFileError, match="a folder"):
            interchange.read(tmp_path, "crfsuite")
        for content in (b"lala", b"\0" * 50, b"a,b\n1,2\n"):
            (tmp_path / "foreign").write_bytes(content)
            for source, shown in ((tmp_path / "foreign", "foreign"), (content, "<bytes>")):
                with pytest.raises(
                    ModelFileError, match=rf"{shown}: expected one of .*Wapiti's.*begins like none"
                ):
                    interchange.read(source)


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        return lambda *arguments, **options: run_here(monkeypatch, tmp_path, *arguments, **options)

    def test_there_and_back(self, chain, tmp_path, run):
        chain.save(tmp_path / "m.crfqn", {"note": "kept"})
        there = run("convert", "m.crfqn", "m.crfsuite", code=0)
        message = f"wrote m.crfsuite: 2 labels, {chain.result_.n_nonzero} weights\n"
        assert (there.stdout, there.stderr) == ("", message)
        back = run("convert", "m.crfsuite", "back.bin", "--to", "crfqn", "-q", code=0)
        assert (back.stdout, back.stderr) == ("", "")
        assert crfqn.load(tmp_path / "back.bin").predict(SEQUENCES)[1] == ["N"]
        run("convert", "m.crfqn", "m.json")
        assert interchange.read(tmp_path / "m.json").extra_ == {"note": "kept"}

    def test_what_would_be_lost_is_asked_for(self, tmp_path, run):
        ChainCRF(l1=0.01, scheme="IOB2").fit([[["x"], ["y"]]], [["B-N", "I-N"]]).save(tmp_path / "m.crfqn")
        message = "rules on the first and the last labels of items"
        assert run("convert", "m.crfqn", "m.crfsuite", error=f"no place for {message}").stdout == ""
        assert not (tmp_path / "m.crfsuite").exists()
        assert f"lost: {message}" in run("convert", "m.crfqn", "m.crfsuite", "--lossy", code=0).stderr

    def test_inspect_shows_no_settings_of_a_training_that_was_not_ours(self, chain, tmp_path, run):
        interchange.write(chain, tmp_path / "m.crfsuite")
        run("convert", "m.crfsuite", "m.crfqn")
        shown = run("inspect", "m.crfqn").stdout
        assert "read from another tool's file" in shown
        assert "l1" not in shown
        assert "nan" not in shown

    @pytest.mark.parametrize("arguments", [("m.crfqn", "m.foo"), ("m.crfqn", "m.json", "--dtype", "float16")])
    def test_wrong_usage(self, chain, tmp_path, run, arguments):
        chain.save(tmp_path / "m.crfqn")
        found = run("convert", *arguments, code=2)
        assert found.stdout == ""
        assert found.stderr.startswith("crfqn: ")


@pytest.mark.parametrize("suffix", SUFFIXES_OF_OTHERS)
@pytest.mark.parametrize("name", ["m", "folder.crfqn/m", "M.crfqn"])
def test_own_files_have_no_extension_of_another_format(tmp_path, name, suffix):
    """Neither those of estimators nor those of opened models; other tools could not read them."""
    model = ChainCRF(l1=0.1, n_threads=1).fit([[{"a": 1.0}], [{"b": 1.0}]] * 4, [["A"], ["B"]] * 4)
    model.save(tmp_path / "m.crfqn")
    (tmp_path / "folder.crfqn").mkdir()
    for one in (model, Model.open(tmp_path / "m.crfqn")):
        for path in (tmp_path / f"{name}{suffix}", str(tmp_path / f"{name}{suffix.upper()}")):
            with pytest.raises(
                InputError, match=rf"such as {name[-1]}?.*\.crfqn, got the .*interchange\.write"
            ):
                one.save(path)
    assert {path.name for path in tmp_path.iterdir()} == {"m.crfqn", "folder.crfqn"}


@pytest.mark.parametrize("suffix", SUFFIXES_NEVER_WRITTEN)
def test_own_files_are_not_named_as_pickles(chain, tmp_path, suffix):
    with pytest.raises(
        InputError, match=r"such as m\.crfqn, got the extension of a format that crfqn does not write"
    ):
        chain.save(tmp_path / f"m{suffix}")
    assert [*tmp_path.iterdir()] == []


def test_the_extensions_of_other_formats_are_those_of_the_table():
    assert {*SUFFIXES_OF_OTHERS} == {
        suffix for row in FORMATS.values() if row.name != OWN_FORMAT for suffix in row.suffixes
    }
