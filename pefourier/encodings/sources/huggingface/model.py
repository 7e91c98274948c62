"""Open Hugging Face's config.json, as data, and read the positions that it sets.

Conventions
-----------
The rows of `pefourier.encodings.sources.huggingface.config` hold, by ``model_type``, the defaults
of a model's source code: sizes, the offset of the first position, the order of columns. Keys that
name remote code (``auto_map``) are never followed.

A key with a name about positions is unread if no reader has used it and its row does not name it. A
key that is null, false or empty has no effect. `HARMLESS` lists keys that repeat what the reader
knows, or that no model of transformers reads.

Keys, defaults and their precedence are those of transformers 5.23; a config that it cannot compute
or refuses is refused here. Its warnings become findings of the encoding, with codes that begin with
``rope-``. The functions `lint_keys`, `lint_lengths` and `lint_sizes` yield findings about a
`ConfigCase`; findings.toml explains them. A warning reports a mistake, or two settings that
contradict each other. A note reports what readers other than transformers 5 may read differently.
Each finding states what to write; ``context --against`` shows the effect of another reading. No
published config that transformers loads has a warning.

Weights
-------
Weights are the .safetensors files in the config's folder: the files that
``model.safetensors.index.json`` lists, or files with the usual names. `first_row` is the row of
position 0 in a table. Rows of a bias table are the displacements query - key; the three rows of a
class token come last (Swin, BEiT). SAM has vectors of lags along one axis and adds their products
with queries to the scores. Layers have separate tables: the first is read, or the table that
``#NAME`` selects by its name or a part of the name.

Keys of rows
------------
``xl`` of a row holds ``fixed``, the parameters of `xl` that are the same in all models of the type;
``part``, the name of the part with relative sinusoids if others have none.

The key ``axial`` of a model type's row holds a list of grids; the first with a matching ``when``
[key, value] applies. Keys: ``encoding`` (learned: a table in the weights), its ``own`` parameters,
and parameters that are ``read`` (parameter: key of the config); ``d`` (``head``, or ``width`` over
``heads``; without ``width``, ``head`` times ``heads``); ``sides``, one per axis: a ``size`` over
another, each [key, default] (``kernel``: size of the first patch); ``usual``, default sides;
``prefix``, and the key of ``registers``; ``merged``, the key for the side of blocks in the order of
tokens; ``reference``, the base of both axes over a scale.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, replace
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import chain
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    Findings,
    Interleaving,
    VectorsAt,
    axes_of_sections,
    describe_axes,
    exchanged,
    finding,
    from_table,
    lags_on,
    lattice,
    rows_up_to,
)
from pefourier.encodings.families.relative import of_distances, t5_buckets
from pefourier.encodings.families.rotary import (
    logits_gain,
    original_of_llama3,
    rotated_share,
    scaling_parameters,
)
from pefourier.encodings.grids import (
    OF_CLASS_TOKEN,
    biases_within,
    check_fit,
    count_points,
    size_of,
    usual_grid,
)
from pefourier.encodings.registry import BUILDERS, REASONS, build
from pefourier.encodings.sources.huggingface.config import (
    LENGTHS,
    LONGEST,
    NESTED,
    ORIGINAL,
    PAIRED,
    SYNONYMS,
    WIDTH,
    LayerRun,
    ModelConfig,
    ModelRow,
    Pairing,
    as_timm,
    choose_part,
    family_of,
    first_names,
    layer_schedule,
    layers_without_positions,
    noted,
    rotary,
    rotates_by_type,
    type_row,
    version,
)
from pefourier.encodings.sources.json_object import HEADS, LAYERS, Section, TrackedKeys, read_object
from pefourier.errors import PefourierError, UnknownPositions, is_number, shown, unknown
from pefourier.types import (
    Array,
    Counts,
    Fields,
    Floats,
    Ints,
    Places,
    Reals,
    Strings,
    Texts,
    Values,
    frozen,
    frozen_arrays,
)
from pefourier.writing.files import inside, is_folder, os_errors, read_toml, split_spec
from pefourier.writing.text import first_few

WEIGHTS = re.compile(r"(model|diffusion_pytorch_model)[-.\w]*\.safetensors")
INDEX = re.compile(r"(model|diffusion_pytorch_model)\.safetensors\.index\.json")
TENSOR = re.compile(r"(^|\.)(wpe|embed_positions|positions?_embed(ding)?s?)(\.weight)?$")
GRID_TENSOR = re.compile(r"(^|\.)pos_embed(\.weight)?$")  # SAM, Qwen3-VL
DISPLACED = re.compile(r"(^|\.)(relative_position_bias_table|rel_pos_[thw])$")  # in vision models
IMAGES = re.compile("image|vision|visual")  # towers; their sizes are in other configs
EMBEDDED = ("embedding_size", "input_embedding_size")  # width of embeddings before a projection
T5_BIAS = re.compile(r"(^|\.)(?<!EncDecAttention\.)relative_attention_bias\.weight$")
LAYER = re.compile(r"(?:^|\.)(?:block|layers?)\.(\d{1,5})\.")
PHASES = 2e-6  # phase error per position that float32 causes


def sibling_tensors(model: ModelConfig, *patterns: re.Pattern[str]) -> dict[str, str]:
    """Return the tensors in the config's folder that match the first fitting pattern, with files.

    Of a selected part only: a section of a name between dots, such as a layer, or the whole name.
    """
    stored = [*all_tensors(model.folder)]
    if part := model.part:
        stored = [(name, path) for name, path in stored if f".{part}." in f".{name}."]
    fits = ({name: path for name, path in stored if each.search(name)} for each in patterns)
    return next(filter(None, fits), {})


GRIDS = (GRID_TENSOR, TENSOR)  # tables on a grid, by their usual names


def all_tensors(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the tensors in a folder's weights, and their files."""
    from pefourier.encodings.sources.tables import array_names  # loads zipfile

    with os_errors("look into", folder):
        files = sorted(path.name for path in Path(folder).iterdir())
    index = next(filter(INDEX.fullmatch, files), None)
    if index is None:
        for path in (inside(folder, file) for file in filter(WEIGHTS.fullmatch, files)):
            yield from ((name, path) for name in array_names(path))
        return
    placed = Section(shown(index), read_object(inside(folder, index)))
    for name, file in placed.section("weight_map").values.items():
        if not isinstance(file, str) or "/" in file or os.sep in file:
            raise placed.wrong(name, file, "the name of a file in the same folder")
        yield name, inside(folder, file)


def first_row(model: ModelConfig) -> int:
    """Return the row of position 0 in the model's table."""
    first = model.row.first or 0
    if first != "padding":
        return int(first)
    padding = model.count("pad_token_id", minimum=0)
    return 2 if padding is None else padding + 1


def offset_notes(kind: str, offset: int) -> Findings:
    """Return a finding if the first rows of a table belong to no position."""
    return (finding("position-offset", kind=kind, offset=offset),) if offset else ()


def read_learned(model: ModelConfig) -> Encoding | None:
    """Read biases by displacement or learned positions from the weights in the config's folder."""
    biases = read_displacements(model)
    if biases or has_no_table(model):
        return biases
    stated = model.get("position_embedding_type", "absolute")
    if stated != "absolute" and not model.row.switch:
        raise model.wrong("position_embedding_type", stated, "absolute or rotary")
    table = only_one(text_tensors(model), model, "positions")
    if table is None and model.row:
        if model.is_sketch and model.longest() and not (model.part or model.row.axial):
            return declared_table(model)
        raise UnknownPositions(
            f"the positions of {model.shown_file} are learned; put model.safetensors in its folder"
        )
    return table and load_tensor(model, *table)


def first_of_layers(
    tensors: Mapping[str, str], variant: str
) -> tuple[str, str, tuple[Finding, ...]]:
    """Return the name and the file of the first of the tables by layer, with a finding."""
    names = sorted(tensors, key=lambda name: ([*map(int, re.findall(r"\d+", name))], name))
    return names[0], tensors[names[0]], one_of_several(variant, names[0], names)


def one_of_several(variant: str, name: str, names: Sequence[str]) -> Findings:
    """Return the finding that one of several tables is read, if there are others."""
    name, last, count = shown(name), shown(names[-1]), len(names)
    note = finding("biases-by-layer", variant, name=name, count=count, last=last)
    return (note,) if count > 1 or name != last else ()


def only_one(tensors: Mapping[str, str], model: ModelConfig, noun: str) -> tuple[str, str] | None:
    """Return the name and the file of the only tensor; None if there is no tensor."""
    if len(tensors) > 1:
        raise PefourierError(
            f"{shown(model.folder)} holds several tables of {noun}, "
            f"{first_names(tensors)}; name one, {shown(model.file + '#' + next(iter(tensors)))}"
        )
    return next(iter(tensors.items()), None)


