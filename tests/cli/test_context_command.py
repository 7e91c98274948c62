"""`pefourier context` and `pefourier design` as typed."""

import json
from pathlib import Path

import numpy as np
import pytest
from published_configs import PUBLISHED

from pefourier.encodings import load

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "num_hidden_layers": 12,
    "sliding_window": 1024,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}


pytestmark = pytest.mark.usefixtures("sketched")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, config in (("llama", LLAMA), ("gemma", GEMMA), ("bloom", {"model_type": "bloom"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(config))


def test_context_of_a_config(run):
    (result,) = run("context", "llama.json", "--against", "scaling-ignored", "--json").results
    (rotation,) = result["rotations"]
    assert (rotation["bound"], rotation["unseen"], rotation["critical_dimension"]) == (
        85133,
        29,
        70,
    )
    assert [(b["class"], b["pairs"]) for b in rotation["bands"]] == [
        ("kept", 29),
        ("blended", 6),
        ("stretched", 29),
    ]
    assert result["trained"] == {"length": 8192, "source": "assumed"}
    assert result["length"] == 131072
    assert result["layers"] == [
        {"index": list(range(32)), "kind": "rotary", "rotation": 0, "window": None}
    ]
    assert result["against"]["below"] == {".99": 512, ".9": 1724, ".5": 60725}
    assert result["against"]["cosine"][0][0] == 1
    assert result["verdict"] == "read differently"
    for other, verdict in (("llama.json", "read alike"), ("base=10000", "read differently")):
        (told,) = run("context", "llama.json", "--against", other, "--json").results
        assert told["verdict"] == verdict


def test_what_a_scaling_does_is_said_within_the_length_of_training_too(run):
    spec = "rope:scaling=yarn,factor=4,original=8192"
    (result,) = run("context", spec, "--d", 128, "--length", 80, "--json").results
    bands = {band["class"]: band["pairs"] for band in result["rotations"][0]["bands"]}
    assert bands == {"kept": 26, "blended": 24, "stretched": 14}
    assert result["verdict"] == "no new angles"


def test_context_of_two_rotations(run):
    (result,) = run("context", "gemma.json", "--json").results
    local, whole = result["rotations"]
    assert (local["name"], local["bound"]) == ("sliding_attention", 2653)
    assert (whole["name"], whole["bound"]) == ("full_attention", 573011)
    assert [(len(one["index"]), one["rotation"], one["window"]) for one in result["layers"]] == [
        (10, 0, 1024),
        (2, 1, None),
    ]
    text = run("context", "gemma.json", "--against", "local-for-global").out
    assert "0-4, 6-10" in text
    assert "base sliding 10000, full 1e+06" in " ".join(text.split())
    assert [line.split()[-2:] for line in text.splitlines() if line.split()[1:2] == [".99"]]


def test_the_length_asked_for_is_not_that_of_training(run):
    """Once seen: --length was taken for the length of training, and every phase for met."""
    plain = {**LLAMA, "rope_scaling": None, "max_position_embeddings": 8192}
    Path("plain.json").write_text(json.dumps(plain))
    (result,) = run("context", "plain.json", "--length", "128k", "--json").results
    assert (result["trained"]["length"], result["length"]) == (8192, 131072)
    assert result["rotations"][0]["unseen"] == 29
    assert (result["verdict"], result["trained"]["source"]) == ("unseen angles", "stated")
    (given,) = run("context", "plain.json", "--trained", 8192, "--json").results
    assert given["trained"] == {"length": 8192, "source": "given"}
    assert given["verdict"] == "no new angles"


def test_a_length_that_a_config_tells_is_with_its_scaling(run):
    """Once seen: linear's pairs were said to have met, at 131072, phases of a million positions."""
    (result,) = run("context", "gemma.json", "--length", "256k", "--json").results
    local, whole = result["rotations"]
    assert (local["unseen"], local["window"]) == (0, 1024)  # a query sees no longer lags
    assert whole["unseen"] == 55
    (result,) = run("context", "gemma.json", "--json").results
    assert [r["unseen"] for r in result["rotations"]] == [0, 0]


def test_a_name_tells_no_length_of_training(run):
    """Once it was NO NEW ANGLES at any length that was asked for."""
    asked = ("context", "rope", "--d", 64, "--length")
    (result,) = run(*asked, "512", "--json").results
    assert (result["trained"], result["length"]) == ({"length": None, "source": "unknown"}, 512)
    assert result["verdict"] == "training length unknown"
    assert result["rotations"][0]["unseen"] is None
    for shorter in (64, 511):
        (result,) = run(*asked, "512", "--trained", shorter, "--json").results
        assert result["rotations"][0]["unseen"] >= 16
    (result,) = run(*asked, "512", "--trained", "512", "--json").results
    (told,) = run(*asked, "513", "--trained", "512", "--json").results
    assert (result["verdict"], result["rotations"][0]["idle"]) == ("no new angles", 16)
    assert told["rotations"][0]["unseen"] == 16


def test_dimensions_kept_apart_do_not_turn(run):
    """DeepSeek-V3 turns 64 of 192 dimensions: with 64 pairs still no sum of 96 is negative."""
    Path("v3.json").write_text(json.dumps(PUBLISHED["deepseek-ai/DeepSeek-V3"]))
    (result,) = run("context", "v3.json", "--json").results
    (r,) = result["rotations"]
    assert (r["pairs"], r["rotated"], r["bound"]) == (96, 32, None)
    assert (r["attention_factor"], round(r["softmax_factor"], 3)) == (1.0, 1.874)


@pytest.mark.parametrize(
    ("length", "verdict"), [(4096, "NO NEW ANGLES"), (4097, "BEYOND EVERY WINDOW")]
)
@pytest.mark.parametrize("kinds", [["sliding_attention"] * 2, ["sliding_attention"]])
def test_a_length_beyond_every_window_is_told_first(run, kinds, length, verdict):
    """Where one layer sees all, that is told, and no more."""
    kinds = [*kinds, "full_attention"][:2]
    told = LLAMA | {"model_type": "qwen2", "num_hidden_layers": 2, "layer_types": kinds}
    told |= {"sliding_window": 4096, "use_sliding_window": True, "rope_scaling": None}
    Path("windows.json").write_text(json.dumps(told))
    said = run("context", "windows.json", "--trained", length, "--length", length).out
    sees_all = kinds[-1] == "full_attention"
    assert said.startswith(f"windows.json: {'NO NEW ANGLES' if sees_all else verdict}. ")


def test_a_spec_is_told_as_it_was_typed(run):
    """Once it was cut at #, and in JSON it had the first type of layer."""
    inner = {"model_type": "nobody", "text_config": LLAMA}
    Path("both.json").write_text(json.dumps(inner))
    asked = ["gemma.json", "both.json#text_config", "gemma.json#full_attention"]
    results = run("context", *asked, "--json").results
    assert [one["spec"] for one in results] == asked
    assert [len(one["rotations"]) for one in results] == [2, 1, 1]
    assert results[2]["rotations"][0]["name"] == "full_attention"
    assert run("context", asked[1]).out.startswith("both.json#text_config: UNSEEN ANGLES. ")
    done = run("context", "llama.json#nonsense")
    assert (done.status, done.out) == (2, "")
    assert "'llama.json' has one rotation for all layers; leave out '#nonsense'" in done.err


def test_of_several_rotations_the_one_misread_most_is_told(run):
    (result,) = run("context", "gemma.json", "--against", "scaling-ignored", "--json").results
    assert result["against"]["rotation"] == "full_attention"
    assert result["against"]["below"] == {".99": 1, ".9": 3, ".5": 389}
    (same,) = run("context", "gemma.json", "--against", "gemma.json", "--json").results
    assert same["against"]["below"] == {".99": None, ".9": None, ".5": None}


def test_figures_are_written(run):
    done = run("context", "llama.json", "--against", "base=10000", "--plot", "bands.svg")
    assert (done.status, Path("bands.svg").read_text()) == (0, "wavelengths")
    asked = ["design", "--length", 100, "--d", 16, "--for", "turns", "--plot", "rho.png"]
    assert run(*asked).status == 0
    assert Path("rho.png").read_text() == "criteria"
    done = run("context", "llama.json", "--plot", "bands.txt")
    assert (done.status, done.out) == (2, "")


def test_extension_as_words_json_and_csv(run):
    asked = ["design", "--extend-from", "llama.json", "--to", "256k"]
    (result,) = run(*asked, "--json").results
    assert (result["trained"], result["length"], result["original"]) == (131072, 262144, 8192)
    ways = {way["way"]: way for way in result["candidates"]}
    assert ways["llama3"]["factor"] == 32
    assert ways["yarn"]["bands"][0].keys() >= {"class", "pairs"}
    assert {"rho", "spec", "min_distance", "rank", "idle", "bound"} <= ways["ntk"].keys()
    assert "rope:rho=500000,scaling=linear,factor=32,d=128" in run(*asked).out
    lines = run(*asked, "--csv").out.splitlines()
    assert len(lines) == 1 + 5
    asked = ["design", "--extend-from", "rope:rho=1e30,d=32", "--length", 64, "--to", 128]
    assert run(*asked, "--json").results[0]["candidates"][0]["bound"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--to", "8k"],
            "--extend-from and --to go together, without --grid: the config, and the length",
        ),
        (
            ["--length", "80"],
            "design needs --d and one of --length, --grid, or --span with --resolution; or "
            "--extend-from CONFIG and --to",
        ),
        (
            ["--extend-from", "llama.json", "--to", "128k"],
            "'llama.json' stands for 131072 positions; an extension is to more, got 131072",
        ),
    ],
    ids=str,
)
def test_designs_that_are_none(run, arguments, message):
    done = run("design", *arguments)
    assert (done.status, done.out, done.err) == (2, "", f"pefourier: {message}\n")


