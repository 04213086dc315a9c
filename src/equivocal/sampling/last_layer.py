"""A posterior over the last layer of any network: raw inputs in, degrees of belief out.

    a_k(x) = ψ(x)·θ_k,     ψ(x) = (what the last layer is given, 1)

The network up to its last layer is a fixed feature map ψ. `sample_posterior` gives the posterior of
θ = (weights, bias), one row per output. Trained weights serve as the mean of the prior, as in
"Ensemble Kalman filter for uncertainty in human language comprehension". `last_layer_posterior`
takes any callable as ψ; `from_torch` reads ψ, weights and bias from a PyTorch module. Its last
layer is found by watching one pass: the `torch.nn.Linear` reached last, if what it computes is what
the module returns. Nothing here imports PyTorch before a module is handed over.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivocal.sampling.engine.inputs import (
    check_bool,
    check_counts,
    check_int,
    check_numbers,
    encode_classes,
    fail,
)
from equivocal.sampling.engine.problem import Likelihood
from equivocal.sampling.front import sample_posterior
from equivocal.sampling.info import Info
from equivocal.sampling.posterior import Entropies, Posterior

BATCH_SIZE = 1024
# Modules that change no value in evaluation mode, so they may stand behind the last layer.
HARMLESS = {"Identity", "Dropout", "AlphaDropout", "Flatten", "Unflatten"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LastLayerPosterior:
    """A feature map and the posterior over what is put on top of it."""

    posterior: Posterior
    feature_map: Callable[[Any], Any]
    intercept: bool = True  # a column of ones follows the features

    def __repr__(self) -> str:
        K, D = self.posterior.mean.shape
        size = f"{K} output{'s' * (K != 1)} × {D} weights"
        return f"<LastLayerPosterior of {size}, {self.info.method}: {self.info.message}>"

    @property
    def info(self) -> Info:
        """How the run went and whether to trust it."""
        return self.posterior.info

    def features(self, inputs: Any) -> np.ndarray:
        """Return ψ of raw inputs, as the posterior takes them.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        numpy.ndarray
            (N, D).
        """
        return _compute_features(self.feature_map, inputs, self.intercept)

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """Return the probability E[y] of each input and output.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
        return self.posterior.predict_proba(self.features(inputs))

    def predict_interval(self, inputs: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central `level` of y over the posterior.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.
        level : float
            Share of the posterior between the two ends, in (0, 1).

        Returns
        -------
        low, high : numpy.ndarray
            Each (N, K).
        """
        return self.posterior.predict_interval(self.features(inputs), level)

    def entropies(self, inputs: Any) -> Entropies:
        """Return the total, aleatoric and epistemic uncertainty of each prediction, in nats.

        Parameters
        ----------
        inputs
            Whatever the feature map takes.

        Returns
        -------
        Entropies
            `total`, `expected` (aleatoric) and `information` (epistemic).
        """
        return self.posterior.entropies(self.features(inputs))


def last_layer_posterior(
    feature_map: Callable[[Any], Any],
    inputs: Any,
    targets: Any,
    *,
    weights: Any = None,
    bias: Any = None,
    intercept: bool = True,
    likelihood: str | None = None,
    **options: Any,
) -> LastLayerPosterior:
    """Sample the posterior over a last layer on top of `feature_map`.

    Parameters
    ----------
    feature_map : callable
        Takes inputs, returns an (N, D) array. It is held fixed and called again for predictions.
    inputs
        Whatever the feature map takes.
    targets : (N,) or (N, K)
        As for `sample_posterior`.
    weights : (K, D), optional
        Trained weights, the mean of the prior unless `prior_mean` is given too; 0 without both.
    bias : (K,), optional
        Trained biases, the prior mean of the intercepts; 0 where only `weights` are given.
    intercept : bool
        Append a column of ones to the features; its weight is the last of each row of weights.
    likelihood : "bernoulli" or "softmax", optional
        By default softmax where `targets` are (N,) and `weights` have several rows, else bernoulli.
    **options
        What `sample_posterior` takes: `prior_variance`, `method`, `counts`, `seed`, …

    Returns
    -------
    LastLayerPosterior
        The feature map with the posterior on top of it; it takes raw inputs.

    Raises
    ------
    equivocal.errors.UserError
        If an argument is not what it should be; the message names it and a way out.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-1.0, 0.0, 2.0])
    >>> belief = last_layer_posterior(lambda x: np.stack([x, x**2], axis=1), x, [0, 0, 1])
    >>> belief  # doctest: +ELLIPSIS
    <LastLayerPosterior of 1 output × 3 weights, exact-flow: converged in ... steps; ...>
    >>> belief.predict_proba(np.array([1.0])).shape
    (1, 1)
    """
    if not callable(feature_map):
        fail(
            f"feature_map must be callable, got {type(feature_map).__name__}; for rows of features "
            "that are there already use sample_posterior."
        )
    check_bool(intercept, "intercept")
    psi = _compute_features(feature_map, inputs, intercept)
    mean = _choose_prior_mean(weights, bias, psi.shape[1] - intercept, intercept)
    if mean is not None:
        options.setdefault("prior_mean", mean)
    num_outputs = None if mean is None else len(mean)
    targets, likelihood = _agree_on_likelihood(
        targets, num_outputs, likelihood, options.get("counts")
    )
    posterior = sample_posterior(psi, targets, likelihood=likelihood, **options)
    return LastLayerPosterior(posterior=posterior, feature_map=feature_map, intercept=intercept)


def from_torch(
    module: Any,
    inputs: Any,
    targets: Any,
    *,
    prior_variance: Any = 1.0,
    likelihood: str | None = None,
    batch_size: int = BATCH_SIZE,
    **options: Any,
) -> LastLayerPosterior:
    """Sample the posterior over the last layer of a PyTorch module that ends in `torch.nn.Linear`.

    ψ is what that layer is given, in evaluation mode; its weights and biases are the mean of the
    prior. A layer without biases gets no intercept. The module is not changed, and not copied
    either: train it further and the posterior no longer belongs to it.

    Parameters
    ----------
    module : torch.nn.Module
        Takes a batch of inputs, returns (N, K) logits: no sigmoid and no softmax at its end.
    inputs : tensor or array
        N inputs along the first axis. Floating-point numbers are brought to the module's precision.
    targets : (N,) or (N, K)
        Class numbers, for two or more outputs; or yes and no for each output.
    prior_variance : number or (D,)
        About the trained weights; D counts the bias.
    likelihood : "bernoulli" or "softmax", optional
        By default softmax for class numbers (N,) and two or more outputs, else bernoulli.
    batch_size : int
        Inputs that go through the module at a time, here and in predictions.
    **options
        What `sample_posterior` takes; `prior_mean` replaces the trained weights.

    Returns
    -------
    LastLayerPosterior
        The module's features with the posterior on top of them; it takes raw inputs.

    Raises
    ------
    equivocal.errors.UserError
        If the module does not end in a linear layer, or an argument is not what it should be.
    """
    for name in ("weights", "bias", "intercept"):
        if name in options:
            fail(
                f"from_torch reads {name} from the module; leave it out, or replace the mean of "
                "the prior with prior_mean."
            )
    feature_map = TorchFeatures(module, inputs, check_int(batch_size, "batch_size", least=1))
    layer = feature_map.layer
    return last_layer_posterior(
        feature_map,
        inputs,
        targets,
        weights=layer.weight,
        bias=layer.bias,
        intercept=layer.bias is not None,
        likelihood=likelihood,
        prior_variance=prior_variance,
        **options,
    )


def _compute_features(
    feature_map: Callable[[Any], Any], inputs: Any, intercept: bool
) -> np.ndarray:
    psi = _read_array(feature_map(inputs), "features")
    if psi.ndim != 2:
        fail(f"feature_map must return one row per input, (N, D), got shape {psi.shape}.")
    if not intercept:
        return psi
    return np.concatenate([psi, np.ones_like(psi[:, :1])], axis=1)


def _choose_prior_mean(
    weights: Any, bias: Any, num_features: int, intercept: bool
) -> np.ndarray | None:
    """Return (K, D), the bias last where there is an intercept; None without weights."""
    if bias is not None and (weights is None or not intercept):
        fail("bias is the prior mean of the intercept: it needs weights and intercept=True.")
    if weights is None:
        return None
    W = _read_array(weights, "weights")
    if W.ndim != 2 or W.shape[1] != num_features:
        fail(
            f"weights must have shape (K, {num_features}), one column per feature without the "
            f"intercept, got {W.shape}."
        )
    if not intercept:
        return W
    b = np.zeros(len(W), W.dtype) if bias is None else _read_array(bias, "bias")
    if b.shape != (len(W),):
        fail(f"bias must have shape ({len(W)},), one per row of weights, got {b.shape}.")
    return np.concatenate([W, b[:, None]], axis=1)


def _agree_on_likelihood(
    targets: Any, num_outputs: int | None, likelihood: str | None, counts: Any
) -> tuple[np.ndarray, str]:
    """Return targets, with a column per output if their number is known, and the likelihood."""
    t, K = _read_array(targets, "targets"), num_outputs
    classes = K is not None and K > 1 and t.ndim == 1
    if likelihood is None:
        likelihood = str(Likelihood.SOFTMAX if classes else Likelihood.BERNOULLI)
    if K is None:
        return t, likelihood
    if t.ndim > 1 and t.shape[1:] != (K,):
        fail(f"targets must have shape (N,) or (N, {K}), one column per output, got {t.shape}.")
    if not classes:
        return t, likelihood
    if likelihood != Likelihood.SOFTMAX:
        fail(
            f"targets of shape (N,) are class numbers, which need likelihood='softmax'; for yes/no "
            f"outputs give shape (N, {K})."
        )
    assert K is not None
    c = check_counts(counts, len(t), np.dtype("float64"))
    return encode_classes(t, c, K), likelihood


class TorchFeatures:
    """ψ of a PyTorch module: what its last linear layer is given; found with a batch of inputs."""

    def __init__(self, module: Any, inputs: Any, batch_size: int = BATCH_SIZE) -> None:
        if not isinstance(module, _import_torch().nn.Module):
            fail(
                f"module must be a torch.nn.Module, got {type(module).__name__}; "
                "for another callable use last_layer_posterior."
            )
        self.module = module
        self.batch_size = batch_size
        with _evaluate(module):
            self.layer = _find_last_linear(module, next(self._cut_batches(inputs)))

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return ψ, (N, D), batch by batch; the module is left as it was."""
        seen: list[Any] = []
        parts = []
        hook = self.layer.register_forward_pre_hook(
            lambda _, given, named: seen.extend((*given, *named.values())), with_kwargs=True
        )
        with hook, _evaluate(self.module):
            for batch in self._cut_batches(inputs):
                seen.clear()
                _call(self.module, batch)
                parts.append(_check_batch(seen, len(batch)))
        return np.concatenate(parts)

    def _cut_batches(self, inputs: Any) -> Iterator[Any]:
        inputs = _read_tensor(inputs)
        if inputs.ndim == 0 or len(inputs) == 0:
            fail(f"inputs must hold at least one row, got shape {tuple(inputs.shape)}.")
        like = next((p for p in self.module.parameters() if p.is_floating_point()), inputs)
        kind = like.dtype if inputs.is_floating_point() else inputs.dtype
        for batch in inputs.split(self.batch_size):
            yield batch.to(like.device, kind)


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        fail("from_torch needs PyTorch: pip install 'equivocal[torch]'.")
    return torch


