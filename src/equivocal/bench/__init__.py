"""Speed, measured against others on the spot: what `equivocal bench` runs.

A front door beside the command line. Each comparison is a section with a module of its own:
`versus_sklearn`, `versus_nuts`, `versus_literal`, `linearity`. `run_bench` runs them in one process
and gives back a `Report` of lines (ours, theirs, ratio, goal) with all settings and versions.
"""

from equivocal.bench.lines import Findings, Goal, Line
from equivocal.bench.report import Report
from equivocal.bench.running import SECTIONS, run_bench
from equivocal.bench.settings import BenchSettings

__all__ = ["SECTIONS", "BenchSettings", "Findings", "Goal", "Line", "Report", "run_bench"]
