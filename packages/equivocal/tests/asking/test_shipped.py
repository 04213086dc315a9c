"""The networks that come with the package: their files, their answers, and how they are made."""

import json
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from scripts import ship_networks

import equivocal
from equivocal.asking.listeners import Listeners
from equivocal.asking.posteriors import open_shipped
from equivocal.asking.source import (
    DEFAULT,
    FORMAT,
    AskSettings,
    Source,
    find_shipped,
    list_shipped,
    read_header,
)
from equivocal.asking.summary import describe_step
from equivocal.network import Run
from equivocal.world import World

WORLDS = ("paper", "slips")
REVERSAL = "during dinner, the pizza eats the woman"
MOST_BYTES = 15_000_000


@pytest.fixture(scope="module", params=WORLDS)
def mind(request: pytest.FixtureRequest) -> Listeners:
    return Listeners(Source.choose(world=request.param))


def test_files_are_small_and_say_what_they_hold() -> None:
    files = list_shipped()
    assert tuple(files) == WORLDS
    assert sum(path.stat().st_size for path in files.values()) < MOST_BYTES
    for name, path in files.items():
        raw = path.read_bytes()  # as another language reads it
        (size,) = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8 : 8 + size])
        about = json.loads(header["__metadata__"]["equivocal"])
        assert about == read_header(path)
        assert about["format"] == FORMAT
        assert about["world"] == name
        assert about["networks"] >= 3
        assert about["training"]["recipe"] == "paper"
        assert about["stops"] == [*ship_networks.SETTINGS.kept_steps[1:], "converged"]
        assert about["prior_variances"] == list(DEFAULT.prior_variances)
        ranks = load_file(path)["0/rank"]
        assert header["0/directions"]["shape"] == [int(ranks.sum()), 101]


def test_an_altered_world_has_no_networks_in_the_package() -> None:
    assert find_shipped(World.load("slips")) is not None
    assert find_shipped(World.load("slips", slip=0.1)) is None
    other = replace(DEFAULT, kept_steps=(0, 17))
    assert Source.choose(world="slips", settings=other).shipped is None
    assert Source.choose(world="both_ways").shipped is None


