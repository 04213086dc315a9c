"""Scripts that make data files of the package; they run in the repository and are not installed."""
