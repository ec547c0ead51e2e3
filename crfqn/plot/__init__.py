"""Plots of models with matplotlib, as scikit-learn's Display classes.

`from_estimator` and other `from_...` make a display from data, and `plot(ax=...)` draws it into a new figure of pyplot
or into given axes. Users can then change and save `figure_` and `ax_`. matplotlib comes with the extra `crfqn[plot]`
and is imported at the first drawing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "curves": ["ConvergenceDisplay", "PathDisplay"],
        "matrices": ["ConfusionDisplay", "TransitionsDisplay"],
    },
)
