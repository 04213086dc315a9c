"""Starting a study, or opening it again; settings that would fail only hours later are refused.

A new check is a function here, which `prepare` and, for a sweep, `multiverse` must call.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path

from equivocal.network import Run
from equivocal.paper.settings import StudySettings, load_study
from equivocal.paper.stages import Study
from equivocal.store import read_text
from equivocal.store.folders import has_run
from equivocal.store.store import STUDY_CODE, hash_content
from equivocal.world import World
from equivocal.world.items import MAX_BYTES, Items, load_stimuli
from lastlayer.errors import UserError, check_known, join_names
from lastlayer.files import ensure_writable, write_text_atomically
from lastlayer.sampling import check_method

__all__ = ["open_study", "prepare"]


def check_samplers(settings: StudySettings) -> None:
    """Refuse samplers that `sample_posterior` would refuse, before networks are trained."""
    for name, sampler in settings.inference.samplers.items():
        try:
            check_method(sampler.method, sampler.options)
        except UserError as error:
            raise UserError(f"[inference.samplers.{name}]: {error}") from error


def check_nuts(settings: StudySettings) -> None:
    """Refuse a study that runs NUTS where NumPyro is not installed."""
    if settings.nuts.networks and find_spec("numpyro") is None:
        raise UserError(
            "the study compares its posteriors with NUTS, which needs NumPyro: pip install "
            "'lastlayer[nuts]', or leave it out with --set nuts.networks=0."
        )


def check_questions(world: World, stimuli: Items, settings: StudySettings) -> None:
    """Refuse unknown probes, units and items, and roles that are tracked but not asked about."""
    asked = settings.stimuli
    for role in asked.probes:
        check_known(role, world.roles, "role", "stimuli.probes: ")
    for unit in asked.non_relevant:
        check_known(unit, world.units, "unit", "stimuli.non_relevant: ")
    if asked.shown:
        check_known(asked.shown, stimuli.items, "item", "stimuli.shown: ")
    tracked = dict.fromkeys(role for row in stimuli.rows.values() for role in row.tracked)
    if missing := [role for role in tracked if role not in asked.probes]:
        raise UserError(
            f"the stimuli track {join_names(missing)}, so stimuli.probes must contain it; add "
            "it there."
        )


def prepare(settings: StudySettings, folder: Path) -> Study:
    """Check a study before any work, and put its settings and stimuli into its folder.

    Parameters
    ----------
    settings : StudySettings
        What the study is run with.
    folder : Path
        Its folder, which is created if it does not exist; the caller holds its lock.

    Returns
    -------
    Study
        The study, of which no stage has run yet.

    Raises
    ------
    UserError
        Where settings, world and stimuli do not fit together, NumPyro is needed and not installed,
        or the folder holds networks with other settings; nothing has been written then.
    """
    ensure_writable(folder)
    source, world = settings.stimuli_path, World.load(settings.world_source)
    check_questions(world, load_stimuli(source, world), settings)
    check_samplers(settings)
    if not (folder / "nuts.nc").exists():
        check_nuts(settings)
    with warnings.catch_warnings():  # about damaged networks, which training repeats
        warnings.simplefilter("ignore")
        Run.find(folder, world, settings.training_settings)  # refuses before anything is written
    text = read_text(source, MAX_BYTES)
    study = Study(settings.change({"stimuli.file": "stimuli.csv"}), folder)
    study.world = world
    files = [folder / name for name in ("stimuli.csv", "settings.toml")]

    def write() -> list[Path]:
        write_text_atomically(files[0], text)
        study.settings.write(files[1])
        return files

    key = hash_content(study.settings.to_dict(), text, code=STUDY_CODE)
    study.store.make("prepare", key, write)
    return study


def open_study(folder: Path) -> Study:
    """Open a study from its folder.

    Parameters
    ----------
    folder : Path
        A folder that `equivocal reproduce` has written.

    Returns
    -------
    Study
        The study; its stages do only what is not finished yet.

    Raises
    ------
    UserError
        Where the folder holds no study, or its settings cannot be read.
    """
    if not folder.exists():
        raise UserError(
            f"there is no folder {folder}, so it holds no study; `equivocal reproduce --out "
            f"{folder}` starts one."
        )
    if not (folder / "settings.toml").exists():
        what = "trained networks alone, and " if has_run(folder) else ""
        raise UserError(
            f"{folder} holds {what}no study: it has no settings.toml; give a folder that "
            "`equivocal reproduce` has written."
        )
    try:
        study = Study(load_study(folder / "settings.toml"), folder)
    except UserError as error:
        again = f"`equivocal reproduce --out {folder}` writes it again."
        raise UserError(f"{str(error).rstrip('.')}; {again}") from None
    for path in filter(Path.exists, study.store.find_damaged("prepare")):  # perhaps on purpose
        warnings.warn(
            f"{path} was changed since `equivocal reproduce` wrote it; it is used as it is.",
            stacklevel=2,
        )
    return study
