"""The report of an experiment: one self-contained HTML page, of the same shape for all of them.

Its first screen says what was asked, what came out, and when and with what it was made, beside one
picture. Then comes a section for each question: sentences, pictures, a table. Everything else is in
an appendix, which is folded, in print too. The page fetches nothing and needs no script.

Cells of tables show few digits, bounds for small p-values and a dash for missing values; an
interval stands behind its estimate. Columns whose names begin with "verdict" are coloured.
"""

import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from equivocal.errors import NOTHING, format_number
from equivocal.machine import describe_device, get_package_version
from equivocal.store.files import write_text_atomically
from lastlayer.errors import UserError
from lastlayer.machine import collect_versions, count_cores

__all__ = ["Picture", "Report", "Section", "describe_making", "list_versions", "write_report"]

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
LARGEST_SVG = 1_500_000  # bytes; a drawing with more has many points and is smaller as PNG
SMALLEST_P = 1e-4
MOST_COLUMNS = 11  # a wider table would not fit a page; its rows are shown as lists
ESTIMATES = ("mean", "difference", "value")  # what an interval without a name belongs to
VERDICTS = {  # style and sign: colour alone would not be accessible
    "replicated": ("good", "✓"),
    "held": ("good", "✓"),
    "yes": ("good", "✓"),
    "direction only": ("partly", "◐"),
    "not replicated": ("bad", "✗"),
    "missed": ("bad", "✗"),
    "reversed": ("bad", "✗"),
    "no": ("bad", "✗"),
    "not testable as printed": ("open", "?"),
    "not run": ("open", "…"),
}


@dataclass(frozen=True)
class Picture:
    """A figure of the folder figures/, by its name, and what it shows.

    The first sentence of the caption is its title.
    """

    name: str
    caption: str

    @property
    def title(self) -> str:
        """The first sentence of the caption."""
        return self.caption.partition(". ")[0].rstrip(".")


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A question, or a part of the appendix: sentences, pictures, a table, plain text."""

    title: str
    sentences: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    text: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """What a report says.

    Attributes
    ----------
    title, about : str
        The heading, and what it is about (authors, source); may be empty.
    warning : str
        Shown at the top, as for quick runs.
    question : str
        What was asked.
    answer : sequence of str
        What came out, in a few sentences.
    picture : Picture, optional
        The one that shows it.
    made : sequence of str
        When and with what (`describe_making`), and other facts of the first page.
    sections, appendix : sequence of Section
        One for each question, and all that is folded.
    """

    title: str
    about: str = ""
    warning: str = ""
    question: str
    answer: Sequence[str]
    picture: Picture | None = None
    made: Sequence[str] = ()
    sections: Sequence[Section] = ()
    appendix: Sequence[Section] = ()

    def list_pictures(self) -> list[Picture]:
        """List all pictures, in the order of the page."""
        first = [self.picture] if self.picture else []
        return first + [p for part in (*self.sections, *self.appendix) for p in part.pictures]


def describe_making(*facts: str) -> str:
    """Say when and with what results were made; `facts` are added at the end."""
    versions = collect_versions()
    packages = ", ".join(f"{name} {versions[name]}" for name in ("jax", "numpy"))
    where = describe_device().removeprefix(" on ") or f"{count_cores()} cores"
    made = f"{date.today().isoformat()}, equivocal {get_package_version()}, {packages}, {where}"
    return "; ".join(["Made " + made, *facts]) + "."


def list_versions() -> Section:
    """Return the part of the appendix with the versions of all packages."""
    versions = {"equivocal": get_package_version()} | collect_versions()
    table = pd.DataFrame(versions.items(), columns=["software", "version"])
    return Section(title="Versions", table=table)


def write_report(folder: Path, report: Report, *, largest_svg: int = LARGEST_SVG) -> Path:
    """Write `report.html` into a folder, with its figures inside.

    Parameters
    ----------
    folder : Path
        The folder of the results, where figures/NAME.svg or .png are.
    report : Report
        What the report says.
    largest_svg : int
        Larger drawings, in bytes, are embedded as PNG.

    Raises
    ------
    UserError
        If a figure has not been drawn.
    """
    environment = Environment(
        loader=PackageLoader("equivocal", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "format_table": format_table,
        "make_anchor": _make_anchor,
        "mark_code": _mark_code,
    }
    pictures = {
        picture: {
            "number": number,
            "caption": picture.caption.partition(". ")[2],
            "source": _embed_figure(folder / "figures", picture.name, largest_svg),
        }
        for number, picture in enumerate(report.list_pictures(), start=1)
    }
    template = environment.get_template("report.html.j2")
    path = folder / "report.html"
    page = template.render(report=report, pictures=pictures, most=MOST_COLUMNS)
    write_text_atomically(path, page)
    return path


def _embed_figure(folder: Path, name: str, largest_svg: int) -> str:
    """Return a figure as a data URL."""
    found = [path for kind in TYPES if (path := folder / f"{name}{kind}").is_file()]
    if not found:
        raise UserError(f"there is no figure {name!r} in {folder}; draw it before the report.")
    path = found[-1] if found[0].stat().st_size > largest_svg else found[0]
    return f"data:{TYPES[path.suffix]};base64,{b64encode(path.read_bytes()).decode()}"


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


def format_table(table: pd.DataFrame) -> TableRows:
    """Format the header and rows of a table; an index with a name becomes the first columns."""
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    table = _merge_intervals(table)
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


def _merge_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Put an interval, as `x_low` and `x_high`, behind the estimate `x` that it belongs to."""
    for low in [str(name) for name in table.columns if str(name).endswith("low")]:
        start, high = low.removesuffix("low"), low.removesuffix("low") + "high"
        others = [start.removesuffix("ci_") + name for name in ESTIMATES]
        found = [name for name in (start.removesuffix("_"), *others) if name in table]
        if found and high in table:
            spans = zip(*(table[name] for name in (found[0], low, high)), strict=True)
            texts = [_format_interval(*span) for span in spans]
            table = table.assign(**{found[0]: texts}).drop(columns=[low, high])
    return table


def _format_interval(value: float, low: float, high: float) -> str:
    if math.isnan(low) and math.isnan(high):
        return format_number(value)
    return f"{format_number(value)} [{format_number(low)}, {format_number(high)}]"


def format_cell(value: Any, column: str) -> Cell:
    """Format one value by its type and the name of its column."""
    if value is None or value is pd.NA or value is pd.NaT:
        return Cell(NOTHING, "text")
    if isinstance(value, bool | np.bool_):
        value = "yes" if value else "no"
    if isinstance(value, int | float | np.integer | np.floating):
        return Cell(_format_in_column(float(value), column), "number")
    text = str(value)
    if column.lower().startswith("verdict"):
        kind, sign = VERDICTS.get(text.strip().lower(), ("open", "•"))
        return Cell(f"{sign} {text}", f"verdict {kind}")
    return Cell(text, "long" if len(text) > 45 else "text")


def _format_in_column(value: float, column: str) -> str:
    words = column.lower().replace("_", " ").replace("-", " ").split()
    if "p" in words:
        return format_p_value(value)
    if words[:1] == ["printed"] and math.isfinite(value):
        return f"{value:.10g}".replace("-", "−")  # as it was printed
    return format_number(value)


def format_p_value(value: float) -> str:
    """Format a p-value with four decimals; a smaller one as a bound.

    >>> format_p_value(0.00113), format_p_value(3e-9)
    ('0.0011', '< 0.0001')
    """
    if math.isnan(value):
        return NOTHING
    return f"< {SMALLEST_P:.4f}" if value < SMALLEST_P else f"{value:.4f}"
