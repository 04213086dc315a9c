"""An answer as plain lists, strings and numbers: the object that `equivocal ask --json` prints.

Its keys are a public interface: do not rename them. All numbers of a voice, which is one network or
all of them together, are taken out of its arrays at once; one by one they would take longer than
the networks.
"""

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer

__all__ = ["list_answer", "list_heading", "list_words"]

DIGITS = 7
LEAST = 16  # numbers below 10 to minus this keep fewer digits
SHOWN = ("mle", "bayes", "low", "high")
NAMED = ("sentence", "world", "network", "prior_variance", "step", "time")


def list_answer(answer: "Answer", top: int) -> dict[str, Any]:
    """Return what `Answer.to_dict` promises."""
    words = list_words(answer, top, range(len(answer.heard)))
    return {
        **list_heading(answer),
        "words": [voices[0] for voices in words],
        "indicated": answer.indicated,
        "summary": words[-1][0]["summary"],
        "networks": [
            {"network": one.network, "time": one.time, "words": [voices[n] for voices in words]}
            for n, one in enumerate(answer.networks, start=1)
        ],
    }


def list_heading(answer: "Answer") -> dict[str, Any]:
    """Return what comes before the words."""
    return {name: getattr(answer, name) for name in NAMED}


def list_words(
    answer: "Answer", top: int, positions: Sequence[int]
) -> list[tuple[dict[str, Any], ...]]:
    """Return what is said about the words at some positions.

    Returns
    -------
    list of tuple of dict
        For each position what all networks say together, and then what each says alone.
    """
    places = [
        (at, position, r, f)
        for at, position in enumerate(positions)
        for r in range(len(answer.roles))
        for f in answer.choose_fillers(position, r, top)
    ]
    numbers = np.array(places)
    index = tuple(numbers[:, 1:].T)
    named = [
        (at, r, answer.fillers[f], answer.fillers[f] in answer.said[position])
        for at, position, r, f in places
    ]
    known = [None if isnan(truth) else truth for truth in _round(answer.truth[index])]
    voices = (answer, *answer.networks)
    shown = _round([[getattr(one, name)[index] for name in SHOWN] for one in voices])
    rows = list(positions)
    measured = _round([[values[rows] for values in _measure(one)] for one in voices])
    together, *alone = (
        _list_voice(answer, positions, named, known, beliefs, measures)
        for beliefs, measures in zip(shown, measured, strict=True)
    )
    for position, word in zip(positions, together, strict=True):
        word["possible"], word["summary"] = answer.is_possible(position), answer.summarise(position)
    return list(zip(together, *alone, strict=True))


def _measure(voice: "Answer") -> list[NDArray[Any]]:
    return [voice.semantic_update, voice.uncertainty, voice.epistemic.mean(axis=1)]


def _list_voice(
    answer: "Answer",
    positions: Sequence[int],
    named: list[tuple[int, int, str, bool]],
    known: list[float | None],
    shown: list[list[float]],
    measured: list[list[float]],
) -> list[dict[str, Any]]:
    """List what one voice says at some positions."""
    words: list[dict[str, Any]] = [
        {
            "word": answer.heard.constituents[position].text,
            "roles": {role: [] for role in answer.roles},
            "semantic_update": update,
            "entropy": entropy,
            "epistemic": epistemic,
        }
        for position, update, entropy, epistemic in zip(positions, *measured, strict=True)
    ]
    lists = [list(word["roles"].values()) for word in words]
    for (at, r, filler, said), mle, bayes, low, high, truth in zip(
        named, *shown, known, strict=True
    ):
        belief = {
            "filler": filler,
            "mle": mle,
            "bayes": bayes,
            "low": low,
            "high": high,
            "truth": truth,
            "said": said,
        }
        lists[at][r].append(belief)
    return words


def _round(numbers: Any) -> list[Any]:
    """Round to seven digits, wherever the point is: more than single precision has says nothing.

    >>> _round([0.123456789, 0.0, 1.23456789e-9, 98.7654321])
    [0.1234568, 0.0, 1.234568e-09, 98.76543]
    """
    exact = np.array(numbers, np.float64)
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(exact)))
    scale = 10.0 ** (DIGITS - 1 - np.maximum(size, -LEAST))
    rounded: list[Any] = (np.round(exact * scale) / scale).tolist()
    return rounded
