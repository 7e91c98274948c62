"""What positions does this model config set? Hugging Face's config.json, read as data.

Conventions
-----------
`load` tries the families in order: biases (alibi, t5), sinusoids, rotations, learned tables. What a
model's code adds to its config (defaults, the offset of its first position, the order of columns)
is in the tables below, by ``model_type``, as in transformers 5.23. What transformers refuses is
refused here; what it only warns of is a finding of the encoding.
"""

import os
import re
from dataclasses import replace

from pefourier.encodings.columns import exchanged
from pefourier.encodings.encoding import Encoding, Finding, from_table
from pefourier.encodings.sources.config import (
    HEADS,
    LARGEST,
    LONGEST,
    WIDTH,
    Request,
    Section,
    few,
    json_object,
    nested,
    parsed,
)
from pefourier.encodings.sources.rope_config import rotation
from pefourier.encodings.sources.tables import read_table
from pefourier.errors import PefourierError, shown, unknown
from pefourier.files import os_errors

T5 = {"t5", "mt5", "umt5", "longt5", "switch_transformers", "pop2piano"}
GRID = {"layout": "halves", "divisor": "d/2-1", "odd": "zero"}
COSINES_FIRST = ("musicgen_decoder", "musicgen_melody_decoder")
PLAIN = {"layout": "halves"}
SINUSOIDS = {
    **{kind: PLAIN for kind in ("marian", "pegasus", "ctrl", "informer", "autoformer")},
    "time_series_transformer": PLAIN,
    **{kind: GRID for kind in ("whisper", "pegasus_x", "fsmt", "m2m_100", "nllb_moe", "xglm")},
    **{kind: GRID for kind in ("speech_to_text", *COSINES_FIRST)},
}
FLAGS = {"distilbert": "sinusoidal_pos_embds", "xlm": "sinusoidal_embeddings"}
FLAGS["flaubert"] = FLAGS["xlm"]
AFTER_PADDING = {  # the first position is pad_token_id + 1
    *("fsmt", "m2m_100", "nllb_moe", "speech_to_text"),
    *("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "xmod"),
    *("longformer", "data2vec-text", "ibert", "luke", "lilt", "layoutlmv3", "markuplm", "mpnet"),
    "esm",
}
FROM_TWO = {"bart", "mbart", "mvp", "plbart", "opt", "biogpt", "trocr", "xglm"}
WEIGHTS = re.compile(r"(model|diffusion_pytorch_model)[-.\w]*\.safetensors")
TENSOR = re.compile(r"(^|\.)(wpe|embed_positions|positions?_embed(ding)?s?)(\.weight)?$")


def load(spec: str, length: int | None = None, d: int | None = None) -> Encoding:
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
        Only where the config tells no dimension.
    """
    path, _, part = spec.partition("#")
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    config = nested(Section(shown(file), parsed(file)))
    kind = config.values.get("model_type", "")
    if not isinstance(kind, str):
        raise config.wrong("model_type", kind, "a text")
    request = Request(file, part, config, kind, length, d)
    for family in (bias, sinusoid, rotation, table):
        enc = family(request)
        if enc is not None:
            return replace(enc, spec=spec)
    raise PefourierError(
        f"{shown(file)} sets no positions that are known here (model_type {shown(kind)}); "
        "name an encoding or a file of codes"
    )


def bias(request: Request) -> Encoding | None:
    """ALiBi and T5's buckets, a column a head."""
    config, kind = request.config, request.kind
    attention = config.section("attn_config") if kind == "mpt" else config
    if kind == "bloom" or attention.values.get("alibi", kind == "mpt") is True:
        steepest = attention.number("alibi_bias_max")
        if steepest not in (None, 8.0):
            raise attention.wrong("alibi_bias_max", steepest, "8, the slopes of ALiBi")
        check_part(request)
        heads = request.dimension(config.count(*HEADS), "number of heads")
        return request.build("alibi", heads, causal=True)
    if kind not in T5:
        return None
    check_part(request)
    message = "these biases are t5's before training; the trained ones are in the model's weights"
    own = {
        "buckets": config.count("relative_attention_num_buckets") or 32,
        "max_distance": config.count("relative_attention_max_distance") or 128,
        "causal": request.part == "decoder",
    }
    heads = request.dimension(config.count(*HEADS), "number of heads")
    return request.build("t5", heads, Finding("untrained", "note", message), **own)


def check_part(request: Request) -> None:
    """Refuse what follows # where it is neither side of the model."""
    if request.part not in ("", "encoder", "decoder"):
        raise unknown(f"part of {shown(request.file)}", request.part, ("encoder", "decoder"))


def sinusoid(request: Request) -> Encoding | None:
    """Sinusoids that the model's code computes."""
    config, kind = request.config, request.kind
    own = SINUSOIDS.get(kind)
    if kind == "trocr" and config.values.get("use_learned_position_embeddings") is False:
        own = GRID
    if kind in FLAGS and config.values.get(FLAGS[kind]) is True:
        own = {"layout": "interleaved"}
    if own is None or (kind == "whisper" and request.part == "decoder"):
        return None
    check_part(request)
    d = request.dimension(config.count(*WIDTH), "width")
    offset = first_row(request)
    enc = request.build("sinusoidal", d, *offset_notes(kind, offset), **own, offset=offset)
    if kind not in COSINES_FIRST:
        return enc
    return replace(enc, codes=lambda x: exchanged(enc.codes(x), own["layout"]))


def first_row(request: Request) -> int:
    """The row of the model's table that belongs to position 0."""
    if request.kind in AFTER_PADDING:
        padding = request.config.count("pad_token_id", least=0)
        return 2 if padding is None else padding + 1
    return 2 if request.kind in FROM_TWO else 0


def offset_notes(kind: str, offset: int) -> tuple[Finding, ...]:
    """What to know about a table whose first rows belong to no position."""
    message = f"{kind} gives position 0 the code of row {offset}; the rows before it are not used"
    return (Finding("position-offset", "note", message),) if offset else ()


def table(request: Request) -> Encoding | None:
    """Learned positions, whose numbers are in the weights beside the config."""
    way = request.config.values.get("position_embedding_type", "absolute")
    if way != "absolute":
        raise request.config.wrong("position_embedding_type", way, "absolute or rotary")
    folder, part = os.path.dirname(request.file) or ".", request.part
    with os_errors("look into", folder):
        files = [name for name in sorted(os.listdir(folder)) if WEIGHTS.fullmatch(name)]
    tensors = {
        name: path
        for path in (os.path.join(folder, file) for file in files)
        for name in tensor_names(path)
        if TENSOR.search(name) and (not part or part == name or part in name.split("."))
    }
    if len(tensors) > 1:
        raise PefourierError(
            f"{shown(folder)} holds several tables of positions, {few(tensors)}; "
            f"name one, {shown(request.file + '#' + next(iter(tensors)))}"
        )
    if not tensors and request.config.first(*LONGEST)[1] is None:
        return None
    if not tensors:
        raise PefourierError(
            f"the positions of model_type {shown(request.kind)} are learned: their table is in its "
            f"weights, not in {shown(request.file)}; put model.safetensors beside it, or give a "
            "file of codes, weights.safetensors#tensor"
        )
    return learned(request, *tensors.popitem())


def learned(request: Request, name: str, path: str) -> Encoding:
    """The rows of a tensor from the one of position 0 on."""
    codes, eps = read_table(path, name)
    offset = first_row(request)
    codes = codes[offset:]
    request.dimension(codes.shape[1], f"tensor {name}")
    if request.length is not None and request.length > len(codes):
        raise PefourierError(
            f"{name} of {shown(path)} has rows for {len(codes)} positions; "
            f"--length {request.length} asks for more"
        )
    codes = codes[: request.length]
    params = {"length": len(codes), "d": codes.shape[1], "path": path, "array": name}
    params |= {"offset": offset, "model_type": request.kind}
    found = offset_notes(request.kind, offset)
    return from_table(codes, "learned", eps=eps, params=params, findings=found, origin="weights")


def tensor_names(path: str) -> list[str]:
    """The names in the header of a .safetensors file: its length in 8 bytes, then JSON."""
    with os_errors("read", path), open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(min(length, LARGEST))
    return list(json_object(header, f"the header of {shown(path)}"))
