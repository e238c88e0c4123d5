"""Products, windows, norms, resampling: forms that ONNX's own tests leave out.

The judge of numbers is onnxruntime. The operators of com.microsoft have no other one.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_import_test import Arrays, compare, htpipe, load, make, node, real


def case(name: str, opset: int, operation: Any, inputs: Arrays, **constants: Any) -> Any:
    return pytest.param(opset, operation, inputs, constants, id=name)


MS = {"domain": "com.microsoft"}
LINE = real(2, 4, 11)
IMAGE = real(2, 4, 9, 8)
SPACE = real(1, 2, 5, 6, 4)
F32 = np.float32


def positive(*shape: int) -> Any:
    return np.abs(real(*shape)) + F32(0.5)


PRODUCTS = [
    case("matmul_constant", 13, node("MatMul", "x w"), {"x": real(2, 3, 5)}, w=real(5, 7)),
    case("matmul_vector_constant", 13, node("MatMul", "x w"), {"x": real(5)}, w=real(5, 7)),
    case("matmul_constant_vector", 13, node("MatMul", "x w"), {"x": real(2, 3, 5)}, w=real(5)),
    case("matmul_dot", 13, node("MatMul", "x w"), {"x": real(5)}, w=real(5)),
    case("matmul_constant_left", 13, node("MatMul", "w x"), {"x": real(2, 5, 3)}, w=real(4, 5)),
    case("matmul_batches", 13, node("MatMul", "x y", "z"), {"x": real(2, 1, 3, 5), "y": real(4, 5, 2)}),
    case(
        "gemm_all", 13, node("Gemm", "x w b", alpha=0.5, beta=2.0, transA=1), {"x": real(5, 3)}, w=real(5, 4), b=real(4)
    ),
    case("gemm_row", 13, node("Gemm", "x w b", transB=1), {"x": real(3, 5)}, w=real(4, 5), b=real(1, 4)),
    case("gemm_scalar", 13, node("Gemm", "x w b", beta=0.5), {"x": real(3, 5)}, w=real(5, 4), b=real(1)),
    case("gemm_column", 13, node("Gemm", "x w b"), {"x": real(3, 5)}, w=real(5, 4), b=real(3, 1)),
    case("gemm_computed", 13, node("Gemm", "x y z", "o", alpha=2.0), {"x": real(3, 5), "y": real(5, 4), "z": real(4)}),
    case("gemm_beta_0", 13, node("Gemm", "x w b", beta=0.0), {"x": real(3, 5)}, w=real(5, 4), b=real(4)),
    case(
        "einsum_matmul",
        13,
        node("Einsum", "x y", "z", equation="bij,bjk->bik"),
        {"x": real(2, 3, 4), "y": real(2, 4, 5)},
    ),
    case("einsum_implicit", 13, node("Einsum", "x y", "z", equation="ij,jk"), {"x": real(3, 4), "y": real(4, 5)}),
    case("einsum_outer", 13, node("Einsum", "x y", "z", equation="i,j->ji"), {"x": real(3), "y": real(4)}),
    case(
        "einsum_heads",
        13,
        node("Einsum", "x y", "z", equation="bqhd,bkhd->bhqk"),
        {"x": real(2, 3, 4, 5), "y": real(2, 6, 4, 5)},
    ),
    case(
        "einsum_ellipsis",
        13,
        node("Einsum", "x y", "z", equation="...ij,...jk->...ik"),
        {"x": real(2, 3, 4), "y": real(2, 4, 5)},
    ),
    case(
        "einsum_three",
        13,
        node("Einsum", "x y z", "o", equation="ij,jk,kl->il"),
        {"x": real(2, 3), "y": real(3, 4), "z": real(4, 5)},
    ),
    case("einsum_trace", 13, node("Einsum", "x", "z", equation="ii->"), {"x": real(4, 4)}),
    case("einsum_spaces", 13, node("Einsum", "x y", "z", equation=" i j , j -> i "), {"x": real(3, 4), "y": real(4)}),
    case(
        "fused_matmul",
        13,
        node("FusedMatMul", "x y", "z", alpha=0.25, transB=1, **MS),
        {"x": real(2, 3, 4), "y": real(2, 5, 4)},
    ),
    case(
        "fused_gemm",
        13,
        node("FusedGemm", "x w b", activation="LeakyRelu", activation_alpha=0.2, **MS),
        {"x": real(3, 5)},
        w=real(5, 4),
        b=real(4),
    ),
]

AUTO = ["SAME_UPPER", "SAME_LOWER", "VALID"]
WINDOWS = [
    *(
        case(
            f"conv_{pad}",
            13,
            node("Conv", "x w b", auto_pad=pad, strides=[2, 3]),
            {"x": IMAGE},
            w=real(6, 4, 3, 4),
            b=real(6),
        )
        for pad in AUTO
    ),
    case(
        "conv_groups",
        13,
        node("Conv", "x w b", group=2, pads=[0, 1, 2, 0]),
        {"x": IMAGE},
        w=real(6, 2, 3, 3),
        b=real(6),
    ),
    case("conv_depthwise", 13, node("Conv", "x w", group=4), {"x": IMAGE}, w=real(8, 1, 3, 3)),
    case("conv_1d", 13, node("Conv", "x w b", strides=[2], pads=[1, 2]), {"x": LINE}, w=real(3, 4, 3), b=real(3)),
    case("conv_3d", 13, node("Conv", "x w", auto_pad="SAME_LOWER"), {"x": SPACE}, w=real(3, 2, 2, 3, 2)),
    case("conv_computed", 13, node("Conv", "x w", "y"), {"x": IMAGE, "w": real(3, 4, 3, 3)}),
    *(
        case(
            f"deconv_{pad}",
            13,
            node("ConvTranspose", "x w", auto_pad=pad, strides=[2, 3]),
            {"x": IMAGE},
            w=real(4, 3, 3, 4),
        )
        for pad in AUTO
    ),
    case(
        "deconv_shape",
        13,
        node("ConvTranspose", "x w b", output_shape=[18, 17], strides=[2, 2]),
        {"x": IMAGE},
        w=real(4, 3, 3, 3),
        b=real(3),
    ),
    case(
        "deconv_output_padding",
        13,
        node("ConvTranspose", "x w", output_padding=[1, 0], strides=[2, 2], pads=[1, 0, 1, 1]),
        {"x": IMAGE},
        w=real(4, 3, 3, 3),
    ),
    case(
        "deconv_groups_dilated",
        13,
        node("ConvTranspose", "x w", group=2, dilations=[2, 1]),
        {"x": IMAGE},
        w=real(4, 3, 2, 3),
    ),
    case("deconv_1d", 13, node("ConvTranspose", "x w", strides=[3]), {"x": LINE}, w=real(4, 2, 4)),
    *(
        case(f"max_{pad}", 13, node("MaxPool", "x", auto_pad=pad, kernel_shape=[3, 2], strides=[2, 2]), {"x": IMAGE})
        for pad in AUTO
    ),
    *(
        case(
            f"average_{pad}",
            13,
            node("AveragePool", "x", auto_pad=pad, kernel_shape=[3, 2], strides=[2, 2]),
            {"x": IMAGE},
        )
        for pad in AUTO
    ),
    case(
        "max_ceil",
        13,
        node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, dilations=[1, 2]),
        {"x": IMAGE},
    ),
    case("max_1d", 13, node("MaxPool", "x", kernel_shape=[3], strides=[2], pads=[1, 1]), {"x": LINE}),
    case(
        "max_indices",
        13,
        node("MaxPool", "x", "y i", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0]),
        {"x": IMAGE},
    ),
    case("max_indices_3d", 13, node("MaxPool", "x", "y i", kernel_shape=[2, 2, 2]), {"x": SPACE}),
    case("average_ceil", 19, node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), {"x": IMAGE}),
    case(
        "average_counts",
        13,
        node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        {"x": IMAGE},
    ),
    case("average_3d", 13, node("AveragePool", "x", kernel_shape=[2, 3, 2], pads=[0, 1, 0, 1, 1, 1]), {"x": SPACE}),
    case("lp_1", 13, node("LpPool", "x", kernel_shape=[2, 2], p=1), {"x": IMAGE}),
    case("lp_3", 13, node("LpPool", "x", kernel_shape=[3, 2], p=3, pads=[1, 0, 1, 0]), {"x": IMAGE}),
    case("global_lp", 13, node("GlobalLpPool", "x", p=2), {"x": IMAGE}),
    case("global_1d", 13, node("GlobalAveragePool", "x"), {"x": LINE}),
    case("global_max_3d", 13, node("GlobalMaxPool", "x"), {"x": SPACE}),
    case(
        "fused_conv",
        13,
        node("FusedConv", "x w b", activation="Relu", pads=[1, 1, 1, 1], **MS),
        {"x": IMAGE},
        w=real(3, 4, 3, 3),
        b=real(3),
    ),
    case(
        "fused_conv_sum",
        13,
        node("FusedConv", "x w b z", activation="Relu", pads=[1, 1, 1, 1], **MS),
        {"x": IMAGE, "z": real(2, 3, 9, 8)},
        w=real(3, 4, 3, 3),
        b=real(3),
    ),
]

MOMENTS = {"s": real(4), "b": real(4), "m": real(4), "v": positive(4)}
NORMS = [
    case("batchnorm_7", 7, node("BatchNormalization", "x s b m v"), {"x": IMAGE}, **MOMENTS),
    case("batchnorm_15", 15, node("BatchNormalization", "x s b m v", epsilon=1e-3), {"x": LINE}, **MOMENTS),
    case("batchnorm_rank_2", 15, node("BatchNormalization", "x s b m v"), {"x": real(3, 4)}, **MOMENTS),
    case(
        "batchnorm_computed",
        15,
        node("BatchNormalization", "x s b m v"),
        {"x": IMAGE, "v": MOMENTS["v"]},
        **{k: MOMENTS[k] for k in "sbm"},
    ),
    case("layer_scale_only", 17, node("LayerNormalization", "x s", axis=-2), {"x": LINE}, s=real(4, 11)),
    case("layer_broadcast", 17, node("LayerNormalization", "x s b", axis=1), {"x": LINE}, s=real(11), b=real(4, 1)),
    case(
        "layer_moments", 17, node("LayerNormalization", "x s b", "y m i", axis=2), {"x": LINE}, s=real(11), b=real(11)
    ),
    case("softmax_11", 11, node("Softmax", "x"), {"x": IMAGE}),
    case("softmax_11_axis", 11, node("Softmax", "x", axis=2), {"x": IMAGE}),
    case("log_softmax_11", 11, node("LogSoftmax", "x", axis=-1), {"x": IMAGE}),
    case("hardmax_11", 11, node("Hardmax", "x", axis=1), {"x": IMAGE}),
    case("lrn", 13, node("LRN", "x", size=5, alpha=0.3, beta=0.5, bias=2.0), {"x": IMAGE}),
    case("lp_normalization", 13, node("LpNormalization", "x", axis=1, p=1), {"x": IMAGE}),
    case("instance_1d", 13, node("InstanceNormalization", "x s b"), {"x": LINE}, s=real(4), b=real(4)),
    case("dropout_7", 7, node("Dropout", "x", ratio=0.3), {"x": LINE}),
    case("dropout_mask", 13, node("Dropout", "x", "y m"), {"x": LINE}),
    case(
        "simplified_layer",
        13,
        node("SimplifiedLayerNormalization", "x s", axis=-1, epsilon=1e-4),
        {"x": LINE},
        s=real(11),
    ),
    case(
        "skip_layer",
        13,
        node("SkipLayerNormalization", "x k g b i", "y _ _ s", epsilon=1e-5, **MS),
        {"x": real(2, 3, 8), "k": real(2, 3, 8)},
        g=real(8),
        b=real(8),
        i=real(8),
    ),
    case(
        "skip_rms",
        13,
        node("SkipSimplifiedLayerNormalization", "x k g", "y _ _ s", epsilon=1e-5, **MS),
        {"x": real(2, 3, 8), "k": real(2, 3, 8)},
        g=real(8),
    ),
    case("bias_gelu", 13, node("BiasGelu", "x b", **MS), {"x": LINE}, b=real(11)),
    case("gelu", 13, node("Gelu", "x", **MS), {"x": LINE}),
    case("fast_gelu", 13, node("FastGelu", "x b", **MS), {"x": LINE}, b=real(11)),
    case("quick_gelu", 13, node("QuickGelu", "x", alpha=1.5, **MS), {"x": LINE}),
]


def scales(*values: float) -> Any:
    return np.array(values, F32)


def resize(mode: str, **attributes: Any) -> Any:
    return node("Resize", "x _ s", mode=mode, **attributes)


RESAMPLED = [
    case("upsample_7", 7, node("Upsample", "x", mode="nearest", scales=[1.0, 1.0, 2.0, 3.0]), {"x": IMAGE}),
    case("upsample_9_linear", 9, node("Upsample", "x s", mode="linear"), {"x": IMAGE}, s=scales(1, 1, 2, 1.5)),
    case("resize_10", 10, node("Resize", "x s", mode="nearest"), {"x": IMAGE}, s=scales(1, 1, 2, 0.6)),
    case("resize_10_linear", 10, node("Resize", "x s", mode="linear"), {"x": IMAGE}, s=scales(1, 1, 1.7, 0.6)),
    case("resize_channel_last", 13, resize("linear"), {"x": real(1, 5, 6, 3)}, s=scales(1, 2, 2, 1)),
    case("resize_rank_2", 13, resize("linear"), {"x": real(5, 6)}, s=scales(2, 1.5)),
    case(
        "resize_cubic",
        13,
        resize("cubic", cubic_coeff_a=-0.5, exclude_outside=1),
        {"x": IMAGE},
        s=scales(1, 1, 1.5, 0.7),
    ),
    *(
        case(
            f"resize_{mode}_{where}",
            13,
            resize(mode, coordinate_transformation_mode=where),
            {"x": IMAGE},
            s=scales(1, 1, 2, 0.5),
        )
        for mode in ("nearest", "linear")
        for where in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    ),
    *(
        case(f"resize_nearest_{way}", 13, resize("nearest", nearest_mode=way), {"x": IMAGE}, s=scales(1, 1, 1.4, 0.7))
        for way in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    case("resize_sizes", 13, node("Resize", "x _ _ s", mode="linear"), {"x": IMAGE}, s=np.array([2, 4, 5, 17])),
    case("resize_antialias", 18, resize("linear", antialias=1), {"x": IMAGE}, s=scales(1, 1, 0.5, 0.4)),
    case(
        "resize_aspect",
        18,
        node("Resize", "x _ _ s", mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
        {"x": IMAGE},
        s=np.array([20, 12]),
    ),
    case(
        "grid_nearest_border",
        16,
        node("GridSample", "x g", mode="nearest", padding_mode="border"),
        {"x": IMAGE, "g": real(2, 3, 5, 2)},
    ),
    case(
        "grid_reflection",
        16,
        node("GridSample", "x g", padding_mode="reflection", align_corners=1),
        {"x": IMAGE, "g": 2 * real(2, 3, 5, 2)},
    ),
]

ALL = [*PRODUCTS, *WINDOWS, *NORMS, *RESAMPLED]


def check_form(opset: int, operation: Any, inputs: Arrays, constants: Arrays, folder: Path) -> None:
    outputs = [name for name in operation.output if name]
    compare(make([operation], inputs, constants, outputs, opset), inputs, folder)


@pytest.mark.parametrize(("opset", "operation", "inputs", "constants"), ALL)
def test_form(opset: int, operation: Any, inputs: Arrays, constants: Arrays, tmp_path: Path) -> None:
    check_form(opset, operation, inputs, constants, tmp_path)


REFUSED = [
    case("dropout_that_drops", 13, node("Dropout", "x r t"), {"x": LINE}, r=F32(0.5), t=np.array(True)),
    case(
        "crop_cubic",
        13,
        node("Resize", "x o s", mode="cubic", coordinate_transformation_mode="tf_crop_and_resize"),
        {"x": IMAGE},
        o=scales(0, 0, 0, 0, 1, 1, 1, 1),
        s=scales(1, 1, 2, 2),
    ),
    case(
        "fused_matmul_batches",
        13,
        node("FusedMatMul", "x y", "z", transBatchA=1, **MS),
        {"x": real(2, 3, 4), "y": real(2, 4, 5)},
    ),
    case("einsum_of_what", 13, node("Einsum", "x", "z", equation="ijk->i"), {"x": real(3, 4)}),
    case("conv_without_axes", 13, node("Conv", "x w"), {"x": real(3, 4)}, w=real(2, 4)),
    case("group_norm", 21, node("GroupNormalization", "x s b", num_groups=3), {"x": IMAGE}, s=real(4), b=real(4)),
]


def check_refusal(opset: int, operation: Any, inputs: Arrays, constants: Arrays, folder: Path) -> None:
    with pytest.raises(htpipe.Error) as caught:
        load(make([operation], inputs, constants, [operation.output[0]], opset), folder)
    assert caught.value.code in ("unsupported-form", "onnx-invalid", "shape-mismatch")
    assert caught.value.place.node


@pytest.mark.parametrize(("opset", "operation", "inputs", "constants"), REFUSED)
def test_refused_at_the_node(opset: int, operation: Any, inputs: Arrays, constants: Arrays, tmp_path: Path) -> None:
    check_refusal(opset, operation, inputs, constants, tmp_path)
