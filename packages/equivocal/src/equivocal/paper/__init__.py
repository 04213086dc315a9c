"""Studies: their settings, stages, measures and statistics, and grids of studies.

This package draws nothing; `equivocal.paper.run` runs a study from end to end.
"""
