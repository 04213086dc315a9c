"""An answer drawn: a table of bars for notebooks, a figure for print.

Both show the same: a column for each word, a row for each role, the fillers believed most with the
trained network's belief above the ensemble's, its interval as a line and the exact truth as a tick.
"""

from html import escape
from typing import TYPE_CHECKING

from equivocal.asking.answer import Answer, Belief
from equivocal.asking.settings import LEVEL
from equivocal.asking.summary import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_figure", "as_html"]

TOP = 3
MLE_COLOUR, BAYES_COLOUR = "#0072B2", "#D55E00"  # told apart by all eyes (Okabe & Ito)

STYLE = """
.eqv { border-collapse: collapse; font: 12px/1.35 system-ui, sans-serif; }
.eqv th, .eqv td { padding: 4px 10px; vertical-align: top; text-align: left;
  border-bottom: 1px solid #8884; }
.eqv .f { display: flex; gap: 6px; align-items: center; white-space: nowrap; }
.eqv .n { width: 6.5em; overflow: hidden; text-overflow: ellipsis; }
.eqv .b { position: relative; width: 90px; height: 12px; background: #8882; }
.eqv .b i { position: absolute; left: 0; height: 5px; }
.eqv .b u { position: absolute; top: 8px; height: 2px; background: currentColor; opacity: .7; }
.eqv .b s { position: absolute; top: -2px; width: 2px; height: 16px; background: currentColor; }
"""


def as_html(answer: Answer) -> str:
    """A fragment of HTML that stands on its own."""
    head = "".join(f"<th scope='col'>{escape(word)}</th>" for word in answer.words)
    rows = "".join(_role_row(answer, role) for role in answer.roles)
    update = _row("surprise (semantic update)", [f"{v:.1f}" for v in answer.semantic_update])
    doubt = _row("unsure, nats (not knowing)", _doubts(answer))
    return (
        f"<style>{STYLE}</style><table class='eqv'><caption>{escape(answer.sentence)} "
        f"(<span style='color:{MLE_COLOUR}'>trained</span>, "
        f"<span style='color:{BAYES_COLOUR}'>Bayesian</span>, "
        f"line: {100 * LEVEL:.0f} % of the ensemble, tick: exact truth)</caption>"
        f"<thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{rows}{update}{doubt}</tbody></table><p>{escape(answer.summary)}</p>"
    )


def _role_row(answer: Answer, role: str) -> str:
    cells = "".join(
        f"<td>{''.join(_bar(belief) for belief in answer.beliefs(position, role, TOP))}</td>"
        for position in range(len(answer.heard))
    )
    return f"<tr><th scope='row'>{escape(role)}</th>{cells}</tr>"


def _row(name: str, values: list[str]) -> str:
    return f"<tr><th scope='row'>{name}</th>{''.join(f'<td>{value}</td>' for value in values)}</tr>"


def _doubts(answer: Answer) -> list[str]:
    pairs = zip(answer.uncertainty, answer.unknown_share, strict=True)
    return [f"{total:.2f} ({percent(float(share))})" for total, share in pairs]


def _bar(belief: Belief) -> str:
    tick = "" if belief.truth is None else f"<s style='left:{100 * belief.truth:.1f}%'></s>"
    span = 100 * (belief.high - belief.low)
    words = f"{belief.filler}: trained {percent(belief.mle)}, Bayesian {percent(belief.bayes)}"
    return (
        f"<div class='f' title='{escape(words, quote=True)}'>"
        f"<span class='n'>{escape(belief.filler)}</span><span class='b'>"
        f"<i style='top:0;width:{100 * belief.mle:.1f}%;background:{MLE_COLOUR}'></i>"
        f"<i style='top:6px;width:{100 * belief.bayes:.1f}%;background:{BAYES_COLOUR}'></i>"
        f"<u style='left:{100 * belief.low:.1f}%;width:{span:.1f}%'></u>{tick}</span>"
        f"<span>{percent(belief.bayes)}</span></div>"
    )


def as_figure(answer: Answer) -> "Figure":
    """The same as a matplotlib figure."""
    from matplotlib.figure import Figure

    from equivocal.report.style import publication_style

    words, roles = len(answer.heard), answer.roles
    with publication_style():
        figure = Figure(figsize=(1.2 + 1.9 * words, 1.0 + 1.05 * len(roles)))
        grid = figure.subplots(len(roles), words, sharex=True, squeeze=False)
        for row, role in zip(grid, roles, strict=True):
            for position, axes in enumerate(row):
                _bars(axes, answer.beliefs(position, role, TOP))
            row[0].set_ylabel(role)
        for axes, word in zip(grid[0], answer.words, strict=True):
            axes.set_title(word, fontsize=9)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        where = answer.step if answer.time is None else f"step {answer.step}"
        how = f"prior variance {answer.prior_variance:g}, {where}"
        figure.suptitle(f"{answer.sentence} ({how})", fontsize=10)
        return figure


def _bars(axes: "Axes", beliefs: list[Belief]) -> None:
    places = range(len(beliefs))
    above, below = ([place + move for place in places] for move in (-0.2, 0.2))
    trained, middle = [b.mle for b in beliefs], [b.bayes for b in beliefs]
    axes.barh(above, trained, 0.38, color=MLE_COLOUR, label="trained (MLE)")
    # the mean of a skewed ensemble may lie outside its interval: then that arm has no length
    arms = [
        [max(b.bayes - b.low, 0) for b in beliefs],
        [max(b.high - b.bayes, 0) for b in beliefs],
    ]
    axes.barh(
        below,
        middle,
        0.38,
        xerr=arms,
        color=BAYES_COLOUR,
        label="Bayesian",
        error_kw={"elinewidth": 0.8},
    )
    known = [(p, b.truth) for p, b in zip(places, beliefs, strict=True) if b.truth is not None]
    for place, truth in known:
        axes.plot([truth, truth], [place - 0.45, place + 0.45], color="black", linewidth=1.2)
    axes.plot([], [], color="black", marker="|", linestyle="", label="exact truth")
    axes.plot([], [], color="black", linewidth=0.8, label=f"{100 * LEVEL:.0f} % of the ensemble")
    axes.set_yticks(list(places), [b.filler for b in beliefs], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
