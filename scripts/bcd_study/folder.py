"""The folder of this study's results, and what its page begins with."""

from __future__ import annotations

from studies.folder import PAGE, Optimum, Section
from studies.folder import Folder as AnyFolder

from bcd_study.methods import OMEGA, SIGMA, SWEEPS, TAU

__all__ = ["CONSTANTS", "PAGE", "Folder", "Optimum", "Section"]
CONSTANTS = (
    f"The paper's constants: lambda goes with means over the training items; line search with sigma = {SIGMA:g}, "
    f"omega = {OMEGA:g}; stopping rule tau = {TAU:g}, K = {SWEEPS} (figure 5, table 2)."
)
INTRODUCTION = f"""\
The figures and tables of M. Blondel, K. Seki and K. Uehara, *Block coordinate descent algorithms for large-scale sparse
multiclass classification*, Machine Learning 93, 2013, measured again. Every solver minimises the same objective with
the same compiled evaluation, on one thread unless said otherwise; each run has a process of its own (with `--quick` all
share one), which starts with a short training that compiles. Seconds count from the first evaluation, without set-up
of the data and looks at the test items. The reference optimum F* is the best value that any run has seen; how far above
the true one it can be is certified. A run of figures 2 to 4 ends 1e-7 above F*, or by its limit of seconds.

{CONSTANTS}"""


class Folder(AnyFolder):
    """Where results go."""

    title = "Block coordinate descent: the paper's study"
    introduction = INTRODUCTION
