"""What to type so that an engine rotates with a scaling: JSON of a config, or options.

Sources: keys of transformers' ``modeling_rope_utils`` (``rope_scaling`` in version 4,
``rope_parameters`` in 5); https://docs.vllm.ai/en/stable/features/context_extension/ (0.12); the
options of ``llama-server --help`` and the ramp of YaRN in ``ggml.c`` (llama.cpp).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Literal

from pefourier.causes.misreadings import other_layers
from pefourier.causes.rope import Rope, spelled
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError, shown

Engine = Literal["transformers", "vllm", "llama.cpp"]
ORIGINAL = "original_max_position_embeddings"
BASES = "rope_theta", "rotary_emb_base", "global_rope_theta"  # keys of a base, in any config
KEPT = "partial_rotary_factor", "mrope_section", "mrope_interleaved"  # beside a new scaling
LLAMA_CPP = {  # options by setting of a scaling
    "factor": "--rope-scale",
    "original": "--yarn-orig-ctx",
    "beta_fast": "--yarn-beta-fast",
    "beta_slow": "--yarn-beta-slow",
}
IN_FILE = "llama3", "longrope", "factors"  # scalings that a .gguf file holds as factors


@dataclass(frozen=True)
class Settings:
    """What to type so that an engine rotates with a scaling."""

    engine: Engine
    version: str | None  # None if the options do not depend on it
    json: dict[str, Any] | None  # keys of the config to change
    flags: str | None

    @property
    def text(self) -> str | None:
        """The JSON in one line; None if it is part of the options."""
        return json.dumps(self.json) if self.json and not self.flags else None

    @property
    def name(self) -> str:
        """The engine and the first version with these settings."""
        return f"{self.engine} {self.version or ''}".strip()


def settings_for(source: Encoding, enc: Encoding, engine: Engine | None) -> Settings:
    """Return what to type so that an engine rotates a model as another rotation does.

    >>> plain, scaled = Rope(128, 1e6), Rope(128, 1e6).with_(scaling="linear", factor=4.0)
    >>> settings_for(plain.build(8), scaled.build(2**17), "llama.cpp").flags
    '-c 131072 --rope-freq-base 1000000 --rope-scaling linear --rope-scale 4'
    """
    rope, length = rope_of(enc), len(enc)
    is_gguf = source_of(source.spec) == "gguf"
    engine = engine or ("llama.cpp" if is_gguf else "transformers")
    config: Mapping[str, Any] = {}
    if source.file and not is_gguf:
        config = source.file.section.values
    is_whole = not (config and source.file.model.part) and source.params["scaling"] not in IN_FILE
    if engine == "llama.cpp" and is_whole and (options := options_of_llama_cpp(rope)):
        return Settings(engine, None, None, " ".join([f"-c {length}", *options]))
    old = engine != "vllm" and is_old(config)
    old = old and not (config and source.file.model.part and BASES[-1] in config)
    keys = {"max_position_embeddings": length, **keys_of(source, rope, old=old)}
    inner = source.file.model.config.key if config else ""
    keys = {inner: keys} if inner else keys
    if engine == "vllm":
        flags = f"--max-model-len {length} --hf-overrides {quote(json.dumps(keys))}"
        return Settings(engine, "0.12", keys, flags)
    return Settings(engine, None if engine == "llama.cpp" else "4.43" if old else "5", keys, None)


def rope_of(enc: Encoding) -> Rope:
    """Settings of a rotation with a base; ntk scaling is a larger base."""
    rope = Rope.of(enc)
    if rope is None:
        raise PefourierError(
            f"{shown(enc.spec)} is not a rotation with a base; pass a model's config to "
            "--extend-from, or a rotation such as rope:rho=1e6"
        )
    if rope.scaling != "ntk":
        return rope
    rotated = enc.params["rotated"]
    rho = rope.rho * rope.scaled_by["factor"] ** (rotated / (rotated - 2))
    return replace(rope.with_(scaling="none"), rho=rho)


def is_old(config: Mapping[str, Any]) -> bool:
    """Whether a config is for transformers 4, with the base beside ``rope_scaling``."""
    major = str(config.get("transformers_version", "")).partition(".")[0]
    keys = {
        key for values in (config, *config.values()) if isinstance(values, dict) for key in values
    }
    is_new = "rope_parameters" in keys or (major.isdigit() and int(major) >= 5)
    return bool(config) and ("rope_scaling" in keys or not is_new)


def keys_of(source: Encoding, rope: Rope, *, old: bool) -> dict[str, Any]:
    """Keys of a config about a rotation that differ, with other types of layers unchanged."""
    config = source.file.model.config.values if source.file else {}
    key = next((key for key in BASES if key in config), BASES[0])
    base = int(rope.rho) if rope.rho == int(rope.rho) else rope.rho
    present = config.get("rope_parameters") or config.get("rope_scaling") or {}
    part = source.file.model.part if config else ""
    own = present.get(part, present)
    kept = {key: own[key] for key in KEPT if key in own}
    section = scaling_section(rope) | kept
    if old:
        return {key: base, "rope_scaling": section if kept or rope.scaling != "none" else None}
    section |= {"rope_theta": base}
    emptied = {"rope_scaling": None} if config.get("rope_scaling") else {}
    if not part:
        return {"rope_parameters": section} | emptied
    others = {
        name: scaling_section(other) | {"rope_theta": other.rho}
        for name, enc in other_layers(source)
        if (other := Rope.of(enc))
    }
    kept = present if part in present else others
    return {"rope_parameters": {**kept, part: section}} | emptied


def scaling_section(rope: Rope) -> dict[str, Any]:
    """Return the keys of a scaling in a config, all that transformers requires."""
    kind = "default" if rope.scaling == "none" else rope.scaling
    usual = {key: parameter.default for key, parameter in scaling_parameters(rope.scaling).items()}
    values = {
        ORIGINAL if key == "original" else key: value
        for key, value in rope.scaled_by.items()
        if value != usual[key] or kind == "llama3"
    }
    return {"rope_type": kind, **values}


def options_of_llama_cpp(rope: Rope) -> list[str]:
    """Options of llama.cpp for a rotation; empty if there are none."""
    options = [f"--rope-freq-base {spelled(rope.rho)}", f"--rope-scaling {rope.scaling}"]
    if rope.scaling not in ("none", "linear", "yarn") or rope.attention_factor:
        return []
    usual = scaling_parameters(rope.scaling)
    changed = {key: value for key, value in rope.scaled_by.items() if value != usual[key].default}
    if not changed.keys() <= LLAMA_CPP.keys():
        return []
    return [*options, *(f"{LLAMA_CPP[key]} {spelled(value)}" for key, value in changed.items())]
