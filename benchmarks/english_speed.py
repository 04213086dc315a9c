"""What English costs: reading 2,000 sentences, the same from the cache, and a posterior.

Seconds of wall clock and of processor time, and the largest memory so far in GB. The posterior is
the exact one of six outputs on 10,000 rows with 513 features, of a random hidden layer.

    python -m benchmarks.english_speed --out benchmarks/results/english_speed.json
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from equivocal.english.language_model import LanguageModel
from equivocal.english.sentences import Surface, draw_sentences, load_world
from lastlayer import sample_posterior


def measure(work: Callable[[], object]) -> dict[str, float]:
    """Do some work, and return what it cost."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    spent = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return {name: round(value, 2) for name, value in (spent | {"memory": memory}).items()}


def main() -> None:
    """Measure each part once, and write the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    drawn = draw_sentences(load_world(), Surface.load(), 4_000, seed=1)
    texts = [one.text for one in drawn if len(one.words) <= 12][:2_000]
    rng = np.random.default_rng(0)
    psi = np.hstack([np.tanh(rng.normal(size=(10_000, 512))), np.ones((10_000, 1))])
    logits = psi @ rng.normal(size=(513, 6)) / np.sqrt(513) * 3
    targets = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)
    with TemporaryDirectory() as folder:
        costs = {
            name: measure(lambda: LanguageModel(cache=Path(folder)).read(texts, [20]))
            for name in ("reading 2,000 sentences", "from the cache")
        }

    def sample() -> None:
        sampled = sample_posterior(
            psi, targets, method="hmc", num_particles=400, prior_variance=1.0, diagnose=False
        )
        np.asarray(sampled.particles)

    costs["exact posterior"] = measure(sample)
    out.write_text(json.dumps(costs, indent=1) + "\n")
    print(json.dumps(costs, indent=1))


if __name__ == "__main__":
    main()
