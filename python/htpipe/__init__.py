"""htpipe: PyTorch and ONNX models on Qualcomm's HTP.

    htpipe.check(module, target="SM8650", inputs=image)  # is it right, and can the chip do it?
    htpipe.export(module, image, "resnet.pt2")
    (logits,) = htpipe.load("resnet.pt2").run(image)

docs/python.md shows more.
"""

from htpipe._check import CheckReport, Difference, check, run
from htpipe._core import version as __version__
from htpipe._error import Error, Place
from htpipe._export import Exported, export
from htpipe._findings import Finding
from htpipe._model import Model, TensorInfo, load, parse

__all__ = [
    "CheckReport",
    "Difference",
    "Error",
    "Exported",
    "Finding",
    "Model",
    "Place",
    "TensorInfo",
    "__version__",
    "check",
    "export",
    "load",
    "parse",
    "run",
]
