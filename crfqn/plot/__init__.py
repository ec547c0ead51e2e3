"""Pictures of models with matplotlib, in the way of scikit-learn's Display classes.

Each display holds the numbers that it shows, made by `from_estimator` or another `from_...`, and `plot(ax=...)` draws
them: into new figures of pyplot by default, or into axes of the caller's. Afterwards `figure_` and `ax_` are there to
change and save. matplotlib comes with the extra `crfqn[plot]`, and is imported at the first drawing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "curves": ["ConvergenceDisplay", "PathDisplay"],
        "matrices": ["ConfusionDisplay", "TransitionsDisplay"],
    },
)
