"""The support vector machine with kernels."""
