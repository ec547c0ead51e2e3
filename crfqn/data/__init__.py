"""Training data in the form of arrays: feature columns, sequences, label codes, names of features, window templates."""
