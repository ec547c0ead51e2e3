"""The folder of this study's results, and what its page begins with."""

from __future__ import annotations

from studies.folder import PAGE, Optimum, Section
from studies.folder import Folder as AnyFolder

__all__ = ["PAGE", "Folder", "Optimum", "Section"]
INTRODUCTION = """\
The figures and tables of K. Zhong, I. Yen, I. Dhillon and P. Ravikumar, *Proximal quasi-Newton for computationally
intensive l1-regularized M-estimators*, NIPS 2014, measured again. Every method minimises the same objective and uses
the same compiled inference; each run has a process of its own (with `--quick` all share one), which starts with a short
training that compiles. Seconds count from the first evaluation, the set-up of the data left out; that evaluation
is pass 1. The reference optimum F* is the best value that any run has seen; how far above the true one it can be is
certified. A run ends 1e-7 above F*, or by its limit of seconds. Of a sample that a method may start from, seconds and
passes count, but there is no point to draw. With `--quick` a small part of the items takes part, and l1 goes with the
root of their number; such runs show that all works, not how fast anything is."""


class Folder(AnyFolder):
    """Where results go."""

    title = "The paper's study"
    introduction = INTRODUCTION
