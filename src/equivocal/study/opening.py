"""A study begun, or opened from its folder.

`settings.toml` and `stimuli.csv` in the folder are the study's own copies, so that every stage can
be repeated from the folder alone. All that can be wrong with them is said before any work is done.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path

from equivocal.errors import UserError, join_names
from equivocal.store import read_text
from equivocal.store.files import ensure_writable, write_text_atomically
from equivocal.store.stages import hash_content
from equivocal.study.activations import units_of
from equivocal.study.running import Study
from equivocal.study.settings import StudySettings, load_study
from equivocal.study.stimuli import MAX_BYTES, Stimuli, load_stimuli
from equivocal.world import World

__all__ = ["check_nuts", "check_questions", "open_study", "prepare"]

PREPARED = "prepare"  # the stage that writes the study's own copies


def prepare(settings: StudySettings, folder: Path) -> Study:
    """Check a study before any work, and put its settings and stimuli into its folder."""
    ensure_writable(folder)
    source = settings.stimuli_path
    world = World.load(settings.world_source)
    check_questions(world, load_stimuli(source, world), settings)
    settings.check_training()
    if not (folder / "nuts.nc").exists():
        check_nuts(settings)
    text = read_text(source, MAX_BYTES)
    own = settings.model_copy(
        update={"stimuli": settings.stimuli.model_copy(update={"file": "stimuli.csv"})}
    )
    study = Study(own, folder)
    study.world = world
    for path in study.stages.altered([PREPARED]):
        warnings.warn(f"{path} is not as it was written; it is written again.", stacklevel=2)
    write_text_atomically(folder / "stimuli.csv", text)
    own.write(folder / "settings.toml")
    files = [folder / name for name in ("stimuli.csv", "settings.toml")]
    study.stages.mark(PREPARED, hash_content(own.model_dump(mode="json")), files)
    return study


def check_nuts(settings: StudySettings) -> None:
    """Whether this machine can run NUTS, if it is wanted: not only after an hour of sampling."""
    if settings.nuts.networks and find_spec("numpyro") is None:
        raise UserError(
            "the study compares its posteriors with NUTS, which needs NumPyro: pip install "
            "'equivocal[nuts]', or leave it out with --set nuts.networks=0."
        )


def check_questions(world: World, stimuli: Stimuli, settings: StudySettings) -> None:
    """Every role that is asked for or tracked exists, and what is tracked is asked for."""
    units_of(world, stimuli, settings)
    probes = settings.stimuli.probes
    if unknown := [probe for probe in probes if probe not in world.roles]:
        raise UserError(
            f"stimuli.probes has {join_names(unknown)}, which is no role of world {world.name!r}; "
            f"its roles are {join_names(world.roles)}."
        )
    tracked = dict.fromkeys(role for row in stimuli.rows.values() for role in row.tracked)
    if missing := [role for role in tracked if role not in probes]:
        raise UserError(
            f"the stimuli track {join_names(missing)}, so stimuli.probes must contain it; add "
            "it there."
        )
    if settings.stimuli.shown not in (None, *stimuli.items):
        raise UserError(
            f"stimuli.shown = {settings.stimuli.shown!r} is no item; items are "
            f"{join_names(stimuli.items)}."
        )


def open_study(folder: Path) -> Study:
    """A study from its folder."""
    if not (folder / "settings.toml").exists():
        raise UserError(
            f"{folder} holds no study (settings.toml is missing); `equivocal reproduce --out "
            f"{folder}` starts one."
        )
    try:
        study = Study(load_study(folder / "settings.toml"), folder)
    except UserError as error:
        again = f"`equivocal reproduce --out {folder}` writes it again."
        raise UserError(f"{str(error).rstrip('.')}; {again}") from None
    for path in study.stages.altered([PREPARED]):  # perhaps on purpose
        warnings.warn(
            f"{path} is not as `equivocal reproduce` wrote it; it is used as it is.", stacklevel=2
        )
    return study
