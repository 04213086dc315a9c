"""`equivocal compare` and `equivocal simulate`."""

from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from equivocal.cli.console import out, progress, show_table
from equivocal.cli.suites import USUAL
from equivocal.cli.training import Folder
from equivocal.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.human_data import Comparison, Experiment

__all__ = ["COMPARE_EXAMPLES", "SIMULATE_EXAMPLES", "compare", "simulate"]

COMPARE_EXAMPLES = (
    "Examples: `equivocal compare data.csv --where suite=cloze_probability`, `equivocal compare "
    "data.csv --measures measures.csv --participant subject --response n400 --where position=3`, "
    "`equivocal compare data.csv --measures measures.csv --control length --log --slopes`"
)
SIMULATE_EXAMPLES = (
    "Examples: `equivocal simulate --participants 40 --items 24 --beta 20 --out runs/simulated`, "
    "`equivocal simulate --measures measures.csv --measure semantic_update`, "
    "`equivocal simulate --power --participants 20,40,60 --items 12,24 --runs 200`"
)
RUNS, MOST_RUNS = 200, 100_000
WORDS = USUAL / "tables" / "words.csv"

Where = Annotated[
    list[str] | None,
    typer.Option(help="Keep only rows with COLUMN=VALUE, in the tables that have it; repeatable."),
]
Slopes = Annotated[
    bool, typer.Option("--slopes", help="Let the effect differ between participants.")
]


def compare(
    data: Annotated[Path, typer.Argument(help="The trials: a CSV file, a row for each response.")],
    measures: Annotated[
        Path | None,
        typer.Option(help=f"The measures: a CSV file, a row for each item and word [{WORDS}]."),
    ] = None,
    response: Annotated[
        str | None, typer.Option(help="Column of the trials [rt, or else response].")
    ] = None,
    participant: Annotated[str, typer.Option(help="Column of the trials.")] = "participant",
    item: Annotated[str, typer.Option(help="Column of the trials.")] = "item",
    position: Annotated[str, typer.Option(help="Column of the trials.")] = "position",
    word: Annotated[str, typer.Option(help="Column of the trials.")] = "word",
    condition: Annotated[str, typer.Option(help="Column of the trials.")] = "condition",
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure; repeatable [every column of numbers].")
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(help="A column of either table that all models hold; repeatable."),
    ] = None,
    where: Where = None,
    log: Annotated[bool, typer.Option("--log", help="Model the response's logarithm.")] = False,
    slopes: Slopes = False,
    folder: Folder = Path("runs/compare"),
) -> None:
    """Which measure predicts what people did? Mixed models with and without each.

    Writes compare.csv, a figure, the trials that were left out, and the same models for R (lme4
    and brms) with their data.
    """
    from equivocal.human_data import Columns, join_files, write_comparison
    from equivocal.human_data.comparing import fitted, prepare
    from equivocal.human_data.writing import COMPARISON, inputs_of, keep_others
    from equivocal.store.locks import hold_folder

    began = monotonic()
    measures = measures or _words_of_suites()
    columns = Columns(
        participant=participant,
        item=item,
        condition=condition,
        position=position,
        word=word,
        response=response,
    )
    joined = join_files(data, measures, columns, measure or [], control or [], where or [])
    prepared = prepare(joined, log=log, slopes=slopes)
    settings = {
        "data": str(data),
        "measures": str(measures),
        "inputs": inputs_of(data=data, measures=measures),
        "columns": joined.columns,
        "measure": joined.measures,
        "where": where or [],
        "controls": joined.controls,
        "log": log,
        "slopes": slopes,
    }
    with hold_folder(folder):
        keep_others(folder, COMPARISON, settings)
        with progress("models") as advance:
            comparison = fitted(prepared, advance)
        seconds = round(monotonic() - began, 3)
        write_comparison(folder, comparison, settings | {"seconds": seconds})
    _show_comparison(comparison, joined.columns["response"])
    out.print(f"wrote {folder / 'compare.csv'}, figures, lme4.R and brms.R", soft_wrap=True)


