"""Uncertainty about reversals with a known answer: the tables of docs/doubt.md and docs/paper.md.

    python -m benchmarks.frontier corpora --corpora 5 --recipe paper    frontier_corpora_paper.csv
    python -m benchmarks.frontier corpora --recipe paper --found DIR …  the same of finished runs
    python -m benchmarks.frontier full           frontier_summary.csv, _words, _choices, _example
    python -m benchmarks.frontier choices        frontier_choices.csv alone, of ten networks
    python -m benchmarks.frontier baselines      frontier_baselines.csv: temperatures, and ½
    python -m benchmarks.frontier layers         frontier_layers.csv: posteriors over more layers
    python -m benchmarks.frontier learning       learning_sentences.csv, _truth, _heard
    python -m benchmarks.frontier draw           docs/images/frontier.png, of what is recorded

`corpora`: ten networks each on corpora of the seeds 0, 1, … (`--seeds` names others), measured as
for the claim of the report; rows with seed `all` are means over corpora, with intervals over
corpora. `full` and `learning` take hours without a GPU, `layers` needs one. Runs go to `--out`
and are resumed; the tables go to `benchmarks/results`, where frontier.json records the machine and
commit of each. `--quick` (small networks) writes to `quick/`.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from equivocal.doubt.run_frontier import FEWEST, MORE_LAYERS, FrontierSettings, map_frontier
from equivocal.doubt.run_learning import ALONG, follow_learning

from benchmarks.machine import RESULTS, describe_machine
from equivocal.doubt.figures import draw_frontier
from equivocal.doubt.frontier import (
    ENSEMBLE,
    ERRORS,
    POOLED,
    POSTERIOR,
    TEMPERATURE,
    find_pareto,
    summarise_frontier,
)
from equivocal.network.train_or_load import choose_training
from equivocal.result import write_tables
from equivocal.statistics.summaries import compare_with_zero
from equivocal.store import read_table, read_toml
from lastlayer.files import write_text_atomically

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "frontier.png"
COLUMNS = (
    *("seed", "networks", "kind", "setting", "kl_reversal", "kl_reversal_low", "kl_reversal_high"),
    *("kl_congruent", "less_than_trained", "less_than_trained_low", "less_than_trained_high"),
)
Tables = dict[str, pd.DataFrame]


def measure_corpora(arguments: argparse.Namespace) -> Tables:
    """Measure the networks of several corpora, or collect finished runs."""
    folders = list(arguments.found or [])
    for seed in [] if folders else arguments.seeds or range(arguments.corpora or 5):
        training = choose_training(None, seed, recipe=arguments.recipe, quick=arguments.quick)
        folders.append(arguments.out / f"{arguments.recipe}_slips_{seed}")
        map_frontier("slips", folders[-1], training=training, settings=FEWEST)
    name = "frontier_corpora" + f"_{arguments.recipe}" * (arguments.recipe != "fast")
    return {name: collect_corpora(folders)}


def select_kinds(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Select trained networks, the paper's sampler at its end, and the converged posterior."""
    found = {"trained": table[table["kind"] == "trained"]}
    for sampler, kind in (("paper", "paper's sampler"), ("converged", POSTERIOR)):
        own = table[(table["kind"] == kind) & (table["prior_variance"] == 1)]
        found[sampler] = own[own["value"] == (own["value"].max() if sampler == "paper" else 1)]
    return found


def collect_corpora(folders: Sequence[Path]) -> pd.DataFrame:
    """Collect the main kinds from runs of `equivocal doubt`, and average them over corpora."""
    parts = []
    for folder in folders:
        settings = read_toml(str(folder / "frontier.toml"))
        table = read_table(folder / "tables" / "frontier.csv")
        pooled = table["kind"].eq(ENSEMBLE) | (
            table["kind"].eq(POOLED[POSTERIOR])
            & table["value"].eq(1)
            & table["prior_variance"].eq(1)
        )
        chosen = pd.concat([*select_kinds(table).values(), table[pooled]])
        about = {"seed": settings["training"]["seed"], "networks": settings["networks"]}
        summary = summarise_frontier(chosen).assign(**about)
        parts.append(summary.reindex(columns=list(COLUMNS)))
    table = pd.concat(parts, ignore_index=True)
    return pd.concat([table, average_corpora(table)], ignore_index=True)


