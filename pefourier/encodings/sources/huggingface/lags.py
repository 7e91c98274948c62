"""Read the vectors of lags of Transformer-XL, Conformer and DeBERTa from a config.

Conventions
-----------
``xl`` of a row holds ``fixed``, the parameters of `xl` that are the same in all models of the type;
``type``, the default of position_embeddings_type if the config has this key; ``part``, the name of
the part with relative sinusoids if others have none; ``none_after``, the key for the number of keys
after the query, which must be 0; ``chunk``, [key, default] of the queries in a block and of the
keys before it that set the lag of the first row. ``usual`` of DeBERTa's relatives holds the
defaults of keys.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Floats
from pefourier.encodings.families.lag_vectors import of_distances
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import REASONS
from pefourier.encodings.sources.huggingface import weights
from pefourier.encodings.sources.huggingface.config import ModelConfig
from pefourier.errors import PefourierError, UnknownPositions, shown, unknown
from pefourier.writing.files import read_toml

Vectors = tuple[Floats, float]  # a table and its resolution
VECTORS = re.compile(r"(^|\.)rel_embeddings\.weight$")
INSTEAD = {"rotary": "early", "relative_key": "relative", None: "mixer"}  # reasons for a refusal
# keys without effect on relative sinusoids
IDLE = """rotary_embedding_base left_max_position_embeddings right_max_position_embeddings
    conf_attention_chunk_size t2u_max_position_embeddings""".split()


def read_lags(model: ModelConfig) -> Encoding | None:
    """Read relative sinusoids or DeBERTa's vectors; None for other models."""
    if "xl" in model.row and model.part == model.row["xl"].get("part", model.part):
        return read_relative_sinusoids(model, model.row["xl"])
    is_relative = weights.has_no_table(model) and distance_terms(model)
    return read_distances(model) if is_relative else None


def read_relative_sinusoids(model: ModelConfig, row: dict[str, Any]) -> Encoding:
    """Read the sines and cosines of lags that a model's source code computes."""
    config = model.config
    if model.part not in (row.get("part", ""), "encoder", "decoder"):
        raise unknown(f"part of {shown(model.file)}", model.part, ("encoder", "decoder"))
    for key in IDLE:
        config.values.get(key)  # mark as read
    if "type" in row:
        check_position_type(model, row["type"])
    rules = {
        "bi_data": "false; otherwise half of each batch has the vectors of opposite lags",
        row.get("none_after", ""): "0; later keys have other vectors",
    }
    for key in filter(config.values.get, rules):
        raise config.wrong(key, config.values[key], rules[key])
    if "chunk" in row:
        check_chunk(model, *row["chunk"])
    direction = config.values.get("attn_type", "bi")
    if direction not in ("bi", "uni"):
        raise config.wrong("attn_type", direction, "bi or uni")
    clamp = max(config.count("clamp_len", minimum=-1) or 0, 0)
    return model.build(
        "xl", model.width, **{"causal": direction == "uni", "clamp": clamp, **row["fixed"]}
    )


def check_position_type(model: ModelConfig, usual: str) -> None:
    """Refuse a position_embeddings_type without relative sinusoids, with the reason."""
    kind = model.config.values.get("position_embeddings_type", usual)
    if kind not in ("relative", *INSTEAD):
        rule = "relative, rotary, relative_key or null"
        raise model.config.wrong("position_embeddings_type", kind, rule)
    if kind != "relative":
        reason = read_toml(REASONS)["kinds"][INSTEAD[kind]]
        raise UnknownPositions(f"{shown(model.file)} has position_embeddings_type {kind}: {reason}")


def check_chunk(model: ModelConfig, queries: list[Any], before: list[Any]) -> None:
    """Refuse blocks in which the first row is not the vector of the first visible key."""
    size, past = (model.sized(((key,), usual)) or 0 for key, usual in (queries, before))
    if size not in (past - 1, past):
        raise model.config.wrong(
            queries[0], size, f"{past - 1} or {past}, as {before[0]} is {past}"
        )


def setting(model: ModelConfig, key: str) -> Any:
    """Return the value of a key, or the default of the model type."""
    return model.config.values.get(key, model.row.get("usual", {}).get(key))


def distance_terms(model: ModelConfig) -> tuple[str, ...]:
    """Return the terms of DeBERTa's scores, c2p and p2c; () if distances are not used."""
    terms = setting(model, "pos_att_type") or ()
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    if not isinstance(terms, list | tuple) or not {*map(str, terms)} <= {"c2p", "p2c"}:
        raise model.config.wrong("pos_att_type", terms, "c2p|p2c or c2p")
    return tuple(terms) if setting(model, "relative_attention") is True else ()


def read_distances(model: ModelConfig) -> Encoding:
    """Read DeBERTa's vectors of distances from the weights, or their values before training."""
    terms, config = distance_terms(model), model.config
    if "c2p" not in terms:
        raise config.wrong("pos_att_type", "|".join(terms), "c2p|p2c or c2p")
    longest = max(config.count("max_relative_positions", minimum=-1) or 0, 0)
    longest = longest or model.longest() or 512
    usual = model.row.get("usual", {}).get("position_buckets", 0)
    buckets = max(config.count("position_buckets", minimum=-1) or usual, 0)
    buckets *= model.row["relative"] == "deberta-v2"
    d = model.width
    settings = {"buckets": buckets, "max_distance": longest, "p2c": "p2c" in terms}
    notes = (finding("with-convolution"),) * ("convolutional" in model.row["kind"])
    tensor = weights.only_one(weights.sibling_tensors(model, VECTORS), model, "distances")
    if tensor is None:
        return model.build("deberta", d, finding("untrained", "lags"), *notes, **settings)
    vectors, eps = stored_vectors(model, *tensor, (2 * (buckets or longest), d))
    length, silent = model.positions()
    enc = of_distances(length, vectors, buckets, longest, p2c="p2c" in terms)
    params = {"length": length, "d": d, **settings, "array": tensor[0], "path": tensor[1]}
    params["model_type"] = model.kind
    return replace(enc, params=params, eps=eps, findings=(*notes, *silent), origin="weights")


def stored_vectors(model: ModelConfig, name: str, path: str, shape: weights.Shape) -> Vectors:
    """Read the table of distances, normalized if the model normalizes it."""
    from pefourier.encodings.sources.tables import read_numbers, read_table

    table, eps = read_table(path, name)
    if table.shape != shape:
        raise PefourierError(f"{name} of {shown(path)} must have shape {shape}; got {table.shape}")
    vectors = np.asarray(table, dtype=float)
    if "layer_norm" in str(setting(model, "norm_rel_ebd")).lower():
        paths = dict(weights.all_tensors(weights.folder_of(model)))
        stem = name.replace("rel_embeddings.weight", "LayerNorm.")
        norms = [f"{paths.get(stem + key, path)}#{stem}{key}" for key in ("weight", "bias")]
        gain, shift = map(read_numbers, norms)
        vectors = vectors - vectors.mean(axis=1, keepdims=True)
        floor = model.config.number("layer_norm_eps") or 1e-7
        vectors = vectors / np.sqrt(vectors.var(axis=1, keepdims=True) + floor) * gain + shift
    return vectors, eps
