"""Scripts that make data files of the package; run from the repository, never installed."""
