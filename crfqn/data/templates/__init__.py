"""Templates: features of a position made of the columns of the tokens around it, by arithmetic on integers."""
