"""Reports of models, each one self-contained HTML page: `write_report(model, "report.html", data=(X, y))`.

The page loads nothing from the network. It is rendered from jinja2 templates (`templates/`) with the plots of
`crfqn.plot` embedded as SVG. The extra `crfqn[report]` has both libraries, which are imported when a page is made.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"page": ["make_report", "write_report"]}
)
