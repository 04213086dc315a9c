"""The figures of a study and its report, drawn from the files in the study's folder.

To add a figure, add a line to `list_figures` and a caption to `templates/captions.toml`, which has
the texts of the report; those of its summary are in `study/record/summary.toml`.
"""

from collections.abc import Callable
from functools import partial
from importlib import resources
from itertools import product
from pathlib import Path

import pandas as pd
import tomli_w
from matplotlib.figure import Figure

from equivocal.beliefs import SamplerSettings
from equivocal.errors import format_number
from equivocal.figure_style import KINDS, NAME_OF, save_figure
from equivocal.machine import get_package_version
from equivocal.paper import activation_figures as activations
from equivocal.paper import effect_figures as effects
from equivocal.paper import figure_tables as tables
from equivocal.paper.claims import load_full_runs
from equivocal.paper.comparisons import tabulate_fit, tabulate_item
from equivocal.paper.figure_tables import list_conditions
from equivocal.paper.html import TABLE_CAPTIONS, TEXTS, Section, render_report
from equivocal.paper.stages import Study
from equivocal.paper.summary import describe_stop, describe_time, describe_truth, summarise_study
from equivocal.paper.tables import PRINTED_STUDIES
from equivocal.progress import run_in_stages
from equivocal.statistics.summaries import append_means
from equivocal.store import read_table
from lastlayer.files import write_atomically
from lastlayer.machine import collect_versions

__all__ = ["list_figures", "list_sections", "write_report"]

DIAGRAMS = ("network", "posterior")  # shipped; made by scripts/make_diagrams.py
DOUBT = ("example", "frontier")  # figures of FOLDER/frontier, if the study has one
# the files that the report depends on
FILES = ("*.nc", "*.csv", "settings.toml", "tables/*.csv", "frontier/tables/*.csv")


