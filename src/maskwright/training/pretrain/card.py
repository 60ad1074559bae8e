"""The model card of a pretraining run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maskwright.training.pretrain.config import PretrainConfig


def write_card(folder: Path, config: PretrainConfig, result: dict[str, Any]) -> None:
    """`README.md`: what was trained on what, how it scored, how to use it, how to make it again."""
    source = config.model or f"random weights ({config.from_config})"
    rates = f"{config.rate}" if config.final_rate is None else f"{config.rate} to {config.final_rate}"
    if config.objective == "mlm":
        how = f"masked language modelling, rate {rates} by {config.unit}, shares {config.shares}"
    else:
        how = f"masked autoencoding, {rates} of the tokens hidden, {config.decoder} decoder of {config.decoder_layers}"
    loss = "none held out" if result["eval_loss"] is None else f"{result['eval_loss']:.4f}"
    by_frequency = "-" if result["frequency_loss"] is None else f"{result['frequency_loss']:.4f}"
    documents = "streamed" if result["n_documents"] is None else result["n_documents"]
    card = f"""---
library_name: transformers
pipeline_tag: fill-mask
---
# {folder.name}

Pretrained with maskwright from {source}: {how}.

| | |
|---|---|
| documents | {documents} |
| rows | {", ".join(f"{name} {n}" for name, n in result["n_rows"].items())} |
| steps | {result["n_steps"]} |
| real tokens | {result["n_tokens"]} |
| masked loss at a rate of 0.15, held out | {loss} |
| the same of guessing by frequency | {by_frequency} |

## Use

```python
from transformers import AutoModelForMaskedLM, AutoTokenizer

model = AutoModelForMaskedLM.from_pretrained("{folder.name}")
```

`maskwright finetune --model {folder.name} ...` fine-tunes it.
`maskwright pretrain --config config.yaml --output_dir again` makes it again. {_caution(config)}
"""
    (folder / "README.md").write_text(card, encoding="utf-8")


def _caution(config: PretrainConfig) -> str:
    if config.objective == "mlm":
        return ""
    return (
        "Its encoder never saw [MASK], and its head only what the decoder made (`decoder.safetensors`, kept to go on "
        "training): use it for states and fine-tuning, not to fill masks."
    )
