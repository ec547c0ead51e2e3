"""Pages in headless Chromium: wide and narrow, light and dark, by mouse and by keyboard, without any network."""

from __future__ import annotations

import pytest
from browsing import NARROW, WIDE
from report_cases import IMAGE, SCRIPT


@pytest.mark.parametrize("name", ["chain", "taxonomy", "flat", "images"])
@pytest.mark.parametrize(
    ("size", "colours"), [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")]
)
def test_it_is_shown_as_it_should(browser, pages, name, size, colours):
    browser.open(pages[name], size, colours)
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.run("return document.documentElement.scrollWidth") == size[0]
    browser.shoot(f"{name}-{size[0]}-{colours}")
    channels = [int(part) for part in browser.background().removeprefix("rgb(").rstrip(")").split(",")]
    assert (max(channels) < 64) == (colours == "dark")
    assert browser.complaints() == []
    asked = [
        url for url in browser.requests() if not url.startswith(("data:", "chrome:", "chrome-untrusted:"))
    ]
    assert asked == [pages[name].as_uri()]


def test_features_are_searched_and_sorted(browser, pages):
    browser.open(pages["chain"])
    rows = "#feature-table tbody tr"
    n = len(browser.texts(rows))
    found = browser.write("#feature-search", "ScRiPt", "#feature-table-count")
    names = browser.texts("#feature-table td.feature")
    assert found == f"{len(names)} rows" if len(names) > 1 else found == "1 row"
    assert 0 < len(names) < n
    assert all(SCRIPT in name for name in names)
    assert browser.write("#feature-search", "no such feature", "#feature-table-count") == "0 rows"
    assert browser.write("#feature-search", "w", "#feature-table-count") == f"{n} rows"
    browser.click("#feature-label option:nth-child(2)")
    label = browser.find("#feature-label option:nth-child(2)").get_attribute("value")
    assert set(browser.texts("#feature-table tbody th")) == {label}
    browser.click("#feature-label option:first-child")
    for order in ("descending", "ascending"):
        browser.click("#feature-table thead th:nth-child(3) button")
        heading = browser.find("#feature-table thead th:nth-child(3)")
        assert heading.get_attribute("aria-sort") == order
        weights = [float(text) for text in browser.texts("#feature-table td:last-child")]
        assert weights == sorted(weights, reverse=order == "descending")
    browser.shoot("chain-features", "features")


def test_it_works_by_keyboard(browser, pages):
    from selenium.webdriver.common.keys import Keys

    browser.open(pages["taxonomy"])
    browser.press(Keys.TAB)
    assert browser.run("return document.activeElement.className") == "skip"
    seen = set()
    for _ in range(200):
        browser.press(Keys.TAB)
        who, outline = browser.run(
            "const e = document.activeElement; return [e.id || e.getAttribute('href') || e.tagName + ':' + "
            "e.textContent.trim().slice(0, 30), getComputedStyle(e).outlineStyle]"
        )
        if who == "BODY:" or who.startswith("BODY"):
            break
        assert outline != "none", who
        seen.add(who)
    assert {"theme", "feature-search", "feature-label", "tree-search", "#taxonomy", "BUTTON:Open all"} <= seen
    assert any(who.startswith("SUMMARY") for who in seen)
    before = browser.background()
    for expected in ("light", "dark"):
        browser.run("document.getElementById('theme').focus()")
        browser.press(Keys.ENTER)
        assert browser.run("return document.documentElement.dataset.theme") == expected
        assert browser.find("#theme").get_attribute("aria-label") == f"Colours: {expected}"
    assert browser.background() != before
    browser.run("document.querySelector('#feature-table thead button').focus()")
    browser.press(Keys.ENTER)
    assert browser.find("#feature-table thead th").get_attribute("aria-sort") == "ascending"
    browser.run("document.querySelector('#tree summary').focus()")
    browser.press(Keys.ENTER)
    assert browser.run("return document.querySelector('#tree details').open")


def test_everything_that_acts_has_a_name(browser, pages):
    for page in pages.values():
        browser.open(page)
        nameless = browser.run("""
            const acting = document.querySelectorAll("button, input, select, a, summary, img, svg, [role=region]");
            const named = (e) => e.closest("label") || e.ariaLabel || e.alt || e.textContent.trim();
            return [...acting].filter((e) => !named(e)).map((e) => e.outerHTML);
        """)
        assert nameless == []
        twice = browser.run(
            "const ids = [...document.querySelectorAll('[id]')].map(e => e.id); "
            "return ids.filter((id, at) => ids.indexOf(id) !== at)"
        )
        assert twice == []


def test_the_tree_opens_closes_and_is_searched(browser, pages):
    browser.open(pages["taxonomy"], NARROW)
    nodes = "#tree .node"
    assert browser.texts(nodes) == ["art", "science"]
    browser.click("#tree details:nth-of-type(2) summary")
    assert browser.texts(nodes) == ["art", "science", IMAGE, "physics"]
    browser.click("[data-close=tree]")
    assert browser.texts(nodes) == ["art", "science"]
    browser.click("[data-open=tree]")
    assert len(browser.texts(nodes)) == 6
    browser.click("[data-close=tree]")
    assert browser.write("#tree-search", "MUSIC", "#tree-count") == "1 found"
    assert browser.texts(nodes) == ["art", "music"]
    browser.shoot("taxonomy-tree", "taxonomy")


def test_errors_open_one_by_one(browser, pages):
    browser.open(pages["images"], NARROW, "dark")
    items = "#errors details.error"
    n = browser.wait(lambda: browser.run("return document.querySelectorAll(arguments[0]).length", items), 0)
    assert n > 1
    assert browser.run("return document.querySelectorAll(arguments[0] + '[open]').length", items) == 1
    browser.click(f"{items}:nth-of-type(2) summary")
    assert browser.run("return document.querySelectorAll(arguments[0] + '[open]').length", items) == 2
    sizes = browser.run("""
        const images = [...document.querySelectorAll("#errors img, #characters img")];
        return images.map((one) => [one.naturalWidth, one.naturalHeight]);
    """)
    assert all(size == [3, 4] for size in sizes)
    assert len(sizes) > 4
    browser.shoot("images-errors", "errors")
    browser.shoot("images-characters", "characters")
