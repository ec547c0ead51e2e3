"""Pages in headless Chromium: wide and narrow, light and dark, by mouse and by keyboard, without any network.

Screenshots stay in the tests' temporary folder.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress

import pytest
from report_cases import IMAGE, SCRIPT

WIDE, NARROW = (1280, 900), (390, 800)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


OVERFLOWING = """
    const all = [...document.querySelectorAll("main *:not(.hidden), nav")];
    const boxes = all.filter((e) => getComputedStyle(e).overflowX !== "visible");
    return boxes.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.outerHTML.slice(0, 200));
"""


class Browser:
    """A window of the browser, with the few verbs that the tests need."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, page, size=WIDE, colours="light"):
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        features = [
            {"name": "prefers-color-scheme", "value": colours},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # of the page before
        self.driver.get(page.as_uri())

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def click(self, selector):
        self.find(selector).click()

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def write(self, selector, text, output):
        """Type into a search field, and return what the page says then."""
        before = self.text(output)
        field = self.find(selector)
        field.clear()
        field.send_keys(text)
        return self.wait(lambda: self.text(output), before)

    def wait(self, read, before):
        from selenium.webdriver.support.ui import WebDriverWait

        with suppress(Exception):
            WebDriverWait(self.driver, 5, poll_frequency=0.05).until(lambda _: read() != before)
        return read()

    def text(self, selector):
        return self.find(selector).text

    def texts(self, selector):
        """The texts of all elements that are shown."""
        script = """
            const shown = [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility());
            return shown.map(e => e.textContent.trim());
        """
        return self.run(script, selector)

    def background(self):
        return self.run("return getComputedStyle(document.body).backgroundColor")

    def requests(self):
        """Everything that the page has asked for; an empty new tab, which Chromium opens first, asks on its own."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def shoot(self, name, anchor="main"):
        self.run("document.getElementById(arguments[0]).scrollIntoView()", anchor)
        assert self.driver.save_screenshot(str(self.folder / f"{name}.png"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    folder = tmp_path_factory.mktemp("screenshots")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(60)
    yield Browser(driver, folder)
    driver.quit()


@pytest.mark.parametrize("name", ["chain", "taxonomy", "flat", "images"])
@pytest.mark.parametrize(
    ("size", "colours"), [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")]
)
def test_it_is_shown_as_it_should(browser, pages, name, size, colours):
    browser.open(pages[name], size, colours)
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.run("return document.documentElement.scrollWidth") == size[0]
    assert browser.run(OVERFLOWING) == []
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


def test_probabilities_of_errors_open_one_by_one(browser, pages):
    browser.open(pages["images"], NARROW, "dark")
    items = "#errors .error details"
    n = browser.wait(lambda: browser.run("return document.querySelectorAll(arguments[0]).length", items), 0)
    assert n > 1
    assert browser.run("return document.querySelectorAll(arguments[0] + '[open]').length", items) == 0
    browser.click(f"{items} summary")
    assert browser.run("return document.querySelectorAll(arguments[0] + '[open]').length", items) == 1
    sizes = browser.run("""
        const images = [...document.querySelectorAll("#errors img, #characters img")];
        return images.map((one) => [one.naturalWidth, one.naturalHeight]);
    """)
    assert all(size == [3, 4] for size in sizes)
    assert len(sizes) > 4
    browser.shoot("images-errors", "errors")
    browser.shoot("images-characters", "characters")
