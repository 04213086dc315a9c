"""`ask`: a sentence in, beliefs after each word out."""

from functools import lru_cache
from pathlib import Path

from equivocal.asking.answer import Answer
from equivocal.asking.comprehender import Comprehender, understood
from equivocal.asking.settings import CONVERGED
from equivocal.asking.source import Source
from equivocal.world import World

__all__ = ["ask"]

_comprehender = lru_cache(maxsize=4)(Comprehender)  # they hold tens of megabytes each


def ask(
    sentence: str,
    *,
    world: World | str | Path | None = None,
    run: str | Path | None = None,
    network: int = 0,
    prior_variance: float | None = None,
    step: int | str = CONVERGED,
) -> Answer:
    """What a network and its ensemble believe after each word of a sentence.

    Parameters
    ----------
    sentence : str
        Any words of the world, in any order.
    world : World, name or path
        Where the default network lives ("paper" unless told otherwise); trained once and kept.
    run : path, optional
        A run of `equivocal train` or `equivocal reproduce` to take the network from instead.
    network : int
        Which of the run's networks.
    prior_variance : float
        Of the last layer about its trained weights: 0.01, 1 (unless given) or 5.
    step : int or "converged"
        Where the ensemble is: a step of the paper's sampler, or where its equations come to rest.

    Examples
    --------
    >>> import equivocal
    >>> answer = equivocal.ask("during dinner, the pizza eats the woman")  # doctest: +SKIP
    >>> answer.belief(-1, "agent", "woman").bayes > 0.9  # doctest: +SKIP
    True
    """
    source = Source.choose(world=world, run=run, network=network)
    understood(source.world, sentence)  # before anything is trained for it
    return _comprehender(source).answer(sentence, prior_variance=prior_variance, step=step)
