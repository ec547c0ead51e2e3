"""Plots of models with matplotlib, as scikit-learn's Display classes.

Each display holds its numbers, made by `from_estimator` or another `from_...`, and `plot(ax=...)` draws them: into new
figures of pyplot by default, or into axes of the caller. Afterwards `figure_` and `ax_` can be changed and saved.
matplotlib comes with the extra `crfqn[plot]`, and is imported at the first drawing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "curves": ["ConvergenceDisplay", "PathDisplay"],
        "matrices": ["ConfusionDisplay", "TransitionsDisplay"],
    },
)
