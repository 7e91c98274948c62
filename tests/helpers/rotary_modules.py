"""Configurations and rotary modules of transformers, built and run.

Conventions ----------- A rotation is a pair of a float32 array of angular frequencies and an
attention factor; a module has one for each type of layer, or one under the empty name.
"""

import contextlib
import importlib
import inspect
import io
import logging
import os
import re
import warnings
from functools import cache

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
import torch
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING

TYPES = tuple(sorted(CONFIG_MAPPING_NAMES))
NAMED = ("Rotary", "RoPE", "Rope")
Rotations = dict[str, tuple[np.ndarray, float]]


@contextlib.contextmanager
def quiet():
    """Silence warnings and output of libraries."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def config_class(kind):
    """Return the configuration class of a model type."""
    return CONFIG_MAPPING[kind]


@cache
def modeling(module):
    """Return the modeling module of a configuration module, or None if it cannot be imported."""
    try:
        with quiet():
            return importlib.import_module(module.replace("configuration_", "modeling_"))
    except ImportError:
        return None


def models_of(cls):
    """Return the models of a configuration class, that of AutoModel first."""
    try:
        with quiet():
            first = MODEL_MAPPING.get(cls, ())
    except (ImportError, KeyError, ValueError):
        first = ()
    first = first if isinstance(first, tuple) else (first,)
    module = modeling(cls.__module__)
    found = [
        value
        for name, value in (vars(module).items() if module else ())
        if inspect.isclass(value)
        and issubclass(value, PreTrainedModel)
        and value.__module__ == module.__name__
        and getattr(value, "config_class", None) is cls
        and not name.endswith("PreTrainedModel")
    ]
    return [*first, *(model for model in found if model not in first)]


def on_meta(config):
    """Build a model of a configuration without its weights; None if no class can be built."""
    for model in models_of(type(config))[:6]:
        try:
            with quiet(), torch.device("meta"):
                return model(config)
        except Exception:  # hundreds of classes, which fail for different reasons
            continue
    return None


def rotary_classes(config):
    """Return the rotary modules of a configuration's model, or else those named for it."""
    model = on_meta(config)
    if model is None:
        return annotated(type(config))
    found = []
    for module in model.modules():
        own = getattr(module, "config", None)
        buffers = [name for name, _ in module.named_buffers(recurse=False)]
        if own is not model.config or isinstance(module, PreTrainedModel):
            continue
        if type(module) not in found and any("inv_freq" in name for name in buffers):
            found.append(type(module))
    return found or annotated(type(config))


def annotated(cls):
    """Return the rotary modules whose constructor requires this configuration class."""
    module = modeling(cls.__module__)
    found = []
    for name, value in vars(module).items() if module else ():
        if inspect.isclass(value) and any(word in name for word in NAMED):
            kind = inspect.signature(value.__init__).parameters.get("config")
            if kind is not None and cls.__name__ in re.findall(r"\w+", str(kind.annotation)):
                found.append(value)
    return found


def rotations(module, config):
    """Return frequencies and attention factor by type of layer, as a module computes them."""
    with quiet():
        made = module(config)
    found = {}
    for name, buffer in made.named_buffers(recurse=False):
        layer = name.removesuffix("inv_freq").removesuffix("_")
        if not name.endswith("inv_freq") or layer.endswith("original"):
            continue
        factor = getattr(made, f"{layer}_attention_scaling" if layer else "attention_scaling", 1.0)
        found[layer] = buffer.detach().numpy().copy(), float(factor)
    return found
