"""Rotations in GGUF files, as llama.cpp's converters write them."""

import struct
from itertools import permutations

import numpy as np
import pytest
from refusals import refusal

from pefourier.encodings import load
from pefourier.encodings.model_positions import axis_in
from pefourier.encodings.sources.gguf_header import BLOCKS, TYPES, TensorPlace, read_header
from pefourier.questions.compare import compare
from pefourier.questions.context import describe_context


def finish(writer):
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()


@pytest.fixture
def write(tmp_path):
    gguf = pytest.importorskip("gguf")

    def written(tensors=(), arch="llama", **values):
        path = str(tmp_path / "model.gguf")
        writer = gguf.GGUFWriter(path, arch)
        for key, value in values.items():
            kinds = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}
            kinds[list] = writer.add_array
            kinds[type(value)](f"{arch}.{key.replace('__', '.')}", value)
        for name, tensor in dict(tensors).items():
            writer.add_tensor(name, tensor)
        finish(writer)
        return path

    return written


SIZES = {"context_length": 131072, "embedding_length": 4096, "attention__head_count": 32}
SIZES |= {"rope__dimension_count": 128, "rope__freq_base": 500000.0}
LINEAR = {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}
YARN = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
EXT = "rope__scaling__yarn_ext_factor"
YARN |= {"rope__scaling__original_context_length": 32768}


def test_float32_factors_hold_the_scaling_of_the_config(write):
    config = load("rope:rho=5e5,scaling=llama3,factor=8,original=8192", 512, 128)
    plain = load("rope:rho=5e5", 8, 128).measure.frequencies
    factors = plain / config.measure.frequencies  # as llama.cpp's converter computes them
    enc = load(write({"rope_freqs.weight": factors.astype(np.float32)}, **SIZES))
    assert (len(enc), enc.params["d"], enc.params["scaling"]) == (131072, 128, "factors")
    same = compare(config, load(enc.params["path"], 512)).operator
    assert (same.relation, same.name) == ("permuted", "halves-to-neighbours")
    other = compare(config, load(write(**SIZES), 512))
    assert other.operator.relation == "different"
    assert other.cause.below == {".99": 512, ".9": 1724, ".5": 60725}  # published


@pytest.mark.parametrize(
    ("kind", "arch", "relation"),
    [("llama", "llama", "permuted"), ("qwen2", "qwen2", "same"), ("cohere", "command-r", "same")],
)
def test_a_file_is_that_of_its_config_whichever_rows_llama_cpp_pairs(
    write, config, run, kind, arch, relation
):
    """A file equals its config, up to the row order of the architecture's converter."""
    own = {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 512}
    path = write(arch=arch, **SIZES)
    for pair in permutations([config({"model_type": kind, "rope_theta": 5e5, **own}), path]):
        done = run("compare", *pair, "--json")
        assert (done.status, done.results[0]["operator"]["relation"]) == (0, relation)
    if relation == "permuted":  # the row order of its weights is unknown
        assert run("compare", "rope:rho=5e5", path, "--json").status == 1


@pytest.mark.parametrize(
    ("arch", "layout", "vectors"),
    [
        ("llama", "interleaved", ["rope-scaling-lost"]),  # base 5e5 and 131072 positions
        ("smollm3", "interleaved", ["gguf-unsaid"]),  # its layers without positions
        ("qwen3", "halves", []),
        ("qwen3vl", "halves", ["rope-axes"]),
        ("nobody", "halves", ["gguf-unsaid"]),
    ],
)
def test_rows_are_paired_as_llama_cpp_pairs_them(write, arch, layout, vectors):
    """Each architecture pairs rows as llama.cpp does."""
    enc = load(write(arch=arch, **SIZES))
    assert (enc.params["layout"], [f.code for f in enc.findings]) == (layout, vectors)


@pytest.mark.parametrize(
    ("arch", "sections", "expected"),
    [
        ("qwen2vl", [16, 24, 24, 0], "16 t + 24 y + 24 x"),
        ("qwen2vl", [16, 24, 20, 4], "16 t + 24 y + 20 x + 4 e"),
        ("glm4", [16, 24, 24, 0], "16 t + 24 y + 24 x"),
        ("qwen3vl", [24, 20, 20, 0], "20 × (t, y, x) + 1 t + 2 e + 1 t"),
        ("qwen35", [2, 3, 3, 0], "2 × (t, y, x) + 1 e + 1 y"),
    ],
)
def test_axes_of_pairs_are_those_of_llama_cpp(write, arch, sections, expected):
    """The axes are those of ggml_mrope_cache_init, in blocks or in turns."""
    sizes = SIZES | {"rope__dimension_count": 2 * sum(sections), "attention__key_length": 128}
    path = write(arch=arch, rope__dimension_sections=sections, **sizes)
    enc = load(path)
    assert (enc.params["mrope_section"], enc.params["layout"]) == (expected, "halves")
    (rotation,) = describe_context(path)[1].rotations
    found = axis_in(enc)
    reported = {axis: tuple(np.flatnonzero(found == i).tolist()) for i, axis in enumerate("tyx")}
    assert rotation.axes == reported


