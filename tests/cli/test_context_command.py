"""`pefourier context` and `pefourier design` as typed."""

import json

import pytest

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
    assert (result["trained"], result["length"]) == (8192, 131072)
    assert result["layers"] == [
        {"index": list(range(32)), "kind": "rotary", "rotation": 0, "window": None}
    ]
    assert result["against"]["below"] == {".99": 512, ".9": 1724, ".5": 60725}
    assert result["against"]["cosine"][0][0] == 1
    assert result["conclusion"].startswith(
        "Trained at 8192 positions and asked for 131072 with scaling llama3: 29 of 64 pairs meet "
        "phases they never met."
    )


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
    assert "Read as local-for-global the cosine between the codes falls below .99" in text


def test_context_of_biases_says_what_can_be_said(run):
    done = run("context", "bloom.json")
    assert done.out.startswith(
        "bloom.json: Biases of distance (ALiBi) have no length: the flattest"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "context takes a model's config.json or folder, or a rotation; got none"),
        (
            ["llama.json", "--against", "local-for-global"],
            "'llama.json' has one rotation; local-for-global needs a model with two",
        ),
        (
            ["llama.json", "--against", "dft"],
            "'dft' is not rotary; give a rotation, or one of scaling-ignored, partial-ignored, "
            "base=NUMBER, local-for-global, layout",
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
    assert lines[0].startswith("spec,rotation,trained,length,pairs,rotated,base,scaling")
    assert len(lines) == 1 + 3 + 2


def test_design_as_json_and_csv(run):
    asked = ["design", "--length", 100, "--d", 32, "--for", "condition", "--for", "turns"]
    (result,) = run(*asked, "--json").results
    assert result["best"]["condition"] == 5.0
    assert result["criteria"] == ["condition", "turns"]
    assert {"rho", "spec", "min_distance", "rank", "idle", "bound"} <= result["candidates"][
        0
    ].keys()
    assert "The criteria contradict one another" in result["conclusion"]
    lines = run(*asked, "--csv").out.splitlines()
    assert len(lines) == 1 + len(result["candidates"])
    assert run(*asked, "--dtype", "bf16").out.count("after rounding") == 1


def test_design_of_short_lengths_needs_no_base(run):
    out = run("design", "--length", 80, "--d", 256, "--for", "turns").out
    assert " ".join(out.split()).startswith(
        "No base is needed: with 80 positions and d 256 the DFT"
    )
