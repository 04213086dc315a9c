"""`equivocal compare`: measures against human responses. `equivocal simulate`: experiments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equivocal import console
from equivocal.console import out, show_frame, show_note, show_summary
from lastlayer.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.people.simulation import Experiment

__all__ = ["compare", "simulate"]

Column = Annotated[str, typer.Option(help="Column of the trials.")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Keep only rows with COLUMN=VALUE, in the tables that have it; repeatable."),
]
Slopes = Annotated[
    bool, typer.Option("--slopes", help="Let the effect differ between participants.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("compare"))(compare)
    app.command(epilog=console.list_examples("simulate"))(simulate)


def compare(
    data: Annotated[Path, typer.Argument(help="The trials: a CSV file, a row for each response.")],
    measures: Annotated[
        Path | None,
        typer.Option(
            help="The measures: a CSV file, a row for each item and word "
            "[runs/suites/tables/words.csv]."
        ),
    ] = None,
    response: Annotated[
        str | None,
        typer.Option(
            help="Column of the trials [rt, response or answer]; COLUMN=VALUE is 1 where it holds."
        ),
    ] = None,
    family: Annotated[
        Literal["gaussian", "binomial"],
        typer.Option(help="Linear models of numbers, or logistic models of 0 and 1."),
    ] = "gaussian",
    counts: Annotated[
        str | None,
        typer.Option(help="Column of the trials: the number of answers of each proportion."),
    ] = None,
    participant: Column = "participant",
    item: Column = "item",
    position: Column = "position",
    word: Column = "word",
    condition: Column = "condition",
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure; repeatable [every column of numbers].")
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of either table that all models include; `length` and `frequency` are "
            "computed if neither has them; repeatable."
        ),
    ] = None,
    spillover: Annotated[
        int,
        typer.Option(
            min=0, max=5, help="Add measures and word controls of so many previous words."
        ),
    ] = 0,
    world: Annotated[
        str | None, typer.Option(help="The world that the control `frequency` is counted in.")
    ] = None,
    where: Where = None,
    log: Annotated[bool, typer.Option("--log", help="Model the response's logarithm.")] = False,
    slopes: Slopes = False,
    folder: console.Folder = Path("runs/compare"),
) -> None:
    """Test which measure predicts human responses, with mixed models with and without each.

    Writes compare.csv, a figure, the trials that were left out, and the same models for R (lme4
    and brms) with their data. Measures of each role come from `equivocal suites run --by-role`.
    """
    from equivocal.people.run_comparison import compare_trials
    from equivocal.people.tables import Columns

    columns = Columns(
        participant=participant,
        item=item,
        condition=condition,
        position=position,
        word=word,
        response=response,
        counts=counts,
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
        world=world,
    )
    show_summary(result.summary)
    _show_models(result.tables["compare"], "log odds" if family == "binomial" else "response")
    out.print(f"wrote {folder / 'compare.csv'}, figures, lme4.R and brms.R", soft_wrap=True)


def simulate(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", help="A training run or study, whose networks or particles answer questions."
        ),
    ] = None,
    answers: Annotated[
        int | None,
        typer.Option(min=2, help="With --from: how often each question is answered [3]."),
    ] = None,
    reader: Annotated[
        Literal["draw", "argmax"] | None,
        typer.Option(help="With --from: draw answers from beliefs, or give the likeliest [draw]."),
    ] = None,
    beliefs: Annotated[
        Literal["trained", "posterior"] | None,
        typer.Option(
            help="With --from: participants are networks, or particles [posterior, if stored]."
        ),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="With --from: the study's sampler [the first].")
    ] = None,
    prior_variance: Annotated[
        float | None, typer.Option(min=0, help="With --from: the posterior's [the central one].")
    ] = None,
    sentences: Annotated[
        Path | None,
        typer.Option(help="With --from: a CSV file of sentences [the study's, or shipped ones]."),
    ] = None,
    participants: Annotated[
        str | None, typer.Option(help="How many; several for --power, as 20,40 [40].")
    ] = None,
    items: Annotated[
        str | None, typer.Option(help="How many; several for --power, as 12,24 [24].")
    ] = None,
    positions: Annotated[
        int | None, typer.Option(min=1, help="Words in each item of the built-in measures [3].")
    ] = None,
    beta: Annotated[float, typer.Option(help="The effect, per unit of the measure.")] = 20.0,
    intercept: Annotated[float, typer.Option(help="Mean response where the measure is 0.")] = 500.0,
    participant_sd: Annotated[
        float, typer.Option(help="Standard deviation of participants.")
    ] = 50.0,
    item_sd: Annotated[float, typer.Option(help="Standard deviation of items.")] = 20.0,
    slope_sd: Annotated[
        float, typer.Option(help="Standard deviation of beta over participants.")
    ] = 0.0,
    noise_sd: Annotated[float, typer.Option(help="Residual standard deviation.")] = 100.0,
    measures: Annotated[
        Path | None, typer.Option(help="A table of measures [two simulated ones].")
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
        typer.Option(min=1, max=100_000, help="Experiments for each point of --power [200]."),
    ] = None,
    slopes: Slopes = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    folder: console.Folder = Path("runs/simulated"),
) -> None:
    """Simulate an experiment with a known effect, or (--power) estimate how often it is detected.

    Writes data.csv, measures.csv and truth.toml; with --power power.csv and its figure. With --from
    networks, or particles of their posteriors, answer who did what: data.csv holds their answers
    and readings.csv how often they differ.
    """
    from equivocal.people.run_comparison import RUNS
    from equivocal.people.simulation import Experiment

    asked: dict[str, Any] = {"answers": answers, "reader": reader, "beliefs": beliefs}
    asked |= {"sampler": sampler, "prior_variance": prior_variance, "sentences": sentences}
    truth: dict[str, Any] = {"beta": beta, "intercept": intercept, "participant_sd": participant_sd}
    truth |= {"item_sd": item_sd, "slope_sd": slope_sd, "noise_sd": noise_sd}
    if source is not None:
        changed = {name: value != getattr(Experiment, name) for name, value in truth.items()}
        idle: dict[str, Any] = {"items": items, "measures": measures, "measure": measure}
        idle |= {"where": where, "power": power, "runs": runs, "slopes": slopes}
        _refuse_idle(idle | {"positions": positions} | changed, beside="--from")
        who = _parse_counts(participants, "participants") if participants else [None]
        if len(who) > 1:
            raise UserError("several numbers of participants are for --power; give one.")
        _simulate_answers(source, folder, asked | {"participants": who[0], "seed": seed})
        return
    _refuse_idle(asked, needed="--from")
    counts = (
        _parse_counts(participants or "40", "participants"),
        _parse_counts(items or "24", "items"),
    )
    if not power and max(map(len, counts)) > 1:
        raise UserError("several numbers of participants or items are for --power; give one each.")
    if not power:
        _refuse_idle({"runs": runs, "slopes": slopes}, needed="--power")
    if not measures:
        _refuse_idle({"measure": measure, "where": where}, needed="--measures")
    if positions and measures:
        raise UserError("--positions is for the built-in measures; leave out that or --measures.")
    size = {"participants": counts[0][0], "items": counts[1][0], "seed": seed}
    experiment = Experiment(positions=positions or Experiment.positions, **size, **truth)
    how: dict[str, Any] = {"measures": measures, "measure": measure, "where": where or []}
    if power:
        how |= {"runs": runs or RUNS, "slopes": slopes}
        _simulate_power(experiment, counts, folder, how)
    else:
        _simulate_trials(experiment, folder, how)


def _simulate_power(
    experiment: "Experiment",
    counts: tuple[list[int], list[int]],
    folder: Path,
    how: dict[str, Any],
) -> None:
    """Simulate many experiments and print how often the effect is found."""
    from equivocal.people.run_comparison import simulate_power

    planned = simulate_power(experiment, *counts, folder, **how)
    show_summary(planned.summary)
    _show_power(planned.tables["power"], experiment.beta)
    out.print(f"wrote {folder / 'power.csv'} and {folder / 'figures'}", soft_wrap=True)


def _simulate_trials(experiment: "Experiment", folder: Path, how: dict[str, Any]) -> None:
    """Simulate one experiment and print how to analyse it."""
    from equivocal.people.run_comparison import simulate_trials

    show_summary(simulate_trials(experiment, folder, **how).summary)
    out.print(
        f"wrote {folder / 'data.csv'}, measures.csv and truth.toml; analyse them with `equivocal "
        f"compare {folder / 'data.csv'} --measures {folder / 'measures.csv'}`",
        soft_wrap=True,
    )


def _simulate_answers(source: Path, folder: Path, asked: dict[str, Any]) -> None:
    """Let comprehenders answer questions and print how often each reading was given."""
    from equivocal.people.run_trials import format_share, simulate_answers

    given = {name: value for name, value in asked.items() if value is not None}
    result = simulate_answers(source, folder, **given)
    show_summary(result.summary)
    table = result.tables["readings"]
    wide = table.pivot(index="condition", columns="measure", values="value")
    cells = {name: f"{{{name}}}" for name in table["measure"].unique()}
    shown = wide.map(format_share).loc[table["condition"].unique()].reset_index()
    show_frame(shown, {"condition": "{condition}", **cells}, title="readings by condition")
    show_note("readings")
    advice = (
        "every condition is read in one way, so there is nothing to model: in a world with "
        "unlikely reversals, such as `both_ways`, readings differ"
        if wide["literal"].isin([0, 1]).all()
        else f"analyse them with `equivocal compare {folder / 'data.csv'} --measures "
        f"{folder / 'measures.csv'} --family binomial --response answer=literal`"
    )
    wrote = f"wrote {folder / 'data.csv'}, measures.csv and readings.csv (with intervals)"
    out.print(f"{wrote}; {advice}", soft_wrap=True)


def _refuse_idle(options: dict[str, Any], *, needed: str = "", beside: str = "") -> None:
    """Refuse options that would do nothing without one that is needed, or beside another."""
    for name, given in options.items():
        option = f"--{name.replace('_', '-')}"
        if given and needed:
            raise UserError(
                f"{option} does nothing without {needed}; add that, or leave {option} out."
            )
        if given:
            raise UserError(f"{option} does nothing with {beside}; leave one of the two out.")


def _parse_counts(text: str, name: str) -> list[int]:
    """Return numbers separated by commas, in order, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 6 and int(part) > 1 for part in parts):
        raise UserError(f"--{name} {text!r:.80} must be whole numbers from 2 on, as 20,40.")
    return sorted({int(part) for part in parts})