def test_first_answer_trains_nothing(tmp_path: Path) -> None:
    """A fresh installation, an empty cache: no slow import, no file is written."""
    code = (
        "import sys, equivocal; "
        f"answer = equivocal.ask({REVERSAL!r}); "
        "print(answer.world, len(answer.networks)); "
        "sys.exit(any(name in sys.modules for name in ('jax', 'pandas', 'scipy')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"EQUIVOCAL_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "slips 3\n"
    assert done.stderr == ""
    assert not (tmp_path / "cache").exists()


def test_together_is_the_mean_of_the_networks(mind: Listeners) -> None:
    answer = mind.answer(REVERSAL, step=17)
    assert len(answer.networks) == 3
    for name in ("mle", "bayes", "semantic_update"):
        alone = np.mean([getattr(one, name) for one in answer.networks], axis=0)
        np.testing.assert_allclose(getattr(answer, name), alone, rtol=1e-5)
    lows = np.array([one.low for one in answer.networks])[:, :, answer.candidates]
    low = answer.low[:, answer.candidates]
    assert (lows.min(axis=0) - 1e-5 <= low).all()
    assert (low <= lows.max(axis=0) + 1e-5).all()
    # what is epistemic is the doubt within networks, and the doubt between them
    within = np.mean([one.epistemic for one in answer.networks], axis=0).mean(axis=1)
    np.testing.assert_allclose(answer.between, answer.epistemic.mean(axis=1) - within, atol=1e-6)
    own = np.mean([one.uncertainty for one in answer.networks], axis=0)
    np.testing.assert_allclose(answer.between, answer.uncertainty - own, atol=1e-5)
    assert len(answer.to_dict()["networks"]) == 3


def test_answers_are_those_of_the_posterior_unless_a_step_is_asked_for(mind: Listeners) -> None:
    default, converged = mind.answer(REVERSAL), mind.answer(REVERSAL, step="converged")
    np.testing.assert_array_equal(default.bayes, converged.bayes)
    assert (default.step, default.time) == ("converged", None)
    paper = mind.answer(REVERSAL, step=17)
    assert (
        describe_step(17, paper.time) == "step 17 (τ = 0.0011)"
    )  # of the converged one, τ is infinite


def test_every_stop_answers(mind: Listeners) -> None:
    """From the prior, where all is open, to the posterior; wider priors have more doubt."""
    for variance in DEFAULT.prior_variances:
        times = [mind.answer("egg", prior_variance=variance, step=s).time for s in mind.steps]
        assert times[0] == 0
        assert times == sorted(times)
        start, end = (
            mind.answer(REVERSAL, prior_variance=variance, step=step) for step in (0, "converged")
        )
        assert np.nanmean(start.high - start.low) > np.nanmean(end.high - end.low)
    wide, narrow = (mind.answer(REVERSAL, prior_variance=v, step=17) for v in (5.0, 0.01))
    assert wide.epistemic.mean() > narrow.epistemic.mean()


def test_congruent_sentences_are_understood() -> None:
    """The networks have learned their world: who eats what, where that is certain."""
    for world in WORLDS:
        answer = equivocal.ask("during dinner, the woman eats the pizza", world=world)
        assert answer.belief(-1, "agent", "woman").bayes > 0.9
        assert answer.belief(-1, "patient", "pizza").bayes > 0.8
        assert answer.summary.startswith("Reads: the woman eats the pizza (")
    reversed_ = equivocal.ask(REVERSAL)
    assert reversed_.belief(-1, "agent", "pizza").truth == pytest.approx(0.477, abs=5e-4)
    first, second, exact, *_ = reversed_.summary.split("\n")
    named = [f"{b.filler} {100 * b.bayes:.0f} %" for b in reversed_.readings()[0].parts.values()]
    assert first == f"Reads: the pizza eats the woman (agent {named[0]}, patient {named[1]})."
    assert second.startswith("Rival: the woman eats the pizza (agent woman ")
    assert exact == "Exact probability of the reading 47.7 %, of the other 52.3 %."
    assert reversed_.summarise(0).startswith("Expects: ")  # nobody has been named
    assert reversed_.summarise(1).startswith("Reads")


def test_packing_keeps_every_belief(small_run: Run, tmp_path: Path, cache: Path) -> None:
    """A small network through the same code, packed and read back: within the bounds it keeps."""
    small_run.save(tmp_path / "run")
    settings = AskSettings(kept_steps=(0, 2), tolerance=0.05, training={})
    source = Source.choose(run=tmp_path / "run", network=0, settings=settings)
    path = ship_networks.write(source.world, [source], tmp_path / "garden.safetensors")
    (packed,) = open_shipped(path)
    own = Listeners(source)
    again = Listeners(source)
    again.members = [packed]
    for text in ("the cat chases the mouse", "the mouse chases the cat on the lawn"):
        for variance in settings.prior_variances:
            for step in (0, 2, "converged"):
                a, b = (m.answer(text, prior_variance=variance, step=step) for m in (own, again))
                possible = [p for p in range(len(a.words)) if a.is_possible(p)]
                np.testing.assert_allclose(a.mle, b.mle, atol=1e-6)
                worst = np.nanmax(np.abs(a.bayes - b.bayes)[possible])
                # the bound for the packed directions, and what float16 does to the means
                assert worst < ship_networks.MOST_OFF + 0.002
                for name in ("low", "high"):
                    off = np.abs(getattr(a, name) - getattr(b, name))[possible]
                    assert np.nanmax(off) < ship_networks.MOST_OFF_INTERVAL + 0.002


@pytest.mark.slow
def test_a_network_trained_again_believes_the_same(tmp_path: Path, cache: Path) -> None:
    """One network of `slips` by the documented settings, alone instead of three side by side.

    Rounding differs then, and sixty epochs amplify it, mostly for rare reversals: seen 0.007 on
    average over trained beliefs and 0.036 root mean square, against 0.041 with other seeds.
    """
    world = World.load("slips")
    alone = ship_networks.TRAINING.change({"networks": 1})
    ship_networks.train_or_load(world, alone, tmp_path / "run")
    compare_with_shipped(tmp_path / "run")


def compare_with_shipped(run: Path) -> None:
    own = Listeners(Source.choose(run=run, settings=ship_networks.SETTINGS))
    shipped = Listeners(Source.choose(world="slips"))
    for step in (0, 17):
        trained, sampled, off_own, off_kept = [], [], [], []
        for sentence in own.world.sentences[::10]:
            again = own.answer(sentence.text, step=step)
            kept = shipped.answer(sentence.text, step=step).networks[0]
            trained.append(np.nanmean(np.abs(again.mle - kept.mle)))
            sampled.append(np.nanmean(np.abs(again.bayes - kept.bayes)))
            off_own.append(np.nanmean((again.bayes - again.truth) ** 2))
            off_kept.append(np.nanmean((kept.bayes - kept.truth) ** 2))
        assert np.mean(trained) < 0.015
        assert np.mean(sampled) < 0.03
        # and as near to the truth as the other
        assert np.sqrt(np.mean(off_own)) == pytest.approx(np.sqrt(np.mean(off_kept)), abs=0.02)
