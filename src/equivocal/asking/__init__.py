"""Ask a sentence word by word: the trained network's beliefs, and its ensemble's uncertainty.

One answer for the terminal (`equivocal ask`), the notebook (`equivocal.ask`) and the page
(`equivocal serve`). Answering needs no JAX; only training and sampling, which happen once, do.
"""

from equivocal.asking.answer import Answer, Belief
from equivocal.asking.comprehender import Comprehender, ask
from equivocal.asking.source import (
    CONVERGED,
    DEFAULT_WORLD,
    PAPER_PAIR,
    PAPER_STEP,
    AskSettings,
    Source,
)

__all__ = [
    "CONVERGED",
    "DEFAULT_WORLD",
    "PAPER_PAIR",
    "PAPER_STEP",
    "Answer",
    "AskSettings",
    "Belief",
    "Comprehender",
    "Source",
    "ask",
]
