"""A fitted model as a value, its files, and two engines that label by it: numpy, and for many items compiled code."""
