"""Studies: what is run with which numbers, and what is measured. Knows nothing of drawing."""

from equivocal.study.beliefs import calibration_table, trace_beliefs, true_trace
from equivocal.study.presets import Illustration, Preset, load_preset

__all__ = [
    "Illustration",
    "Preset",
    "calibration_table",
    "load_preset",
    "trace_beliefs",
    "true_trace",
]
