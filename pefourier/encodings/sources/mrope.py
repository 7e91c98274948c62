"""Which rotations turn their pairs by frames, rows and columns, and by which of them each pair?

Configs say it by ``mrope_section``; whether the axes take turns is the model type's (rows of
`pefourier.encodings.sources.models` with ``sections``) or ``mrope_interleaved``.
"""

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sections import axes_of_sections
from pefourier.encodings.sources.gguf_file import axis_of_pairs, open_gguf
from pefourier.encodings.sources.layers import open_model
from pefourier.encodings.sources.rope_config import sections_of
from pefourier.files import suffix_of


def axis_in(spec: str, enc: Encoding) -> np.ndarray | None:
    """Which of the axes t, y, x turns each pair of a rotation that a SPEC names; None: text alone.

    That a config tells, or its model type has; of a .gguf file 3 stands for none of them.
    """
    if suffix_of(spec.partition("#")[0]) == ".gguf":
        return axis_of_pairs(open_gguf(spec.partition("#")[0]), len(enc.measure.frequencies))
    if "model_type" not in enc.params:  # which configs tell
        return None
    found = sections_of(open_model(spec))
    return found and axes_of_sections(*found, len(enc.measure.frequencies))
