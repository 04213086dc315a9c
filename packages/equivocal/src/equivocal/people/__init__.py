"""Models and people: measures joined to trials, mixed models, simulation, published numbers.

`equivocal people compare` (`run_compare`):

trial_tables   reads trials and measures, with the columns that the user names
align          matches the words that were read to the constituents of the measures
join           joins measures to trials, by item and position
predictors     measures of previous words, length, interactions
designs        fixed and random effects of the models
responses      responses that models can take
models         mixed models with and without each measure (fitted by `equivocal.statistics`)
r_scripts      the same models for lme4

`equivocal people simulate` (`run_simulate`): `simulate` makes experiments with a known effect and
counts how often it is found.

`equivocal people published` (`run_published`):

asked_items    questions about who did what in a sentence, and their exact answers
comprehenders  networks and particles that answer these questions
agreement      how often each reading is given, and how often two answers differ
readings       tables of both, and of how well reversals are detected
published      published numbers about people (`data/people.csv`), compared with comprehenders
"""
