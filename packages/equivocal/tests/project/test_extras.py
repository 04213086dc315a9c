"""What each installation can do: the sampler alone, with scikit-learn, and all of it.

A process that refuses to import what an extra brings stands for an installation without it.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MODULES = {"scikit-learn": "sklearn", "tomli-w": "tomli_w", "arviz-base": "arviz_base"}
# required by JAX itself
SHARED = {"scipy"}


def list_modules(*extras: str) -> set[str]:
    """Return the modules that extras bring, other than those of the core."""
    names = {re.match(r"[\w.-]+", each)[0] for extra in extras for each in EXTRAS[extra]}
    return {MODULES.get(name, name) for name in names} - SHARED - {"equivocal"}


def run_without(code: str, *extras: str, arguments: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Run code where the modules of these extras cannot be imported."""
    refuse = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(list_modules(*extras))!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""
    done = subprocess.run(
        [sys.executable, "-c", refuse + code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_core_is_small() -> None:
    names = {re.match(r"[\w.-]+", each)[0] for each in PROJECT["dependencies"]}
    assert names == {"jax", "numpy", "safetensors", "threadpoolctl"}


def test_a_posterior_without_any_extra(tmp_path: Path) -> None:
    """Sample, predict, save, load and measure with the core alone."""
    code = f"""
import numpy as np
from equivocal import metrics, sample_posterior
from lastlayer import Posterior
x = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 2.0]])
posterior = sample_posterior(x, [0, 0, 1], prior_variance=1.0, num_particles=10)
posterior.save({str(tmp_path / "p.safetensors")!r})
again = Posterior.load({str(tmp_path / "p.safetensors")!r})
print(metrics.calibration_error([0, 0, 1], again.predict_proba(x)[:, 0]))
"""
    code_returned, out, err = run_without(code, "model", "sklearn", "web", "nuts", "arviz")
    assert code_returned == 0, err
    assert 0 < float(out) < 1


def test_estimators_need_scikit_learn_alone() -> None:
    code = """
from lastlayer.sklearn import EnsembleKalmanClassifier
model = EnsembleKalmanClassifier().fit([[-1.0], [0.0], [2.0], [3.0]] * 3, [0, 0, 1, 1] * 3)
print(model.predict([[9.0]]))
"""
    code_returned, out, err = run_without(code, "model", "web", "nuts", "arviz")
    assert code_returned == 0, err
    assert out == "[1]\n"


@pytest.mark.parametrize("command", ["ask", "doctor", "reproduce"])
def test_a_command_without_its_extra_says_what_to_install(command: str) -> None:
    code = "from equivocal.cli import main; main()"
    returned, out, err = run_without(code, "model", arguments=(command,))
    assert (returned, out) == (2, "")
    assert re.fullmatch(
        rf"error: `equivocal {command}` needs \w+: pip install 'equivocal\[model\]'\.\n", err
    )


def test_a_public_name_without_its_extra_says_what_to_install() -> None:
    returned, _, err = run_without("from equivocal import World", "model")
    assert returned == 1
    assert "equivocal.World needs pydantic: pip install 'equivocal[model]'." in err


def test_extras_that_need_the_model_bring_it() -> None:
    for extra in ("web", "cluster"):
        assert "equivocal[model]" in EXTRAS[extra]
    makefile = (ROOT / "Makefile").read_text()
    assert '--editable ".[web,nuts]"' in makefile  # `make reproduce`


def test_importing_is_light_before_the_first_fit() -> None:
    """scikit-learn is loaded with a name, JAX with the first fit."""
    code = """
import sys
import lastlayer, lastlayer.sklearn, equivocal.statistics.metrics_init
print("jax" in sys.modules, "sklearn" in sys.modules)
from lastlayer.sklearn import EnsembleKalmanClassifier
print("jax" in sys.modules, "sklearn.metrics" in sys.modules)
EnsembleKalmanClassifier(prior_variance=1.0).fit([[0.0], [1.0]], [0, 1])
print("jax" in sys.modules)
"""
    _, out, err = run_without(code)
    assert out.splitlines() == ["False False", "False False", "True"], err
