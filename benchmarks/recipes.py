"""The training recipes: their cost, and whether they reproduce the training they stand for.

    python -m benchmarks.recipes --only seconds     time of `paper`, from two epochs
    python -m benchmarks.recipes --only cv          held-out loss by strength of the weight decay
    python -m benchmarks.recipes --only torch       `paper` here and in a plain PyTorch loop; fewer
                                                    by --networks, --epochs, --sentences
    python -m benchmarks.recipes --only sg2018      one sentence at a time, ten or a hundred
    python -m benchmarks.recipes --only networks    trains and saves (--recipe, --world, --out)
    python -m benchmarks.recipes --quick            all but `networks`, small

`torch`: ten networks of each, from different initial weights (both uniform in ±1/√n for n inputs of
a layer) and with different orders of the same sentences. It compares mean logits at the last word
of the study's eight reversals: of the words that syntax indicates, of the plausible ones, and of
objects that do not occur in the sentence. `equivalent_within` is the smallest margin for which two
one-sided tests at 5 % call the means equivalent: the farther end of the difference's 90 % interval.
`seconds_per_epoch` is the time of all networks side by side for ours, of one network for PyTorch
(wall-clock time: with `--workers` several train at once).

`sg2018`: plain gradient descent on the same sentences in the same order. `single`: one at a time,
rate 1e-5, momentum 0.9. `ten`, the recipe: ten in a step, with ten times the rate over 1 − 0.9 in
place of momentum. `hundred`: a hundred in a step with a hundred times the rate and the same
momentum, which then averages over a hundred times as many sentences. `hundred_without_momentum`: as
`ten`, with a hundred. `hundred_plain`: a hundred in a step with a hundred times the rate, compared
with `single_plain`, one at a time, both without momentum. `weights_apart` is the distance from the
weights of `single` or `single_plain`, divided by the distance that training moved these.

Writes `benchmarks/results/recipes_PART.json` (`--quick`: under `quick/`). The part `torch` needs
PyTorch.
"""

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import stats

from benchmarks.cross_validation import STRENGTHS, choose_decay, cross_validate
from benchmarks.machine import RESULTS, describe_machine
from equivocal.network import Run, SentenceGestalt, TrainingSettings, train
from equivocal.paper.settings import load_study
from equivocal.store.files import write_text_atomically
from equivocal.world import World
from equivocal.world.items import load_stimuli

SINGLE: dict[str, Any] = {"batch": 1, "learning_rate": 1e-5, "momentum": 0.9}  # those of 2018
HUNDRED: dict[str, Any] = {"batch": 100, "learning_rate": 1e-3, "momentum": 0.0}
BATCHES: dict[str, dict[str, dict[str, Any]]] = {  # by the run with which the others are compared
    "single": {
        "single": SINGLE,
        "ten": {},
        "hundred": HUNDRED | {"momentum": 0.9},
        "hundred_without_momentum": HUNDRED | {"learning_rate": 1e-3 / (1 - 0.9)},
    },
    "single_plain": {"single_plain": SINGLE | {"momentum": 0.0}, "hundred_plain": HUNDRED},
}
QUICK = {"networks": 2, "epochs": 4, "sentences": 600}
Numbers = dict[str, Any]


def measure_seconds(_: argparse.Namespace, changes: Numbers) -> Numbers:
    """Measure the time of the second epoch, for one network and for ten."""
    found: Numbers = {}
    epochs = TrainingSettings(recipe="paper").epochs
    for networks in (1, 10):
        moments = [perf_counter()]
        train(
            "paper",
            on_epoch=lambda *_, seen=moments: seen.append(perf_counter()),
            **changes | {"recipe": "paper", "networks": networks, "epochs": 2},
        )
        epoch = moments[2] - moments[1]
        found[f"{networks}_networks"] = {
            "seconds_per_epoch": epoch,
            "seconds_first_epoch": moments[1] - moments[0],
            f"seconds_{epochs}_epochs_extrapolated": moments[1] - moments[0] + epoch * (epochs - 1),
        }
    return found


def measure_cv(arguments: argparse.Namespace, changes: Numbers) -> Numbers:
    """Cross-validate the strengths of the weight decay."""
    began = perf_counter()
    networks = arguments.networks or 1
    given = changes | {"recipe": "paper", "networks": networks}
    curves = cross_validate("paper", folds=arguments.folds, strengths=STRENGTHS, **given)
    choice = choose_decay(curves)
    print(choice.table.to_string())
    return {
        "settings": given,
        "folds": arguments.folds,
        "best": choice.best,
        "strongest_within_one_standard_error": choice.strongest,
        "table": choice.table.reset_index().to_dict("records"),
        "seconds": perf_counter() - began,
    }


