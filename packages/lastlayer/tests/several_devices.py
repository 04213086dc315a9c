"""A process that samples with its rows cut over devices; tests start it.

python -m several_devices OUT.npz METHOD DEVICES
"""

import sys

import numpy as np

from lastlayer import sample_posterior
from problems import small

# large enough for jaxlib to deal a LAPACK call out to threads: see `devices.apply_one_by_one`
PROBLEM = {"num_outputs": 40, "num_rows": 601, "num_features": 40}


def main(out: str, method: str, devices: str) -> None:
    """Sample and write the posterior's arrays."""
    posterior = sample_posterior(
        *small(**PROBLEM),
        method=method,
        devices=devices if devices == "all" else int(devices),
        num_steps=None if method in {"exact-flow", "laplace"} else 4,
        num_particles=50,
    )
    arrays = {name: getattr(posterior, name) for name in ("mean", "covariance", "particles")}
    info = posterior.info
    np.savez(out, **arrays, shift=info.covariance_shift, device=info.settings["device"])


if __name__ == "__main__":
    main(*sys.argv[1:])