def text_tensors(model: ModelConfig) -> dict[str, str]:
    """Return tables of positions: for an inner ``text_config``, those of ``text_model``."""
    tensors = sibling_tensors(model, TENSOR)
    stem, ending, _ = model.key.partition("_config")
    start = re.compile(rf"(^|\.){re.escape(stem)}")
    inner = {name: path for name, path in tensors.items() if ending and start.search(name)}
    return inner or tensors


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


def unlike_config(model: ModelConfig, name: str, path: str, shape: Counts) -> Findings:
    """Return a warning if the shape of a table of positions contradicts its config."""
    if "axial" in model.row or not name.endswith(".weight") or IMAGES.search(name):
        return ()
    keys = model.lengths[0]
    if "decoder" in name.split("."):
        keys = ("max_target_positions", *keys)
    first, rows = model.row.first or 0, model.count(*keys)
    if first != "padding":  # its rows are included
        rows = rows and rows + first
    elif model.row.table:  # such sinusoids grow on demand
        rows = None
    widths = {n for key in (*EMBEDDED, *model.own("width", WIDTH)[0]) if (n := model.count(key))}
    if rows in (None, shape[0]) and (not widths or shape[1] in widths):
        return ()
    is_transposed = rows in (None, shape[1]) and shape[0] in widths
    note = finding(
        "weights-config",
        "transposed" if is_transposed else "shape",
        config=model.label,
        name=shown(name),
        path=shown(path),
        shape=shape,
        expected=f"({rows or 'any'}, {' or '.join(map(str, sorted(widths))) or 'any'})",
    )
    return (note,)


def as_stored(model: ModelConfig, enc: Encoding) -> Encoding:
    """Compare the sinusoids that a model computes with tables in its weights.

    A model loads stored tables. If a table differs from the formula by more than the phase error of
    float32, the table is returned, with a warning.
    """
    for name, path in text_tensors(model).items():
        if not model.part and model.row.learned_part in name.split("."):
            continue
        stored = load_tensor(replace(model, length=None), name, path)
        rows = np.arange(len(stored))
        tolerance = 4 * stored.eps + PHASES * (rows + enc.params["offset"])
        apart = np.abs(stored.table() - enc.vectors(rows)) if stored.dim == enc.dim else np.inf
        if np.any(apart > tolerance[:, None]):
            own = {"name": shown(name), "path": shown(path), "kind": shown(model.kind)}
            doubt = finding("weights-config", "sinusoids", **own)
            return noted(load_tensor(model, name, path), doubt)
        enc = noted(enc, *(note for note in stored.findings if note not in enc.findings))
    return enc


def read_t5(model: ModelConfig) -> Encoding:
    """Read T5's biases, one column per head: trained, by default the encoder's, or untrained."""
    from pefourier.encodings.sources.tables import read_table

    buckets = model.count("relative_attention_num_buckets") or 32
    settings: Fields = {"buckets": buckets, "causal": "decoder" in model.part.split(".")}
    settings["max_distance"] = model.count("relative_attention_max_distance") or 128
    tensors = sibling_tensors(model, T5_BIAS)
    if not model.part:
        tensors = {k: path for k, path in tensors.items() if "encoder" in k.split(".")} or tensors
    if not tensors:
        return model.build("t5", heads_of(model), finding("untrained", "lags"), **settings)
    name, path, notes = first_of_layers(tensors, "plain")
    bias, eps = read_table(path, name)
    if len(bias) != buckets:
        rows = f"{buckets} rows (relative_attention_num_buckets), got {len(bias)}"
        raise PefourierError(f"{name} of {shown(path)} must have {rows}")

    def vectors(lag: Array) -> Floats:
        return np.asarray(bias[t5_buckets(lag, **settings)], dtype=float)

    enc = model.build("t5", model.dimension(bias.shape[1], f"tensor {name}"), *notes, **settings)
    return of_weights(enc, settings, vectors, eps, name, path)


def of_weights(
    enc: Encoding,
    settings: Collection[str],
    vectors: VectorsAt,
    eps: float,
    name: str,
    path: str,
) -> Encoding:
    """Return a built encoding with the trained vectors of a tensor in place of the initial ones."""
    read = {"length", "d", "model_type", *settings}  # others are about initial vectors
    params = {key: value for key, value in enc.params.items() if key in read}
    params |= {"path": path, "array": name}
    return replace(
        enc,
        vectors=vectors,
        params=params,
        eps=eps,
        origin="weights",
        untrained=False,
    )


def has_no_table(model: ModelConfig) -> bool:
    """Return whether a model lacks its type's table, and has only relative distances at most."""
    return bool(model.row.relative and not model.get("position_biased_input"))


def declared_table(model: ModelConfig) -> Encoding:
    """Return a table of positions with the size of the config and unknown vectors."""
    longest, first = model.longest() or 1, first_row(model)
    # rows of padding are among the longest
    length = max(longest - first, 1) if model.row.first == "padding" else longest
    rows, sized = max(longest, first + length), build("learned", length=length, d=1)
    params = {"length": length, "rows": rows, "offset": first, "path": model.file}
    return replace(sized, params={**params, "model_type": model.kind})


VECTORS = re.compile(r"(^|\.)rel_embeddings\.weight$")


def read_lags(model: ModelConfig) -> Encoding | None:
    """Read the sines and cosines of lags that a model's source code computes.

    Another part of the model may have other positions.
    """
    row = model.row.xl
    if model.part != row.get("part", model.part):
        return None
    if "part" not in row:
        check_part(model)
    clamp = max(model.count("clamp_len", minimum=-1) or 0, 0)
    causal = model.get("attn_type") == "uni"
    return model.build("xl", model.width, causal=causal, clamp=clamp, **row["fixed"])


def distance_terms(model: ModelConfig) -> Texts:
    """Return the terms of DeBERTa's scores, c2p and p2c; () if distances are not used."""
    terms = model.get("pos_att_type") or ()
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    if not isinstance(terms, list | tuple) or not {*map(str, terms)} <= {"c2p", "p2c"}:
        raise model.wrong("pos_att_type", terms, "c2p|p2c or c2p")
    return tuple(terms) if model.get("relative_attention") is True else ()


def read_terms(model: ModelConfig) -> Encoding | None:
    """Read DeBERTa's vectors of distances, or its table of positions.

    The vectors are those of the weights, normalized if the model normalizes them, or their values
    before training.
    """
    from pefourier.encodings.sources.tables import read_numbers, read_table

    terms = distance_terms(model) if has_no_table(model) else ()
    if not terms:
        return read_kind(model)
    if "c2p" not in terms:
        raise model.wrong("pos_att_type", "|".join(terms), "c2p|p2c or c2p")
    longest, buckets = (
        max(model.count(key, minimum=-1) or 0, 0)
        for key in ("max_relative_positions", "position_buckets")
    )
    longest = longest or model.longest() or 512
    buckets, d = buckets if model.row.relative == "deberta-v2" else 0, model.width
    settings = {"buckets": buckets, "max_distance": longest, "p2c": "p2c" in terms}
    notes = [finding("with-convolution")] if "convolutional" in model.row.kind else []
    tensor = only_one(sibling_tensors(model, VECTORS), model, "distances")
    if tensor is None:
        return model.build("deberta", d, finding("untrained", "lags"), *notes, **settings)
    name, path = tensor
    table, eps = read_table(path, name)
    shape = 2 * (buckets or longest), d
    if table.shape != shape:
        raise PefourierError(f"{name} of {shown(path)} must have shape {shape}; got {table.shape}")
    vectors = np.asarray(table, dtype=float)
    if "layer_norm" in str(model.get("norm_rel_ebd")).lower():
        paths = dict(all_tensors(model.folder))
        stem = name.replace("rel_embeddings.weight", "LayerNorm.")
        norms = [f"{paths.get(stem + key, path)}#{stem}{key}" for key in ("weight", "bias")]
        gain, shift = map(read_numbers, norms)
        vectors = vectors - vectors.mean(axis=1, keepdims=True)
        floor = model.number("layer_norm_eps") or 1e-7
        vectors = vectors / np.sqrt(vectors.var(axis=1, keepdims=True) + floor) * gain + shift
    rows = of_distances(1, vectors, buckets, longest).vectors
    enc = model.build("deberta", d, *notes, **settings)
    return of_weights(enc, settings, rows, eps, name, path)


