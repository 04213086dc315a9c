"""What Algorithm 1 says of itself: converged, diverged, or neither, and the limit of dropout."""

from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from equivocal.asking.posteriors import open_shipped
from equivocal.asking.source import find_shipped
from equivocal.world import World
from lastlayer import Posterior, Snapshot
from lastlayer.algorithm1 import LATE_STEP
from lastlayer.divergence import compute_residuals
from lastlayer.dropout_limit import follow_limit
from lastlayer.errors import UserError
from problems import sample_posterior, small

N, K, J = 200, 3, 12  # rows, outputs, particles
TAMINGS = ["consistent", "printed"]


@cache
def make_rows() -> tuple[np.ndarray, np.ndarray]:
    """Two features that go together, whose weights are therefore negatively correlated."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(N, 1))
    x = common + 0.6 * rng.normal(size=(N, 2))
    return x, (rng.random((N, K)) < expit(x.sum(axis=1, keepdims=True))).astype(float)


def sample(x: np.ndarray, t: np.ndarray, **options: Any) -> Posterior:
    return sample_posterior(x, t, method="dropout-deterministic", **options)


class Layer(NamedTuple):
    """Rows of a real last layer."""

    features: np.ndarray
    targets: np.ndarray
    counts: np.ndarray
    trained: np.ndarray


@cache
def make_layer() -> Layer:
    """The last layer of a network that comes with the package, asked 300,000 questions.

    Each question is about a role after the beginning of a sentence; answers are the network's own.
    """
    world = World.load("slips")
    path = find_shipped(world)
    assert path is not None
    network = open_shipped(path)[0].network
    heard = [network.compute_gestalts(world.encode(text.text)) for text in world.sentences[::40]]
    psi = network.compute_features(np.unique(np.concatenate(heard).round(6), axis=0))
    rows = psi.reshape(-1, psi.shape[-1])
    counts = np.full(len(rows), 300_000 / len(rows))
    answers = expit(rows @ network.last_layer.T)
    units = np.argsort(-answers.mean(axis=0))[:20:5]  # from frequent to rarer ones
    return Layer(rows, counts[:, None] * answers[:, units], counts, network.last_layer[units])


def sample_layer(**options: Any) -> Posterior:
    layer = make_layer()
    fixed = {"counts": layer.counts, "prior_mean": layer.trained, "num_steps": 17}
    given = fixed | {"num_particles": 20, "dtype": "float32"} | options
    return sample(layer.features, layer.targets, **given)


def test_short_steps_alone_do_not_converge() -> None:
    """P̂ changes by less than 0.001 per step from step 272 on, with the mean wrong by 0.5."""
    x, t = make_rows()
    short = sample(x, t, dropout_rate=0.0, step_size=1e-4, num_particles=J)
    assert not short.info.converged
    assert not short.info.diverged.any()
    assert "did not converge in 500 steps, τ = 0.05" in short.info.message
    assert np.abs(short.mean - sample_posterior(x, t).mean).max() > 0.4


def test_a_loose_threshold_alone_does_not_converge() -> None:
    """Whatever the stopping rule says, the equations must hold where it stops."""
    x, t = make_rows()
    loose = sample(x, t, dropout_rate=0.0, threshold=1e9, num_particles=J)
    assert (loose.info.steps == 2).all()
    assert not loose.info.output_converged.any()
    assert (loose.info.mean_residual > 0.2).all()
    assert "the equations of the fixed point do not hold" in loose.info.message
    tight = sample(x, t, dropout_rate=0.0, num_particles=J)
    assert tight.info.converged
    assert (tight.info.mean_residual < 0.2).all()
    assert f"converged in {int(np.median(tight.info.steps))} steps, τ = " in tight.info.message


@pytest.mark.parametrize("num_particles", [9, 3])
def test_residuals_are_distances_from_the_fixed_point(num_particles: int) -> None:
    """Linear rows, g(m) = H (m − b): known where the equations hold, in all of space or a part."""
    rng = np.random.default_rng(1)
    D, J = 4, num_particles
    H, b = np.diag([50.0, 3.0, 0.5, 0.0]), rng.normal(size=D)
    A = H + np.eye(D)
    noise = rng.normal(size=(J, D))
    noise -= noise.mean(axis=0)
    # in the subspace of J ≤ D particles S = I holds if their Gram matrix under A does
    left, _, right = np.linalg.svd(noise @ np.linalg.cholesky(A), full_matrices=False)
    rank = min(J - 1, D)
    right = right[:rank] @ np.linalg.inv(np.linalg.cholesky(A))
    deviations = np.sqrt(J - 1) * left[:, :rank] @ right
    best = np.linalg.solve(A, H @ b)

    def measure(mean: np.ndarray, wider: float) -> list[float]:
        found = compute_residuals(
            (mean + wider * deviations)[None], (H @ (mean - b))[None], H[None]
        )
        return [float(part[0]) for part in found]

    np.testing.assert_allclose(measure(best, 1.0), 0, atol=1e-12)
    shift = deviations[0]
    off, frobenius, spectral = measure(best + shift, 1.1)
    # S = 1.21 I, and the way to the minimum is √(δᵀAδ) for a δ within the span
    assert off == pytest.approx(np.sqrt(shift @ A @ shift), rel=1e-9)
    assert frobenius == pytest.approx(0.21 * np.sqrt(rank), rel=1e-9)
    assert spectral == pytest.approx(0.21, rel=1e-9)


@pytest.mark.parametrize("taming", TAMINGS)
@pytest.mark.parametrize("repeats", [1, 15, 1_500])
def test_divergence_is_noticed_for_any_number_of_rows(repeats: int, taming: str) -> None:
    """200, 3,000 and 300,000 rows by counts, with steps of 50 times the stable length."""
    x, t = make_rows()
    stiff = np.linalg.eigvalsh(x.T @ x)[-1] / 4 * repeats  # λ_max(P₀H) at most
    start: list[Snapshot] = []
    given = {"counts": np.full(N, repeats), "num_particles": J, "dropout_rate": 0.0}
    data = x, repeats * t
    found = sample(
        *data, **given, step_size=100 / stiff, taming=taming, num_steps=2, observe=start.append
    )
    assert found.info.diverged.dtype == bool
    assert found.info.diverged.tolist() == [True] * K
    assert not found.info.converged
    assert np.isfinite(found.mean).all()
    assert found.info.message.startswith(
        f"do not trust this: {K} of {K} outputs diverged at step 1; Δτ is too long, λ_max(P̂H) is "
    )
    assert "did not converge" not in found.info.message
    said = float(found.info.message.split("λ_max(P̂H) is ")[1].split(":")[0])
    y = expit(start[0].particles @ x.T)
    H = x.T @ (repeats * (y * (1 - y)).mean(axis=1)[..., None] * x)
    P = np.stack([np.cov(w.T) for w in start[0].particles])
    exact = np.linalg.eigvals(P @ H).real.max(axis=1)
    assert min(abs(said / exact - 1)) < 0.05  # power iteration, printed with two digits
    free = sample(*data, **given, taming=taming)
    assert not free.info.diverged.any()
    assert free.info.converged == (taming == "consistent")


@pytest.mark.parametrize("taming", TAMINGS)
@pytest.mark.parametrize("step_size", [1e-4, 1e-2])
def test_divergence_is_noticed_on_rows_of_a_network(step_size: float, taming: str) -> None:
    """No particle leaves the radius, which grows with √N, though means are far off."""
    found = sample_layer(step_size=step_size, taming=taming)
    assert found.info.repaired == 0
    assert found.info.diverged.all()
    assert "diverged at step 1; Δτ is too long" in found.info.message
    assert "did not converge" not in found.info.message


def test_a_mean_that_comes_back_has_not_diverged() -> None:
    """Twelve times 1/λ_max: the first step throws the mean out, and later ones repair it."""
    x, t = make_rows()
    options = {"dropout_rate": 0.0, "step_size": 0.2, "num_particles": J}
    assert sample(x, t, num_steps=1, **options).info.diverged.all()
    later = sample(x, t, **options)
    assert not later.info.diverged.any()
    assert later.info.converged, later.info.message


def test_far_means_are_no_divergence() -> None:
    """Separable rows under a wide prior, and weights that are 400 prior sd from its mean."""
    x, _ = make_rows()
    separable = (x @ [[1.0, -1.0, 0.0], [0.5, 1.0, 1.0]] > 0).astype(float)
    options: dict[str, Any] = {"num_particles": J, "num_steps": 150}
    for rate in (0.0, 0.3):
        found = sample(x, separable, prior_variance=1e4, dropout_rate=rate, **options)
        assert not found.info.diverged.any(), found.info.message
        repeats = np.full(N, 10_000)
        often = repeats[:, None] * expit(x @ [[3.0, -2.0, 0.0], [0.5, 1.0, 3.0]])
        far = {"counts": repeats, "prior_variance": 1e-5} | options
        found = sample(x, often, dropout_rate=rate, **far)
        assert np.linalg.norm(found.mean, axis=1).max() / np.sqrt(1e-5) > 400
        assert not found.info.diverged.any(), found.info.message


def test_the_limit_of_dropout_has_covariances_that_are_too_large() -> None:
    """P = (C − ρ diag C)/(1 − ρ), C = (H + I)⁻¹, maths (27), but for the error of the step.

    Below `LATE_STEP` the scheme's own fixed point is up to 1/(1 − Δτ) too wide. A sampler
    that dropped nothing would have a ratio of 1.03 for all ρ.
    """
    x, t = make_rows()
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for rate in (0.0, 0.3, 0.5):
        given = {"prior_mean": np.zeros((1, 2)), "prior_variance": 1.0, "dropout_rate": rate}
        states = follow_limit(x, t[:, :1], counts=np.ones(N), **given)
        end = next(islice(states, 220, None))
        m, P = (np.asarray(part[0], float) for part in (end.mean, end.covariance))
        sd = np.sqrt(np.einsum("nd,de,ne->n", x, P, x))
        y = expit(x @ m + sd * nodes[:, None])
        R = weights @ (y * (1 - y)) / weights.sum()
        C = np.linalg.inv(x.T @ (R[:, None] * x) + np.eye(2))
        high = 1 / (1 - LATE_STEP)
        assert 1 <= P[0, 1] / C[0, 1] * (1 - rate) <= high
        assert ((np.diag(P) / np.diag(C) >= 1) & (np.diag(P) / np.diag(C) <= high)).all()


def test_a_real_last_layer_leaves_no_limit_to_dropout() -> None:
    """The matrix that (27) asks for is not positive semidefinite, whatever the output."""
    layer = make_layer()
    found = sample_posterior(
        layer.features,
        layer.targets,
        counts=layer.counts,
        prior_mean=layer.trained,
        dtype="float64",
        diagnose=False,
    )
    for C in found.covariance:
        sd = np.sqrt(np.diag(C))
        correlations = C / np.outer(sd, sd)
        assert np.linalg.eigvalsh((correlations - 0.3 * np.eye(len(C))) / 0.7)[0] < -0.4


def test_dropout_that_settles_reaches_the_fixed_point() -> None:
    """It is maths (5), within what J particles and steps of Δτ allow.

    Averages over J particles instead of q have relative errors of at most 1/√J, times the
    coefficient of variation of y(1 − y), which is below 1; a mean in posterior sd is off by no more
    than that. Five such errors, and Δτ/(1 − Δτ) for the step. Constant dropout is far outside.
    """
    x, t = (part[:60, :2] for part in make_rows())
    J = 1_000
    allowed = 5 / np.sqrt(J) + LATE_STEP / (1 - LATE_STEP)
    exact = sample_posterior(x, t)
    settled = sample(x, t, dropout_schedule="settle", num_particles=J)
    assert settled.info.converged, settled.info.message
    assert "constant dropout" not in settled.info.message
    constant = sample(x, t, num_particles=J, num_steps=int(settled.info.steps.max()))
    assert "constant dropout does not tend to the posterior" in constant.info.message
    for k in range(2):
        sd = np.sqrt(np.diag(exact.covariance[k]))
        assert (np.abs(settled.mean[k] - exact.mean[k]) < allowed * sd).all()
        ratio = settled.covariance[k] / exact.covariance[k]
        assert np.abs(ratio - 1).max() < allowed
        assert constant.covariance[k, 0, 1] / exact.covariance[k, 0, 1] > 1 + allowed


def test_dropout_cannot_settle_with_too_few_particles() -> None:
    x, t = small()
    with pytest.raises(UserError, match=r"num_particles > 4, .* got 4: once dropout ends"):
        sample(x, t, dropout_schedule="settle", num_particles=4)
