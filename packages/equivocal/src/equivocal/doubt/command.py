"""Comprehenders compared with people (`equivocal people`) and with the truth (`equivocal doubt`).

`people` compares how comprehenders and people read implausible sentences. `doubt` scores kinds of
uncertainty against the truth; where reversals are possible sentences (`--world slips`) it maps the
frontier: errors on reversals against errors on congruent sentences.
"""

import textwrap
from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box

from equivocal import console
from equivocal.console import out, show_frame, show_note, show_results, show_rows, show_summary
from equivocal.errors import NOTHING, format_number
from lastlayer.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "nll": "NLL",
    "nll_excess": "above truth",
    "brier": "Brier",
    "calibration_error": "calibration",
    "auroc_entropy": "by entropy",
    "auroc": "AUROC",
}
DIRECTIONS = {"list effect": "< 0", "order of not literal": "> 0"}  # only a direction is known
NARROW: dict[str, Any] = {"box": box.SIMPLE, "padding": 0, "show_edge": False}


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("doubt"))(doubt)
    app.command(epilog=console.list_examples("people"))(people)


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
    seed: console.Seed = None,
    folder: console.QuickFolder = None,
    quick: console.Quick = False,
) -> None:
    """Compare models with people: how implausible sentences are read, and how answers vary.

    The ideal comprehender, networks, particles of their posteriors and a deep ensemble answer who
    did what to whom. With --fit, parameters of the world are fitted to one table of human data and
    then predict the others. Trains the networks first, or reuses those in the folder. Writes
    tables/ and figures/.
    """
    from equivocal.people.run_published import compare_people

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
    """Format a number, with a dash for a missing one."""
    return "–" if isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0.000


def _break_names(names: Iterable[str]) -> list[str]:
    """Break the names of comprehenders into lines, so that their columns are narrow."""
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

    Human numbers without a counterpart in any comprehender are named in a sentence.
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

    measured = table.set_index(["comprehender", "plausibility"]).to_dict("index")
    rows = []
    for name in dict.fromkeys(table["comprehender"]):
        found = [measured.get((name, kind), {}) for kind in ("all", "unlikely", *PLAUSIBILITY)]
        nan = float("nan")
        correlations = [_format(each.get("correlation", nan)) for each in found[:2]]
        slope, nats = _format(found[0]["slope"]), _format(found[0]["divergence"], 4)
        more = [_format(each.get("divergence", nan), 4) for each in found[2:]]
        rows.append([name, *correlations, slope, nats, *more])
    heads = ["against the ideal", "correlation", "in unlikely", "slope", "nats", *PLAUSIBILITY]
    show_rows(heads, rows, box=box.SIMPLE, padding=0)
    show_note("against_ideal", networks=networks)


def _show_fit(table: "pd.DataFrame") -> None:
    """Print the estimates, their profile intervals and whether the data identify them."""
    cells = {"parameter": "{parameter}", "before": "{start:.4g}", "estimate": "{estimate:.4g}"}
    cells |= {"low": "{low:.3g}", "high": "{high:.3g}", "range": "{least:g} to {most:g}"}
    show_frame(table, cells | {"identified": "{identified}"}, box=box.SIMPLE)
    show_note("fit")


def doubt(
    world: Annotated[
        str | None,
        typer.Option(
            help="A world's name, or the path of a file [paper; with --along, slips].",
        ),
    ] = None,
    networks: console.Networks = None,
    seed: console.Seed = None,
    folder: console.QuickFolder = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="Posteriors to compare: last, query or all, repeat --layers for each "
            "[all three; last where reversals are possible]. Without a GPU, query and all take "
            "long."
        ),
    ] = None,
    along: Annotated[
        str | None,
        typer.Option(
            help="When does uncertainty help? Follow errors along sentences, truth or heard (how "
            "often a reversal occurs in training), where reversals are possible."
        ),
    ] = None,
    corpora: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --along: corpora of each size or world, with their own networks [1; heard: "
            "5].",
        ),
    ] = None,
    quick: console.Quick = False,
) -> None:
    """Compare kinds of uncertainty: posteriors over some or all layers, ensembles, MC dropout.

    In a world where reversals have a true answer, such as slips: how far every kind is from it, at
    every strength (tables/frontier.csv). Trains the networks first, or reuses those in the folder.
    Writes tables/ and figures/.
    """
    from equivocal.doubt.run import compare_uncertainty
    from equivocal.doubt.run_frontier import has_true_reversals, map_frontier
    from equivocal.world import World

    how: dict[str, Any] = {"quick": quick, "networks": networks, "seed": seed}
    if along is not None:
        _follow_learning(along, world or "slips", folder, corpora=corpora, **how)
        return
    if corpora is not None:
        raise UserError("--corpora is for --along; give another --seed for another corpus.")
    where, name = World.load(world or "paper"), "runs/doubt-quick" if quick else "runs/doubt"
    if has_true_reversals(where):
        chosen = folder or Path(f"{name}-{where.name}")
        more = [layer for layer in layers or () if layer != "last"]
        found = map_frontier(where, chosen, layers=more, **how)
        show_summary(found.summary[:1])
        _show_frontier(found.tables["frontier_summary"], found.settings["networks"])
        _show_choices(found.tables["choices"])
        show_results((), chosen, quick=quick)
        return
    chosen = folder or Path(name)
    result = compare_uncertainty(where, chosen, layers=layers, **how)
    show_summary(result.summary[:1])
    _show_scores(result.tables["summary"], result.settings["networks"])
    _show_roles(result.tables["role_means"])
    for verdict in result.summary[1:]:
        out.print(verdict, style="dim", soft_wrap=True)
    show_results((), chosen, quick=quick)


