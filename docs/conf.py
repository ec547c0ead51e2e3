"""Settings of the manual's site: `sphinx-build -W docs build/site`.

Pages are Markdown; the reference is made of docstrings. Model cards and the changelog, which lie outside of this
folder, are brought into `_generated/` before pages are read, and links to them are pointed there.
"""

from __future__ import annotations

import re
from pathlib import Path

from crfqn import __version__

ROOT = Path(__file__).resolve().parents[1]

project, author, release = "crfqn", "the crfqn developers", __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]

html_theme = "pydata_sphinx_theme"
html_title = "crfqn"
html_static_path = ["style"]
html_css_files = ["names.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": True,
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "collapse_navigation": True,
    "show_toc_level": 1,
}
html_sidebars = {"index": []}  # the first page has cards in its place

myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # docstrings say what parameters are
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "literal"

FIELDS = {
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "Other Parameters",
}
FOREIGN_ROLE = re.compile(
    r":(?:ref|term|class|func|meth|mod):`~?([^`<]*?)(?:\s*<[^>]*>)?`"
)
BAR = re.compile(
    r"\|(?=[^`]*(?:`[^`]*`[^`]*)*$)"
)  # of norms, outside of backquotes
OUTSIDE = re.compile(
    r"\]\((?:\.\./)+(models/(?P<card>[\w-]+)/README|(?P<page>[A-Z]+))\.md(?P<anchor>#[^)]*)?\)"
)


def bring_in(app: object) -> None:
    """Copy the cards and the changelog to where pages can link to them."""
    target = ROOT / "docs" / "_generated"
    (target / "models").mkdir(parents=True, exist_ok=True)
    for card in ROOT.glob("models/*/README.md"):
        write_changed(
            target / "models" / f"{card.parent.name}.md",
            inward(card.read_text(encoding="utf-8")),
        )
    write_changed(
        target / "changelog.md",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    )


def inward(text: str) -> str:
    """Point a card's links at the pages around it."""
    text = re.sub(r"\]\(\.\./\.\./docs/", "](../../", text)
    return re.sub(r"\]\(\.\./([\w-]+)/README\.md", r"](\1.md", text)


def write_changed(path: Path, text: str) -> None:
    """Write a file unless it has this text, so that only pages that changed are built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def point_inside(app: object, page: str, source: list[str]) -> None:
    """Point links that leave this folder at the copies in it."""
    source[0] = OUTSIDE.sub(
        lambda found: (
            f"](/_generated/models/{found['card']}.md)"
            if found["card"]
            else "](/index.md)"
        ),
        source[0],
    )


def shorten_title(app: object, page: str, source: list[str]) -> None:
    """Entitle a page of the reference by the name alone; the signature below has the module."""
    if page.startswith("_generated/api/"):
        title, line, rest = source[0].split("\n", 2)
        name = title.rpartition(".")[2]
        source[0] = "\n".join([name, line[: len(name)], rest])


def prepare_docstring(
    app: object,
    what: str,
    name: str,
    thing: object,
    options: object,
    lines: list[str],
) -> None:
    """Set formulas, the indented lines of running text, as they stand; show roles of other manuals as code."""
    text, in_fields = [], False
    for number, line in enumerate(lines):
        if number + 1 < len(lines) and re.fullmatch("-+", lines[number + 1]):
            in_fields = line in FIELDS
        is_formula = (
            not in_fields
            and line.startswith("    ")
            and not line.lstrip().startswith((">>>", "..."))
        )
        if is_formula and number and not lines[number - 1].strip():
            text += ["::", ""]
        is_verbatim = is_formula or line.lstrip().startswith((">>>", "..."))
        text.append(
            line
            if is_verbatim
            else BAR.sub(r"\\|", FOREIGN_ROLE.sub(r"``\1``", line))
        )
    lines[:] = text


def setup(app: object) -> None:
    """Register the steps above."""
    app.connect("builder-inited", bring_in)
    app.connect("source-read", point_inside)
    app.connect("source-read", shorten_title)
    app.connect(
        "autodoc-process-docstring", prepare_docstring, priority=100
    )  # before napoleon reads sections
