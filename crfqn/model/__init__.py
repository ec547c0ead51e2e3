"""Labelling by model files with numpy alone: nothing is compiled, and nothing of training is imported."""
