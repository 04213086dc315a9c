"""Models and people: measures joined to trials, mixed models, simulation, published numbers.

`equivocal people compare` (`run_compare`):

trial_tables   reads trials and measures, with the columns that the user names
align          matches the words that were read to the constituents of the measures
join           joins measures to trials, by item and position
designs        the response, fixed and random effects; previous words, length, interactions
models         mixed models with and without each measure (fitted by `equivocal.statistics`)
run_compare    all of it, and the same models for lme4

`equivocal people simulate` (`run_simulate`): `simulate` makes experiments with a known effect and
counts how often it is found.

`equivocal people published` (`published`): published numbers about people (`data/people.csv`),
compared with comprehenders.

comprehenders  questions about who did what in a sentence, and networks and particles that answer
"""
