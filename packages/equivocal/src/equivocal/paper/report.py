"""The report of a study, one self-contained HTML page, and the files of all its results.

The page fetches nothing and needs no script. `templates/captions.toml` has its texts; those of its
summary are in `record/summary.toml`. Cells of tables show few digits, bounds for small p-values and
a dash for missing values; `VERDICTS` has the style and sign of each verdict.
"""

import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tomli_w
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from equivocal.errors import NOTHING, format_number
from equivocal.figure_style import KINDS, NAME_OF, save_figure
from equivocal.paper.claims import load_full_runs
from equivocal.paper.summary import StudyResult, describe_stop, describe_truth, summarise_study
from equivocal.result import Figures
from equivocal.store import read_toml
from equivocal.store.files import write_text_atomically
from equivocal.store.store import hash_content
from lastlayer.errors import UserError
from lastlayer.files import write_atomically
from lastlayer.machine import collect_versions

__all__ = ["hash_report", "write"]

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
TEXTS = read_toml(str(resources.files("equivocal.paper") / "templates" / "captions.toml"))
CAPTIONS: dict[str, str] = TEXTS["figures"]
TABLE_CAPTIONS: dict[str, str] = TEXTS["tables"]
# columns of claims that the table leaves out
UNSHOWN = ["id", "kind", "story", "in_short", "verdict_at_convergence", "why"]
LARGEST_SVG = 1_500_000  # bytes; a drawing with more has many points and is smaller as PNG
SMALLEST_P = 1e-4
VERDICTS = {  # style and sign: colour alone would not be accessible
    "replicated": ("good", "✓"),
    "direction only": ("partly", "◐"),
    "not replicated": ("bad", "✗"),
    "not testable as printed": ("open", "?"),
    "not run": ("open", "…"),
}
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
        "settings": tomli_w.dumps(settings.to_dict()),
        "versions": collect_versions(),
        "notes": _write_notes(result),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A section of the results: sentences, then figures, then a table with coloured verdicts.

    In a table of claims the column `why` is shown below each row. A section that `opens` the report
    precedes its summary.
    """

    title: str
    sentences: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)  # by name
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    opens: bool = False

    @property
    def rows(self) -> "TableRows":
        """The table, formatted for the page."""
        return format_table(self.table.drop(columns=UNSHOWN, errors="ignore"))

    @property
    def reasons(self) -> list[str]:
        """The reason for each verdict, shown below its claim over the width of the page."""
        return [str(why) for why in self.table.get("why", [])]


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
        return [*sections, Section(title=title, figures=own, table=result.tables["means"])]
    claims = result.tables["claims"]
    table = claims.rename(columns={"at_paper_steps": describe_stop(result)})
    for run in load_full_runs().list_others(settings.name, quick=settings.quick_run):
        column = f"verdict of a full run, recipe {run.recipe}"
        table.insert(len(table.columns) - 1, column, claims["id"].map(run.verdicts).fillna("–"))
    for name, story in TEXTS["stories"].items():
        figures = [figure for figure in story["figures"] if figure in shown]
        own_claims = table[claims["story"] == name]
        sections.append(Section(title=story["title"], figures=figures, table=own_claims))
    return [*sections, *_describe_steps(result.tables["steps"])]


def _describe_steps(steps: pd.DataFrame) -> list[Section]:
    """Return the section on other J, Δτ and ρ: a column for each Δτ, with τ in every cell."""
    if steps.empty:
        return []
    names = map(str, steps.columns)
    roles = [name.removeprefix("mle_") for name in names if name.startswith("mle_")]
    index = ["reading", "num_particles", "dropout_rate"]
    keys = [*index, "step_size"]
    means = steps.groupby(keys, sort=False).mean().reset_index()
    cells = [
        "diverged" if row["diverged"] else " / ".join(f"{row[f'indicated_{r}']:.2g}" for r in roles)
        for row in means.to_dict("records")
    ]
    shown = means.assign(
        cell=[f"{text} (τ = {time:.2g})" for text, time in zip(cells, means["time"], strict=True)],
        step="Δτ " + means["step_size"],
    )
    table = shown.pivot(index=index, columns="step", values="cell")[shown["step"].unique()]
    trained = " and ".join(f"{steps[f'mle_{role}'].mean():.2g} ({role})" for role in roles)
    networks = steps["network"].nunique()
    texts = TEXTS["steps"]
    said = texts["text"].format(roles=" / ".join(roles), trained=trained, networks=networks)
    return [Section(title=texts["title"], sentences=[said], table=table)]


def _write_notes(result: StudyResult) -> list[str]:
    """Return the caveats that a reader should know before quoting a number."""
    notes, beliefs = list(TEXTS["notes"]["study"]), result.beliefs
    if "claims" in result.tables:
        notes += TEXTS["notes"]["paper"]
    if beliefs.exact is not None:
        notes.append(TEXTS["notes"]["exact"].format(**beliefs.exact.attrs))
    if beliefs.nuts is not None:
        notes.append(f"NUTS, for comparison: {beliefs.nuts.attrs['verdict']}")
    return notes


def render_report(
    folder: Path, content: Mapping[str, Any], *, largest_svg: int = LARGEST_SVG
) -> Path:
    """Write `report.html` into a folder, with the figures of FOLDER/figures inside it.

    Parameters
    ----------
    folder : Path
        The folder of the study.
    content : mapping
        The content of the report: `title`, `quick`, `summary` (sentences by heading), `sections`
        (see `Section`), `impossible` (a table of printed numbers that no data can give), `tables`
        by name, the names of the other `figures`, `settings` (TOML), `versions` by name, `notes`.
    largest_svg : int
        Larger drawings, in bytes, are embedded as PNG.

    Raises
    ------
    UserError
        If a figure has not been drawn.
    """
    environment = Environment(
        loader=PackageLoader("equivocal.paper", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "format_table": format_table,
        "make_anchor": _make_anchor,
        "make_title": _make_title,
        "mark_code": _mark_code,
        "style_verdict": style_verdict,
    }
    placed = [name for section in content["sections"] for name in section.figures]
    pictures = {
        name: _embed_figure(folder / "figures", name, largest_svg) | {"number": number}
        for number, name in enumerate([*placed, *content["figures"]], 1)
    }
    page = environment.get_template("report.html.j2").render(
        content=content,
        pictures=pictures,
        impossible=format_table(content["impossible"]),
        captions=TABLE_CAPTIONS,
    )
    path = folder / "report.html"
    write_text_atomically(path, page)
    return path


def _embed_figure(folder: Path, name: str, largest_svg: int) -> dict[str, Any]:
    """Return a figure as a data URL, with an anchor, a title and the rest of its caption."""
    found = [path for kind in TYPES if (path := folder / f"{name}{kind}").is_file()]
    if not found:
        raise UserError(f"there is no figure {name!r} in {folder}; draw it before the report.")
    path = found[-1] if found[0].stat().st_size > largest_svg else found[0]
    kind, _, which = name.partition("_")
    title, _, rest = (CAPTIONS.get(name) or CAPTIONS[kind]).partition(". ")
    title = title.rstrip(".")
    if name not in CAPTIONS:  # one of several of a kind, by condition: `words_reversal_mle`
        condition, _, estimate = which.rpartition("_")
        named = f"{condition}, {NAME_OF[estimate]}" if estimate in NAME_OF else which
        title += f": {named}"
    return {
        "anchor": f"figure-{_make_anchor(name)}",
        "title": title,
        "source": f"data:{TYPES[path.suffix]};base64,{b64encode(path.read_bytes()).decode()}",
        "caption": rest,
    }


def _mark_code(text: str) -> Markup:
    """Escape a text for HTML, and mark up passages between backticks as code.

    >>> str(_mark_code("run `a < b`"))
    'run <code>a &lt; b</code>'
    """
    parts = (
        Markup("<code>{}</code>" if number % 2 else "{}").format(part)
        for number, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


def _make_title(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ")
    return words[:1].upper() + words[1:]


def _make_anchor(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


class Cell(NamedTuple):
    """The text of a cell and the CSS classes that style it."""

    text: str
    kind: str  # "number", "text", "long" or "verdict …"


class TableRows(NamedTuple):
    """A table formatted for the page."""

    header: list[Cell]
    rows: list[list[Cell]]


def format_p_value(value: float) -> str:
    """Format a p-value with four decimals; a smaller one as a bound.

    >>> format_p_value(0.00113), format_p_value(3e-9)
    ('0.0011', '< 0.0001')
    """
    if math.isnan(value):
        return NOTHING
    return f"< {SMALLEST_P:.4f}" if value < SMALLEST_P else f"{value:.4f}"


def style_verdict(verdict: str) -> tuple[str, str]:
    """Return the style and sign of a verdict; neutral ones for an unknown verdict."""
    return VERDICTS.get(verdict.strip().lower(), ("open", "•"))


def format_cell(value: Any, column: str) -> Cell:
    """Format one value by its type and the name of its column."""
    if value is None or value is pd.NA or value is pd.NaT:
        return Cell(NOTHING, "text")
    if isinstance(value, bool | np.bool_):
        return Cell("yes" if value else "no", "text")
    if isinstance(value, int | float | np.integer | np.floating):
        return Cell(_format_in_column(float(value), column), "number")
    text = str(value)
    if column.lower().startswith("verdict"):
        kind, sign = style_verdict(text)
        return Cell(f"{sign} {text}", f"verdict {kind}")
    return Cell(text, "long" if len(text) > 45 else "text")


def _format_in_column(value: float, column: str) -> str:
    if _is_p_value(column):
        return format_p_value(value)
    if column.lower().startswith("printed") and math.isfinite(value):
        return f"{value:.10g}".replace("-", "−")  # as it was printed
    return format_number(value)


def format_table(table: pd.DataFrame) -> TableRows:
    """Format the header and rows of a table; an index with a name becomes the first columns."""
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    names = [str(name) for name in table.columns]
    rows = [
        [format_cell(value, name) for value, name in zip(row, names, strict=True)]
        for row in table.itertuples(index=False, name=None)
    ]
    numeric = [bool(rows) and all(r[i].kind == "number" for r in rows) for i in range(len(names))]
    header = [
        Cell(name.replace("_", " "), "number" if right else "text")
        for name, right in zip(names, numeric, strict=True)
    ]
    return TableRows(header, rows)


def _is_p_value(column: str) -> bool:
    """Return whether a column's name is one of p-values: "p", "p_item", "printed p", "p (Holm)"."""
    words = column.lower().replace("_", " ").replace("-", " ").split()
    return "p" in words or "pvalue" in words
