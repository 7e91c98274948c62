"""What positions does this model config set? Hugging Face's config.json, read as data.

Conventions
-----------
`read_config` tries the families in order: biases (alibi, t5), sinusoids, rotations, learned tables.
What a model's code adds to its config (defaults, the offset of its first position, the order of
columns) is in the tables below, by ``model_type``, as in transformers 5.23. What transformers
refuses is refused here; what it only warns of is a finding of the encoding.
"""

import os
import re
from dataclasses import replace

from pefourier.encodings.columns import exchanged
from pefourier.encodings.encoding import Encoding, Finding, from_table
from pefourier.encodings.sources.config import (
    HEADS,
    LONGEST,
    WIDTH,
    ModelConfig,
    Section,
    first_names,
    read_object,
    text_model,
)
from pefourier.encodings.sources.rope_config import read_rotation
from pefourier.encodings.sources.tables import array_names, read_table
from pefourier.errors import PefourierError, shown, unknown
from pefourier.files import os_errors

T5 = {"t5", "mt5", "umt5", "longt5", "switch_transformers", "pop2piano"}
GRID = {"layout": "halves", "divisor": "d/2-1", "odd": "zero"}
COSINES_FIRST = ("musicgen_decoder", "musicgen_melody_decoder")
PLAIN = {"layout": "halves"}
PLAIN_MODELS = "marian pegasus ctrl informer autoformer time_series_transformer".split()
GRID_MODELS = "whisper pegasus_x fsmt m2m_100 nllb_moe xglm speech_to_text".split()
SINUSOIDS = dict.fromkeys(PLAIN_MODELS, PLAIN) | dict.fromkeys([*GRID_MODELS, *COSINES_FIRST], GRID)
FLAGS = {"distilbert": "sinusoidal_pos_embds", "xlm": "sinusoidal_embeddings"}
FLAGS["flaubert"] = FLAGS["xlm"]
AFTER_PADDING = set(  # the first position is pad_token_id + 1
    "fsmt m2m_100 nllb_moe speech_to_text esm "
    "roberta xlm-roberta xlm-roberta-xl camembert roberta-prelayernorm xmod "
    "longformer data2vec-text ibert luke lilt layoutlmv3 markuplm mpnet".split()
)
FROM_TWO = {"bart", "mbart", "mvp", "plbart", "opt", "biogpt", "trocr", "xglm"}
WEIGHTS = re.compile(r"(model|diffusion_pytorch_model)[-.\w]*\.safetensors")
TENSOR = re.compile(r"(^|\.)(wpe|embed_positions|positions?_embed(ding)?s?)(\.weight)?$")


def read_config(spec: str, length: int | None = None, d: int | None = None) -> Encoding:
    """The positions that a config.json, or the one in a model folder, sets.

    Parameters
    ----------
    spec : str
        Path, then perhaps ``#`` and a type of layer with rotations of its own (full_attention),
        encoder or decoder, or the name of a tensor of learned positions.
    length : int, optional
        Default: the longest sequence that the config allows. Frequencies scaled by rope_type
        dynamic or longrope depend on it, as in the model.
    d : int, optional
        Only where the config sets no dimension.
    """
    path, _, part = spec.partition("#")
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    config = text_model(Section(shown(file), read_object(file)))
    kind = config.values.get("model_type", "")
    if not isinstance(kind, str):
        raise config.wrong("model_type", kind, "a string")
    model = ModelConfig(file, part, config, kind, length, d)
    for read in (read_biases, read_sinusoid, read_rotation, read_learned):
        enc = read(model)
        if enc is not None:
            return replace(enc, spec=spec)
    raise PefourierError(
        f"{shown(file)} sets no positions that are known here (model_type {shown(kind)}); "
        "name an encoding or a file of codes"
    )


def read_biases(model: ModelConfig) -> Encoding | None:
    """ALiBi and T5's buckets, one column per head."""
    config, kind = model.config, model.kind
    attention = config.section("attn_config") if kind == "mpt" else config
    if kind == "bloom" or attention.values.get("alibi", kind == "mpt") is True:
        steepest = attention.number("alibi_bias_max")
        if steepest not in (None, 8.0):
            raise attention.wrong("alibi_bias_max", steepest, "8, the slopes of ALiBi")
        check_part(model)
        heads = model.dimension(config.count(*HEADS), "number of heads")
        return model.build("alibi", heads, causal=True)
    if kind not in T5:
        return None
    check_part(model)
    message = "these biases are t5's before training; the trained ones are in the model's weights"
    own = {
        "buckets": config.count("relative_attention_num_buckets") or 32,
        "max_distance": config.count("relative_attention_max_distance") or 128,
        "causal": model.part == "decoder",
    }
    heads = model.dimension(config.count(*HEADS), "number of heads")
    return model.build("t5", heads, Finding("untrained", "note", message), **own)


