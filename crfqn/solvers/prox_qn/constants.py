"""The constants of Prox-QN, each with what it is for; `benchmark.py heuristics` switches them off one by one."""

from __future__ import annotations

from dataclasses import dataclass

from crfqn.objectives.operations import OVERHEAD


@dataclass(frozen=True)
class Constants:
    """Constants of an epoch, of the metric, of the damping and of the start; docs/benchmarks.md measures each.

    exhausted : of an epoch's largest gain: where others wait to come in, a step that wins less ends it
    to_the_end : of an epoch's first violation: a goal that rounding reaches first
    floor : of the curvature, in units of the feature's scale: where every position is decided there is none
    residual_share : of the sum of |residuals| of a coordinate, in the curvature that it may meet on its way to a fit
    least_majorant : of that curvature, in units of the feature's scale; 1e-9 sends weights of decided positions to 1e9
    sampled_positions : of a metric in the warm start; 1,500 took as many passes afterwards
    least_share : of the majorant in the damping at last
    patience : failures of a step before all coordinates are held back: single ones alone give no guarantee
    noticeable : of the mean surprise of a block: what is below may be rounding, divided by next to nothing
    softening : of the coordinates' damping, after a step that did what was predicted of it
    first_scale, smallest_scale : of the diagonal in the damping: the first one, and what is taken for zero
    most_solutions : of the model in a step; damping grows fourfold from trial to trial, a line search halves
    overhead : operations that a step takes beside its pass, however small the problem: half a millisecond
    online_epochs : item by item, where data are text; 4 cost more passes than they save time
    dearest_epoch : passes that one of them may cost: they save some 25, or else samples are the cheaper start
    stage_steps : of a stage of the warm start: a weak penalty has no optimum worth finding in a sample
    stage_tolerance : a stage ends when its violation is below this share of its strength
    """

    exhausted: float = 0.1
    to_the_end: float = 1e-9
    floor: float = 1e-3
    residual_share: float = 0.6
    least_majorant: float = 0.1
    sampled_positions: int = 600
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
