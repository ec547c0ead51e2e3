"""The constants of Prox-QN, each with its purpose; docs/mechanisms.md has a table of what they gain."""

from __future__ import annotations

from dataclasses import dataclass

from crfqn.objectives.operations import OVERHEAD


@dataclass(frozen=True)
class Constants:
    """Constants of an epoch, of the metric, of the damping and of the start.

    exhausted : while coordinates wait to enter, a step that decreases the objective by less than this share of the
        epoch's largest decrease ends the epoch
    progress : an epoch whose violation has fallen to this share ends where its metric would be renewed
    to_the_end : cooling of an epoch that solves a problem of few weights to the end: rounding ends it before
    floor : least curvature, in units of the feature's scale: where every position is decided there is none
    residual_share : share of the sum of |residuals| of a coordinate in its majorant, the curvature that it may meet
    least_majorant : least majorant, in units of the feature's scale; 1e-9 sends weights of decided positions to 1e9
    sampled_positions : positions of a metric in the warm start; 1,500 took as many passes afterwards
    warm_share : share of the majorant in the damping at first, where there are weights to start from
    least_share : share of the majorant that the damping keeps
    patience : failures of a step until all coordinates are held back: single ones alone give no guarantee
    noticeable : excess curvature of a block counts above this share of the mean: below it may be rounding
    softening : factor of the coordinates' damping after a step that decreased the objective as predicted
    first_scale, smallest_scale : of the diagonal in the damping: the first one, and what is taken for zero
    most_solutions : of the model in a step; damping grows fourfold from trial to trial, a line search halves
    overhead : operations of a step beside its pass, however small the problem: half a millisecond
    online_epochs : epochs item by item, where data are text; 4 cost more passes than they save time
    dearest_epoch : passes that one of them may cost: they save some 25, or else samples are the cheaper start
    stage_steps : steps of a stage of the warm start: a weak penalty has no optimum worth finding in a sample
    stage_tolerance : a stage ends when its violation is below this share of its strength
    """

    exhausted: float = 0.1
    progress: float = 0.5
    to_the_end: float = 1e-9
    floor: float = 1e-3
    residual_share: float = 0.6
    least_majorant: float = 0.1
    sampled_positions: int = 600
    warm_share: float = 0.25
    least_share: float = 0.01
    patience: int = 3
    noticeable: float = 1e-4
    softening: float = 0.25
    first_scale: float = 0.1
    smallest_scale: float = 1e-3
    most_solutions: int = 20
    overhead: float = OVERHEAD
    online_epochs: int = 6
    dearest_epoch: float = 4.0
    stage_steps: int = 40
    stage_tolerance: float = 1.0
