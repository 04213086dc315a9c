"""Grids of studies: does a result depend on choices that the paper leaves open?

grid       specifications: one value for each choice; grids and designs of them
tasks      what is measured at a point, on this machine or a cluster
effects    the paper's central effect under every specification
facts      which of the paper's printed facts every specification meets, and the answer in words
run        `run_multiverse` and `match_paper`, behind `equivocal multiverse`
"""
