"""The manual's site builds without a warning, has every public name, and every page of it can be reached."""

from __future__ import annotations

import importlib
import io
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SEARCHES = [
    "class weight",
    "imbalance",
    "explain",
    "active learning",
    "confidence",
    "feature importance",
    "gpu",
    "unknown words",
    "batch",
]
SEARCHES += [
    "docker",
    "calibration",
    "early stopping",
    "overfitting",
    "embeddings",
    "pretrained",
    "deploy",
    "multilabel",
]
SEARCHES += [
    "spacy",
    "huggingface",
    "polars",
    "abstain",
    "out of scope",
    "ngrams",
    "gazetteer",
    "semi-supervised",
]
MODULES = ("crfqn", "crfqn.metrics", "crfqn.penalties")  # whose `__all__` is public

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"
)  # Sphinx's


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, of a copy: nothing is written into the checkout."""
    sphinx = pytest.importorskip("sphinx.application")
    root = tmp_path_factory.mktemp("manual")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("_*"))
    shutil.copytree(ROOT / "models", root / "models")
    shutil.copy(ROOT / "CHANGELOG.md", root)
    said = io.StringIO()
    app = sphinx.Sphinx(
        root / "docs", root / "docs", root / "site", root / "doctrees", "html", status=None, warning=said
    )
    app.build()
    assert said.getvalue() == ""
    return root / "site"


def test_pages_of_the_manual_and_cards_are_in_the_site(site):
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / page.with_suffix(".html").name).is_file(), page.name
    for card in ROOT.glob("models/*/README.md"):
        assert (site / "_generated" / "models" / f"{card.parent.name}.html").is_file(), card


def test_links_within_the_site_lead_somewhere(site):
    for page in site.rglob("*.html"):
        for link in re.findall(r'href="([^"#:?]+)(?:#[^"]*)?"', page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), (page.name, link)


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_an_entry(module):
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = {
        name for part in text.split("currentmodule::") for name in re.findall(r"^   (\w+)$", part, re.M)
    }
    public = importlib.import_module(module).__all__
    assert {name for name in public if not name.isupper()} <= listed


@pytest.mark.parametrize("query", SEARCHES)
def test_a_page_has_all_words_of_a_common_search(query):
    pages = [path.read_text(encoding="utf-8").lower() for path in (ROOT / "docs").glob("*.md")]
    assert any(all(word in page for word in query.split()) for page in pages)


def test_figures_of_one_sentence_are_those_of_the_benchmark():
    """The README and the page on production say what the page of benchmarks says."""
    measured = {}
    benchmarks, production, readme = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("docs/benchmarks.md", "docs/production.md", "README.md")
    )
    for row in re.findall(r"^\| (\d+) +\| (\d+) +\| (\d+) +\| (\d+) +\| [\d.]+ +\|$", benchmarks, re.M):
        labels, words, *times = map(int, row)
        measured[labels, words] = times
    rows = re.findall(r"^\| (\S+), (\d+) labels \| (\d+) us \| (\d+) us \| (\d+) us \|$", production, re.M)
    assert len(rows) == 4
    for name, labels, *times in rows:
        expected = [measured[int(labels), words]["crfqn" not in name] for words in (5, 15, 40)]
        assert [*map(int, times)] == expected
    said = re.search(
        r"takes (\d+) microseconds for 5 words and (\d+) for 40 \(13 labels\), python-crfsuite (\d+) and (\d+)",
        readme,
    )
    assert [*map(int, said.groups())] == [measured[13, words][k] for k in (0, 1) for words in (5, 40)]
