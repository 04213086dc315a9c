"""An answer drawn: a table of bars for notebooks (`templates/answer.html.j2`), a figure for print.

Both show the same: a column for each word, a row for each role, the fillers believed most with the
trained network's belief above the ensemble's, its interval as a line and the exact truth as a tick.
"""

from typing import TYPE_CHECKING

from equivocal.asking.beliefs import LEVEL
from equivocal.asking.summary import format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from equivocal.asking.answer import Answer, Belief


TOP = 3
MLE_COLOUR, BAYES_COLOUR = "#0072B2", "#D55E00"  # safe for colour-blind readers (Okabe & Ito)
INTERVAL = f"{100 * LEVEL:.0f} % interval"


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

    from equivocal.report.style import add_legend, apply_style

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
        where = answer.step if answer.time is None else f"step {answer.step}"
        how = f"prior variance {answer.prior_variance:g}, {where}"
        figure.suptitle(f"{answer.sentence} ({how})", fontsize=10)
        return figure


def _draw_bars(axes: "Axes", beliefs: "list[Belief]") -> None:
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
