"""Other forms of an answer: lists for JSON, and a table of bars for notebooks.

`list_answer` is the object that `equivocal ask --json` prints; its keys are a public interface: do
not rename them. A voice is one network, or all of them together.

The table (`templates/answer.html.j2`) has a column for each word and a row for each role, with the
fillers believed most: the trained network's belief above the ensemble's, its interval as a line and
the exact truth as a tick.
"""

from typing import TYPE_CHECKING, Any

from equivocal.asking.ensembles import LEVEL
from equivocal.asking.summary import format_percent

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer
    from equivocal.asking.summary import Reading

__all__ = ["list_answer", "render_html"]

DIGITS = 7  # significant ones: weights are in single precision
NAMED = ("sentence", "world", "network", "prior_variance", "step", "time")
TOP = 3  # fillers of a role in the table
MLE_COLOUR, BAYES_COLOUR = "#0072B2", "#D55E00"  # safe for colour-blind readers (Okabe & Ito)
INTERVAL = f"{100 * LEVEL:.0f} % interval"


def list_answer(answer: "Answer", top: int) -> dict[str, Any]:
    """Return the dictionary that `Answer.to_dict` describes."""
    positions = range(len(answer.heard))
    listed = {
        (position, r): [answer.fillers[f] for f in answer.choose_fillers(position, r, top)]
        for position in positions
        for r in range(len(answer.roles))
    }
    content = {
        **{name: getattr(answer, name) for name in NAMED},
        "words": [
            {
                **_list_word(answer, position, listed),
                "possible": answer.is_possible(position),
                "readings": [_list_reading(r, position, answer) for r in answer.readings(position)],
                "summary": answer.summarise(position),
            }
            for position in positions
        ],
        "indicated": answer.indicated,
        "summary": answer.summary,
        "networks": [
            {
                "network": one.network,
                "time": one.time,
                "words": [_list_word(one, position, listed) for position in positions],
            }
            for one in answer.networks
        ],
    }
    rounded: dict[str, Any] = _round(content)
    return rounded


def _list_word(
    voice: "Answer", position: int, listed: dict[tuple[int, int], list[str]]
) -> dict[str, Any]:
    """Return the entry of one word, about the listed fillers of each role."""
    return {
        "word": voice.words[position],
        "roles": {
            role: [voice.belief(position, role, name)._asdict() for name in listed[position, r]]
            for r, role in enumerate(voice.roles)
        },
        "semantic_update": float(voice.semantic_update[position]),
        "entropy": float(voice.uncertainty[position]),
        "epistemic": float(voice.epistemic[position].mean()),
    }


def _list_reading(reading: "Reading", position: int, answer: "Answer") -> dict[str, Any]:
    """Return a reading with the beliefs in its parts and the exact probability of the whole."""
    parts = {
        role: {
            "filler": filler,
            "bayes": bayes,
            "networks": [one.belief(position, role, filler).bayes for one in answer.networks],
        }
        for role, (filler, _, bayes, *_) in reading.parts.items()
    }
    return {"kind": reading.kind, "parts": parts, "truth": reading.truth}


def _round(content: Any) -> Any:
    """Round all numbers to seven significant digits."""
    if isinstance(content, dict):
        return {key: _round(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_round(value) for value in content]
    return float(f"{content:.{DIGITS}g}") if isinstance(content, float) else content


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
