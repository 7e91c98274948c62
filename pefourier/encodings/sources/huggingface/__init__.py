"""Read the positions of a model from Hugging Face's config.json, as data.

`model` opens a config and calls the reader that the row of its model type names: of rotations and
mistakes in their settings, grids, biases, sinusoids, or tables in the weights of the config's
folder. `config` describes the types of models, and determines which layers have positions. Other
packages import only from here.
"""

from pefourier.encodings.sources.huggingface.config import (
    PAIRED,
    USUAL_LENGTH,
    LayerRun,
    ModelConfig,
    ModelRow,
    layer_schedule,
    lint_layers,
    noted,
    read_temperature,
    type_row,
    version,
)
from pefourier.encodings.sources.huggingface.model import (
    INDEXER,
    ModelFile,
    all_tensors,
    family_lost,
    first_row,
    lost_family,
    open_config,
    original_of_linear,
    trained_as_stated,
)

__all__ = (
    "INDEXER",
    "PAIRED",
    "USUAL_LENGTH",
    "LayerRun",
    "ModelConfig",
    "ModelFile",
    "ModelRow",
    "all_tensors",
    "family_lost",
    "first_row",
    "layer_schedule",
    "lint_layers",
    "lost_family",
    "noted",
    "open_config",
    "original_of_linear",
    "read_temperature",
    "trained_as_stated",
    "type_row",
    "version",
)
