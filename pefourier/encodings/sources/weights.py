"""Trained positions, from the weights beside a model's config.

Conventions
-----------
Weights are the .safetensors files of the config's folder: those that its
``model.safetensors.index.json`` names, or those with the usual names. The first row of a table that
belongs to a position is `first_row`.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, from_table, rows_up_to
from pefourier.encodings.families.relative import of_lags, t5_buckets
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.config import (
    LONGEST,
    WIDTH,
    ModelConfig,
    Section,
    first_names,
    read_object,
)
from pefourier.errors import PefourierError, UnknownPositions, shown
from pefourier.files import os_errors

WEIGHTS = re.compile(r"(model|diffusion_pytorch_model)[-.\w]*\.safetensors")
INDEX = re.compile(r"(model|diffusion_pytorch_model)\.safetensors\.index\.json")
TENSOR = re.compile(r"(^|\.)(wpe|embed_positions|positions?_embed(ding)?s?)(\.weight)?$")
GRID_TENSOR = re.compile(r"(^|\.)pos_embed$")  # (1, H, W, d), of SAM
IMAGES = re.compile("image|vision|visual")  # towers whose sizes stand elsewhere
T5_BIAS = re.compile(r"(^|\.)relative_attention_bias\.weight$")
EMBEDDED = ("embedding_size", "input_embedding_size")  # width of codes that are projected later
PHASES = 2e-6  # relative: what float32 costs a frequency and with it the phase of a position
DEBERTA = re.compile(r"(^|\.)rel_embeddings\.weight$")


def tensors_beside(model: ModelConfig, pattern: re.Pattern) -> dict[str, str]:
    """Names of tensors in the config's folder, and their files; those of the part that is named."""
    part = model.part
    return {
        name: path
        for name, path in all_tensors(os.path.dirname(model.file) or ".")
        if pattern.search(name) and (not part or part == name or part in name.split("."))
    }


def all_tensors(folder: str) -> Iterator[tuple[str, str]]:
    """Names of the tensors in a folder's weights, and their files."""
    from pefourier.encodings.sources.tables import array_names

    with os_errors("look into", folder):
        files = sorted(os.listdir(folder))
    index = next((name for name in files if INDEX.fullmatch(name)), None)
    if index is not None:
        placed = Section(shown(index), read_object(os.path.join(folder, index)))
        for name, file in placed.section("weight_map").values.items():
            if not isinstance(file, str) or os.path.basename(file) != file:
                raise placed.wrong(name, file, "the name of a file beside it")
            yield name, os.path.join(folder, file)
        return
    for file in files:
        if WEIGHTS.fullmatch(file):
            path = os.path.join(folder, file)
            yield from ((name, path) for name in array_names(path))


def first_row(model: ModelConfig) -> int:
    """The row of the model's table that belongs to position 0."""
    first = model.row.get("first", 0)
    if first != "padding":
        return first
    padding = model.config.count("pad_token_id", minimum=0)
    return 2 if padding is None else padding + 1


def offset_notes(kind: str, offset: int) -> tuple[Finding, ...]:
    """What to know about a table whose first rows belong to no position."""
    return (finding("position-offset", kind=kind, offset=offset),) if offset else ()


def read_positions(model: ModelConfig) -> Encoding | None:
    """Learned positions, whose numbers are in the weights beside the config."""
    row = model.row
    if has_no_table(model):
        return None
    kinds = (*row.get("kind", "learned").split(), row.get("otherwise"))
    if "learned" not in kinds and model.part != row.get("learned_part", ()):
        return None
    embedding_type = model.config.values.get("position_embedding_type", "absolute")
    if embedding_type != "absolute" and "switch" not in row:
        raise model.config.wrong("position_embedding_type", embedding_type, "absolute or rotary")
    table = only_one(of_section(tensors_beside(model, TENSOR), model), model, "positions")
    if table is not None:
        return load_tensor(model, *table)
    if not row:
        return None
    raise UnknownPositions(
        f"the positions of model_type {shown(model.kind)} are learned: their table is in its "
        f"weights, not in {shown(model.file)}; put model.safetensors beside it, or give a "
        "file of codes, weights.safetensors#tensor"
    )


