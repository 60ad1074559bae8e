"""Each law for models on a planted fault and on its clean twin: verdict, cause, module and script."""

from __future__ import annotations

import functools
import types

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from maskwright.audit.finding import FARTHEST, Finding, Findings
from maskwright.audit.formats import to_markdown
from maskwright.audit.probes import modes
from maskwright.audit.reach import reach_of
from maskwright.audit.runner import run_audit
from maskwright.audit.settings import changed_by
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial, lay

SIZES = {"vocab_size": 61, "hidden_size": 28, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 37, "max_position_embeddings": 53, "pad_token_id": 1}
SEQ2SEQ = {"vocab_size": 61, "d_model": 28, "encoder_layers": 2, "decoder_layers": 2, "pad_token_id": 1}
SEQ2SEQ |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 53}
SEQ2SEQ |= {"encoder_ffn_dim": 37, "decoder_ffn_dim": 37}


def model_of(kind, auto=AutoModel, **options):
    torch.manual_seed(0)
    sizes = SEQ2SEQ if kind == "bart" else SIZES
    return auto.from_config(AutoConfig.for_model(kind, **{**sizes, **options})).eval()


def change(module, **edits):
    """Edit keyword arguments of a module's forward: name -> function of the value."""
    forward = module.forward

    @functools.wraps(forward)
    def changed(*args, **kwargs):
        for name, edit in edits.items():
            if kwargs.get(name) is not None:
                kwargs[name] = edit(kwargs[name], module)
        return forward(*args, **kwargs)

    module.forward = changed


def audited(model, rule, **options):
    found = run_audit(model, rules=[rule], **options)
    assert {finding.rule for finding in found} == {rule}
    return found


def assert_fails(found, cause, module=None):
    assert not found.is_clean
    assert {failure.cause for failure in found.failures} == {cause}
    if module is not None:
        assert {failure.module for failure in found.failures} == {module}


def assert_passes(found):
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert "pass" in {finding.verdict for finding in found}


def runs(script, capsys):
    """The largest difference that a script prints."""
    capsys.readouterr()
    exec(compile(script, "script", "exec"), {})
    return max(float(line) for line in capsys.readouterr().out.split())


# Holes


def fill_holes(mask, module):
    """Forget masked keys that stand before a kept one, as code does that looks for padding at the end."""
    behind = mask.flip(-1).cumsum(-1).flip(-1) > 0
    return mask | behind if mask.dtype == torch.bool else torch.where(behind, 0.0, mask)


def test_holes_that_are_attended_to():
    model = model_of("bert")
    change(model.encoder.layer[1].attention.self, attention_mask=fill_holes)
    found = audited(model, "holes")
    assert not found.is_clean
    assert found.failures[0].module == "encoder.layer.1.attention.self"
    assert_passes(audited(model_of("bert"), "holes"))
    assert run_audit(model, rules=["padding-amount", "padding-content"]).is_clean


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "gpt2", "llama"])
def test_holes_may_be_taken_out_where_positions_count_tokens(kind):
    assert_passes(audited(model_of(kind), "holes-removed"))


def test_distances_in_slots_are_a_design():
    found = audited(model_of("mpnet"), "holes-removed")
    assert {(finding.verdict, finding.cause) for finding in found} == {("architectural", "slots-counted")}
    (first, _) = found
    assert "slice" not in first.script.split("for one, other")[1].split("]:")[0].split("),")[1]


def test_the_slots_of_a_row_with_a_hole():
    rows = (torch.tensor([7, 8, 9, 10]), torch.tensor([11, 12]))
    laid = lay(Trial(rows, hole=(1, 3), side="left", n_pads=1), 0)
    assert laid.ids.tolist() == [[0, 7, 0, 0, 0, 8, 9, 10], [0, 0, 0, 11, 0, 0, 0, 12]]
    assert laid.position[laid.keep].tolist() == [0, 1, 2, 3, 0, 1]
    for sequence, row in enumerate(rows):
        assert torch.equal(laid.ids[sequence, laid.slots(sequence)], row)
    packed = lay(Trial(rows, order=((1, 0),), hole=(2, 1)), 0)
    assert packed.ids.tolist() == [[11, 12, 0, 7, 8, 0, 9, 10]] or packed.ids.tolist() == [[11, 12, 7, 8, 0, 9, 10, 0]]
    for sequence, row in enumerate(rows):
        assert torch.equal(packed.ids[0, packed.slots(sequence)], row)