def _show_models(table: "pd.DataFrame", unit: str) -> None:
    """Print coefficients and criteria of the models, and notes on their fits."""
    cells = {"measure": "{measure}", "model": "{model}", "per unit": "{estimate:.4g}"}
    cells |= {"low": "{low:.4g}", "high": "{high:.4g}"}
    cells |= {"ΔAIC": "{delta_aic:.1f}", "ΔBIC": "{delta_bic:.1f}", "p": "{p:.2g}"}
    show_frame(table, cells, title="with and without each measure")
    out.print(
        f"per unit: {unit} per unit of the measure; low to high: 95 % interval; Δ above zero: "
        "better with the measure than without"
    )
    for text, rows in table[table["note"] != ""].groupby("note", sort=False):
        where = ", ".join(f"{row['measure']} {row['model']}" for row in rows.to_dict("records"))
        out.print(f"note: {where}: {text}", soft_wrap=True)


def _show_power(table: "pd.DataFrame", beta: float) -> None:
    """Print the power for each number of participants and items."""
    title = f"power for beta = {beta:g}, {int(table['runs'].iloc[0])} experiments each"
    cells = {name: f"{{{name}}}" for name in ("participants", "items")}
    cells |= {"power": "{power:.3f}", "95 % interval": "{low:.3f} to {high:.3f}"}
    show_frame(table, cells | {"not converged": "{not_converged}"}, left=0, title=title)
