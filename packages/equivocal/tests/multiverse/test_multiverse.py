"""The effect over a grid of open choices, on small networks of the example world."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit
from tests.cli.commands import fails
from tests.conftest import SMALL
from tests.faults.damage import flip

from equivocal.beliefs import collect_last_layer, infer_posterior
from equivocal.multiverse.effects import (
    average_cells,
    list_roles,
    make_curve_table,
    tabulate_effects,
)
from equivocal.multiverse.grid import Point, load_grid
from equivocal.multiverse.run import run_multiverse
from equivocal.network import Run
from equivocal.world import read_example
from lastlayer.errors import UserError

STUDY = f"""
name = "garden"
world = "garden.toml"
[training]
sentences = {SMALL.sentences}
epochs = {SMALL.epochs}
steps = {SMALL.steps}
questions = {SMALL.questions}
learning_rate = {SMALL.learning_rate}
hidden = {SMALL.hidden}
gestalt = {SMALL.gestalt}
[stimuli]
file = "garden.csv"
[inference.samplers.paper]
method = "dropout-deterministic"
num_particles = 6
num_steps = 3
[inference.samplers.converged]
method = "exact-flow"
"""
STIMULI = """condition,item,sentence,critical_word,tracked_units
congruent,cat,the dog chases the cat,chases,agent=dog; patient=cat
congruent,bone,the dog finds the bone,finds,agent=dog; patient=bone
reversal,cat,the cat chases the dog,chases,agent=cat; patient=dog
reversal,bone,the bone finds the dog,finds,agent=bone; patient=dog
"""
GRID = """
study = "study.toml"
[one_at_a_time]
prior_variance = [1.0, 0.01]
weight_decay = [1e-4, 0.01]
rows = ["every word", "last word"]
[factorial]
num_steps = [3, 6]
step_size = ["automatic", 0.01]
"""


def write_grid(folder: Path, text: str = GRID) -> Path:
    (folder / "garden.toml").write_text(read_example())
    (folder / "study.toml").write_text(STUDY)
    (folder / "garden.csv").write_text(STIMULI)
    (folder / "grid.toml").write_text(text)
    return folder / "grid.toml"


Finished = tuple[tuple[Point, ...], Path, pd.DataFrame]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("multiverse")
    grid = load_grid(write_grid(folder))
    result = run_multiverse(grid, folder / "out")
    return grid, folder / "out", result.tables["multiverse"]


def test_grid_varies_one_at_a_time_and_in_all_combinations(tmp_path: Path) -> None:
    own, *points = [point.varied for point in load_grid(write_grid(tmp_path))]
    assert (own["num_particles"], own["num_steps"], own["step_size"]) == (6, 3, "automatic")
    changed = [{name for name, value in one.items() if value != own[name]} for one in points]
    alone = [{"prior_variance"}, {"weight_decay"}, {"rows"}]
    assert changed == [*alone, {"step_size"}, {"num_steps"}, {"num_steps", "step_size"}]


def test_shipped_grids_start_from_the_study() -> None:
    small, full = load_grid("small"), load_grid("full")
    assert small[0] == full[0]
    assert 30 <= len(small) <= 40
    assert len(full) == 1728
    assert small[0].settings.training_settings.networks == 2
    assert load_grid("small", networks=3)[0].settings.training_settings.networks == 3


def test_row_is_the_effect_computed_by_hand(finished: Finished) -> None:
    """The study's own specification, from particles and weights."""
    grid, folder, table = finished
    row = table.iloc[0]
    sampler = grid[0].settings.inference.samplers["paper"]
    run = next(
        found
        for path in (folder / "networks").iterdir()
        if (found := Run.load(path)).settings.weight_decay == 1e-4
    )
    changes = []
    for index, network in enumerate(run.networks):
        layer = collect_last_layer(run, network, "every word")
        for text, agent in (("cat chases", "cat"), ("bone finds", "bone")):
            unit = run.world.units.index(agent)
            psi = network.probe_features(text, ["agent"]).values[-1, 0]
            others = [run.world.units.index(name) for name in ("cat", "dog", "bone")]
            particles = infer_posterior(layer.select(others), sampler, 1.0, index).particles
            bayes = expit(particles[others.index(unit)] @ psi).mean()
            changes.append(bayes - expit(layer.trained[unit] @ psi))
    assert row["effect_agent"] == pytest.approx(np.mean(changes), rel=1e-5)
    by_network = np.reshape(changes, (2, 2)).mean(axis=1)
    half = stats.t.ppf(0.975, 1) * np.std(by_network, ddof=1) / np.sqrt(2)
    assert row["high_agent"] - row["effect_agent"] == pytest.approx(half, rel=1e-4)
    assert row["effect_agent"] == pytest.approx(row["bayes_agent"] - row["mle_agent"], rel=1e-6)
    assert (row["networks"], row["num_items"]) == (2, 2)
    assert row["time"] > 0


