"""What a training reports its iterations to: the user's callback, the progress display, scikit-learn's callbacks.

scikit-learn has callbacks, such as progress bars inside of searches, from 1.9 on; before, the estimators have no
`set_callbacks`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

from crfqn.progress import ProgressDisplay, telling_of_compilation
from crfqn.result import Progress

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in of scikit-learn's mixin, without anything."""

    HAS_CALLBACKS = False

Fit = TypeVar("Fit", bound=Callable[..., Any])


def with_tasks(fit: Fit) -> Fit:
    """Return a `fit(self, X, y, ...)` that reports its beginning and end to scikit-learn's callbacks, if there are any,
    and, if it is verbose, a compilation to stderr."""

    @wraps(fit)
    def reporting(self: Any, X: Any, y: Any = None, *others: Any, **named: Any) -> Any:
        with telling_of_compilation() if self.verbose else nullcontext():
            if not (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
                return fit(self, X, y, *others, **named)
            context = self._init_callback_context(max_subtasks=self.max_iter)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            fitted = fit(self, X, y, *others, **named)
            context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
            return fitted

    return cast(Fit, with_callbacks(reporting) if HAS_CALLBACKS else reporting)


class Callbacks:
    """All callbacks of a training as one, open while it runs; is_watched : whether held-out items are scored.

    The iterations are tasks of scikit-learn's callbacks, where the estimator has any, each reported once.
    """

    def __init__(self, estimator: Any, is_watched: bool = False) -> None:
        self.estimator, self.n_reported = estimator, 0
        self.context = getattr(estimator, "_callback_fit_ctx", None)
        is_sent = getattr(estimator, "client", None) is not None
        self.display = ProgressDisplay(None, is_watched, is_sent) if estimator.verbose else None

    def __call__(self, record: Progress) -> bool:
        estimator, stops = self.estimator, False
        if self.display:
            self.display(record)
        if self.context is not None and self.n_reported < record.iteration <= estimator.max_iter:
            self.n_reported = record.iteration
            task = self.context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=estimator)
            stops = bool(task.call_on_fit_task_end(estimator=estimator))
        return (estimator.callback is not None and bool(estimator.callback(record))) or stops

    def __enter__(self) -> Callbacks:
        if self.display:
            self.display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.display:
            self.display.__exit__(*error)
