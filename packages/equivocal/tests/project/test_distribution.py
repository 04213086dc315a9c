"""Wheels and sdists build, install outside the repository, and answer a question there.

The new environment sees the dependencies of this one through a `.pth` file, whose folders follow
its own: `equivocal` and `lastlayer` come from the wheels.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PACKAGES = ("lastlayer", "equivocal")
TRAINING = ["--networks", "1", "--sentences", "100", "--epochs", "2"]


def run(*command: str | Path, cwd: Path) -> str:
    environment = os.environ | {"EQUIVOCAL_CACHE": "cache", "NO_COLOR": "1"}
    environment.pop("PYTHONPATH", None)  # it may lead to the repository
    result = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def build(folder: Path, target: str, out: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out, cwd=folder)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels and the sdists of this repository."""
    out = tmp_path_factory.mktemp("dist")
    for name in PACKAGES:
        for target in ("wheel", "sdist"):
            build(ROOT / "packages" / name, target, out)
    return out


@pytest.mark.parametrize("name", PACKAGES)
def test_sdist_builds_the_same_wheel_and_holds_nothing_else(
    name: str, dist: Path, tmp_path: Path
) -> None:
    (sdist,), (wheel,) = dist.glob(f"{name}-*.tar.gz"), dist.glob(f"{name}-*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    build(source, "wheel", tmp_path)
    with zipfile.ZipFile(wheel) as direct, zipfile.ZipFile(tmp_path / wheel.name) as again:
        assert sorted(again.namelist()) == sorted(direct.namelist())
        tops = {part.partition("/")[0] for part in direct.namelist()}
    assert tops == {name, f"{source.name}.dist-info"}
    assert {"LICENSE", "README.md", "src"} <= set(os.listdir(source))


@pytest.mark.longer
def test_installed_wheel_answers_outside_the_repository(dist: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python, program = environment / "bin" / "python", environment / "bin" / "equivocal"
    installer = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run(*installer, "--no-deps", "--no-index", *dist.glob("*.whl"), cwd=tmp_path)
    ours = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path)
    borrowed = Path(ours.strip()) / "borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib") + "\n")
    place = run(python, "-c", "import equivocal; print(equivocal.__file__)", cwd=tmp_path)
    assert place.startswith(str(environment))
    assert run(program, "--version", cwd=tmp_path).startswith("equivocal ")
    assert "176" in run(program, "world", "show", "paper", cwd=tmp_path)
    run(program, "world", "new", "garden.toml", cwd=tmp_path)
    run(program, "train", "--world", "garden.toml", *TRAINING, "--out", "run", cwd=tmp_path)
    answer = run(program, "ask", "the dog chases the cat", "--run", "run", "--json", cwd=tmp_path)
    assert [word["word"] for word in json.loads(answer)["words"]] == ["dog", "chases", "cat"]
