"""Steps in the metric of the second moments of the features: Agarwal et al. (2014)."""
