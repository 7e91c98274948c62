"""SPECs that name nothing here, with what may be meant."""

import os
import re

from pefourier.encodings.conventions import specs_of_convention
from pefourier.encodings.refused import refuse_known
from pefourier.encodings.registry import unknown_encoding
from pefourier.errors import PefourierError, shown
from pefourier.files import data_names, missing

HUB = (  # a model there: owner/name, or its address
    r"(?:https?://(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://)?"
    r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:/(?:resolve|blob|tree|raw)/.*|/)?"
)


def unknown_spec(spec: str, name: str, path: str) -> PefourierError:
    """The error for a SPEC that names nothing, with what may be meant."""
    has_suffix, folder = os.path.splitext(path)[1], os.path.dirname(path)
    if spec.startswith("./") and not has_suffix and not os.path.lexists(path):
        return missing(path)
    refuse_known(name)
    if presets := specs_of_convention(name.lower()):
        return PefourierError(
            f"unknown encoding {shown(name)}. Did you mean {' or '.join(presets)} "
            "(with --grid HxW)?"
        )
    if re.fullmatch(HUB, spec) and "/" in spec:
        return not_here(spec)
    if os.path.exists(name):
        return PefourierError(
            f"{shown(name)} is a file, which takes no parameters behind a colon; give options"
        )
    from pefourier.encodings.sources.formats import READERS

    formats = ", ".join(sorted(READERS))
    way_out = f"'pefourier list' shows all; a file of codes ends in one of {formats}."
    is_listed = has_suffix and os.path.isdir(folder or ".")
    files = [os.path.join(folder, file) for file in data_names(folder, "")] if is_listed else []
    return unknown_encoding(name, way_out, files)


def not_here(spec: str) -> PefourierError:
    """The error for an address, or for a model of Hugging Face by its name, owner/name.

    >>> "hf download gpt2 config.json" in str(not_here("https://hf.co/gpt2/resolve/main/config.json"))
    True
    """
    hub = re.fullmatch(HUB, spec)
    command = f"hf download {hub[1]} config.json" if hub else f"curl -LO {spec}"
    return PefourierError(
        f"{shown(spec)} is not on this machine, and nothing is downloaded; run {shown(command)} "
        "and give the file that comes"
    )
