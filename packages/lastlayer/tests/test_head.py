"""Posteriors over a last layer, from raw inputs: of any callable, or of a PyTorch module."""

import numpy as np
import pytest

from lastlayer import LastLayer
from lastlayer.errors import UserError
from problems import sample_posterior


def fit(network, inputs, targets=None, counts=None, **options):
    """Fit rows given apart; 20 of them are too few to hold some out, and a warning says so."""
    given = [part for part in (inputs, targets, counts) if part is not None]
    return LastLayer.fit(network, tuple(given) if len(given) > 1 else inputs, **options)


# float32 and one size throughout, so that JAX compiles once for each likelihood
X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
CLASSES = np.arange(20) % 3
MANY = np.eye(3)[CLASSES]
WEIGHTS = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 1.0], [2.0, 0.0, -1.0]], np.float32)
BIAS = np.array([0.3, -0.2, 0.1], np.float32)
TRAINED = np.column_stack([WEIGHTS, BIAS])


def feature_map(x):
    return np.stack([x[:, 0], x[:, 1], x[:, 0] * x[:, 1]], axis=1)


WITH_ONES = np.column_stack([feature_map(X), np.ones(20, np.float32)])


@pytest.fixture(scope="module")
def sampled():
    return sample_posterior(WITH_ONES, MANY, num_particles=20)


def assert_sampled(belief, features, targets, **options):
    """The same posterior, to the last bit, as of `sample_posterior` asked by hand."""
    quick = choose_quick(options.get("likelihood"))
    by_hand = sample_posterior(features, targets, **quick, **options)
    np.testing.assert_array_equal(belief.posterior.particles, by_hand.particles)
    assert belief.info.method == quick["method"]


def choose_quick(likelihood=None):
    """Return a method of the likelihood that takes little time."""
    if likelihood == "softmax":
        return {"method": "hmc", "num_steps": 4, "num_particles": 16}
    return {"method": "laplace"}


# any callable


def test_callable_predicts_as_the_posterior_of_its_features(sampled):
    belief = fit(feature_map, X, MANY, prior_variance=1.0, num_particles=20)
    np.testing.assert_array_equal(belief.features(X), WITH_ONES)
    np.testing.assert_array_equal(belief.posterior.mean, sampled.mean)
    np.testing.assert_array_equal(belief.predict(X).probability, sampled.predict_proba(WITH_ONES))
    np.testing.assert_array_equal(
        belief.predict(X).interval(0.5), sampled.predict_interval(WITH_ONES, 0.5)
    )
    np.testing.assert_array_equal(belief.predict(X).entropies, sampled.entropies(WITH_ONES))
    assert belief.info is belief.posterior.info
    assert repr(belief).startswith("<LastLayer of 3 outputs × 4 weights, exact-flow: conv")


def on_top(targets=MANY, **options):
    options = {**choose_quick(options.get("likelihood")), "prior_variance": 1.0} | options
    return fit(feature_map, X, targets, **options)


def test_trained_weights_and_bias_are_the_prior_mean():
    belief = on_top(weights=WEIGHTS, bias=BIAS, seed=7)
    assert_sampled(belief, WITH_ONES, MANY, prior_mean=TRAINED, seed=7)


def test_class_numbers_become_a_softmax_over_all_rows_of_weights():
    """Also where the last class is absent, and where rows stand for several."""
    counts = np.full(20, 2.0)
    known = {"weights": WEIGHTS, "bias": BIAS, "likelihood": "softmax"}
    belief = on_top(CLASSES % 2, **known, counts=counts)
    targets = 2 * np.eye(3)[CLASSES % 2]
    options = {"prior_mean": TRAINED, "counts": counts, "likelihood": "softmax"}
    assert_sampled(belief, WITH_ONES, targets, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": lambda x: x[:, 0]}, r"one row per input, \(N, D\), got shape \(20,\)"),
        ({"weights": WEIGHTS[0]}, r"weights must have shape \(K, D\) and .*got \(3,\)"),
        ({"weights": WEIGHTS, "bias": BIAS, "intercept": False}, "bias .* needs .* intercept=True"),
        ({"weights": WEIGHTS[:2]}, r"targets must have shape \(N,\) or \(N, 2\)"),
        ({"weights": WEIGHTS[:2], "targets": CLASSES}, "class numbers 0 … 1.* got 2"),
        (
            {"weights": WEIGHTS, "targets": CLASSES, "likelihood": "bernoulli"},
            "class numbers, which need likelihood='softmax'",
        ),
        ({"network": X}, "network must be a torch.nn.Module, or .* got ndarray; for features use"),
    ],
)
def test_mistakes_are_explained(change, message):
    arguments = {"network": feature_map, "inputs": X, "targets": MANY} | change
    with pytest.raises(UserError, match=message):
        fit(**arguments)


# PyTorch modules


@pytest.fixture
def net(torch):
    """In training mode, with parts whose evaluation differs from it; one part is frozen."""
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(
        nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 3)
    )
    with torch.no_grad():
        module[1].running_mean += 0.5
    module[0].requires_grad_(False).eval()
    return module


