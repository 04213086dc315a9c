"""The PyTorch loop takes the same steps as the recipe `paper`."""

from types import ModuleType

import numpy as np

from equivocal.gestalt import TrainingSettings, train
from equivocal.gestalt.storage import name_arrays
from equivocal.world import World
from tests.gestalt.test_recipes import TINY, start_network

# one batch is the whole corpus, so that no order of sentences matters
WHOLE = TrainingSettings(recipe="paper", batch=100, epochs=5, weight_decay=0.01, **TINY)
LAYERS = {
    "token": ("update.token_weight", "update.hidden_bias"),
    "recurrent": ("update.recurrent_weight",),
    "gestalt": ("update.gestalt_weight", "update.gestalt_bias"),
    "question": ("query.gestalt_weight", "query.hidden_bias"),
    "probe": ("query.probe_weight",),
    "output": ("query.output_weight", "query.output_bias"),
}


def test_both_take_the_same_steps_from_the_same_weights(torch: ModuleType, garden: World) -> None:
    from benchmarks.torch_reference import ReferenceNetwork, collect_data, convert, split, take_pass

    start = name_arrays(start_network(garden, WHOLE))
    network = ReferenceNetwork(len(garden.tokens), len(garden.units), 6, 5)
    with torch.no_grad():
        for layer, names in LAYERS.items():
            for name in names:
                kind = "weight" if name.endswith("weight") else "bias"
                own = torch.tensor(np.asarray(start[name]).T)
                getattr(getattr(network, layer), kind).copy_(own)
    optimiser = torch.optim.Adam(network.parameters(), lr=4e-3, weight_decay=0.01)
    kept, _ = split(garden, WHOLE)
    for _ in range(WHOLE.epochs):
        take_pass(network, optimiser, collect_data(kept), WHOLE.batch, divide_by=len(garden.units))
    (ours,) = train(garden, WHOLE).models
    theirs = name_arrays(convert(network))
    for name, array in name_arrays(ours).items():
        assert np.abs(array - start[name]).max() > 0.005, name  # five steps of at most 0.004
        np.testing.assert_allclose(theirs[name], array, atol=2e-5, err_msg=name)
