"""`equivocal constructions` as a user runs it."""

import tomllib
from pathlib import Path

import pandas as pd
import pytest

from equivocal.cli.constructions import run as run_command
from equivocal.errors import UserError
from tests.cli.test_cli import run


def test_the_list_names_every_condition() -> None:
    text = run("constructions", "list").stdout
    for piece in ("passive", "sg2018", "implausible passive", "word_order", "undecided"):
        assert piece in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"only": ["pasive"]}, r"did you mean 'passive'\?"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        run_command(**arguments, folder=tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_quick_run_writes_all_and_is_found_again(tmp_path: Path) -> None:
    arguments = ("constructions", "run", "--quick", "--out", "out")
    only = ("--only", "word_order", "--only", "attachment")
    done = run(*arguments, *only, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Word order" in done.stdout
    out = tmp_path / "out"
    shares = pd.read_csv(out / "tables" / "word_order_shares.csv")
    assert set(shares["variance"]) == {0.0, 0.1, 0.3, 1.0, 3.0, 10.0}
    assert set(shares["heard"]) == {100, 300, 1000}
    beliefs = pd.read_csv(out / "tables" / "attachment_beliefs.csv")
    assert beliefs["error"].notna().all()
    names = {path.stem for path in (out / "figures").iterdir()}
    assert names == {"word_order", "word_order_curves", "attachment"}
    settings = tomllib.loads((out / "constructions.toml").read_text())
    assert settings["constructions"] == ["word_order", "attachment"]
    again = run(*arguments, "--only", "attachment", cwd=tmp_path)
    assert "holds this run already" in again.stdout, again.stderr
    pd.testing.assert_frame_equal(beliefs, pd.read_csv(out / "tables" / "attachment_beliefs.csv"))
