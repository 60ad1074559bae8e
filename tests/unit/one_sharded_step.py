"""The step of `one_pretraining_step` by hand on one of two ranks, weights sharded by FSDP2; rank 0 saves them whole.

accelerate takes DistributedDataParallel in place of FSDP on a CPU, so the Trainer cannot be asked.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from one_pretraining_step import SPECIAL, ByContent, objective
from one_step import N_EXAMPLES, RATE, VOCABULARY, ragged_dataset, tiny_tokenizer
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from maskwright.data.collate import PaddingCollator
from maskwright.objectives.corruption import Corruption, stream
from maskwright.training.pretrain.draws import HiddenDraw, MaskedDraw

if __name__ == "__main__":
    out, kind = sys.argv[1:]
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    module = objective(kind).train()
    for layer in [part for part in module.modules() if type(part).__name__ == "BertLayer"]:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)

    masked = MaskedDraw(Corruption(4, torch.arange(5, VOCABULARY), exact=True), SPECIAL)
    draw = ByContent(masked if kind == "mlm" else HiddenDraw(SPECIAL, target_share=0.5))
    rows = [ragged_dataset()[i] for i in range(dist.get_rank(), N_EXAMPLES, 2)]
    batch = PaddingCollator(tiny_tokenizer())([{"input_ids": row["input_ids"]} for row in rows])
    outputs = module(**draw(batch, 0.3, stream(0)))
    count = torch.as_tensor(outputs["n_targets"]).clone()
    dist.all_reduce(count)
    (2 * outputs["loss"] / count).backward()  # gradients are averaged over the ranks
    torch.optim.SGD(module.parameters(), lr=RATE).step()

    whole = {name: value.full_tensor().detach().clone() for name, value in module.named_parameters()}
    if dist.get_rank() == 0:
        save_file(whole, out)
    dist.destroy_process_group()
