"""What training data become: features in columns, sequences, labels, names, windows."""
