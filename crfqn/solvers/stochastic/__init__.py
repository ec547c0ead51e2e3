"""Methods that learn item by item: SGD with a cumulative L1 penalty, perceptrons; SGD as a start of other solvers."""