def test_intervals_hold_the_truth_where_networks_differ() -> None:
    """Ten networks, eight items, no effect on average, but networks differ more than items do."""
    rng, above = np.random.default_rng(0), []
    trained = np.full((10, 8), 0.4)
    for _ in range(400):
        change = rng.normal(0, 0.05, (10, 1)) + rng.normal(0, 0.02, (10, 8))
        above.append(average_cells(trained, trained + change)["low"] > 0)
    # 2.5 % are expected, with a standard error of 0.8; over the 80 cells it would be 25 %
    assert np.mean(above) < 0.06
    alone = average_cells(trained[:1], trained[:1] + 0.1)
    assert np.isnan(alone["low"])


def test_every_choice_reaches_the_numbers(finished: Finished) -> None:
    _, _, table = finished
    assert table["effect_agent"].nunique() == len(table)
    assert len(list((finished[1] / "networks").iterdir())) == 2  # another weight decay
    assert (table["num_items"] == 2).all()
    fixed = table[table["step_size"] == 0.01]
    assert fixed["time"].tolist() == pytest.approx([0.03, 0.06])


def read_times(folder: Path) -> dict[Path, int]:
    """Return when each result and network was written, which changes if it is computed again."""
    kept = [path for name in ("results", "networks") for path in (folder / name).rglob("*.*")]
    return {path: path.stat().st_mtime_ns for path in kept}


def test_interrupted_run_ends_with_the_same_numbers(
    finished: Finished,
) -> None:
    grid, folder, table = finished
    path = folder / "tables" / "multiverse.csv"
    before = path.read_text()
    path.unlink()
    lost = folder / "results" / f"{table['key'].iloc[-1]}.json"
    times = read_times(folder)
    lost.unlink()
    run_multiverse(grid, folder)
    assert path.read_text() == before
    again = read_times(folder)
    assert {one for one in again if again[one] != times[one]} == {lost}
    flip(lost, 0.5)
    with pytest.warns(UserWarning, match="checksum mismatch"):
        run_multiverse(grid, folder)
    assert path.read_text() == before
    at_the_end = read_times(folder)
    assert {one for one in at_the_end if at_the_end[one] != again[one]} == {lost}


def test_summary_says_what_moves_the_effect(finished: Finished) -> None:
    own = finished[2].iloc[[0] * 4].reset_index(drop=True)
    own["num_steps"] = [3, 6, 3, 3]
    own["prior_variance"] = [1.0, 1.0, 5.0, 0.01]
    own["effect_agent"] = [0.1, 0.4, 0.15, -0.05]
    assert list_roles(own) == ["agent", "patient"]
    agent = tabulate_effects(own).set_index("role").loc["agent"]
    assert agent["share_positive"] == 0.75
    assert agent["median"] == pytest.approx(0.125)
    assert np.isnan(tabulate_effects(own.assign(low_agent=np.nan))["share_interval_above"][0])
    assert list(make_curve_table(own, "agent")) == [
        *("effect", "low", "high"),
        *("num steps", "prior variance"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GRID.replace("num_steps", "num_step"), "unknown choice 'num_step': did you mean"),
        (GRID.replace("[factorial]", "[factorals]"), "unknown key 'factorals': did you mean"),
        (GRID.replace("0.01]", "-1]"), "prior_variance = -1 is wrong"),
        (GRID.replace('"last word"', '"first word"'), "rows = 'first word' is wrong"),
        ("study = [", "is not TOML"),
        ('study = "study.toml"', "varies nothing"),
    ],
)
def test_wrong_grid_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        load_grid(write_grid(tmp_path, text))


def test_command_complains_in_one_sentence(tmp_path: Path) -> None:
    said = fails("multiverse", "--grid", "smal", cwd=tmp_path)
    assert said == "unknown grid 'smal': did you mean 'small'?"
    assert not (tmp_path / "runs").exists()
