"""Methods that learn item by item: SGD with a cumulative L1 penalty, forward-backward splitting, perceptrons."""
