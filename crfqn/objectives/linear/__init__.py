"""Feature maps: the linear map from weights to scores, sparse or dense, and its adjoint."""
