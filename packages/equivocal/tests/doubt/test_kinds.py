"""How networks answer under each kind of uncertainty, and the files of their answers."""

from pathlib import Path

import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from safetensors.numpy import save_file
from scipy.special import expit

from equivocal.doubt.answers import Answers
from equivocal.doubt.kinds import KINDS, KindSettings, Subject
from equivocal.doubt.layers import build_function, cut_into_parts, pool_networks
from equivocal.doubt.scores import WorldQuestions, ask_everything
from equivocal.network import Run, features
from equivocal.network.questions import collect_answers, collect_questions
from equivocal.network.runs import split_corpus
from equivocal.truth import compute_psi, pool_particles
from lastlayer import sample_network, sample_posterior
from lastlayer.files import UnreadableError
from tests.faults.damage import cut

FEW = KindSettings(
    evidence=(1.0, "sentence"),
    other_variances=(),
    num_steps=2,
    num_particles=8,
    dropout=(0.3,),
    smoothing=(),
    word_noise=(),
    members=12,
    layer_steps=1,
)


@pytest.fixture(scope="module")
def asked(small_run: Run) -> WorldQuestions:
    return ask_everything(small_run.world)


@pytest.fixture(scope="module")
def subject(small_run: Run, asked: WorldQuestions) -> Subject:
    return Subject(small_run, {"dropout": {0.3: small_run}}, 1, asked, FEW)


def test_a_trained_network_answers_as_it_comprehends(subject: Subject) -> None:
    (answer,) = KINDS["trained"].answer(subject)
    network, world = subject.network, subject.world
    heard = network.comprehend("dog chases cat").values[-1]  # (roles, units)
    distance = [
        np.abs(answer.beliefs.belief - heard[role]).max(axis=1).min()
        for role in range(len(world.roles))
    ]
    assert max(distance) < 1e-6
    assert answer.beliefs.epistemic.max() < 1e-12


def test_the_converged_posterior_is_that_of_the_sampler(subject: Subject, small_run: Run) -> None:
    first, by_sentence = KINDS["posterior"].answer(subject)
    asked = features(subject.network, split_corpus(small_run.world, small_run.settings)[0])
    posterior = sample_posterior(
        asked["features"].values,
        asked["targets"].values,
        counts=asked["counts"].values,
        prior_mean=subject.network.last_layer().values,
        prior_variance=1.0,
        num_particles=24,
        tolerance=0.001,
    )
    mean, sd = posterior.logits(subject.psi)
    draws = np.random.default_rng(0).normal(size=(4000, 1, 1))
    expected = np.mean([expit(mean[:40] + sd[:40] * z) for z in draws], axis=0)
    np.testing.assert_allclose(first.beliefs.belief[:40], expected, atol=0.02)
    assert first.setting.converged
    assert by_sentence.setting.value < 0.1
    assert by_sentence.beliefs.epistemic.sum() > first.beliefs.epistemic.sum()


def test_the_paper_s_sampler_answers_after_every_step(subject: Subject) -> None:
    steps = list(KINDS["paper's sampler"].answer(subject))
    assert [step.setting.label for step in steps] == ["step 1", "step 2"]
    assert 0 < steps[0].setting.time < steps[1].setting.time
    trained = next(KINDS["trained"].answer(subject)).beliefs.belief
    assert np.abs(steps[0].beliefs.belief - trained).max() > 0.01


def test_masks_of_dropout_are_means_over_thinned_networks(subject: Subject) -> None:
    (answer,) = KINDS["MC dropout"].answer(subject)
    (again,) = KINDS["MC dropout"].answer(subject)
    np.testing.assert_array_equal(answer.beliefs.log_yes, again.beliefs.log_yes)
    trained = next(KINDS["trained"].answer(subject)).beliefs
    assert answer.beliefs.epistemic.sum() > 1
    assert np.abs(answer.beliefs.belief - trained.belief).mean() < 0.1
    assert answer.setting.megabytes == pytest.approx(12 * 3 / 1e6)  # 20 hidden units: 3 bytes


def test_parts_hold_every_weight_once_and_outputs_their_own(small_run: Run) -> None:
    model = small_run.models[0]
    for layers in ("query", "all"):
        weights = ravel_pytree(model if layers == "all" else model.query)[0]
        last, *hidden = cut_into_parts(model, layers)
        assert sorted(np.concatenate([last.ravel(), *hidden])) == list(range(len(weights)))
        assert len(hidden) == (3 if layers == "all" else 1)
        theta = small_run.networks[0].last_layer().values
        np.testing.assert_array_equal(weights[last], theta)


