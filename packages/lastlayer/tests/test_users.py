"""`LastLayer` with what users bring: other modules and batches, targets of every kind, ONNX."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from lastlayer import LastLayer
from lastlayer.errors import UserError
from needs import needs

RNG = np.random.default_rng(0)
N, D, K = 400, 6, 3
PSI = RNG.normal(size=(N, D)).astype(np.float32)
WEIGHTS = RNG.normal(size=(K, D)).astype(np.float32)
LABELS = (PSI @ WEIGHTS.T + RNG.logistic(size=(N, K)) > 0).astype(float)
FIT, HELD = slice(0, 200), slice(200, None)
QUICK = {"method": "laplace", "diagnose": False, "prior_variance": 1.0}


def test_the_contract_of_features():
    belief = LastLayer.fit_features(
        PSI[FIT], LABELS[FIT], weights=WEIGHTS, validation=(PSI[HELD], LABELS[HELD])
    )
    assert belief.report.ok, belief.report
    assert set(belief.report.nll) == {"posterior", "network", "temperature"}
    table = belief.report.tables["labels"]
    assert list(table["n"]) == [200] * K
    np.testing.assert_array_equal(table["positives"], LABELS[HELD].sum(axis=0))
    out = belief.predict(PSI[:7])
    low, high = out.interval(0.9)
    assert ((low <= out.probability) & (out.probability <= high)).all()
    assert out.information.shape == out.label_sets(0.2).shape == (7, K)
    assert out.unfamiliar.shape == (7,)
    assert ((out.unfamiliar > 0) & (out.unfamiliar <= 1)).all()
    far = belief.predict(PSI[:7] * 30)
    assert far.abstain(0.05).all()
    assert not belief.predict(PSI[HELD]).abstain(0.5).all()


def test_what_is_saved_is_the_same(tmp_path):
    path = tmp_path / "belief.safetensors"
    belief = LastLayer.fit_features(PSI, LABELS, names=["a", "b", "c"], **QUICK)
    belief.save(path)
    assert path.stat().st_size < 40_000, "mean and factor, no particles and no rows"
    loaded = LastLayer.load(path)
    assert loaded.names == ["a", "b", "c"]
    for name in ("probability", "unfamiliar", "sd"):
        np.testing.assert_array_equal(
            getattr(loaded.predict(PSI), name), getattr(belief.predict(PSI), name)
        )
    np.testing.assert_array_equal(
        loaded.predict(PSI).label_sets(0.1), belief.predict(PSI).label_sets(0.1)
    )
    pd.testing.assert_frame_equal(loaded.report.tables["labels"], belief.report.tables["labels"])
    with pytest.raises(UserError, match="files keep no held-out rows"):
        loaded.report.draw()


def forms_of_targets():
    booleans = LABELS.astype(bool)
    return {
        "booleans": booleans,
        "sparse": csr_array(LABELS),
        "pandas": pd.DataFrame(booleans, columns=["red", "green", "blue"]),
        "objects": LABELS.astype(object),
    }


@pytest.mark.parametrize("form", forms_of_targets())
def test_targets_of_every_kind(form):
    plain = LastLayer.fit_features(PSI, LABELS, **QUICK)
    found = LastLayer.fit_features(PSI, forms_of_targets()[form], **QUICK)
    np.testing.assert_array_equal(found.posterior.mean, plain.posterior.mean)
    assert found.names == (["red", "green", "blue"] if form == "pandas" else ["0", "1", "2"])


def test_names_of_two_classes_are_one_output_and_may_be_missing():
    words = np.where(LABELS[:, 0] > 0, "yes", "no").astype(object)
    words[:50] = None
    found = LastLayer.fit_features(PSI, words, **QUICK)
    gaps = np.where(np.arange(N) < 50, np.nan, LABELS[:, 0])[:, None]
    plain = LastLayer.fit_features(PSI, gaps, **QUICK)
    assert found.names == ["yes"]
    np.testing.assert_array_equal(found.posterior.mean, plain.posterior.mean)
    with pytest.raises(UserError, match="targets hold 'perhaps', which is none of no, yes"):
        LastLayer.fit_features(
            PSI[FIT], words[FIT], validation=(PSI[HELD], np.full(200, "perhaps"))
        )


def test_targets_that_cannot_be_fitted():
    with pytest.raises(UserError, match="targets are missing .NaN. or count 0 in every row"):
        LastLayer.fit_features(PSI, np.full(LABELS.shape, np.nan), **QUICK)
    with pytest.raises(UserError, match=r"names of classes must have shape \(N,\), got \(\d+, 2\)"):
        LastLayer.fit_features(PSI, [["red", "round"]] * N, **QUICK)


def test_missing_labels_are_left_out():
    """With counts of 0 for them, and of the table's numbers."""
    missing = RNG.random(LABELS.shape) < 0.3
    gaps = np.where(missing, np.nan, LABELS)
    found = LastLayer.fit_features(PSI, gaps, **QUICK)
    counted = LastLayer.fit_features(PSI, LABELS * ~missing, counts=~missing * 1.0, **QUICK)
    np.testing.assert_array_equal(found.posterior.mean, counted.posterior.mean)
    held = found.report.held_out
    assert list(found.report.tables["labels"]["n"]) == [int(n) for n in (held.counts > 0).sum(0)]
    assert sum(found.report.tables["labels"]["n"]) < held.counts.size


