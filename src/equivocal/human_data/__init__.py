"""Models and people: measures joined to trials, mixed models of them, and simulated experiments.

columns     whose columns are what
tables      trials and measures, as they are read
joining     measures to trials, by item and word
mixed       linear models with crossed random parts, by ML and REML
design      what the models are made of
comparing   models with and without each measure
rscripts    the same models for lme4 and brms
simulating  experiments with known answers
power       how often such an experiment finds the effect
"""

from equivocal.human_data.columns import Columns
from equivocal.human_data.comparing import Comparison, compare
from equivocal.human_data.joining import Joined, join, join_files
from equivocal.human_data.mixed import MixedFit, RandomPart, fit_mixed
from equivocal.human_data.power import power_curve
from equivocal.human_data.simulating import Experiment, simulate, stimuli_of
from equivocal.human_data.tables import read_measures, read_trials
from equivocal.human_data.writing import write_comparison, write_experiment, write_power

__all__ = [
    "Columns",
    "Comparison",
    "Experiment",
    "Joined",
    "MixedFit",
    "RandomPart",
    "compare",
    "fit_mixed",
    "join",
    "join_files",
    "power_curve",
    "read_measures",
    "read_trials",
    "simulate",
    "stimuli_of",
    "write_comparison",
    "write_experiment",
    "write_power",
]
