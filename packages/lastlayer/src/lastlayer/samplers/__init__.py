"""One algorithm, one file: a config, `init`, `step`, and `run`, which does both for all outputs.

A new sampler is registered in `METHODS` of `lastlayer.methods`.
"""
