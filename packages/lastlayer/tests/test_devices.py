"""Rows cut over devices: the posterior of one device, to round-off."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from lastlayer import sample_posterior
from lastlayer.errors import UserError
from problems import small
from several_devices import PROBLEM


def started(out: Path, *arguments: str, devices: int) -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-m", "several_devices", str(out), *arguments],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said


def assert_same(found: Path, one: dict[str, np.ndarray], atol: float = 1e-5) -> None:
    """Equal to the tolerance of the flows, whose start differs on one device; or to round-off."""
    with np.load(found) as arrays:
        for name, expected in one.items():
            np.testing.assert_allclose(arrays[name], expected, rtol=1e-9, atol=atol, err_msg=name)


def on_one_device(method: str, num_steps: int | None = None) -> dict[str, np.ndarray]:
    data = small(**PROBLEM)
    posterior = sample_posterior(*data, method=method, num_steps=num_steps, num_particles=50)
    arrays = {name: getattr(posterior, name) for name in ("mean", "covariance", "particles")}
    return arrays | {"shift": posterior.info.covariance_shift}


@pytest.mark.slow
def test_devices_of_one_host_find_what_one_device_finds(tmp_path: Path) -> None:
    """601 rows on three devices: neither blocks nor rows come out even."""
    process = started(tmp_path / "found.npz", "exact-flow", "3", devices=4)
    expected = on_one_device("exact-flow")
    finished(process)
    assert_same(tmp_path / "found.npz", expected)


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["2", "4", "all"])
@pytest.mark.parametrize("method", ["exact-flow", "laplace", "dropout-deterministic", "hmc"])
def test_every_method_on_every_number_of_devices(tmp_path: Path, method: str, devices: str) -> None:
    process = started(tmp_path / "found.npz", method, devices, devices=4)
    flows = method in {"exact-flow", "laplace"}
    expected = on_one_device(method, None if flows else 4)
    finished(process)
    atol = 1e-5 if flows or method == "hmc" else 1e-11
    assert_same(tmp_path / "found.npz", expected, atol)


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (0, "devices must be a whole number ≥ 1"),
        (999, "xla_force_host_platform_device_count"),
        ("some", "devices must be 'all', a number, or a list"),
        ([], "devices must be .* a list of some of"),
        (2 * jax.devices()[:1], "devices must be .* each once"),
        (["cpu:0"], "devices must be .* a list of some of"),
    ],
)
def test_unknown_devices_are_refused(devices: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        sample_posterior(*small(), devices=devices)


def test_one_device_by_name_is_one_device() -> None:
    data = small()
    named = sample_posterior(*data, devices=jax.devices()[:1])
    np.testing.assert_array_equal(named.mean, sample_posterior(*data).mean)