def test_without_validation_groups_are_held_out_together():
    groups = np.arange(N) // 4
    found = LastLayer.fit_features(PSI, LABELS, groups=groups, **QUICK)
    assert "held out: 80 of 400 rows" in "".join(found.report.notes)
    held = found.report.held_out.problem.features[:, :D]
    rows = [int(np.flatnonzero((row == PSI).all(axis=1))[0]) for row in held]
    assert len(np.unique(groups[rows])) == 20


def test_a_worse_posterior_is_not_ok():
    """Shuffled targets, held to a narrow prior about them, against a network that knows."""
    shuffled = LABELS[FIT][::-1]
    given = {"weights": WEIGHTS, "prior_mean": 0.0}
    belief = LastLayer.fit_features(
        PSI[FIT], shuffled, **given, **QUICK, validation=(PSI[HELD], LABELS[HELD])
    )
    assert not belief.report.ok
    assert "worse than the network" in belief.report.warnings[0]


# PyTorch


@pytest.fixture
def net(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Tanh(), torch.nn.Linear(8, K))


def wrap(torch, net, kind):
    if kind == "parallel":
        return torch.nn.DataParallel(net)
    if kind == "compiled":
        return torch.compile(net, backend="eager")
    if kind == "quantised":
        return torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear})
    return net.bfloat16()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("kind", "near"), [("parallel", 0), ("compiled", 0), ("quantised", 0.2), ("bf16", 0.2)]
)
def test_other_modules(torch, net, kind, near):
    plain = LastLayer.fit(net, (PSI, LABELS), **QUICK).predict(PSI).probability
    found = LastLayer.fit(wrap(torch, net, kind), (PSI, LABELS), **QUICK)
    assert "last layer: 2 (8 → 3), found by tracing" in found.report.notes
    np.testing.assert_allclose(found.predict(PSI).probability, plain, atol=near)


def test_dictionaries_data_sets_and_a_named_head(torch):
    """A module with a sigmoid at its end, whose inputs have names."""

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.out = torch.nn.Linear(D, 8), torch.nn.Linear(8, K)

        def forward(self, first, second):
            return {"scores": self.out(torch.tanh(self.body(first + second))).sigmoid()}

    module = Named()
    x = torch.tensor(PSI)
    whole = {"first": x, "second": 0 * x, "labels": torch.tensor(LABELS)}
    with pytest.raises(UserError, match="must return a tensor of logits, got dict; name the layer"):
        LastLayer.fit(module, whole, **QUICK)
    found = LastLayer.fit(module, whole, head="out", **QUICK)
    assert found.report.notes[0] == "last layer: out (8 → 3), as named"
    rows = [{name: part[i] for name, part in whole.items()} for i in range(N)]

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return N

        def __getitem__(self, i):
            return rows[i]

    for batches in (Rows(), torch.utils.data.DataLoader(Rows(), batch_size=100)):
        again = LastLayer.fit(module, batches, head="out", **QUICK)
        np.testing.assert_allclose(again.posterior.mean, found.posterior.mean, atol=1e-4)
    answers = found.predict(torch.utils.data.DataLoader(Rows(), batch_size=100)).probability
    np.testing.assert_allclose(answers, found.predict(whole).probability, atol=1e-6)
    with pytest.raises(UserError, match="unknown linear layer of the module 'ou': did you mean"):
        LastLayer.fit(module, whole, head="ou")