def test_a_grid_has_a_base_for_each_axis(run):
    """Waves end at the side of FLUX's 64 x 64 with base 11.1, at Wan's 21 frames with 3.5."""
    asked = ["design", "--grid", "64x64", "--d", 112, "--for", "turns", "--rho", 1e4]
    rows, columns = run(*asked, "--json").results
    assert (rows["axis"], columns["axis"]) == ("y", "x")
    assert round(rows["best"]["turns"], 1) == 11.1
    assert [c["idle"] for c in rows["candidates"] if c["rho"] == 1e4] == [20]  # of 28
    found = run("design", "--grid", "21x48x80", "--d", 128, "--for", "turns", "--json").results
    assert [one["params"]["d"] for one in found] == [44, 42, 42]
    assert round(found[0]["best"]["turns"], 1) == 3.5
    assert round(found[2]["best"]["turns"], 1) == 14.5


def test_context_of_biases_says_what_can_be_said(run):
    done = run("context", "bloom.json")
    assert done.out.startswith("bloom.json: ANY LENGTH. ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "context takes a model's config.json or folder, or a rotation; got none"),
        (
            ["llama.json", "--against", "local-for-global"],
            "'llama.json' has one rotation; local-for-global needs two",
        ),
        (
            ["llama.json", "--against", "dft"],
            "'dft' is not rotary; give a rotation, or one of scaling-ignored, partial-ignored, "
            "base=NUMBER, local-for-global, layout",
        ),
        (
            ["llama.json", "--against", "scaling_ignore"],
            "unknown misreading 'scaling_ignore'. Did you mean 'scaling-ignored'? Known: "
            "scaling-ignored, partial-ignored, base=NUMBER, local-for-global, layout; or give "
            "another rotation, as rope:rho=1e6.",
        ),
        (["dft", "--against", "rope"], "'dft' is not rotary; --against compares rotations"),
    ],
    ids=str,
)
def test_contexts_that_are_none(run, arguments, message):
    done = run("context", *arguments)
    assert (done.status, done.out, done.err) == (2, "", f"pefourier: {message}\n")


