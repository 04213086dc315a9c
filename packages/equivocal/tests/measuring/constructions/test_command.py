"""`equivocal constructions` as a user runs it."""

import os
import signal
import subprocess
import time
import tomllib
from importlib import metadata
from pathlib import Path
from time import perf_counter

import pandas as pd
import pytest

from equivocal import __version__
from equivocal.beliefs import SamplerSettings
from equivocal.measuring.command import run_constructions as run_command
from equivocal.measuring.construction_tables import (
    summarise_construction,
    tabulate_beliefs,
    tabulate_shares,
)
from equivocal.measuring.reading import READINGS, SAMPLER
from equivocal.measuring.run import SuitesResult, describe_construction, list_posteriors
from equivocal.measuring.suite import load_construction
from equivocal.network import TrainingSettings
from equivocal.result import describe_run
from lastlayer.errors import UserError
from tests.cli.commands import COMMAND, run


def test_the_list_names_every_condition() -> None:
    text = run("constructions", "list").stdout
    for piece in ("passive", "sg2018", "implausible passive", "word_order", "undecided"):
        assert piece in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"only": ["pasive"]}, r"did you mean 'passive'\?"),
        ({"only": ["nonsense"]}, "there are passive, word_order, attachment"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
        ({"networks": 2, "curve_networks": 3}, "--curve-networks.* 3 is more than the 2 networks"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        run_command(**arguments, folder=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UserError, match="cannot write to .*out: File exists; choose another place"):
        run_command(folder=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_settings_hold_all_that_shaped_a_result() -> None:
    training = TrainingSettings(networks=10, seed=4)
    order = load_construction("word_order")
    own = describe_run(perf_counter(), **describe_construction(order, training, 4))
    assert own["version"] == __version__
    assert own["versions"]["jax"] == metadata.version("jax")
    assert (own["world"], own["fingerprint"]) == ("word_order", order.world.fingerprint)
    assert (own["items"], own["prior_variance"]) == (len(order.items), 1.0)
    assert TrainingSettings.from_dict(own["training"]) == training
    assert SamplerSettings.model_validate(own["sampler"]) == SAMPLER
    assert own["sampler"]["num_particles"] == 200
    assert own["curves"] == {
        "conditions": list(order.curves),
        "networks": 4,
        "prior_variances": [0.1, 0.3, 1.0, 3.0, 10.0],
        "sentences_heard": [100, 300, 1000, 3000, 10000],
    }
    assert "curves" not in describe_construction(load_construction("attachment"), training, 10)


@pytest.mark.parametrize(
    "earlier", ["[word_order]\nitems = 175\n[other]\nx = 1\n", "[word_order\n"]
)
def test_records_of_other_constructions_stay_where_they_can_be_read(
    earlier: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "constructions.toml").write_text(earlier)
    attachment = load_construction("attachment")
    settings = {"constructions": {"attachment": {"items": 192}}}
    tables = {"attachment_readings": make_readings()}
    tables["attachment_shares"] = tabulate_shares(tables["attachment_readings"])
    SuitesResult(
        name="suites", tables=tables, settings=settings, constructions=(attachment,)
    ).write(tmp_path)
    found = tomllib.loads((tmp_path / "constructions.toml").read_text())
    assert found.pop("attachment") == {"items": 192}
    lost = "records of other constructions are lost" in capsys.readouterr().err
    assert found == ({} if lost else {"word_order": {"items": 175}})
    assert lost == ("]" not in earlier)


def make_readings() -> pd.DataFrame:
    """Make readings of two networks with equal beliefs."""
    numbers = [*READINGS, "belief", "rival_belief", "exact", "rival_exact"]
    kinds = (("trained", 0.0), ("posterior", 1.0))
    return pd.DataFrame(
        {
            "construction": "attachment",
            "condition": item.condition,
            "item": item.name,
            "network": network,
            "beliefs": beliefs,
            "variance": variance,
            "heard": 1000,
            "converged": True,
        }
        | dict.fromkeys(numbers, 0.3)
        for item in load_construction("attachment").items
        for network in (0, 1)
        for beliefs, variance in kinds
    )


def test_the_summary_has_a_line_for_every_condition() -> None:
    attachment, readings = load_construction("attachment"), make_readings()
    readings.loc[0, "converged"] = False
    tables = {"readings": readings, "shares": tabulate_shares(readings)}
    tables["beliefs"] = tabulate_beliefs(readings)
    lines = "\n".join(summarise_construction(attachment, tables)).splitlines()
    assert lines[0] == attachment.title
    for condition in attachment.conditions:
        beliefs, shares = (line.split() for line in lines if line.startswith(f"{condition} "))
        assert beliefs[-3:] == ["0.300", "0.300", "0.000"]
        assert shares[-1] == "30.0"
    assert any("did not converge" in line for line in lines)


def test_every_posterior_is_read_once_the_usual_one_first() -> None:
    passive = load_construction("passive")
    assert list_posteriors(passive, 1_000) == [
        *((v, 1_000) for v in (1.0, 0.1, 0.3, 3.0, 10.0)),
        *((1.0, n) for n in (100, 300)),
    ]
    assert list_posteriors(load_construction("attachment"), 10_000) == [(1.0, 10_000)]


@pytest.mark.slow
def test_a_quick_run_writes_all_and_is_found_again(tmp_path: Path) -> None:
    arguments = ("constructions", "run", "--quick", "--out", "out", "--curve-networks", "1")
    only = ("--only", "word_order", "--only", "attachment")
    done = run(*arguments, *only, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Word order" in done.stdout
    out = tmp_path / "out"
    shares = pd.read_csv(out / "tables" / "word_order_shares.csv")
    assert set(shares["variance"]) == {0.0, 1.0}
    assert set(shares["networks"]) == {2}
    curves = pd.read_csv(out / "tables" / "word_order_curves.csv")
    assert set(curves["variance"]) == {0.1, 0.3, 1.0, 3.0, 10.0}
    assert set(curves["heard"]) == {100, 300, 1000}
    assert set(curves["networks"]) == {1}
    beliefs = pd.read_csv(out / "tables" / "attachment_beliefs.csv")
    assert beliefs["error"].notna().all()
    names = {path.stem for path in (out / "figures").iterdir()}
    assert names == {"word_order", "word_order_curves", "attachment"}
    settings = tomllib.loads((out / "constructions.toml").read_text())
    assert settings.keys() == {"word_order", "attachment"}
    again = run(*arguments, "--only", "attachment", cwd=tmp_path)
    assert "holds this run already" in again.stderr
    pd.testing.assert_frame_equal(beliefs, pd.read_csv(out / "tables" / "attachment_beliefs.csv"))


@pytest.mark.slow
def test_a_stopped_run_resumes(tmp_path: Path) -> None:
    """One network: no interval over networks, no warning. Ctrl-C after the second posterior."""
    arguments = ["constructions", "run", "--quick", "--networks", "1", "--only", "word_order"]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--out", "out"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    kept = tmp_path / "out" / "readings" / "word_order"
    deadline = time.monotonic() + 200
    while len(list(kept.glob("*.json"))) < 2 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130, told
    assert "Traceback" not in told
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.json")}
    assert 2 <= len(before) < 7
    done = run(*arguments, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    after = {path: path.stat().st_mtime_ns for path in kept.glob("*.json")}
    assert len(after) == 7  # five prior variances, two shorter corpora
    # Ctrl-C may fall between a file and its record; then that one is made again
    assert len(before.items() - after.items()) <= 1
    shares = pd.read_csv(tmp_path / "out" / "tables" / "word_order_shares.csv")
    assert shares["share_network_low"].isna().all()
