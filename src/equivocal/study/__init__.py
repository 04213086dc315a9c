"""Studies: what is run with which numbers, and what is measured. Knows nothing of drawing."""

from equivocal.study.beliefs import calibration_table, trace_beliefs, true_trace
from equivocal.study.opening import open_study, prepare
from equivocal.study.running import Study
from equivocal.study.settings import StudySettings, load_study
from equivocal.study.stimuli import Stimuli, Stimulus, load_stimuli

__all__ = [
    "Stimuli",
    "Stimulus",
    "Study",
    "StudySettings",
    "calibration_table",
    "load_stimuli",
    "load_study",
    "open_study",
    "prepare",
    "trace_beliefs",
    "true_trace",
]
