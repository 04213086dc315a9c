"""Studies: their settings, stages, measures and statistics, and grids of studies.

This package draws nothing; `equivocal.experiments.studies` runs a study from end to end.
"""

from equivocal.study.activations import trace_truth
from equivocal.study.comparisons import tabulate_fit, tabulate_item, tabulate_traces, trace_beliefs
from equivocal.study.preparation import open_study, prepare
from equivocal.study.settings import StudySettings, load_study
from equivocal.study.stages import Study
from equivocal.world.items import load_stimuli

__all__ = [
    "Study",
    "StudySettings",
    "load_stimuli",
    "load_study",
    "open_study",
    "prepare",
    "tabulate_fit",
    "tabulate_item",
    "tabulate_traces",
    "trace_beliefs",
    "trace_truth",
]
