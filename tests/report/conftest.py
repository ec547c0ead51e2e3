"""Models of each structure, and the pages about them."""

import pytest
from report_cases import MAKERS


@pytest.fixture(scope="session")
def cases():
    return {name: make() for name, make in MAKERS.items()}


@pytest.fixture(scope="session")
def pages(cases, tmp_path_factory):
    """The file of the page about each model."""
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from crfqn.report import write_report

    folder = tmp_path_factory.mktemp("pages")
    for name, case in cases.items():
        write_report(case.model, folder / f"{name}.html", (case.X, case.y), **case.contents)
    return {name: folder / f"{name}.html" for name in cases}