@contextmanager
def _evaluate(module: Any) -> Iterator[None]:
    """Switch to evaluation mode without gradients; every submodule gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        with _import_torch().no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def _find_last_linear(module: Any, batch: Any) -> Any:
    """Return the `Linear` reached last in a pass, if the module returns what it computes."""
    returned, reached = _trace(module, batch)
    if not hasattr(returned, "numel"):
        fail(
            f"module must return a tensor of logits, got {type(returned).__name__}; "
            "wrap it in a module that returns its logits alone."
        )
    lasting = [pair for pair in reached if type(pair[0]).__name__ not in HARMLESS]
    if not lasting or lasting[-1][1] is None:
        last = type(lasting[-1][0]).__name__ if lasting else type(module).__name__
        fail(
            f"the last layer must be torch.nn.Linear, got {last}: leave the activation off, so "
            "that the module returns the logits of a linear layer."
        )
    layer, logits = lasting[-1]
    if sum(part is layer for part, _ in reached) > 1:
        fail("the last layer must be used once in a pass; its weights serve several places here.")
    # By value, since a view (a squeeze, a flatten) of the logits is still the logits.
    if returned.numel() != logits.numel() or not _import_torch().equal(
        returned.ravel(), logits.ravel()
    ):
        fail(
            "the module must return what its last torch.nn.Linear computes, but something changes "
            "it after that: leave the activation off, so that the module returns logits."
        )
    return layer


def _trace(module: Any, batch: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return a module's result and its layers in the order of a pass, linear ones with logits."""
    Linear = _import_torch().nn.Linear
    reached: list[tuple[Any, Any]] = []

    def note(layer: Any, _: Any, result: Any) -> None:
        # a copy, since an activation that works in place would overwrite it
        reached.append((layer, result.clone() if isinstance(layer, Linear) else None))

    layers = [p for p in module.modules() if isinstance(p, Linear) or not list(p.children())]
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(note))
        return _call(module, batch), reached


