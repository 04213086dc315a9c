"""The signals of the noisy channel, end to end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from equivocal.measuring.noisy_channel import DATA, load_reversals, measure_ideal
from equivocal.measuring.signals import measure_signals

from equivocal.world import World
from equivocal.world.reweighting import remove_noise
from lastlayer.errors import UserError
from tests.conftest import SMALL

FEW = replace(SMALL, epochs=2, sentences=150)


def test_signals_of_the_ideal_and_of_networks(tmp_path: Path) -> None:
    found = measure_signals(tmp_path, training=FEW)
    words = found.tables["words"]
    counts = words.groupby(["comprehender", "signal"])["value"].size()
    one = (3 * 8 + 2 * 8) * 3  # sentences × words
    assert counts["ideal", "N400"] == counts["ideal", "P600"] == one
    assert counts["networks", "N400"] == counts["networks", "P600"] == 2 * one
    exact = measure_ideal(load_reversals())["value"].to_numpy()
    np.testing.assert_array_equal(words[words["comprehender"] == "ideal"]["value"], exact)
    findings = found.tables["findings"]
    assert len(findings) == 2 * 6
    assert set(findings[findings["comprehender"] == "ideal"]["verdict"]) == {"held"}
    assert found.summary[0].startswith("Exploratory: ideal: 6 of 6 findings hold")
    assert (tmp_path / "figures" / "signals.png").exists()


def test_signals_need_noise(tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.toml"
    text = (DATA / "unlikely_reversals.toml").read_text()
    silent = "both_ways:exchange=0,deletion=0,insertion=0,case=0"
    quiet.write_text(text.replace('"both_ways"', f'"{silent}"'))
    quiet.with_suffix(".csv").write_text((DATA / "unlikely_reversals.csv").read_text())
    with pytest.raises(UserError, match="world 'both_ways' has no noise, so that what is inferred"):
        measure_signals(tmp_path / "out", suites=[quiet], networks=0)
    both = [quiet, Path(str(DATA / "impossible_reversals.toml"))]
    with pytest.raises(UserError, match="suites must be of one world, got"):
        measure_signals(tmp_path / "out", suites=both, networks=0)


def test_a_silenced_world_is_the_one_without_noise() -> None:
    silent = remove_noise(World.load("both_ways"))
    wanted = World.load("both_ways", exchange=0, deletion=0, insertion=0, case=0)
    assert not silent.has_noise
    assert silent.sentences == wanted.sentences
    assert silent.parameters == World.load("both_ways").parameters