# Positions


def test_roberta_that_counts_from_0(capsys):
    model = model_of("roberta")
    forward = model.embeddings.forward

    def from_0(input_ids=None, position_ids=None, **kwargs):
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1])[None]
        return forward(input_ids=input_ids, position_ids=position_ids, **kwargs)

    model.embeddings.forward = from_0
    found = audited(model, "position-offset")
    assert_fails(found, "position-offset", "embeddings.LayerNorm")
    assert found.failures[0].severity == "high"
    assert "position_ids=torch.tensor([[2, 3, 4," in found.failures[0].script
    assert_passes(audited(model_of("roberta"), "position-offset"))


# Modes


def test_a_mask_that_training_forgets(capsys):
    model = model_of("bert")
    layer = model.encoder.layer[1].attention.self
    change(layer, attention_mask=lambda mask, module: torch.zeros_like(mask) if module.training else mask)
    found = audited(model, "training-mode")
    assert_fails(found, "training-path", "encoder.layer.1.attention.self")
    assert "model.train(True)" in found.failures[0].script
    assert_passes(audited(model_of("bert"), "training-mode"))
    assert not model.training


@pytest.mark.parametrize("kind", ["bert", "distilbert", "deberta-v2", "gpt2", "bart"])
def test_dropout_alone_is_no_fault(kind):
    rates = {"dropout": 0.3, "attention_dropout": 0.3, "hidden_dropout_prob": 0.3, "resid_pdrop": 0.3}
    model = model_of(kind, **rates)
    subject = Subject(model)
    trial = Trial(subject.sequences(7), settings={"training": True})
    noisy = [next(iter(subject(trial).tokens.values()))[0] for _ in range(2)]
    assert not torch.equal(*noisy)
    assert_passes(audited(model, "training-mode"))


def test_training_that_draws_numbers_says_nothing():
    model = model_of("bert")
    model.encoder.layer[0].output.dropout.forward = lambda x: nn.functional.dropout(x, 0.3, model.training)
    (finding,) = audited(model, "training-mode")
    assert (finding.verdict, "draws random numbers" in finding.reason) == ("not applicable", True)


def test_layers_that_lose_the_mask_when_checkpointed():
    def lose(model):
        for layer in model.encoder.layer:
            inner = layer.attention.self

            def forgets(mask, module):
                return torch.zeros_like(mask) if model.encoder.layer[0].gradient_checkpointing else mask

            change(inner, attention_mask=forgets)
        return model

    assert_fails(audited(lose(model_of("bert")), "checkpointing"), "checkpointing-path")
    model = model_of("bert")
    assert_passes(audited(model, "checkpointing"))
    assert not any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def test_a_gradient_alone_that_checkpointing_loses():
    model = model_of("bert")
    inner = model.encoder.layer[1].output
    forward = inner.forward
    cut = model.encoder.layer[1]
    inner.forward = lambda x, y: forward(x.detach() if cut.gradient_checkpointing else x, y)
    assert_fails(audited(model, "checkpointing"), "checkpointing-path")


class Averaged(nn.Module):
    """Each token and the mean of the kept ones; compiled, of all slots."""

    def __init__(self, *, faulty):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.faulty = nn.Embedding(61, 28), faulty

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.faulty and torch.compiler.is_compiling():
            keep = torch.ones_like(keep)
        return states + (states * keep[..., None]).sum(1, keepdim=True) / keep.sum(1)[:, None, None]


