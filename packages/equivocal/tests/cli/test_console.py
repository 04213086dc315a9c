"""Progress: lines at least every ten seconds once something takes long, none for what is quick."""

import re
import threading
import time

import numpy as np
import pytest

from equivocal.beliefs import LayerRows, SamplerSettings, infer_posterior
from equivocal.progress import progress, report_part


def test_a_long_step_prints_lines_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody reports anything meanwhile, as in a program that compiles."""
    threads = threading.active_count()
    with progress("compiling", pause=0.2):
        time.sleep(1.5)
    assert threading.active_count() == threads
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 7  # one in 0.2 s, or fewer where cores are busy
    assert all(re.fullmatch(r"compiling: starting, \d s so far", line) for line in lines)
    time.sleep(0.5)
    assert capsys.readouterr().err == ""


def test_an_estimate_is_not_repeated_once_it_has_passed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A step that stays at 99 % says how long it has taken, not that it ends in a second."""
    with progress("sampling", quiet=0.0, pause=0.2) as advance:
        advance(0, 1, "network 0")
        report_part(1, 4, "steps")
        time.sleep(1.2)
        report_part(2, 4, "steps")  # half of it in 2.4 s, so as much is left
        time.sleep(4)
    told = capsys.readouterr().err.splitlines()
    lefts = [int(found[1]) for line in told if (found := re.search(r"about (\d) s left", line))]
    assert lefts[0] >= 2
    assert lefts == sorted(lefts, reverse=True)
    assert "left" not in told[-1]
    assert re.fullmatch(r"sampling: steps 50%, network 0, \d s so far", told[-1])


def test_a_posterior_reports_its_share_of_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, (40, 3)).astype(float)
    layer = LayerRows(rng.normal(size=(40, 4)), targets, np.ones(40), np.zeros((3, 4)))
    sampler = SamplerSettings(method="dropout-deterministic", num_steps=100)
    infer_posterior(layer, sampler, 1.0, 0)  # compiles; lines become fewer after a slow step
    with progress("posteriors", quiet=0.0, pause=0.005) as advance:
        advance(2, 5, "network 2")
        infer_posterior(layer, sampler, 1.0, 0)
    told = capsys.readouterr().err.splitlines()
    lines = [line for line in told if "starting" not in line]  # before the step, on busy cores
    assert lines[0].startswith("posteriors: 2/5, ")
    found = [re.match(r"posteriors: 2/5, sampling (\d+)%, network 2", line) for line in lines]
    shares = [int(match[1]) for match in found if match]
    assert shares == sorted(shares)
    assert shares  # of some of 100 steps, most of them shorter than the pause between lines
    assert shares[-1] <= 99  # only `advance` ends the step
