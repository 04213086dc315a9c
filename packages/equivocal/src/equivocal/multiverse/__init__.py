"""Grids of studies: does a result depend on choices that the paper leaves open?

grid       specifications: one value for each choice; grids of them
designs    specifications spread over all choices at once
effects    the paper's central effect under every specification
readings   which of the paper's printed facts every specification meets
answer     what was found, in words
tasks      runs points that are missing, on this machine or a cluster
run        `run_multiverse` and `match_paper`, behind `equivocal multiverse`
"""