def simulate(
    participants: Annotated[str, typer.Option(help="How many; with --power also 20,40,60.")] = "40",
    items: Annotated[str, typer.Option(help="How many; with --power also 12,24.")] = "24",
    positions: Annotated[
        int | None, typer.Option(min=1, help="Words in an item of the built-in measures [3].")
    ] = None,
    beta: Annotated[float, typer.Option(help="The effect, per unit of the measure.")] = 20.0,
    intercept: Annotated[float, typer.Option(help="Mean response where the measure is 0.")] = 500.0,
    participant_sd: Annotated[float, typer.Option(help="Sd of participants.")] = 50.0,
    item_sd: Annotated[float, typer.Option(help="Sd of items.")] = 20.0,
    slope_sd: Annotated[float, typer.Option(help="Sd of beta over participants.")] = 0.0,
    noise_sd: Annotated[float, typer.Option(help="Sd of what is left.")] = 100.0,
    measures: Annotated[
        Path | None, typer.Option(help="A table of measures [two made-up ones].")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="The measure that has the effect [the first].")
    ] = None,
    where: Where = None,
    power: Annotated[
        bool, typer.Option("--power", help="How often would the effect be found?")
    ] = False,
    runs: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_RUNS, help=f"Experiments for each point of --power [{RUNS}]."),
    ] = None,
    slopes: Slopes = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    folder: Folder = Path("runs/simulated"),
) -> None:
    """An experiment whose answer is known, or with --power how often it would be found.

    Writes data.csv, measures.csv and truth.toml; with --power power.csv and its figure.
    """
    from equivocal.human_data import Columns, Experiment, read_measures
    from equivocal.human_data.writing import inputs_of

    many_participants, many_items = _counts(participants, "participants"), _counts(items, "items")
    if not power and len(many_participants) * len(many_items) > 1:
        raise UserError("several numbers of participants or items are for --power; give one each.")
    _refuse_idle("--power", power, {"--runs": runs, "--slopes": slopes})
    _refuse_idle("--measures", measures, {"--measure": measure, "--where": where})
    if positions and measures:
        raise UserError("--positions is for the built-in measures; leave out that or --measures.")
    experiment = Experiment(
        participants=many_participants[0],
        items=many_items[0],
        positions=positions or Experiment.positions,
        intercept=intercept,
        beta=beta,
        participant_sd=participant_sd,
        item_sd=item_sd,
        slope_sd=slope_sd,
        noise_sd=noise_sd,
        seed=seed,
    )
    table = read_measures(measures, Columns(), where or []) if measures else None
    settings = {
        "measures": str(measures or "built in"),
        "where": where or [],
        "inputs": inputs_of(measures=measures),
    }
    if power:
        asked = {
            "participants": many_participants,
            "items": many_items,
            "runs": runs or RUNS,
            "slopes": slopes,
        }
        _find_power(experiment, table, measure, settings | asked, folder)
    else:
        _make_data(experiment, table, measure, settings, folder)


def _make_data(
    experiment: "Experiment",
    table: "pd.DataFrame | None",
    measure: str | None,
    settings: dict[str, Any],
    folder: Path,
) -> None:
    """`simulate` without --power."""
    from equivocal.human_data import simulate as simulate_experiment
    from equivocal.human_data import write_experiment
    from equivocal.human_data.writing import TRUTH, keep_others
    from equivocal.store.locks import hold_folder

    trials, used, name = simulate_experiment(experiment, table, measure)
    settings = settings | {"truth": {"measure": name} | asdict(experiment)}
    with hold_folder(folder):
        keep_others(folder, TRUTH, settings)
        write_experiment(folder, trials, used, settings)
    _show_experiment(experiment, len(trials), name, folder)


