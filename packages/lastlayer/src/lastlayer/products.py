"""The large matrix products of a step: their precision, and those that all outputs share.

    full   the run's own precision
    tf32   operands rounded to 11 significant bits, sums in float32
    bf16   operands rounded to 8 significant bits, sums in float32

Only B = ΨG and BᵀrB are rounded: they make the covariance, whose error is then about the rounding's
own (docs/scaling.md has it measured against float64). Logits' means and the gradient stay full, so
the mean still settles where the full gradient vanishes. Where there are no tensor cores the same
rounding is done by hand, so that results can be compared on any machine.

Outputs share features, so that a step can be two wide matrix products (`Shared`). With the
products of each row's features, Φ = (ψ_i ψ_j) for i ≤ j, the variances of all logits and
the curvatures of all outputs are, docs/maths.md (26),

    v = vec(P) Φ,          vec(H) = (c E[y(1−y)]) Φᵀ,

K × D(D+1)/2 × N each: half the arithmetic of B = ΨG and Bᵀ diag(r) B, since a symmetric matrix is
counted once, and in the shape in which a matrix product is fastest.

Where Φ would be too large, the same sums are made output by output.

What this costs is digits: v is a sum that may cancel, and GᵀHG takes H from large to small
directions. In the basis of the rows' own principal directions (`rotate`) entries are as small as
their directions are, and rounding is relative to each. The prior N(0, I) is the same in every such
basis. Outputs that do not converge this way are left to the products of `flow`.
"""

from dataclasses import replace
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import DotAlgorithmPreset

from lastlayer.compiling import Array, Float, compile_on_call
from lastlayer.problem import Problem


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


def rotate(problem: Problem) -> tuple[Problem, np.ndarray]:
    """Return the problem in w' = Uᵀw, and U: eigenvectors of the rows' weighted covariance."""
    # in one order: products of columns stored otherwise differ in their last bit
    psi = np.multiply(problem.features, problem.prior_scale, order="C")
    U = np.linalg.eigh((psi.T * problem.row_counts) @ psi)[1][:, ::-1]
    m0 = (problem.prior_mean / problem.prior_scale) @ U
    unit = np.ones_like(problem.prior_scale)
    return replace(problem, features=psi @ U, prior_mean=m0, prior_scale=unit), U


class Shared(NamedTuple):
    """The rows of a flow as one block, and their products if these are used.

    Products are formed by parts of the rows, once or in every pass: either way, sums over rows are
    the same to the last bit.
    """

    features: Float[Array, "N D"]
    parts: Float[Array, "P R D"] | None  # the same rows where products are formed in every pass
    products: tuple[Float[Array, "T R"], ...] | None  # Φ of each part where it is held

    def compute_variances(self, factor: Float[Array, "K D r"]) -> Float[Array, "K N"]:
        """Return ψᵀPψ of every row, P = GGᵀ: maths (26)."""
        if self.parts is None and self.products is None:
            return jax.lax.map(lambda G: ((self.features @ G) ** 2).sum(axis=1), factor)
        i, j = np.triu_indices(factor.shape[1])
        twice = np.where(i == j, 1, 2).astype(factor.dtype)
        P = jnp.matmul(factor, factor.swapaxes(1, 2))[:, i, j] * twice
        if self.products is not None:
            found = jnp.concatenate([_contract(P, each, 0) for each in self.products], axis=1)
        else:
            found = jax.lax.map(lambda psi: _contract(P, form_products(psi), 0), self.parts)
            found = found.swapaxes(0, 1).reshape(len(P), -1)
        return jnp.maximum(found, 0)

    def compute_curvatures(self, weights: Float[Array, "K N"]) -> Float[Array, "K D D"]:
        """Return Ψᵀ diag(w) Ψ for the weights of every output: maths (26)."""
        if self.parts is None and self.products is None:
            return jax.lax.map(lambda w: (self.features.T * w) @ self.features, weights)
        D = self.features.shape[1]
        i, j = np.triu_indices(D)
        place = np.zeros((D, D), int)
        place[i, j] = place[j, i] = np.arange(len(i))
        if self.products is not None:
            some = zip(jnp.split(weights, len(self.products), axis=1), self.products, strict=True)
            found = reduce(jnp.add, (_contract(w, each, 1) for w, each in some))
        else:
            assert self.parts is not None
            cut = weights.reshape(len(weights), len(self.parts), -1).swapaxes(0, 1)
            zero = jnp.zeros((len(weights), len(i)), weights.dtype)
            found, _ = jax.lax.scan(_add_products, zero, (cut, self.parts))
        return found[:, place]


def _contract(a: Float[Array, "K n"], products: Float[Array, "T R"], axis: int) -> Array:
    """Return a Φ (axis 0) or a Φᵀ (axis 1).

    Merged with what is around it in a program, the product would have other bits.
    """
    a, products = jax.lax.optimization_barrier((a, products))  # type: ignore[no-untyped-call]
    found: Array = jax.lax.dot_general(a, products, (((1,), (axis,)), ((), ())))
    return jax.lax.optimization_barrier(found)  # type: ignore[no-untyped-call]


def _add_products(total: Array, some: tuple[Array, Array]) -> tuple[Array, None]:
    weights, features = some
    return total + _contract(weights, form_products(features), 1), None


def count_products(num_features: int) -> int:
    """Return D(D+1)/2, the number of products of a row."""
    return num_features * (num_features + 1) // 2


def form_products(features: Float[Array, "R D"]) -> Float[Array, "T R"]:
    """Return Φ, which has one row for each pair i ≤ j."""
    i, j = np.triu_indices(features.shape[1])
    columns = features.T
    return columns[i] * columns[j]


@compile_on_call(static_argnames=("parts", "held"))
def share_rows(features: Float[Array, "1 N D"], parts: int, held: bool) -> Shared:
    """Return what outputs share of rows in one block; products are formed in so many parts."""
    psi = features[0]
    if not parts:
        return Shared(psi, None, None)
    cut = psi.reshape(parts, -1, psi.shape[1])
    if not held:
        return Shared(psi, cut, None)
    return Shared(psi, None, tuple(form_products(some) for some in cut))
