"""Every paper has a page of its study, whose files and functions are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "agarwal2014": "study-least-squares",
    "blondel2013": "study-bcd",
    "blondel2014": "study-simplex-svm",
    "chierchia2015": "study-fbpd",
    "zhong2014": "study-prox-qn",
}


def places(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"`([\w/]+\.py)::(\w+)`", text)


def test_every_paper_has_a_page():
    folders = {path.parent.name for path in (ROOT / "crfqn" / "papers").glob("*/__init__.py")}
    assert folders == PAGES.keys()


@pytest.mark.parametrize("paper", PAGES)
def test_names_are_there(paper):
    found = places(PAGES[paper])
    assert len(found) > 5
    for file, name in found:
        tree = ast.parse((ROOT / "crfqn" / file).read_text(encoding="utf-8"))
        assert name in {getattr(node, "name", None) for node in ast.walk(tree)}, (file, name)
    assert any(file.startswith(f"papers/{paper}/") for file, _ in found)
