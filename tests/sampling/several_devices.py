"""A process that samples with its rows cut over devices; tests start one or two of them.

    python -m tests.sampling.several_devices OUT.npz METHOD DEVICES [ADDRESS RANK]

Every process makes the same problem. With an address it joins another process there, keeps every
second row of the problem (rank 1 a few less), and samples over the devices of both.
"""

import sys

import jax
import numpy as np

from equivocal.sampling import sample_posterior
from tests.sampling.problems import small

# large enough for jaxlib to deal a LAPACK call out to threads: see `placement.one_by_one`
PROBLEM = {"num_outputs": 40, "num_rows": 601, "num_features": 40}


def main(out: str, method: str, devices: str, *together: str) -> None:
    """Sample and write the posterior's arrays."""
    features, targets = small(**PROBLEM)
    if together:
        address, rank = together[0], int(together[1])
        jax.distributed.initialize(address, num_processes=2, process_id=rank)
        features, targets = features[rank::2], targets[rank::2]
    steps = None if method in {"exact-flow", "laplace"} else 4
    number = devices if devices == "all" else int(devices)
    posterior = sample_posterior(
        features, targets, method=method, devices=number, num_steps=steps, num_particles=50
    )
    arrays = {name: getattr(posterior, name) for name in ("mean", "covariance", "particles")}
    np.savez(out, **arrays, shift=posterior.info.covariance_shift, devices=jax.device_count())


if __name__ == "__main__":
    main(*sys.argv[1:])
