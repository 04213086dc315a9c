"""Posteriors over a last layer: Bayesian logistic regression for many outputs that share features.

This room takes arrays and gives back a posterior; it knows nothing of language and imports nothing
but `jax` and `numpy`. One file per algorithm; this version has none.
"""
