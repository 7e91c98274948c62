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
from pefourier.encodings.sources.huggingface.config import WIDTH, ModelConfig
from pefourier.errors import PefourierError, UnknownPositions, shown, unknown
from pefourier.writing.files import read_toml

VECTORS = re.compile(r"(^|\.)rel_embeddings\.weight$")
INSTEAD = {"rotary": "early", "relative_key": "relative", None: "mixer"}  # reasons for a refusal
IDLE = (  # keys without effect on relative sinusoids
    *("rotary_embedding_base", "left_max_position_embeddings", "right_max_position_embeddings"),
    *("conf_attention_chunk_size", "t2u_max_position_embeddings"),
)


def read_lags(model: ModelConfig) -> Encoding | None:
    """Read relative sinusoids or DeBERTa's vectors; None for other models."""
    if "xl" in model.row and model.part == model.row["xl"].get("part", model.part):
        return read_relative_sinusoids(model, model.row["xl"])
    return read_distances(model) if has_distances(model) else None


def read_relative_sinusoids(model: ModelConfig, row: dict[str, Any]) -> Encoding:
    """Read the sines and cosines of lags that a model's source code computes."""
    config = model.config
    if model.part not in (row.get("part", ""), "encoder", "decoder"):
        raise unknown(f"part of {shown(model.file)}", model.part, ("encoder", "decoder"))
    for key in IDLE:
        config.values.get(key)  # mark as read
    if "type" in row:
        check_type(model, row["type"])
    after = row.get("none_after", "")
    if config.values.get("bi_data"):
        rule = "false; otherwise half of each batch has the vectors of opposite lags"
        raise config.wrong("bi_data", config.values["bi_data"], rule)
    if config.values.get(after):
        raise config.wrong(after, config.values[after], "0, with no vectors for later keys")
    if "chunk" in row:
        check_chunk(model, *row["chunk"])
    direction = config.values.get("attn_type", "bi")
    if direction not in ("bi", "uni"):
        raise config.wrong("attn_type", direction, "bi or uni")
    clamp = max(int(config.number("clamp_len") or 0), 0)
    d = model.dimension(model.sized(model.own("width", WIDTH)), "width")
    settings = {"causal": direction == "uni", "clamp": clamp, **row["fixed"]}
    return model.build("xl", d, **settings)


def check_type(model: ModelConfig, usual: str) -> None:
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
    size, left = (model.sized(((key,), usual)) or 0 for key, usual in (queries, before))
    if (size + left - 1) // 2 != left - 1:
        rule = f"{left - 1} or {left} with {before[0]} {left}, so that rows are vectors of lags"
        raise model.config.wrong(queries[0], size, rule)


def setting(model: ModelConfig, key: str) -> Any:
    """Return the value of a key, or the default of the model type."""
    return model.config.values.get(key, model.row.get("usual", {}).get(key))


def score_terms(model: ModelConfig) -> tuple[str, ...]:
    """Return the terms of DeBERTa's scores, c2p and p2c; () if distances are not used."""
    terms = setting(model, "pos_att_type") or ()
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    if not isinstance(terms, list | tuple) or not {*map(str, terms)} <= {"c2p", "p2c"}:
        raise model.config.wrong("pos_att_type", terms, "c2p|p2c or c2p")
    return tuple(terms) if setting(model, "relative_attention") is True else ()


def has_distances(model: ModelConfig) -> bool:
    """Return whether DeBERTa's distances are the only positions of a model."""
    return weights.has_no_table(model) and bool(score_terms(model))


def read_distances(model: ModelConfig) -> Encoding:
    """Read DeBERTa's vectors of distances from the weights, or their values before training."""
    terms, config = score_terms(model), model.config
    if "c2p" not in terms:
        raise config.wrong("pos_att_type", "|".join(terms), "c2p|p2c or c2p")
    longest = int(config.number("max_relative_positions") or -1)
    longest = longest if longest >= 1 else model.longest() or 512
    buckets = max(int(setting(model, "position_buckets") or 0), 0)
    buckets *= model.row["relative"] == "deberta-v2"
    d = model.dimension(model.sized(model.own("width", WIDTH)), "width")
    settings = {"buckets": buckets, "max_distance": longest, "p2c": "p2c" in terms}
    notes = (finding("with-convolution"),) * ("convolutional" in model.row["kind"])
    tensors = weights.tensors_beside(model, VECTORS)
    if not tensors:
        return model.build("deberta", d, finding("untrained", "lags"), *notes, **settings)
    name, path = weights.only_one(tensors, model, "distances") or ("", "")
    vectors, eps = stored_vectors(model, name, path, (2 * (buckets or longest), d))
    length, silent = model.positions()
    enc = of_distances(length, vectors, buckets, longest, p2c="p2c" in terms)
    params = {"length": length, "d": d, **settings, "path": path, "array": name}
    facts = {"eps": eps, "findings": (*notes, *silent), "origin": "weights"}
    return replace(enc, params={**params, "model_type": model.kind}, **facts)


def stored_vectors(
    model: ModelConfig, name: str, path: str, shape: tuple[int, int]
) -> tuple[Floats, float]:
    """Read the table of distances, normalized if the model normalizes it."""
    from pefourier.encodings.sources.tables import read_numbers, read_table

    table, eps = read_table(path, name)
    if table.shape != shape:
        raise PefourierError(f"{name} of {shown(path)} must have shape {shape}; got {table.shape}")
    vectors = np.asarray(table, dtype=float)
    if "layer_norm" in str(setting(model, "norm_rel_ebd")).lower():
        paths = dict(weights.all_tensors(weights.folder_of(model)))
        norms = (
            name.replace("rel_embeddings.weight", f"LayerNorm.{p}") for p in ("weight", "bias")
        )
        gain, shift = (read_numbers(f"{paths.get(norm, path)}#{norm}") for norm in norms)
        vectors = vectors - vectors.mean(axis=1, keepdims=True)
        floor = model.config.number("layer_norm_eps") or 1e-7
        vectors = vectors / np.sqrt(vectors.var(axis=1, keepdims=True) + floor) * gain + shift
    return vectors, eps