def list_figures(study: Study) -> dict[str, Callable[[], Figure]]:
    """Return a function that draws each figure, by name and in the order of the report."""
    dataset, run, scores = study.read("activations.nc"), study.run, study.mean_scores
    path = tables.add_reference_levels(study.read("path.nc"), dataset)
    conditions, estimates = list_conditions(dataset), ["mle", *map(str, dataset["sampler"].values)]

    def make(
        draw: Callable[..., Figure], tabulate: Callable[..., pd.DataFrame], *which: str
    ) -> Callable[[], Figure]:
        return lambda: draw(tabulate(dataset, *which), *which)

    figures: dict[str, Callable[[], Figure]] = {
        "learning": lambda: activations.draw_learning(
            append_means(run.curves, "epoch"), scores["all_zeros"]
        ),
        "beliefs": lambda: activations.draw_beliefs(
            tabulate_item(run, study.stimuli, study.shown_item)
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
        figures |= {
            "calibration": lambda: activations.draw_calibration(
                tabulate_fit(run), scores["belief_error"]
            ),
            "calibration_posterior": lambda: activations.draw_calibration_panels(
                tables.tabulate_calibration(dataset), estimates
            ),
        }
    if study.settings.exact.networks:
        figures["exact"] = partial(effects.draw_exact_comparison, study.read_comparison())
    for name, estimate in product(conditions, estimates):
        drawn = make(activations.draw_word_grid, tables.tabulate_words, name, estimate)
        figures[f"words_{name}_{estimate}"] = drawn
    return figures


def write_report(study: Study) -> bool:
    """Draw the figures and write the report unless up to date; return whether that was done."""
    return study.store.make("report", study.hash_results(*FILES), partial(_write, study))


def _write(study: Study) -> list[Path]:
    """Draw the figures, write the report, and return the paths of all files."""
    folder, settings, figures = study.folder, study.settings, list_figures(study)

    def save(name: str) -> None:
        save_figure(figures[name](), folder / "figures", name)

    run_in_stages("drawing", {name: partial(save, name) for name in figures})
    shown = [*_copy_figures(folder), *figures]
    written = {
        name: read_table(folder / "tables" / f"{name}.csv")
        for name in TABLE_CAPTIONS
        if (folder / "tables" / f"{name}.csv").exists()
    }
    claims = read_table(folder / "claims.csv")
    sections = list_sections(study, claims, written["means"], shown)
    placed = {name for section in sections for name in section.figures}
    content = {
        "title": f"Study “{settings.name}”: degrees of belief in the last layer",
        "quick": settings.quick_run,
        "summary": summarise_study(study, written | {"claims": claims}),
        "sections": sections,
        "impossible": written.pop("impossible_numbers", pd.DataFrame()),
        "tables": written,
        "figures": [name for name in shown if name not in placed],
        "methods": _write_methods(study),
        "settings": tomli_w.dumps(settings.to_dict()),
        "versions": collect_versions(),
        "notes": _write_notes(study),
    }
    drawn = [folder / "figures" / f"{name}.{kind}" for name in shown for kind in KINDS]
    return [*drawn, render_report(folder, content)]


def list_sections(
    study: Study, claims: pd.DataFrame, means: pd.DataFrame, shown: list[str]
) -> list[Section]:
    """Return the sections of the results: first the known truth, then the claims of each story."""
    sections, place = [], study.folder / "frontier" / "tables"
    if "doubt_example" in shown:
        read = (read_table(place / f"{name}.csv") for name in ("frontier", "example"))
        sentences = describe_truth(*read)
        title = "Doubt, checked against the truth"
        figures = ["doubt_example"]
        opening = Section(title=title, sentences=sentences, figures=figures, opens=True)
        sections.append(opening)
    if claims.empty:
        kinds, title = TEXTS["results"]["figures"], TEXTS["results"]["title"]
        own = [name for kind in kinds for name in shown if name.partition("_")[0] == kind]
        return [*sections, Section(title=title, figures=own, table=_arrange_means(means))]
    table = claims.rename(columns={"at_paper_steps": describe_stop(study)})
    for run in load_full_runs().list_others(study.settings.name, quick=study.settings.quick_run):
        column = f"verdict of a full run, recipe {run.recipe}"
        table.insert(len(table.columns) - 1, column, claims["id"].map(run.verdicts).fillna("–"))
    for name, story in TEXTS["stories"].items():
        figures = [figure for figure in story["figures"] if figure in shown]
        own_claims = table[claims["story"] == name]
        sections.append(Section(title=story["title"], figures=figures, table=own_claims))
    return sections


def _arrange_means(means: pd.DataFrame) -> pd.DataFrame:
    """Return means with intervals as text: a row for each measure, a column for each estimate."""
    columns = ("mean", "ci_low", "ci_high")
    cells = [
        "{} [{}, {}]".format(*(format_number(getattr(row, name)) for name in columns))
        for row in means.itertuples()
    ]
    kinds = means["estimate"].map(lambda name: NAME_OF.get(name, name))
    table = means.assign(cell=cells, kind=kinds)
    index = ["condition", "measure"]
    wide = table.pivot(index=index, columns="kind", values="cell")
    return wide.reindex(index=table.set_index(index).index.unique(), columns=kinds.unique())


def _copy_figures(folder: Path) -> list[str]:
    """Copy the diagrams and, if any, the figures of FOLDER/frontier; return their new names."""
    shipped, own = resources.files("equivocal.paper") / "diagrams", folder / "frontier" / "figures"
    sources = {name: shipped / name for name in DIAGRAMS}
    sources |= {f"doubt_{name}": own / name for name in DOUBT if (own / f"{name}.svg").exists()}
    for (name, source), kind in product(sources.items(), KINDS):
        with write_atomically(folder / "figures" / f"{name}.{kind}") as temporary:
            temporary.write_bytes(Path(f"{source}.{kind}").read_bytes())
    return list(sources)


def _write_notes(study: Study) -> list[str]:
    """Return the caveats that a reader should know before quoting a number."""
    notes = list(TEXTS["notes"]["study"])
    if study.settings.name in PRINTED_STUDIES:
        searched = () if study.settings.quick_run else load_full_runs().notes
        notes += [*TEXTS["notes"]["paper"], *searched]
    if study.settings.exact.networks:
        notes.append(TEXTS["notes"]["exact"].format(**study.read("exact.nc").attrs))
    if study.settings.nuts.networks:
        notes.append(f"NUTS, for comparison: {study.read('nuts.nc').attrs['verdict']}")
    return notes


def _write_methods(study: Study) -> str:
    """Return a methods paragraph for an article, filled in from the settings."""
    inference, stimuli = study.settings.inference, study.stimuli
    times = {"paper": describe_time(study)}
    samplers = {
        name: _describe_sampler(one, times.get(name, ""))
        for name, one in inference.samplers.items()
    }
    return str(TEXTS["methods"]).format(
        training=study.run.settings,
        inference=inference,
        world=study.run.world.name,
        priors=", ".join(f"{variance:g}" for variance in inference.prior_variances),
        conditions=" and ".join(stimuli.conditions),
        items=len(stimuli.items),
        version=get_package_version(),
        **samplers,
    )


def _describe_sampler(sampler: SamplerSettings, time: str) -> str:
    if sampler.method == "exact-flow":
        return (
            "by the Gaussian closest to it, the fixed point of the same equations "
            f"(method exact-flow, to {sampler.tolerance or 1e-7:g} posterior standard deviations)"
        )
    options = "".join(
        f", {name.replace('_', ' ')} {value}" for name, value in sampler.options.items()
    )
    step = "" if "step_size" in sampler.options else ", step size chosen by the stability rule"
    steps = f", {sampler.num_steps} steps{time}" if sampler.num_steps else ""
    size = f"{sampler.num_particles} particles{steps}"
    return f"by the {sampler.method} sampler with {size}{options}{step}"
