"""Penalties of estimators by their strengths: given, or chosen by the noise of gradients."""
