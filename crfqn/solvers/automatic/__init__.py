"""`solver="auto"`: the choice among all solvers."""