def read_alibi(model: ModelConfig) -> Encoding | None:
    """Read ALiBi, one column per head; None if the config switches it off."""
    row = model.row
    attention = model.section(row.inside) if row.inside else model
    alibi = attention.get("alibi", row.kind == "alibi")
    if not isinstance(alibi, bool):
        raise attention.wrong("alibi", alibi, "true or false")
    if not alibi:
        return None
    if (steepest := attention.number("alibi_bias_max")) not in (None, 8.0):
        raise attention.wrong("alibi_bias_max", steepest, "8, the slopes of ALiBi")
    return model.build("alibi", heads_of(model), causal=True)


def heads_of(model: ModelConfig) -> int:
    """Return the number of heads of a model whose biases are those of all layers."""
    check_part(model)
    return model.dimension(model.sized(model.own("heads", HEADS)), "number of heads")


def check_part(model: ModelConfig) -> None:
    """Refuse a part after # other than encoder and decoder."""
    if model.part not in ("", "encoder", "decoder"):
        raise unknown(f"part of {model.shown_file}", model.part, ("encoder", "decoder"))


def read_sinusoids(model: ModelConfig) -> Encoding | None:
    """Read sinusoids that the model's source code computes, or a learned table in their place."""
    row = model.row
    key, expected = row.when or ("", None)
    if "table" not in row or model.get(key) is not expected or model.part == row.learned_part:
        return read_learned(model) if "learned" in row.kind else None
    check_part(model)
    offset, table = first_row(model), row.table
    notes = offset_notes(model.kind, offset)
    enc = model.build("sinusoidal", model.width, *notes, **table, offset=offset)
    if not row.cosines_first:
        return as_stored(model, enc)
    return replace(enc, vectors=lambda x: exchanged(enc.vectors(x), table["layout"]))


def read_rotary(model: ModelConfig) -> Encoding | None:
    """Read a rotation; no positions, or others, if the config switches it off."""
    if rotates(model):
        return read_rotation(model)
    if model.row.otherwise:
        return READERS[model.row.otherwise](model)
    is_off = model.get("position_embedding_type") in ("nope", "none", "no_position")
    return model.build("none", model.width) if model.row.kind == "rotary" or is_off else None


SCALED_FROM = 64  # patches per side at which PixArt's scale is 1


def read_axes(model: ModelConfig) -> Encoding | None:
    """Read the positions on a vision model's grid, or its biases by displacement."""
    block = block_of(model)
    if model.row.table_beside and model.part and sibling_tensors(model, *GRIDS):
        block = ModelRow(encoding="learned")
    name = block.encoding
    if name in (None, "learned") or block.stored:
        enc = read_grid(model, block) if block else None
        if enc is not None or not block.stored:
            return enc or read_kind(model)
    elif BUILDERS[name].untrained:
        return read_biases(model, block)
    if model.part:
        raise PefourierError(f"{model.shown_file} has no part {shown(model.part)}; leave out #")
    return formula(model, block)


def block_of(model: ModelConfig) -> ModelRow:
    """Return the first block of the model's row that matches its config; empty without one."""
    for block in map(ModelRow, model.row.axial or ()):
        key, expected, usual = block.when or ("", None, None)
        if not key or model.get(key, usual) == expected:
            return block
    return ModelRow()


def formula(model: ModelConfig, block: ModelRow) -> Encoding:
    """Build the encoding that the model computes, or that its training starts from."""
    sides, notes = sides_of(model, block)
    parameters = {**(block.own or {}), **values_read(model, block)}
    if axis := block.reference:
        parameters["reference"] = (side_of(model, axis, -1) / scale_of(model, axis),) * 2
    registers = model.count(block.registers or "", minimum=0) or 0
    parameters["prefix"] = model.prefix or (block.prefix or 0) + registers
    if block.note:
        notes = (*notes, finding("grid-convention", note=block.note))
    size = block.d  # of a head, or the width of the model if vectors are added to embeddings
    head, width = (value_of(model, size.get(key, ("", 0))) for key in ("head", "width"))
    heads = value_of(model, size.get("heads", ("", 1)))
    if not head and width % heads:
        raise PefourierError(f"{model.label}: {heads} heads do not divide its width {width}")
    d = head or width // heads
    d = model.dimension(d * (1 if width else heads) or None, "size of a head or width")
    facts: Fields = {}
    if block.merged:
        facts["merged"] = side = value_of(model, block.merged)
        if side > 1:
            key = block.merged[0]
            merged = finding("tokens-in-blocks", key=key, side=side, config=model.label)
            notes = (*notes, merged)
    if beside := model.row.table_beside:
        facts["table_beside"] = grid = (isqrt(value_of(model, beside)),) * 2
        notes = (*notes, finding("table-beside", key=beside[0], grid=size_of(grid)))
    return noted(model.named(notes, block.encoding, d=d, grid=sides, **parameters), **facts)


def value_of(model: ModelConfig, spec: Sequence[Any], place: int = 0) -> int:
    """Return a whole number [keys, default] of a config, from a list the item at a place."""
    key, default = spec
    value = model.get(key)
    if isinstance(value, list) and -len(value) <= place < len(value):
        value = value[place]
    return replace(model, values={key: value}).count(key) or default or 0


def sides_of(model: ModelConfig, block: ModelRow) -> tuple[Counts, Findings]:
    """Return the sides of the grid: requested, from the config, or default sides with a note."""
    if model.grid:
        return tuple(model.grid), ()
    if not block.sides:
        usual = tuple(block.usual)
        return usual, (finding("grid-default", config=model.label, grid=size_of(usual)),)
    places = range(-len(block.sides), 0)  # in a list, rows and columns are last
    return tuple(side_of(model, *axis) for axis in zip(block.sides, places, strict=True)), ()


