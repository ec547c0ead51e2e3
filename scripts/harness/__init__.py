"""What the benchmarks and the studies of papers share: problems, judges, runs, curves, pictures and pages."""
