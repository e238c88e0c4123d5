"""Real trained ONNX models against onnxruntime: as imported and after the passes.

Packages: requirements/models.txt. Inputs are what the models were made for: drawn text, synthesised sounds, files.
"""

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pass_oracle
import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))
htpipe = pytest.importorskip("htpipe", reason=f"no Python package in {BUILD / 'python'}")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TOLERANCE = 1e-4
Array = np.ndarray[Any, Any]


def file_of(package: str, file: str) -> Path:
    """A file of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / file


def session_of(path: Path) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # it warns of declared shapes that are wrong; so do we
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(ours: Array, theirs: Array) -> float:
    """The largest difference, relative to the range of the output where that is above 1."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    span = max(1.0, float(theirs.max() - theirs.min()))
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()) / span


class Pair:
    """A model here and in onnxruntime."""

    def __init__(
        self,
        path: Path,
        dims: Mapping[str, int] | None = None,
        fix: Mapping[str, Any] | None = None,
        tolerance: float = TOLERANCE,
        passes: bool = True,
    ) -> None:
        self.model = htpipe.load(path, dims=dims, fix=fix)
        self.graphs = {"imported": self.model, "optimised": self.model.optimise()}
        self.session = session_of(path)
        self.fix = {name: np.asarray(value) for name, value in (fix or {}).items()}
        self.tolerance = tolerance
        self.path = path
        self.dims = dims
        self.passes_checked = not passes

    def check_passes(self, inputs: Mapping[str, Array]) -> None:
        """Each pass, and each left out, on these inputs."""
        half = (
            any(info.dtype == "f16" for info in [*self.model.inputs, *self.model.outputs]) or "half" in self.path.name
        )
        arrays = [np.asarray(inputs[info.name]) for info in self.model.inputs]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            arguments = pass_oracle.import_arguments(self.dims, self.fix, folder)
            pass_oracle.check(self.model, self.path, arrays, folder, arguments, 1e-2 if half else TOLERANCE)

    def run(self, **inputs: Array) -> dict[str, Array]:
        """Checks our outputs; gives onnxruntime's."""
        names = [output.name for output in self.session.get_outputs()]
        wanted = dict(zip(names, self.session.run(names, {**inputs, **self.fix}), strict=True))
        assert [output.name for output in self.model.outputs] == names
        for graph_name, graph in self.graphs.items():
            outputs = graph.run(**inputs)
            for name in names:
                worst = difference(outputs[name], wanted[name])
                assert worst <= self.tolerance, f"{graph_name}, {name}: {worst}"
        if not self.passes_checked:
            self.check_passes(inputs)
            self.passes_checked = True
        return wanted


# --- inputs ---------------------------------------------------------------------------------------------------------

# Rows of five pixels, as bits.
GLYPHS = {
    "0": "0E 11 13 15 19 11 0E",
    "2": "0E 11 01 02 04 08 1F",
    "5": "1F 10 1E 01 01 11 0E",
    "7": "1F 01 02 04 08 08 08",
    "E": "1F 10 10 1E 10 10 1F",
    "H": "11 11 11 1F 11 11 11",
    "L": "10 10 10 10 10 10 1F",
    "N": "11 19 15 13 11 11 11",
    "P": "1E 11 11 1E 10 10 10",
    "T": "1F 04 04 04 04 04 04",
}


def drawn_text(text: str, height: int, width: int, cell: int) -> Array:
    """Black letters on a bright, slightly noisy ground, [height, width] from 0 to 1. `cell`: a pixel of a letter."""
    rows = np.zeros((7, 6 * len(text)), bool)
    for i, letter in enumerate(text):
        bits = [int(row, 16) for row in GLYPHS[letter].split()]
        rows[:, 6 * i : 6 * i + 5] = [[bool(row >> (4 - x) & 1) for x in range(5)] for row in bits]
    ink = np.kron(rows, np.ones((cell, cell), bool))
    image = 0.9 + 0.02 * np.random.default_rng(5).standard_normal((height, width))
    top, left = (height - ink.shape[0]) // 2, cell
    image[top : top + ink.shape[0], left : left + ink.shape[1]][ink] = 0.1
    # Soft edges, as a camera has them.
    for axis in (0, 1):
        image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    return image.astype(np.float32)


