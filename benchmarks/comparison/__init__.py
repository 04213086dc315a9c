"""What `python -m benchmarks.peers` compares: data, networks, methods and measures."""
