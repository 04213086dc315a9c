"""The report of a study, and the files that all its results are written to.

`templates/captions.toml` has the texts of the report; those of its summary are in
`record/summary.toml`.
"""

from importlib import resources
from itertools import product
from pathlib import Path

import pandas as pd
import tomli_w

from equivocal.beliefs import SamplerSettings
from equivocal.errors import format_number
from equivocal.figure_style import KINDS, NAME_OF, save_figure
from equivocal.machine import get_package_version
from equivocal.paper.claims import load_full_runs
from equivocal.paper.html import TABLE_CAPTIONS, TEXTS, Section, render_report
from equivocal.paper.summary import (
    StudyResult,
    describe_stop,
    describe_time,
    describe_truth,
    summarise_study,
)
from equivocal.result import Figures
from equivocal.store.files import write_text_atomically
from equivocal.store.store import hash_content
from lastlayer.files import write_atomically
from lastlayer.machine import collect_versions

__all__ = ["hash_report", "list_sections", "write"]

DIAGRAMS = ("network", "posterior")  # shipped; made by scripts/make_diagrams.py


def hash_report(result: StudyResult) -> str:
    """Return a hash of all that tables, figures and report depend on, the package's code too."""
    texts = {name: table.to_csv() for name, table in result.tables.items()}
    kept = [result.study.hash_beliefs(name) for name in ("activations", "path", "exact", "nuts")]
    return hash_content(texts, kept, result.study.settings.to_dict(), code=())


def write(result: StudyResult, figures: Figures) -> list[Path]:
    """Write tables, claims, figures and the report, and return the paths of all files."""
    folder, others = result.folder, dict(result.tables)
    written = {folder / "claims.csv": others.pop("claims")} if "claims" in others else {}
    written |= {folder / "tables" / f"{name}.csv": table for name, table in others.items()}
    for path, table in written.items():
        write_text_atomically(path, table.to_csv(index=False))
    for name, figure in figures.items():
        save_figure(figure, folder / "figures", name)
    for name, kind in product(DIAGRAMS, KINDS):
        shipped = resources.files("equivocal.paper") / "diagrams" / f"{name}.{kind}"
        with write_atomically(folder / "figures" / f"{name}.{kind}") as temporary:
            temporary.write_bytes(shipped.read_bytes())
    shown = [*DIAGRAMS, *figures]
    drawn = [folder / "figures" / f"{name}.{kind}" for name in shown for kind in KINDS]
    return [*written, *drawn, render_report(folder, _list_content(result, shown))]


def _list_content(result: StudyResult, shown: list[str]) -> dict[str, object]:
    """Return the content of the report, as `render_report` takes it."""
    settings, sections = result.study.settings, list_sections(result, shown)
    placed = {name for section in sections for name in section.figures}
    captioned = [name for name in TABLE_CAPTIONS if name in result.tables]
    return {
        "title": f"Study “{settings.name}”: degrees of belief in the last layer",
        "quick": settings.quick_run,
        "summary": summarise_study(result),
        "sections": sections,
        "impossible": result.tables.get("impossible_numbers", pd.DataFrame()),
        "tables": {name: result.tables[name] for name in captioned if name != "impossible_numbers"},
        "figures": [name for name in shown if name not in placed],
        "methods": _write_methods(result),
        "settings": tomli_w.dumps(settings.to_dict()),
        "versions": collect_versions(),
        "notes": _write_notes(result),
    }


def list_sections(result: StudyResult, shown: list[str]) -> list[Section]:
    """Return the sections of the results: first the known truth, then the claims of each story."""
    settings, sections = result.study.settings, []
    if result.truth is not None:
        steps = settings.inference.samplers["paper"].num_steps
        sentences = describe_truth(result.truth, steps)
        title = "Doubt, checked against the truth"
        sections.append(Section(title=title, sentences=sentences, figures=["truth"], opens=True))
    if "claims" not in result.tables:
        kinds, title = TEXTS["results"]["figures"], TEXTS["results"]["title"]
        own = [name for kind in kinds for name in shown if name.partition("_")[0] == kind]
        means = _arrange_means(result.tables["means"])
        return [*sections, Section(title=title, figures=own, table=means)]
    claims = result.tables["claims"]
    table = claims.rename(columns={"at_paper_steps": describe_stop(result)})
    for run in load_full_runs().list_others(settings.name, quick=settings.quick_run):
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


def _write_notes(result: StudyResult) -> list[str]:
    """Return the caveats that a reader should know before quoting a number."""
    notes, beliefs = list(TEXTS["notes"]["study"]), result.beliefs
    if "claims" in result.tables:
        searched = () if result.study.settings.quick_run else load_full_runs().notes
        notes += [*TEXTS["notes"]["paper"], *searched]
    if beliefs.exact is not None:
        notes.append(TEXTS["notes"]["exact"].format(**beliefs.exact.attrs))
    if beliefs.nuts is not None:
        notes.append(f"NUTS, for comparison: {beliefs.nuts.attrs['verdict']}")
    return notes


def _write_methods(result: StudyResult) -> str:
    """Return a methods paragraph for an article, filled in from the settings."""
    inference, stimuli = result.study.settings.inference, result.study.stimuli
    times = {"paper": describe_time(result)}
    samplers = {
        name: _describe_sampler(one, times.get(name, ""))
        for name, one in inference.samplers.items()
    }
    return str(TEXTS["methods"]).format(
        training=result.run.settings,
        inference=inference,
        world=result.run.world.name,
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