def as_picture(gray: Array) -> Array:
    """[1, 3, height, width] from -1 to 1."""
    return np.repeat((gray * 2 - 1)[None, None], 3, axis=1).astype(np.float32)


def vowel(seconds: float, rate: int, pitch: float = 140.0) -> Array:
    """Harmonics of a voice under two formants, swelling and fading."""
    time = np.arange(int(seconds * rate)) / rate
    sound = np.zeros_like(time)
    for harmonic in range(1, 25):
        frequency = pitch * harmonic
        gain = np.exp(-(((frequency - 700) / 300) ** 2)) + 0.6 * np.exp(-(((frequency - 1200) / 400) ** 2)) + 0.02
        sound += gain * np.sin(2 * np.pi * frequency * time * (1 + 0.01 * np.sin(2 * np.pi * 5 * time)))
    envelope = np.minimum(1, 4 * np.minimum(time, seconds - time) / seconds)
    return (0.3 * sound / np.abs(sound).max() * envelope).astype(np.float32)


def noise(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


# --- reading text (PaddleOCR) ---------------------------------------------------------------------------------------

PADDLE = "rapidocr_onnxruntime"


def test_paddle_detects_text() -> None:
    dims = {"x.0": 1, "x.2": 96, "x.3": 224}
    pair = Pair(file_of(PADDLE, "models/ch_PP-OCRv4_det_infer.onnx"), dims)
    (heat,) = pair.run(x=as_picture(drawn_text("HTP7052", 96, 224, 4))).values()
    assert heat[0, 0, 40:56, 20:150].mean() > 0.5 > heat[0, 0, :20].mean()
    pair.run(x=noise(1, 3, 96, 224))


def test_paddle_reads_text() -> None:
    path = file_of(PADDLE, "models/ch_PP-OCRv4_rec_infer.onnx")
    pair = Pair(path, {"x.0": 1, "x.2": 48, "x.3": 256})
    (scores,) = pair.run(x=as_picture(drawn_text("HTP7052", 48, 256, 5))).values()
    letters = ["", *pair.session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
    best = scores[0].argmax(1)
    text = "".join(letters[i] for i, before in zip(best, [0, *best[:-1]], strict=True) if i != before)
    assert text.replace("O", "0") == "HTP7052"
    pair.run(x=noise(1, 3, 48, 256))


def test_paddle_tells_which_way_up() -> None:
    pair = Pair(file_of(PADDLE, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"), {"x.0": 2, "x.2": 48, "x.3": 192})
    upright = as_picture(drawn_text("HTP75", 48, 192, 5))
    (scores,) = pair.run(x=np.concatenate([upright, upright[:, :, ::-1, ::-1]])).values()
    assert scores.argmax(1).tolist() == [0, 1]


# --- hearing speech (Silero) ----------------------------------------------------------------------------------------

RATE = 16000
CONTEXT, CHUNK = 64, 512


def chunks(sound: Array) -> Array:
    """Each with the end of the one before it."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), sound])
    count = len(sound) // CHUNK
    return np.stack([padded[i * CHUNK : i * CHUNK + CONTEXT + CHUNK] for i in range(count)])


@pytest.mark.parametrize(
    ("name", "has_rate"),
    [
        ("silero_vad", True),
        ("silero_vad_16k_op15", True),
        ("silero_vad_op18_ifless", True),
        ("silero_vad_half", False),
        ("silero_vad_openvino_16k", False),
    ],
)
def test_silero_hears_chunk_after_chunk(name: str, has_rate: bool) -> None:
    dims = {"input.0": 1, "input.1": CONTEXT + CHUNK, "state.1": 1}
    fix = {"sr": np.array(RATE, np.int64)} if has_rate else {}
    pair = Pair(file_of("silero_vad", f"data/{name}.onnx"), dims, fix)
    sound = np.concatenate([0.001 * noise(4 * CHUNK), vowel(0.5, RATE)])
    state = np.zeros((2, 1, 128), np.float32)
    for chunk in chunks(sound)[:10]:
        wanted = pair.run(input=chunk[None], state=state)
        assert wanted["output"].shape == (1, 1)
        state = wanted["stateN"]
    assert float(np.abs(state).max()) > 0.1  # it has been carried on


def test_silero_hears_a_sequence() -> None:
    sound = chunks(np.concatenate([0.001 * noise(4 * CHUNK), vowel(0.5, RATE)]))[:12]
    pair = Pair(file_of("silero_vad", "data/silero_vad_16k_sequence.onnx"), {"sequence_length": len(sound)})
    state = np.zeros((1, 1, 128), np.float32)
    first = pair.run(input=sound, h=state, c=state)
    pair.run(input=sound, h=first["hn"], c=first["cn"])


# --- telling files apart (Magika) -----------------------------------------------------------------------------------


def test_magika_knows_its_files() -> None:
    folder = file_of("magika", "models/standard_v3_3")
    config = json.loads((folder / "config.min.json").read_text())
    size, padding = config["beg_size"], config["padding_token"]
    assert (size, config["mid_size"], config["end_size"]) == (1024, 0, 1024)
    files = [Path(__file__), ROOT / "README.md", folder / "config.min.json"]
    rows = []
    for file in files:
        content = np.frombuffer(file.read_bytes().strip(), np.uint8).astype(np.int32)
        row = np.full(2 * size, padding, np.int32)
        head, tail = content[:size], content[-size:]
        row[: len(head)] = head
        row[2 * size - len(tail) :] = tail
        rows.append(row)
    pair = Pair(folder / "model.onnx", {"bytes.0": len(rows)})
    (scores,) = pair.run(bytes=np.stack(rows)).values()
    labels = [config["target_labels_space"][i] for i in scores.argmax(1)]
    assert labels == ["python", "markdown", "json"]


# --- hearing notes (Basic Pitch) ------------------------------------------------------------------------------------


def test_basic_pitch_hears_the_notes() -> None:
    path = file_of("basic_pitch", "saved_models/icassp_2022/nmp.onnx")
    rate, count = 22050, 43844
    time = np.arange(count) / rate
    sound = np.zeros(count)
    keys = [60, 64, 67]  # C, E, G; the lowest key of 88 is 21
    for key in keys:
        frequency = 440 * 2 ** ((key - 69) / 12)
        sound += sum(np.sin(2 * np.pi * frequency * k * time) / k**2 for k in range(1, 6))
    # With some noise, as recordings have it: the model takes logarithms, of rounding errors where there is silence.
    audio = (0.2 * sound * np.exp(-time) + 0.001 * noise(count)).astype(np.float32)[None, :, None]
    name = "serving_default_input_2:0"
    pair = Pair(path, {f"{name}.0": 1})
    wanted = pair.run(**{name: audio})
    notes = wanted["StatefulPartitionedCall:1"][0].mean(0)
    assert sorted(notes.argsort()[-3:] + 21) == keys


# --- captchas (ddddocr) ---------------------------------------------------------------------------------------------


def captcha() -> Array:
    return drawn_text("HTP75", 64, 160, 5)[None, None]


def test_ddddocr_reads_and_its_declared_shape_is_wrong() -> None:
    pair = Pair(file_of("ddddocr", "common.onnx"), {"image_width": 160})
    (scores,) = pair.run(input1=captcha()).values()
    assert scores.shape == (20, 1, 8210)
    assert pair.model.warnings == ["output 387: the file declares [1,seqlen], the operators give [20,1,8210]"]


def test_ddddocr_finds_text() -> None:
    pair = Pair(file_of("ddddocr", "common_det.onnx"))
    image = np.repeat(drawn_text("HTP75", 416, 416, 6)[None, None] * 255, 3, axis=1).astype(np.float32)
    pair.run(images=image)


def test_dynamic_quantisation_is_computed_and_told() -> None:
    """Its LSTM rounds activations to 8 bits in onnxruntime and not here."""
    pair = Pair(file_of("ddddocr", "common_old.onnx"), {"image_width": 160}, tolerance=0.02, passes=False)
    (scores,) = pair.run(input1=captcha()).values()
    (ours,) = pair.model.run(captcha())
    assert (ours.argmax(-1) == scores.argmax(-1)).all()
    assert any("DynamicQuantizeLSTM" in warning for warning in pair.model.warnings)
