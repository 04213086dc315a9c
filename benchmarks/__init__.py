"""Benchmarks of speed and of accuracy. Each module prints a table of its results."""