def _call(module: Any, batch: Any) -> Any:
    """Return the module's output for a batch; pass on PyTorch's error message."""
    try:
        return module(batch)
    except (RuntimeError, IndexError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        fail(
            f"inputs must be what the module takes, got shape {tuple(batch.shape)} and PyTorch "
            f"says: {said}."
        )


def _check_batch(seen: list[Any], length: int) -> np.ndarray:
    if len(seen) != 1 or seen[0].ndim != 2 or len(seen[0]) != length:
        shape = tuple(seen[0].shape) if seen else "nothing"
        fail(
            f"the last layer must be given one row of features per input, ({length}, D), got "
            f"{shape}; pool or flatten other axes before it."
        )
    return _read_array(seen[0], "features")


def _read_tensor(inputs: Any) -> Any:
    torch = _import_torch()
    if isinstance(inputs, torch.Tensor):
        return inputs
    try:
        array = np.asarray(inputs)
        return torch.as_tensor(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError):
        fail(
            f"inputs must be one tensor or array, got {type(inputs).__name__}; wrap a module that "
            "takes several in one that takes a single tensor."
        )


def _read_array(value: Any, name: str) -> np.ndarray:
    """Return finite numbers; a tensor from wherever it lives, half precision as float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        value = value.numpy()
    return check_numbers(value, name)