def check_part(model: ModelConfig) -> None:
    """Refuse what follows # where it is neither side of the model."""
    if model.part not in ("", "encoder", "decoder"):
        raise unknown(f"part of {shown(model.file)}", model.part, ("encoder", "decoder"))


def read_sinusoid(model: ModelConfig) -> Encoding | None:
    """Sinusoids that the model's code computes."""
    config, kind = model.config, model.kind
    own = SINUSOIDS.get(kind)
    if kind == "trocr" and config.values.get("use_learned_position_embeddings") is False:
        own = GRID
    if kind in FLAGS and config.values.get(FLAGS[kind]) is True:
        own = {"layout": "interleaved"}
    if own is None or (kind == "whisper" and model.part == "decoder"):
        return None
    check_part(model)
    d = model.dimension(config.count(*WIDTH), "width")
    offset = first_row(model)
    enc = model.build("sinusoidal", d, *offset_notes(kind, offset), **own, offset=offset)
    if kind not in COSINES_FIRST:
        return enc
    return replace(enc, codes=lambda x: exchanged(enc.codes(x), own["layout"]))


def first_row(model: ModelConfig) -> int:
    """The row of the model's table that belongs to position 0."""
    if model.kind in AFTER_PADDING:
        padding = model.config.count("pad_token_id", least=0)
        return 2 if padding is None else padding + 1
    return 2 if model.kind in FROM_TWO else 0


def offset_notes(kind: str, offset: int) -> tuple[Finding, ...]:
    """What to know about a table whose first rows belong to no position."""
    message = f"{kind} gives position 0 the code of row {offset}; the rows before it are not used"
    return (Finding("position-offset", "note", message),) if offset else ()


def read_learned(model: ModelConfig) -> Encoding | None:
    """Learned positions, whose numbers are in the weights beside the config."""
    way = model.config.values.get("position_embedding_type", "absolute")
    if way != "absolute":
        raise model.config.wrong("position_embedding_type", way, "absolute or rotary")
    folder, part = os.path.dirname(model.file) or ".", model.part
    with os_errors("look into", folder):
        files = [name for name in sorted(os.listdir(folder)) if WEIGHTS.fullmatch(name)]
    tensors = {
        name: path
        for path in (os.path.join(folder, file) for file in files)
        for name in array_names(path)
        if TENSOR.search(name) and (not part or part == name or part in name.split("."))
    }
    if len(tensors) > 1:
        raise PefourierError(
            f"{shown(folder)} holds several tables of positions, {first_names(tensors)}; "
            f"name one, {shown(model.file + '#' + next(iter(tensors)))}"
        )
    if not tensors and model.config.first(*LONGEST)[1] is None:
        return None
    if not tensors:
        raise PefourierError(
            f"the positions of model_type {shown(model.kind)} are learned: their table is in its "
            f"weights, not in {shown(model.file)}; put model.safetensors beside it, or give a "
            "file of codes, weights.safetensors#tensor"
        )
    return load_tensor(model, *tensors.popitem())


def load_tensor(model: ModelConfig, name: str, path: str) -> Encoding:
    """The rows of a tensor from the one of position 0 on."""
    codes, eps = read_table(path, name)
    offset = first_row(model)
    codes = codes[offset:]
    model.dimension(codes.shape[1], f"tensor {name}")
    if model.length is not None and model.length > len(codes):
        raise PefourierError(
            f"{name} of {shown(path)} has rows for {len(codes)} positions, "
            f"fewer than --length {model.length}"
        )
    codes = codes[: model.length]
    params = {"length": len(codes), "d": codes.shape[1], "path": path, "array": name}
    params |= {"offset": offset, "model_type": model.kind}
    found = offset_notes(model.kind, offset)
    return from_table(codes, "learned", eps=eps, params=params, findings=found, origin="weights")
