"""Read trained positions from the weights in the folder of a model's config.

Conventions
-----------
Weights are the .safetensors files in the config's folder: the files that
``model.safetensors.index.json`` lists, or files with the usual names. `first_row` is the row of
position 0 in a table.

Read the vectors of lags of Transformer-XL, Conformer and DeBERTa from a config.

Conventions
-----------
``xl`` of a row holds ``fixed``, the parameters of `xl` that are the same in all models of the type;
``type``, the default of position_embeddings_type if the config has this key; ``part``, the name of
the part with relative sinusoids if others have none; ``none_after``, the key for the number of keys
after the query, which must be 0. ``usual`` of DeBERTa's relatives holds the defaults of keys.

Read the grid of a vision model from its config, and the biases of its windows from weights.

Conventions
-----------
The key ``axial`` of a model type's row holds the grid, or a list of grids; the first with a
matching ``when`` [key, value] applies. Keys: ``encoding`` (learned: a table in the weights), its
``own`` parameters, and parameters that are ``read`` (parameter: key of the config); ``d``
(``head``, or ``width`` over ``heads``; ``times``: head times heads); ``sides``, one per axis: a
``size`` over another, each [key, default] (``kernel``: size of the first patch); ``usual``, default
sides; ``prefix``, and the key of ``registers``; ``merged``, the key for the side of blocks in the
order of tokens; ``reference``, bases over scales; ``rescaled``, the key and the default of the
largest factor by which training stretches coordinates.

Rows of a bias table are the displacements query - key; the three rows of a class token come last
(Swin, BEiT). SAM has vectors of lags along one axis and adds their products with queries to the
scores. Layers have separate tables: the first is read, or the table that ``#NAME`` selects by its
name or a part of the name.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    exchanged,
    finding,
    from_table,
    lags_between,
    lags_on,
    lattice,
    rows_up_to,
)
from pefourier.encodings.families.relative import of_distances, t5_buckets
from pefourier.encodings.grids import (
    OF_CLASS_TOKEN,
    biases_within,
    check_fit,
    count_points,
    on_grid,
    size_of,
    usual_grid,
)
from pefourier.encodings.registry import BUILDERS, REASONS, build
from pefourier.encodings.sources.huggingface.config import (
    LONGEST,
    WIDTH,
    ModelConfig,
    first_names,
)
from pefourier.encodings.sources.json_object import HEADS, Section, read_object
from pefourier.errors import PefourierError, UnknownPositions, shown, unknown
from pefourier.types import Array, Fields, Floats, Texts, Values
from pefourier.writing.files import inside, os_errors, read_toml

WEIGHTS = re.compile(r"(model|diffusion_pytorch_model)[-.\w]*\.safetensors")
INDEX = re.compile(r"(model|diffusion_pytorch_model)\.safetensors\.index\.json")
TENSOR = re.compile(r"(^|\.)(wpe|embed_positions|positions?_embed(ding)?s?)(\.weight)?$")
GRID_TENSOR = re.compile(r"(^|\.)pos_embed(\.weight)?$")  # SAM, Qwen3-VL
DISPLACED = re.compile(r"(^|\.)(relative_position_bias_table|rel_pos_[thw])$")  # vision models
IMAGES = re.compile("image|vision|visual")  # towers; their sizes are in other configs
EMBEDDED = ("embedding_size", "input_embedding_size")  # width of embeddings before a projection
T5_BIAS = re.compile(r"(^|\.)(?<!EncDecAttention\.)relative_attention_bias\.weight$")
Shape = tuple[int | None, ...]  # None: any size
PHASES = 2e-6  # phase error per position that float32 causes


def sibling_tensors(model: ModelConfig, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the matching tensors of the selected part in the config's folder, with their files.

    A part is a section of a name between dots: a layer, a module, or the whole name.
    """
    part = model.part
    return {
        name: path
        for name, path in all_tensors(folder_of(model))
        if pattern.search(name) and (not part or f".{part}." in f".{name}.")
    }