def only_one(tensors: Mapping[str, str], model: ModelConfig, noun: str) -> tuple[str, str] | None:
    """The name and file of the one tensor there is."""
    if len(tensors) > 1:
        raise PefourierError(
            f"{shown(os.path.dirname(model.file) or '.')} holds several tables of {noun}, "
            f"{first_names(tensors)}; name one, {shown(model.file + '#' + next(iter(tensors)))}"
        )
    return next(iter(tensors.items()), None)


def of_section(tensors: Mapping[str, str], model: ModelConfig) -> dict[str, str]:
    """The tensors of a config inside another, ``text_config`` those of ``text_model``, if any."""
    stem = model.config.key.removesuffix("_config")
    if stem == model.config.key:
        return dict(tensors)
    inner = {
        k: path for k, path in tensors.items() if any(w.startswith(stem) for w in k.split("."))
    }
    return inner or dict(tensors)


def load_tensor(model: ModelConfig, name: str, path: str) -> Encoding:
    """The rows of a tensor from the one of position 0 on."""
    from pefourier.encodings.sources.tables import read_table

    codes, eps = read_table(path, name)
    offset = first_row(model)
    findings = (*offset_notes(model.kind, offset), *unlike_config(model, name, path, codes.shape))
    model.dimension(codes.shape[1], f"tensor {name}")
    codes = rows_up_to(codes[offset:], model.length, f"{name} of {shown(path)}")
    params = {"length": len(codes), "d": codes.shape[1], "path": path, "array": name}
    params |= {"offset": offset, "model_type": model.kind}
    return from_table(codes, "learned", eps=eps, params=params, findings=findings, origin="weights")


def unlike_config(
    model: ModelConfig, name: str, path: str, shape: tuple[int, ...]
) -> tuple[Finding, ...]:
    """A warning where a table has not the size that its config sets, so that no model loads it."""
    axial = "axial" in model.row
    if not (axial or (name.endswith(".weight") and not IMAGES.search(name))):
        return ()
    rows, width = shape
    section = replace(model.config, values={}) if axial else model.config
    side = ("max_target_positions",) if "decoder" in name.split(".") else ()
    key, _ = section.first(*side, model.row.get("length", LONGEST)[0], *LONGEST)
    length, first = section.count(key), model.row.get("first", 0)
    expected = length and length + (0 if first == "padding" else first)
    expected = None if first == "padding" and "table" in model.row else expected
    keys = [
        size_key
        for size_key in (*EMBEDDED, *model.own("width", WIDTH)[0])
        if model.config.count(size_key)
    ]
    widths = [model.config.count(size_key) for size_key in keys]
    if expected and width == expected != rows and rows in widths:
        words = f"lies transposed, {rows} x {width}: turn it round"
    else:
        words = " and ".join(
            f"has {count} {noun} where {key} is {stated}"
            for count, noun, key, stated, fine in (
                (rows, "rows", key, length, expected in (None, rows)),
                (width, "columns", keys and keys[-1], widths and widths[-1], width in widths),
            )
            if stated and not fine
        )
    return (unlike(model, f"{name} of {shown(path)} {words}"),) if words else ()


def unlike(model: ModelConfig, words: str) -> Finding:
    """The warning for weights that are not those of their config."""
    return finding("weights-config", "config", words=words, config=model.config.label)