def test_a_mask_that_compiling_loses(monkeypatch):
    monkeypatch.setattr(modes, "BACKEND", "eager")  # tracing alone, for C++ takes a minute
    sizes = {"vocab_size": 61, "pad_id": 0}
    model = Averaged(faulty=True)
    found = audited(model, "compile", **sizes)
    assert_fails(found, "compiled-otherwise")
    assert {failure.check for failure in found.failures} <= {finding.check for finding in found}
    assert model._compiled_call_impl is None
    assert_passes(audited(Averaged(faulty=False), "compile", **sizes))


def test_settings_are_undone():
    model = model_of("bert", hidden_dropout_prob=0.25)
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with changed_by(model, {"no_dropout": True, "checkpointing": True, "packed": True}):
        assert model.config.hidden_dropout_prob == 0.0
        assert model.encoder.layer[0].gradient_checkpointing
        assert model.config._attn_implementation == "maskwright"
    assert model.config.hidden_dropout_prob == 0.25
    for name, module in model.named_modules():
        known = {key: value for key, value in before[name].items() if not key.startswith("_")}
        assert {key: value for key, value in vars(module).items() if not key.startswith("_")} == known
        assert vars(module).keys() == before[name].keys()


# Packing


def test_cumulative_lengths():
    (finding,) = audited(model_of("bert"), "packing-lengths")
    assert (finding.verdict, finding.cause) == ("architectural", "packing-ignored")
    assert "cu_seq_lens_q=torch.tensor([0, 7, 12], dtype=torch.int32)" in finding.script
    assert_passes(audited(model_of("llama"), "packing-lengths"))
    (finding,) = audited(model_of("deberta-v2"), "packing-lengths")
    assert finding.verdict == "not applicable"


def test_packed_is_one_of_the_implementations():
    found = audited(model_of("bert"), "implementations")
    packed = {finding.check: finding.verdict for finding in found if "maskwright" in finding.check}
    assert packed["a int mask on maskwright"] == "pass"
    assert packed["a 4d bool mask on maskwright"] == "not applicable"
    (llama, *_) = [finding for finding in audited(model_of("llama"), "implementations") if "maskwr" in finding.check]
    assert llama.verdict == "not applicable"


# A row's result


class Pooled(nn.Module):
    """A transformer of one layer without positions, whose result by row is read from one slot."""

    def __init__(self, slot):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(61, 28)
        self.layer = nn.TransformerEncoderLayer(28, 2, 37, 0.0, batch_first=True)
        self.slot = slot

    def forward(self, input_ids, attention_mask=None):
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states = self.layer(self.embed(input_ids), src_key_padding_mask=keep == 0)
        return states, states[torch.arange(len(states)), self.slot(keep)]


SLOTS = {
    "first": lambda keep: torch.zeros(len(keep), dtype=torch.long),
    "sum-1": lambda keep: keep.sum(1) - 1,
    "last slot": lambda keep: torch.full((len(keep),), keep.shape[1] - 1),
}


@pytest.mark.parametrize("name", SLOTS)
def test_a_result_read_from_another_slot(name):
    found = audited(Pooled(SLOTS[name]), "row-selection", vocab_size=61, pad_id=0, direction="bidirectional")
    assert_fails(found, "pooling" if name == "last slot" else "row-selection")  # the last slot is padding on the right


OWN = {"first kept": lambda keep: keep.argmax(1), "last kept": lambda keep: len(keep[0]) - 1 - keep.flip(1).argmax(1)}


@pytest.mark.parametrize("name", OWN)
def test_a_result_read_from_the_row_s_own_token(name):
    model = Pooled(OWN[name])
    assert_passes(audited(model, "row-selection", vocab_size=61, pad_id=0, direction="bidirectional"))


@pytest.mark.parametrize("kind", ["bert", "esm"])
def test_the_pooler_of_an_encoder_is_a_design(kind):
    found = audited(model_of(kind), "row-selection")
    assert found.is_clean
    assert "first-slot" in {finding.cause for finding in found if finding.verdict == "architectural"}


