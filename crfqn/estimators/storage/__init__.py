"""What a model file holds of an estimator."""
