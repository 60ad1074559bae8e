"""A rank whose clock says that time is over, and one whose clock does not: both must hear the first rank's word."""

from __future__ import annotations

import sys

import torch.distributed as dist
from transformers import TrainerControl, TrainerState, TrainingArguments

from maskwright.training.pretrain.progress import TimeLimit

if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    dist.init_process_group("gloo")
    for over_on in (0, 1):
        limit = TimeLimit(0.0 if dist.get_rank() == over_on else 1e6)
        args, control = TrainingArguments(folder, use_cpu=True, report_to=[]), TrainerControl()
        limit.on_train_begin(args, TrainerState(), control)
        limit.on_step_end(args, TrainerState(), control)
        assert control.should_training_stop == (over_on == 0)
    dist.destroy_process_group()
