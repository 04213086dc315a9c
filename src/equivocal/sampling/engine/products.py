"""The large matrix products of a step, in the precision that was asked for.

    full   the run's own precision
    tf32   operands rounded to 11 significant bits, sums in float32
    bf16   operands rounded to 8 significant bits, sums in float32

Only B = ΨG and BᵀrB are rounded: they make the covariance, whose error is then about the rounding's
own (docs/scaling.md has it measured against float64). Logits' means and the gradient stay full, so
the mean still settles where the full gradient vanishes. Where there are no tensor cores the same
rounding is done by hand, so that results can be compared on any machine.
"""

from enum import StrEnum

import jax
import jax.numpy as jnp
from jax.lax import DotAlgorithmPreset

from equivocal.sampling.engine.shapes import Array


class Precision(StrEnum):
    """How many bits the operands of a matrix product keep; sums use the run's precision."""

    FULL = "full"
    TF32 = "tf32"
    BF16 = "bf16"

    @property
    def bits(self) -> int:
        """Bits of the mantissa beside the leading one; 0 means that none are cut off."""
        return {"full": 0, "tf32": 10, "bf16": 7}[self.value]

    @property
    def unit(self) -> float:
        """The relative size of a rounding, 0 at full precision."""
        return 2.0**-self.bits if self.bits else 0.0


ON_TENSOR_CORES = {
    Precision.TF32: DotAlgorithmPreset.TF32_TF32_F32,
    Precision.BF16: DotAlgorithmPreset.BF16_BF16_F32,
}


def multiply(a: Array, b: Array, precision: Precision) -> Array:
    """Return `a @ b`, batched as `jnp.matmul` batches."""
    if a.dtype == jnp.float32 and precision in ON_TENSOR_CORES and _has_tensor_cores():
        how = ON_TENSOR_CORES[precision]
        return jnp.matmul(a, b, precision=how, preferred_element_type=jnp.float32)
    if precision is not Precision.FULL:
        a, b = (jax.lax.reduce_precision(x, 8, precision.bits) for x in (a, b))
    return jnp.matmul(a, b)


def _has_tensor_cores() -> bool:
    """Return whether the GPU rounds operands itself, as Ampere and newer do."""
    device = jax.devices()[0]
    if device.platform != "gpu" or "nvidia" not in device.device_kind.lower():
        return False
    major = str(getattr(device, "compute_capability", "0")).split(".")[0]
    return int(major) >= 8
