"""`equivocal people`: comprehenders beside what is known of people."""

import textwrap
from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box

from equivocal.cli.console import out, show_frame, show_note, show_results, show_rows, show_summary
from equivocal.cli.training import Quick, QuickFolder, Seed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["people"]

DIRECTIONS = {"list effect": "< 0", "order of not literal": "> 0"}  # no number is known
NARROW: dict[str, Any] = {"box": box.SIMPLE, "padding": 0, "show_edge": False}


def people(
    world: Annotated[
        str, typer.Option(help="A world's name, or the path of a file.")
    ] = "both_ways",
    networks: Annotated[
        int | None,
        typer.Option(min=0, help="How many networks [ten]; with 0 the ideal comprehender alone."),
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit the world's parameters to people's readings first.")
    ] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", help="With --fit: a parameter to fit; repeatable [all that have effect]."
        ),
    ] = None,
    seed: Seed = None,
    folder: QuickFolder = None,
    quick: Quick = False,
) -> None:
    """Compare models with people: how implausible sentences are read, and how answers vary.

    The ideal comprehender, networks, particles of their posteriors and a deep ensemble answer who
    did what to whom. With --fit, parameters of the world are fitted to one table of human data and
    then predict the others. Trains the networks first, or reuses those in the folder. Writes
    tables/ and figures/.
    """
    from equivocal.experiments.people import compare_people

    chosen = folder or Path("runs/people-quick" if quick else "runs/people")
    result = compare_people(
        world,
        chosen,
        quick=quick,
        networks=networks,
        seed=seed,
        fit=fit,
        parameters=parameters or (),
    )
    show_summary(result.summary[:1])
    show_tables(result.tables, result.settings["networks"])
    show_results(result.summary[1:], chosen, quick=quick)


def show_tables(tables: "Mapping[str, pd.DataFrame]", networks: int) -> None:
    """Print the tables of `compare_people`."""
    _show_people(tables["people"], tables["scores"])
    _show_readings(tables["readings"], tables["people"])
    if len(tables["against_ideal"]):
        _show_against_ideal(tables["against_ideal"], networks)
    if "fit" in tables:
        _show_fit(tables["fit"])


def _format(value: float, digits: int = 3) -> str:
    return "–" if isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0.000


def _break_names(names: Iterable[str]) -> list[str]:
    """Break names of comprehenders, so that the columns below them are narrow."""
    short = (name.removeprefix("posterior, ").replace(" = ", "=") for name in names)
    return [textwrap.fill(name.replace(",", ""), 9) for name in short]


def _name_number(measure: str, construction: str, plausibility: str) -> str:
    """Name a human number and the sentences that it is about."""
    if measure == "order of not literal":
        return f"not literal, {plausibility}: {construction}"
    about = [plausibility] if construction == "any" else [plausibility, construction]
    return measure if about == ["any"] else f"{measure}, {' '.join(about)}"


def _show_people(table: "pd.DataFrame", scores: "pd.DataFrame") -> None:
    """Print every human number with the value of every comprehender, and the scores below.

    What no comprehender has a counterpart of is named in a sentence.
    """
    names = list(scores["comprehender"])
    rows, lacking = [], []
    keys = ["measure", "construction", "plausibility"]  # two sources of one direction are one row
    for key, own in table[table["comparable"] != "no"].groupby(keys, sort=False):
        measure, *sentences = map(str, key)
        human = DIRECTIONS.get(measure, _format(own["value"].iloc[0]))
        found = own.drop_duplicates("comprehender").set_index("comprehender")["found"]
        name = _name_number(measure, *sentences)
        if found.isna().all():
            lacking.append(f"{name} ({human})")
        else:
            broken = textwrap.fill(name, 24)
            rows.append([broken, human, *(_format(found[who]) for who in names)])
    if scores["deviance"].notna().any():
        floor = f"({_format(scores['floor'].iloc[0], 0)})"
        deviances = [_format(value, 1) for value in scores["deviance"]]
        rows.append(["deviance (floor)", floor, *deviances])
    if not rows:
        out.print(f"None of people's {len(lacking)} numbers has a counterpart in this world.")
        return
    show_rows(["", "people", *_break_names(names)], rows, **NARROW)
    show_note("people")
    if lacking:
        out.print(f"No counterpart here: people's {'; '.join(lacking)}.", soft_wrap=True)


def _show_readings(readings: "pd.DataFrame", people: "pd.DataFrame") -> None:
    """Print non-literal readings by construction and plausibility."""
    own = readings[(readings["measure"] == "not literal") & (readings["construction"] != "any")]
    keys = ["construction", "plausibility"]
    same = people[(people["measure"] == "not literal") & people["deviance"].notna()]
    known = same.drop_duplicates(keys).set_index(keys)["value"].to_dict()
    names = list(dict.fromkeys(own["comprehender"]))
    rows = []
    for key, part in own.groupby(keys, sort=False):
        found = part.set_index("comprehender")["value"]
        human = f"{known[key]:.3f}" if key in known else ""
        values = [_format(found.get(name, float("nan"))) for name in names]
        rows.append([*map(str, key), human, *values])
    title = "\nshare of readings that are not literal"
    heads = ["construction", "", "people", *_break_names(names)]
    show_rows(heads, rows, left=2, title=title, **NARROW)


def _show_against_ideal(table: "pd.DataFrame", networks: int) -> None:
    """Print how close each comprehender is to the ideal one, sentence by sentence."""
    from equivocal.world import PLAUSIBILITY

    of = table.set_index(["comprehender", "plausibility"]).to_dict("index")
    rows = []
    for name in dict.fromkeys(table["comprehender"]):
        found = [of.get((name, kind), {}) for kind in ("all", "unlikely", *PLAUSIBILITY)]
        nan = float("nan")
        correlations = [_format(each.get("correlation", nan)) for each in found[:2]]
        slope, nats = _format(found[0]["slope"]), _format(found[0]["divergence"], 4)
        more = [_format(each.get("divergence", nan), 4) for each in found[2:]]
        rows.append([name, *correlations, slope, nats, *more])
    heads = ["against the ideal", "correlation", "in unlikely", "slope", "nats", *PLAUSIBILITY]
    show_rows(heads, rows, box=box.SIMPLE, padding=0)
    show_note("against_ideal", networks=networks)


def _show_fit(table: "pd.DataFrame") -> None:
    """Print estimates, profile intervals and what is identified."""
    cells = {"parameter": "{parameter}", "before": "{start:.4g}", "estimate": "{estimate:.4g}"}
    cells |= {"low": "{low:.3g}", "high": "{high:.3g}", "range": "{least:g} to {most:g}"}
    show_frame(table, cells | {"identified": "{identified}"}, box=box.SIMPLE)
    show_note("fit")
