"""Read the positions of a model from Hugging Face's config.json, as data.

`model` opens a config and calls the reader that the row of its model type names: of rotations and
mistakes in their settings, grids, biases, sinusoids, or tables in the weights of the config's
folder. `config` describes the types of models, and determines which layers have positions. Other
packages import only from here.
"""

from pefourier.encodings.sources.huggingface.config import (
    FULL,
    PAIRED,
    SLIDING,
    LayerRun,
    ModelConfig,
    ModelRow,
    add_groups,
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
    first_row,
    lint_lost,
    open_config,
    read_rotation,
    trained_as_stated,
)

__all__ = (
    "FULL",
    "INDEXER",
    "PAIRED",
    "SLIDING",
    "LayerRun",
    "ModelConfig",
    "ModelFile",
    "ModelRow",
    "add_groups",
    "all_tensors",
    "first_row",
    "layer_schedule",
    "lint_layers",
    "lint_lost",
    "noted",
    "open_config",
    "read_rotation",
    "read_temperature",
    "trained_as_stated",
    "type_row",
    "version",
)
