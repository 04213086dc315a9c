"""An answer drawn: a table of bars for notebooks, a figure for print.

Both show the same: a column for each word, a row for each role, the fillers believed most with the
trained network's belief above the ensemble's, its interval as a line and the exact truth as a tick.
"""

from html import escape
from typing import TYPE_CHECKING

from equivocal.asking.answer import Answer, Belief
from equivocal.asking.network import LEVEL
from equivocal.asking.summary import format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TOP = 3
MLE_COLOUR, BAYES_COLOUR = "#0072B2", "#D55E00"  # safe for colour-blind readers (Okabe & Ito)
INTERVAL = f"{100 * LEVEL:.0f} % interval"

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


def render_html(answer: Answer) -> str:
    """Render an answer as a fragment of HTML that stands on its own."""
    positions = range(len(answer.heard))
    bars = {
        role: ["".join(map(_render_bar, answer.beliefs(p, role, TOP))) for p in positions]
        for role in answer.roles
    }
    shares = zip(answer.uncertainty, answer.epistemic_share, strict=True)
    rows = {
        **{escape(role): cells for role, cells in bars.items()},
        "semantic update": [f"{value:.1f}" for value in answer.semantic_update],
        "uncertainty, nats (epistemic share)": [
            f"{total:.2f} ({format_percent(float(share))})" for total, share in shares
        ],
    }
    head = "".join(f"<th scope='col'>{escape(word)}</th>" for word in answer.words)
    body = "".join(
        f"<tr><th scope='row'>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows.items()
    )
    return (
        f"<style>{STYLE}</style><table class='eqv'><caption>{escape(answer.sentence)} "
        f"(<span style='color:{MLE_COLOUR}'>trained</span>, "
        f"<span style='color:{BAYES_COLOUR}'>Bayesian</span>, "
        f"line: {INTERVAL} of the ensemble, tick: exact truth)</caption>"
        f"<thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table><p>{escape(answer.summary)}</p>"
    )


def _render_bar(belief: Belief) -> str:
    tick = "" if belief.truth is None else f"<s style='left:{100 * belief.truth:.1f}%'></s>"
    span = 100 * (belief.high - belief.low)
    mle, bayes = format_percent(belief.mle), format_percent(belief.bayes)
    title = escape(f"{belief.filler}: trained {mle}, Bayesian {bayes}", quote=True)
    return (
        f"<div class='f' title='{title}'>"
        f"<span class='n'>{escape(belief.filler)}</span><span class='b'>"
        f"<i style='top:0;width:{100 * belief.mle:.1f}%;background:{MLE_COLOUR}'></i>"
        f"<i style='top:6px;width:{100 * belief.bayes:.1f}%;background:{BAYES_COLOUR}'></i>"
        f"<u style='left:{100 * belief.low:.1f}%;width:{span:.1f}%'></u>{tick}</span>"
        f"<span>{bayes}</span></div>"
    )


def draw_answer(answer: Answer) -> "Figure":
    """Draw an answer as a matplotlib figure, a panel for each word and role."""
    from matplotlib.figure import Figure

    from equivocal.report.style import publication_style

    words, roles = len(answer.heard), answer.roles
    with publication_style():
        figure = Figure(figsize=(1.2 + 1.9 * words, 1.0 + 1.05 * len(roles)))
        grid = figure.subplots(len(roles), words, sharex=True, squeeze=False)
        for row, role in zip(grid, roles, strict=True):
            for position, axes in enumerate(row):
                _draw_bars(axes, answer.beliefs(position, role, TOP))
            row[0].set_ylabel(role)
        for axes, word in zip(grid[0], answer.words, strict=True):
            axes.set_title(word, fontsize=9)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        where = answer.step if answer.time is None else f"step {answer.step}"
        how = f"prior variance {answer.prior_variance:g}, {where}"
        figure.suptitle(f"{answer.sentence} ({how})", fontsize=10)
        return figure


def _draw_bars(axes: "Axes", beliefs: list[Belief]) -> None:
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
