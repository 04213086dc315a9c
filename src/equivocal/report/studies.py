"""The figures of a study and its report: what is drawn from which file of the study's folder.

A new figure is a line of `list_figures` and a caption in `equivocal.report.captions`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import tomli_w
import xarray as xr
from matplotlib.figure import Figure

from equivocal import __version__
from equivocal.gestalt import Run
from equivocal.inference import SamplerSettings
from equivocal.machine import collect_versions
from equivocal.report import (
    activation_figures,
    diagrams,
    effect_figures,
    learning_figures,
    uncertainty_figures,
)
from equivocal.report.html import TABLE_CAPTIONS, ReportContent, find_caption, render_report
from equivocal.report.style import KINDS, save_figure
from equivocal.store import read_table, read_text
from equivocal.study import (
    Stimuli,
    Study,
    StudySettings,
    calibration_table,
    summaries,
    trace_beliefs,
    true_trace,
)
from equivocal.study.comparisons import add_reference_levels
from equivocal.study.tables import PRINTED_STUDY

__all__ = ["draw_figures", "is_drawn", "list_figures", "write_report"]

FILES = ("*.nc", "*.csv", "settings.toml", "tables/*.csv")  # what the report depends on


def list_figures(study: Study) -> dict[str, Callable[[], Figure]]:
    """List what draws each figure, by name and in the order of the report."""
    dataset = study.read("activations.nc")
    baseline, *others = (str(name) for name in dataset["condition"].values)
    run = study.run
    figures: dict[str, Callable[[], Figure]] = {
        "network": diagrams.draw_network_diagram,
        "posterior": diagrams.draw_posterior_diagram,
        "learning": lambda: learning_figures.draw_learning(
            summaries.append_means(run.curves, "epoch"), run.scores["all_zeros"].mean()
        ),
        "beliefs": lambda: _draw_beliefs(study),
    }
    for condition in (baseline, *others):
        figures[f"activations_{condition}"] = partial(_draw_activations, dataset, condition)
    path = add_reference_levels(study.read("path.nc"), dataset)
    figures |= {
        "tau": lambda: effect_figures.draw_sampler_path(summaries.tabulate_path(path)),
        "prior": lambda: effect_figures.draw_prior_effects(
            summaries.tabulate_prior_effects(dataset)
        ),
        "uncertainty": lambda: uncertainty_figures.draw_uncertainty(
            summaries.tabulate_entropies(dataset)
        ),
    }
    if run.world.is_exact:
        error = run.scores["belief_error"].mean()
        figures["calibration"] = lambda: learning_figures.draw_calibration(
            calibration_table(run), error
        )
        figures["calibration_posterior"] = partial(_draw_calibration, dataset)
    if study.settings.nuts.networks:
        figures["nuts"] = partial(uncertainty_figures.draw_nuts_comparison, study.read("nuts.nc"))
    for condition in (baseline, *others):
        for estimate in ("mle", "paper", "converged"):
            name = f"words_{condition}_{estimate}"
            figures[name] = partial(_draw_words, dataset, condition, estimate)
    return figures


def is_drawn(study: Study) -> bool:
    """Tell whether figures and report are there, made from the files that are there."""
    return study.store.find("report", study.hash_results(*FILES)) is not None


def draw_figures(study: Study) -> dict[str, Callable[[], object]]:
    """List what draws and saves each figure, by name."""

    def save(name: str, draw: Callable[[], Figure]) -> None:
        save_figure(draw(), study.folder / "figures", name)

    return {name: partial(save, name, draw) for name, draw in list_figures(study).items()}


def write_report(study: Study) -> Path:
    """Write one page with everything, from the files of the folder, and return its path."""
    folder, settings = study.folder, study.settings
    tables = {
        name: read_table(folder / "tables" / f"{name}.csv")
        for name in TABLE_CAPTIONS
        if (folder / "tables" / f"{name}.csv").exists()
    }
    impossible = tables.pop("impossible_numbers", pd.DataFrame())
    content = ReportContent(
        title=f"Study “{settings.name}”: degrees of belief in the last layer",
        quick=settings.quick_run,
        claims=_read_claims(folder / "claims.csv").rename(
            columns={"at_paper_steps": _name_stopping(settings)}
        ),
        impossible=impossible,
        tables=tables,
        figures=[(name, find_caption(name)) for name in list_figures(study)],
        methods=write_methods(settings, study.run, study.stimuli),
        settings=tomli_w.dumps(settings.to_dict()),
        versions=collect_versions("equivocal", "jax", "numpy", "scipy", "xarray"),
        notes=_write_notes(study),
    )
    path = render_report(folder, content)
    drawn = [folder / "figures" / f"{name}.{kind}" for name, _ in content.figures for kind in KINDS]
    study.store.record("report", study.hash_results(*FILES), [*drawn, path])
    return path


def _read_claims(path: Path) -> pd.DataFrame:
    if not read_text(path).strip():  # a study of one's own has no claims of the paper
        return pd.DataFrame()
    return read_table(path)


def _name_stopping(settings: StudySettings) -> str:
    """Return the heading of the column of the paper's sampler."""
    steps = settings.inference.samplers["paper"].num_steps
    return "where the paper's sampler stops" if steps is None else f"at {steps} steps"


