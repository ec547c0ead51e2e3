"""Dense weights that learn item by item: for stochastic gradients, splitting and perceptrons."""
