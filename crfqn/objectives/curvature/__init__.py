"""Models of the Hessian, and bounds on it."""
