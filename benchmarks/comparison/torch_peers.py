"""laplace-torch and vbll, on the features of the same network.

Neither has a likelihood for several yes/no labels, so each label gets a model of its own: a softmax
over the logits (−a/2, a/2), which is equivalent to logistic regression with logit a. Both are used
as in their documentation. The prior precision of laplace-torch maximises its marginal likelihood,
or is chosen on the validation rows ("grid").
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.comparison.data import MissingPackageError
from benchmarks.comparison.problem import Fitted, Problem, describe_doubt

__all__ = [
    "fit_laplace_diag",
    "fit_laplace_full",
    "fit_laplace_grid",
    "fit_laplace_kron",
    "fit_vbll",
]

DRAWS = 200
VBLL_EPOCHS, VBLL_BATCH, VBLL_RATE = 30, 64, 1e-2


def _fit_laplace(problem: Problem, structure: str, method: str = "marglik") -> Fitted:
    try:
        import torch
        from laplace import Laplace
    except ImportError as error:
        raise MissingPackageError("it needs laplace-torch: pip install laplace-torch") from error
    torch.manual_seed(problem.task.seed)
    psi = {part: torch.from_numpy(each[:, :-1].copy()) for part, each in problem.features.items()}

    def load(part: str, y: np.ndarray) -> Any:
        data = torch.utils.data.TensorDataset(psi[part], torch.tensor(y, dtype=torch.long))
        return torch.utils.data.DataLoader(data, batch_size=len(y))

    def fit(W: np.ndarray, c: np.ndarray, y: np.ndarray, beside: np.ndarray) -> Any:
        layer = torch.nn.Linear(W.shape[1], len(c))
        layer.load_state_dict({"weight": torch.tensor(W), "bias": torch.tensor(c)})
        model: Any = Laplace(
            torch.nn.Sequential(torch.nn.Identity(), layer),
            "classification",
            subset_of_weights="last_layer",
            hessian_structure=structure,
        )
        model.fit(load("train", y))
        held_out = load("validation", beside) if method == "gridsearch" else None
        model.optimize_prior_precision(method=method, val_loader=held_out)
        return model

    models = _fit_each(problem, fit)

    def predict(x: np.ndarray) -> np.ndarray:
        given = _read_features(problem, x)
        return _gather(problem, [model(given, link_approx="probit") for model in models])

    def draw(x: np.ndarray) -> np.ndarray:
        given = _read_features(problem, x)
        drawn = [model.functional_samples(given, n_samples=DRAWS) for model in models]
        return _gather_logits(problem, drawn)

    return Fitted(predict, lambda x: describe_doubt(draw(x), problem.classes))


fit_laplace_diag = partial(_fit_laplace, structure="diag")
fit_laplace_kron = partial(_fit_laplace, structure="kron")
fit_laplace_full = partial(_fit_laplace, structure="full")
fit_laplace_grid = partial(_fit_laplace, structure="kron", method="gridsearch")


def fit_vbll(problem: Problem) -> Fitted:
    """Train a variational Bayesian last layer (Harrison, Willes & Snoek 2024) on the features."""
    try:
        import torch
        import vbll
    except ImportError as error:
        raise MissingPackageError("it needs vbll: pip install vbll") from error
    torch.manual_seed(problem.task.seed)
    psi = torch.from_numpy(problem.features["train"])

    def fit(W: np.ndarray, _c: np.ndarray, y: np.ndarray, _beside: np.ndarray) -> Any:
        layer = vbll.DiscClassification(
            psi.shape[1], len(W), 1 / len(psi), parameterization="dense", wishart_scale=0.1
        )
        optimiser = torch.optim.Adam(layer.parameters(), lr=VBLL_RATE)
        target = torch.tensor(y, dtype=torch.long)
        for _epoch in range(VBLL_EPOCHS):
            order = torch.randperm(len(psi))
            # vbll makes a matrix for each row: all rows at once would take minutes
            for first in range(0, len(psi), VBLL_BATCH):
                rows = order[first : first + VBLL_BATCH]
                optimiser.zero_grad()
                layer(psi[rows]).train_loss_fn(target[rows]).backward()
                optimiser.step()
        return layer.eval()

    layers = _fit_each(problem, fit)

    def predict(x: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(problem.network.compute_features(x))
        return _gather(problem, [layer(given).predictive.probs for layer in layers])

    def draw(x: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(problem.network.compute_features(x))
        drawn = [layer.logit_predictive(given).rsample(torch.Size([DRAWS])) for layer in layers]
        return _gather_logits(problem, drawn)

    return Fitted(predict, lambda x: describe_doubt(draw(x), problem.classes))


def _fit_each(
    problem: Problem, fit: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]
) -> list[Any]:
    """Fit one model for classes, or one for each label with logits (−a/2, a/2)."""
    W, c = problem.network.W.T, problem.network.c
    t, beside = problem.targets["train"], problem.targets["validation"]
    if problem.classes:
        return [fit(W, c, t, beside)]
    sign = np.array([[-0.5], [0.5]], W.dtype)
    return [fit(sign * W[k], sign[:, 0] * c[k], t[:, k], beside[:, k]) for k in range(len(c))]


def _read_features(problem: Problem, x: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(problem.network.compute_features(x)[:, :-1].copy())


def _gather(problem: Problem, found: list[Any]) -> np.ndarray:
    """Return probabilities (N, K) from the probabilities of each model."""
    if problem.classes:
        return np.asarray(found[0].detach())
    return np.stack([np.asarray(p.detach()[:, 1]) for p in found], axis=1)


def _gather_logits(problem: Problem, drawn: list[Any]) -> np.ndarray:
    """Return logits (S, N, K) from the logits that each model draws."""
    if problem.classes:
        return np.asarray(drawn[0].detach())
    return np.stack([np.asarray((a[..., 1] - a[..., 0]).detach()) for a in drawn], axis=-1)
