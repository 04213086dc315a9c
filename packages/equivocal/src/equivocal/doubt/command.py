"""`equivocal doubt`: comprehenders compared with the truth.

Scores kinds of uncertainty against the truth; where reversals are possible sentences (`--world
slips`) it maps the frontier: errors on reversals against errors on congruent sentences.
"""

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


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("doubt"))(doubt)


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
