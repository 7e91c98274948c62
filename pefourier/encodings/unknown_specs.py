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


def refuse_hash(path: str) -> None:
    """Refuse a path that is there and would be read as a part of another file; tables are not."""
    from pefourier.encodings.sources.tables import split_spec

    if split_spec(path) != (path, None):
        raise PefourierError(
            f"{shown(path)} has # in its name, behind which a SPEC names a part of a file; give it "
            "by a name without #, such as that of a link"
        )


def unknown_spec(spec: str, name: str, path: str) -> PefourierError:
    """The error for a SPEC that names nothing, with what may be meant."""
    if spec.startswith("./") and not os.path.splitext(path)[1] and not os.path.lexists(path):
        return missing(path)
    from pefourier.encodings.sources import user_code
    from pefourier.encodings.sources.formats import READERS

    if (typed := user_code.meant_spec(spec)) is not None:
        return PefourierError(
            f"unknown encoding {shown(name)}. Did you mean {typed}? py: imports and runs your code."
        )
    refuse_known(name)
    if presets := specs_of_convention(name.lower()):
        return PefourierError(
            f"unknown encoding {shown(name)}. Did you mean {' or '.join(presets)} "
            "(with --grid HxW)?"
        )
    if re.fullmatch(HUB, spec) and "/" in spec:
        return not_here(spec)
    if ":" in spec and os.path.exists(name):
        return PefourierError(
            f"{shown(name)} is a file, which takes no parameters behind a colon; give options such "
            "as --grid, --length and --d"
        )
    formats = ", ".join(sorted(READERS))
    way_out = f"'pefourier list' shows all; a file of codes ends in one of {formats}."
    folder = os.path.dirname(path)
    has_folder = os.path.splitext(path)[1] and os.path.isdir(folder or ".")
    files = [os.path.join(folder, file) for file in data_names(folder, "")] if has_folder else []
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