def measure_reversals(
    models: list[SentenceGestalt], world: World
) -> dict[str, Float[np.ndarray, " networks"]]:
    """Return mean logits at the last word of the study's reversals, by kind of word and role."""
    study = load_study("paper")
    stimuli = load_stimuli(study.stimuli_path, world)
    number = {unit: index for index, unit in enumerate(world.units)}
    found: dict[str, list[np.ndarray]] = {}
    for item in stimuli.items:
        reversal, congruent = (stimuli.rows[each, item] for each in ("reversal", "congruent"))
        tokens = jnp.asarray(world.encode(reversal.utterance.first(reversal.critical)))
        own = {*reversal.tracked.values(), *congruent.tracked.values()}
        others = [number[unit] for unit in study.stimuli.non_relevant if unit not in own]
        for role in ("agent", "patient"):
            probe = jnp.asarray(world.find_probe_units(role)[None], dtype=jnp.float32)
            logits = np.stack([_ask(model, tokens, probe) for model in models])
            columns = {
                "indicated": [number[reversal.tracked[role]]],
                "plausible": [number[congruent.tracked[role]]],
                "non-relevant": others,
            }
            for kind, units in columns.items():
                found.setdefault(f"{kind}_{role}", []).append(logits[:, units].mean(axis=1))
    return {name: np.mean(values, axis=0) for name, values in found.items()}


@jax.jit
def _ask(
    model: SentenceGestalt, tokens: Int[Array, "words 2"], probe: Float[Array, "1 units"]
) -> Float[Array, " units"]:
    last = model.listen(tokens)[-1:]
    where = jnp.zeros(1, dtype=jnp.int32)
    return model.query.logits(model.query.features(last, probe, where, where))[0]


def compare_means(
    ours: Float[np.ndarray, " networks"], theirs: Float[np.ndarray, " networks"]
) -> Numbers:
    """Compare two samples of networks: means, spread and Welch intervals of the difference."""
    mean = {"ours": stats.ttest_1samp(ours, 0), "torch": stats.ttest_1samp(theirs, 0)}
    welch = stats.ttest_ind(ours, theirs, equal_var=False)
    narrow = welch.confidence_interval(0.9)
    spread = float(np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 2))
    within = float(max(abs(narrow.low), abs(narrow.high)))
    return {
        "ours": float(ours.mean()),
        "torch": float(theirs.mean()),
        **{f"{who}_95": list(map(float, test.confidence_interval())) for who, test in mean.items()},
        "ours_sd": float(ours.std(ddof=1)),
        "torch_sd": float(theirs.std(ddof=1)),
        "difference": float(ours.mean() - theirs.mean()),
        "difference_95": list(map(float, welch.confidence_interval())),
        "p": float(welch.pvalue),
        "equivalent_within": within,
        "equivalent_within_sd": within / spread,
        "p_spread": float(stats.levene(ours, theirs).pvalue),
    }


def measure_torch(arguments: argparse.Namespace, changes: Numbers) -> Numbers:
    """Train the same recipe here and in PyTorch, and compare the networks' answers."""
    import torch

    networks = arguments.networks or 10
    world = World.load("paper")
    settings = TrainingSettings(**changes | {"recipe": "paper", "networks": networks})
    began = perf_counter()
    run = train(world, settings)
    seconds = {"ours": perf_counter() - began}
    device, began = "cuda" if torch.cuda.is_available() else "cpu", perf_counter()
    fit = partial(_fit_torch, settings=settings, threads=arguments.threads, device=device)
    spawn = multiprocessing.get_context("spawn")  # JAX is running: a fork would be unsafe
    with ProcessPoolExecutor(arguments.workers, mp_context=spawn) as pool:
        fitted = list(pool.map(fit, range(networks)))
    seconds["torch"] = perf_counter() - began
    run_epochs = {
        "ours": int(run.curves["epoch"].nunique()),
        "torch": sum(len(history) for _, history in fitted),
    }
    return {
        "networks": networks,
        "settings": asdict(settings),
        "threads": arguments.threads,
        "workers": arguments.workers,
        "device": device,
        "seconds": seconds,
        "seconds_per_epoch": {who: seconds[who] / run_epochs[who] for who in seconds},
        **_compare_runs(run, fitted),
    }


def _compare_runs(run: Run, fitted: list[tuple[SentenceGestalt, list[float]]]) -> Numbers:
    """Compare the networks of both on reversals and held-out sentences, and print the result."""
    ours = measure_reversals(list(run.models), run.world)
    theirs = measure_reversals([model for model, _ in fitted], run.world)
    ours["held_out_loss"] = run.curves.groupby("network")["test_loss"].min().to_numpy()
    theirs["held_out_loss"] = np.array([min(history) for _, history in fitted])
    compared = {name: compare_means(ours[name], theirs[name]) for name in ours}
    for name, numbers in compared.items():
        print(
            f"{name:22} {numbers['ours']:8.3f} {numbers['torch']:8.3f}  difference 95 % "
            f"{numbers['difference_95'][0]:.3f} to {numbers['difference_95'][1]:.3f}, equivalent "
            f"within {numbers['equivalent_within']:.3f} ({numbers['equivalent_within_sd']:.2f} sd)"
        )
    return {
        "compared": compared,
        "values": {
            who: {name: np.asarray(values, float).tolist() for name, values in each.items()}
            for who, each in (("ours", ours), ("torch", theirs))
        },
    }


