"""Suites: experiments as data files, run with trained networks.

A paradigm (`load_suite`) is measured word by word: which findings about people hold for networks? A
construction (`load_construction`) has sentences with two readings: which do networks prefer? Both
have items in the format of `equivocal.world.items`. `equivocal.measuring.run.measure` runs
them from end to end, and `equivocal.measuring.figures` draws their tables.
"""
