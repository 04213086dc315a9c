"""`equivocal doctor` as a process, on machines where something is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from needs import needs

COMMAND = [sys.executable, "-m", "equivocal", "doctor"]
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def doctor(
    *arguments: str, before: tuple[str, ...] = (), cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NO_COLOR": "1", "JAX_PLATFORMS": "cpu"} | variables
    return subprocess.run(
        [*before, *COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=120,
        check=False,
    )


def findings(result: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    """By name; the exit code agrees with them."""
    content = json.loads(result.stdout)
    problems = [entry for entry in content["findings"] if entry["state"] == "problem"]
    assert content["well"] == (not problems)
    assert result.returncode == (1 if problems else 0), result.stderr
    assert all(entry["advice"] for entry in problems)
    return {entry["name"]: entry for entry in content["findings"]}


def hiding(folder: Path, *names: str) -> dict[str, str]:
    """A Python that cannot import these, nor can the processes that it starts."""
    (folder / "sitecustomize.py").write_text(HIDE.format(names=set(names)))
    return {"PYTHONPATH": str(folder)}


def test_all_is_well_here(tmp_path: Path) -> None:
    result = doctor(EQUIVOCAL_CACHE=str(tmp_path / "cache"), cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    sections = [line for line in lines if line and not line.startswith(" ")]
    assert sections == ["versions", "machine", "devices", "folders", "extras", "all is well"]
    assert f"python            {sys.version.split()[0]}" in result.stdout
    assert "jax computes on cpu" in result.stdout
    assert not (tmp_path / "cache").exists()  # it looks, and leaves nothing behind
    assert not list(tmp_path.iterdir())


def test_a_backend_that_jax_does_not_have() -> None:
    result = doctor(JAX_PLATFORMS="nonsense")
    assert result.returncode == 1
    assert "Unable to initialize backend 'nonsense'" in result.stdout
    assert "JAX_PLATFORMS is 'nonsense'" in result.stdout
    assert "something is wrong" in result.stdout.splitlines()[-1]
    assert "Traceback" not in result.stdout + result.stderr


def test_jax_is_missing_and_an_extra_and_a_folder(tmp_path: Path) -> None:
    hidden = hiding(tmp_path, "jax", "sklearn")
    found = findings(doctor("--json", EQUIVOCAL_CACHE="/proc/nowhere", **hidden))
    assert found["jax"]["state"] == "problem"
    assert found["sklearn"]["state"] == "note"  # optional
    assert found["sklearn"]["advice"] == "pip install 'equivocal[sklearn]'"
    assert found["nuts"]["state"] == "ok"
    assert "/proc/nowhere: cannot be written" in found["cache folder"]["found"]
    assert "EQUIVOCAL_CACHE" in found["cache folder"]["advice"]


def test_a_crash_of_jax_is_reported(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("import os; os.abort()")
    result = doctor(PYTHONPATH=str(tmp_path), JAX_PLATFORMS="")
    assert result.returncode == 1
    assert "does not start" in result.stdout
    assert "→ install it again" in result.stdout


def test_versions_that_do_not_fit_and_a_gpu_that_jax_does_not_use(tmp_path: Path) -> None:
    """An older jaxlib and an older NumPy in front of those installed, and a driver's own tool."""
    for name, version in (("jaxlib", "0.4.1"), ("numpy", "1.26.0")):
        about = tmp_path / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    found = findings(doctor("--json", PYTHONPATH=str(tmp_path), PATH=path, JAX_PLATFORMS=""))
    assert found["jaxlib"]["state"] == "problem"
    assert found["jaxlib"]["found"].startswith("0.4.1, but ")
    assert found["jaxlib"]["advice"].startswith("pip install 'jaxlib")
    assert found["numpy"]["found"] == "1.26.0, but >=2.2 is needed"
    for name in ("NVIDIA GPU", "cuda"):
        assert found[name]["advice"] == "pip install 'equivocal[cuda]'"


@pytest.mark.parametrize(
    ("options", "reason"), [("ro", "Read-only file system"), ("size=4k", "No space left")]
)
def test_a_disk_that_is_read_only_or_full(options: str, reason: str, tmp_path: Path) -> None:
    """A real one, mounted for the process alone; temporary files are to go there too."""
    needs("namespaces")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o {options} none {disk}"
    apart = ("unshare", "--map-root-user", "--mount", "sh", "-c")
    before = (*apart, f'{mount} && exec "$@"', "sh")
    result = doctor("--json", before=before, EQUIVOCAL_CACHE=f"{disk}/cache", TMPDIR=str(disk))
    found = findings(result)
    for name in ("cache folder", "temporary folder"):
        assert found[name]["state"] == "problem"
        assert reason in found[name]["found"]
    assert found["current folder"]["state"] == "ok"
