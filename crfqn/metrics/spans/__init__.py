"""Metrics of spans (phrases, names) in label sequences, by label scheme: counts, ratios, reports, confusions."""
