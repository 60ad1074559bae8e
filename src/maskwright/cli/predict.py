"""`maskwright predict`."""

from __future__ import annotations

from dataclasses import asdict

from jsonargparse import Namespace

from maskwright.cli.options import Parser, config_parser, read_config
from maskwright.cli.terminal import calibration, count, show, working
from maskwright.training.config import PredictConfig


def build_parser() -> Parser:
    """One option a field of `PredictConfig`."""
    return config_parser("predict", PredictConfig)


def run(options: Namespace) -> int:
    """Predict as told, then print the summary."""
    config = read_config(PredictConfig, options)
    with working():
        from maskwright.training.predict import run_predict

        result = run_predict(config)
    rows = {name.replace("_", " "): f"{value:.4f}" for name, value in result.metrics.items()}
    if result.calibration:
        rows["calibration"] = calibration(result.calibration)
    if config.averaging == "model":
        rows["averaged"] = f"{config.samples} passes, noise: {config.noise}"
    rows |= {"rows": f"{result.n_rows:,}", "cut to fit": f"{result.n_truncated:,}", "written to": result.output}
    if result.skipped:
        rows["skipped"] = count(result.skipped)
    if result.submission:
        rows["submission"] = result.submission
    show("Predicted", rows, as_json=options.json, result=asdict(result))
    return 0
