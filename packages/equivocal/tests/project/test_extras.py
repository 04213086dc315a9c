"""The sampler alone needs little; a process that refuses all other imports stands for it."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SAMPLER = tomllib.loads((ROOT / "packages" / "lastlayer" / "pyproject.toml").read_text())["project"]
NEEDED = {"jax", "numpy", "safetensors", "threadpoolctl"}
# of equivocal's dependencies; JAX itself brings the others
REFUSED = {"equivocal", "pandas", "xarray", "pydantic", "typer", "matplotlib", "equinox", "optax"}
EXTRAS = {"sklearn", "torch", "numpyro", "arviz_base"}


def run_refusing(code: str, *refused: str) -> str:
    """Run code where these modules cannot be imported, and return what it prints."""
    refuse = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(refused)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""
    done = subprocess.run(
        [sys.executable, "-c", refuse + code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_posterior_without_any_extra(tmp_path: Path) -> None:
    """Sample, predict, save and load."""
    file = str(tmp_path / "p.safetensors")
    code = f"""
import numpy as np
from lastlayer import LastLayer, Posterior, sample_posterior
x = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 2.0]])
posterior = sample_posterior(x, [0, 0, 1], prior_variance=1.0, num_particles=10)
posterior.save({file!r})
print(Posterior.load({file!r}).predict_proba(x)[2, 0])
"""
    printed = run_refusing(code, *REFUSED, *EXTRAS)
    assert 0.5 < float(printed) < 1


def test_estimators_need_scikit_learn_alone() -> None:
    code = """
from lastlayer.sklearn import BayesianLogistic
model = BayesianLogistic().fit([[-1.0], [0.0], [2.0], [3.0]] * 3, [0, 0, 1, 1] * 3)
print(model.predict([[9.0]]))
"""
    assert run_refusing(code, *REFUSED, "torch", "numpyro", "arviz_base") == "[1]\n"


def test_a_psycholinguist_needs_no_extra() -> None:
    """`ask` answers where every extra is missing."""
    code = "from equivocal.cli import main; import sys; "
    code += "sys.argv = ['equivocal', 'ask', 'during dinner, the woman eats pizza']; main()"
    printed = run_refusing(
        code, "sklearn", "torch", "numpyro", "arviz_base", "distributed", "bokeh"
    )
    assert "pizza" in printed


def test_importing_is_light_before_the_first_fit() -> None:
    """scikit-learn is loaded with a name, JAX with the first fit."""
    code = """
import sys
import lastlayer, lastlayer.sklearn
print("jax" in sys.modules)
from lastlayer.sklearn import BayesianLogistic
BayesianLogistic(prior_variance=1.0).fit([[0.0], [1.0]], [0, 1])
print("jax" in sys.modules)
"""
    assert run_refusing(code).splitlines() == ["False", "True"]