def read_stored_sinusoid(model: ModelConfig, enc: Encoding) -> Encoding:
    """Sinusoids that a model computes when it is made, as the weights beside its config have them.

    What a model loads wins: where a table is not that of the formula, within what float32 costs its
    phases, it is the answer, with a warning.
    """
    learned = model.row.get("learned_part", "") if not model.part else ""
    unlimited = replace(model, length=None)
    for name, path in of_section(tensors_beside(model, TENSOR), model).items():
        if learned and learned in name.split("."):
            continue
        stored = load_tensor(unlimited, name, path)
        if is_formula(stored, enc):
            warned = [note for note in stored.findings if note.code == "weights-config"]
            enc = replace(enc, findings=(*enc.findings, *warned))
            continue
        details = {"name": name, "path": shown(path), "kind": shown(model.kind)}
        stored = load_tensor(model, name, path)
        warned = finding("weights-config", "sinusoids", **details)
        return replace(stored, findings=(*stored.findings, warned))
    return enc


def is_formula(stored: Encoding, enc: Encoding) -> bool:
    """Whether a table is that of a formula, within what float32 costs phases."""
    rows = np.arange(len(stored))
    if stored.dim != enc.dim:
        return False
    difference = np.abs(stored.table() - enc.codes(rows)).max(axis=1)
    return bool((difference <= 4 * stored.eps + PHASES * (rows + enc.params["offset"])).all())


def one_tensor(model: ModelConfig, pattern: re.Pattern) -> tuple[str, str] | None:
    """The name and file of the one tensor that is meant, the encoder's where none is named."""
    tensors = tensors_beside(model, pattern)
    tensors = {name: path for name, path in tensors.items() if "EncDecAttention" not in name}
    if len(tensors) > 1 and not model.part:
        tensors = {k: path for k, path in tensors.items() if "encoder" in k.split(".")} or tensors
    return only_one(tensors, model, "lags")


def bucket_keys(model: ModelConfig) -> dict[str, int | bool]:
    """What sets T5's buckets."""
    return {
        "buckets": model.config.count("relative_attention_num_buckets") or 32,
        "max_distance": model.config.count("relative_attention_max_distance") or 128,
        "causal": "decoder" in model.part.split("."),
    }


def read_buckets(model: ModelConfig) -> Encoding | None:
    """T5's biases after training, one column per head."""
    from pefourier.encodings.sources.tables import read_table

    tensor = one_tensor(model, T5_BIAS)
    if tensor is None:
        return None
    bias, eps = read_table(tensor[1], tensor[0])
    settings = bucket_keys(model)
    if len(bias) != settings["buckets"]:
        raise PefourierError(
            f"{tensor[0]} of {shown(tensor[1])} has {len(bias)} rows; "
            f"relative_attention_num_buckets is {settings['buckets']}"
        )

    def codes(lag: np.ndarray) -> np.ndarray:
        return np.asarray(bias, dtype=float)[t5_buckets(lag, **settings)]

    return of_weights(model, "t5", tensor, bias.shape[1], codes, eps, settings)


