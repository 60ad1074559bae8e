"""What `maskwright` can do: one row a verb."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """`module` has `build_parser() -> Parser` and `run(options) -> int`; it is imported only when asked for."""

    name: str
    summary: str
    module: str
    example: str


VERBS: tuple[Verb, ...] = (
    Verb(
        "demo",
        "see it work: train, predict and compare on the bundled sample, in minutes",
        "maskwright.cli.demo",
        "maskwright demo",
    ),
    Verb(
        "tokenizer",
        "a WordPiece, BPE or Unigram vocabulary from your own text",
        "maskwright.cli.tokenizer",
        "maskwright tokenizer my-tokenizer --corpus books --vocab_size 30000",
    ),
    Verb(
        "pretrain",
        "masked language modelling or masked autoencoding on your own text",
        "maskwright.cli.pretrain",
        "maskwright pretrain --objective mae --corpus books --from_config bert --tokenizer my-tokenizer",
    ),
    Verb(
        "finetune",
        "fine-tune an encoder on a task or on your own file",
        "maskwright.cli.finetune",
        "maskwright finetune --model google-bert/bert-base-chinese --task tnews --data tnews_public.zip",
    ),
    Verb(
        "sweep",
        "tasks x variants x seeds of fine-tuning, and which differences are more than noise",
        "maskwright.cli.sweep",
        "maskwright sweep droptoken --data CLUE --model google-bert/bert-base-chinese",
    ),
    Verb(
        "predict",
        "labels and probabilities from a fine-tuned model",
        "maskwright.cli.predict",
        "maskwright predict --model run --input texts.jsonl --output predictions.csv",
    ),
    Verb(
        "embed",
        "one vector a text",
        "maskwright.cli.embed",
        "maskwright embed --model intfloat/multilingual-e5-small --input texts.txt --output vectors.npy",
    ),
    Verb(
        "correct",
        "replace a checkpoint's embeddings by what masked pretraining saw on average",
        "maskwright.cli.correct",
        "maskwright correct google-bert/bert-base-chinese corrected",
    ),
    Verb(
        "gap",
        "how far a model is from the average of itself under the noise of its pretraining",
        "maskwright.cli.gap",
        "maskwright gap google-bert/bert-base-uncased texts.txt --noise mlm --rates 0.15 0.5",
    ),
    Verb(
        "audit",
        "mask bugs in anybody's model: which law it breaks, in which module, and why",
        "maskwright.cli.audit",
        "maskwright audit google-bert/bert-base-uncased",
    ),
    Verb(
        "bench",
        "what packing saves on your model, your text and your machine",
        "maskwright.cli.bench",
        "maskwright bench google-bert/bert-base-uncased texts.jsonl",
    ),
    Verb(
        "draw",
        "masks of your own text as a picture: padding, causal, both, hidden columns, documents",
        "maskwright.cli.draw",
        'maskwright draw "the cat sat on the mat" "a dog" --masks padding both --output masks.png',
    ),
    Verb(
        "report",
        "one web page of runs, sweeps and measurements: tables, curves, options",
        "maskwright.cli.report",
        "maskwright report runs/plain runs/droptoken --output report.html",
    ),
    Verb(
        "tasks",
        "the tasks known by name, with their sizes and what is on disk",
        "maskwright.cli.tasks",
        "maskwright tasks --data clue",
    ),
    Verb(
        "families",
        "which model families are packed exactly, and which are refused and why",
        "maskwright.cli.families",
        "maskwright families",
    ),
)
