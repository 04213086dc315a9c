"""Kinds of uncertainty compared: posteriors over some or all layers, ensembles, MC dropout.

comprehenders  a set of networks that answer together, its mean beliefs, and its file
members        sets sampled from a posterior, deep ensembles, MC dropout
scores         distance from the exact beliefs of the world; detection of reversals
comparison     every kind under every score
answers        the answers of a network under each kind, at every strength
frontier       errors on reversals against errors on congruent sentences
usefulness     errors as a function of the training corpus; strengths chosen without the truth
"""
