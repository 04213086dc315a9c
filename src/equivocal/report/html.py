"""The report of a study: one self-contained HTML page, which fetches nothing and needs no script.

The texts below figures and above tables are in `templates/captions.toml`.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from equivocal.errors import UserError
from equivocal.report.formatting import format_table, style_verdict
from equivocal.report.style import NAME_OF
from equivocal.store import read_toml
from equivocal.store.files import write_text_atomically

TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
TEXTS = read_toml(str(resources.files("equivocal.report") / "templates" / "captions.toml"))
CAPTIONS: dict[str, str] = TEXTS["figures"]
TABLE_CAPTIONS: dict[str, str] = TEXTS["tables"]
UNSHOWN = ["id", "story", "in_short", "why"]  # columns of claims.csv that are shown elsewhere
LARGEST_SVG = 1_500_000  # bytes; above that a drawing of many points is smaller as PNG


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A part of the results: sentences, then pictures, then a table, whose verdicts are coloured.

    In a table of claims the column `why` goes below each row. A section that `opens` the report
    stands above its summary.
    """

    title: str
    sentences: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)  # names
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    opens: bool = False


def render_report(
    folder: Path, content: Mapping[str, Any], *, largest_svg: int = LARGEST_SVG
) -> Path:
    """Write `report.html` into a folder, with the figures of FOLDER/figures inside it.

    Parameters
    ----------
    folder : Path
        The folder of the study.
    content : mapping
        All that the report says: `title`, `quick`, `summary` (sentences by heading), `sections`
        (see `Section`), `impossible` (a table of printed numbers that cannot be), `tables` by name,
        the names of the other `figures`, `methods`, `settings` (TOML), `versions` by name, `notes`.
    largest_svg : int
        A drawing of more bytes is embedded as PNG.

    Raises
    ------
    UserError
        Where a figure has not been drawn.
    """
    environment = Environment(
        loader=PackageLoader("equivocal.report", "templates"),
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
    sections = content["sections"]
    names = [*(name for section in sections for name in section.figures), *content["figures"]]
    pictures = {
        name: _embed_figure(folder / "figures", name, largest_svg) | {"number": number}
        for number, name in enumerate(names, 1)
    }
    page = environment.get_template("report.html.j2").render(
        content=content,
        sections=[_prepare_section(section, pictures) for section in sections],
        impossible=format_table(content["impossible"]),
        captions=TABLE_CAPTIONS,
        pictures=[pictures[name] for name in content["figures"]],
    )
    path = folder / "report.html"
    write_text_atomically(path, page)
    return path


def _prepare_section(section: Section, pictures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section as the page needs it."""
    return {
        "anchor": _make_anchor(section.title),
        "opens": section.opens,
        "title": section.title,
        "sentences": section.sentences,
        "pictures": [pictures[name] for name in section.figures],
        # the reason of each verdict gets the width of the page, below its claim
        "table": format_table(section.table.drop(columns=UNSHOWN, errors="ignore")),
        "reasons": [str(why) for why in section.table.get("why", [])],
    }


def _embed_figure(folder: Path, name: str, largest_svg: int) -> dict[str, Any]:
    """Return a figure as the page needs it: inside, with a title and the rest of its caption."""
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
    """Escape a text; what stands between backticks becomes code.

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
