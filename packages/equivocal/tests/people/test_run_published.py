"""`compare_people` and `equivocal people published`, end to end."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from equivocal.people.run_published import PeopleResult, compare_people
from equivocal.world import World
from tests.cli.commands import fails, run
from tests.conftest import SMALL

FEW = replace(SMALL, epochs=2, sentences=150)
KINDS = ["ideal", "trained", "paper's sampler", "posterior", "deep ensemble"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> PeopleResult:
    folder = tmp_path_factory.mktemp("people")
    found = compare_people("both_ways", folder, training=FEW)
    assert found.settings["networks"] == 2
    assert {path.name for path in (folder / "figures").glob("*.png")} == {
        "people.png",
    }
    for name, table in found.tables.items():
        assert len(pd.read_csv(folder / "tables" / f"{name}.csv")) == len(table), name
    settings = tomllib.loads((folder / "people.toml").read_text())
    assert settings["parameters"]["rare"] == 0.1
    return found


def test_every_comprehender_is_compared_with_every_number(result: PeopleResult) -> None:
    table = result.tables["people"]
    assert list(dict.fromkeys(table["comprehender"])) == KINDS
    found = table[table["measure"].isin(["not literal", "reversed"])]
    assert found[found["comparable"] != "no"]["found"].between(0, 1).all()
    people = result.tables["readings"].set_index("comprehender")["participants"]
    assert {name: people[name].iloc[0] for name in KINDS} == dict(
        zip(KINDS, (1, 2, 10, 10, 1), strict=True)
    )
    assert result.summary[0].startswith("People read about 25 % of unlikely passives")


def test_the_command(tmp_path: Path) -> None:
    made = run("people", "published", "--networks", "0", "--out", "people", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(
        "People read about 25 % of unlikely passives the other way round; comprehenders: ideal 10"
    )
    said = fails("people", "published", "--world", "both_way", "--out", "no", cwd=tmp_path)
    assert "there is no world 'both_way': did you mean 'both_ways'?" in said
    assert not (tmp_path / "no" / "tables").exists()
    (tmp_path / "mine" / "tables").mkdir(parents=True)
    taken = fails("people", "published", "--networks", "0", "--out", "mine", cwd=tmp_path)
    assert "would be overwritten" in taken


def test_a_world_without_unlikely_sentences_is_compared_where_possible(
    tmp_path: Path, garden: World
) -> None:
    found = compare_people(garden, tmp_path, networks=0)
    assert "has no unlikely passives" in found.summary[0]
    own = found.tables["people"]
    assert own.loc[own["construction"] == "passive", "found"].isna().all()
    assert own["found"].isna().all()