def test_one_config_that_cannot_be_read_stops_no_other(run):
    done = run("context", "none.json", "llama.json", "--json")
    assert done.status == 2
    refused, answered = done.results
    assert refused.keys() == {"spec", "error"}
    assert answered["rotations"]
    assert "none.json" in done.err


def test_context_in_csv_has_a_row_per_band(run):
    lines = run("context", "llama.json", "gemma.json", "--csv").out.splitlines()
    assert lines[0].startswith("encoding,spec,trained,length,rotation,pairs,rotated,base,scaling")
    assert len(lines) == 1 + 3 + 2


def test_design_as_json_and_csv(run):
    asked = ["design", "--length", 100, "--d", 32, "--for", "condition", "--for", "turns"]
    (result,) = run(*asked, "--json").results
    assert result["best"]["condition"] == 5.0
    assert result["criteria"] == ["condition", "turns"]
    assert {"rho", "spec", "min_distance", "rank", "idle", "bound"} <= result["candidates"][
        0
    ].keys()
    assert "CRITERIA DISAGREE. " in result["conclusion"]
    lines = run(*asked, "--csv").out.splitlines()
    assert len(lines) == 1 + len(result["candidates"])
    assert run(*asked, "--dtype", "bf16").out.count("rounded") == 1


def test_design_of_short_lengths_needs_no_base(run):
    out = run("design", "--length", 80, "--d", 256, "--for", "turns").out
    assert "NO BASE NEEDED. " in out