def test_members_with_the_trained_weights_are_the_trained_network(subject: Subject) -> None:
    trained = next(KINDS["trained"].answer(subject)).beliefs
    units = (3, 1)
    for layers in ("query", "all"):
        model = subject.network.model
        weights = np.asarray(ravel_pytree(model if layers == "all" else model.query)[0])
        pooled = pool_networks(
            subject.network, subject.asked.questions, units, layers, np.stack([weights] * 2)
        )
        np.testing.assert_allclose(pooled.belief, trained.belief[:, units], atol=1e-6)
        np.testing.assert_allclose(pooled.epistemic, 0, atol=1e-6)


@pytest.mark.slow
def test_whole_networks_agree_with_the_sampler_where_only_the_last_layer_is_uncertain(
    small_run: Run,
) -> None:
    """`query` with almost no prior variance outside the last layer is the last layer's."""
    network, corpus = small_run.networks[0], split_corpus(small_run.world, small_run.settings)[0]
    asked, query = features(network, corpus), network.model.query
    variance = np.full(len(ravel_pytree(query)[0]), 1e-8)
    last = cut_into_parts(network.model, "query")[0]
    variance[last] = 1.0
    questions, there = collect_questions(corpus), np.flatnonzero(corpus.queries.weight > 0)
    questions = questions._replace(node=questions.node[there], probe=questions.probe[there])
    found = sample_network(
        *build_function(network.model, questions, "query"),
        asked["targets"].values,
        np.asarray(ravel_pytree(query)[0]),
        prior_variance=variance,
        counts=asked["counts"].values,
        parts=[last],
        num_particles=24,
        tolerance=0.01,
    )
    posterior = sample_posterior(
        asked["features"].values,
        asked["targets"].values,
        counts=asked["counts"].values,
        prior_mean=network.last_layer().values,
        prior_variance=1.0,
        tolerance=0.001,
    )
    assert found.info.converged, found.info.message
    sd = np.sqrt(np.diagonal(posterior.covariance, axis1=1, axis2=2))
    assert np.abs((found.mean[last] - posterior.mean) / sd).max() < 0.03
    ratio = found.particles[:, last].std(axis=0, ddof=1) / sd
    np.testing.assert_allclose(ratio, 1, atol=0.03)


def test_answers_are_loaded_as_they_were_saved(subject: Subject, tmp_path: Path) -> None:
    made = Answers.collect([*KINDS["posterior"].answer(subject)])
    path = tmp_path / "00.safetensors"
    made.save(path)
    found = Answers.load(path)
    # NaN of the sampler's time is equal to nothing
    assert repr(found.settings) == repr(made.settings)
    for one, other in zip(found.beliefs, made.beliefs, strict=True):
        np.testing.assert_array_equal(one, other)
    cut(path)
    with pytest.raises(UnreadableError, match="cannot read"):
        Answers.load(path)
    save_file({"log_yes": np.zeros((1, 2))}, path, metadata={"equivocal": '[["a", 1, 2]]'})
    with pytest.raises(UnreadableError, match="answers of a network"):
        Answers.load(path)


def test_the_temperature_is_the_best_on_held_out_sentences(subject: Subject) -> None:
    answers = {each.setting.label: each for each in KINDS["temperature"].answer(subject)}
    chosen = answers["held-out"].setting.value
    held_out = collect_answers(subject.run.held_out)
    z = compute_psi(subject.network, collect_questions(subject.run.held_out))
    z = z @ subject.network.last_layer().values.T

    def miss(temperature: float) -> float:
        p = expit(z / temperature)
        t = np.asarray(held_out.target)
        loss = -(t * np.log(p) + (1 - t) * np.log1p(-p)).sum(axis=1)
        return float(np.asarray(held_out.weight) @ loss)

    assert miss(chosen) < min(miss(chosen * 1.03), miss(chosen / 1.03))


def test_the_prior_without_data_is_the_mean_of_networks_drawn_from_it(subject: Subject) -> None:
    narrow, *_, wide = KINDS["prior"].answer(subject)
    assert (narrow.setting.prior_variance, wide.setting.prior_variance) == (0.01, 1.0)
    theta = subject.layer.trained[:, None]
    drawn = theta + np.random.default_rng(0).normal(size=(len(theta), 3000, theta.shape[-1]))
    expected = pool_particles(subject.psi[:30], drawn).belief
    np.testing.assert_allclose(wide.beliefs.belief[:30], expected, atol=0.03)
