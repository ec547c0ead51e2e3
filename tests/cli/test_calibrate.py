"""`crfqn calibrate`: a model file with the temperature of labelled items, which all commands and the service use."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import crfqn
from crfqn.data.model_file import read_model

# Two of three labels are those that a model has learnt without exception: it is too sure of itself.
CONLL = "".join(
    f"{word}\t{label}\n\n" for word, labels in (("Ann", "PPO"), ("sees", "OOP")) for label in labels
)
TEXTS = "label,text\n" + "".join(
    f"{label},{text}\n" for label, text in 6 * [("a", "salt"), ("b", "soup salt"), ("a", "bread")]
)


@pytest.fixture
def names(here, tmp_path):
    rows = "Ann\tP\n\nsees\tO\n\n" * 50
    (tmp_path / "names.conll").write_text(rows, encoding="utf-8")
    (tmp_path / "held-out.conll").write_text(CONLL, encoding="utf-8")
    options = "--columns", "w", "--l1", "0.01", "-o", "names.crfqn", "-q"
    assert here("train", "--data", "names.conll", *options).returncode == 0
    return crfqn.load(tmp_path / "names.crfqn")


def test_the_file_has_the_temperature_of_calibrate(here, names, tmp_path):
    run = here("calibrate", "names.crfqn", "held-out.conll", "-o", "calibrated.crfqn", "--json", code=0)
    expected = names.calibrate([[{"w": w}] for w in ["Ann"] * 3 + ["sees"] * 3], [[k] for k in "PPOOOP"])
    assert expected.temperature_ > 1.5
    answer = {"path": "calibrated.crfqn", "temperature": expected.temperature_, "n_items": 6}
    assert json.loads(run.stdout) == answer
    saved = crfqn.load(tmp_path / "calibrated.crfqn")
    assert saved.temperature_ == expected.temperature_
    assert saved.training_ == names.training_
    shown = f"calibrated temperature {expected.temperature_:.4g}, by which scores are divided\n"
    assert shown in here("inspect", "calibrated.crfqn").stdout
    assert "calibrated" not in here("inspect", "names.crfqn").stdout
    facts = json.loads(here("inspect", "calibrated.crfqn", "--json").stdout)
    assert facts["temperature"] == expected.temperature_
    # Of three labels two are right, and the model now says so.
    text = here("predict", "calibrated.crfqn", "--text", "--marginals", input="Ann\n").stdout
    probability = float(text.split("P:")[1].split()[0])
    assert probability == pytest.approx(2 / 3, abs=1e-3)
    score = here("predict", "calibrated.crfqn", "--text", "--score", input="Ann\n").stdout
    assert np.exp(float(score.split()[1])) == pytest.approx(probability, abs=1e-5)


def test_the_service_answers_with_calibrated_probabilities(here, names, tmp_path):
    from crfqn.service.application import create_app
    from crfqn.service.labelling import LabelService

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starlette would rather have the successor of httpx
        from starlette.testclient import TestClient

    here("calibrate", "names.crfqn", "held-out.conll", "-o", "calibrated.crfqn", code=0)
    asked = {"item": ["Ann", "sees"], "probabilities": True, "marginals": True, "nbest": 4, "explain": 1}
    plain, calibrated = (
        TestClient(create_app(LabelService(tmp_path / name))).post("/label", json=asked).json()
        for name in ("names.crfqn", "calibrated.crfqn")
    )
    model = crfqn.load(tmp_path / "calibrated.crfqn")
    X = [[{"w": "Ann"}, {"w": "sees"}]]
    ((labels,), (log,)), (marginals,) = model.decode(X), model.predict_marginals(X)
    assert calibrated["labels"] == plain["labels"] == list(labels)
    assert calibrated["log_probability"] == pytest.approx(log, abs=1e-12)
    assert calibrated["probability"] < plain["probability"] - 0.1
    classes = model.classes_.tolist()
    rows = [pytest.approx(dict(zip(classes, row, strict=True)), abs=1e-12) for row in marginals]
    assert calibrated["marginals"] == rows
    best = [(one["labels"], pytest.approx(one["probability"], abs=1e-12)) for one in calibrated["nbest"]]
    assert model.predict_nbest(X, 4)[0] == best
    first, reason = calibrated["explanation"][0], plain["explanation"][0]
    assert first["difference"] == pytest.approx(reason["difference"] / model.temperature_)


def test_documents_keep_the_type_of_their_weights(here, tmp_path):
    (tmp_path / "texts.csv").write_text(TEXTS, encoding="utf-8")
    options = "--structure", "flat", "--l1", "0.01", "--float32", "-o", "texts.crfqn", "-q"
    here("train", "--data", "texts.csv", *options, code=0)
    run = here("calibrate", "texts.crfqn", "texts.csv", "-o", "texts.crfqn", code=0)
    assert "wrote texts.crfqn: temperature " in run.stderr
    assert read_model(tmp_path / "texts.crfqn").arrays["node_weight"].dtype == np.float32


def test_what_cannot_be_calibrated(here, names, tmp_path):
    before = (tmp_path / "names.crfqn").read_bytes()
    (tmp_path / "words.conll").write_text("Ann\nsees\n", encoding="utf-8")
    (tmp_path / "labels.conll").write_text("Ann\tX\n", encoding="utf-8")
    for data, output, says in [
        ("words.conll", "new.crfqn", "words.conll"), ("labels.conll", "new.crfqn", "labels.conll: "),
        ("none.conll", "new.crfqn", "there is no such file"), ("held-out.conll", "none/new.crfqn", "none"),
    ]:  # fmt: skip
        here("calibrate", "names.crfqn", data, "-o", output, error=says)
    here("calibrate", "names.crfqn", "held-out.conll", code=2)
    hinge = "--structure", "flat", "--loss", "squared-hinge", "-o", "hinge.crfqn", "-q"
    (tmp_path / "texts.csv").write_text(TEXTS, encoding="utf-8")
    here("train", "--data", "texts.csv", *hinge, code=0)
    here("calibrate", "hinge.crfqn", "texts.csv", "-o", "new.crfqn", error="this model has none")
    assert (tmp_path / "names.crfqn").read_bytes() == before
    assert not (tmp_path / "new.crfqn").exists()
