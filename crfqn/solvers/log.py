"""Log of trainings, by the standard library's `logging`: logger `crfqn.training`, below `crfqn`.

INFO: a line at the beginning and one at the end of each run; DEBUG: a line an iteration. Nothing is shown unless the
program that uses the library asks for it; `verbose=1` of the estimators is another thing, a display for people.
"""

from __future__ import annotations

import logging
from typing import Any

from crfqn.result import Progress, Result

logger = logging.getLogger("crfqn.training")


def log_start(solver: Any, tol: Any, max_iter: int) -> None:
    """Log at INFO what is going to be run."""
    logger.info("training by %s, tol %s, at most %d iterations", type(solver).__name__, tol, max_iter)


def log_progress(progress: Progress) -> None:
    """Log a record of progress at DEBUG."""
    logger.debug(
        "iteration %d: objective %.8g, gap %.2e, estimated gap %.2e, %d non-zeros, %.1f passes, %.2f s",
        progress.iteration,
        progress.value,
        progress.gap,
        progress.estimated_gap,
        progress.n_nonzero,
        progress.passes,
        progress.seconds,
    )


def log_result(result: Result) -> None:
    """Log at INFO how a run ended; at WARNING where it did not end as its method is meant to."""
    logger.log(
        logging.INFO if result.status.is_regular else logging.WARNING,
        "%s (objective %.8g, gap %.2e, estimated gap %.2e, %d non-zeros, %d iterations, %.1f passes, %.2f s)",
        result.message,
        result.value,
        result.gap,
        result.estimated_gap,
        result.n_nonzero,
        result.n_iter,
        result.passes,
        result.seconds,
    )