def test_a_config_that_has_probably_lost_its_scaling_is_told_first(run, folder):
    config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
    config |= {"max_position_embeddings": 131072, "rope_theta": 5e5}
    Path("config.json").write_text(json.dumps(config))
    (result,) = run("context", "config.json", "--length", "40k", "--json").results
    (code,) = [f["code"] for f in result["findings"] if f["severity"] == "warning"]
    assert code == "rope-scaling-lost"
    assert "has max_position_embed" in result["conclusion"]


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "opt", "max_position_embeddings": 2048}, 2048),
        (
            {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1},
            512,
        ),
    ],
)
def test_a_table_of_a_config_without_weights_has_its_length(run, config, rows):
    """Once refused: the table is in the weights. Once OPT had two rows less."""
    Path("learned.json").write_text(json.dumps(config))
    (result,) = run("context", "learned.json", "--length", 4096, "--json").results
    assert [run["kind"] for run in result["layers"]] == ["learned"]
    assert result["verdict"] == "too few rows"
    assert f"has rows for {rows} positions; of 4096" in result["meaning"]
    assert run("check-faithful", "learned.json").status == 2


def test_a_file_shorter_than_its_length_says_where_rows_may_come_from(run):
    """Once --length was left unsaid: NO ROTATION."""
    omega = 1e4 ** (-np.arange(0, 32, 2) / 32)
    angles = np.outer(np.arange(20), omega)
    np.save("t.npy", np.stack([np.sin(angles), np.cos(angles)], -1).reshape(20, 32))
    (result,) = run("context", "t.npy", "--length", 50, "--json").results
    assert result["verdict"] == "too few rows"
    assert "20 positions; of 50 asked for, 30" in result["meaning"]


def test_a_length_that_is_given_is_not_said_to_be_missing(run):
    Path("t5.json").write_text(json.dumps({"model_type": "t5"}))
    (result,) = run("context", "t5.json", "--length", "4k", "--json").results
    assert [f["code"] for f in result["findings"]] == ["untrained"]
    (result,) = run("context", "t5.json", "--json").results
    assert "length-default" in [f["code"] for f in result["findings"]]


