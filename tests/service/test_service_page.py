"""The page to try a model in, in headless Chromium: narrow and wide, light and dark, by keyboard, with hostile text."""

import json

import pytest
from browsing import WIDE
from served import Process, saved

from crfqn import Templates

NARROW = (390, 800)
HOSTILE = "<img/src=x/onerror=alert(1)>"
WORDS = ["Ann", "Lee", "sees", "<", "York"]
LABELS = ["B-PER", "I-PER", "O", f"B-{HOSTILE}", f"I-{HOSTILE}"]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of a service whose labels are as nasty as its words."""
    items = [WORDS, ["<"], ["sees"], ["York"]] * 3
    X = Templates(windows="w[-1] w[0]", columns=("w",)).fit_transform(
        [[{"w": w} for w in item] for item in items]
    )
    path = tmp_path_factory.mktemp("page") / "words.crfqn"
    saved(path, X, [LABELS, LABELS[3:4], ["O"], ["O"]] * 3, scheme="IOB2")
    with Process(path) as service:
        yield f"http://127.0.0.1:{service.port}/"


def open_page(browser, url, size=WIDE, colours="light"):
    browser.open(url, size, colours)
    assert browser.wait(lambda: browser.text("#about"), "…").startswith("chain-crf, 5 labels, ")


@pytest.mark.parametrize(("size", "colours"), [(WIDE, "light"), (NARROW, "dark")])
def test_a_text_is_labelled_by_keyboard(browser, url, size, colours):
    from selenium.webdriver.common.keys import Keys

    open_page(browser, url, size, colours)
    browser.press(Keys.TAB)
    browser.press(*" ".join(WORDS), Keys.ENTER, "York", *"x" * 200)
    browser.press(Keys.TAB, Keys.ENTER)
    browser.wait(lambda: browser.text("#status").strip("…"), "")  # which is there while the service works
    assert browser.text("#status").startswith("2 items")
    assert browser.texts(".word") == [*WORDS, "York" + "x" * 200]
    labels = browser.texts(".span .label")
    assert [label.rsplit(" ", 2)[0] for label in labels[:2]] == ["PER", HOSTILE]
    assert all(label.endswith(" %") for label in labels)
    while browser.run("return document.activeElement.textContent") != "<":
        browser.press(Keys.TAB)
        assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    browser.press(Keys.ENTER)
    assert browser.text("#features h2") == f"<: {LABELS[3]}"
    assert "w[0]=<" in browser.texts("#features td")
    assert browser.run("return document.documentElement.scrollWidth") == size[0]
    assert browser.run("return document.querySelectorAll('img, main script').length") == 0
    channels = [int(part) for part in browser.background().removeprefix("rgb(").rstrip(")").split(",")]
    assert (max(channels) < 64) == (colours == "dark")
    browser.shoot(f"service-{size[0]}-{colours}", "items")
    assert browser.complaints() == []
    assert all(
        asked.startswith((url, "data:", "chrome:", "chrome-untrusted:")) for asked in browser.requests()
    )


def test_the_answer_is_copied_and_errors_are_told(browser, url):
    open_page(browser, url)
    permission = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": url}
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", permission)
    browser.find("#text").send_keys("Ann Lee")
    browser.click("#run")
    browser.wait(lambda: browser.find("#copy").is_enabled(), False)
    browser.click("#copy")
    assert browser.wait(lambda: browser.text("#status"), "1 item; a word shows its features.") == "Copied."
    copied = browser.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert json.loads(copied)["items"][0]["tokens"] == ["Ann", "Lee"]
    browser.run("find('text').value = 'a '.repeat(600000)")
    browser.click("#run")
    assert "at most 1,048,576 bytes" in browser.wait(lambda: browser.text("#error"), "")
