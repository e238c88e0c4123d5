"""Architectures of the transformers library give PyTorch's outputs: vision, text, speech, detection, segmentation."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

import pass_oracle
import torch_oracle
from transformers_models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_pytorch_whatever_pass_is_left_out(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, inputs = MODELS[name].make()
    model = torch_oracle.check(module, (), inputs, tmp_path, decomposed=False)
    arrays = [inputs[info.name].numpy() for info in model.inputs]
    pass_oracle.check(model, tmp_path / "model.pt2", arrays, tmp_path)


@pytest.mark.parametrize("name", ["gpt2", "vit", "wavlm", "segformer", "conditional_detr", "t5"])
def test_decomposed_graphs_give_the_same(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, inputs = MODELS[name].make()
    torch_oracle.check(module, (), inputs, tmp_path, decomposed=True)


def test_there_are_enough_architectures() -> None:
    assert len(MODELS) >= 40
    assert len({spec.config for spec in MODELS.values()}) >= 40
    assert json.dumps(sorted(MODELS))
