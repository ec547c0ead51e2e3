"""scikit-learn's callbacks (1.9 and newer), such as its progress bars inside of searches: a task for each iteration.

Older versions have none; the estimators have no `set_callbacks` there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in of scikit-learn's mixin, without anything."""

    HAS_CALLBACKS = False

Fit = TypeVar("Fit", bound=Callable[..., Any])


def with_tasks(fit: Fit) -> Fit:
    """Make a `fit(self, X, y, ...)` tell scikit-learn's callbacks, if there are any, where it begins and ends."""
    if not HAS_CALLBACKS:
        return fit

    @with_callbacks
    @wraps(fit)
    def told(self: Any, X: Any, y: Any, *others: Any, **named: Any) -> Any:
        if not (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
            return fit(self, X, y, *others, **named)
        context = self._init_callback_context(max_subtasks=self.max_iter)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        fitted = fit(self, X, y, *others, **named)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return fitted

    return cast(Fit, told)


class Tasks:
    """The iterations of an estimator's training as tasks of scikit-learn's; without callbacks nothing happens."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.context = getattr(estimator, "_callback_fit_ctx", None)
        self.n_told = 0

    def tell(self, iteration: int) -> bool:
        """Report an iteration, once; returns whether a callback asks to stop."""
        if self.context is None or not self.n_told < iteration <= self.estimator.max_iter:
            return False
        self.n_told = iteration
        task = self.context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator)
        return bool(task.call_on_fit_task_end(estimator=self.estimator))
