"""A window of headless Chromium, for tests of pages; screenshots stay in the tests' temporary folder."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress

import pytest

WIDE, NARROW = (1280, 900), (380, 800)
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
        self.driver.get(page if isinstance(page, str) else page.as_uri())

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


@contextmanager
def open_browser(folder):
    """Give a Browser, or skip the test."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(60)
    yield Browser(driver, folder)
    driver.quit()
