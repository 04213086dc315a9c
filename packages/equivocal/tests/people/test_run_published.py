"""`compare_people` and `equivocal people`, and the signals of the noisy channel, end to end."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.doubt.command import show_tables
from equivocal.measuring.noisy_channel import DATA, load_reversals, measure_ideal
from equivocal.measuring.signals import measure_signals
from equivocal.people.questions import ask_about_items, believe_ideal
from equivocal.people.run_published import PeopleResult, compare_people
from equivocal.world import World
from equivocal.world.reweighting import remove_noise
from lastlayer.errors import UserError
from tests.cli.commands import fails, run
from tests.conftest import SMALL

FEW = replace(SMALL, epochs=2, sentences=150)
KINDS = [
    *("ideal", "trained", "paper's sampler", "posterior"),
    *("posterior, b by sentence", "deep ensemble"),
    *("ensemble, b = 1/10", "ensemble, b = 1/300"),
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> PeopleResult:
    folder = tmp_path_factory.mktemp("people")
    found = compare_people("both_ways", folder, training=FEW)
    assert found.settings["networks"] == 2
    assert {path.name for path in (folder / "figures").glob("*.png")} == {
        "people.png",
        "against_ideal.png",
    }
    for name, table in found.tables.items():
        assert len(pd.read_csv(folder / "tables" / f"{name}.csv")) == len(table), name
    settings = tomllib.loads((folder / "people.toml").read_text())
    assert settings["parameters"]["rare"] == 0.1
    return found


def test_every_comprehender_is_compared_with_every_number(result: PeopleResult) -> None:
    table = result.tables["people"]
    assert list(dict.fromkeys(table["comprehender"])) == KINDS
    found = table[table["measure"].isin(["not literal", "reversed", "area"])]
    assert found[found["comparable"] != "no"]["found"].between(0, 1).all()
    people = result.tables["readings"].set_index("comprehender")["participants"]
    assert {name: people[name].iloc[0] for name in KINDS} == dict(
        zip(KINDS, (1, 2, 10, 10, 10, 1, 1, 1), strict=True)
    )
    assert result.summary[0].startswith("People read about 25 % of unlikely passives")


def test_printed_tables_are_narrow_and_repeat_nothing(
    result: PeopleResult, capsys: pytest.CaptureFixture[str]
) -> None:
    show_tables(result.tables, 2)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    assert printed.count("list effect") == 1
    assert [line.split()[-9:] for line in printed.splitlines() if "not literal, any active" in line]


def test_networks_are_compared_with_the_exact_beliefs(result: PeopleResult) -> None:
    asked = ask_about_items(World.load("both_ways"))
    items = result.tables["items"]
    exact = items[items["comprehender"] == "trained"]["exact"].to_numpy()
    np.testing.assert_allclose(exact, believe_ideal(asked)[0, :, 0])
    ensemble, trained = (
        items[items["comprehender"] == name]["literal"].to_numpy()
        for name in ("deep ensemble", "trained")
    )
    np.testing.assert_allclose(ensemble, trained, rtol=1e-6)
    table = result.tables["against_ideal"].set_index(["comprehender", "plausibility"])
    own = items[items["comprehender"] == "deep ensemble"]
    r = np.corrcoef(own["exact"], own["literal"])[0, 1]
    assert table.loc[("deep ensemble", "all"), "correlation"] == pytest.approx(r)
    assert (table["divergence"] > 0).all()


def test_a_fitted_world_is_nearer_to_people(result: PeopleResult, tmp_path: Path) -> None:
    """One parameter is fitted; all later results are those of the world with the fitted value."""
    how = {"networks": 0, "quick": True, "fit": True, "parameters": ["rare"]}
    found = compare_people("both_ways", tmp_path, **how)
    deviances = [each.tables["scores"]["deviance"].iloc[0] for each in (result, found)]
    assert deviances[1] < deviances[0] - 1
    assert np.isnan(found.tables["scores"]["floor"].iloc[0])
    value = found.tables["fit"].set_index("parameter").loc["rare", "estimate"]
    assert found.settings["parameters"]["rare"] == pytest.approx(value, rel=1e-3)
    shares = found.tables["fit_shares"]
    # the prediction equals that of a world loaded with the fitted value
    there = ask_about_items(World.load("both_ways", rare=found.settings["parameters"]["rare"]))
    literal = believe_ideal(there)[0, there.select("active", "any"), 0].mean()
    assert shares["fitted"].iloc[0] == pytest.approx(1 - literal, rel=1e-3)
    assert (tmp_path / "figures" / "fit.png").exists()
    _check_ranges(found)
    said = next(line for line in found.summary if line.startswith("Over the values that the sh"))
    assert "; w 0." in said
    assert found.summary[0].startswith("Fitted to 3 shares of people's readings")
    assert any(line.startswith("What the shares determine of them") for line in found.summary)


def _check_ranges(found: PeopleResult) -> None:
    """Check that predictions cover the values of `rare` that the shares allow."""
    own = found.tables["people"][found.tables["people"]["found"].notna()]
    assert set(own["found_interval"]) == {"profile range"}
    assert (own["found_low"] <= own["found"] + 1e-3).all()  # fitted values are rounded
    assert (own["found"] <= own["found_high"] + 1e-3).all()
    profiles = found.tables["profiles"]
    near = profiles[profiles["deviance"] <= profiles["deviance"].min() + 3.84]
    assert (near["at_rare"] == near["value"]).all()
    w = own[own["measure"] == "w"].iloc[0]
    assert w["found_high"] - w["found_low"] > 0.01
    for value, end in ((near["value"].min(), "found_high"), (near["value"].max(), "found_low")):
        there = ask_about_items(World.load("both_ways", rare=value))
        q = believe_ideal(there)[0, there.select("any", "any")]
        assert w[end] == pytest.approx(1 - (q**2).sum(axis=-1).mean(), abs=1e-6)


def test_the_command(tmp_path: Path) -> None:
    made = run("people", "--networks", "0", "--out", "people", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    said = made.stdout.partition("\n")[0]
    assert said.startswith("People read about 25 % of unlikely passives the other way round; the ")
    assert "them" not in said  # there is one comprehender
    assert "All comprehenders" not in made.stdout
    assert "No counterpart here: people's b (0.176); w/b (0.480).\n" in made.stdout
    for text in ("0.085", "0.176", "0.480", "0.950", "0.926", "0.777", "0.790", "Not comparable:"):
        assert text in made.stdout, text
    assert "--fit" in fails("people", "--parameter", "rare", "--out", "no", cwd=tmp_path)
    said = fails("people", "--world", "both_way", "--out", "no", cwd=tmp_path)
    assert "there is no world 'both_way': did you mean 'both_ways'?" in said
    assert not (tmp_path / "no" / "tables").exists()
    (tmp_path / "mine" / "tables").mkdir(parents=True)
    taken = fails("people", "--networks", "0", "--out", "mine", cwd=tmp_path)
    assert "would be overwritten" in taken


def test_a_world_without_unlikely_sentences_is_compared_where_possible(
    tmp_path: Path, garden: World, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compare_people(garden, tmp_path, networks=0)
    assert "has no unlikely passives" in found.summary[0]
    own = found.tables["people"]
    assert own.loc[own["construction"] == "passive", "found"].isna().all()
    show_tables(found.tables, 0)
    printed = capsys.readouterr().out
    assert "–" not in printed
    assert "None of people's 13 numbers has a counterpart in this world." in printed


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
