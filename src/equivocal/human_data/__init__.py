"""Models and people: measures joined to trials, mixed models of them, and simulated experiments.

tables      trials and measures, as they are read, and which column is what
joins       measures joined to trials, by item and word
variables   which responses models can take; measures of previous words, length and frequency
comparison  fixed and random effects; models with and without each measure
answers     answers drawn from beliefs: shares, and how often two answers differ
questions   who did what, asked after a sentence: plausible, unlikely or impossible; exact answers
participants  networks and particles that answer them
simulation  experiments with known answers, and how often they find the effect
trials_summary  what was found in trials, in plain words; the same models for lme4 and brms

reading_tables  how comprehenders read plausible, unlikely and impossible sentences; what a list of
                them changes in the readings of the ideal comprehender
people          published numbers about people (`data/people.csv`), compared with comprehenders
fitting         parameters of a world fitted to people's shares of readings

The fit itself is `equivocal.mixed_models`.
"""

from equivocal.human_data.comparison import Comparison, compare
from equivocal.human_data.joins import join_files
from equivocal.human_data.simulation import Experiment, build_stimuli, estimate_power, simulate
from equivocal.human_data.tables import Columns, open_table, read_measures

__all__ = [
    "Columns",
    "Comparison",
    "Experiment",
    "build_stimuli",
    "compare",
    "estimate_power",
    "join_files",
    "open_table",
    "read_measures",
    "simulate",
]