def read_distances(model: ModelConfig) -> Encoding | None:
    """DeBERTa's vectors of distances after training (He et al., 2021)."""
    from pefourier.encodings.sources.tables import read_table

    tensor = one_tensor(model, DEBERTA)
    if tensor is None:
        return None
    vectors, eps = read_table(tensor[1], tensor[0])
    settings = distance_keys(model)
    norm = vector_norm(model, tensor) if settings["logarithmic"] else None

    def codes(lag: np.ndarray) -> np.ndarray:
        rows = np.asarray(vectors, dtype=float)[row_of_lag(lag, len(vectors) // 2, **settings)]
        return rows if norm is None else norm(rows)

    parameters = {
        "buckets": settings["buckets"],
        "max_distance": settings["longest"],
        "causal": False,
    }
    return of_weights(model, "deberta", tensor, vectors.shape[1], codes, eps, parameters)


def has_no_table(model: ModelConfig) -> bool:
    """Whether a model whose type has a table has none, and vectors of distances alone at most."""
    return "relative" in model.row and not model.config.values.get("position_biased_input", True)


def untrained_distances(model: ModelConfig) -> Encoding | None:
    """The buckets of DeBERTa's distances where the weights are not at hand: codes are their rows.

    None for all else.
    """
    turned_on = model.config.values.get("relative_attention") is True
    if not has_no_table(model) or not turned_on or one_tensor(model, DEBERTA):
        return None
    settings = distance_keys(model)
    span = settings["buckets"] if settings["logarithmic"] else settings["longest"]
    length = model.positions()[0]
    enc = of_lags(
        "deberta",
        length,
        1,
        causal=False,
        codes=lambda lag: row_of_lag(lag, span, **settings)[:, None].astype(float),
        act="key",
    )
    parameters = {
        "buckets": settings["buckets"],
        "max_distance": settings["longest"],
        "causal": False,
    }
    params = {"length": length, **parameters, "model_type": model.kind, "path": model.file}
    return replace(enc, params=params)


def distance_keys(model: ModelConfig) -> dict[str, Any]:
    """What sets DeBERTa's buckets of distances."""
    longest = model.config.number("max_relative_positions") or -1
    buckets = int(model.config.number("position_buckets") or -1)
    return {
        "buckets": buckets,
        "longest": int(longest) if longest >= 1 else model.longest() or 512,
        "logarithmic": model.row["relative"] == "deberta-v2" and buckets > 0,
    }


def row_of_lag(
    lag: np.ndarray, span: int, *, buckets: int, longest: int, logarithmic: bool
) -> np.ndarray:
    """The row of DeBERTa's vectors for each key - query, of 2 span rows."""
    distance = -np.asarray(lag)
    if logarithmic:
        distance = deberta_buckets(distance, buckets, longest)
    return np.clip(distance + span, 0, 2 * span - 1)


def deberta_buckets(distance: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """Buckets of query - key (He et al., 2021): single up to half of them, then logarithmic.

    >>> deberta_buckets(np.array([-511, -128, -1, 0, 5, 200]), 256, 512)
    array([-255, -128,   -1,    0,    5,  169])
    """
    middle = buckets // 2
    size = np.where(np.abs(distance) < middle, middle - 1, np.abs(distance))
    with np.errstate(divide="ignore"):
        steps = np.log(size / middle) / np.log((longest - 1) / middle) * (middle - 1)
    far = (np.ceil(steps) + middle) * np.sign(distance)
    return np.where(size <= middle, distance, far).astype(int)


def vector_norm(model: ModelConfig, tensor: tuple[str, str]) -> Callable | None:
    """The normalisation of DeBERTa's vectors, where its config asks for one."""
    if "layer_norm" not in str(model.config.values.get("norm_rel_ebd", "none")).lower():
        return None
    name = tensor[0].replace("rel_embeddings", "LayerNorm")
    eps = model.config.number("layer_norm_eps") or 1e-7
    gain, shift = (
        read_vector(tensor[1], name.replace("weight", key)) for key in ("weight", "bias")
    )

    def norm(rows: np.ndarray) -> np.ndarray:
        centred = rows - rows.mean(axis=1, keepdims=True)
        return gain * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps) + shift

    return norm


def read_vector(path: str, name: str) -> np.ndarray:
    """A one-dimensional tensor of a file."""
    from pefourier.encodings.sources.tables import open_arrays

    with open_arrays(path) as file:
        if name not in file.arrays:
            raise PefourierError(f"{shown(path)} has no {name}, which the config asks for")
        return file.load(name, "float64").reshape(-1)


def of_weights(
    model: ModelConfig,
    name: str,
    tensor: tuple[str, str],
    d: int,
    codes: Callable[[np.ndarray], np.ndarray],
    eps: float,
    settings: Mapping[str, Any],
) -> Encoding:
    """An encoding of lags whose numbers are those of a tensor."""
    length, silent = model.positions()
    model.dimension(d, f"tensor {tensor[0]}")
    act = "bias" if name == "t5" else "key"
    enc = of_lags(name, length, d, bool(settings["causal"]), codes, act=act)
    params = {"length": length, "d": d, **settings, "path": tensor[1], "array": tensor[0]}
    params |= {"model_type": model.kind}
    return replace(enc, params=params, eps=eps, findings=silent, origin="weights")
