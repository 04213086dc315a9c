"""A process that samples with its rows cut over devices; tests start one or two of them.

    python -m several_devices OUT.npz METHOD DEVICES [ADDRESS RANK [MISTAKE]]

Every process makes the same problem. With an address it joins another process there, keeps every
second row of the problem (rank 1 a few less), and samples over the devices of both. Of two, rank 1
makes the mistake: a row that is not a number ("nan"), or another prior ("prior").
"""

import sys

import jax
import numpy as np

from lastlayer import sample_posterior
from problems import small

# large enough for jaxlib to deal a LAPACK call out to threads: see `placement.apply_one_by_one`
PROBLEM = {"num_outputs": 40, "num_rows": 601, "num_features": 40}


def main(
    out: str, method: str, devices: str, address: str = "", rank: str = "0", mistake: str = ""
) -> None:
    """Sample and write the posterior's arrays."""
    features, targets = small(**PROBLEM)
    number = int(rank)
    if address:
        jax.distributed.initialize(address, num_processes=2, process_id=number)
        features, targets = features[number::2], targets[number::2]
    if number and mistake == "nan":
        features[7, 3] = np.nan
    steps = None if method in {"exact-flow", "laplace"} else 4
    posterior = sample_posterior(
        features,
        targets,
        prior_variance=2.0 if number and mistake == "prior" else 1.0,
        method=method,
        devices=devices if devices == "all" else int(devices),
        num_steps=steps,
        num_particles=50,
    )
    arrays = {name: getattr(posterior, name) for name in ("mean", "covariance", "particles")}
    info = posterior.info
    np.savez(out, **arrays, shift=info.covariance_shift, device=info.settings["device"])


if __name__ == "__main__":
    main(*sys.argv[1:])
