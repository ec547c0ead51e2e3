"""Report of a model as one self-contained HTML page: `write_report(model, "report.html", data=(X, y))`.

The page asks nothing of any network; it comes from jinja2 templates (`templates/`) and from the pictures of
`crfqn.plot`, embedded as SVG. Both libraries are in the extra `crfqn[report]`.
"""

from typing import Any

import lazy_loader

from crfqn.errors import InputError

LIBRARIES = ("jinja2", "markupsafe", "matplotlib")  # of the extra

_attached, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"page": ["make_report", "write_report"]}
)


def __getattr__(name: str) -> Any:
    """Return a public name; InputError where the libraries for it are not installed."""
    try:
        return _attached(name)
    except ModuleNotFoundError as error:
        if error.name in LIBRARIES:
            raise InputError(
                f"reports need {error.name}, which is not installed here: pip install 'crfqn[report]'"
            ) from None
        raise
