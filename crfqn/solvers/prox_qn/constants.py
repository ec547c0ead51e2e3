"""The constants of Prox-QN, each with its purpose; docs/mechanisms.md has a table of what they gain."""

from __future__ import annotations

from dataclasses import dataclass

from crfqn.objectives.curvature import STEP_OVERHEAD


@dataclass(frozen=True)
class Constants:
    """Constants of an epoch, of the metric, of the damping and of the warm start.

    min_relative_decrease : an epoch ends at a step that decreases the objective by less than this share of the epoch's
        largest decrease, if violating coordinates wait outside the active set
    epoch_reduction : an epoch whose violation has fallen to this share ends when its metric would be renewed
    final_tolerance : the cooling of an epoch that solves a problem of few weights to the end; rounding ends it before
    floor : smallest curvature, in units of the feature's scale; positions whose label is certain have none
    majorant_scale : share of a coordinate's sum of |residuals| in its majorant, the curvature that a step may meet
    min_majorant : smallest majorant, in units of the feature's scale; with 1e-9 weights of certain positions reach 1e9
    sampled_positions : positions of a metric in the warm start; 1,500 took as many passes afterwards
    initial_damping : share of the majorant in the damping at first, if there are weights to start from
    min_damping : smallest share of the majorant in the damping
    patience : failures of a step until all coordinates are damped: damping of single ones alone gives no guarantee
    excess_threshold : excess curvature of a block counts above this share of the mean: below it may be rounding
    damping_decrease : factor of the coordinates' damping after a step that decreased the objective as predicted
    first_scale, smallest_scale : of the diagonal in the damping: its first value, and the value below which it is 0
    most_solutions : solutions of the model in a step; the damping grows fourfold from one to the next
    overhead : operations of a step besides its pass, however small the problem: half a millisecond
    online_epochs : epochs item by item, for text; 4 cost more passes than they save time
    max_epoch_cost : use online epochs if one costs at most this many passes (they save about 25); otherwise start from
        samples
    stage_steps : steps of a stage of the warm start: under a weak penalty the optimum of a sample is not worth finding
    stage_tolerance : a stage ends when its violation is below this share of its strength
    """

    min_relative_decrease: float = 0.1
    epoch_reduction: float = 0.5
    final_tolerance: float = 1e-9
    floor: float = 1e-3
    majorant_scale: float = 0.6
    min_majorant: float = 0.1
    sampled_positions: int = 600
    initial_damping: float = 0.25
    min_damping: float = 0.01
    patience: int = 3
    excess_threshold: float = 1e-4
    damping_decrease: float = 0.25
    first_scale: float = 0.1
    smallest_scale: float = 1e-3
    most_solutions: int = 20
    overhead: float = STEP_OVERHEAD
    online_epochs: int = 6
    max_epoch_cost: float = 4.0
    stage_steps: int = 40
    stage_tolerance: float = 1.0
