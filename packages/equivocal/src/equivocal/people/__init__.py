"""Models and people: measures joined to trials, mixed models of them, and simulated experiments.

tables          reads trials and measures, and finds out which column holds what
joins           joins measures to trials, by item and word
variables       responses that models can take; measures of previous words, length and frequency
comparison      mixed models with and without each measure
answers         answers drawn from beliefs: shares, and how often two answers differ
questions       questions about who did what in a sentence, and their exact answers
participants    networks and particles that answer these questions
simulation      experiments with a known effect, and their statistical power
trials_summary  results in sentences, and as R scripts for lme4 and brms
reading_tables  how comprehenders read plausible, unlikely and impossible sentences; how a list of
                sentences changes the readings of the ideal comprehender
people          published numbers about people (`data/people.csv`), compared with comprehenders
fitting         parameters of a world fitted to people's shares of readings

The models are fitted by `equivocal.statistics`.
"""
