"""A sentence asked, word by word: what the trained network believes, and what its ensemble doubts.

One answer for the terminal (`equivocal ask`), the notebook (`equivocal.ask`) and the page
(`equivocal serve`). Answering needs no JAX; that is used once, to make what is asked.
"""

from equivocal.asking.answer import Answer, Belief
from equivocal.asking.comprehender import Comprehender
from equivocal.asking.front import ask
from equivocal.asking.settings import CONVERGED, AskSettings
from equivocal.asking.source import Source, cache_folder

__all__ = [
    "CONVERGED",
    "Answer",
    "AskSettings",
    "Belief",
    "Comprehender",
    "Source",
    "ask",
    "cache_folder",
]
