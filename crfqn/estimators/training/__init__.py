"""What training takes besides an objective: a solver, a start, batches that come in, validation, callbacks."""