def average_corpora(table: pd.DataFrame) -> pd.DataFrame:
    """Average over corpora, with intervals over corpora."""
    rows = []
    for (kind, setting), own in table.groupby(["kind", "setting"], sort=False):
        row: dict[str, Any] = {"seed": "all", "networks": own["networks"].sum()}
        row |= {"kind": kind, "setting": setting, "kl_congruent": own["kl_congruent"].mean()}
        for name in ("kl_reversal", "less_than_trained"):
            if own[name].notna().all() and len(own) > 1:
                row |= compare_with_zero(own[name]).name_interval(name)
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def measure_full(arguments: argparse.Namespace) -> Tables:
    """Map the frontier with twenty networks and every strength."""
    folder, networks = arguments.out / "slips", None if arguments.quick else 20
    found = map_frontier("slips", folder, networks=networks, quick=arguments.quick).tables
    return {
        f"frontier_{name}": found["frontier_summary" if name == "summary" else name]
        for name in ("summary", "words", "choices", "example")
    }


def measure_choices(arguments: argparse.Namespace) -> Tables:
    """Tabulate strengths chosen without knowing the truth, except of MC dropout and ensembles."""
    settings = FrontierSettings(rates=(), sizes=())
    if arguments.quick:
        settings = replace(settings, evidence=(1.0, 1 / 300), other_variances=(), num_steps=2)
    training = choose_training(None if arguments.quick else 10, None, quick=arguments.quick)
    found = map_frontier("slips", arguments.out / "choices", training=training, settings=settings)
    return {"frontier_choices": found.tables["choices"]}


def measure_baselines(arguments: argparse.Namespace) -> Tables:
    """Measure ten networks beside their temperatures and the answer ½."""
    training = choose_training(None if arguments.quick else 10, None, quick=arguments.quick)
    folder = arguments.out / "baselines"
    found = map_frontier("slips", folder, training=training, settings=FEWEST)
    return {"frontier_baselines": found.tables["frontier_summary"]}


def measure_layers(arguments: argparse.Namespace) -> Tables:
    """Map the frontier of eight networks with posteriors over more layers."""
    how: dict[str, Any] = {"quick": True} if arguments.quick else {"networks": 8}
    found = map_frontier("slips", arguments.out / "layers", layers=["query", "all"], **how)
    return {"frontier_layers": found.tables["frontier_summary"]}


def measure_learning(arguments: argparse.Namespace) -> Tables:
    """Measure errors against properties of the training corpus."""
    how = {"quick": arguments.quick, "corpora": arguments.corpora}
    return {
        f"learning_{along}": follow_learning(
            along, out=arguments.out / f"along-{along}", **how
        ).tables["learning"]
        for along in arguments.along
    }


def write_results(folder: Path, tables: Mapping[str, pd.DataFrame], command: str) -> None:
    """Write tables, and record the command, machine and commit behind each."""
    write_tables(folder, tables)
    path = folder / "frontier.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    facts = {"command": command, "machine": describe_machine()}
    known |= {f"{name}.csv": facts for name in tables}
    write_text_atomically(path, json.dumps(known, indent=2) + "\n")


def draw_recorded(arguments: argparse.Namespace) -> Tables:
    """Draw the recorded frontier, with the posteriors over more layers and the temperatures."""
    summary, *others = (
        pd.read_csv(arguments.results / f"frontier_{name}.csv")
        for name in ("summary", "layers", "baselines")
    )
    more = (own[own["kind"].isin([*MORE_LAYERS, TEMPERATURE])] for own in others)
    every = pd.concat([summary, *more], ignore_index=True)
    every["on_frontier"] = find_pareto(every[list(ERRORS)].to_numpy())
    draw_frontier(every).savefig(IMAGE)
    return {}


MEASURES = {
    "corpora": measure_corpora,
    "full": measure_full,
    "choices": measure_choices,
    "baselines": measure_baselines,
    "layers": measure_layers,
    "learning": measure_learning,
    "draw": draw_recorded,
}


def main() -> None:
    """Run one part and write its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=MEASURES)
    parser.add_argument("--corpora", type=int, help="of `corpora`, 5; of `learning`, as usual")
    parser.add_argument("--along", nargs="+", choices=ALONG, default=ALONG, help="of `learning`")
    parser.add_argument("--seeds", type=int, nargs="+", help="of `corpora`")
    parser.add_argument("--recipe", choices=("fast", "paper"), default="fast", help="of `corpora`")
    parser.add_argument("--found", type=Path, nargs="+", help="folders of finished runs")
    parser.add_argument("--out", type=Path, default=Path("runs/frontier"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="does it run? not to be quoted")
    arguments = parser.parse_args()
    folder = arguments.results / "quick" if arguments.quick else arguments.results
    command = f"python -m benchmarks.frontier {' '.join(sys.argv[1:])}"
    if tables := MEASURES[arguments.part](arguments):
        write_results(folder, tables, command)


if __name__ == "__main__":
    main()
