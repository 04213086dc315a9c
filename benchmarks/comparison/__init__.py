"""The data, networks, methods and measures of `python -m benchmarks.peers`."""
