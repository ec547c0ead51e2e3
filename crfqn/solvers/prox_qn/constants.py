"""The constants of Prox-QN's default; docs/mechanisms.md has what each of them gains, measured on all sets."""

from __future__ import annotations

from dataclasses import dataclass

from crfqn.objectives.curvature import STEP_OVERHEAD


@dataclass(frozen=True)
class Constants:
    """Constants of an epoch, of the metric, of the damping and of the warm start.

    Parameters
    ----------
    min_relative_decrease : float from 0 to 1
        If violating coordinates are outside the active set, an epoch ends at the first step that decreases the
        objective by less than this fraction of the epoch's largest decrease. A larger value takes shorter epochs.
    epoch_reduction : float from 0 to 1
        If B0 is due to be measured again, an epoch ends instead if its violation is below this fraction of that at
        its beginning. A larger value takes more epochs, hence more full gradient scans.
    final_tolerance : float >= 0
        The `cooling` of an epoch that solves a small problem completely; rounding usually ends the epoch earlier.
    floor : float > 0, in units of max x^2 of the feature
        Added to the diagonal of B0, because positions whose label is certain have no curvature. A smaller value takes
        longer steps there, more of which fail.
    majorant_scale : float >= 0
        Factor of a coordinate's sum of |residuals| in its majorant, the curvature that it may have at a step's end. A
        larger value takes shorter and safer steps at the beginning.
    min_majorant : float >= 0, in units of max x^2 of the feature
        Added to the majorant. It bounds the weights of positions that are almost certain; with 1e-9 they reach 1e9.
    sampled_positions : int >= 1
        The maximum of `TokenWise.n_positions` during the warm start. A smaller value takes less time for a metric that
        is less exact.
    initial_damping : float from 0 to 1
        The majorant's share in the first damping if the run starts from weights that are not all zero; else it is 1. A
        larger value takes shorter steps after the warm start.
    min_damping : float from 0 to 1
        The smallest share of the majorant in the damping. 0 allows full Newton steps; a larger value slows down the
        convergence near the optimum.
    patience : int >= 1
        The number of failed trials of a step after which the damping of all coordinates grows, not only of those with
        excess curvature. A smaller value gives up the selective damping earlier.
    excess_threshold : float >= 0
        Excess curvature counts if it is above this fraction of the mean over the blocks: below, it may be rounding.
    damping_decrease : float from 0 to 1
        Factor of the damping of single coordinates after a step; half of it if the step decreased the objective as
        predicted. A larger value keeps the damping for longer.
    first_scale, smallest_scale : float > 0
        The factor of B0's diagonal in the damping: its value after `patience` failures, and the value below which it
        becomes 0.
    most_solutions : int >= 1
        The maximum number of trials of a step, whose damping grows fourfold; after them the step has failed.
    overhead : float >= 0, in operations
        The cost of a step besides its pass on a problem of any size: half a millisecond. A larger value allows more
        sweeps on small problems.
    online_epochs : int >= 0
        The number of online epochs at the start, for text; 0 for none.
    max_epoch_cost : float >= 0, in passes
        The maximum cost of an online epoch. If one costs more, the run starts from samples instead.
    stage_steps : int >= 1
        The maximum number of steps of a stage of the warm start. It ends stages under weak penalties, which converge
        slowly to an optimum that differs from that of all items.
    stage_tolerance : float >= 0, in units of the stage's `min_threshold`
        A stage ends if its violation is not above this. A smaller value takes more steps on samples.
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
    damping_decrease: float = 0.5
    first_scale: float = 0.1
    smallest_scale: float = 1e-3
    most_solutions: int = 20
    overhead: float = STEP_OVERHEAD
    online_epochs: int = 6
    max_epoch_cost: float = 4.0
    stage_steps: int = 40
    stage_tolerance: float = 1.0
