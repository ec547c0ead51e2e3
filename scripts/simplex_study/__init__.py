"""The study of Blondel, Fujino and Ueda (2014): dual decomposition by projections onto the simplex."""