def test_context_says_which_length_is_safe_in_a_format(run):
    done = run("context", "llama.json", "--require-dtype", "bf16:computed", "--length", "4k")
    assert done.status == 1
    said = "llama.json has 769 of 4096 codes distinct computed in bfloat16; 257 positions are safe"
    assert said in done.err
    lines = [line.split("  ") for line in done.out.splitlines() if "bfloat16" in line]
    assert {line[0]: line[-1].strip() for line in lines if len(line) > 1} == {
        "safe length, phases in bfloat16": "257",
    }
    for asked, length in (("bf16:computed", 257), ("bf16", 4096)):
        done = run("context", "llama.json", "--require-dtype", asked, "--length", length)
        assert done.status == 0
    assert run("context", "llama.json", "--require-dtype", "fp32", "--length", "4k").status == 0
    done = run("context", "llama.json", "--require-dtype", "fp8", "--length", "4k")
    assert done.status == 2
    assert "context tells float32, bfloat16, float16; ask check-faithful for float8_" in done.err


def test_a_rotation_on_axes_says_how_large_an_image_may_be(run):
    """Once a vision config was an internal error, and a named one was said not to rotate."""
    config = {"model_type": "qwen2_vl", "vision_config": {"embed_dim": 1280, "num_heads": 16}}
    Path("vl.json").write_text(json.dumps(config))
    done = run("context", "vl.json#vision_config", "axial-rope:grid=8x8,d=16", "--length", "64")
    assert done.status == 0
    assert done.out.count(": A GRID. ") == 2
    done = run("context", "xpos")
    assert (done.status, done.out) == (2, "")
    assert "'xpos' turns pairs of dimensions in a way of its own; context" in done.err


def test_a_model_that_is_not_known_tells_all_of_its_rotations(run):
    """Once it was asked to name one type of layer."""
    own = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    config = {"model_type": "nobody", "head_dim": 128, "rope_parameters": own}
    config |= {"max_position_embeddings": 32768, "sliding_window": 512, "num_hidden_layers": 3}
    config["layer_types"] = ["sliding_attention", "full_attention", "linear_attention"]
    Path("un.json").write_text(json.dumps(config))
    (result,) = run("context", "un.json", "--length", "128k", "--json").results
    assert [(one["kind"], one["window"]) for one in result["layers"]] == [
        ("rotary", 512),
        ("rotary", None),
        ("none", None),
    ]
    assert [(r["name"], r["base"]) for r in result["rotations"]] == [
        ("sliding_attention", 1e4),
        ("full_attention", 1e6),
    ]


def test_a_length_of_training_that_linear_does_not_read_is_told_as_it_is_used(run, tmp_path):
    """The headline was the key, with the advice to drop it, after which no angle was new."""
    scaling = {"type": "linear", "factor": 3.5, "original_max_position_embeddings": 8192}
    config = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "rope_scaling": scaling}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"max_position_embeddings": 65536}))
    (result,) = run("context", path, "--json").results
    told = {f["code"]: f["message"] for f in result["findings"]}
    assert "not used by rope_type linear; leave it out, unless" in told["unread-key"]
    lengths = "is not max_position_embeddings / original_max_position_embeddings = 65536 / 8192 = 8"
    assert lengths in told["rope-lengths"]
    path.write_text(json.dumps(config | {"max_position_embeddings": 28672}))
    (result,) = run("context", path, "--json").results
    assert [f["code"] for f in result["findings"]] == ["unread-key", "trained-assumed"]
    (result,) = run("context", path, "--length", 29696, "--json").results
    assert result["rotations"][0]["familiar_length"] == 28672


@pytest.mark.parametrize("spec", ["axial-rope", "axial-rope:convention=dinov3"])
def test_a_rotation_by_axes_asks_for_its_grid(run, spec):
    more = "," if ":" in spec else ":"
    done = run("context", spec)
    assert done.status == 2
    assert done.err.endswith(f"give its sides, as in '{spec}{more}grid=14x14'\n")


