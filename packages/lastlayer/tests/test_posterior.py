"""What a `Posterior` predicts, doubts, stores and says of itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from tests.faults.damage import flip

from lastlayer import Posterior
from lastlayer.errors import UserError
from problems import SEEDS, sample_posterior, small


@pytest.fixture(scope="module")
def gaussian() -> Posterior:
    return sample_posterior(*small(), num_particles=4000)


def test_predictions_agree_with_many_particles(gaussian: Posterior) -> None:
    """Closed forms against 4,000 draws: five standard errors of a mean of numbers in [0, 1]."""
    x, _ = small()
    logits = np.einsum("nd,kjd->nkj", x, gaussian.particles)
    y = 1 / (1 + np.exp(-logits))
    error = 5 * 0.5 / np.sqrt(4000)
    np.testing.assert_allclose(gaussian.predict_proba(x), y.mean(axis=-1), atol=error)
    # the variance of 4,000 numbers in [0, 1] has a standard error of at most 0.5 / √4000 / 2
    np.testing.assert_allclose(gaussian.predict_sd(x) ** 2, y.var(axis=-1), atol=error / 2)
    low, high = gaussian.predict_interval(x, level=0.8)
    inside = ((y >= low[..., None]) & (y <= high[..., None])).mean(axis=-1)
    np.testing.assert_allclose(inside, 0.8, atol=5 * np.sqrt(0.16 / 4000))
    mean, sd = gaussian.logits(x)
    np.testing.assert_allclose(mean, logits.mean(axis=-1), atol=1e-9)
    np.testing.assert_allclose(sd, logits.std(axis=-1, ddof=1), rtol=1e-9)


def test_entropy_is_the_sum_of_epistemic_and_aleatoric_uncertainty(gaussian: Posterior) -> None:
    x, _ = small()
    entropies = gaussian.entropies(x)
    y = 1 / (1 + np.exp(-np.einsum("nd,kjd->nkj", x, gaussian.particles)))
    each = -(y * np.log(y) + (1 - y) * np.log1p(-y)).mean(axis=-1)
    np.testing.assert_allclose(entropies.expected, each, atol=5 * 0.35 / np.sqrt(4000))
    np.testing.assert_allclose(entropies.total, entropies.expected + entropies.information)
    assert (entropies.information >= 0).all()
    assert (entropies.total <= np.log(2) + 1e-12).all()
    far = gaussian.entropies(50 * x[:, :] * [0, 1, 1, 1])
    assert far.information.mean() > entropies.information.mean()


def test_particle_methods_predict_from_particles() -> None:
    x, _ = small()
    posterior = sample_posterior(*small(), method="dropout-deterministic", num_particles=50)
    y = 1 / (1 + np.exp(-np.einsum("nd,kjd->nkj", x, posterior.particles)))
    np.testing.assert_allclose(posterior.predict_proba(x), y.mean(axis=-1), atol=1e-12)
    np.testing.assert_allclose(posterior.predict_sd(x), y.std(axis=-1), atol=1e-12)
    low, high = posterior.predict_interval(x)
    np.testing.assert_allclose(low, np.quantile(y, 0.05, axis=-1), atol=1e-12)
    np.testing.assert_allclose(high, np.quantile(y, 0.95, axis=-1), atol=1e-12)
    assert (posterior.entropies(x).information >= 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_have_the_moments_of_the_gaussian(seed: int) -> None:
    """Moments exactly, whitened norms in law; bounds derived, so every seed must pass."""
    J, D = 400, 4
    posterior = sample_posterior(*small(), num_particles=J, seed=seed)
    for k in range(2):
        root = np.linalg.cholesky(posterior.covariance[k])
        z = np.linalg.solve(root, (posterior.particles[k] - posterior.mean[k]).T).T
        np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(np.cov(z.T), np.eye(D), atol=1e-8)
        # |z|² J/(J−1)² is Beta(D/2, (J−1−D)/2): its variance fixes that of the mean of |z|⁴
        fourth = (z**2).sum(axis=1) ** 2
        expected = D * (D + 2) * (J - 1) ** 3 / (J**2 * (J + 1))
        # sd of |z|⁴ for χ²_4 is √(E|z|⁸ − E²) = √(1920 − 576) = 36.7; 6 standard errors
        assert abs(fourth.mean() - expected) < 6 * 36.7 / np.sqrt(J)
        # no direction is special: skewness of every coordinate within 6 of its √(6/J)
        assert (np.abs((z**3).mean(axis=0)) < 6 * np.sqrt(6 / J)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["exact-flow", "dropout-deterministic"])
@pytest.mark.parametrize(
    ("dtype", "scales"), [("float64", (1e8, 1e100, 1e200, 1e307)), ("float32", (1e8, 1e25, 1e38))]
)
def test_features_of_any_size_have_predictions(
    method: str, dtype: str, scales: tuple[float, ...]
) -> None:
    """Far out σ is a step: E[y] = P(a > 0), which no longer depends on the length of the row."""
    x, t = small()
    x = (x / np.abs(x).max()).astype(dtype)
    posterior = sample_posterior(x, t, method=method, num_particles=50)
    if method == "exact-flow":
        mean, sd = posterior.logits(x)
        step = np.vectorize(NormalDist().cdf)(mean / sd)
    else:
        step = (np.einsum("nd,kjd->nkj", x, posterior.particles) > 0).mean(axis=-1)
    for scale in scales:
        rows = x * np.asarray(scale, dtype)
        np.testing.assert_allclose(posterior.predict_proba(rows), step, atol=1e-5)
        np.testing.assert_allclose(
            posterior.predict_sd(rows),
            np.sqrt(step * (1 - step)),
            atol=5e-3 if scale < 1e9 else 1e-3,
        )
        low, high = posterior.predict_interval(rows)
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
        certain = np.abs(step - 0.5) > 0.48  # beyond the 90 % about the middle
        np.testing.assert_allclose([low[certain], high[certain]], [step[certain].round()] * 2)
        doubt = posterior.entropies(rows)
        np.testing.assert_allclose(doubt.expected, 0, atol=1e-5)
        assert np.isfinite(doubt.total).all()
    with pytest.raises(UserError, match="features must"):
        posterior.logits(np.full((1, 4), np.finfo(dtype).max))


def test_saved_and_loaded_is_the_same(gaussian: Posterior, tmp_path: Path) -> None:
    gaussian.save(tmp_path / "posterior.safetensors")
    loaded = Posterior.load(tmp_path / "posterior.safetensors")
    x, _ = small()
    for name in ("particles", "mean", "covariance"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(gaussian, name))
    np.testing.assert_array_equal(loaded.predict_proba(x), gaussian.predict_proba(x))
    assert loaded.info.message == gaussian.info.message
    np.testing.assert_array_equal(loaded.info.r_hat, gaussian.info.r_hat)
    assert repr(loaded) == repr(gaussian)
    assert [path.name for path in tmp_path.iterdir()] == ["posterior.safetensors"]


def test_a_file_holds_no_particles_that_can_be_drawn_again(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    for method, names in (
        ("exact-flow", {"mean", "factor", "scale"}),
        ("hmc", {"mean", "covariance", "particles"}),
    ):
        posterior = sample_posterior(*small(), method=method, num_particles=80)
        posterior.save(tmp_path / "p.safetensors")
        assert set(load_file(tmp_path / "p.safetensors")) == names
        loaded = Posterior.load(tmp_path / "p.safetensors")
        np.testing.assert_array_equal(loaded.particles, posterior.particles)


def test_loading_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "not.safetensors"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="cannot read a posterior"):
        Posterior.load(path)
    with pytest.raises(UserError, match="cannot read a posterior"):
        Posterior.load(tmp_path / "missing")
    from safetensors.numpy import save_file

    save_file({"mean": np.zeros(2)}, path)
    with pytest.raises(UserError, match="not a posterior"):
        Posterior.load(path)


@pytest.mark.parametrize(
    "damage",
    [
        {"info": "{"},
        {"likelihood": "probit"},
        {"chains": "0"},
        {"mean": np.zeros((2, 3))},
        {"draws": "[3]"},
        {"factor": np.full((2, 4, 4), np.nan)},
        {"factor": np.zeros((2, 4, 4), int)},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_damaged_files_are_refused(damage: dict, gaussian: Posterior, tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    path = tmp_path / "p.safetensors"
    gaussian.save(path)
    with safe_open(path, framework="numpy") as file:
        header = file.metadata() | {k: v for k, v in damage.items() if isinstance(v, str)}
    del header["sha256"]  # as a stranger would make it
    arrays = load_file(path) | {k: v for k, v in damage.items() if not isinstance(v, str)}
    save_file(arrays, path, metadata=header)
    with pytest.raises(
        UserError, match="is not a posterior saved by this version|only F32 and F64|not a number"
    ):
        Posterior.load(path)


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9, 1.0])
def test_a_flipped_bit_is_found(at: float, gaussian: Posterior, tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    gaussian.save(path)
    flip(path, at)
    with pytest.raises(UserError, match="checksum mismatch|invalid JSON"):
        Posterior.load(path)


def test_arviz_sees_chains_draws_outputs_and_features() -> None:
    posterior = sample_posterior(*small(), num_particles=60)
    tree = posterior.to_arviz()
    assert tree.posterior["weights"].dims == ("chain", "draw", "output", "feature")
    assert tree.posterior["weights"].shape == (1, 60, 2, 4)
    np.testing.assert_array_equal(tree.posterior["weights"][0, :, 1], posterior.particles[1])


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = sample_posterior(*small(), num_particles=60)
    for module in ("arviz_base", "numpyro"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"lastlayer\[arviz\]"):
        posterior.to_arviz()
    with pytest.raises(UserError, match=r"lastlayer\[nuts\]"):
        sample_posterior(*small(), method="nuts")


def test_precision_follows_the_features_whatever_jax_is_set_to() -> None:
    x, t = small()
    assert sample_posterior(x, t).particles.dtype == np.float64
    assert sample_posterior(x.astype(np.float32), t).particles.dtype == np.float32
    assert sample_posterior(x, t, dtype="float32").mean.dtype == np.float32
    whole = np.round(x).astype(int)
    assert sample_posterior(whole, t).mean.dtype == np.float64


def test_the_first_call_keeps_lapack_to_one_thread() -> None:
    """In a fresh process JAX loads its LAPACK inside the block, if nothing has loaded it before."""
    code = """
import jax
from threadpoolctl import threadpool_info
from lastlayer.machine import use_one_blas_thread
with use_one_blas_thread():
    jax.numpy.linalg.cholesky(jax.numpy.eye(3)).block_until_ready()
    print([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"])
"""
    several = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=several
    )
    threads = json.loads(done.stdout)
    assert len(threads) > 1, "NumPy's and SciPy's"
    assert set(threads) == {1}


def test_a_generator_draws_the_seed() -> None:
    """Two generators in the same state give the same bits, and the seed drawn can be used again."""
    first, second = (
        sample_posterior(*small(), seed=np.random.default_rng(3), num_particles=20)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.particles, second.particles)
    again = sample_posterior(*small(), seed=first.info.settings["seed"], num_particles=20)
    np.testing.assert_array_equal(first.particles, again.particles)
    generator = np.random.default_rng(3)
    generator.integers(2**32)
    other = sample_posterior(*small(), seed=generator, num_particles=20)
    assert not np.array_equal(first.particles, other.particles)
