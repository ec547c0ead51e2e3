"""Model files: saving an estimator, loading it, and the content of a file."""