def _show_scores(summary: "pd.DataFrame", networks: int) -> None:
    """Print the scores and costs of each kind of uncertainty."""
    from equivocal.doubt.comparison import describe_score

    rows = []
    for _, line in summary.iterrows():
        scores = [format_number(line[name]) for name in COLUMNS if name != "auroc"]
        passes = f"{line['passes']:,.0f}" if line["passes"] else NOTHING
        cost = [format_number(line["seconds"]), passes, format_number(line["megabytes"])]
        rows.append([str(line["kind"]), *scores, describe_score(line, "auroc"), *cost])
    show_rows(["kind", *COLUMNS.values(), "seconds", "passes", "MB"], rows, box=box.SIMPLE)
    show_note("kinds", networks=networks)


def _show_roles(means: "pd.DataFrame") -> None:
    """Print the calibration error of each kind of uncertainty by role."""
    rows = means.itertuples(index=False)
    texts = ([kind, *(f"{value:.4f}" for value in values)] for kind, *values in rows)
    show_rows(map(str, means), texts, box=box.SIMPLE, title="calibration error by role")


def _follow_learning(
    along: str, world: str, folder: Path | None, *, quick: bool, **how: Any
) -> None:
    """Print errors along the amount of learning, and each kind's gain over the trained network."""
    from equivocal.doubt.run_learning import follow_learning

    chosen = folder or Path(f"runs/along-{along}" + "-quick" * quick)
    result = follow_learning(along, world, chosen, quick=quick, **how)
    show_summary(result.summary[:1])
    table = result.tables["learning"]
    gains = table.apply("{gain:+.3f} ({gain_low:+.3f} to {gain_high:+.3f})".format_map, axis=1)
    cells = {along: f"{{{along}}}", "kind": "{kind}"}
    cells |= {"reversals": "{kl_reversal:.3f}", "congruent": "{kl_congruent:.4f}"}
    cells["gain over trained (95 %)"] = "{span}"
    shown = table.assign(span=gains.where(table["kind"] != "trained", ""))
    show_frame(shown, cells, left=2, box=box.SIMPLE)
    show_results((), chosen, quick=quick)


def _show_frontier(summary: "pd.DataFrame", networks: int) -> None:
    """Print the settings on the frontier, the trained network, and each kind's last setting."""
    rows = []
    last = ~summary.duplicated("kind", keep="last") | summary["on_frontier"]
    for _, row in summary[last | (summary["value"] == 1)].iterrows():
        low, high = row["kl_reversal_low"], row["kl_reversal_high"]
        span = "" if isnan(low) else f"{low:.3f}–{high:.3f}"
        cost = [format_number(row[name]) for name in ("seconds", "megabytes")]
        errors = [f"{row['kl_reversal']:.3f}", span, f"{row['kl_congruent']:.4f}"]
        on_frontier = "yes" if row["on_frontier"] else ""
        rows.append([row["kind"], row["setting"], *errors, *cost, on_frontier])
    heads = ("kind", "setting", "reversals", "95 %", "congruent", "seconds", "MB", "on frontier")
    show_rows(heads, rows, left=2, box=box.SIMPLE)
    show_note("frontier", networks=networks)


def _show_choices(choices: "pd.DataFrame") -> None:
    """Print the regret of strengths that are chosen without knowing the truth."""
    title = "strength chosen without knowing the truth"
    cells = {"strength": "{strength}", "chosen by": "{chosen_by}"}
    cells |= {"chosen most often": "{chosen}", "best most often": "{best}"}
    cells["regret (nats)"] = "{regret:.4f}"
    show_frame(choices, cells, left=4, box=box.SIMPLE, title=title)
