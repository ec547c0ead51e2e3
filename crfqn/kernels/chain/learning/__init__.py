"""Steps over chains, an item at a time: stochastic gradients, mistakes, Frank-Wolfe."""