def _draw_activations(dataset: xr.Dataset, condition: str) -> Figure:
    return activation_figures.draw_activations(
        summaries.tabulate_critical(dataset, condition), condition
    )


def _draw_words(dataset: xr.Dataset, condition: str, estimate: str) -> Figure:
    table = summaries.tabulate_words(dataset, condition, estimate)
    return activation_figures.draw_word_grid(table, condition, estimate)


def _draw_calibration(dataset: xr.Dataset) -> Figure:
    estimates = ["mle", *map(str, dataset["sampler"].values)]
    table = summaries.tabulate_calibration(dataset)
    return learning_figures.draw_calibration_panels(table, estimates)


def _draw_beliefs(study: Study) -> Figure:
    """Draw the shown item in every condition, word by word, beside the exact beliefs."""
    stimuli, run = study.stimuli, study.run
    item = study.settings.stimuli.shown or stimuli.items[0]
    rows = [stimuli.rows[condition, item] for condition in stimuli.conditions]
    probes = list(rows[0].tracked)
    units = list(dict.fromkeys(unit for row in rows for unit in row.tracked.values()))
    traces: dict[str, xr.DataArray] = {}
    truths: dict[str, xr.DataArray] = {}
    for row in rows:
        text = str(row.utterance)
        traces[text] = trace_beliefs(run.networks, text, probes, units)
        truths[text] = true_trace(run.world, text, probes, units)
    return activation_figures.draw_beliefs(summaries.tabulate_traces(traces, truths))


def _write_notes(study: Study) -> list[str]:
    """Write what a reader should know before quoting a number."""
    notes = [
        "Every statistic can be recomputed from activations.nc; activations.csv.gz holds the same "
        "for other programs, and dictionary.csv says what its columns are.",
        "Tests on activations are those of the paper. Activations lie between 0 and 1, so the "
        "tests on the logit scale and the mixed model beside them are the ones to trust. Logits "
        "are of activations as they are; only what single precision cannot hold is cut, below "
        "1e-38 and above 1 − 6e-8. Logits of activations that no figure would show, such as "
        "1e-12, count as much as any other.",
    ]
    if study.settings.name == PRINTED_STUDY:
        notes.append(
            "Labels of the tables are those of the paper. Which unit and probe each stands for is "
            "our reading: “syntactically indicated agents” is the indicated agent (pizza as "
            "agent), “semantically plausible agents” the indicated patient (woman as patient), "
            "“all non-relevant patients” the mean over other objects as agents, without the "
            "item's own words."
        )
        notes.append(
            "Four rules were changed after results had been seen: the analysed word (the last, not "
            "the verb; the table of every word shows both), a direction must show on activations "
            "and on logits, logits are not cut at 1e-7, and likeness to NUTS is judged by ratios. "
            "docs/study.md says what each change did to the verdicts."
        )
    if study.settings.nuts.networks:
        verdict = study.read("nuts.nc").attrs["verdict"]
        notes.append(f"NUTS, for comparison: {verdict}")
    return notes


def write_methods(settings: StudySettings, run: Run, stimuli: Stimuli) -> str:
    """Write a methods paragraph to paste into an article, filled in from the settings."""
    training, inference = run.settings, settings.inference
    priors = ", ".join(f"{variance:g}" for variance in inference.prior_variances)
    conditions = " and ".join(stimuli.conditions)
    return (
        f"{training.networks} Sentence Gestalt networks ({training.hidden} hidden and "
        f"{training.gestalt} gestalt units) were trained from different random weights on "
        f"{training.sentences:,} sentences sampled from the world “{run.world.name}”, of which a "
        f"share of {training.held_out:g} was held out for early stopping (at most "
        f"{training.epochs} epochs of {training.steps} steps, Adam, learning rate "
        f"{training.learning_rate:g}, decoupled weight decay {training.weight_decay:g}). The last "
        f"layer of each network was then given a Gaussian prior about its trained weights, with "
        f"covariance v I and v = {priors}, and its posterior given the questions of the training "
        f"corpus (at {inference.rows}, with their counts) was approximated in two ways: "
        f"{_describe_sampler(inference.samplers['paper'])}; and "
        f"{_describe_sampler(inference.samplers['converged'])}."
        f" Activations were recorded after each word of {len(stimuli.items)} items in each of the "
        f"conditions {conditions}, and analysed at the critical word, averaged over items (model "
        f"analysis, n = {training.networks}) or over networks (item analysis, n = "
        f"{len(stimuli.items)}). All was done with equivocal {__version__}, seed {training.seed}."
    )


def _describe_sampler(sampler: SamplerSettings) -> str:
    if sampler.method == "exact-flow":
        return (
            "by the Gaussian closest to it, the fixed point of the same equations "
            f"(method exact-flow, to {sampler.tolerance or 1e-7:g} posterior standard deviations)"
        )
    options = "".join(
        f", {name.replace('_', ' ')} {value}" for name, value in sampler.options.items()
    )
    step = "" if "step_size" in sampler.options else ", step size chosen by the stability rule"
    steps = f", {sampler.num_steps} steps" if sampler.num_steps else ""
    size = f"{sampler.num_particles} particles{steps}"
    return f"by the {sampler.method} sampler with {size}{options}{step}"
