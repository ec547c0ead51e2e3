"""Report of a model as one self-contained HTML page: `write_report(model, "report.html", data=(X, y))`.

The page asks nothing of any network; it comes from jinja2 templates (`templates/`) and from the pictures of
`crfqn.plot`, embedded as SVG. Both libraries are in the extra `crfqn[report]`, and are imported when a page is made.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"page": ["make_report", "write_report"]}
)
