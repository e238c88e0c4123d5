"""Writes the .pt2 files that the reader's tests read, and what PyTorch says is in them.

``odd_weights.pt2`` holds every kind of weight storage that torch.export.save makes (shared, sliced, strided, expanded,
empty, all data types) and most kinds of arguments; ``odd_weights.npz`` holds the same tensors as NumPy writes them
(bfloat16 as uint16). ``dynamic.pt2`` has a dynamic batch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent


class OddWeights(nn.Module):
    """Uses each odd tensor once."""

    def __init__(self) -> None:
        """Makes the tensors from a fixed seed."""
        super().__init__()
        generator = torch.Generator().manual_seed(1)

        def values(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator)

        self.channels_last = nn.Parameter(values(4, 3, 2, 2).to(memory_format=torch.channels_last))
        self.transposed = nn.Parameter(values(5, 7).t())
        self.tied = self.transposed
        base = values(12)
        self.register_buffer("slice_low", base[0:5])
        self.register_buffer("slice_high", base[3:11])
        self.register_buffer("every_second", values(10)[::2])
        self.register_buffer("expanded", values(1, 4).expand(3, 4))
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("scalar", torch.tensor(2.5))
        self.register_buffer("not_saved", values(3), persistent=False)
        for dtype in (
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.int32,
            torch.int16,
            torch.int8,
            torch.uint8,
            torch.uint16,
            torch.uint32,
            torch.bool,
        ):
            tensor = (values(3) * 100 - (0 if str(dtype).startswith("torch.u") else 50)).to(dtype)
            self.register_buffer(f"of_{dtype}".replace("torch.", ""), tensor)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[2, 3, 4, 4] to two tensors."""
        lifted = torch.tensor([1.5, -2.0, 3.25, 0.5])
        y = torch.conv2d(x, self.channels_last) + lifted.view(1, 4, 1, 1)
        y = torch.cat([y, y.clamp(min=-1.0, max=1.0)], dim=1).to(torch.float64)
        rows = y.flatten(1)[:, self.of_int64.abs() % 4]
        z = x.mean([2, 3]) @ self.transposed.t()[:3, :3] + self.tied.sum() + self.not_saved
        z = z.masked_fill(z > self.scalar, -torch.inf) * self.slice_low.sum() + self.slice_high.sum()
        z = z + self.every_second.sum() + self.expanded.sum() + self.empty.sum()
        for name, buffer in self.named_buffers():
            if name.startswith("of_") and not name.startswith("of_uint"):
                z = z + buffer.to(torch.float32)
        return rows, z


class Dynamic(nn.Module):
    """One operator."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return torch.relu(x)


def save(exported: torch.export.ExportedProgram, path: Path) -> None:
    """Saves without sample inputs and without names of folders of this machine."""
    for node in exported.graph.nodes:
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = trace.replace(f"{HERE}/", "")
    exported.example_inputs = None
    torch.export.save(exported, path)


def main() -> None:
    """Writes the three files beside this one."""
    exported = torch.export.export(OddWeights().eval(), (torch.zeros(2, 3, 4, 4),))
    save(exported, HERE / "odd_weights.pt2")
    tensors = {**exported.state_dict, **exported.constants}
    plain = {
        name: (t.detach().view(torch.uint16) if t.dtype == torch.bfloat16 else t.detach()).contiguous().numpy()
        for name, t in tensors.items()
    }
    np.savez(HERE / "odd_weights.npz", **plain)
    batch = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    save(torch.export.export(Dynamic(), (torch.zeros(3, 4),), dynamic_shapes=batch), HERE / "dynamic.pt2")


if __name__ == "__main__":
    main()