def _fit_torch(
    seed: int, settings: TrainingSettings, threads: int, device: str
) -> tuple[SentenceGestalt, list[float]]:
    """Train one network in PyTorch; return it as one of ours, and its held-out losses."""
    import torch

    from benchmarks.torch_reference import Data, collect_data, convert, fit_recipe, split

    torch.set_num_threads(threads)
    halves = split(World.load("paper"), settings)
    kept, held_out = (Data(*(t.to(device) for t in collect_data(part))) for part in halves)
    network, history = fit_recipe(kept, held_out, settings, seed=seed)
    print(f"torch, network {seed}: best loss {min(history):.4f}", flush=True)
    return jax.tree.map(np.asarray, convert(network)), history


def measure_sg2018(arguments: argparse.Namespace, changes: Numbers) -> Numbers:
    """Train by single sentences and by batches, and compare weights and answers."""
    from equivocal.network.probing import compute_activations

    world = World.load("sg2018")
    sentences = changes.get("sentences", 20_000)
    usual = {"recipe": "sg2018", "sentences": sentences, "networks": arguments.networks or 1}
    start = train(world, **usual, learning_rate=1e-30)
    found: Numbers = {"sentences": int(sentences)}
    for reference, others in BATCHES.items():
        runs = {name: train(world, **usual, **how) for name, how in others.items()}
        single = runs.pop(reference)
        found[reference] = _describe_run(single)
        answers = list(compute_activations(single.models, single.held_out))
        for name, run in runs.items():
            models = zip(single.models, run.models, start.models, strict=True)
            apart = [_measure_distance(a, b) / _measure_distance(a, c) for a, b, c in models]
            other = compute_activations(run.models, single.held_out)
            differences = [np.abs(a - b) for a, b in zip(answers, other, strict=True)]
            found[name] = _describe_run(run) | {
                "weights_apart": apart,
                "answers_apart_mean": [float(each.mean()) for each in differences],
                "answers_apart_most": [float(each.max()) for each in differences],
            }
    return found


def _describe_run(run: Run) -> Numbers:
    losses = run.curves.groupby("network")["test_loss"].min().tolist()
    return {"seconds": run.seconds, "held_out_loss": losses}


def _measure_distance(one: SentenceGestalt, other: SentenceGestalt) -> float:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return float(np.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in pairs)))


def train_networks(arguments: argparse.Namespace, changes: Numbers) -> Numbers:
    """Train networks of one recipe and save them in a folder."""
    given = changes | {"recipe": arguments.recipe}
    if arguments.networks:
        given["networks"] = arguments.networks
    run = train(arguments.world, **given)
    run.save(arguments.out)
    print(run.scores.to_string())
    return {"settings": given, "seconds": run.seconds, "folder": str(arguments.out)}


MAKERS = {
    "seconds": measure_seconds,
    "cv": measure_cv,
    "torch": measure_torch,
    "sg2018": measure_sg2018,
    "networks": train_networks,
}


def main() -> None:
    """Measure the requested parts and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=MAKERS, default=list(MAKERS)[:-1])
    parser.add_argument("--quick", action="store_true", help="does it run? not to be quoted")
    parser.add_argument("--networks", type=int)
    parser.add_argument("--epochs", type=int, help="passes, where not those of the recipe")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--sentences", type=int, help="heard; of `sg2018`, 20,000 unless given")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch on a CPU")
    parser.add_argument("--workers", type=int, default=1, help="processes that train in PyTorch")
    parser.add_argument("--recipe", default="paper", help="of `networks`")
    parser.add_argument("--world", default="paper", help="of `networks`")
    parser.add_argument("--out", type=Path, default=Path("runs/recipes"), help="of `networks`")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    changes: Numbers = {}
    folder = arguments.results
    if arguments.quick:
        changes = {name: QUICK[name] for name in ("epochs", "sentences")}
        arguments.networks, arguments.folds = QUICK["networks"], 2
        folder = folder / "quick"
    for name in ("epochs", "sentences"):
        if getattr(arguments, name):
            changes[name] = getattr(arguments, name)
    for part in arguments.only:
        found = MAKERS[part](arguments, changes)
        content = {"machine": describe_machine(), "backend": jax.default_backend(), **found}
        print(part, json.dumps({k: v for k, v in found.items() if k not in ("values", "table")}))
        write_text_atomically(folder / f"recipes_{part}.json", json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
