"""Other forms of an answer: lists for JSON, a table of bars for notebooks, a figure for print.

`list_answer` is the object that `equivocal ask --json` prints; its keys are a public interface: do
not rename them. A voice is one network, or all of them together. All numbers of a voice are taken
out of its arrays at once: taking them one by one would last longer than computing them.

The table (`templates/answer.html.j2`) and the figure show the same: a column for each word, a row
for each role, the fillers believed most with the trained network's belief above the ensemble's, its
interval as a line and the exact truth as a tick.
"""

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.beliefs import LEVEL
from equivocal.asking.summary import describe_step, format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from equivocal.asking.answer import Answer, Belief
    from equivocal.asking.summary import Reading

__all__ = ["draw_answer", "list_answer", "list_heading", "list_words", "render_html"]

DIGITS = 7
LEAST = 16  # numbers below 10^-LEAST keep fewer digits
SHOWN = ("mle", "bayes", "low", "high")
NAMED = ("sentence", "world", "network", "prior_variance", "step", "time")
TOP = 3  # fillers of a role in a picture
MLE_COLOUR, BAYES_COLOUR = "#0072B2", "#D55E00"  # safe for colour-blind readers (Okabe & Ito)
INTERVAL = f"{100 * LEVEL:.0f} % interval"


def list_answer(answer: "Answer", top: int) -> dict[str, Any]:
    """Return the dictionary that `Answer.to_dict` describes."""
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
    """Return the entries that come before the words."""
    return {name: getattr(answer, name) for name in NAMED}


def list_words(
    answer: "Answer", top: int, positions: Sequence[int]
) -> list[tuple[dict[str, Any], ...]]:
    """Return the entries of the words at some positions.

    Returns
    -------
    list of tuple of dict
        For each position, the entry of all networks together, then that of each network alone.
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
        word["possible"] = answer.is_possible(position)
        word["readings"] = [
            _list_reading(one, position, answer) for one in answer.readings(position)
        ]
        word["summary"] = answer.summarise(position)
    return list(zip(together, *alone, strict=True))


def _list_reading(reading: "Reading", position: int, answer: "Answer") -> dict[str, Any]:
    """Return a reading with the beliefs in its parts and the exact probability of the whole."""
    parts = {}
    for role, belief in reading.parts.items():
        alone = [one.belief(position, role, belief.filler).bayes for one in answer.networks]
        bayes, *networks = _round([belief.bayes, *alone])
        parts[role] = {"filler": belief.filler, "bayes": bayes, "networks": networks}
    truth = None if reading.truth is None else _round([reading.truth])[0]
    return {"kind": reading.kind, "parts": parts, "truth": truth}


def _measure(voice: "Answer") -> list[NDArray[Any]]:
    """Return semantic update, uncertainty and its epistemic part after each word."""
    return [voice.semantic_update, voice.uncertainty, voice.epistemic.mean(axis=1)]


def _list_voice(
    answer: "Answer",
    positions: Sequence[int],
    named: list[tuple[int, int, str, bool]],
    known: list[float | None],
    shown: list[list[float]],
    measured: list[list[float]],
) -> list[dict[str, Any]]:
    """Return the entries of one voice at some positions."""
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
    """Round to seven significant digits: single precision has no more.

    >>> _round([0.123456789, 0.0, 1.23456789e-9, 98.7654321])
    [0.1234568, 0.0, 1.234568e-09, 98.76543]
    """
    exact = np.array(numbers, np.float64)
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(exact)))
    scale = 10.0 ** (DIGITS - 1 - np.maximum(size, -LEAST))
    rounded: list[Any] = (np.round(exact * scale) / scale).tolist()
    return rounded


def render_html(answer: "Answer") -> str:
    """Render an answer as a fragment of HTML that stands on its own."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("equivocal.asking"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["percent"] = format_percent
    return environment.get_template("answer.html.j2").render(
        answer=answer,
        top=TOP,
        interval=INTERVAL,
        mle_colour=MLE_COLOUR,
        bayes_colour=BAYES_COLOUR,
    )


def draw_answer(answer: "Answer") -> "Figure":
    """Draw an answer as a matplotlib figure, a panel for each word and role."""
    from matplotlib.figure import Figure

    from equivocal.figure_style import add_legend, apply_style

    words, roles = len(answer.heard), answer.roles
    with apply_style():
        figure = Figure(figsize=(1.2 + 1.9 * words, 1.0 + 1.05 * len(roles)))
        grid = figure.subplots(len(roles), words, sharex=True, squeeze=False)
        for row, role in zip(grid, roles, strict=True):
            for position, axes in enumerate(row):
                _draw_bars(axes, answer.beliefs(position, role, TOP))
            row[0].set_ylabel(role)
        for axes, word in zip(grid[0], answer.words, strict=True):
            axes.set_title(word, fontsize=9)
        add_legend(figure, grid[0, 0], columns=4)
        how = f"prior variance {answer.prior_variance:g}, {describe_step(answer.step, answer.time)}"
        figure.suptitle(f"{answer.sentence} ({how})", fontsize=10)
        return figure


def _draw_bars(axes: "Axes", beliefs: "list[Belief]") -> None:
    """Draw the trained belief above the Bayesian one for each filler, with interval and truth."""
    places = range(len(beliefs))
    above, below = ([place + move for place in places] for move in (-0.2, 0.2))
    trained, bayes = [b.mle for b in beliefs], [b.bayes for b in beliefs]
    # the mean of a skewed ensemble may lie outside its interval: then that arm has no length
    arms = [[max(b.bayes - b.low, 0) for b in beliefs], [max(b.high - b.bayes, 0) for b in beliefs]]
    thin = {"elinewidth": 0.8}
    axes.barh(above, trained, 0.38, color=MLE_COLOUR, label="trained (MLE)")
    axes.barh(below, bayes, 0.38, xerr=arms, color=BAYES_COLOUR, label="Bayesian", error_kw=thin)
    for place, belief in enumerate(beliefs):
        if belief.truth is not None:
            ends = [place - 0.45, place + 0.45]
            axes.plot([belief.truth, belief.truth], ends, color="black", linewidth=1.2)
    axes.plot([], [], color="black", marker="|", linestyle="", label="exact truth")
    axes.plot([], [], color="black", linewidth=0.8, label=f"{INTERVAL} of the ensemble")
    axes.set_yticks(list(places), [b.filler for b in beliefs], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