ONES = {"rope_freqs.weight": np.ones(64, np.float32)}
ALPHA = {"rope__scaling__alpha": 1000.0}  # base alpha^(d / (d - 2)): src/models/hunyuan-vl.cpp
REFUSED = [  # architecture, tensors, values, part of the error
    ("bert", {}, {}, "sets no attention.key_length"),
    ("bloom", {}, SIZES, "does not rotate in 'bloom'"),
    ("llama", ONES, SIZES | {"rope__scaling__type": "yarn"}, "scaling 'yarn' .* rope_freqs"),
    ("llama", {}, SIZES | YARN | {EXT: 0.5}, "yarn_ext_factor 0.5"),
    ("hunyuan-dense", {}, SIZES | ALPHA | LINEAR, "alpha 1000.0"),
    ("llama", {"rope_freqs.weight": np.ones(8, np.float32)}, SIZES, "needs 64 numbers"),
]


@pytest.mark.parametrize(("arch", "tensors", "values", "words"), REFUSED)
def test_missing_keys_are_refused(write, arch, tensors, values, words):
    with refusal(words):
        load(write(tensors, arch=arch, **values))


def test_the_header_is_what_the_package_gguf_reads(tmp_path):
    gguf = pytest.importorskip("gguf")
    assert {t.value: t.name for t in gguf.GGMLQuantizationType} == TYPES
    assert {t.name: size for t, size in gguf.GGML_QUANT_SIZES.items()} == BLOCKS
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "gemma3")
    kinds = [
        *(writer.add_uint8, writer.add_int8, writer.add_uint16, writer.add_int16),
        *(writer.add_uint32, writer.add_int32, writer.add_uint64, writer.add_int64),
    ]
    for kind in kinds:
        kind(kind.__name__, 101)
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("bool", val=True)
    writer.add_array("layers", [1, 0, 3])
    writer.add_array("names", ["a", "ü"])
    writer.add_array("tokens", [f"<{i}>" for i in range(20_000)])
    writer.add_array("scores", [0.5] * 20_000)
    writer.add_tensor("a", np.arange(12, dtype=np.float16).reshape(3, 4))
    packed = gguf.quants.quantize(np.ones((4, 64), np.float32), gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("b", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    finish(writer)
    keys, tensors = read_header(str(tmp_path / "m.gguf"))
    reader = gguf.GGUFReader(str(tmp_path / "m.gguf"))
    own = {k: field.contents() for k, field in reader.fields.items() if "GGUF." not in k}
    assert (keys.pop("tokens"), keys.pop("scores")) == (None, None)
    assert keys == {k: v for k, v in own.items() if k not in ("tokens", "scores")}
    assert tensors == {
        t.name: TensorPlace(tuple(t.shape.tolist()[::-1]), t.tensor_type.name, t.data_offset)
        for t in reader.tensors
    }


def head(*items, keys=1, tensors=0):
    """Return the first bytes of a GGUF file, followed by texts and 4-byte numbers."""
    reported = (struct.pack("<Q", len(i)) + i.encode() if isinstance(i, str) else i for i in items)
    numbers = (struct.pack("<I", i) if isinstance(i, int) else i for i in reported)
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + b"".join(numbers)


def many(count):
    return struct.pack("<Q", count)


DAMAGED = [
    *(b"", b"GGUF", b"\xff" * 99, b"GGUF" + bytes(40), b"GGUF" + struct.pack(">I", 3) + bytes(40)),
    *(head("tokens", 9, kind, many(2**60)) for kind in (4, 8)),
    head("k", 8, many(2**63)),
    head("k", 0, b"a", "k", 0, b"a", keys=2),  # one key twice
    head(keys=2**64 - 1),
    head("t", 1, many(2**60), 0, many(0), keys=0, tensors=1),  # beyond the end of the file
    head("t", 1, many(7), 2, many(0), bytes(99), keys=0, tensors=1),  # not whole blocks
    head("general.alignment", 4, 0),
]


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_refused_in_a_line(tmp_path, data):
    (tmp_path / "bad.gguf").write_bytes(data)
    with refusal(r"bad\.gguf' is not a readable \.gguf file: .+"):
        load(str(tmp_path / "bad.gguf"))


GEMMA = {"context_length": 32768, "embedding_length": 1152, "attention__head_count": 4}
GEMMA |= {"attention__key_length": 256, "rope__freq_base": 1e6, "block_count": 12}
GEMMA |= {"attention__sliding_window": 512}


@pytest.mark.parametrize(
    ("arch", "values", "base", "full"),
    [
        ("gemma3", {}, 10000.0, (5, 11)),  # llama.cpp's default base and pattern
        (
            "gemma3",
            {"rope__freq_base_swa": 20000.0, "attention__sliding_window_pattern": 3},
            *(20000.0, (2, 5, 8, 11)),
        ),
        ("modern-bert", {}, 10000.0, (0, 3, 6, 9)),
        ("olmo2", YARN, 1e6, (3, 7, 11)),  # only layers without a window have a scaling
        ("gemma2", {}, None, (1, 3, 5, 7, 9, 11)),  # its windows share the base of the other layers
    ],
)
def test_layers_with_a_window_are_reported(write, arch, values, base, full):
    path = write(arch=arch, **GEMMA | values)
    _, found = describe_context(path)
    local = tuple(i for i in range(12) if i not in full)
    reported = {layer.index: (layer.kind, layer.window) for layer in found.layers}
    assert reported == {local: ("rotary", 512), full: ("rotary", None)}
    bases = {rotation.name: rotation.base for rotation in found.rotations}
    names = {"sliding_attention": base, "full_attention": 1e6} if base else {"": 1e6}
    assert bases == names
    assert load(path, 8).params["rho"] == 1e6
    if base:
        assert load(f"{path}#sliding_attention", 8).params["rho"] == base


TIMES, BETA = "rope__scaling__yarn_log_multiplier", "rope__scaling__yarn_beta_fast"
V3 = YARN | {"rope__scaling__factor": 40.0, "rope__scaling__original_context_length": 4096}
FOURFOLD, FORTYFOLD = (f"scaling=yarn,factor={k}" for k in ("4,original=32768", "40,original=4096"))
LITE = (1 + 0.0707 * np.log(40)) ** 2
RATIO = (1 + 0.1 * np.log(40)) / (1 + 0.0707 * np.log(40))
BY_ARCHITECTURE = [  # architecture, values, the rotation, the factor of logits
    ("llama", LINEAR, "scaling=linear,factor=4", 1),
    # unread
    ("llama", YARN, FOURFOLD, 1),
    ("llama", YARN | {EXT: 0.0}, "scaling=linear,factor=4", 1),
    ("llama", {"rope__dimension_count": 64}, "partial=.5", 1),
    ("mistral3", YARN | {BETA: 16.0, TIMES: 1.0}, f"{FOURFOLD},beta_fast=16,attention_factor=1", 1),
    ("llama", YARN | {BETA: 16.0}, FOURFOLD, 1),  # ignored by this architecture
    ("deepseek2", V3 | {TIMES: 0.0707}, f"{FORTYFOLD},attention_factor=1", LITE),
    ("deepseek32", V3 | {TIMES: 0.0707}, f"{FORTYFOLD},attention_factor={RATIO}", LITE),
    ("hunyuan-dense", ALPHA, f"rho={5e5 * 1000 ** (128 / 126)}", 1),
    ("llama", ALPHA, "scaling=none", 1),
]


@pytest.mark.parametrize(("arch", "values", "spec", "logits"), BY_ARCHITECTURE)
def test_keys_are_read_as_by_the_architecture(write, arch, values, spec, logits):
    enc = load(write(arch=arch, **SIZES | values), 8)
    base = "" if "rho" in spec else "rho=5e5,"
    wanted = load(f"rope:{base}{spec}", 8, 128)
    np.testing.assert_allclose(enc.measure.frequencies, wanted.measure.frequencies, rtol=1e-6)
    factors = [e.params["attention_factor"] for e in (enc, wanted)]
    assert factors[0] == pytest.approx(factors[1], rel=1e-6)
    assert enc.params.get("softmax_factor", 1) == pytest.approx(logits, rel=1e-6)
    vectors = [f.code for f in enc.findings if f.code != "rope-scaling-lost"]
    assert vectors == ["gguf-unsaid"] * (arch == "deepseek32")