def grid_tensors(model: ModelConfig) -> dict[str, str]:
    """Return tensors of positions on a grid, by their usual names."""
    return sibling_tensors(model, GRID_TENSOR) or sibling_tensors(model, TENSOR)


def folder_of(model: ModelConfig) -> str:
    """Return the folder of a config."""
    return os.path.split(model.file)[0] or "."


def all_tensors(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the tensors in a folder's weights, and their files."""
    with os_errors("look into", folder):
        files = sorted(path.name for path in Path(folder).iterdir())
    index = next((name for name in files if INDEX.fullmatch(name)), None)
    if index is not None:
        placed = Section(shown(index), read_object(inside(folder, index)))
        for name, file in placed.section("weight_map").values.items():
            if not isinstance(file, str) or "/" in file or os.sep in file:
                raise placed.wrong(name, file, "the name of a file in the same folder")
            yield name, inside(folder, file)
        return
    for file in filter(WEIGHTS.fullmatch, files):
        from pefourier.encodings.sources.tables import array_names  # loads zipfile

        path = inside(folder, file)
        yield from ((name, path) for name in array_names(path))


def first_row(model: ModelConfig) -> int:
    """Return the row of position 0 in the model's table."""
    first = model.row.get("first", 0)
    if first != "padding":
        return int(first)
    padding = model.count("pad_token_id", minimum=0)
    return 2 if padding is None else padding + 1


def offset_notes(kind: str, offset: int) -> tuple[Finding, ...]:
    """Return a finding if the first rows of a table belong to no position."""
    return (finding("position-offset", kind=kind, offset=offset),) if offset else ()


def read_positions(model: ModelConfig) -> Encoding | None:
    """Read learned positions from the weights in the config's folder."""
    row = model.row
    if has_no_table(model):
        return None
    kinds = (*row.get("kind", "learned").split(), row.get("otherwise"))
    if "learned" not in kinds and model.part != row.get("learned_part", ()):
        return None
    embedding_type = model.get("position_embedding_type", "absolute")
    if embedding_type != "absolute" and "switch" not in row:
        raise model.wrong("position_embedding_type", embedding_type, "absolute or rotary")
    table = only_one(of_section(sibling_tensors(model, TENSOR), model), model, "positions")
    if table is not None:
        return load_tensor(model, *table)
    if not row:
        return None
    raise UnknownPositions(
        f"the positions of {shown(model.file)} are learned; put model.safetensors in its folder"
    )


def only_one(tensors: Mapping[str, str], model: ModelConfig, noun: str) -> tuple[str, str] | None:
    """Return the name and the file of the only tensor; None if there is no tensor."""
    if len(tensors) > 1:
        raise PefourierError(
            f"{shown(folder_of(model))} holds several tables of {noun}, "
            f"{first_names(tensors)}; name one, {shown(model.file + '#' + next(iter(tensors)))}"
        )
    return next(iter(tensors.items()), None)


def of_section(tensors: Mapping[str, str], model: ModelConfig) -> dict[str, str]:
    """Return the tensors of an inner config: for ``text_config``, the tensors of ``text_model``."""
    stem, ending, _ = model.key.partition("_config")
    start = re.compile(rf"(^|\.){re.escape(stem)}")
    inner = {name: path for name, path in tensors.items() if ending and start.search(name)}
    return inner or dict(tensors)


def load_tensor(model: ModelConfig, name: str, path: str) -> Encoding:
    """Read the rows of a tensor from position 0 on; shape (1, H, W, d) is SAM's grid."""
    from pefourier.encodings.sources.tables import read_named_table

    stored = read_named_table(path, name)
    offset, shape = first_row(model), stored.vectors.shape
    findings = (*offset_notes(model.kind, offset), *unlike_config(model, name, path, shape))
    model.dimension(shape[1], f"tensor {name}")
    vectors = rows_up_to(stored.vectors[offset:], model.length, f"{name} of {shown(path)}")
    enc = from_table(vectors, "learned", eps=stored.eps, findings=findings, origin="weights")
    params = {
        "length": len(vectors),
        "d": vectors.shape[1],
        "path": path,
        "array": name,
        "offset": offset,
        "rows": shape[0],
        "model_type": model.kind,
    }
    return replace(enc, params=params, domain=lattice(stored.sides) if stored.sides else enc.domain)


def unlike_config(model: ModelConfig, name: str, path: str, shape: Shape) -> tuple[Finding, ...]:
    """Return a warning if the shape of a table of positions contradicts its config."""
    is_on_axes = "axial" in model.row
    if not is_on_axes and (not name.endswith(".weight") or IMAGES.search(name)):
        return ()
    keys = (model.row.get("length", LONGEST)[0], *LONGEST)
    if "decoder" in name.split("."):
        keys = ("max_target_positions", *keys)
    first = model.row.get("first", 0)
    rows = None if is_on_axes else model.count(*keys)
    if first != "padding":  # its rows are included
        rows = rows and rows + first
    elif "table" in model.row:  # such sinusoids grow on demand
        rows = None
    width_keys = (*EMBEDDED, *model.own("width", WIDTH)[0])
    widths = [width for key in width_keys if (width := model.count(key))]
    columns = shape[rows != shape[1] or shape[0] not in widths]
    if columns not in widths:
        columns = widths[-1] if widths else None
    return shape_findings(model, name, path, shape, (rows, columns))


def shape_findings(
    model: ModelConfig, name: str, path: str, shape: Shape, expected: Shape
) -> tuple[Finding, ...]:
    """Return a warning if a tensor has an unexpected shape."""
    if all(size in (None, stored) for stored, size in zip(shape, expected, strict=True)):
        return ()
    sizes = ", ".join("any" if size is None else str(size) for size in expected)
    variant = "transposed" if shape == expected[::-1] else "shape"
    return (
        finding(
            "weights-config",
            variant,
            config=model.label,
            name=shown(name),
            path=shown(path),
            shape=shape,
            expected=f"({sizes})",
        ),
    )


def read_stored_sinusoid(model: ModelConfig, enc: Encoding) -> Encoding:
    """Compare the sinusoids that a model computes with tables in its weights.

    A model loads stored tables. If a table differs from the formula by more than the phase error of
    float32, the table is returned, with a warning.
    """
    learned = model.row.get("learned_part", "") if not model.part else ""
    for name, path in of_section(sibling_tensors(model, TENSOR), model).items():
        if learned and learned in name.split("."):
            continue
        stored = load_tensor(replace(model, length=None), name, path)
        rows = np.arange(len(stored))
        tolerance = 4 * stored.eps + PHASES * (rows + enc.params["offset"])
        if (
            stored.dim != enc.dim
            or (np.abs(stored.table() - enc.vectors(rows)).max(axis=1) > tolerance).any()
        ):
            stored = load_tensor(model, name, path)
            doubt = finding(
                "weights-config",
                "sinusoids",
                name=shown(name),
                path=shown(path),
                kind=shown(model.kind),
            )
            return replace(stored, findings=(*stored.findings, doubt))
        doubts = [note for note in stored.findings if note.code == "weights-config"]
        enc = replace(enc, findings=(*enc.findings, *doubts))
    return enc


def bucket_keys(model: ModelConfig) -> Fields:
    """Return the parameters of T5's buckets from a config."""
    return {
        "buckets": model.count("relative_attention_num_buckets") or 32,
        "max_distance": model.count("relative_attention_max_distance") or 128,
        "causal": "decoder" in model.part.split("."),
    }


def read_buckets(model: ModelConfig) -> Encoding | None:
    """Read T5's trained biases, one column per head, by default the encoder's."""
    from pefourier.encodings.sources.tables import read_table

    tensors = sibling_tensors(model, T5_BIAS)
    if len(tensors) > 1 and not model.part:
        tensors = {k: path for k, path in tensors.items() if "encoder" in k.split(".")} or tensors
    tensor = only_one(tensors, model, "lags")
    if tensor is None:
        return None
    name, path = tensor
    bias, eps = read_table(path, name)
    settings = bucket_keys(model)
    if len(bias) != settings["buckets"]:
        rows = f"{settings['buckets']} rows (relative_attention_num_buckets), got {len(bias)}"
        raise PefourierError(f"{name} of {shown(path)} must have {rows}")

    def vectors(lag: Array) -> Floats:
        return np.asarray(bias[t5_buckets(lag, **settings)], dtype=float)

    length, silent = model.positions()
    heads = model.sized(model.own("heads", HEADS))
    doubts = shape_findings(model, name, path, bias.shape, (settings["buckets"], heads))
    d = model.dimension(bias.shape[1], f"tensor {name}")
    domain = lags_between(length, causal=settings["causal"])
    enc = Encoding("t5", domain, d, vectors, injection="bias", eps=eps, origin="weights")
    params = {"length": length, "d": d, **settings, "path": path, "array": name}
    params["model_type"] = model.kind
    return replace(enc, params=params, findings=(*silent, *doubts))


def has_no_table(model: ModelConfig) -> bool:
    """Return whether a model lacks its type's table, and has only relative distances at most."""
    return "relative" in model.row and not setting(model, "position_biased_input")


def declared_table(model: ModelConfig) -> Encoding | None:
    """Return a table of positions with the size of the config and unknown vectors.

    None if weights or formulas define the vectors.
    """
    row, longest = model.row, model.longest() or 0
    is_learned = row.get("kind", "").startswith("learned") and "axial" not in row
    is_other = model.get("position_embedding_type", "absolute") != "absolute"
    is_elsewhere = model.computes or model.part or not longest or sibling_tensors(model, TENSOR)
    if not is_learned or is_other or has_no_table(model) or is_elsewhere:
        return None
    first = first_row(model)  # rows before position 0
    length, rows = longest, longest + first
    if row.get("first") == "padding":  # among the rows of the config
        length, rows = max(longest - first, 1), longest
    params = {"length": length, "rows": rows, "offset": first, "path": model.file}
    params["model_type"] = model.kind
    return replace(build("learned", length=length, d=1), params=params)


VECTORS = re.compile(r"(^|\.)rel_embeddings\.weight$")
INSTEAD = {"rotary": "early", "relative_key": "relative", None: "mixer"}  # reasons for a refusal
# keys without effect on relative sinusoids
IDLE = """rotary_embedding_base left_max_position_embeddings right_max_position_embeddings
    conf_attention_chunk_size t2u_max_position_embeddings""".split()


def read_lags(model: ModelConfig) -> Encoding | None:
    """Read relative sinusoids or DeBERTa's vectors; None for other models."""
    if "xl" in model.row and model.part == model.row["xl"].get("part", model.part):
        return read_relative_sinusoids(model, model.row["xl"])
    is_relative = has_no_table(model) and distance_terms(model)
    return read_distances(model) if is_relative else None


def read_relative_sinusoids(model: ModelConfig, row: Fields) -> Encoding:
    """Read the sines and cosines of lags that a model's source code computes."""
    if "part" not in row:
        check_part(model)
    for key in IDLE:
        model.get(key)  # mark as read
    if "type" in row:
        kind = model.get("position_embeddings_type", row["type"])
        if kind not in ("relative", *INSTEAD):
            rule = "relative, rotary, relative_key or null"
            raise model.wrong("position_embeddings_type", kind, rule)
        if kind != "relative":
            reason = f"{kind}: {read_toml(REASONS)['kinds'][INSTEAD[kind]]}"
            raise UnknownPositions(f"{shown(model.file)} has position_embeddings_type {reason}")
    rules = {
        "bi_data": "false; otherwise half of each batch has the vectors of opposite lags",
        row.get("none_after", ""): "0; later keys have other vectors",
    }
    for key in filter(model.get, rules):
        raise model.wrong(key, model.get(key), rules[key])
    direction = model.get("attn_type", "bi")
    if direction not in ("bi", "uni"):
        raise model.wrong("attn_type", direction, "bi or uni")
    clamp = max(model.count("clamp_len", minimum=-1) or 0, 0)
    settings = {"causal": direction == "uni", "clamp": clamp, **row["fixed"]}
    return model.build("xl", model.width, **settings)


def setting(model: ModelConfig, key: str) -> Any:
    """Return the value of a key, or the default of the model type."""
    return model.get(key, model.row.get("usual", {}).get(key))


def distance_terms(model: ModelConfig) -> Texts:
    """Return the terms of DeBERTa's scores, c2p and p2c; () if distances are not used."""
    terms = setting(model, "pos_att_type") or ()
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    if not isinstance(terms, list | tuple) or not {*map(str, terms)} <= {"c2p", "p2c"}:
        raise model.wrong("pos_att_type", terms, "c2p|p2c or c2p")
    return tuple(terms) if setting(model, "relative_attention") is True else ()


def read_distances(model: ModelConfig) -> Encoding:
    """Read DeBERTa's vectors of distances from the weights, or their values before training.

    The vectors are normalized if the model normalizes them.
    """
    from pefourier.encodings.sources.tables import read_numbers, read_table

    terms = distance_terms(model)
    if "c2p" not in terms:
        raise model.wrong("pos_att_type", "|".join(terms), "c2p|p2c or c2p")
    longest = max(model.count("max_relative_positions", minimum=-1) or 0, 0)
    longest = longest or model.longest() or 512
    usual = model.row.get("usual", {}).get("position_buckets", 0)
    buckets = max(model.count("position_buckets", minimum=-1) or usual, 0)
    buckets *= model.row["relative"] == "deberta-v2"
    d = model.width
    settings = {"buckets": buckets, "max_distance": longest, "p2c": "p2c" in terms}
    notes = (finding("with-convolution"),) * ("convolutional" in model.row["kind"])
    tensor = only_one(sibling_tensors(model, VECTORS), model, "distances")
    if tensor is None:
        return model.build("deberta", d, finding("untrained", "lags"), *notes, **settings)
    name, path = tensor
    table, eps = read_table(path, name)
    shape = 2 * (buckets or longest), d
    if table.shape != shape:
        raise PefourierError(f"{name} of {shown(path)} must have shape {shape}; got {table.shape}")
    vectors = np.asarray(table, dtype=float)
    if "layer_norm" in str(setting(model, "norm_rel_ebd")).lower():
        paths = dict(all_tensors(folder_of(model)))
        stem = name.replace("rel_embeddings.weight", "LayerNorm.")
        norms = [f"{paths.get(stem + key, path)}#{stem}{key}" for key in ("weight", "bias")]
        gain, shift = map(read_numbers, norms)
        vectors = vectors - vectors.mean(axis=1, keepdims=True)
        floor = model.number("layer_norm_eps") or 1e-7
        vectors = vectors / np.sqrt(vectors.var(axis=1, keepdims=True) + floor) * gain + shift
    length, silent = model.positions()
    enc = of_distances(length, vectors, buckets, longest, p2c="p2c" in terms)
    params = {"length": length, "d": d, **settings, "array": name, "path": path}
    params["model_type"] = model.kind
    return replace(enc, params=params, eps=eps, findings=(*notes, *silent), origin="weights")


def read_biases(model: ModelConfig) -> Encoding | None:
    """Read ALiBi or T5's buckets, one column per head."""
    row = model.row
    kind, attention = row.get("kind"), model.section(row["inside"]) if "inside" in row else model
    is_switched = not row or "alibi" in (kind, row.get("otherwise"))
    alibi = attention.get("alibi", kind == "alibi") if is_switched else False
    if not isinstance(alibi, bool):
        raise attention.wrong("alibi", alibi, "true or false")
    if alibi:
        if (steepest := attention.number("alibi_bias_max")) not in (None, 8.0):
            raise attention.wrong("alibi_bias_max", steepest, "8, the slopes of ALiBi")
    elif kind != "t5":
        return None
    elif trained := read_buckets(model):
        return trained
    check_part(model)
    heads = model.dimension(model.sized(model.own("heads", HEADS)), "number of heads")
    if alibi:
        return model.build("alibi", heads, causal=True)
    return model.build("t5", heads, finding("untrained", "t5"), **bucket_keys(model))


def check_part(model: ModelConfig) -> None:
    """Refuse a part after # other than encoder and decoder."""
    if model.part not in ("", "encoder", "decoder"):
        raise unknown(f"part of {shown(model.file)}", model.part, ("encoder", "decoder"))


def read_sinusoid(model: ModelConfig) -> Encoding | None:
    """Read sinusoids that the model's source code computes."""
    row = model.row
    if not model.computes or (model.part and model.part == row.get("learned_part")):
        return None
    check_part(model)
    d = model.width
    offset = first_row(model)
    enc = model.build(
        "sinusoidal", d, *offset_notes(model.kind, offset), **row["table"], offset=offset
    )
    if not row.get("cosines_first"):
        return read_stored_sinusoid(model, enc)
    return replace(enc, vectors=lambda x: exchanged(enc.vectors(x), row["table"]["layout"]))


Block = Values
Sides = tuple[int, ...]
SCALED_FROM = 64  # patches per side at which PixArt's scale is 1


def read_axes(model: ModelConfig) -> Encoding | None:
    """Read the positions on a vision model's grid; None if its type is not known to have a grid."""
    block = block_of(model)
    if block is None:
        return None
    if "table_beside" in model.row and model.part and grid_tensors(model):
        block = {"encoding": "learned"}
    is_learned = block["encoding"] == "learned"
    enc = read_grid(model, block) if is_learned or block.get("stored") else None
    if enc is not None or is_learned:
        return enc  # without weights, another reader reports where the table is
    if model.part:
        raise PefourierError(f"{shown(model.file)} has no part {shown(model.part)}; leave out #")
    return formula(model, block)


def block_of(model: ModelConfig) -> Block | None:
    """Return the first block of the model's row that matches its config."""
    entry = model.row.get("axial", [])
    for block in entry if isinstance(entry, list) else [entry]:
        key, expected, usual = block.get("when", ("", None, None))
        if not key or model.get(key, usual) == expected:
            return dict(block)
    return None


def formula(model: ModelConfig, block: Block) -> Encoding:
    """Build the encoding that the model computes, or that its training starts from."""
    sides, findings = sides_of(model, block)
    parameters = {**block.get("own", {}), **values_read(model, block)}
    if "reference" in block:
        parameters["reference"] = references(model, block)
    if "divided_by" in block:  # divisors of the indices, in the order of frequencies
        numbers = tuple(divisor_of(model, *divisor) for divisor in block["divided_by"])
        parameters |= {"stretch": numbers, "stretch_by": "linear"}
    if block["encoding"] in ("axial", "axial-rope"):
        parameters["prefix"] = prefix_of(model, block)
    if "note" in block:
        findings = (*findings, finding("grid-convention", note=block["note"]))
    size = block["d"]  # of a head, or the width of the model if vectors are added to embeddings
    head, width, heads = (value_of(model, size.get(k, ("", 0))) for k in ("head", "width", "heads"))
    if not head and heads and width % heads:
        raise PefourierError(f"{model.label}: {heads} heads do not divide its width {width}")
    d = (head or width // (heads or 1)) * (heads if size.get("times") else 1)
    d, noted = model.dimension(d or None, "size of a head or width"), dict[str, Any]()
    if block["encoding"] == "sinusoidal":
        parameters["length"] = model.length or count_points(sides)
        enc = model.named(findings, "sinusoidal", d=d, **parameters)
        return enc if len(enc) != count_points(sides) else on_grid(enc, sides, 0)
    if "merged" in block:
        noted["merged"] = side = value_of(model, block["merged"])
        if side > 1:
            key = block["merged"][0]
            merged = finding("tokens-in-blocks", key=key, side=side, config=model.label)
            findings = (*findings, merged)
    if "rescaled" in block:
        key, usual = block["rescaled"]
        noted["rescaled"] = model.number(key) if key in model.values else usual
    if "table_beside" in model.row:
        noted["table_beside"] = grid = (isqrt(value_of(model, model.row["table_beside"])),) * 2
        key = model.row["table_beside"][0]
        findings = (*findings, finding("table-beside", key=key, grid=size_of(grid)))
    enc = model.named(findings, block["encoding"], d=d, grid=sides, **parameters)
    return replace(enc, params={**enc.params, **noted})


def value_of(model: ModelConfig, spec: Sequence[Any], place: int = 0) -> int:
    """Return a whole number [keys, default] of a config, from a list the item at a place."""
    keys, default = spec
    key, value = model.first(*([keys] if isinstance(keys, str) else keys))
    if isinstance(value, list) and -len(value) <= place < len(value):
        value = value[place]
    return replace(model, values={key: value}).count(key) or default or 0


def sides_of(model: ModelConfig, block: Block) -> tuple[Sides, tuple[Finding, ...]]:
    """Return the sides of the grid: requested, from the config, or default sides with a note."""
    if model.grid:
        return tuple(model.grid), ()
    if "sides" not in block:
        usual = tuple(block["usual"])
        return usual, (finding("grid-default", config=model.label, grid=size_of(usual)),)
    places = range(-len(block["sides"]), 0)  # in a list, rows and columns are last
    return tuple(side_of(model, *axis) for axis in zip(block["sides"], places, strict=True)), ()


def side_of(model: ModelConfig, axis: Values, place: int) -> int:
    """Return the number of points along one axis."""
    size, over, kernel = (
        value_of(model, axis[key], place) if key in axis else 1
        for key in ("size", "over", "kernel")
    )
    side = (size - kernel) // over + 1 if "kernel" in axis else size // over
    side = -(-side // value_of(model, axis["again"])) if "again" in axis else side
    if side < 1:
        raise PefourierError(f"{model.label} has no patch of {over} in {size}; give --grid")
    return side


def prefix_of(model: ModelConfig, block: Block) -> int:
    """Return the number of rows before the grid."""
    registers = model.count(block["registers"], minimum=0) if "registers" in block else 0
    return model.prefix or int(block.get("prefix", 0)) + (registers or 0)


def values_read(model: ModelConfig, block: Block) -> Fields:
    """Read parameters from the config and its rope_parameters."""
    parameters = {}
    rope = model.section("rope_parameters")
    kind = rope.get("rope_type", "axial")
    if kind not in ("axial", "default"):
        raise rope.wrong("rope_type", kind, "axial or default; scaling on axes is not supported")
    for name, key in block.get("read", {}).items():
        section = rope if rope.get(key) is not None else model
        value = section.parameter(key, tuple[float, ...] if name != "rho" else float)
        if value is not None:
            parameters[name] = value
    return parameters


def references(model: ModelConfig, block: Block) -> tuple[float, ...]:
    """Return the base of each axis, divided by the scale of its coordinates."""
    bases = []
    for axis in block["reference"]:
        key, default = axis["scale"]
        if default == "by size":
            default = max(value_of(model, axis["size"]) // SCALED_FROM, 1)
        bases.append(side_of(model, axis, -1) / divisor_of(model, key, default))
    return tuple(bases)


def divisor_of(model: ModelConfig, key: str, usual: float) -> float:
    """Read a divisor from a config, which must not be 0."""
    divisor = model.number(key)
    if divisor == 0:
        raise model.wrong(key, 0, "a number other than 0")
    return usual if divisor is None else divisor


def read_grid(model: ModelConfig, block: Block) -> Encoding | None:
    """Read the table of positions from the weights in the config's folder, on its grid."""
    tensors = grid_tensors(model)
    if len(tensors) != 1:
        return None
    ((name, path),) = tensors.items()
    # the number of rows before the grid follows from the total
    enc = load_tensor(replace(model, length=None), name, path)
    is_set = "sides" in block or model.grid
    sides, notes = sides_of(model, block) if is_set else (usual_grid(len(enc))[0], ())
    if others := [] if model.part else sorted(sibling_tensors(model, DISPLACED)):
        facts = {"name": shown(name), "count": len(others), "last": shown(others[-1])}
        enc = replace(enc, findings=(finding("biases-by-layer", "beside", **facts), *enc.findings))
    if is_set and "patched" not in block.get("when", ()) and not (model.grid or model.prefix):
        shape, rows = (len(enc), enc.dim), count_points(sides) + prefix_of(model, block)
        doubts = shape_findings(model, name, path, shape, (rows, None))
        enc = replace(enc, findings=(*enc.findings, *doubts))
    if enc.domain.grid:
        return enc
    prefix = model.prefix or max(len(enc) - count_points(sides), 0)
    check_fit(f"{name} of {shown(path)}", len(enc), sides, prefix)
    params = {**enc.params, "grid": sides, "prefix": prefix}
    findings = (*enc.findings, *notes)
    return replace(enc, domain=lattice(sides, prefix), params=params, findings=findings)


def read_displacements(model: ModelConfig) -> Encoding | None:
    """Read the biases by displacement, or vectors by lag, of one layer; None without tables."""
    block, kinds = block_of(model), (model.row or {"kind": "relative"}).get("kind", "").split()
    if block and (block["encoding"] == "learned" or not BUILDERS[block["encoding"]].untrained):
        block = None  # its sides describe a grid, not a window
    is_named = bool(DISPLACED.search(model.part))
    if not (block or is_named) and ("relative" not in kinds or grid_tensors(model)):
        return None
    tensors = sibling_tensors(model, DISPLACED)
    if not tensors:
        if block is None:
            return None
        where = f" of {shown(model.part)}" if model.part else ""
        raise UnknownPositions(
            f"the biases of {shown(model.file)} are learned, and its folder has no weights{where} "
            "with biases; put model.safetensors there"
        )
    names = sorted(sorted(tensors), key=lambda name: [*map(int, re.findall(r"\d+", name))])
    enc = read_stored(model, block, names[0], tensors[names[0]])
    if len(names) > 1:
        facts = {"name": shown(names[0]), "last": shown(names[-1]), "count": len(names)}
        enc = replace(enc, findings=(finding("biases-by-layer", "windows", **facts), *enc.findings))
    return replace(enc, origin="weights")


def read_stored(model: ModelConfig, block: Block | None, name: str, path: str) -> Encoding:
    """Read the biases of a window, or the vectors of lags, from a tensor."""
    from pefourier.encodings.sources.tables import read_named_table

    stored, window = read_named_table(path, name), tuple(model.grid)
    if block and "sides" in block:
        window, _ = sides_of(model, block)
    rows, heads = stored.vectors.shape[0], stored.vectors.shape[-1]
    is_of_lags = "rel_pos_" in name
    fits = window_of_rows(rows, window, axes=1 if is_of_lags else 2)
    if not fits or stored.vectors.ndim > 2 or (model.grid and fits != tuple(model.grid)):
        size = f" of {size_of(window)}" if window else ""
        raise PefourierError(
            f"{name} of {shown(path)}: {rows} rows do not fit the displacements of a window{size}"
        )
    model.dimension(heads, f"tensor {name}")
    others = rows - len(lags_on(fits))  # of a class token
    expected = len(lags_on(window)) + others if window else None
    return biases_within(
        fits,
        stored.vectors,
        "lags" if is_of_lags else "biases",
        params={"path": path, "array": name, "grid": fits, "d": heads, "model_type": model.kind},
        eps=stored.eps,
        findings=shape_findings(model, name, path, (rows, heads), (expected, None)),
        injection="key" if is_of_lags else "bias",
    )


def window_of_rows(rows: int, window: Sides, axes: int) -> Sides:
    """Return the window with this number of displacements, `window` if it fits; () if none fits.

    >>> window_of_rows(172, (4, 12), 2), window_of_rows(127, (14, 14), 1)
    ((7, 7), (64,))
    """
    lines = [round(max(rows - others, 0) ** (1 / axes)) for others in (0, OF_CLASS_TOKEN)]
    for sides in (window, *(((n + 1) // 2,) * axes for n in lines)):
        if len(sides) == axes and rows - len(lags_on(sides)) in (0, OF_CLASS_TOKEN):
            return sides
    return ()
