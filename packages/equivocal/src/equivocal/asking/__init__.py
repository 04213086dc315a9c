"""Ask a sentence word by word: the trained network's beliefs, and its ensemble's uncertainty.

One answer for the terminal (`equivocal ask`), the notebook (`equivocal.ask`) and the page
(`equivocal page`). Answering needs no JAX; only training and sampling, which happen once, do.

    source        which networks answer, and where their files are cached
    posteriors    their weights and ensembles: of the package, or made here
    ensembles     from a sentence to logits, from logits to beliefs
    warranted     what a learner who counted the same sentences believes
    listeners     `ask`: all of it together, for an `answer` with its `summary` in words
    page, static/    the same in JavaScript, as one HTML file
"""
