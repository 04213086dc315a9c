"""A posterior over a PyTorch module in use: threads, loaders, files, and without JAX."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lastlayer import LastLayer, Posterior
from lastlayer.errors import UserError


def fit(network, inputs, targets=None, counts=None, **options):
    """Fit rows given apart; 20 of them are too few to hold some out, and a warning says so."""
    given = [part for part in (inputs, targets, counts) if part is not None]
    return LastLayer.fit(network, tuple(given) if len(given) > 1 else inputs, **options)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)).astype(np.float32)
LABELS = (X @ RNG.normal(size=(2, 3)) + RNG.logistic(size=(40, 3)) > 0).astype(np.float32)
CLASSES = np.arange(40) % 3


@pytest.fixture
def net(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 3))


@pytest.fixture
def belief(net):
    return fit(net, X, LABELS, prior_variance=0.5, num_particles=50)


def test_threads_share_a_network(net, belief):
    """Each thread gets the answers to its own rows, and training mode is left as it was."""
    net.train()
    expected = [belief.predict(X[i : i + 1 + i % 4]).probability for i in range(30)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda i: belief.predict(X[i % 30 : i % 30 + 1 + i % 30 % 4]).probability, range(120)
        )
        for i, answer in enumerate(found):
            np.testing.assert_allclose(answer, expected[i % 30], atol=1e-6)
    assert all(part.training for part in net.modules())
    assert not net[3]._forward_pre_hooks


def test_passes_of_other_threads_are_not_recorded(torch, net, belief):
    """Another thread calls the module itself while features are collected from it."""
    net.eval()
    stop = []

    def call_on():
        with torch.no_grad():
            while not stop:
                net(torch.tensor(X[:7]))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call_on)
        try:
            for _ in range(200):
                assert belief.features(X[:5]).shape == (5, 4)
        finally:
            stop.append(True)
        running.result()


def test_batches_give_the_posterior_of_arrays(torch, net):
    whole = fit(net, X, LABELS, validation=(X + 0.1, LABELS))
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(LABELS))
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    others = torch.utils.data.TensorDataset(torch.tensor(X + 0.1), torch.tensor(LABELS))
    beside = torch.utils.data.DataLoader(others, batch_size=16)
    streamed = fit(net, loader, validation=beside)
    np.testing.assert_allclose(streamed.posterior.mean, whole.posterior.mean, atol=1e-5)
    generator = ((X[i : i + 16], LABELS[i : i + 16]) for i in range(0, 40, 16))
    once = fit(net, generator, validation=(X + 0.1, LABELS))
    np.testing.assert_allclose(once.posterior.mean, streamed.posterior.mean, atol=1e-5)
    mapped = fit(lambda x: x, iter([(X[:20], LABELS[:20]), (X[20:], LABELS[20:])]))
    assert mapped.posterior.mean.shape == (3, 3)


def test_missing_labels_of_a_network(torch, net):
    """NaN where counts are 0: as an array beside, in batches, and as validation."""
    counts = (np.random.default_rng(1).random(LABELS.shape) < 0.7).astype(np.float32)
    gaps = np.where(counts > 0, LABELS, np.nan)
    by_hand = fit(net, X, LABELS * counts, counts=counts, prior_variance=0.5)
    found = fit(net, X, torch.tensor(gaps), counts=torch.tensor(counts), prior_variance=0.5)
    np.testing.assert_array_equal(found.posterior.mean, by_hand.posterior.mean)
    batches = [(X[i : i + 16], gaps[i : i + 16], counts[i : i + 16]) for i in range(0, 40, 16)]
    streamed = fit(net, batches, prior_variance=0.5)
    np.testing.assert_allclose(streamed.posterior.mean, by_hand.posterior.mean, atol=1e-5)
    beside = [(x + 0.1, t, c) for x, t, c in batches]
    scored = fit(net, X, LABELS, validation=beside)
    whole = fit(net, X, LABELS, validation=(X + 0.1, gaps, counts))
    assert scored.info.settings["held_out_nll"] == pytest.approx(
        whole.info.settings["held_out_nll"], rel=1e-5
    )
    by_nan = fit(net, X, gaps, prior_variance=0.5)
    np.testing.assert_array_equal(by_nan.posterior.mean, by_hand.posterior.mean)
    with pytest.raises(UserError, match="either all batches must have counts, or none"):
        fit(net, [batches[0], (X[16:32], LABELS[16:32])])


def test_predictions_take_batches(torch, net):
    belief = fit(net, X, LABELS, prior_variance=0.5)
    loader = torch.utils.data.DataLoader(torch.tensor(X), batch_size=16)
    pairs = ((X[i : i + 16], LABELS[i : i + 16]) for i in range(0, 40, 16))
    expected = belief.predict(X).probability
    np.testing.assert_allclose(belief.predict(loader).probability, expected, atol=1e-6)
    np.testing.assert_allclose(belief.predict(pairs).probability, expected, atol=1e-6)
    with pytest.raises(UserError, match="at least one batch, got none"):
        belief.predict(iter([]))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (X, "rows must be .inputs, targets. or batches of them, .* got ndarray; pass the targets"),
        ([X], r"batches must be \(inputs, targets\), .* got list"),
        (iter([]), "rows must hold at least one batch, got none"),
        ({"x": X}, "a dictionary of inputs needs its targets under 'labels', got x"),
    ],
)
def test_inputs_that_are_not_batches_are_refused(net, inputs, message):
    with pytest.raises(UserError, match=message):
        fit(net, inputs)


@pytest.mark.parametrize(
    ("inputs", "targets", "where"),
    [
        (X, LABELS[:30], "got 30 for 40 inputs"),
        ([(X, LABELS), (X[:8], LABELS[:5])], None, "got 5 for 8 inputs"),
    ],
)
def test_each_input_needs_a_target(net, inputs, targets, where):
    with pytest.raises(UserError, match=f"one row per input, {where}"):
        fit(net, inputs, targets)


WITH_NAN = np.where(np.arange(40)[:, None] == 7, np.nan, X)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((WITH_NAN, LABELS), r"validation features must be finite, got nan at index \(7, 0\)"),
        (X, "validation rows must be .inputs, targets."),
        (iter([X]), "validation batches must be"),
    ],
)
def test_errors_about_validation_name_it(net, validation, message):
    with pytest.raises(UserError, match=f"^{message}"):
        fit(net, X, LABELS, validation=validation)


def test_nan_in_inputs_is_reported(net):
    """In the first batch, by which the last layer is found, and in a later one."""
    for batch_size in (40, 5):
        with pytest.raises(UserError, match=r"^features must be finite, got nan at index \(7, 0\)"):
            fit(net, WITH_NAN, LABELS, batch_size=batch_size)


def test_saved_beside_a_state_dict(torch, net, belief, tmp_path):
    belief.save(tmp_path / "posterior.safetensors")
    torch.save(net.state_dict(), tmp_path / "network.pt")
    fresh = copy.deepcopy(net)
    with torch.no_grad():
        fresh[0].weight.zero_()
    with pytest.warns(UserWarning, match="other weights than when this posterior was saved"):
        LastLayer.load(tmp_path / "posterior.safetensors", fresh)
    fresh.load_state_dict(torch.load(tmp_path / "network.pt"))
    loaded = LastLayer.load(tmp_path / "posterior.safetensors", fresh)
    np.testing.assert_array_equal(loaded.predict(X).probability, belief.predict(X).probability)
    np.testing.assert_array_equal(loaded.predict(X).sd, belief.predict(X).sd)
    assert Posterior.load(tmp_path / "posterior.safetensors").mean.shape == (3, 4)
    wider = copy.deepcopy(net)
    wider[-1] = torch.nn.Linear(wider[-1].in_features, 5)
    with pytest.raises(UserError, match="3 outputs, this network's has . and 5; pass the network"):
        LastLayer.load(tmp_path / "posterior.safetensors", wider)
    with pytest.raises(UserError, match="unknown linear layer of the module '3'"):
        LastLayer.load(tmp_path / "posterior.safetensors", torch.nn.Linear(2, 3))
    belief.posterior.save(tmp_path / "bare.safetensors")
    with pytest.raises(UserError, match=r"without a feature map; use Posterior\.load"):
        LastLayer.load(tmp_path / "bare.safetensors", net)


@pytest.mark.parametrize("targets", [LABELS, CLASSES], ids=["labels", "classes"])
def test_as_a_pytorch_module(torch, net, targets):
    belief = fit(net, X, targets, prior_variance=0.5, num_particles=50)
    module = belief.to_torch()
    np.testing.assert_allclose(module(torch.tensor(X)), belief.predict(X).probability, atol=2e-6)
    assert isinstance(net[3], torch.nn.Linear), "the network itself stays as it is"
    alone = fit(np.tanh, X, LABELS, prior_variance=0.5)
    answer = alone.to_torch()(torch.tanh(torch.tensor(X)))
    np.testing.assert_allclose(answer, alone.predict(X).probability, atol=2e-6)


def test_copies_are_independent(belief):
    for copied in (copy.deepcopy(belief), pickle.loads(pickle.dumps(belief))):
        np.testing.assert_array_equal(copied.predict(X).probability, belief.predict(X).probability)
        assert copied.feature_map.layer is copied.feature_map.module[3]
