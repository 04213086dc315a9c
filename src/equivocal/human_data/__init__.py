"""Models and people: measures joined to trials, mixed models of them, and simulated experiments.

columns     which column of a trial table is what
tables      trials and measures, as they are read
joins       measures joined to trials, by item and word
design      fixed and random effects of the models
comparison  models with and without each measure
r_scripts   the same models for lme4 and brms
simulation  experiments with known answers
power       how often such an experiment finds the effect

The fit itself is `equivocal.mixed_models`.
"""

from equivocal.human_data.columns import Columns
from equivocal.human_data.comparison import Comparison, compare
from equivocal.human_data.joins import Joined, join, join_files
from equivocal.human_data.power import estimate_power
from equivocal.human_data.simulation import Experiment, build_stimuli, simulate
from equivocal.human_data.tables import read_measures, read_trials
from equivocal.mixed_models import MixedFit, RandomPart, fit_mixed

__all__ = [
    "Columns",
    "Comparison",
    "Experiment",
    "Joined",
    "MixedFit",
    "RandomPart",
    "build_stimuli",
    "compare",
    "estimate_power",
    "fit_mixed",
    "join",
    "join_files",
    "read_measures",
    "read_trials",
    "simulate",
]
