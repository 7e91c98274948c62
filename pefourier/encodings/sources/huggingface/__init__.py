"""Read the positions of a model from Hugging Face's config.json, as data.

`model` opens a config (`config`) and tries one reader after another: rotations (`rope`, with
scaling and mistakes in `scaling`), grids, biases, sinusoids, and tables in the weights of the
config's folder (`weights`). `layers` determines which layers have positions. Other packages import
only from here.
"""

from pefourier.encodings.sources.huggingface.config import PAIRED as PAIRED
from pefourier.encodings.sources.huggingface.config import ModelConfig as ModelConfig
from pefourier.encodings.sources.huggingface.config import model_types as model_types
from pefourier.encodings.sources.huggingface.config import type_row as type_row
from pefourier.encodings.sources.huggingface.config import version as version
from pefourier.encodings.sources.huggingface.layers import LayerRun as LayerRun
from pefourier.encodings.sources.huggingface.layers import lint_layers as lint_layers
from pefourier.encodings.sources.huggingface.layers import read_temperature as read_temperature
from pefourier.encodings.sources.huggingface.model import ModelFile as ModelFile
from pefourier.encodings.sources.huggingface.model import open_config as open_config
from pefourier.encodings.sources.huggingface.rope import INDEXER as INDEXER
from pefourier.encodings.sources.huggingface.scaling import family_lost as family_lost
from pefourier.encodings.sources.huggingface.scaling import lost_family as lost_family
from pefourier.encodings.sources.huggingface.scaling import original_of_linear as original_of_linear
from pefourier.encodings.sources.huggingface.scaling import trained_as_stated as trained_as_stated
from pefourier.encodings.sources.huggingface.weights import all_tensors as all_tensors
from pefourier.encodings.sources.huggingface.weights import first_row as first_row
