"""Uncertainty about reversals with a known answer: tables of docs/explanations.

    python -m benchmarks.frontier registered [--recipe paper]
                                                 registered_fast.csv, …_verdicts.csv, …_prices.csv
    python -m benchmarks.frontier full           frontier_summary.csv
    python -m benchmarks.frontier layers         frontier_layers.csv: posteriors over more layers
    python -m benchmarks.frontier draw           docs/images/ladder.png, of the first

`registered`: what `registration.toml` says, in the world `graded`; a row for each kind, setting and
corpus, the mean over its networks. `--seeds 3 4` takes some of the corpora and adds
them to what is recorded. The others are of the world `slips`; `full` takes
hours without a GPU, `layers` needs one. Runs go to `--out` and are resumed; the tables go to
`benchmarks/results`, where frontier.json records the machine and commit of each. `--quick` (small
networks) writes to `quick/`.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.machine import RESULTS, describe_machine
from benchmarks.registration import judge, read_registration
from equivocal.doubt.answers import LEARNERS
from equivocal.doubt.figures import draw_ladder
from equivocal.doubt.frontier import name_times, summarise_frontier
from equivocal.doubt.kinds import PRIOR, TEMPERATURE, KindSettings
from equivocal.doubt.layers import LAYERS
from equivocal.doubt.run import compare_uncertainty
from equivocal.network.runs import choose_training
from equivocal.result import write_tables
from equivocal.statistics.summaries import compare_with_zero
from equivocal.store.files import write_text_atomically

IMAGES = Path(__file__).parents[1] / "docs" / "images"
STRENGTH, ERRORS = ["kind", "setting"], ("kl_congruent", "kl_reversal")
REGISTERED = KindSettings(
    evidence=(1.0, "sentence"),
    other_variances=(0.1,),
    other_evidence=(1 / 300,),
    dropout=(0.1,),
    sizes=(2, 5),
)
FEWEST_CORPORA = 5  # of a setting that is drawn
ONCE: dict[str, Any] = {"dropout": (), "smoothing": (), "word_noise": ()}
Tables = dict[str, pd.DataFrame]


def measure_registered(arguments: argparse.Namespace) -> Tables:
    """Measure the networks of the registered corpora, and judge all that are recorded so far."""
    plan, name = read_registration(), f"registered_{arguments.recipe}"
    recorded = arguments.results / f"{name}.csv"
    table = pd.read_csv(recorded) if recorded.exists() else pd.DataFrame({"corpus": []})
    for seed in plan["seeds"] if arguments.seeds is None else arguments.seeds:
        changes = {"recipe": arguments.recipe, "quick": arguments.quick}
        training = choose_training(plan["networks"], seed, **changes)
        settings = replace(REGISTERED, **ONCE) if arguments.once else REGISTERED
        folder = arguments.out / name / f"seed_{seed}"
        found = compare_uncertainty(plan["world"], folder, training=training, settings=settings)
        own = found.tables["frontier"].drop(columns=["converged", "message"])
        own["setting"] = own["setting"].str.partition(", τ")[0]  # it differs a little by corpus
        keys = own[~own["network"].str.startswith("all but")].groupby(STRENGTH, sort=False)
        means = keys.mean(numeric_only=True).assign(corpus=seed, network="mean")
        means = means.assign(networks=keys.size()).reset_index()
        table = pd.concat([table[table["corpus"] != seed], means], ignore_index=True)
        write_tables(arguments.results, {name: table})
    verdicts, prices = judge(table), compare_at_price(table)
    return {name: table, f"{name}_verdicts": verdicts, f"{name}_prices": prices}


def compare_at_price(table: pd.DataFrame) -> pd.DataFrame:
    """Compare settings with temperatures, and priors without data, of the same congruent error.

    Exploratory: not registered. The baseline's error on reversals is interpolated along its curve,
    in the logarithm of the error on congruent sentences; a gain is that minus the setting's own.
    """
    rows, pivot = [], table.pivot(index="corpus", columns=STRENGTH, values=list(ERRORS))
    strengths = table[STRENGTH].drop_duplicates().itertuples(index=False, name=None)
    for setting in (each for each in strengths if each[0] not in ("half", *LEARNERS)):
        price, own = (pivot[error][setting].dropna() for error in ERRORS)
        for baseline in (TEMPERATURE, PRIOR):
            curve = pivot.xs(baseline, level="kind", axis=1).drop(columns="oracle", level="setting")
            gains = []
            for corpus in own.index:
                x, y = (curve.loc[corpus, error].to_numpy(float) for error in ERRORS)
                order = np.argsort(x)
                at = np.interp(np.log(price[corpus]), np.log(x[order]), y[order])
                gains.append(at - own[corpus])
            test = compare_with_zero(gains)
            head = dict(zip(STRENGTH, setting, strict=True)) | {"baseline": baseline}
            rows.append(head | {"corpora": test.n} | test.name_interval("gain"))
    return pd.DataFrame(rows)


def measure_full(arguments: argparse.Namespace) -> Tables:
    """Map the frontier with twenty networks and every strength."""
    networks = None if arguments.quick else 20
    how: dict[str, Any] = {"networks": networks, "quick": arguments.quick}
    found = compare_uncertainty("slips", arguments.out / "slips", **how).tables
    return {"frontier_summary": found["summary"]}


def measure_layers(arguments: argparse.Namespace) -> Tables:
    """Map the frontier of eight networks with posteriors over more layers."""
    how: dict[str, Any] = {"quick": True} if arguments.quick else {"networks": 8}
    found = compare_uncertainty("slips", arguments.out / "layers", layers=LAYERS, **how)
    return {"frontier_layers": found.tables["summary"]}


def write_results(folder: Path, tables: Mapping[str, pd.DataFrame], command: str) -> None:
    """Write tables, and record the command, machine and commit behind each."""
    write_tables(folder, tables)
    path = folder / "frontier.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    facts = {"command": command, "machine": describe_machine()}
    known |= {f"{name}.csv": facts for name in tables}
    write_text_atomically(path, json.dumps(known, indent=2) + "\n")


def draw_recorded(arguments: argparse.Namespace) -> Tables:
    """Draw the registered comparison, with intervals over corpora."""
    table = pd.read_csv(arguments.results / f"registered_{arguments.recipe}.csv")
    table = table.groupby(STRENGTH).filter(lambda own: own["corpus"].nunique() >= FEWEST_CORPORA)
    summary = summarise_frontier(name_times(table))
    draw_ladder(summary).savefig(IMAGES / "ladder.png", dpi=200)
    return {}


MEASURES = {
    "registered": measure_registered,
    "full": measure_full,
    "layers": measure_layers,
    "draw": draw_recorded,
}


def main() -> None:
    """Run one part and write its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=MEASURES)
    parser.add_argument("--recipe", choices=("fast", "paper"), default="fast")
    parser.add_argument("--seeds", type=int, nargs="+", help="of `registered`")
    parser.add_argument(
        "--once", action="store_true", help="only kinds that need no other training"
    )
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