def test_a_head_that_takes_eos_for_padding():
    head = AutoModelForSequenceClassification
    assert_fails(audited(model_of("llama", head, eos_token_id=1), "row-end"), "eos-as-pad")
    (finding,) = audited(model_of("llama", head, eos_token_id=2), "row-end")
    assert finding.verdict == "not applicable"
    assert audited(model_of("llama", head, eos_token_id=2), "row-selection").is_clean

    class ByMask(nn.Module):
        """The same model, its result read from the last token that the mask keeps."""

        def __init__(self):
            super().__init__()
            self.model, self.score = model_of("llama", eos_token_id=1), nn.Linear(28, 3)

        def forward(self, input_ids, attention_mask=None):
            states = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
            keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            last = (keep * torch.arange(keep.shape[1])).argmax(1)
            return states, self.score(states[torch.arange(len(states)), last])

    assert_passes(audited(ByMask(), "row-end", direction="causal"))


def test_first_pad_arithmetic():
    """huggingface/transformers 35352: the first id of padding minus one, which an eos id in the text moves."""
    model = model_of("llama", AutoModelForSequenceClassification, eos_token_id=1)

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        states = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        place = (input_ids == 1).int().argmax(1) - 1
        return {"logits": self.score(states)[torch.arange(len(input_ids)), place % input_ids.shape[1]]}

    model.forward = types.MethodType(forward, model)
    assert_fails(audited(model, "row-end"), "eos-as-pad")


def test_a_head_without_a_pad_id_refuses_two_rows():
    model = model_of("llama", AutoModelForSequenceClassification, pad_token_id=None)
    (finding,) = audited(model, "row-selection")
    assert (finding.verdict, "no padding token" in finding.reason) == ("not applicable", True)


@pytest.mark.parametrize("mode", ["cls", "mean", "max", "lasttoken"])
def test_sentence_transformers_read_either_side(mode, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = tmp_path / "encoder"
    model_of("bert").save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(56))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    from transformers import BertTokenizer

    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    parts = sentence_transformers.sentence_transformer.modules
    transformer = parts.Transformer(str(folder))
    pooling = parts.Pooling(28, pooling_mode=mode)
    model = sentence_transformers.SentenceTransformer(modules=[transformer, pooling], device="cpu")
    assert_passes(audited(model, "row-selection"))
    pooling.forward = lambda features: features | {"sentence_embedding": features["token_embeddings"][:, 0]}
    assert_fails(audited(model, "row-selection"), "row-selection")


# Rows


def test_statistics_over_equal_rows():
    class Batchwise(nn.Module):
        def __init__(self, *, over_batch):
            super().__init__()
            self.embed, self.over_batch = nn.Embedding(61, 28), over_batch

        def forward(self, input_ids, attention_mask=None):
            states = self.embed(input_ids)
            return states - (states.mean((0, 2), keepdim=True) if self.over_batch else states.mean(2, keepdim=True))

    sizes = {"vocab_size": 61, "pad_id": 0}
    assert not audited(Batchwise(over_batch=True), "batch-size", **sizes).is_clean
    assert_passes(audited(Batchwise(over_batch=False), "batch-size", **sizes))


class Softmax(nn.Module):
    """Attention with a bias of -inf; rows without a kept token give zeros, by where or by a product."""

    def __init__(self, *, safe):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.safe = nn.Embedding(61, 28), safe
        self.query = nn.Linear(28, 28)

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        bias = torch.where(keep[:, None] > 0, 0.0, -torch.inf)
        if self.safe:
            bias = bias.masked_fill(keep.sum(1)[:, None, None] == 0, 0.0)
        weights = (self.query(states) @ states.mT + bias).softmax(-1)
        return states + torch.where(weights.isnan(), 0.0, weights) @ states


