"""Experiments from end to end: train or load networks, compute, write tables, draw figures.

Each is one public function that takes settings and an output folder and returns a `Result` with
`.tables`. The packages below compute and draw; this one puts them in order, and the command line
only parses its arguments and prints the result.
"""
