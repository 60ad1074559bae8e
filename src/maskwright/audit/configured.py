"""What a model's configuration says: sizes, special ids, and what attention is meant to be."""

from __future__ import annotations

from typing import Any, Literal

from transformers.models.auto import modeling_auto as auto

Direction = Literal["bidirectional", "causal", "encoder-decoder"]
N_UNICODE = 0x110000


def of_config(config: Any, name: str) -> Any:
    """A value of a configuration, or of its text part; None where there is none."""
    if config is None:
        return None
    for part in (config, config.get_text_config() if hasattr(config, "get_text_config") else None):
        try:
            value = getattr(part, name, None)
        except Exception:  # configurations of layers that differ refuse to answer for all
            continue
        if value is not None:
            return value
    return None


def vocab_size_of(inner: Any, config: Any) -> int:
    """As the configuration says, or as many rows as the table of embeddings has; 0 = not known."""
    if isinstance(known := of_config(config, "vocab_size"), int):
        return known
    if getattr(config, "model_type", None) == "canine":  # it reads code points and hashes them
        return N_UNICODE
    try:
        return int(inner.get_input_embeddings().weight.shape[0])
    except Exception:  # models without a plain table say so in many ways
        return 0


def special_ids_of(config: Any) -> dict[str, int]:
    """Kind -> id, those that a configuration names; further ids of a kind have a number behind it."""
    found: dict[str, int] = {}
    for kind in ("pad", "bos", "eos", "cls", "sep", "mask", "unk"):
        value = of_config(config, f"{kind}_token_id")
        several = value if isinstance(value, (list, tuple)) else [value]
        found |= {f"{kind}{n or ''}": i for n, i in enumerate(several) if isinstance(i, int)}
    return found


def window_of(config: Any) -> int:
    """How many slots to either side the narrowest layer sees, 0 = all."""
    for name, sides in (("sliding_window", 1), ("local_attention", 2), ("attention_window", 2)):
        value = of_config(config, name)
        narrowest = min(value) if isinstance(value, (list, tuple)) and value else value
        if isinstance(narrowest, int) and narrowest > 0:
            return max(1, narrowest // sides)
    return 0


def direction_of(inner: Any, config: Any) -> Direction | None:
    """What attention is meant to be, by the configuration and the model's class; None = it does not say."""
    if config is None:
        return None
    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder" if not type(inner).__name__.endswith("EncoderModel") else "bidirectional"
    if type(inner).__name__.endswith("Encoder") and not getattr(config, "is_decoder", False):
        return "bidirectional"
    if getattr(config, "is_decoder", False) or type(inner).__name__.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    model_type = getattr(config, "model_type", None)
    if model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "bidirectional"
    return "causal" if model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else None