def _find_power(
    experiment: "Experiment",
    table: "pd.DataFrame | None",
    measure: str | None,
    settings: dict[str, Any],
    folder: Path,
) -> None:
    """`simulate --power`."""
    from equivocal.human_data import power_curve, stimuli_of, write_power
    from equivocal.human_data.power import check_counts
    from equivocal.human_data.writing import POWER, keep_others
    from equivocal.store.locks import hold_folder

    stimuli, name = (None, "surprise") if table is None else stimuli_of(table, measure)
    counts, slopes = (settings["participants"], settings["items"]), settings["slopes"]
    check_counts(*counts, slopes=slopes)
    # how many participants and items there were, several perhaps, stands beside the truth
    truth = {k: v for k, v in asdict(experiment).items() if k not in ("participants", "items")}
    settings = settings | {"measure": name, "truth": truth}
    with hold_folder(folder):
        keep_others(folder, POWER, settings)
        with progress("power") as advance:
            found = power_curve(
                experiment,
                *counts,
                settings["runs"],
                stimuli=stimuli,
                slopes=slopes,
                advance=advance,
            )
        write_power(folder, found, settings)
    _show_power(found, experiment.beta)
    out.print(f"wrote {folder / 'power.csv'} and {folder / 'figures'}", soft_wrap=True)


def _words_of_suites() -> Path:
    if not WORDS.exists():
        raise UserError(
            f"there is no {WORDS}, which `equivocal suites run` writes; run that first, or give "
            "a table of your own with --measures."
        )
    return WORDS


def _refuse_idle(needed: str, there: object, options: dict[str, object]) -> None:
    """What was asked for is done or refused, never passed over."""
    for name, given in options.items():
        if given and not there:
            raise UserError(f"{name} does nothing without {needed}; add that, or leave {name} out.")


def _counts(text: str, name: str) -> list[int]:
    """Numbers separated by commas, in order, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 6 and int(part) > 1 for part in parts):
        raise UserError(f"--{name} {text!r:.80} must be whole numbers from 2 on, as 20,40.")
    return sorted({int(part) for part in parts})


def _show_comparison(comparison: "Comparison", response: str) -> None:
    joined, table = comparison.joined, comparison.table
    out.print(
        f"{len(joined.trials)} of {joined.given} trials joined by {', '.join(joined.keys)}; "
        f"{joined.trials['participant'].nunique()} participants, "
        f"{joined.trials['item'].nunique()} items; response "
        f"{f'log({response})' if comparison.log else response}, normal family",
        soft_wrap=True,
    )
    for reason, count in joined.unmatched["reason"].value_counts().items():
        out.print(f"left out: {count}, {reason}", soft_wrap=True)
    for note in comparison.notes:
        out.print(f"note: {note}", soft_wrap=True)
    shown = Table(title="with and without each measure", title_justify="left")
    shown.add_column("measure", no_wrap=True)
    for head in ("model", "per unit", "low", "high", "ΔAIC", "ΔBIC", "p"):
        shown.add_column(head, justify="right")
    for row in table.to_dict("records"):
        shown.add_row(
            str(row["measure"]),
            row["model"],
            *(f"{row[name]:.4g}" for name in ("estimate", "low", "high")),
            f"{row['delta_aic']:.1f}",
            f"{row['delta_bic']:.1f}",
            f"{row['p']:.2g}",
        )
    show_table(shown)
    out.print("low to high: 95 % interval; Δ above zero: better with the measure than without")
    for text, rows in table[table["note"] != ""].groupby("note", sort=False):
        where = ", ".join(f"{row['measure']} {row['model']}" for row in rows.to_dict("records"))
        out.print(f"note: {where}: {text}", soft_wrap=True)


def _show_experiment(experiment: "Experiment", trials: int, name: str, folder: Path) -> None:
    out.print(
        f"{trials} trials of {experiment.participants} participants and {experiment.items} items; "
        f"{name} has an effect of {experiment.beta:g} per unit",
        soft_wrap=True,
    )
    out.print(
        f"wrote {folder / 'data.csv'}, measures.csv and truth.toml; analyse it with `equivocal "
        f"compare {folder / 'data.csv'} --measures {folder / 'measures.csv'}`",
        soft_wrap=True,
    )


def _show_power(table: "pd.DataFrame", beta: float) -> None:
    runs = int(table["runs"].iloc[0])
    title = f"power for beta = {beta:g}, {runs} experiments each"
    shown = Table(title=title, title_justify="left")
    for head in ("participants", "items", "power", "95 % interval", "not converged"):
        shown.add_column(head, justify="right")
    for row in table.to_dict("records"):
        shown.add_row(
            str(row["participants"]),
            str(row["items"]),
            f"{row['power']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            str(row["not_converged"]),
        )
    show_table(shown)
