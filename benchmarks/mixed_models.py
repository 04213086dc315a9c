"""The time of mixed models of a reading experiment: linear and logistic, one fit and a comparison.

    python -m benchmarks.mixed_models            100 participants × 60 items × 10 words, and power
    python -m benchmarks.mixed_models --quick    a check that it works; seconds

`fit`: one model with a measure, intercepts for participants and items; `slopes`: with correlated
slopes for participants as well; `compare`: all models that `equivocal people compare` fits for one
measure (with and without it, linear models also by REML), with its checks. Medians of three, in
seconds of processor time, which other load hardly changes, and of wall-clock time. The goal is 3 s
for a fit.

`power`: 1,000 simulated experiments with yes/no answers, 40 participants × 32 items in two
conditions (and fewer participants, for a curve), analysed with intercepts only, and with correlated
slopes for participants and items. The goal is five minutes on two cores.

Writes `benchmarks/results/mixed_models.json` (`--quick`: `quick/mixed_models.json`).
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy.special import expit

from benchmarks.machine import RESULTS, describe_machine
from equivocal.people.join import Joined, join
from equivocal.people.models import compare_models
from equivocal.people.simulate import (
    ANSWERS,
    Experiment,
    build_stimuli,
    estimate_power,
    simulate,
)
from equivocal.statistics import RandomPart, fit_logistic, fit_mixed
from equivocal.store.files import write_text_atomically

REPEATS = 3


def make_trials(participants: int, items: int, words: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make trials with a reading time and an answer each, and their measures."""
    truth = Experiment(participants=participants, items=items, positions=words, slope_sd=10.0)
    trials, measures, _ = simulate(truth)
    odds = (trials["rt"] - trials["rt"].mean()) / 100
    answer = np.random.default_rng(1).random(len(trials)) < expit(odds)
    trials = trials.assign(row=np.arange(len(trials)) + 2, answer=answer.astype(float))
    return trials, measures[["item", "position", "surprise"]]


def measure_seconds(call: Callable[[], Any], repeats: int = REPEATS) -> dict[str, float]:
    """Return the median seconds of a call, in processor time and wall-clock time."""
    used, took = [], []
    for _ in range(repeats):
        began, started = process_time(), perf_counter()
        call()
        used.append(process_time() - began)
        took.append(perf_counter() - started)
    return {"processor": round(median(used), 3), "clock": round(median(took), 3)}


def list_tasks(joined: dict[str, Joined]) -> dict[str, Callable[[], Any]]:
    """Return the calls to measure, by name."""
    trials = joined["gaussian"].trials
    x = trials["surprise"].to_numpy()
    X = np.column_stack([np.ones(len(x)), (x - x.mean()) / x.std()])
    codes = {name: pd.factorize(trials[name])[0] for name in ("participant", "item")}
    parts = [RandomPart(name, level) for name, level in codes.items()]
    slopes = [RandomPart("participant", codes["participant"], X), parts[1]]
    times = trials["response"].to_numpy()
    answers = joined["binomial"].trials["response"].to_numpy()
    return {
        "linear fit": lambda: fit_mixed(times, X, parts, reml=True),
        "linear fit, slopes": lambda: fit_mixed(times, X, slopes, reml=True),
        "linear compare": lambda: compare_models(joined["gaussian"]),
        "logistic fit": lambda: fit_logistic(answers, X, parts),
        "logistic fit, slopes": lambda: fit_logistic(answers, X, slopes),
        "logistic compare": lambda: compare_models(joined["binomial"], family="binomial"),
    }


def measure_power(runs: int) -> tuple[dict[str, dict[str, float]], list[dict[str, Any]]]:
    """Return the seconds of power analyses of answers, and the curve over participants."""
    rng = np.random.default_rng(2)
    rows = [(str(i), c) for i in range(32) for c in ("a", "b")]
    table = pd.DataFrame(rows, columns=["item", "condition"])
    stimuli, _ = build_stimuli(table.assign(update=rng.normal(size=len(table))))
    parameters: dict[str, Any] = ANSWERS | {"beta": 0.3}
    truth = Experiment(family="binomial", **parameters)
    varied = replace(truth, slope_sd=0.3, item_slope_sd=0.2)
    seconds, curve = {}, list[dict[str, Any]]()

    def estimate(experiment: Experiment, participants: int, slopes: bool) -> None:
        power = estimate_power(
            experiment, [participants], [32], runs, stimuli=stimuli, slopes=slopes
        )
        curve.extend({"slopes": slopes, **row} for _, row in power.iterrows())

    for experiment, slopes in ((truth, False), (varied, True)):
        for participants in (10, 20, 40):
            name = f"power, {'slopes, ' if slopes else ''}{participants} participants"
            call = partial(estimate, experiment, participants, slopes)
            seconds[name] = measure_seconds(call, repeats=1)
    return seconds, curve


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A small experiment.")] = False,
) -> None:
    """Measure, print and write."""
    sizes = (12, 8, 2) if quick else (100, 60, 10)
    trials, measures = make_trials(*sizes)
    columns = {"gaussian": "rt", "binomial": "answer"}
    joined = {f: join(trials.assign(response=trials[c]), measures) for f, c in columns.items()}
    found = {name: measure_seconds(call) for name, call in list_tasks(joined).items()}
    power, curve = measure_power(20 if quick else 1000)
    found |= power
    for name, seconds in found.items():
        print(f"{name:32} {seconds['processor']:7.3f} s processor {seconds['clock']:7.3f} s clock")
    about = dict(zip(("participants", "items", "words"), sizes, strict=True))
    content: dict[str, Any] = {"machine": describe_machine(), "trials": about, "seconds": found}
    content["power"] = curve
    folder = RESULTS / "quick" if quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_text_atomically(folder / "mixed_models.json", text)


if __name__ == "__main__":
    typer.run(main)
