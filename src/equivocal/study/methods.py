"""A methods paragraph to paste into an article, filled in from a study's settings."""

from equivocal import __version__
from equivocal.gestalt import Run
from equivocal.inference import SamplerSettings
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli

__all__ = ["methods_paragraph"]


def methods_paragraph(settings: StudySettings, run: Run, stimuli: Stimuli) -> str:
    """What was done, in words."""
    training, inference = run.settings, settings.inference
    priors = ", ".join(f"{variance:g}" for variance in inference.prior_variances)
    conditions = " and ".join(stimuli.conditions)
    return (
        f"{training.networks} Sentence Gestalt networks ({training.hidden} hidden and "
        f"{training.gestalt} gestalt units) were trained from different random weights on "
        f"{training.sentences:,} sentences sampled from the world “{run.world.name}”, of which a "
        f"share of {training.held_out:g} was held out for early stopping (at most "
        f"{training.epochs} epochs of {training.steps} steps, Adam, learning rate "
        f"{training.learning_rate:g}, decoupled weight decay {training.weight_decay:g}). The last "
        f"layer of each network was then given a Gaussian prior about its trained weights, with "
        f"covariance v I and v = {priors}, and its posterior given the questions of the training "
        f"corpus (at {inference.rows}, with their counts) was approximated in two ways: "
        f"{_sampler(inference.samplers['paper'])}; and {_sampler(inference.samplers['converged'])}."
        f" Activations were recorded after each word of {len(stimuli.items)} items in each of the "
        f"conditions {conditions}, and analysed at the critical word, averaged over items (model "
        f"analysis, n = {training.networks}) or over networks (item analysis, n = "
        f"{len(stimuli.items)}). All was done with equivocal {__version__}, seed {training.seed}."
    )


def _sampler(sampler: SamplerSettings) -> str:
    if sampler.method == "exact-flow":
        return (
            "by the Gaussian closest to it, the fixed point of the same equations "
            f"(method exact-flow, to {sampler.tolerance or 1e-7:g} posterior standard deviations)"
        )
    options = "".join(
        f", {name.replace('_', ' ')} {value}" for name, value in sampler.options.items()
    )
    step = "" if "step_size" in sampler.options else ", step size chosen by the stability rule"
    steps = f", {sampler.num_steps} steps" if sampler.num_steps else ""
    size = f"{sampler.num_particles} particles{steps}"
    return f"by the {sampler.method} sampler with {size}{options}{step}"
