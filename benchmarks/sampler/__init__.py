"""Speed compared with other software on the same machine, for `python -m benchmarks.sampling`.

Each comparison is a section with a module of its own:
`versus_sklearn`, `versus_laplace`, `versus_nuts`, `exact_draws`, `verdict`, `versus_literal`,
`linearity`. `run_bench` runs them in one process and returns a `Report` of lines (ours, theirs,
ratio, goal) with all settings and versions.
"""

from benchmarks.sampler.lines import Findings, Goal, Line
from benchmarks.sampler.report import Report
from benchmarks.sampler.running import SECTIONS, run_bench
from benchmarks.sampler.settings import BenchSettings

__all__ = ["SECTIONS", "BenchSettings", "Findings", "Goal", "Line", "Report", "run_bench"]
