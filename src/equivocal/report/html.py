"""One self-contained page: figures and style inside, nothing fetched, no script needed."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from equivocal.errors import UserError
from equivocal.report.captions import CAPTIONS, TABLE_CAPTIONS
from equivocal.report.formatting import TableRows, rows_of, verdict_kind
from equivocal.store.files import write_text_atomically

__all__ = ["ReportContent", "render_report"]

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
LARGEST_SVG = 1_500_000  # bytes; above that a drawing of many points is smaller as PNG


@dataclass(frozen=True, kw_only=True)
class ReportContent:
    """All that a report says; figures are named as they were saved."""

    title: str
    quick: bool
    claims: pd.DataFrame  # opens the report; a column `verdict` is coloured
    impossible: pd.DataFrame  # printed numbers that cannot be
    tables: Mapping[str, pd.DataFrame]  # captions: `attrs["caption"]`, else by name
    figures: Sequence[tuple[str, str]]  # name, caption
    methods: str  # paragraphs are separated by an empty line
    settings: str  # TOML
    versions: Mapping[str, str]
    notes: Sequence[str] = field(default_factory=tuple)


class Picture(NamedTuple):
    """A figure as the page needs it."""

    anchor: str
    title: str  # first sentence of the caption
    source: str  # data: URI
    alt: str
    caption: str  # the other sentences


class Sheet(NamedTuple):
    """A table as the page needs it."""

    anchor: str
    title: str
    table: TableRows
    caption: str


def render_report(folder: Path, content: ReportContent) -> Path:
    """Write `report.html` into `folder`, with the figures of `folder/figures` inside it."""
    environment = Environment(
        loader=PackageLoader("equivocal.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        content=content,
        # the reason of each verdict gets the width of the page, below its claim
        claims=rows_of(content.claims.drop(columns=["id", "why"], errors="ignore")),
        reasons=[str(why) for why in content.claims.get("why", [])],
        tally=_tally(content.claims),
        impossible=rows_of(content.impossible),
        sheets=[
            Sheet(f"table-{_anchor(name)}", _title(name), rows_of(table), _caption(name, table))
            for name, table in content.tables.items()
        ],
        pictures=[_picture(folder / "figures", *figure) for figure in content.figures],
        methods=[part.strip() for part in content.methods.split("\n\n") if part.strip()],
    )
    path = folder / "report.html"
    write_text_atomically(path, page)
    return path


def _caption(name: str, table: pd.DataFrame) -> str:
    return str(table.attrs.get("caption", TABLE_CAPTIONS.get(name, "")))


def _tally(claims: pd.DataFrame) -> list[tuple[str, str, int]]:
    """Style, words and count of each verdict, in the order of their first appearance."""
    if "verdict" not in claims:
        return []
    counts = claims["verdict"].value_counts(sort=False)
    return [
        (verdict_kind(str(v))[0], f"{verdict_kind(str(v))[1]} {v}", int(n))
        for v, n in counts.items()
    ]


def _picture(folder: Path, name: str, caption: str) -> Picture:
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    found = [path for path in (svg, png) if path.is_file()]
    if not found:
        raise UserError(f"there is no figure {name!r} in {folder}; draw it before the report.")
    path = found[-1] if found[0].stat().st_size > LARGEST_SVG else found[0]
    data = b64encode(path.read_bytes()).decode("ascii")
    first, _, rest = caption.partition(". ")
    title = first.rstrip(".")
    if name not in CAPTIONS and name.partition("_")[0] in CAPTIONS:  # one of several of a kind
        title += f" ({name.partition('_')[2].replace('_', ', ')})"
    return Picture(
        anchor=f"figure-{_anchor(name)}",
        title=title,
        source=f"data:{TYPES[path.suffix]};base64,{data}",
        alt=f"{title}.",
        caption=rest,
    )


def _title(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ")
    return words[:1].upper() + words[1:]


def _anchor(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
