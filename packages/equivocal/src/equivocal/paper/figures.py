"""All figures of a study, by name and in the order of the report.

To add a figure, add a line to `list_figures` and a caption to `templates/captions.toml`.
"""

from collections.abc import Callable
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

from equivocal.paper import activation_figures as activations
from equivocal.paper import effect_figures as effects
from equivocal.paper import figure_tables as tables
from equivocal.paper.figure_tables import list_conditions
from equivocal.paper.inference import Beliefs
from equivocal.paper.study import Study
from equivocal.progress import progress
from equivocal.result import Figures
from equivocal.statistics.summaries import append_means

__all__ = ["draw"]


def draw(study: Study, beliefs: Beliefs, truth: pd.DataFrame | None = None) -> Figures:
    """Draw every figure of a study, by name and in the order of the report."""
    figures = list_figures(study, beliefs, truth)
    drawn = {}
    with progress("drawing") as advance:
        for done, (name, make) in enumerate(figures.items(), start=1):
            drawn[name] = make()
            advance(done, len(figures), name)
    return drawn


def list_figures(
    study: Study, beliefs: Beliefs, truth: pd.DataFrame | None
) -> dict[str, Callable[[], Figure]]:
    """Return a function that draws each figure."""
    dataset, run = beliefs.answers, study.run
    path = tables.add_reference_levels(beliefs.path, dataset)
    conditions, estimates = list_conditions(dataset), ["mle", *map(str, dataset["sampler"].values)]

    def make(
        draw: Callable[..., Figure], tabulate: Callable[..., pd.DataFrame], *which: str
    ) -> Callable[[], Figure]:
        return lambda: draw(tabulate(dataset, *which), *which)

    figures: dict[str, Callable[[], Figure]] = {
        "learning": lambda: activations.draw_learning(
            append_means(run.curves, "epoch"), float(run.scores["all_zeros"].mean())
        ),
        **{
            f"activations_{name}": make(
                activations.draw_activations, tables.tabulate_critical, name
            )
            for name in conditions
        },
        "tau": lambda: effects.draw_sampler_path(tables.tabulate_path(path)),
        "prior": make(effects.draw_prior_effects, tables.tabulate_prior_effects),
        "uncertainty": make(activations.draw_uncertainty, tables.tabulate_entropies),
    }
    if run.world.is_exact:
        figures["calibration"] = lambda: activations.draw_calibration(
            tables.tabulate_calibration(dataset), estimates
        )
    exact = beliefs.comparison
    if exact is not None:
        figures["exact"] = lambda: effects.draw_exact_comparison(exact)
    if truth is not None:
        figures["truth"] = lambda: effects.draw_known_truth(truth)
    for name, estimate in product(conditions, estimates):
        drawn = make(activations.draw_word_grid, tables.tabulate_words, name, estimate)
        figures[f"words_{name}_{estimate}"] = drawn
    return figures
