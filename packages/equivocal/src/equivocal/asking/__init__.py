"""Ask a sentence word by word: the trained network's beliefs, and its ensemble's uncertainty.

One answer for the terminal (`equivocal ask`), the notebook (`equivocal.ask`) and the page
(`equivocal serve`). Answering needs no JAX; only training and sampling, which happen once, do.
"""
