"""What is loaded to be audited: safetensors alone, no foreign code, and damaged folders are an error in a sentence."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoConfig, AutoModel

from maskwright.audit.load import load_model
from maskwright.cli.main import main
from maskwright.errors import InputError

V = 31


def saved(folder, *, safe=True, **more):
    model = AutoModel.from_config(
        AutoConfig.for_model(
            "bert", vocab_size=V, hidden_size=28, num_hidden_layers=1, num_attention_heads=2, intermediate_size=11
        )
    )
    model.save_pretrained(folder)
    if not safe:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text("utf-8")) | more
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return str(folder)


def test_pickled_weights_are_read_only_on_request(tmp_path, capsys):
    name = saved(tmp_path, safe=False)
    with pytest.raises(InputError, match="--allow_pickle"):
        load_model(name)
    assert load_model(name, allow_pickle=True).config.vocab_size == V
    assert main(["audit", name, "--rules", "row-order"]) == 2
    assert "--allow_pickle" in capsys.readouterr().err
    assert main(["audit", name, "--rules", "row-order", "--allow_pickle"]) == 0


@pytest.mark.filterwarnings("ignore")
def test_pickled_code_is_never_run(tmp_path):
    marker = tmp_path / "run"

    class Evil:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    name = saved(tmp_path, safe=False)
    torch.save({"a": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot load"):
        load_model(name, allow_pickle=True)
    assert not marker.exists()


@pytest.mark.parametrize("how", ["configuration", "modules.json"])
def test_code_that_comes_with_a_model_is_run_only_on_request(how, tmp_path, capsys):
    marker = tmp_path / "run"
    code = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\nfrom transformers import BertConfig, BertModel\n"
    (tmp_path / "mine.py").write_text(
        f"{code}class C(BertConfig):\n    model_type = 'mine'\nclass M(BertModel):\n    config_class = C\n"
    )
    name = saved(
        tmp_path, model_type="mine", architectures=["M"], auto_map={"AutoConfig": "mine.C", "AutoModel": "mine.M"}
    )
    if how == "modules.json":
        pytest.importorskip("sentence_transformers")
        modules = [{"idx": 0, "name": "0", "path": "", "type": "mine.M"}]
        (tmp_path / "modules.json").write_text(json.dumps(modules), "utf-8")
    with pytest.raises(InputError, match="--trust_remote_code"):
        load_model(name)
    assert main(["audit", name]) == 2
    assert "--trust_remote_code" in capsys.readouterr().err
    assert not marker.exists()
    if how == "configuration":
        assert main(["audit", name, "--trust_remote_code", "--rules", "row-order"]) == 0
        assert marker.exists()


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["Trainer"]},
        {"architectures": ["pipeline"]},
        {"architectures": [3]},
        {"architectures": []},
        {"architectures": ["NoSuchModel"]},
    ],
)
def test_a_configuration_that_names_no_model(config, tmp_path):
    assert type(load_model(saved(tmp_path, **config))).__name__ == "BertModel"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"model_type": "bert", "hidden_size": "wide"}'),
        ("config.json", '{"model_type": "no such type"}'),
        ("model.safetensors", "no such weights"),
        ("model.safetensors", ""),
    ],
)
def test_damaged_folders(file, text, tmp_path, capsys):
    name = saved(tmp_path)
    (tmp_path / file).write_text(text, "utf-8")
    assert main(["audit", name]) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "cannot load" in captured.err
