"""Presets and study files: nothing hidden, every mistake explained."""

import tomllib
from dataclasses import asdict
from importlib import resources
from pathlib import Path

import pytest

from equivocal.network import TrainingSettings
from equivocal.paper.settings import load_study, parse_changes, write_example
from equivocal.world import World
from equivocal.world.items import load_stimuli
from lastlayer.errors import UserError


def test_preset_names_every_setting() -> None:
    """Nothing that changes a number lives outside the file: all defaults are written in it."""
    folder = resources.files("equivocal.paper") / "presets"
    for name, recipe in (("paper", "paper"), ("paper_fast", "fast")):
        content = tomllib.loads((folder / f"{name}.toml").read_text())
        study = load_study(name)
        assert content["training"] == asdict(study.training_settings)
        assert study.training_settings == TrainingSettings(recipe=recipe)
        for table in {"inference", "path", "exact"} & content.keys():
            assert content[table].keys() == type(getattr(study, table)).model_fields.keys()


def test_a_preset_has_the_tables_of_its_base() -> None:
    paper, fast = load_study("paper"), load_study("paper_fast")
    own = {"name", "training"}
    assert fast.model_dump(exclude=own) == paper.model_dump(exclude=own)
    assert fast.name == "paper_fast"
    assert load_study("paper_fast", quick=True).training_settings.networks == 2


def test_quick_is_smaller_and_says_so() -> None:
    full, quick = load_study("paper"), load_study("paper", quick=True)
    assert (full.quick_run, quick.quick_run) == (False, True)
    assert quick.training_settings.networks == 2 < full.training_settings.networks == 10
    assert quick.inference.prior_variances == full.inference.prior_variances


def test_written_settings_are_read_back(tmp_path: Path) -> None:
    study = load_study("paper", {"nuts.draws": 7}, quick=True)
    study.write(tmp_path / "settings.toml")
    again = load_study(tmp_path / "settings.toml")
    assert again.model_dump() == study.model_dump()
    assert again.quick_run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nuts.draws=-1", "nuts.draws = -1 is wrong"),
        ("training.seed=a", "^seed must be a whole number"),
        ("nuts.draw=1", "unknown setting 'nuts.draw': did you mean 'draws'?"),
        ("inference.samplers.paper.num_step=3", "did you mean 'num_steps'?"),
        ("inference.rows=first", "'last word' or 'drawn pairs'"),
        ("inference.central_prior=2.0", "central_prior must be one of prior_variances"),
        ("name.first=3", "'name' is a value, not a table"),
        ("networks", "--set takes name=value"),
    ],
)
def test_wrong_settings_are_explained(change: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        load_study("paper", parse_changes([change]))


def test_unknown_presets_and_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="preset 'papper': did you mean 'paper'"):
        load_study("papper")
    with pytest.raises(UserError, match="cannot read"):
        load_study(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(UserError, match="is not TOML"):
        load_study(tmp_path / "bad.toml")


def test_example_study_is_complete_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    stimuli = write_example(path)
    study = load_study(path)
    assert study.name == "mine"
    world = World.load(study.world)
    assert load_stimuli(stimuli, world).conditions == ("congruent", "reversal")
    assert set(study.stimuli.non_relevant) <= set(world.units)
    with pytest.raises(UserError, match="exists already"):
        write_example(path)
    with pytest.raises(UserError, match=r"ends in \.toml"):
        write_example(tmp_path / "mine.csv")


def test_settings_that_are_loaded_can_be_made_quick() -> None:
    settings = load_study("paper")
    assert settings.change({}, quick=True).to_dict() == load_study("paper", quick=True).to_dict()
    assert settings.change({}).to_dict() == settings.to_dict()