def make_transformer(kind):
    needs("transformers")
    import transformers

    small = {"vocab_size": 50, "num_labels": K, "pad_token_id": 0}
    if kind == "encoder":
        config = transformers.BertConfig(
            **small,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            problem_type="multi_label_classification",
            id2label={0: "red", 1: "green", 2: "blue"},
        )
        return transformers.BertForSequenceClassification(config)
    config = transformers.GPT2Config(**small, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    return transformers.GPT2ForSequenceClassification(config)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_hugging_face(torch, kind):
    """`ModelOutput`, dictionaries with labels and padding, and a head at every position."""
    torch.manual_seed(0)
    module = make_transformer(kind).eval()
    ids = torch.randint(1, 50, (60, 7))
    ids[:30, 5:] = 0
    batch = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    labels = torch.tensor(LABELS[:60]).float()
    belief = LastLayer.fit(module, batch | {"labels": labels}, prior_variance=1e-14, batch_size=25)
    with torch.no_grad():
        logits = module(**batch).logits
    expected = logits.sigmoid().numpy()
    np.testing.assert_allclose(belief.predict(batch).probability, expected, atol=1e-5)
    answer, strange = belief.to_torch(outputs=("probability", "unfamiliar"))(**batch)
    np.testing.assert_allclose(answer, expected, atol=1e-5)
    np.testing.assert_allclose(strange[:, 0], belief.predict(batch).unfamiliar, atol=1e-6)
    if kind == "encoder":
        assert belief.names == ["red", "green", "blue"]


def test_a_callback_of_a_trainer(torch, tmp_path):
    """The class of the README: the posterior belongs to the weights that training ends with."""
    needs("transformers")
    import transformers

    torch.manual_seed(0)
    module, ids = make_transformer("encoder"), torch.randint(1, 50, (120, 7))
    labels = torch.tensor(LABELS[:120]).float()
    rows = [{"input_ids": x, "labels": t} for x, t in zip(ids[:80], labels[:80], strict=True)]
    code = (Path(__file__).parents[1] / "README.md").read_text("utf-8").split("```python\n")[2]
    space = {"LastLayer": LastLayer}
    exec(code.split("```")[0], space)
    callback = space["Belief"]({"input_ids": ids[80:], "labels": labels[80:]})
    options = {"max_steps": 3, "use_cpu": True, "report_to": [], "disable_tqdm": True}
    arguments = transformers.TrainingArguments(str(tmp_path), save_strategy="no", **options)
    transformers.Trainer(module, arguments, train_dataset=rows, callbacks=[callback]).train()
    again = LastLayer.fit(module, rows_of(rows), validation=callback.validation)
    found = callback.belief.predict({"input_ids": ids}).probability
    np.testing.assert_allclose(again.predict({"input_ids": ids}).probability, found, atol=1e-3)
    assert callback.belief.report.notes[1] == "held out: 40 rows given as validation"


def rows_of(rows):
    """The same rows as one batch."""
    return {name: [row[name].tolist() for row in rows] for name in rows[0]}


def test_a_module_with_steps_of_training(torch, net):
    """What a LightningModule is to its caller: steps and optimisers beside `forward`."""

    class Lightning(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.loss = net, torch.nn.BCEWithLogitsLoss()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            return self.loss(self(batch[0]), batch[1])

    module = Lightning().train()
    found = LastLayer.fit(module, (PSI, LABELS), **QUICK)
    plain = LastLayer.fit(net, (PSI, LABELS), **QUICK)
    np.testing.assert_array_equal(found.posterior.mean, plain.posterior.mean)
    assert module.training
    assert found.report.notes[0] == "last layer: net.2 (8 → 3), found by tracing"


OUTPUTS = ("probability", "unfamiliar")


@pytest.mark.parametrize("refine", [False, True])
def test_as_a_module_with_several_outputs(torch, net, refine):
    options = {"prior_variance": 30.0, "refine": True} if refine else QUICK
    belief = LastLayer.fit(net, (PSI[:60], LABELS[:60]), **options)
    answer, strange = belief.to_torch(outputs=OUTPUTS)(torch.tensor(PSI))
    out = belief.predict(PSI)
    np.testing.assert_allclose(answer, out.probability, atol=2e-6)
    np.testing.assert_allclose(strange[:, 0], out.unfamiliar, atol=1e-6)
    with pytest.raises(UserError, match="outputs must be one of probability, mean, sd, unfamiliar"):
        belief.to_torch(outputs=("probabilities",))


@pytest.mark.filterwarnings("ignore")  # of the exporter's own making
def test_in_onnx(torch, net, tmp_path):
    needs("onnx")
    import onnxruntime

    belief = LastLayer.fit(net, (PSI, LABELS), **QUICK)
    module, file = belief.to_torch(outputs=OUTPUTS), str(tmp_path / "belief.onnx")
    dynamic = ({0: torch.export.Dim("rows")},)
    example = (torch.tensor(PSI[:5]),)
    torch.onnx.export(module, example, file, dynamo=True, dynamic_shapes={"inputs": dynamic})
    session = onnxruntime.InferenceSession(file)
    answer, strange = session.run(None, {session.get_inputs()[0].name: PSI})
    out = belief.predict(PSI)
    np.testing.assert_allclose(answer, out.probability, atol=1e-6)
    np.testing.assert_allclose(strange[:, 0], out.unfamiliar, atol=1e-6)
