"""The corpus of planted faults through other tools from PyPI, beside `maskwright audit`.

In an environment of its own that has maskwright, too:

    pip install pytest-torch==1.1.1 torchtest2==0.1.0
    python benchmarks/audit_rivals.py [--half tune|report|both] [--only NAME ...]

pytest-torch is run twice: as `pytest --torch-model` runs it (contract, invariance and gradients at its tolerance of
1e-4; its padded inputs; id 0 in new slots), and with all that it offers for masks (the model's own pad id, ordinary
tokens only, padding on the right in three amounts, padding on the left with positions handed over and the outputs of
tokens compared, another order of the rows, float16 and bfloat16 stay numbers). torchtest2 is run twice as well:
`check_model` with its defaults, and with the checks that masks and rows bear on (finite outputs, determinism, input
dependency, batch independence), warnings counted as failures. Its `assert_invariance` and pytest-torch's
`assert_invariant` check any law that one writes oneself; no law is written here for them. A pooling function is put
behind an embedding. Results land in results/audit.md beside ours.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import audit_score
import pytest_torch
import torch
import torchtest2
from audit import CORPUS, described, folder_for, kept, subjects
from pytest_torch.utils import flatten
from torch import Tensor, nn
from tqdm import tqdm

N_ROWS, LENGTH, WIDTH, VOCAB = 4, 16, 22, 61
ZERO_CODE = {"rtol": 1e-4, "atol": 1e-4}  # pytest_torch.zero_code_tests.TOLERANCE
MASK_CHECKS = ("forward", "output_finite", "eval_determinism", "input_dependency", "batch_independence")
Check = tuple[str, Callable[[], Any]]


class Called(nn.Module):
    """A subject that is called by keywords, as both tools call it; outputs that are no tensors are left out."""

    def __init__(self, inner: nn.Module, *, by_place: bool, fixed: dict[str, Any]) -> None:
        super().__init__()
        self.inner, self.by_place, self.fixed = inner, by_place, fixed

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **more: Any) -> Any:
        if self.by_place:
            return self.inner(input_ids, attention_mask)
        fixed = {name: make(input_ids) for name, make in self.fixed.items()}
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, **fixed, **more)


class Tokens(nn.Module):
    """A model's outputs for each token alone: a pooler that takes slot 0 is no fault in them under left padding."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, **given: Tensor) -> dict[str, Tensor]:
        shape = given["input_ids"].shape
        return {name: value for name, value in _floating(self.inner(**given)).items() if value.shape[:2] == shape}


