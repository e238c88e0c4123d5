"""Small modules for ATen operators, each with its inputs: what PyTorch computes is the truth.

A case is a function of tensors, or a module. Names tell the operators; several of one kind share a case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Function(nn.Module):
    """A function of tensors, with layers."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs: Tensor) -> Any:
        """The function's result; with layers it gets the module first."""
        return self.function(self, *inputs) if list(self.children()) else self.function(*inputs)


def r(*shape: int) -> Tensor:
    """Numbers from -2 to 2."""
    return torch.rand(shape) * 4 - 2


def p(*shape: int) -> Tensor:
    """Positive numbers."""
    return torch.rand(shape) * 2 + 0.1


def u(*shape: int) -> Tensor:
    """Numbers within (-1, 1)."""
    return torch.rand(shape) * 1.8 - 0.9


def n(*shape: int, low: int = -5, high: int = 6) -> Tensor:
    """Integers."""
    return torch.randint(low, high, shape)


def b(*shape: int) -> Tensor:
    """Truth values."""
    return torch.rand(shape) > 0.5


Case = tuple[Callable[..., Any] | nn.Module, tuple[Tensor, ...]]


def cell(kind: type[nn.Module], **options: Any) -> nn.Module:
    """A recurrent layer."""
    return kind(5, 6, **options)


def in_place_view(x: Tensor) -> Tensor:
    """Writes into parts of a tensor that are read again."""
    y = x * 2
    y[:, 1] = 7.0
    z = y[0]
    z.add_(1.0)
    y[..., ::2].mul_(3.0)
    z[1:3].copy_(torch.ones(2, 4))
    return y + z


def in_place_reshape(x: Tensor) -> tuple[Tensor, Tensor]:
    """Writes through views of another shape."""
    y = x.clone()
    flat = y.view(-1)
    flat[3:5] = -1.0
    t = y.t()
    t[2].zero_()
    y.relu_()
    return y, flat.sigmoid()


def state_machine(x: Tensor) -> Tensor:
    """Fills a tensor of zeros, as masks are made."""
    mask = torch.zeros(1, 4, 4, 1)
    count = 0
    for rows in (slice(0, 2), slice(2, 4)):
        for columns in (slice(0, 1), slice(1, 4)):
            mask[:, rows, columns, :] = count
            count += 1
    return x * mask.view(4, 4) + mask.sum()


def without_gradient(x: Tensor) -> Tensor:
    """A graph inside of the graph."""
    with torch.no_grad():
        y = torch.sin(x) + 1
    return y * x