def side_of(model: ModelConfig, axis: Values, place: int) -> int:
    """Return the number of points along one axis; by default the kernel is as long as its step."""
    size, over, kernel, again = (
        value_of(model, axis.get(key, ("", 0)), place)
        for key in ("size", "over", "kernel", "again")
    )
    over = over or 1
    side = -(-((size - (kernel or over)) // over + 1) // (again or 1))
    if side < 1:
        raise PefourierError(f"{model.label} has no patch of {over} in {size}; give --grid")
    return side


def values_read(model: ModelConfig, block: ModelRow) -> Fields:
    """Read parameters from the config and its rope_parameters."""
    parameters = {}
    rope = model.section("rope_parameters")
    kind = rope.get("rope_type", "axial")
    if kind not in ("axial", "default"):
        raise rope.wrong("rope_type", kind, "axial or default; scaling on axes is not supported")
    for name, key in (block.read or {}).items():
        section = rope if rope.get(key) is not None else model
        value = section.parameter(key, Reals if name != "rho" else float)
        if value is not None:
            parameters[name] = value
    return parameters


def scale_of(model: ModelConfig, axis: Values) -> float:
    """Return the scale of coordinates."""
    key, default = axis["scale"]
    if default == "by size":
        default = max(value_of(model, axis["size"]) // SCALED_FROM, 1)
    divisor = model.number(key)
    if divisor == 0:
        raise model.wrong(key, 0, "a number other than 0")
    return divisor or float(default)


def read_grid(model: ModelConfig, block: ModelRow) -> Encoding | None:
    """Read the table of positions from the weights in the config's folder, on its grid."""
    tensors = sibling_tensors(model, *GRIDS)
    if len(tensors) != 1:
        return None
    ((name, path),) = tensors.items()
    # the number of rows before the grid follows from the total
    enc = load_tensor(replace(model, length=None), name, path)
    is_set = block.sides or model.grid
    sides, notes = sides_of(model, block) if is_set else (usual_grid(len(enc))[0], ())
    if others := [] if model.part else sorted(sibling_tensors(model, DISPLACED)):
        beside = one_of_several("beside", name, others)
        enc = replace(enc, findings=(*beside, *enc.findings))
    if enc.domain.grid:
        return enc
    prefix = model.prefix or max(len(enc) - count_points(sides), 0)
    check_fit(f"{name} of {shown(path)}", len(enc), sides, prefix)
    enc = replace(enc, domain=lattice(sides, prefix))
    return noted(enc, *notes, grid=sides, prefix=prefix)


def read_displacements(model: ModelConfig) -> Encoding | None:
    """Read the biases by displacement, or vectors by lag, of one layer; None without tables."""
    tensors = sibling_tensors(model, DISPLACED)
    is_beside = not DISPLACED.search(model.part) and sibling_tensors(model, *GRIDS)
    return None if is_beside or not tensors else read_biases(model, ModelRow())


def read_biases(model: ModelConfig, block: ModelRow) -> Encoding:
    """Read the biases of a window, or the vectors of lags, of one layer from the weights."""
    from pefourier.encodings.sources.tables import read_named_table

    tensors = sibling_tensors(model, DISPLACED)
    if not tensors:
        where = f" of {shown(model.part)}" if model.part else ""
        raise UnknownPositions(
            f"the biases of {model.shown_file} are learned, and its folder has no weights{where} "
            "with biases; put model.safetensors there"
        )
    name, path, notes = first_of_layers(tensors, "windows")
    stored = read_named_table(path, name)
    window = sides_of(model, block)[0] if model.grid or block.sides else ()
    rows, heads = stored.vectors.shape[0], stored.vectors.shape[-1]
    is_of_lags = "rel_pos_" in name
    fits = window_of_rows(rows, window, axes=1 if is_of_lags else 2)
    if not fits or stored.vectors.ndim > 2 or (model.grid and fits != tuple(model.grid)):
        size = f" of {size_of(window)}" if window else ""
        raise PefourierError(
            f"{name} of {shown(path)}: {rows} rows do not fit the displacements of a window{size}"
        )
    model.dimension(heads, f"tensor {name}")
    enc = biases_within(
        fits,
        stored.vectors,
        "lags" if is_of_lags else "biases",
        params={"path": path, "array": name, "grid": fits, "d": heads, "model_type": model.kind},
        eps=stored.eps,
        injection="key" if is_of_lags else "bias",
    )
    return replace(enc, origin="weights", findings=(*notes, *enc.findings))


def window_of_rows(rows: int, window: Counts, axes: int) -> Counts:
    """Return the window with this number of displacements, `window` if it fits; () if none fits.

    >>> window_of_rows(172, (4, 12), 2), window_of_rows(127, (14, 14), 1)
    ((7, 7), (64,))
    """
    lines = [round(max(rows - others, 0) ** (1 / axes)) for others in (0, OF_CLASS_TOKEN)]
    for sides in (window, *(((n + 1) // 2,) * axes for n in lines)):
        if len(sides) == axes and rows - len(lags_on(sides)) in (0, OF_CLASS_TOKEN):
            return sides
    return ()


Notes = Iterator[Finding]

USUAL_HEADS = {*range(32, 129, 16), 100, 120, 192, 256, 512}
LONG = 4  # ratio to the trained length from which a context needs scaling
DIFFERENCES = 4  # largest number of differences in a finding
ALIASES = {"default": "none", "mrope": "none", "su": "longrope"}

TYPES = ALIASES | {
    name: name for name in "linear dynamic yarn longrope llama3 proportional".split()
}
REQUIRED = {
    "linear": "factor",
    "dynamic": "factor",
    "yarn": "factor",
    "longrope": "short_factor long_factor",
    "llama3": "factor low_freq_factor high_freq_factor",
}
COMMON = set("rope_type type rope_theta partial_rotary_factor".split())
CLIPPED = ("use_cope", "use_hardclip")  # clipped RoPE, arXiv 2602.05258, which is refused
SEEN = 300  # largest number of keys that are compared with known keys
NAMED = 5  # largest number of keys with findings


def section_by_alpha(model: ModelConfig, section: Section) -> Section:
    """Return HunYuan's static NTK scaling if its dynamic scaling sets alpha."""
    alpha = section.number("alpha") if type_of_scaling(model, section) == "dynamic" else None
    if not alpha:
        return section
    others = {key: value for key, value in section.values.items() if key in COMMON - {"type"}}
    return replace(section, values={**others, "rope_type": "ntk", "factor": alpha})


def section_of_params(config: ModelConfig, _: Section) -> Section:
    """Return the scaling of a params.json: Mistral's ``yarn``, or Meta's ``use_scaled_rope``."""
    yarn = config.section("yarn")
    if yarn.values:
        values = {YARN_OF_PARAMS.get(key, key): value for key, value in yarn.values.items()}
        values.pop("apply_scale", None)
        if yarn.parameter("apply_scale", bool) is False:
            values["attention_factor"] = 1.0
        return replace(yarn, values={"rope_type": "yarn", **values})
    if config.parameter("use_scaled_rope", bool):
        factor = config.number("rope_scaling_factor") or 8.0
        return Section(f"use_scaled_rope of {config.label}", SCALED_ROPE | {"factor": factor})
    return yarn


YARN_OF_PARAMS = {"beta": "beta_fast", "alpha": "beta_slow"}
SECTIONS = {  # sections in a vendor's words, by name in a row
    "by alpha": section_by_alpha,
    "params": section_of_params,
}
SCALED_ROPE = {  # the scaling of llama-models if use_scaled_rope is true
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    ORIGINAL: 8192,
}


def read_scaling(
    model: ModelConfig, section: Section, *, layered: bool
) -> tuple[str, Fields, set[str]]:
    """Return the scaling of a section, its parameters for `rope`, and the keys that it may have."""
    kind = type_of_scaling(model, section)
    scaling = TYPES.get(kind, kind)
    kinds = {key: usual.annotation for key, usual in scaling_parameters(scaling).items()}
    needs_original = kinds.pop("original", None) is not None
    allowed = COMMON | kinds.keys()
    if needs_original and kind != "dynamic":
        allowed |= {ORIGINAL}
    if (keys := model.row.temperature) and keys.get("section") == "":
        allowed |= {keys["scale"], LONGEST[0]}
    for key in REQUIRED.get(scaling, "").split():
        implied = scaling == "yarn" and key in section.values  # null: the ratio of the lengths
        if section.get(key) is None and not implied:
            raise PefourierError(f"{section.label} has no {key}; rope_type {kind} needs it")
    if layered:
        kinds.pop("truncate", None)  # ignored in sections by layer
    settings = {key: section.parameter(key, annotation) for key, annotation in kinds.items()}
    if settings.get("attention_factor") == 0:  # `rope` reads 0 as not set
        raise section.wrong("attention_factor", 0, "a number above 0, or null for the formula")
    if needs_original:
        usual, longest = None if layered else model.row.original, model.longest()
        stated = stated_original(model, section, usual, layered=layered)
        original = (kind != "dynamic" and stated) or longest
        if original is None:
            label = section.label
            raise PefourierError(f"rope_type {kind} of {label} needs max_position_embeddings")
        settings["original"] = original
        if settings["factor"] is None and scaling in ("yarn", "longrope"):
            settings["factor"] = (longest or original) / original
    return scaling, settings, allowed


def type_of_scaling(model: ModelConfig, section: Section) -> str:
    """Return the rope_type of a section in the words of transformers."""
    _, kind = section.first("rope_type", "type")
    kind = "default" if kind is None else kind
    if not isinstance(kind, str):
        raise section.wrong("rope_type", kind, "a string")
    kind = str((model.row.renamed or {}).get(kind, kind))
    if kind in (model.row.scalings or ()):
        return kind
    if kind not in TYPES:
        raise unknown(f"rope_type of {section.label}", kind, TYPES)
    if TYPES[kind] != "none" and model.row.unscaled:
        why = f"{shown(model.kind)} {model.row['unscaled']}; give rope:inv_freq=FILE"
        raise PefourierError(f"rope_type {kind} of {section.label} is not supported: {why}")
    return kind


def warn_of_keys(section: Section, unused: list[str], allowed: set[str]) -> Notes:
    """Yield warnings for the first keys that the type of scaling does not use."""
    label, kind = section.label, section.first("rope_type", "type")[1] or "default"
    for key in unused[:NAMED]:
        similar = get_close_matches(key[:80], sorted(allowed), n=1)
        way = f"did you mean {similar[0]}?" if similar else "leave it out"
        if key == ORIGINAL:
            way = "leave it out, unless it is the trained length, which it then sets"
        yield finding("unread-key", "scaling", key=shown(key), section=label, type=kind, way=way)


def stated_original(
    model: ModelConfig, section: Section, usual: int | None = None, *, layered: bool
) -> int | None:
    """Return the trained length from the config (default `usual`) or from its scaling section."""
    outer = None if layered else model.count(ORIGINAL) or usual
    return outer or section.count(ORIGINAL)


def original_of_linear(longest: int | None, factor: float, lengths: Ints = ()) -> int | None:
    """Return the length before a linear scaling, if the longest length has only one reading.

    In some configs the longest sequence is the length after scaling (LLaMA-2-7B-32K), in others the
    length before, following earlier documentation of transformers (Vicuna 16k). The trained
    `lengths` of the family decide, or a factor that leaves fewer than two positions.

    >>> original_of_linear(4096, 4.0, [2048, 4096]), original_of_linear(32768, 8.0, [2048, 4096])
    (4096, 4096)
    >>> original_of_linear(128, 1000.0), original_of_linear(16384, 4.0)
    (128, None)
    """
    readings = {longest, longest / factor} & set(lengths) if longest else set()
    readings |= {longest} if longest and longest < 2 * factor else set()
    return int(readings.pop()) if len(readings) == 1 else None


def trained_as_stated(params: Values) -> int | None:
    """Return the trained length from a rotation's config or scaling; None if not set."""
    return params.get("trained") or params.get("original")


@frozen_arrays
class ConfigCase:
    """A rotation of a config, with the sections that it was read from."""

    model: ModelConfig
    layer: str  # type of layer; empty if there is one rotation for all
    section: Section
    type_keys: ModelRow
    longest: int | None  # sequence that the config allows
    enc: Encoding

    @cached_property
    def published(self) -> Values:
        """Return the training setup of published models of this type with this base."""
        return family_of(self.model.row, self.enc.params["rho"], self.layer)

    @cached_property
    def says(self) -> Callable[..., Finding]:
        """Return `finding` with facts about the rotation and its source for the messages."""
        return partial(
            finding,
            config=self.model.label,
            section=self.section.label,
            kind=shown(self.model.kind),
            params=self.enc.params,
            known=self.published,
            turns=self.type_keys,
            original=self.model.spelled(ORIGINAL),
        )


def lint_keys(case: ConfigCase) -> Notes:
    """Report keys that contradict each other, or that only some readers read."""
    model, section, params, says = case.model, case.section, case.enc.params, case.says
    scaling, unread = params["scaling"], model.row.unread or ()
    old, new = model.get("rope_scaling"), model.get("rope_parameters")
    sections: Fields = new if isinstance(new, dict) else {}
    # base and scaling under keys that only transformers 5 reads
    is_old = model.first("rope_scaling", "rope_theta", *case.type_keys.bases)[1] is not None
    unlike_older = params["rho"] != case.type_keys.base or scaling != "none"
    if sections and not is_old and unlike_older and section.get("rope_theta") is not None:
        if model.row.since != 5:  # else older readers do not know the type
            is_older = re.match("[0-4][.]", str(model.get("transformers_version")))
            words = f" and scaling {scaling}" if scaling != "none" else ""
            yield says("rope-new-keys", "older" if is_older else "newer", scaling=words)
    # two sections that differ; transformers uses rope_scaling
    if isinstance(old, dict) and old and sections and "rope_scaling" not in unread:
        first, second = (spelled_out(each, model.get("rope_theta")) for each in (old, sections))
        differences = [
            f"{key} {shown(first.get(key))} and {shown(second.get(key))}"
            for key in first | second
            if first.get(key) != second.get(key)
        ]
        if differences:
            said = ", ".join(differences[:DIFFERENCES])
            yield says("rope-spellings", said=said, taken="rope_scaling")
    # type and rope_type that differ, or a factor without a type
    names, factor = ALIASES | (model.row.renamed or {}), section.get("factor")
    kinds = [kind for key in ("rope_type", "type") if (kind := section.get(key)) is not None]
    if len({names.get(str(kind), kind) for kind in kinds}) == 2 and "type" not in unread:
        yield says("rope-two-types", one=shown(kinds[0]), other=shown(kinds[1]))
    elif not kinds and is_number(factor):
        if not any("did you mean rope_type" in note.message for note in case.enc.findings):
            yield says("rope-no-type", factor=factor)
    # a type of layer without a section among the sections by layer
    by_layer = any(isinstance(value, dict) for value in sections.values())
    if case.layer and by_layer and case.layer not in sections:
        yield says("rope-no-section", layer=shown(case.layer))
    # one of the two factors of YaRN's attention without the other
    pair = sorted(("mscale", "mscale_all_dim"), key=lambda key: not section.get(key))
    is_read = scaling == "yarn" and "attention_factor" not in section.values
    if is_read and section.get(pair[0]) and not section.get(pair[1]):
        yield says("rope-mscale", has=pair[0], lacks=pair[1])


def spelled_out(section: Values, base: object) -> Fields:
    """Return the settings of a section and the base above it, with names of transformers 5."""
    kind = section.get("rope_type", section.get("type", "default"))
    settings = {"rope_type": kind, "rope_theta": base} | {**section, "rope_type": kind}
    return {key: x for key, x in settings.items() if x is not None and key != "type"}


def lint_lost(case: ConfigCase) -> Notes:
    """Report a long context without scaling."""
    model, scaling, family = case.model, case.enc.params["scaling"], case.published
    stated, original = model.count(*LONGEST) or 0, model.count(ORIGINAL) or 0
    if scaling != "none":
        return
    if original and stated >= LONG * original:
        key = model.length_key
        yield case.says("rope-scaling-lost", "told", key=key, longest=stated, before=original)
    elif stated >= family.get("from", np.inf) and "factor" not in case.section.values:
        words = ", ".join(f"{key}={value}" for key, value in family["scaling"].items())
        yield case.says("rope-scaling-lost", "family", longest=stated, words=words)


def lint_lengths(case: ConfigCase) -> Notes:
    """Report lengths that contradict the scaling, and a base or scaling that is not set."""
    model, params, says, published = case.model, case.enc.params, case.says, case.published
    scaling, rho, longest = params["scaling"], params["rho"], case.longest or 0
    stated, before = model.count(*LONGEST) or 0, params.get("original")
    original = model.count(ORIGINAL) or 0
    # lengths before and after scaling that contradict the factor
    start = before or params.get("trained")
    ratio = longest / start if start else 0.0
    if scaling in ("yarn", "linear") and ratio not in (0, params["factor"], 1):
        yield says("rope-lengths", scaling, longest=longest, before=start, ratio=ratio)
    if scaling == "llama3" and 0 < ratio <= 1:
        yield says("rope-original", longest=longest)
    # a trained length that is missing, or that differs from the model family
    trained = published.get("trained")
    if scaling in ("yarn", "llama3", "longrope") and before:
        if not (case.section.get(ORIGINAL) or original or model.row.original):
            yield says("rope-original-missing")
        elif trained not in (None, before) and not (scaling == "llama3" and ratio <= 1):
            yield says("rope-original-unusual")
    # a base that the config leaves to its model type
    keys = (*THETA, *case.type_keys.bases)
    if case.layer or any(s.first(*keys)[1] is not None for s in (case.section, model)):
        return
    bases = {
        family["base"]: max(family.get("ended", 0), *family.get("lengths", (0,)), 0)
        for family in model.row.families or ()
    }
    others = [base for base, reach in bases.items() if reach >= stated and base != rho]
    if others and bases.get(rho, 0) < stated:
        yield says("rope-theta-default", "family", longest=stated, base=others[0])
    else:
        yield says("rope-theta-default", "usual" if rho == 1e4 else "other")


def lint_sizes(case: ConfigCase) -> Notes:
    """Report unusual or contradictory sizes of heads and numbers of rotary pairs."""
    model, type_keys, says, params = case.model, case.type_keys, case.says, case.enc.params
    # a head of hidden size / heads
    is_derived = type_keys.size and type_keys.head is None and model.d is None
    if is_derived and model.first(*type_keys.size)[1] is None:
        width = model.count(*type_keys.width[0], *WIDTH)
        heads, head = model.count(*type_keys.heads[0], *HEADS), params["d"]
        if width and heads and (width % heads or (head not in USUAL_HEADS and head > 32)):
            variant = "split" if width % heads else "unusual"
            yield says("rope-head-guessed", variant, width=width, heads=heads)
    # sections of M-RoPE that do not sum to the number of pairs
    numbers = case.section.get("mrope_section", model.row.sections)
    numbers, pairs = numbers if isinstance(numbers, list) else [], params["rotated"] // 2
    if numbers and all(isinstance(n, int) for n in numbers) and sum(numbers) != pairs:
        yield says("rope-sections", numbers=numbers, sum=sum(numbers), pairs=pairs)


INDEXER = "indexer"  # the part of a model that selects keys, with a separate rotation
IGNORED = {"mrope_section", "mrope_interleaved"}
THETA = ("rope_theta", "rotary_emb_base")
SHARE = ("partial_rotary_factor", "rotary_pct")
EVIDENCE = {"rope_parameters", "rope_scaling", "rotary_dim", *THETA, *SHARE}
UNKNOWN = ModelRow(  # keys for unknown model types
    size=("qk_rope_head_dim", "head_dim"),
    width=(WIDTH, None),
    heads=(HEADS, None),
    shares=(*SHARE, "rotary_dim"),
    bases=THETA,
)
Layer = tuple[Section, ModelRow]


LINTS = (lint_keys, lint_lost, lint_lengths, lint_sizes)


def read_rotation(
    model: ModelConfig, lints: Iterable[Callable[[ConfigCase], Notes]] = LINTS
) -> Encoding:
    """Read rotary positions from the new ``rope_parameters`` or the old ``rope_scaling``."""
    if len(model.grid) > 1 and rotates_on_axes(model):
        rule = "rotates text by one position, without a grid"
        raise PefourierError(f"{model.shown_file} {rule}; name an image's part, #vision_config")
    if model.part == INDEXER and model.row.indexer:
        return rotation_of_indexer(model)
    layer, section, type_keys = choose_layer(model, layer_sections(model))
    d = find_head(model, type_keys, layer)
    scaling, scaled, allowed = read_scaling(model, section, layered=bool(layer))
    unused = sorted(section.values.keys() - allowed - IGNORED)[:SEEN] if allowed else []
    for key in filter(model.get, CLIPPED):
        raise model.wrong(key, model.get(key), "false; or give rope:scaling=clip")
    theta, doubts = reconcile(section, THETA, model, type_keys.bases)
    partial, contradictions = find_share(model, section, type_keys, d, scaling)
    enc = model.build(
        "rope",
        d,
        *(() if layer else (*doubts, *contradictions)),
        *warn_of_keys(section, unused, allowed),
        *layer_notes(model),
        rho=type_keys.base if theta is None else theta,
        partial=partial,
        layout=layout_of(model),
        scaling=scaling,
        **scaled,
    )
    facts: Fields = dict(model.row.facts or ())
    if unused:
        facts["unread"] = tuple(unused)
    factor = scaled.get("factor") or 1.0
    if model.row.softmax and factor > 1 and (mscale := section.number("mscale_all_dim")):
        facts["softmax_factor"] = logits_gain(mscale, factor, section.label)
    if sections := sections_of(model):
        with suppress(PefourierError):  # sections that do not fit have a finding
            axes = axes_of_sections(*sections, enc.params["rotated"] // 2)
            facts["mrope_section"] = describe_axes(axes)
    stated = stated_original(model, section, layered=bool(layer))
    if stated and scaled.get("original") != stated:  # dynamic and linear ignore it
        facts["trained"] = stated
    enc = noted(enc, **facts)
    longest = model.longest()
    case = ConfigCase(model.untracked, layer, section, type_keys, longest, enc)
    enc = noted(enc, *chain.from_iterable(lint(case) for lint in lints))
    family, trained = case.published, None
    if trained_as_stated(enc.params):
        return enc
    if any(note.code == "rope-scaling-lost" for note in enc.findings):
        trained = family.get("trained")
    elif scaling in ("linear", "proportional"):
        trained = original_of_linear(longest, factor, family.get("lengths", ()))
    elif scaling == "factors":
        trained = original_of_llama3(enc.params)
    return noted(enc, trained=trained) if trained else enc


def rotation_of_indexer(model: ModelConfig) -> Encoding:
    """Return the rotation of the indexer: the frequencies of attention with a different pairing.

    If the config does not set the width of the indexer's heads, it is the rotated width.
    """
    enc = read_rotation(replace(model, part="", d=None))
    names = ("rho", "scaling", "length", *scaling_parameters(enc.params["scaling"]))
    settings = {key: enc.params[key] for key in names} | {"layout": model.row.indexer}
    rotated = enc.params["rotated"]
    d = max(model.count("index_head_dim") or 0, rotated)
    built = build("rope", spec=enc.spec, **settings, d=d, partial=rotated_share(rotated, d))
    return replace(built, params={**enc.params, **built.params, "softmax_factor": 1.0})


def rotates(model: ModelConfig) -> bool:
    """Return whether a model rotates queries and keys, by its type or the keys of its config."""
    if model.row:
        key, switch_values, usual = model.row.switch or ("", (None,), None)
        return model.row.kind == "rotary" and model.get(key, usual) in switch_values
    has_evidence = any(model.untracked.get(key) is not None for key in EVIDENCE)
    usual = "rotary" if has_evidence else None
    return model.get("position_embedding_type", usual) in ("rotary", "rope")


def layout_of(model: ModelConfig) -> str:
    """Return the layout of pairs, halves or interleaved."""
    layout = str(model.row.layout or "halves")
    if layout not in HALVED:
        return layout
    return "halves" if model.get(layout) is HALVED[layout] else "interleaved"


HALVED = {"use_hf_rope": True, "rope_interleave": False}  # keys that decide, for halves


def head_by_layer(model: ModelConfig, layer: str, keys: Strings) -> int | None:
    """Return the size of a head of a type of layer from ``per_layer_config``; None if not set."""
    section, kinds = model.section("per_layer_config"), model.get("layer_types")
    counts = {int(i): section.section(i).count("head_dim") for i in section.values if i.isdecimal()}
    usual = model.count("head_dim")
    if not any(counts.values()):  # the global layers of Gemma 4 differ only by these counts
        is_global = "per_layer_config" in model.values and "global_head_dim" in keys
        return usual if is_global else None
    if not isinstance(kinds, list):
        raise PefourierError(f"{section.label} needs layer_types, the type of each layer")
    widths = {counts.get(i) or usual for i, kind in enumerate(kinds) if kind == layer}
    if len(widths) > 1:
        raise PefourierError(
            f"{section.label} must set one head_dim for {shown(layer)}; "
            f"got {sorted(filter(None, widths))}"
        )
    return widths.pop() if widths else None


def find_head(model: ModelConfig, type_keys: ModelRow, layer: str = "") -> int:
    """Return the size of a head: from the config, the request, or the default of the type."""
    head = head_by_layer(model, layer, type_keys.size) if layer else None
    head = head or model.count(*type_keys.size)
    width, heads = model.sized(type_keys.width), model.sized(type_keys.heads)
    stated = head is not None
    nulled = type_keys.null and model.get(type_keys.size[0], ...) is None
    if (nulled or (head is None and type_keys.head is None)) and width and heads:
        head = max((1 if nulled else type_keys.times) * width // heads, 1)
        stated = model.first(*type_keys.width[0])[1] is not None
    head = head or type_keys.head
    return model.dimension(head, "head_dim") if stated or head is None else model.d or head


def find_share(
    model: ModelConfig, section: Section, type_keys: ModelRow, d: int, scaling: str
) -> tuple[float, Findings]:
    """Return the rotated share of a head, with findings."""
    if type_keys.fixed or (type_keys.whole and scaling == "none"):
        return 1.0, ()
    keys = tuple(key for key in type_keys.shares if "dim" not in key)
    if not model.row.layers and (type_keys.whole or scaling != "none"):
        keys = keys or SHARE[:1]
    partial, findings = reconcile(section, SHARE, model, keys)
    counted = [key for key in type_keys.shares if "dim" in key]
    rotated = model.count(*counted)
    if partial is not None:
        return partial, findings
    # the default share of the class applies only without a section
    if scaling == "none" and model.row.given_whole and section.key in model.row.layers:
        return 1.0, findings
    if rotated and rotated > d:
        raise model.wrong(model.first(*counted)[0], rotated, f"at most {d}, the size of a head")
    if rotated:
        return rotated_share(rotated, d), findings
    scaled = None if scaling == "none" else type_keys.scaled_share
    return type_keys.share if scaled is None else scaled, findings


def layer_notes(model: ModelConfig) -> Notes:
    """Yield findings about layers and tokens that differ from the encoding."""
    row = model.row
    written = model.untracked.get("model_type")
    if not row or (isinstance(written, str) and not type_row(written)):
        variant, kind = "like" if row else "halves", shown(written or "none")
        like = shown(model.kind)
        yield finding("model-type-unknown", variant, config=model.label, kind=kind, like=like)
    number = model.count(*LAYERS) or max(row.unrotated or [-1]) + 1  # by default
    unrotated = sorted(layers_without_positions(model, number))
    if unrotated:
        yield finding("rope-some-layers", "still", names=first_few([*map(str, unrotated)]))
    if row.heads_turned:
        yield finding("rope-some-layers", "heads", names=row.heads_turned)
    kinds = {kind: rotates_by_type(model, kind) for kind in row.layer_types or ()}
    names = first_names(kind for kind, turns in kinds.items() if turns)
    if row.turning and names and not all(kinds.values()):
        yield finding("rope-some-layers", "types", names=names)
    if rotates_on_axes(model):
        yield finding("rope-axes")


def rotates_on_axes(model: ModelConfig) -> bool:
    """Return whether tokens of images and videos have positions on three axes (M-RoPE)."""
    return bool(model.row.axes) or sections_of(model) is not None


def sections_of(model: ModelConfig) -> tuple[Counts, Interleaving] | None:
    """Return the number of pairs of each axis, and whether axes alternate (`axes_of_sections`)."""
    interleaved, section = model.row.interleaved or False, model.section(model.rope_key)
    sections = section.parameter("mrope_section", Reals)
    if sections is None:
        return (tuple(model.row.sections), interleaved) if model.row.sections else None
    if not all(n is not None and n == int(n) for n in sections):
        written = section.values["mrope_section"]
        raise section.wrong("mrope_section", written, "a list of whole numbers")
    stated = section.parameter("mrope_interleaved", bool)
    if stated is not None and interleaved != "rows":
        interleaved = stated
    return tuple(map(int, sections)), interleaved


def layer_sections(model: ModelConfig) -> dict[str, Layer]:
    """Return the rotation of each type of layer; the empty name is for all layers."""
    row, key = model.row, model.rope_key
    outer, unread = model.section(key), row.unread or ()
    if key in unread:
        outer = replace(outer, values={})
    elif "type" in unread and outer.values:
        outer = replace(outer, values={"rope_type": "default", **outer.values})
    if row.section:
        outer = SECTIONS[row.section](model, outer)
    names = [name for name, value in outer.values.items() if isinstance(value, dict)]
    if not row.layers:
        keys = rotary(row or UNKNOWN)
        whole = replace(outer, values=outer.values or keys.rope)
        return {name: (outer.section(name), keys) for name in names} or {"": (whole, keys)}
    reached = row.get("scaled" if key == "rope_scaling" else "flat", [])
    if outer.values and not names and reached is None:
        raise PefourierError(
            f"{key} of {model.label} is for all layers; model_type {shown(model.kind)} needs "
            f"a section for each type of layer: {first_names(row.layers)}"
        )
    first, found = next(iter(row.layers)), dict[str, Layer]()
    ignored = ("rope_theta", "partial_rotary_factor") if row.own_base else ()
    above = {} if names else {k: v for k, v in outer.values.items() if k not in ignored}
    for layer in dict.fromkeys((*row.layers, *names)):
        keys = rotary(row, layer if layer in row.layers else first)
        if layer in names:
            found[layer] = outer.section(layer), keys
        elif outer.values.get(layer, ...) is not None:  # else layers of this type have no positions
            section = replace(outer, values=above)
            if not (outer.values and not names and layer in reached):
                section = Section(f"{layer} of {outer.label}", keys.rope)
            added = keys.added.get(str(section.first("rope_type", "type")[1]), {})
            found[layer] = replace(section, values={**added, **section.values}), keys
    return found


def choose_layer(
    model: ModelConfig, sections: Mapping[str, Layer]
) -> tuple[str, Section, ModelRow]:
    """Return the rotation of the selected type of layer, or of any type if all are equal."""
    part, file = model.part, model.shown_file
    if part and "" in sections:
        raise PefourierError(f"{file} has only one rotation; leave out {shown('#' + part)}")
    if part and part not in sections:
        raise unknown(f"type of layer of {file}", part, sections)
    if not sections:
        raise PefourierError(f"{file} sets no rotation for any type of layer")
    name = part or next(iter(sections))
    if not part and unlike(sections):
        raise PefourierError(
            f"{file} rotates by type of layer: {first_names(sections)}; "
            f"choose a type, such as {shown(model.file + '#' + name)}"
        )
    return name, *sections[name]


def unlike(sections: Mapping[str, Layer]) -> bool:
    """Return whether types of layers have different rotations."""
    rotations = [(section.values, type_keys) for section, type_keys in sections.values()]
    return any(rotation != rotations[0] for rotation in rotations)


def reconcile(
    section: Section, inside: Strings, config: Section, above: Strings
) -> tuple[float | None, Findings]:
    """Return a number from a section or above it; the section has priority; report conflicts."""
    inner, outer = section.number(*inside), config.number(*above)
    if None in (inner, outer) or inner == outer:
        return (outer if inner is None else inner), ()
    said = finding(
        "rope-contradiction", key=inside[0], section=section.label, inner=inner, outer=outer
    )
    return inner, (said,)


@frozen
class ModelFile(ModelConfig):
    """The positions that a config sets, or an inner config that a SPEC names.

    `pefourier.encodings.sources.gguf_file.GgufFile` has the same interface.
    `pefourier.encodings.model_positions.ModelPositions` describes the positions over a length.
    """

    _: KW_ONLY
    spec: str
    outer: Section  # the whole file

    @property
    def model(self) -> ModelConfig:
        """Return the config; its part is the selected type of layer."""
        return self

    @property
    def layers(self) -> list[LayerRun]:
        """Return runs of layers with equal positions."""
        return layer_schedule(self, layer_sections(self) if rotates(self) else None)

    @property
    def rotations(self) -> list[str]:
        """Return the types of layers with different rotations, in order; empty for one rotation."""
        if self.part or not rotates(self):
            return []
        sections = layer_sections(self)
        if not unlike(sections):
            return []
        laid = [run.part for run in self.layers if run.kind == "rotary"]
        return list(dict.fromkeys(laid)) or list(sections)

    def of_layer(self, layer: str) -> "ModelFile":
        """Return the file with another type of layer selected; "" selects all layers."""
        path, part = split_spec(self.spec)
        inner = part.removesuffix(self.part).removesuffix(".")
        spec = "#".join(filter(None, (path, ".".join(filter(None, (inner, layer))))))
        return select_part(spec, self.file, self.outer.values)

    def axis_of_pairs(self, pairs: int) -> Places | None:
        """Return the axis (t, y or x) that rotates each pair; None if there is one position."""
        sections = sections_of(self)
        return None if sections is None else axes_of_sections(*sections, pairs)

    @property
    def pairing(self) -> Pairing | None:
        """Return which rows of a head are rotated together; None if unknown, or without rotation.

        halves: rows i and i + r/2 of the r rotated rows; neighbours: rows 2i and 2i + 1.
        """
        return PAIRED.get(layout_of(self)) if self.row and rotates(self) else None

    @property
    def unrotated(self) -> int:
        """Return the number of unrotated dimensions that DeepSeek's heads keep separately."""
        return (self.count("qk_rope_head_dim") and self.count("qk_nope_head_dim")) or 0

    def encoding(
        self,
        length: int | None = None,
        d: int | None = None,
        **placing: Any,
    ) -> Encoding:
        """Return the encoding of the positions that the config sets.

        Parameters
        ----------
        length : int, optional
            Default: the longest sequence that the config allows. Frequencies of rope_type dynamic
            or longrope depend on the length, as in the model.
        d : int, optional
            Only if the config sets no dimension.
        placing
            Further requests: the fields of `ModelConfig`.
        """
        own = select_part(self.spec, self.file, self.outer.values)  # no key is read yet
        model = replace(own, length=length, d=d, **placing)
        for key, (allowed, rule) in (model.row.only or {}).items():
            if (value := model.get(key)) not in (None, *allowed):
                raise UnknownPositions(str(model.wrong(key, value, rule)))
        enc = READERS.get(model.row.reader, read_kind)(model)
        if enc is None:
            raise no_answer(model)
        notes = [] if split_spec(self.spec)[1] else [*tower_notes(self)]
        if key := next(filter(model.get, ("auto_map", "trust_remote_code")), None):
            notes.append(finding("remote-code", key=key, config=model.label, version=version()))
        return noted(replace(note_unread(enc, model), spec=self.spec, file=self), *notes)


def open_config(spec: str) -> ModelFile:
    """Open the config.json of a SPEC, which names the file or its folder.

    ``#`` selects an inner config, then optionally a type of layer with a separate rotation
    (full_attention), encoder or decoder, or the name of a tensor of learned positions.
    """
    path, _ = split_spec(spec)
    file = inside(path, "config.json") if is_folder(path) else path
    return select_part(spec, file, as_timm(read_object(file)))


def select_part(spec: str, file: str, values: Values) -> ModelFile:
    """Select the part of a config that a SPEC names; the result records which keys are read."""
    outer = Section(shown(file), TrackedKeys(values))
    config, kind, part = choose_part(outer, split_spec(spec)[1])
    row = type_row(kind)
    return ModelFile(
        **vars(config), file=file, part=part, kind=kind, row=row, spec=spec, outer=outer
    )


def no_answer(model: ModelConfig) -> PefourierError:
    """Return the error for a config with positions that are not supported."""
    who = f"{model.shown_file} (model_type {shown(model.kind)})"
    if not model.row:
        return UnknownPositions(f"{who} is unknown and sets no rotation; name an encoding")
    kind = "none" if has_no_table(model) else (model.row.kind or "none").split()[0]
    reason = model.row.reason or read_toml(REASONS)["kinds"][kind]
    return UnknownPositions(f"{who} is not supported: {reason}")


def tower_notes(file: ModelFile) -> Notes:
    """Yield a finding that lists the inner configs of models with positions on image grids."""
    towers = [
        shown(f"{file.spec}#{key}")
        for key, value in file.outer.values.items()
        if isinstance(value, dict) and key != file.key and key.endswith("_config")
        if type_row(choose_part(file.outer, key)[1]).axial
    ]
    if towers:
        yield finding("vision-tower", asked=" or ".join(towers))


Reader = Callable[[ModelConfig], Encoding | None]


def read_kind(model: ModelConfig) -> Encoding | None:
    """Read positions by the kind of the model type; without a type, by keys and weights."""
    if not model.row:
        ways = (read_displacements, read_alibi, read_rotary, read_learned)
        return next(filter(None, (read(model) for read in ways)), None)
    name = next(filter(READERS.get, (model.row.kind or "").split()), "")
    return READERS[name](model) if name else None


READERS: dict[str, Reader] = {  # by the name or the kind in a row
    "grid": read_axes,
    "lags": read_lags,
    "terms": read_terms,
    "relative": read_displacements,
    "alibi": read_alibi,
    "rotary": read_rotary,
    "t5": read_t5,
    "sinusoidal": read_sinusoids,
    "learned": read_learned,
}
OF_POSITIONS = re.compile(
    "rope|rotary|yarn|alibi|position|nope|sliding|window|longrope|ntk|logn_attn|relative_att|"
    "local_attention|attention_chunk|max_pos|(context|ctx|seq(uence)?)_(len|size)|max_ctx|max_len$|"
    "context_window|(inter|extra)polation_(factor|scale)|logn|xpos"
)
HARMLESS = {*LONGEST, "rope_parameters"} | set(
    """_sliding_window_pattern decoder_positional_dropout_rate dropout_positions
    encoder_positional_dropout_rate image_seq_length keep_window_size max_relative_positions
    model_max_length n_ctx num_position_embeddings num_sliding_attention_heads
    original_max_position_embeddings position_id_per_seconds positionwise_conv_kernel_size
    positionwise_layer_type qk_nope_head_dim qk_rope_head_dim rope_interleave
    segment_means_seq_len sliding_window_pattern video_seq_length""".split()
)
LENGTHS_OF = ("length", "original", "trained")  # parameters of an encoding
MISSPELT = 0.85  # similarity from which a key counts as a misspelling of another
SCHEDULED = {  # keys of layers that are read for rows with a field, and for unknown model types
    "slides": ("use_sliding_window", "max_window_layers", "sliding_window"),
    "window": ("sliding_window",),
    "windows": ("sliding_window",),
    "without_window": ("sliding_window",),
    "unrotated": ("no_rope_layers", "no_rope_layer_interval"),
    "": ("no_rope_layers", "layer_rope_theta", "sliding_window", "use_sliding_window", *LENGTHS),
}
STATING = (  # keys that repeat a parameter of the encoding
    *(("_len(gth)?$", name) for name in LENGTHS_OF),
    ("theta|base", "rho"),
    ("dim", "rotated"),
    ("factor|rotary_p|rope_p|fraction", "partial"),
)


def find_unread(model: ModelFile, enc: Encoding) -> dict[str, tuple[str, str]]:
    """Return the keys about positions that no reader has used, with variants of their finding.

    Keys of layers, and others that the row names, are read by the commands that need them. The row
    of the whole model names keys of its other parts. With the variant comes the key that is meant
    or contradicted. Keys of the config and around it are searched; keys around the config of a
    tower are about the text model.
    """
    whole, params = type_row(str(model.outer.untracked.get("model_type"))), enc.params
    is_tower = model.key and model.key not in (*NESTED, whole.text)
    found = dict.fromkeys((*params.get("unread", ()), *sections_not_read(model)), ("plain", ""))
    row, turned = model.row, rotates(model)
    turns = [rotary(row, layer) for layer in (row.layers or [""]) if turned]
    of_layers = [(keys.bases, keys.shares, keys.size) for keys in turns]
    scheduled = [SCHEDULED[name] for name in SCHEDULED.keys() & (row.keys() or {""})]
    is_chunked = "chunked" in str(model.get("layer_types", row.layer_types))
    chunks = "attention_chunk_size" if is_chunked else ""
    named = json.dumps(
        {**row, "usual": chunks, "rope": scheduled, "layers": of_layers, "beside": whole.beside}
    )
    for section in (model,) if is_tower else (model, model.outer):
        values = section.untracked.values
        tracked: Collection[str] = getattr(section.values, "unread", ())
        others = second_names(values, tracked, params) if turned else {}
        unset = sorted(EVIDENCE - values.keys())
        for place, key in enumerate(sorted(tracked)):
            near = get_close_matches(key[:80], unset, 1, MISSPELT) if place < SEEN else []
            repeats = any(
                re.search(pattern, key) and values[key] == params.get(name)
                for pattern, name in STATING
            )
            # without positions, the keys of a rotation are switched off
            is_off = enc.name == "none" and key in EVIDENCE
            if others.get(key):
                found[key] = "second", others[key]
            elif json.dumps(key) in named:
                continue
            elif (near or is_about(key, values)) and not (repeats or is_off or key in others):
                found[key] = ("misspelt", near[0]) if near else ("plain", "")
    return {key: found[key] for key in sorted(found)[:SEEN]}


def second_names(values: Values, unread: Collection[str], params: Values) -> dict[str, str]:
    """Return the unread names of settings that are read under another name, which they contradict.

    The other name is empty if both agree. A length may also be the length before scaling.

    >>> second_names({"hidden_size": 64, "n_embd": 64, "d_model": 32}, {"n_embd", "d_model"}, {})
    {'n_embd': '', 'd_model': 'hidden_size'}
    """
    found: dict[str, str] = {}
    for names in SYNONYMS:
        stated = [key for key in names if is_number(values.get(key))]
        read = [key for key in stated if key not in unread]
        agreed = {values[key] for key in read}
        if LONGEST[0] in names:  # before or after scaling
            agreed |= {n for key in LENGTHS_OF if (n := params.get(key))}
            agreed |= {n * (params.get("factor") or 1) for n in agreed}
        others = [key for key in stated if read and key in unread]
        found |= {key: "" if values[key] in agreed else read[0] for key in others}
    return found


def sections_not_read(model: ModelConfig) -> set[str]:
    """Return the sections of a rotation that the model type ignores, fully or in this format."""
    row, key = model.row, model.rope_key
    if not row or not rotates(model):
        return set()
    unread, section = set(row.unread or ()), model.section(key).values
    is_by_layer = any(isinstance(value, dict) for value in section.values())
    untyped = "type" in unread and "type" in section and "rope_type" not in section
    needs_layers = row.layers and row.get("flat", []) == [] and key == "rope_parameters"
    if untyped or (not is_by_layer if needs_layers else is_by_layer and not row.layers):
        unread.add(key)
    return {key for key in unread - {"type"} if model.get(key)}


def is_about(key: str, values: Values) -> bool:
    """Return whether a key affects positions.

    >>> is_about("rope_interval", {"rope_interval": 4}), is_about("alibi", {"alibi": False})
    (True, False)
    """
    value = values[key]
    is_config = isinstance(value, dict) and key.endswith("_config")
    has_no_effect = value in (None, False, "", [], {}) or key in HARMLESS or is_config
    if has_no_effect or not OF_POSITIONS.search(key):
        return False
    if key == "position_embedding_type":
        return value not in ("rope", "rotary", "absolute")  # which model types imply
    return not (
        key in ("sliding_window", "max_window_layers") and values.get("use_sliding_window") is False
    )


def note_unread(enc: Encoding, model: ModelFile) -> Encoding:
    """Add the unread keys of a config to an encoding, with findings about the first keys.

    Keys that already have a finding get no second one.
    """
    unread, notes = find_unread(model, enc), []
    messages = [note.message for note in enc.findings if note.code == "unread-key"]
    said = " ".join((*enc.params.get("unread", ()), *messages))
    for key in [key for key in unread if key not in said][:NAMED]:
        section = (model if key in model.values else model.outer).untracked
        variant, near = unread[key]
        note = finding(
            "unread-key",
            variant,
            config=section.label,
            key=shown(key),
            value=shown(section.get(key, "…")),
            near=near,
            other=shown(section.get(near)),
        )
        notes.append(note)
    return noted(enc, *notes, unread=tuple(unread)) if unread else enc
