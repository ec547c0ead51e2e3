"""The solver behind `solver="auto"`, which chooses one of all the others."""