torch.manual_seed(5)
CASES: dict[str, Case] = {
    "arithmetic": (
        lambda x, y: (x + y, x - 2 * y, x * y, x / y, 1.5 - x, torch.add(x, y, alpha=3)),
        (r(2, 3), p(2, 3)),
    ),
    "integers": (
        lambda x, y: (x + y, x * 2, x - y, x // y, x % y, x / y, torch.div(x, y, rounding_mode="trunc"), -x, x.abs()),
        (n(3, 4), n(3, 4, low=1)),
    ),
    "promotion": (lambda x, i, m: (x + i, i * 0.5, i + m, m + m, m * i, i > 0.5, x == i), (r(3), n(3), b(3))),
    "divisions": (
        lambda x, y: (
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            torch.remainder(x, y),
            torch.fmod(x, y),
            torch.fmod(x, 0.7),
            x % 0.3,
        ),
        (r(4, 4), p(4, 4)),
    ),
    "powers": (
        lambda x, y: (x**2, x**3, y**0.5, y**-0.5, y**-1, y**y, 2**x, y**1.7, torch.pow(y, 0)),
        (r(3, 3), p(3, 3)),
    ),
    "integer_powers": (lambda x: (x**2, x**3, 2 ** x.abs()), (n(4, high=4),)),
    "comparisons": (
        lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y, x > 1, x.eq(0), torch.maximum(x, y), x.minimum(y)),
        (n(4, 4), n(4, 4)),
    ),
    "logic": (
        lambda x, y, i: (x & y, x | y, x ^ y, ~x, x.logical_and(i), x.logical_or(y), x.logical_xor(y), i.logical_not()),
        (b(8), b(8), n(8)),
    ),
    "bits": (lambda x, y: (x & y, x | y, x ^ y, ~x, x << 2, x >> 1), (n(8), n(8))),
    "exponentials": (
        lambda x: (
            x.exp(),
            x.exp2(),
            x.expm1(),
            x.sigmoid(),
            x.tanh(),
            x.sinh(),
            x.cosh(),
            x.asinh(),
            x.erf(),
            x.erfc(),
        ),
        (r(3, 5),),
    ),
    "logarithms": (
        lambda x: (x.log(), x.log2(), x.log10(), x.log1p(), x.sqrt(), x.rsqrt(), x.reciprocal(), (x + 1).acosh()),
        (p(3, 5),),
    ),
    "angles": (
        lambda x: (x.sin(), x.cos(), x.tan(), x.asin(), x.acos(), x.atan(), x.atanh(), torch.atan2(x, x + 2)),
        (u(3, 5),),
    ),
    "angle_units": (lambda x: (x.deg2rad(), x.rad2deg(), torch.hypot(x, x + 1), torch.logaddexp(x, -x)), (r(3, 5),)),
    "rounding": (
        lambda x: (
            x.floor(),
            x.ceil(),
            x.round(),
            x.trunc(),
            x.frac(),
            x.sign(),
            x.abs(),
            x.neg(),
            x.round(decimals=1),
        ),
        (r(5, 7),),
    ),
    "special": (
        lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.nan_to_num(0.5), torch.fmax(x, x.flip(0))),
        (torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0]),),
    ),
    "combined": (
        lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z), torch.lerp(x, y, 0.3), x.square()),
        (r(3, 4), r(3, 4), p(3, 4)),
    ),
    "clamps": (
        lambda x, y: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=0.1), x.clamp_min(0), torch.clamp(x, y, y + 1)),
        (r(4, 4), r(4, 4)),
    ),
    "integer_clamps": (lambda x: (x.clamp(-2, 2), x.clamp(min=1), F.relu(x)), (n(6),)),
    "activations": (
        lambda x: (F.relu(x), F.relu6(x), F.hardtanh(x, -0.5, 0.7), F.silu(x), F.mish(x), F.gelu(x), F.elu(x, 0.7)),
        (r(3, 7),),
    ),
    "more_activations": (
        lambda x: (F.gelu(x, approximate="tanh"), F.selu(x), F.celu(x, 1.3), F.softplus(x), F.softplus(x, 2.0, 1.0)),
        (r(3, 7),),
    ),
    "other_activations": (
        lambda x: (F.logsigmoid(x), F.softsign(x), F.tanhshrink(x), F.hardshrink(x), F.softshrink(x), F.leaky_relu(x)),
        (r(3, 7),),
    ),
    "hard_activations": (
        lambda x: (F.hardswish(x), F.hardsigmoid(x), F.threshold(x, 0.3, 9.0), F.rrelu(x)),
        (r(3, 7) * 3,),
    ),
    "glu": (lambda x: (F.glu(x, 1), F.glu(x)), (r(2, 4, 6),)),
    "prelu": (Function(lambda m, x: (m.a(x), m.b(x)), a=nn.PReLU(), b=nn.PReLU(3, 0.4)), (r(2, 3, 4),)),
    "logit": (lambda x: torch.logit(x, 1e-3), (torch.rand(4, 4),)),
    "shapes": (
        lambda x: (x.view(6, 4), x.reshape(2, -1), x.flatten(1), x.flatten(), x.unflatten(2, (2, 2)), x.unsqueeze(-2)),
        (r(2, 3, 4),),
    ),
    "squeezes": (lambda x: (x.squeeze(), x.squeeze(1), x.squeeze((1, 3)), x.squeeze(0)), (r(2, 1, 3, 1),)),
    "orders": (
        lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.movedim(0, 2), x.swapaxes(0, 1), x[0].t(), x.mT, x[0].T),
        (r(2, 3, 4),),
    ),
    "repeats": (
        lambda x: (x.expand(4, 2, 3), x.repeat(2, 1, 2), x.repeat_interleave(2, 1), x.repeat_interleave(3), x.tile(2)),
        (r(2, 3),),
    ),
    "joins": (
        lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y]), torch.stack([x, y], -1), torch.hstack([x, y])),
        (r(2, 3), r(2, 3)),
    ),
    "vertical_joins": (
        lambda x, y: (torch.vstack([x, y]), torch.dstack([x, y]), torch.column_stack([x, y])),
        (r(3), r(3)),
    ),
    "cat_of_types": (lambda x, y: torch.cat([x, y], 0), (r(2, 3), n(2, 3))),
    "turns": (lambda x: (x.flip(0, 2), x.fliplr(), x.roll(1, 0), x.roll((1, -2), (1, 2)), x.roll(3)), (r(2, 3, 4),)),
    "shuffles": (
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 4)),
        (r(2, 8, 4, 6),),
    ),
    "grids": (lambda x, y: torch.meshgrid(x, y, indexing="ij") + torch.meshgrid(x, y, indexing="xy"), (r(3), r(4))),
    "slices": (
        lambda x: (x[1:], x[:, ::2], x[..., -2:], x[:, 1], x[-1, 2:4], x.narrow(1, 1, 2), x[:, None], x.select(2, -1)),
        (r(3, 5, 4),),
    ),
    "splits": (
        lambda x: (*x.split(2, 1), *x.split([1, 4], 1), *x.chunk(3, 1), *x.unbind(0), *x.tensor_split(3, 1)),
        (r(2, 5, 3),),
    ),
    "strided": (lambda x: torch.as_strided(x, (2, 3), (4, 1), 1), (r(3, 4),)),
    "unfolds": (lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1), x.diff(dim=1), x.diff(n=2, dim=0)), (r(4, 7),)),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-1), x.diagonal(), x.diagonal(1, 0, 2)), (r(3, 4, 4),)),
    "scattered_parts": (
        lambda x, y: (x.slice_scatter(y, 1, 1, 4, 2), x.select_scatter(y[:, 0], 1, 0)),
        (r(3, 5), r(3, 2)),
    ),
    "paddings": (
        lambda x: (
            F.pad(x, (1, 2)),
            F.pad(x, (1, 2, 3, 0), value=2.5),
            F.pad(x, (1, 1, 2, 2), mode="reflect"),
            F.pad(x, (2, 0, 0, 1), mode="replicate"),
            F.pad(x, (1, 2, 1, 0), mode="circular"),
            F.pad(x, (-1, 1)),
        ),
        (r(1, 2, 5, 6),),
    ),
    "indices": (
        lambda x, i, j: (x[i], x[:, j], x[i, j], x[:, i, j], x[i, :, j], x[i[:, None], j], torch.take(x, i)),
        (r(5, 6, 7), n(3, low=-5, high=5), n(3, low=-6, high=6)),
    ),
    "gathers": (
        lambda x, i: (
            x.gather(1, i),
            torch.gather(x, 0, i[:2] % 4),
            x.index_select(1, i[0]),
            x.take_along_dim(i, 1),
            x.take_along_dim(i[:1], 1),
        ),
        (r(4, 5), n(4, 3, low=0, high=5)),
    ),
    "scatters": (
        lambda x, i, y: (
            x.scatter(1, i, y),
            x.scatter(1, i, 3.0),
            x.scatter_add(0, i % 4, y),
            x.scatter_reduce(1, i, y, "amax"),
            x.index_add(1, torch.tensor([0, 2, 0]), y, alpha=2),
            x.index_copy(1, torch.tensor([4, 1, 2]), y),
            x.index_fill(0, torch.tensor([1, 3]), -1.0),
        ),
        (r(4, 5), torch.tensor([[0, 1, 2], [4, 3, 0], [1, 2, 4], [3, 0, 1]]), r(4, 3)),
    ),
    "puts": (
        lambda x, i, y: (
            torch.index_put(x, (i,), y),
            torch.index_put(x, (i,), y, accumulate=True),
            torch.index_put(x, (i, torch.tensor([1, 0, 2])), torch.tensor(4.0)),
            torch.index_put(x, (x > 0.5,), torch.tensor(-1.0)),
        ),
        (r(5, 4), torch.tensor([0, 3, 1]), r(3, 4)),
    ),
    "choices": (
        lambda x, y, m: (
            torch.where(m, x, y),
            torch.where(m, x, 1.5),
            torch.where(x > y, 1, 0),
            x.masked_fill(m, -9.0),
            x.masked_fill(m[0], float("-inf")),
        ),
        (r(3, 4), r(3, 4), b(3, 4)),
    ),
    "rankings": (
        lambda x: (
            *x.topk(3, 1),
            *x.topk(2, 0, largest=False),
            *x.sort(1),
            x.argsort(0, descending=True),
            x.argmax(),
            x.argmax(1),
            x.argmin(0, keepdim=True),
            *x.max(1),
            *x.min(0, keepdim=True),
        ),
        (torch.randperm(20).reshape(4, 5).float(),),
    ),
    "one_hot": (lambda i: (F.one_hot(i, 6), torch.bucketize(i, torch.tensor([0, 2, 4]))), (n(3, 4, low=0),)),
    "embedding": (
        Function(lambda m, i: (m.e(i), F.embedding(i, m.e.weight)), e=nn.Embedding(10, 4, padding_idx=0)),
        (n(2, 3, low=0, high=10),),
    ),
    "sums": (
        lambda x: (
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.mean(),
            x.mean(-1),
            x.prod(1),
            x.amax((0, 1)),
            x.max(),
        ),
        (r(2, 3, 4),),
    ),
    "integer_sums": (lambda x: (x.sum(), x.sum(1), x.max(), x.amin(1), x.cumsum(0), x.prod(0)), (n(3, 4),)),
    "truths": (
        lambda m, i: (
            m.any(),
            m.all(),
            m.any(1),
            m.all(0, keepdim=True),
            i.any(1),
            m.sum(),
            m.cumsum(0),
            i.count_nonzero(),
        ),
        (b(3, 4), n(3, 4, low=0, high=2)),
    ),
    "spreads": (
        lambda x: (x.var(), x.std(1), x.var((0, 2), correction=0), x.std(2, unbiased=False), *torch.var_mean(x, 1)),
        (r(3, 4, 5),),
    ),
    "norms_of_vectors": (
        lambda x: (
            x.norm(),
            x.norm(dim=1),
            x.norm(p=1, dim=0),
            torch.linalg.vector_norm(x, 3, 1),
            torch.linalg.vector_norm(x, float("inf")),
            F.normalize(x, dim=0),
            F.cosine_similarity(x, x.flip(1), dim=1),
        ),
        (r(4, 5),),
    ),
    "softmaxes": (
        lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), F.softmin(x, 1), x.logsumexp(1), x.logsumexp((0, 1))),
        (r(3, 5),),
    ),
    "running": (lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(1)), (r(3, 5),)),
    "matmuls": (
        lambda x, y, v: (
            x @ y,
            x[0] @ y,
            v @ y,
            x @ v,
            v @ v,
            torch.bmm(x, y),
            torch.mm(x[0], y[0]),
            torch.outer(v, v),
        ),
        (r(2, 3, 4), r(2, 4, 5)[:, :, :4].contiguous(), r(4)),
    ),
    "added_matmuls": (
        lambda x, y, z: (
            torch.addmm(z[0], x[0], y[0]),
            torch.addmm(z[0, 0], x[0], y[0], beta=0.5, alpha=2),
            torch.baddbmm(z, x, y, alpha=0.3),
            torch.addmv(z[0, :, 0], x[0], y[0, :, 0]),
        ),
        (r(2, 3, 4), r(2, 4, 5), r(2, 3, 5)),
    ),
    "einsums": (
        lambda x, y, z: (
            torch.einsum("bij,bjk->bik", x, y),
            torch.einsum("bij,bjk->ki", x, y),
            torch.einsum("bhwc,hkc->bhwk", z, y[:, :, :3]),
            torch.einsum("...ij,...jk->...ik", x, y),
            torch.einsum("bij->jb", x),
            torch.einsum("bij,bjk,k->bi", x, y, y[0, 0]),
        ),
        (r(2, 3, 4), r(2, 4, 5), r(1, 2, 2, 3)),
    ),
    "linear": (
        Function(
            lambda m, x: (m.a(x), m.b(x), m.a(x[0]), m.a(x[0, 0])), a=nn.Linear(4, 3), b=nn.Linear(4, 6, bias=False)
        ),
        (r(2, 3, 4),),
    ),
    "shared_weight": (
        Function(lambda m, i: F.linear(m.e(i), m.e.weight), e=nn.Embedding(9, 4)),
        (n(2, 3, low=0, high=9),),
    ),
    "norms": (
        Function(
            lambda m, x: (m.a(x), m.b(x), m.c(x), m.d(x), m.e(x), F.layer_norm(x, (5,))),
            a=nn.LayerNorm(5),
            b=nn.LayerNorm((4, 5)),
            c=nn.GroupNorm(2, 4),
            d=nn.InstanceNorm1d(4, affine=True),
            e=nn.RMSNorm(5),
        ),
        (r(2, 4, 5),),
    ),
    "batch_norms": (
        Function(
            lambda m, x: (
                m.a(x),
                m.b(x[..., 0]),
                F.batch_norm(x, None, None, training=True),
                F.local_response_norm(x, 2),
            ),
            a=nn.BatchNorm2d(4),
            b=nn.BatchNorm1d(4, affine=False),
        ),
        (r(2, 4, 5, 6),),
    ),
    "weight_norm": (
        Function(lambda m, x: m.a(x), a=torch.nn.utils.weight_norm(nn.Conv1d(3, 4, 3))),
        (r(2, 3, 8),),
    ),
    "conv1d": (
        Function(
            lambda m, x: (m.a(x), m.b(x), m.c(x), m.d(x)),
            a=nn.Conv1d(4, 6, 3, padding=1),
            b=nn.Conv1d(4, 4, 3, stride=2, groups=4),
            c=nn.Conv1d(4, 2, 4, padding="same"),
            d=nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1),
        ),
        (r(2, 4, 9),),
    ),
    "conv2d": (
        Function(
            lambda m, x: (m.a(x), m.b(x), m.c(x), m.d(x), m.e(x[0])),
            a=nn.Conv2d(4, 6, (3, 2), padding=(1, 0), dilation=2),
            b=nn.Conv2d(4, 8, 3, groups=2, bias=False),
            c=nn.Conv2d(4, 8, 3, groups=4, padding=1),
            d=nn.Conv2d(4, 3, 4, padding="same"),
            e=nn.Conv2d(4, 3, 1),
        ),
        (r(1, 4, 7, 8),),
    ),
    "conv3d": (
        Function(
            lambda m, x: (m.a(x), m.b(x)),
            a=nn.Conv3d(2, 4, 3, padding=1),
            b=nn.ConvTranspose3d(2, 3, 2, stride=2),
        ),
        (r(1, 2, 4, 5, 6),),
    ),
    "conv_transpose2d": (
        Function(
            lambda m, x: (m.a(x), m.b(x), m.c(x)),
            a=nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
            b=nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2),
            c=nn.ConvTranspose2d(4, 2, 3, dilation=2, bias=False),
        ),
        (r(1, 4, 5, 6),),
    ),
    "conv_with_computed_weight": (lambda x, w: F.conv2d(x, w * 2, padding=1), (r(1, 3, 6, 6), r(4, 3, 3, 3))),
    "pools": (
        lambda x: (
            F.max_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 2, ceil_mode=True),
            F.max_pool2d(x, 2, 1, dilation=2),
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, 2, ceil_mode=True),
            F.avg_pool2d(x, 2, divisor_override=3),
        ),
        (r(1, 2, 7, 9),),
    ),
    "pools_of_other_ranks": (
        lambda x, y: (F.max_pool1d(x, 2), F.avg_pool1d(x, 3, 2, 1), F.max_pool3d(y, 2), F.avg_pool3d(y, 2, padding=1)),
        (r(2, 3, 8), r(1, 2, 4, 4, 6)),
    ),
    "adaptive_pools": (
        lambda x, y: (
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (3, 4)),
            F.adaptive_avg_pool2d(x, (2, None)),
            F.adaptive_max_pool2d(x, (2, 3)),
            F.adaptive_avg_pool1d(y, 3),
        ),
        (r(1, 2, 6, 9), r(1, 2, 7)),
    ),
    "resizes": (
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, (7, 5), mode="nearest"),
            F.interpolate(x, (7, 5), mode="nearest-exact"),
            F.interpolate(x, (7, 9), mode="bilinear"),
            F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=0.6, mode="bilinear"),
            F.interpolate(x, (9, 10), mode="bicubic"),
            F.interpolate(x, (3, 3), mode="bilinear", antialias=True),
        ),
        (r(1, 2, 5, 6),),
    ),
    "resizes_of_other_ranks": (
        lambda x, y: (
            F.interpolate(x, 11, mode="linear"),
            F.interpolate(x, scale_factor=2),
            F.interpolate(y, scale_factor=2, mode="trilinear"),
        ),
        (r(1, 2, 5), r(1, 2, 3, 3, 4)),
    ),
    "grid_sample": (
        lambda x, g, t: (
            F.grid_sample(x, g, align_corners=False),
            F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
            F.grid_sample(x, F.affine_grid(t, [1, 2, 4, 5], align_corners=False), align_corners=False),
        ),
        (r(1, 2, 5, 6), u(1, 3, 4, 2), u(1, 2, 3)),
    ),
    "folds": (
        lambda x, y: (
            F.unfold(x, 3, padding=1, stride=2),
            F.unfold(x, (2, 3), dilation=(2, 1)),
            F.fold(y, (5, 6), 2, stride=1, padding=1),
        ),
        (r(1, 2, 6, 7), r(1, 8, 42)),
    ),
    "attention": (
        lambda q, k, v, m, f: (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(q, k, v, m),
            F.scaled_dot_product_attention(q, k, v, f, scale=0.2),
        ),
        (r(2, 4, 5, 8), r(2, 4, 6, 8), r(2, 4, 6, 3), b(2, 1, 5, 6), r(5, 6)),
    ),
    "attention_dead_rows": (
        lambda q, k, v, m: (
            F.scaled_dot_product_attention(q, k, v, m),
            F.scaled_dot_product_attention(q, k, v, torch.zeros(3, 4).masked_fill(~m, float("-inf"))),
        ),
        (r(1, 2, 3, 8), r(1, 2, 4, 8), r(1, 2, 4, 8), torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]]) > 0),
    ),
    "attention_grouped": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        (r(1, 6, 5, 8), r(1, 2, 5, 8), r(1, 2, 5, 8)),
    ),
    "multihead": (
        Function(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(8, 2, batch_first=True)),
        (r(2, 5, 8),),
    ),
    "transformer_layer": (
        Function(lambda m, x: m.a(x), a=nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
        (r(2, 5, 8),),
    ),
    "lstm": (Function(lambda m, x: m.a(x), a=cell(nn.LSTM, num_layers=2, bidirectional=True)), (r(4, 2, 5),)),
    "lstm_batch_first": (Function(lambda m, x: m.a(x), a=cell(nn.LSTM, batch_first=True, bias=False)), (r(2, 4, 5),)),
    "gru": (Function(lambda m, x: m.a(x), a=cell(nn.GRU, bidirectional=True, batch_first=True)), (r(2, 4, 5),)),
    "rnn": (
        Function(lambda m, x: (m.a(x), m.b(x)), a=cell(nn.RNN), b=cell(nn.RNN, nonlinearity="relu", num_layers=2)),
        (r(4, 2, 5),),
    ),
    "creation": (
        lambda x: (
            x + torch.arange(4),
            x * torch.full((3, 1), 2.0),
            x + torch.zeros_like(x) + torch.ones(4),
            x @ torch.eye(4),
            x * torch.linspace(0, 1, 4),
            x + x.new_ones(4) + x.new_full((3, 1), 0.5),
            torch.arange(0, 3, 0.5) + x[0, 0],
            torch.tril(torch.ones(4, 4)) + x[0],
        ),
        (r(3, 4),),
    ),
    "casts": (
        lambda x, i, m: (
            x.to(torch.int64),
            i.float(),
            m.float(),
            x.bool(),
            x.to(torch.int32),
            i.to(torch.uint8),
            i.type_as(x),
        ),
        (r(3, 4) * 3, n(3, 4), b(3, 4)),
    ),
    "half": (Function(lambda m, x: m.a(x) * 2, a=nn.Linear(4, 3).half()), (r(2, 4).half(),)),
    "brain_weights": (
        Function(lambda m, x: F.linear(x, m.a.weight.float()), a=nn.Linear(4, 3).bfloat16()),
        (r(2, 4),),
    ),
    "in_place": (lambda x: (x * 1).add_(1).mul_(2).relu_().clamp_(max=3.0).sub_(0.5), (r(3, 4),)),
    "in_place_view": (in_place_view, (r(3, 3, 4),)),
    "in_place_reshape": (in_place_reshape, (r(3, 4),)),
    "state_machine": (state_machine, (r(4, 4),)),
    "without_gradient": (without_gradient, (r(3, 4),)),
    "outputs_twice": (lambda x: (x, x + 1, x * 1, x), (r(3),)),
    "scalars": (
        lambda x, y: (x + y, x * 2, x.exp(), torch.stack([x, y]), x.reshape(1)),
        (torch.tensor(0.5), torch.tensor(2.0)),
    ),
}


def module_of(name: str) -> nn.Module:
    """The case's module in inference mode, with weights from a fixed seed."""
    function = CASES[name][0]
    module = function if isinstance(function, nn.Module) else Function(function)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            nn.init.uniform_(layer.running_var, 0.5, 2.0)
    return module.eval()
