"""What is refused before a study is written or trained: settings that could only fail hours later.

A new check belongs here, and is called by `stages.prepare` and, for a sweep, in `sweep`.
"""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from equivocal.errors import UserError, check_known, join_names
from equivocal.sampling.front import check_method
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli
from equivocal.world import World

__all__ = ["check_nuts", "check_questions", "check_samplers"]


def check_samplers(settings: StudySettings) -> None:
    """Refuse samplers that `sample_posterior` would refuse, before networks are trained."""
    for name, sampler in settings.inference.samplers.items():
        try:
            check_method(sampler.method, sampler.options)
        except UserError as error:
            raise UserError(f"[inference.samplers.{name}]: {error}") from error


def check_nuts(settings: StudySettings) -> None:
    """Refuse a study that wants NUTS where it is not installed, not only after hours of work."""
    if settings.nuts.networks and find_spec("numpyro") is None:
        raise UserError(
            "the study compares its posteriors with NUTS, which needs NumPyro: pip install "
            "'equivocal[nuts]', or leave it out with --set nuts.networks=0."
        )


def check_questions(world: World, stimuli: Stimuli, settings: StudySettings) -> None:
    """Refuse a study in which roles are unknown, what is tracked is not asked, and the like."""
    asked = settings.stimuli
    named: tuple[tuple[str, Iterable[str], str, Sequence[str]], ...] = (
        ("probes", asked.probes, "role", world.roles),
        ("non_relevant", asked.non_relevant, "unit", world.units),
        ("shown", [asked.shown] if asked.shown else [], "item", stimuli.items),
    )
    for setting, names, kind, known in named:
        for name in names:
            check_known(name, known, kind, f"stimuli.{setting}: ")
    tracked = dict.fromkeys(role for row in stimuli.rows.values() for role in row.tracked)
    if missing := [role for role in tracked if role not in asked.probes]:
        raise UserError(
            f"the stimuli track {join_names(missing)}, so stimuli.probes must contain it; add "
            "it there."
        )