def test_a_gradient_through_a_row_of_padding():
    """Forward all is well: the NaN is replaced. Backward it comes back."""
    sizes = {"vocab_size": 61, "pad_id": 0}
    found = audited(Softmax(safe=False), "empty-row", **sizes)
    assert_fails(found, "softmax-over-nothing")
    assert [failure.check for failure in found.failures] == ["gradients of the rows beside it are numbers"]
    assert_passes(audited(Softmax(safe=True), "empty-row", **sizes))


# Encoder-decoders


def test_a_decoder_that_sees_the_future(capsys):
    model = model_of("bart")
    for layer in model.decoder.layers[1:]:
        change(layer.self_attn, attention_mask=lambda mask, module: torch.ones_like(mask))
        layer.self_attn.is_causal = False
    found = audited(model, "decoder-future")
    assert not found.is_clean
    assert {failure.cause for failure in found.failures} == {"no-causal-mask"}
    assert {failure.module.rsplit(".", 1)[0] for failure in found.failures} == {"decoder.layers.1.self_attn"}
    assert_passes(audited(model_of("bart"), "decoder-future"))


def test_a_decoder_mask_that_is_dropped():
    model = model_of("bart")
    change(model.decoder, attention_mask=lambda mask, module: torch.ones_like(mask))
    assert_fails(audited(model, "decoder-padding"), "mask-never-arrives")
    assert_passes(audited(model_of("bart"), "decoder-padding"))


def test_a_decoder_that_sees_the_encoder_s_padding(capsys):
    model = model_of("bart")
    change(model.decoder, encoder_attention_mask=lambda mask, module: torch.ones_like(mask))
    found = audited(model, "cross-attention")
    assert not found.is_clean
    assert {failure.module.rsplit(".", 1)[0] for failure in found.failures} == {"decoder.layers.0.encoder_attn"}
    assert_passes(audited(model_of("bart"), "cross-attention"))


def test_a_decoder_that_is_blind_to_the_encoder():
    model = model_of("bart")
    for layer in model.decoder.layers:
        change(layer, encoder_hidden_states=lambda states, module: torch.zeros_like(states))
        layer.encoder_attn.forward = lambda hidden_states, **kwargs: (hidden_states, None)
    assert_fails(audited(model, "cross-attention"), "no-cross-attention")


@pytest.mark.parametrize("rule", ["decoder-future", "decoder-padding", "cross-attention"])
def test_what_has_no_decoder_is_told_so(rule):
    (finding,) = audited(model_of("bert"), rule)
    assert (finding.verdict, finding.reason) == ("not applicable", "it has no decoder beside an encoder")


# Reach and scripts


class Shifted(nn.Module):
    """Adds the embedding of the slot so many places further on, padded or not."""

    def __init__(self, n):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.mix, self.n = nn.Embedding(61, 28), nn.Identity(), n

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        return self.mix(states + states.roll(-self.n, 1)) if self.n else states


@pytest.mark.parametrize(("n", "reach"), [(0, None), (1, 1), (5, 5)])
def test_reach_is_counted_in_tokens(n, reach):
    assert reach_of(Subject(Shifted(n), vocab_size=61, pad_id=0)) == reach


def test_reach_is_shown():
    found = run_audit(model_of("mobilebert"), rules=["padding-content"])
    assert {failure.reach for failure in found.failures} == {1}
    assert "it reaches 1 token from the border" in to_markdown(found)
    far = Finding("padding-content", "x", "architectural", reason="all of it", reach=FARTHEST)
    assert "it reaches 31 or more tokens from the border" in to_markdown(Findings("fnet", [far]))
    assert {finding.reach for finding in run_audit(model_of("bert"), rules=["padding-content"])} == {None}


@pytest.mark.parametrize("kind", ["mobilebert", "mpnet", "bart"])
def test_every_script_shows_what_was_found(kind, capsys):
    found = [finding for finding in run_audit(model_of(kind)) if finding.script]
    assert len(found) > 1
    for finding in found:
        assert not runs(finding.script, capsys) < 1e-5, finding.check
