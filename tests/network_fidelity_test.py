"""Whole networks on Qualcomm's emulator, every value: a quick part of what ./dev fidelity compares.

The bounds are the project's: networks of convolutions, relu, additions and pooling give the emulator's very integers,
other networks a cosine of 0.9999 (CNNs) or 0.999 (transformers), and the same largest element. Transformers of 8 bits
are in docs/fidelity.md alone: with one range per tensor they are far from float, and one step of a softmax grows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fidelity.networks import CHIPS, Network, from_config, measure, network, photos
from fidelity.pictures import MissingError, picture

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin/network_fidelity"

SMALL_VIT = Network(
    "vit_tiny_64", "ViT-tiny/16, 64x64", "random weights",
    from_config("ViTForImageClassification", "ViTConfig", 64, settle=False, hidden_size=192, num_hidden_layers=4,
                num_attention_heads=3, intermediate_size=768, num_labels=100, image_size=64, initializer_range=0.06),
    photos("pixel_values", 64), "transformer",
)  # fmt: skip


def answer_of(one: Network, chip: str, precision: str, folder: Path, exposed_equal: bool = True) -> dict[str, Any]:
    """The comparison, or a skip where a package or Qualcomm's libraries are missing.

    `exposed_equal`: the emulator gives the same output when it has to show every value.
    """
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}")
    try:
        answer = measure(one, chip, precision, folder, PROGRAM)
    except MissingError as error:
        pytest.skip(str(error))
    if str(answer.get("error", "")).startswith("vendor-missing"):
        pytest.skip(answer["error"])
    assert "error" not in answer, answer
    assert answer["refused"] == []
    assert answer["no_rule"] == []
    assert answer["exposed_equal"] is True or not exposed_equal
    return answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.mark.parametrize("chip", CHIPS)
def test_plain_networks_give_the_same_integers(chip: str, folder: Path) -> None:
    for one in (replace(network("fashion_resnet"), evaluate=4), replace(network("mobilenet_v2"), evaluate=1)):
        answer = answer_of(one, chip, "int8", folder)
        for layer in answer["layers"]:
            assert layer["chained"]["equal"] == layer["chained"]["compared"], (one.name, layer)


@pytest.mark.parametrize("one", [replace(network("minilm"), evaluate=1), replace(SMALL_VIT, evaluate=1)],
                         ids=lambda one: one.name)  # fmt: skip
def test_transformers_are_close(one: Network, folder: Path) -> None:
    # In 16 bits the compiler computes the products of a Split's parts (query, key and value of one projection)
    # otherwise where nothing else sees them: the output moves by some steps when they are shown.
    answer = answer_of(one, "v73", "int16", folder, exposed_equal=False)
    for output in answer["outputs"]:
        assert output["cosine"] >= 0.999, output
        assert output["top1_same"] == output["top1"], output


def test_sixteen_bits_keep_the_class(folder: Path) -> None:
    (output,) = answer_of(replace(network("mobilenet_v2"), evaluate=1), "v68", "int16", folder)["outputs"]
    assert output["cosine"] >= 0.9999
    assert output["top1_same"] == output["top1"]


def test_photographs_are_pictures() -> None:
    try:
        image = picture(0, 32)
    except MissingError as error:
        pytest.skip(str(error))
    assert image.shape == (32, 32, 3)
    assert 0.2 < image.mean() < 0.8
    # Neighbours in a photograph are alike, also across the rows of the file.
    assert abs(image[1:] - image[:-1]).mean() < 0.5 * abs(image[::2] - image[1::2][::-1]).mean()
