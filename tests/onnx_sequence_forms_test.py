"""Recurrent layers and attention: forms that ONNX's own tests leave out.

The judge of numbers is onnxruntime. The operators of com.microsoft have no other one.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_forms_test import MS, case, check_form, check_refusal, positive
from onnx_import_test import Arrays, node, real

STEPS, BATCH, IN, HIDDEN = 5, 3, 4, 6
SEQUENCE = real(STEPS, BATCH, IN)


def weights(gates: int, directions: int) -> Arrays:
    return {
        "w": real(directions, gates * HIDDEN, IN),
        "r": real(directions, gates * HIDDEN, HIDDEN),
        "b": real(directions, 2 * gates * HIDDEN),
    }


def states(directions: int, *names: str) -> Arrays:
    return {name: real(directions, BATCH, HIDDEN) for name in names}


LENGTHS = np.array([5, 2, 4], np.int32)
RECURRENT = [
    case(
        "lstm_two_ways",
        14,
        node("LSTM", "x w r b n h c", "y s t", hidden_size=HIDDEN, direction="bidirectional"),
        {"x": SEQUENCE, **states(2, "h", "c")},
        n=LENGTHS,
        **weights(4, 2),
    ),
    case(
        "lstm_peepholes",
        14,
        node("LSTM", "x w r b _ _ _ p", "y s t", hidden_size=HIDDEN, direction="reverse", clip=0.7),
        {"x": SEQUENCE},
        p=real(1, 3 * HIDDEN),
        **weights(4, 1),
    ),
    case(
        "lstm_no_bias",
        7,
        node("LSTM", "x w r", "y", hidden_size=HIDDEN),
        {"x": SEQUENCE},
        **{k: v for k, v in weights(4, 1).items() if k != "b"},
    ),
    case(
        "gru_two_ways",
        14,
        node("GRU", "x w r b n h", "y s", hidden_size=HIDDEN, direction="bidirectional", linear_before_reset=1),
        {"x": SEQUENCE, **states(2, "h")},
        n=LENGTHS,
        **weights(3, 2),
    ),
    case("gru_clip", 14, node("GRU", "x w r b", "_ s", hidden_size=HIDDEN, clip=0.5), {"x": SEQUENCE}, **weights(3, 1)),
    case(
        "rnn_relu",
        14,
        node("RNN", "x w r b _ h", "y s", hidden_size=HIDDEN, activations=["Relu"]),
        {"x": 0.1 * SEQUENCE, **states(1, "h")},
        **weights(1, 1),
    ),
]

QKV = {"q": real(2, 3, 8), "k": real(2, 5, 8), "v": real(2, 5, 8)}
KEPT = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
PAST = {"pk": real(2, 2, 4, 4), "pv": real(2, 2, 4, 4)}
PAST_16 = {"pk": real(2, 2, 4, 16), "pv": real(2, 2, 4, 16)}
TURN_16 = {"cos": real(16, 8), "sin": real(16, 8)}
TURN = {"cos": real(16, 2), "sin": real(16, 2)}
NUMBERS = np.random.default_rng(3)
ATTENTION = [
    case(
        "ms_attention",
        13,
        node("Attention", "x w b m", num_heads=2, **MS),
        {"x": real(2, 5, 8)},
        w=real(8, 24),
        b=real(24),
        m=KEPT,
    ),
    case(
        "ms_attention_causal_past",
        13,
        node("Attention", "x w b _ p", "y n", num_heads=2, unidirectional=1, **MS),
        {"x": real(2, 5, 8), "p": real(2, 2, 2, 3, 4)},
        w=real(8, 24),
        b=real(24),
    ),
    case(
        "ms_attention_sizes",
        13,
        node("Attention", "x w b", num_heads=2, qkv_hidden_sizes=[8, 8, 12], **MS),
        {"x": real(2, 5, 8)},
        w=real(8, 28),
        b=real(28),
    ),
    case("mha", 13, node("MultiHeadAttention", "q k v", num_heads=2, **MS), QKV),
    case(
        "mha_bias_padding",
        13,
        node("MultiHeadAttention", "q k v b m a", num_heads=2, scale=0.3, **MS),
        {**QKV, "a": real(1, 2, 3, 5)},
        b=real(24),
        m=KEPT,
    ),
    case(
        "mha_past", 13, node("MultiHeadAttention", "q k v _ _ _ pk pv", "y nk nv", num_heads=2, **MS), {**QKV, **PAST}
    ),
    case(
        "gqa",
        13,
        node("GroupQueryAttention", "q k v _ _ n t", "y nk nv", num_heads=4, kv_num_heads=2, **MS),
        {"q": real(2, 5, 32), "k": real(2, 5, 16), "v": real(2, 5, 16)},
        n=np.array([4, 4], np.int32),
        t=np.array(5, np.int32),
    ),
    case(
        "gqa_turned",
        13,
        node(
            "GroupQueryAttention", "q k v pk pv n t cos sin", "y nk nv", num_heads=4, kv_num_heads=2, do_rotary=1, **MS
        ),
        {"q": real(2, 1, 64), "k": real(2, 1, 32), "v": real(2, 1, 32), **PAST_16},
        n=np.array([4, 4], np.int32),
        t=np.array(5, np.int32),
        **TURN_16,
    ),
    case(
        "gqa_local_softcap",
        13,
        node(
            "GroupQueryAttention",
            "q k v _ _ n t",
            "y nk nv",
            num_heads=4,
            kv_num_heads=2,
            local_window_size=2,
            softcap=1.5,
            **MS,
        ),
        {"q": real(1, 5, 32), "k": real(1, 5, 16), "v": real(1, 5, 16)},
        n=np.array([4], np.int32),
        t=np.array(5, np.int32),
    ),
    case(
        "ms_rotary",
        13,
        node("RotaryEmbedding", "x p cos sin", **MS),
        {"x": real(2, 3, 8)},
        p=np.array([[0, 1, 2], [5, 6, 7]]),
        **TURN,
    ),
    case(
        "ms_rotary_from",
        13,
        node("RotaryEmbedding", "x p cos sin", interleaved=1, **MS),
        {"x": real(2, 2, 3, 4)},
        p=np.array([4]),
        **TURN,
    ),
    case(
        "embed",
        13,
        node("EmbedLayerNormalization", "i t w p s g b m", "y n", **MS),
        {"i": NUMBERS.integers(0, 9, (2, 5), np.int32), "t": NUMBERS.integers(0, 2, (2, 5), np.int32)},
        w=real(9, 8),
        p=real(6, 8),
        s=real(2, 8),
        g=real(8),
        b=real(8),
        m=KEPT,
    ),
    *(
        case(
            f"block_weights_{bits}_bits",
            13,
            node("MatMulNBits", "x w s z" if zeros else "x w s", K=40, N=6, bits=bits, block_size=16, **MS),
            {"x": real(2, 3, 40)},
            w=NUMBERS.integers(0, 256, (6, 3, 2 * bits), np.uint8),
            s=positive(18),
            **(
                {"z": NUMBERS.integers(0, 256, 6 * (3 * bits + 7) // 8 if bits == 8 else 12, np.uint8)} if zeros else {}
            ),
        )
        for bits, zeros in ((4, False), (4, True), (8, False))
    ),
]

ALL = [*RECURRENT, *ATTENTION]


@pytest.mark.parametrize(("opset", "operation", "inputs", "constants"), ALL)
def test_form(opset: int, operation: Any, inputs: Arrays, constants: Arrays, tmp_path: Path) -> None:
    check_form(opset, operation, inputs, constants, tmp_path)


REFUSED = [
    case(
        "linear_attention_steps",
        27,
        node(
            "LinearAttention",
            "q k v _ g",
            q_num_heads=2,
            kv_num_heads=2,
            update_rule="gated",
        ),
        {**{name: real(1, 4, 8) for name in "qkv"}, "g": real(1, 3, 2)},
    ),
    case(
        "lstm_activation",
        14,
        node("LSTM", "x w r b", hidden_size=HIDDEN, activations=["Relu", "Tanh", "Tanh"]),
        {"x": SEQUENCE},
        **weights(4, 1),
    ),
    case(
        "gqa_padded",
        13,
        node("GroupQueryAttention", "q k v _ _ n t", num_heads=4, kv_num_heads=2, **MS),
        {"q": real(2, 5, 16), "k": real(2, 5, 8), "v": real(2, 5, 8)},
        n=np.array([4, 2], np.int32),
        t=np.array(5, np.int32),
    ),
]


@pytest.mark.parametrize(("opset", "operation", "inputs", "constants"), REFUSED)
def test_refused_at_the_node(opset: int, operation: Any, inputs: Arrays, constants: Arrays, tmp_path: Path) -> None:
    check_refusal(opset, operation, inputs, constants, tmp_path)