def by_hand(net):
    """(ψ, 1) of the module above, in NumPy."""
    get = lambda tensor: tensor.detach().numpy().astype(float)  # noqa: E731
    h = X @ get(net[0].weight).T + get(net[0].bias)
    scale = get(net[1].weight) / np.sqrt(get(net[1].running_var) + net[1].eps)
    h = (h - get(net[1].running_mean)) * scale + get(net[1].bias)
    return np.column_stack([np.tanh(h), np.ones(len(X))])


def condition(module):
    """Everything that a visit might change."""
    return (
        [part.training for part in module.modules()],
        [
            len(hooks)
            for part in module.modules()
            for hooks in (part._forward_hooks, part._forward_pre_hooks)
        ],
        [(p.requires_grad, p.grad) for p in module.parameters()],
        {name: value.tolist() for name, value in module.state_dict().items()},
    )


def test_features_are_the_inputs_of_the_last_layer(net):
    # three batches, the last one shorter
    belief = fit(net, X.astype(float), MANY, batch_size=7, prior_variance=1.0, method="laplace")
    features = belief.features(X)
    np.testing.assert_allclose(features, by_hand(net), atol=1e-6)  # float32, two small layers
    assert features.dtype == np.float32


def test_trained_layer_is_the_prior_mean(net):
    belief = fit(net, X, CLASSES, prior_variance=0.25, **choose_quick("softmax"))
    trained = np.column_stack([net[4].weight.detach(), net[4].bias.detach()])
    options = {"prior_mean": trained, "prior_variance": 0.25, "likelihood": "softmax"}
    assert_sampled(belief, belief.features(X), MANY, **options)


@pytest.mark.parametrize("likelihood", ["softmax", "bernoulli"])
def test_with_a_narrow_prior_the_network_answers_itself(torch, net, likelihood):
    """Weights are held to √1e-14 = 1e-7 about the trained ones, so float32 sees no difference."""
    targets = torch.tensor(CLASSES if likelihood == "softmax" else MANY)
    belief = fit(net, X, targets, prior_variance=1e-14, num_particles=20, batch_size=8)
    net.eval()
    logits = net(torch.tensor(X)).detach()
    own = torch.softmax(logits, 1) if likelihood == "softmax" else torch.sigmoid(logits)
    np.testing.assert_allclose(belief.predict(X).probability, own, atol=1e-5)
    np.testing.assert_allclose(belief.predict(X).interval()[0], own, atol=1e-5)
    assert belief.predict(X).entropies.information.max() < 1e-5


def test_module_is_unchanged(net):
    before = condition(net)
    belief = fit(net, X, MANY, prior_variance=1.0, method="laplace")
    belief.features(X)
    assert condition(net) == before
    assert before[0][1:3] == [False, True]  # the fixture mixes the modes


def test_module_is_unchanged_after_an_error(net):
    before = condition(net)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        fit(net, X[:, :1], MANY)
    assert condition(net) == before


def test_linear_without_bias_has_no_intercept(torch):
    module = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(2, 3, bias=False))
    belief = fit(module, X, MANY, prior_variance=1.0, method="laplace")
    np.testing.assert_allclose(belief.features(X), np.tanh(X), atol=1e-6)
    prior_mean = module[1].weight.detach().numpy()
    assert_sampled(belief, belief.features(X), MANY, prior_mean=prior_mean)


def test_last_layer_is_the_one_called_last(torch):
    """Registered first, reached last; a squeeze and modules that do nothing may follow."""

    class Backwards(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(3, 1)
            self.body = torch.nn.Linear(2, 3)
            self.idle = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Dropout(0.5))

        def forward(self, x):
            return self.idle(self.out(input=torch.relu(self.body(x)))).squeeze(-1)

    module = Backwards()
    belief = fit(module, X, CLASSES > 0, prior_variance=1.0, method="laplace")
    expected = torch.relu(module.body(torch.tensor(X))).detach()
    np.testing.assert_array_equal(belief.features(X)[:, :-1], expected)
    prior_mean = np.column_stack([module.out.weight.detach(), module.out.bias.detach()])
    assert_sampled(belief, belief.features(X), CLASSES > 0, prior_mean=prior_mean)


def with_forward(torch, function):
    """A module of one linear layer that does what `function(layer, x)` says."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(2, 3)

        def forward(self, x):
            return function(self.out, x)

    return Module()


ENDINGS = {
    "activation": (lambda nn: nn.Sequential(nn.Linear(2, 3), nn.Softmax(1)), "Linear, got Softmax"),
    "in place": (
        lambda nn: nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True)),
        "Linear, got ReLU: leave the activation off",
    ),
    "more axes": (
        lambda nn: nn.Sequential(nn.Unflatten(1, (2, 1)), nn.Linear(1, 3)),
        r"one row of features per input, \(20, D\), got \(20, 2, 1\)",
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_other_endings_are_refused(torch, ending):
    make, message = ENDINGS[ending]
    with pytest.raises(UserError, match=message):
        fit(make(torch.nn), X, MANY)


FUNCTIONS = {
    "function": (lambda out, x: out(x).sigmoid(), "something changes it after that"),
    "several results": (lambda out, x: (out(x), x), "must return a tensor of logits, got tuple"),
    "used twice": (lambda out, x: out(out(x)[:, :2]), "used once in a pass"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_after_the_last_layer_are_refused(torch, name):
    function, message = FUNCTIONS[name]
    with pytest.raises(UserError, match=message):
        fit(with_forward(torch, function), X, MANY)
