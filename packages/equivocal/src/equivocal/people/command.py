"""`equivocal people`: measures against responses, simulated experiments, published numbers."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from equivocal import console
from equivocal.console import out, show_results, show_summary
from lastlayer.errors import UserError

__all__ = ["compare", "published", "simulate"]

Column = Annotated[str | None, typer.Option(help="Column of the trials.")]
Slopes = Annotated[
    bool, typer.Option("--slopes", help="Let the effect differ between participants and items.")
]

Family = Annotated[
    Literal["gaussian", "binomial"],
    typer.Option(help="Linear models of numbers, or logistic models of 0 and 1."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    people = typer.Typer(
        no_args_is_help=True,
        help="Compare measures with people's responses, plan experiments, read published numbers.",
    )
    for command in (compare, simulate, published):
        epilog = console.list_examples(f"people {command.__name__}")
        people.command(epilog=epilog)(command)
    app.add_typer(people, name="people")


def compare(
    data: Annotated[Path, typer.Argument(help="The trials: a CSV file, a row for each response.")],
    measures: Annotated[
        Path, typer.Option(help="The measures: a CSV file, a row for each item and word.")
    ],
    response: Annotated[
        str | None,
        typer.Option(help="Column of the trials [rt]; COLUMN=VALUE is 1 where it holds."),
    ] = None,
    family: Family = "gaussian",
    participant: Column = None,
    item: Column = None,
    position: Column = None,
    word: Column = None,
    condition: Column = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure; repeatable [every column of numbers].")
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of either table that all models include; `length` is counted if neither "
            "has it; repeatable."
        ),
    ] = None,
    spillover: Annotated[
        int, typer.Option(min=0, max=5, help="Add measures and controls of so many previous words.")
    ] = 0,
    region: Annotated[
        Literal["last", "sum", "each"],
        typer.Option(help="Of words that make one constituent: the last, their sum, or each."),
    ] = "last",
    by: Annotated[
        str | None, typer.Option(help="A column that measures interact with, as condition.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Keep only rows with COLUMN=VALUE; repeatable.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Model the response's logarithm.")] = False,
    slopes: Slopes = False,
    folder: console.Folder = Path("runs/compare"),
) -> None:
    """Test which measure predicts human responses, with mixed models with and without each.

    Columns that are not named have our names (participant, item, position, word, condition, rt) or
    those of PsychLing-101 (participant_id, stimulus). Words are matched to the model's constituents
    sentence by sentence. Writes compare.csv, a figure, what became of every word and trial, and the
    same models for R (lme4) with their data.
    """
    from equivocal.people.run_compare import compare_trials
    from equivocal.people.trial_tables import Columns

    columns = Columns(
        participant=participant,
        item=item,
        condition=condition,
        position=position,
        word=word,
        response=response,
    )
    result = compare_trials(
        data,
        measures,
        folder,
        columns=columns,
        measure=measure or [],
        controls=control or [],
        where=where or [],
        family=family,
        log=log,
        slopes=slopes,
        spillover=spillover,
        region=region,
        by=by,
    )
    show_summary(result.summary)
    out.print(f"wrote {folder / 'compare.csv'}, figures and lme4.R", soft_wrap=True)


def simulate(
    participants: Annotated[
        str, typer.Option(help="How many; several for --power, as 20,40.")
    ] = "40",
    items: Annotated[str, typer.Option(help="How many; several for --power, as 12,24.")] = "24",
    positions: Annotated[
        int, typer.Option(min=1, help="Words in each item of the built-in measures.")
    ] = 3,
    family: Family = "gaussian",
    beta: Annotated[
        float | None, typer.Option(help="The effect, per unit of the measure [20, or 0.5].")
    ] = None,
    intercept: Annotated[
        float | None, typer.Option(help="Mean response where the measure is 0 [500, or 0].")
    ] = None,
    participant_sd: Annotated[
        float | None, typer.Option(help="Standard deviation of participants [50, or 1].")
    ] = None,
    item_sd: Annotated[
        float | None, typer.Option(help="Standard deviation of items [20, or 0.5].")
    ] = None,
    slope_sd: Annotated[
        float, typer.Option(help="Standard deviation of beta over participants.")
    ] = 0.0,
    item_slope_sd: Annotated[
        float, typer.Option(help="Standard deviation of beta over items.")
    ] = 0.0,
    noise_sd: Annotated[float, typer.Option(help="Residual standard deviation.")] = 100.0,
    measures: Annotated[
        Path | None, typer.Option(help="A table of measures [two simulated ones].")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="The measure that has the effect [the first].")
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="How often would the effect be found?")
    ] = False,
    runs: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Experiments for each point of --power [200]."),
    ] = None,
    slopes: Slopes = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    folder: console.Folder = Path("runs/simulated"),
) -> None:
    """Simulate an experiment with a known effect, or (--power) estimate how often it is detected.

    Writes data.csv, measures.csv and truth.toml; with --power power.csv and its figure.
    """
    from equivocal.people.run_simulate import RUNS, simulate_power, simulate_trials
    from equivocal.people.simulate import ANSWERS, Experiment

    sizes = _parse_counts(participants, "participants"), _parse_counts(items, "items")
    if not power and (runs or slopes or max(map(len, sizes)) > 1):
        raise UserError(
            "--runs, --slopes and several numbers of participants or items are for --power; add "
            "that, or leave them out."
        )
    if measure and not measures:
        raise UserError("--measure names a column of the table --measures; add that.")
    parts = {"intercept": intercept, "beta": beta, "item_sd": item_sd}
    parts |= {"participant_sd": participant_sd}
    usual: dict[str, Any] = ANSWERS if family == "binomial" else {}
    experiment = Experiment(
        participants=sizes[0][0],
        items=sizes[1][0],
        positions=positions,
        **usual | {name: value for name, value in parts.items() if value is not None},
        slope_sd=slope_sd,
        item_slope_sd=item_slope_sd,
        noise_sd=noise_sd,
        seed=seed,
        family=family,
    )
    how: dict[str, Any] = {"measures": measures, "measure": measure}
    if power:
        how |= {"runs": runs or RUNS, "slopes": slopes}
        show_summary(simulate_power(experiment, *sizes, folder, **how).summary)
        out.print(f"wrote {folder / 'power.csv'} and {folder / 'figures'}", soft_wrap=True)
        return
    show_summary(simulate_trials(experiment, folder, **how).summary)
    out.print(
        f"wrote {folder / 'data.csv'}, measures.csv and truth.toml; analyse them with `equivocal "
        f"people compare {folder / 'data.csv'} --measures {folder / 'measures.csv'}`",
        soft_wrap=True,
    )


def _parse_counts(text: str, name: str) -> list[int]:
    """Return numbers separated by commas, in order, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 6 and int(part) > 1 for part in parts):
        raise UserError(f"--{name} {text!r:.80} must be whole numbers from 2 on, as 20,40.")
    return sorted({int(part) for part in parts})


def published(
    world: Annotated[
        str, typer.Option(help="A world's name, or the path of a file.")
    ] = "both_ways",
    networks: Annotated[
        int | None,
        typer.Option(min=0, help="How many networks [ten]; with 0 the ideal comprehender alone."),
    ] = None,
    seed: console.Seed = None,
    folder: console.QuickFolder = None,
    quick: console.Quick = False,
) -> None:
    """Compare models with published numbers: how people read implausible sentences.

    The ideal comprehender, networks and particles of their posteriors answer who did what to whom.
    Trains the networks first, or reuses those in the folder. Writes tables/ and figures/.
    """
    from equivocal.people.published import compare_people

    chosen = folder or Path("runs/people-quick" if quick else "runs/people")
    result = compare_people(world, chosen, quick=quick, networks=networks, seed=seed)
    show_summary(result.summary[:1])
    show_results(result.summary[1:], chosen, quick=quick)
