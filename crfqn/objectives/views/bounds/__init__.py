"""What bounds on the optimum need: mixtures of items, proved zeros, reach of unpenalised weights."""