def test_images_have_no_length(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"model_type": "dinov3_vit", "hidden_size": 128, "num_attention_heads": 2}
    (tmp_path / "c.json").write_text(json.dumps(config | {"image_size": 96, "patch_size": 16}))
    done = run("context", "c.json", "--length", 4096)
    assert done.status == 0
    assert done.err.startswith("pefourier: --length has no effect on c.json")
    assert done.err.count("\n") == 1
    assert run("context", "c.json").err == ""
    assert run("context", "c.json", "--length", 4096, "-q").err == ""
    assert run("resize", "c.json", "--to", "12x12").status == 0


def test_no_positions_are_refused_and_the_last_distance_is_one_less(run):
    assert "length must be a whole number from 1 on; got 0" in run("context", "rope", "-S", 0).err
    done = run("context", "alibi", "--d", 8, "-S", 81)
    assert "slope 0.003906-0.5" in " ".join(done.out.split())
    head, *heads = run("context", "alibi", "t5", "--d", 56, "--csv").out.splitlines()
    assert heads[-1] == f"t5,t5,,80{',' * (head.count(',') - 3)}"
    slopes = [float(row.split(",")[-1]) for row in heads[:-1]]
    ours = [2 ** (-8 * k / 32) for k in range(1, 33)] + [
        2 ** (-4 * k / 32) for k in range(1, 48, 2)
    ]
    np.testing.assert_allclose(slopes, ours, rtol=1e-12)  # those of 32, every other of 64
    assert [row.split(",")[-2] for row in heads[:-1]] == list(map(str, range(56)))
    assert "-0.917\n" in run("context", "alibi", "--d", 56).out  # the largest, head 32
    assert "Its number of heads is d (--d)." in run("context", "alibi:heads=32").err
    assert "Did you mean" not in run("context", "FIRE").err


def test_whisper_rows_are_seconds_and_each_side_is_counted(run, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "whisper", "d_model": 64}))
    said, more = (" ".join(run("context", path, *x).out.split()) for x in ((), ("-S", "3000")))
    assert "rows of the table encoder 1500, decoder 448" in said
    assert "of 3000 asked for, 1500 have none" in more


def test_another_base_is_told_once(run, tmp_path):
    path, stored = tmp_path / "config.json", tmp_path / "base.json"
    sizes = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 2}
    path.write_text(json.dumps(sizes | {"rope_theta": 5e5}))
    stored.write_text(run("context", path, "--json").out)
    path.write_text(json.dumps(sizes | {"rope_theta": 4e5}))
    done = run("context", path, "--baseline", stored)
    assert (done.status, done.err.count("instead of")) == (1, 1)
    assert "base 400000.0 instead of 500000.0" in done.err


def test_a_config_that_turns_in_no_layer_has_no_positions(run, tmp_path):
    """SmolLM3's with no rotation left was told as codes of a rope that are added."""
    sizes = {"hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 4}
    config = {"model_type": "smollm3", **sizes, "rope_theta": 5e6, "no_rope_layers": [0] * 4}
    path = tmp_path / "nope.json"
    path.write_text(json.dumps({**config, "max_position_embeddings": 65536}))
    said = " ".join(run("context", str(path)).out.split())
    assert "nope.json: NO POSITIONS. " in said


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("dft", "CODES REPEAT. "),
        ("learned", "TOO FEW ROWS. A table has rows for 24 positions; of 96 asked for, 72"),
        ("tape", "ANY LENGTH. "),
        ("sinusoidal", "ANY LENGTH. "),
    ],
)
def test_a_name_is_asked_at_the_length_that_is_given(run, spec, said):
    """Once 80 positions were taken for all of them; tape had the sentence of sinusoidal."""
    done = run("context", spec, "--trained", 24, "-S", 96, "--d", 64)
    assert " ".join(done.out.split()).startswith(f"{spec}: {said}")


def test_codes_of_tape_lie_between_those_of_training():
    """Position p of 96 has the code of p / 4 of 24: every fourth is one of training."""
    before, after = (load("tape", n, 64).table() for n in (24, 96))
    assert np.allclose(after[::4], before)
