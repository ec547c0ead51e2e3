"""The study of default strengths: a quick run from the command line, what it writes, and how rules are judged."""

from __future__ import annotations

import json

import defaults
import numpy as np
import pytest
from defaults import Curve, Rule
from typer.testing import CliRunner


def run(*arguments):
    return CliRunner().invoke(defaults.app, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("study")
    result = run("--quick", "--output", str(path))
    assert result.exit_code == 0, result.output
    return path


def test_a_set_has_its_curve_and_three_fits(folder):
    found = json.loads((folder / "few-digits.json").read_text(encoding="utf-8"))
    curve = Curve(**found["curve"])
    strengths = curve.column("strength")
    assert (np.diff(strengths) < 0).all()
    assert strengths[0] == pytest.approx(curve.largest / 16)
    assert (np.diff(curve.column("n_nonzero")) > 0).all()
    fits = {fit["chosen_by"]: fit for fit in found["fits"]}
    assert [*fits] == ["validation", "one", "auto"]
    assert fits["validation"]["strength"] == curve.tuned["strength"]
    assert fits["one"]["strength"] == 1.0
    # A fifth more items than the curve has: the noise of dense features grows as the root of their number.
    assert fits["auto"]["strength"] == pytest.approx(0.1 * curve.noise * np.sqrt(240 / 192), rel=0.05)
    assert fits["auto"]["test"] > fits["validation"]["test"] - 2.0
    assert 50 < fits["one"]["test"] < 100


def test_sets_without_the_strength_are_left_out_of_all(tmp_path):
    options = "--strength", "group_l1", "--seconds", "1", "--output", str(tmp_path)
    result = run("--quick", *options)
    assert result.exit_code == 0, result.output
    assert [each.name for each in tmp_path.glob("*.json")] == ["few-digits-group_l1.json"]
    assert run("--data", "few-strings", *options).exit_code == 2


def test_the_page_has_all_sets_and_rules(folder):
    page = (folder / "page.md").read_text(encoding="utf-8")
    for words in (
        "few-digits",
        "few-strings",
        "noise of gradients",
        "largest useful strength",
        "each set left out once",
    ):
        assert words in page


def test_without_data_it_says_which(monkeypatch, tmp_path):
    monkeypatch.delenv("CRFQN_DATA", raising=False)
    monkeypatch.setenv("CRFQN_CACHE", str(tmp_path / "cache"))
    result = run("--data", "dutch", "--output", str(tmp_path))
    assert result.exit_code == 3
    assert "dutch-upos" in result.output


def curve(noise, tests):
    """Validation and test alike, at strengths 1, 1/10, ..."""
    rows = [{"strength": 0.1**i, "validation": test, "test": test} for i, test in enumerate(tests)]
    return Curve(f"noise {noise}", "ChainCRF", "accuracy", "l1", 10, 2, 100.0, noise, 1.0, rows)


def test_a_rule_is_judged_on_sets_that_did_not_choose_its_constant():
    """Two sets are best at a tenth of the noise; at the third any constant of theirs loses all."""
    curves = [curve(1.0, [80, 90, 80]), curve(0.1, [70, 80, 90]), curve(1.0, [90, 50, 40])]
    rule = Rule("noise", lambda each: each.noise)
    constants, losses = zip(*rule.left_out(curves), strict=True)
    assert constants[2] == pytest.approx(0.1, rel=0.05)
    assert losses[2] == pytest.approx(40, rel=0.05)
    constant, _ = rule.best(curves[:2])
    assert constant == pytest.approx(0.1, rel=0.05)
