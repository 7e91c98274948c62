"""Hugging Face's config.json, read as data: which positions does the model have?

The way through the folder: `model` opens a config (`config`) and asks one reader after another for
its positions: rotations (`rope`, whose scaling and mistakes are in `scaling`), grids, biases,
sinusoids, and tables in the weights beside it (`weights`). `layers` says which layers have them.
Other folders import from here alone.
"""

from pefourier.encodings.sources.huggingface.config import (
    PAIRED,
    ModelConfig,
    model_types,
    type_row,
    version,
)
from pefourier.encodings.sources.huggingface.layers import (
    LayerRun,
    Temperature,
    lint_layers,
    read_temperature,
)
from pefourier.encodings.sources.huggingface.model import ModelFile, open_config
from pefourier.encodings.sources.huggingface.rope import INDEXER
from pefourier.encodings.sources.huggingface.scaling import (
    family_lost,
    lost_family,
    original_of_linear,
    trained_as_stated,
)
from pefourier.encodings.sources.huggingface.weights import all_tensors, first_row

__all__ = [
    "INDEXER",
    "PAIRED",
    "LayerRun",
    "ModelConfig",
    "ModelFile",
    "Temperature",
    "all_tensors",
    "family_lost",
    "first_row",
    "lint_layers",
    "lost_family",
    "model_types",
    "open_config",
    "original_of_linear",
    "read_temperature",
    "trained_as_stated",
    "type_row",
    "version",
]
