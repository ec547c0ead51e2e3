"""The end of an epoch of Prox-QN: the shrinking stopping criterion (Algorithm 2, line 13), and ends before that."""

from __future__ import annotations

from crfqn.solvers.prox_qn.active_set import ActiveSet

# Of an epoch's largest gain: where others wait to come in, a step that wins less ends it. LSHTC1 (l1 = 2): 20 passes to
# 1e-4 instead of 30; OCR, l1 = 50: 15 to 1e-3 instead of 19.
EXHAUSTED = 0.1
PROGRESS = 0.5  # an epoch that has brought its violation to this share ends where its metric would be renewed
TO_THE_END = 1e-9  # of an epoch's first violation: a goal that rounding reaches first


class EpochEnd:
    """The goal of an epoch, and what its steps have won so far.

    Parameters
    ----------
    active : ActiveSet that the epoch opens with
    goal : float, the violation at which it ends (line 18)
    """

    def __init__(self, active: ActiveSet, goal: float) -> None:
        self.goal = goal
        self.first_violation = active.violation
        self.solves_to_the_end = goal <= TO_THE_END * max(active.violation, active.outside)
        self.largest_gain, self.is_exhausted = 0.0, False

    def after_step(self, active: ActiveSet, gain: float) -> None:
        """Compare what a step has won, in nats, with the best one before."""
        self.largest_gain = max(self.largest_gain, gain)
        self.is_exhausted = active.outside > 0 and gain < EXHAUSTED * self.largest_gain

    def is_reached(self, active: ActiveSet) -> bool:
        """Return whether the set is solved well enough, or others promise more (line 13)."""
        return active.violation <= self.goal or self.is_exhausted

    def spares_metric(self, active: ActiveSet) -> bool:
        """Return whether to end before the metric is formed anew: all coordinates may as well be screened then."""
        return active.violation <= PROGRESS * self.first_violation or self.solves_to_the_end