class Pooled(nn.Module):
    """A pooling function behind an embedding."""

    def __init__(self, pool: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.pool = nn.Embedding(VOCAB, WIDTH), pool

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.pool(self.embed(input_ids), attention_mask.bool())


class Prepared:
    """A case as the tools can take it: its model, sizes and special ids."""

    def __init__(self, case: Any, role: str) -> None:
        self.make = case.twin if role == "twin" else case.make
        given = case.arguments()
        kind = given.get("kind", "model")
        if kind not in ("model", "pooling"):
            raise NotImplementedError(f"no way to call a {kind}")
        self.is_pooling = kind == "pooling"
        config = getattr(self.make(), "config", None)
        text = config.get_text_config() if config is not None else None
        self.vocab_size = VOCAB if self.is_pooling else given.get("vocab_size") or text.vocab_size
        pad_id = given.get("pad_id", getattr(text, "pad_token_id", None))
        self.pad_id: int = 0 if pad_id is None else pad_id
        named = (getattr(text, f"{name}_token_id", None) for name in ("bos", "eos", "cls", "sep", "mask", "unk"))
        self.special = {self.pad_id, *(i for i in named if isinstance(i, int))}

    def model(self) -> nn.Module:
        """Made anew, in evaluation mode."""
        torch.manual_seed(0)
        made = self.make()
        if self.is_pooling:
            return Called(Pooled(made), by_place=True, fixed={}).eval()
        fixed: dict[str, Any] = {}
        config = getattr(made, "config", None)
        parameters = inspect.signature(type(made).forward).parameters
        if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
            fixed["decoder_input_ids"] = lambda ids: ids.new_full((len(ids), 3), self.pad_id)
        if "use_cache" in parameters:
            fixed["use_cache"] = lambda ids: False
        return Called(made, by_place=config is None, fixed=fixed).eval()

    def inputs(self, *, ordinary: bool) -> dict[str, Tensor]:
        """Four rows of 16, 12, 8 and 16 tokens, as pytest-torch makes them; `ordinary`: no special ids in them."""
        generator = torch.Generator().manual_seed(0)
        allowed = [i for i in range(1, self.vocab_size) if not (ordinary and i in self.special)]
        ids = torch.tensor(allowed)[torch.randint(len(allowed), (N_ROWS, LENGTH), generator=generator)]
        keep = torch.ones(N_ROWS, LENGTH, dtype=torch.long)
        keep[1, LENGTH - LENGTH // 4 :] = 0
        keep[2, LENGTH // 2 :] = 0
        return {"input_ids": ids.where(keep.bool(), self.pad_id) if ordinary else ids, "attention_mask": keep}

    def takes_positions(self) -> bool:
        """Whether positions can be handed over."""
        made = self.make()
        return isinstance(made, nn.Module) and "position_ids" in inspect.signature(type(made).forward).parameters


def pytest_torch_as_shipped(prepared: Prepared) -> Iterator[Check]:
    """What `pytest --torch-model` runs on a text model; saving and loading is left out, it has no bearing on masks."""
    model, inputs = prepared.model(), prepared.inputs(ordinary=False)
    contract = pytest_torch.check_inference_contract(model, inputs, raise_on_failure=False, **ZERO_CODE)
    yield "contract", contract.raise_if_failed
    yield "padding", lambda: pytest_torch.assert_padding_invariant(model, inputs, **ZERO_CODE)
    size = prepared.vocab_size
    yield "mask", lambda: pytest_torch.assert_mask_invariant(model, inputs, vocab_size=size, **ZERO_CODE)
    yield "layout", lambda: pytest_torch.assert_layout_invariant(model, inputs, **ZERO_CODE)
    yield "gradients", lambda: pytest_torch.assert_gradients_finite(prepared.model().train(), inputs, _total)


def pytest_torch_at_its_best(prepared: Prepared) -> Iterator[Check]:
    """All that it offers for masks, with what it should be told about the model."""
    model, inputs = prepared.model(), prepared.inputs(ordinary=True)
    pad = {"pad_value": prepared.pad_id, **ZERO_CODE}
    yield from _contract(model, inputs)
    for extra in (1, 4, 11):
        yield (
            f"padding {extra}",
            lambda extra=extra: pytest_torch.assert_padding_invariant(model, inputs, extra=extra, **pad),
        )
    if prepared.takes_positions():
        placed = inputs | {"position_ids": torch.arange(LENGTH).expand(N_ROWS, -1).contiguous()}
        tokens = Tokens(model)
        yield "padding left", lambda: pytest_torch.assert_padding_invariant(tokens, placed, side="left", **pad)
    size = prepared.vocab_size
    yield "mask", lambda: pytest_torch.assert_mask_invariant(model, inputs, vocab_size=size, **ZERO_CODE)
    yield "order", lambda: pytest_torch.assert_permutation_equivariant(model, inputs, dim=0, **ZERO_CODE)
    yield "gradients", lambda: pytest_torch.assert_gradients_finite(prepared.model(), inputs, _total)
    for dtype in (torch.float16, torch.bfloat16):
        yield (
            str(dtype),
            lambda dtype=dtype: pytest_torch.check_inference_contract(
                prepared.model().to(dtype), inputs, checks=["finite_outputs"]
            ),
        )


def _contract(model: nn.Module, inputs: dict[str, Tensor]) -> Iterator[Check]:
    report = pytest_torch.check_inference_contract(model, inputs, raise_on_failure=False, **ZERO_CODE)
    for result in report.results:
        yield result.name, lambda result=result: _passed(result.status != "fail")


def torchtest2_as_shipped(prepared: Prepared) -> Iterator[Check]:
    """`check_model` as its quick start has it, without a loss."""
    yield from _torchtest2(prepared, ordinary=False, strict=False, skip=())


def torchtest2_at_its_best(prepared: Prepared) -> Iterator[Check]:
    """The checks that masks and rows bear on; a warning counts."""
    skip = [name for name in torchtest2.CHECKS if name not in MASK_CHECKS]
    yield from _torchtest2(prepared, ordinary=True, strict=True, skip=skip)


def _torchtest2(prepared: Prepared, *, ordinary: bool, strict: bool, skip: Any) -> Iterator[Check]:
    model, inputs = prepared.model(), prepared.inputs(ordinary=ordinary)
    report = torchtest2.check_model(model, inputs, skip=skip)
    bad = {torchtest2.Status.FAIL} | ({torchtest2.Status.WARN} if strict else set())
    for result in report.results:
        yield result.name, lambda result=result: _passed(result.status not in bad)


def _passed(is_passed: bool) -> None:
    assert is_passed


def _total(output: Any) -> Tensor:
    """The loss of pytest_torch.zero_code_tests."""
    return torch.stack([value.float().mean() for value in _floating(output).values() if value.requires_grad]).sum()


def _floating(output: Any) -> dict[str, Tensor]:
    leaves = flatten(output)
    return {path: leaf for path, leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()}


TOOLS = {
    "pytest-torch 1.1.1, as shipped": pytest_torch_as_shipped,
    "pytest-torch 1.1.1, all for masks": pytest_torch_at_its_best,
    "torchtest2 0.1.0, as shipped": torchtest2_as_shipped,
    "torchtest2 0.1.0, all for masks": torchtest2_at_its_best,
}


def driven(case: Any, role: str, tool: str) -> dict[str, Any]:
    """The checks of a tool that fail on one subject."""
    record = described(case, role, tool)
    failed = []
    began = time.perf_counter()
    try:
        for name, check in TOOLS[tool](Prepared(case, role)):
            try:
                check()
            except Exception:  # a check that raises is an alarm, of whatever kind
                failed.append(name)
    except NotImplementedError as reason:
        record["cannot"] = str(reason)
    except Exception as error:
        failed.append(f"raised {type(error).__name__}")
    return record | {"failed": failed, "seconds": time.perf_counter() - began}


def main() -> None:
    """Run, print, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=[*audit_score.HALVES, "both"], default="both")
    parser.add_argument("--only", nargs="+", default=[], help="names of cases")
    options = parser.parse_args()
    folder = folder_for(CORPUS / "corpus", Path(__file__))
    records = []
    for case, role in tqdm(subjects(options.half, options.only), unit="subject"):
        for number, tool in enumerate(TOOLS):
            make = lambda case=case, role=role, tool=tool: driven(case, role, tool)  # noqa: E731
            records.append(kept(folder, f"{case.name}.{role}.{number}", make))
        gc.collect()
    print(audit_score.contest(records))
    if options.half == "both" and not options.only:
        audit_score.write(records, [record["name"] for record in records])


if __name__ == "__main__":
    main()
