"""What got worse since a stored answer: each way, and what did not."""

import json
import os
import re
import threading

import numpy as np
import pytest
from published_configs import PUBLISHED

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.errors import PefourierError
from pefourier.questions.faithful import assess
from pefourier.report import baseline
from pefourier.report.baseline import read_baseline
from pefourier.report.faithful import TOLD
from pefourier.report.forms import as_json
from pefourier.report.frame import Answer


def answer(enc):
    return Answer(enc, assess(enc))


def regressions(answer, stored):
    """What got worse, in words that follow the SPEC."""
    return [one.words for one in baseline.differences(answer, stored)[0]]


def stored(enc):
    """What the command writes for it."""
    return json.loads(as_json(TOLD.page([answer(enc)])))["results"][0]


def sines(rows=20, d=8, scale=1.0):
    angle = np.outer(np.arange(rows), 0.7 ** np.arange(d // 2))
    return scale * np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(rows, d)


def with_a_twin(table):
    return np.concatenate([table[:-1], table[:1]])


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (sines(), sines(), []),
        (sines(scale=0.5), sines(), []),
        (with_a_twin(sines()), sines(), []),
        (sines(), sines() * (1 - 1e-9), []),
        (sines(scale=2.0), sines(), ["has min_distance 1.32, 2.639 in the baseline"]),
        (
            sines(),
            with_a_twin(sines()),
            [
                "has verdict collides, injective in the baseline",
                "has min_distance 0, 1.32 in the baseline",
                "has gap 0, 0.6598 in the baseline",
                *(
                    f"has precision.{form}.distinct_cast 19, 20 in the baseline"
                    for form in ("float32", "float16", "bfloat16", "float8_e4m3")
                ),
                "has a new error: 1 of 20 rows repeat an earlier one: 19 = 0",
            ],
        ),
        (
            sines(),
            sines(rows=21),
            ["has length 21 instead of 20"],
        ),
    ],
)
def test_what_got_worse_is_named(before, after, worse):
    found = regressions(answer(from_table(after)), stored(from_table(before)))
    assert len(found) == len(worse)
    assert [one[: len(start)] for one, start in zip(found, worse, strict=True)] == worse


def test_the_distances_are_those_of_the_closed_form():
    """Codes a position apart: sum of 4 sin^2(w / 2) over the pairs."""
    squared = 4 * (np.sin(0.7 ** np.arange(4) / 2) ** 2).sum()
    assert stored(from_table(sines()))["min_distance"] == pytest.approx(np.sqrt(squared))
    assert f"{np.sqrt(squared):.4g}" == "1.32"


@pytest.mark.parametrize("key", ["distinct_cast", "distinct_phase"])
def test_codes_told_apart_in_fewer_formats_got_worse(key):
    enc = load("rope", 300, 8)
    before = stored(enc)
    now = before["precision"]["bfloat16"][key]
    before["precision"]["bfloat16"][key] = now + 1
    (said,) = regressions(answer(enc), before)
    assert said == f"has precision.bfloat16.{key} {now}, {now + 1} in the baseline"
    before["precision"]["bfloat16"][key] = now - 1
    assert regressions(answer(enc), before) == []


def test_a_finding_that_grew_more_severe_got_worse():
    enc = from_table(with_a_twin(sines()))
    before = stored(enc)
    (finding,) = (one for one in before["findings"] if one["code"] == "duplicate-rows")
    finding["severity"] = "warning"
    (said,) = regressions(answer(enc), before)
    assert said.startswith("has a new error: 1 of 20 rows repeat an earlier one: 19 = 0")


def test_an_answer_where_there_was_an_error_is_no_regression():
    assert regressions(answer(load("dft", 8, 8)), {"spec": "dft", "error": "no file"}) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an answer of check-faithful; write it anew"),
        ("[]", "is not an answer of check-faithful; write it anew"),
        ("[" * 100_000, "is not an answer of check-faithful; write it anew"),
        ('{"command": "spectrum", "schema": 4, "results": []}', "is not an answer of check-faith"),
        ('{"command": "check-faithful", "schema": 1, "results": []}', "has layout 1, this version"),
        (
            '{"command": "check-faithful", "schema": 4, "results": [{"spec": "dft"}]}',
            "is not an answer of check-faithful",
        ),
        ("b\x00", "is not an answer of check-faithful"),
    ],
)
def test_another_file_is_refused(tmp_path, text, message):
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(PefourierError, match=f"^{re.escape(f'{str(path)!r} {message}')}"):
        read_baseline(str(path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verdict", "fine"),
        ("min_distance", "1"),
        ("precision", {"float32": {}}),
        ("precision", {"float32": 3}),
        ("findings", [{"code": "x", "severity": "bad"}]),
        ("findings", 3),
        ("length", None),
    ],
)
def test_an_edited_answer_is_refused(tmp_path, key, value):
    whole = json.loads(as_json(TOLD.page([answer(load("dft", 8, 8))])))
    whole["results"][0][key] = value
    (tmp_path / "base.json").write_text(json.dumps(whole))
    with pytest.raises(PefourierError, match=r"is not an answer of check-faithful; write it anew"):
        read_baseline(str(tmp_path / "base.json"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PefourierError, match=r"base.json"):
        read_baseline(str(tmp_path / "base.json"))


def test_the_command_fails_on_what_got_worse_and_says_what(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", sines())
    np.save("b.npy", sines())
    (tmp_path / "base.json").write_text(run("check-faithful", "a.npy", "b.npy", "--json").out)
    done = run("check-faithful", "a.npy", "b.npy", "--baseline", "base.json")
    assert (done.status, done.err) == (0, "")
    np.save("b.npy", sines(scale=0.5))
    done = run("check-faithful", "a.npy", "b.npy", "dft", "--baseline", "base.json")
    assert done.status == 1
    *_, new, worse = done.err.splitlines()
    assert new == "pefourier: dft is not in the baseline: nothing to compare it with"
    assert worse == "pefourier: b.npy has min_distance 0.6598, 1.32 in the baseline"
    assert done.out.startswith("a.npy: ")


def test_parameters_that_changed_for_no_worse_are_noted(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("check-faithful", "rope", "-S", "300", "--d", "64")
    (tmp_path / "base.json").write_text(run(*asked, "--rho", "5e5", "--json").out)
    done = run(*asked, "--baseline", "base.json")
    said = "is not that of the baseline: params.rho 10000.0 instead of 500000.0"
    assert (done.status, done.err) == (0, f"pefourier: rope {said}\n")
    worse = run(*asked, "--baseline", "base.json", "--quiet", "--strict")
    assert (worse.status, worse.err) == (1, done.err)  # why it failed is no note
    quiet = run(*asked, "dft", "--baseline", "base.json", "--quiet")
    assert (quiet.status, quiet.err) == (0, "")
    shown = run(*asked, "--baseline", "base.json", "--format", "github").out.splitlines()
    assert shown[-1].startswith(
        "::warning title=pefourier check-faithful rope::rope is not that of"
    )


def test_a_config_that_lost_its_base_fails_as_its_weights_expect_it(run, tmp_path, monkeypatch):
    """By distances alone the smaller base would be better."""
    monkeypatch.chdir(tmp_path)
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = ("check-faithful", "config.json", "-S", "300")
    (tmp_path / "base.json").write_text(run(*asked, "--json").out)
    (tmp_path / "config.json").write_text(json.dumps(config | {"rope_theta": 1e4}))
    done = run(*asked, "--baseline", "base.json")
    said = "has other positions than its weights were trained with"
    bases = "params.rho 10000.0 instead of 500000.0"
    assert (done.status, done.err) == (1, f"pefourier: config.json {said}: {bases}\n")
    shown = run(*asked, "--baseline", "base.json", "--format", "github").out.splitlines()
    assert shown[-1].startswith("::error file=config.json,title=pefourier check-faithful config")


def test_a_setting_that_the_baselines_version_did_not_have_is_no_change(run, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "head_dim": 64}')
    asked = ("check-faithful", tmp_path / "config.json", "-S", "30")
    stored = json.loads(run(*asked, "--json").out)
    del stored["results"][0]["params"]["partial"]
    (tmp_path / "base.json").write_text(json.dumps(stored))
    done = run(*asked, "--baseline", tmp_path / "base.json")
    assert (done.status, done.err) == (0, "")


def test_a_path_is_found_however_it_is_spelled_and_what_was_not_asked_for_is_named(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        np.save(f"{name}.npy", sines())
    (tmp_path / "base.json").write_text(run("check-faithful", "a.npy", "b.npy", "--json").out)
    np.save("a.npy", sines(scale=0.5))
    done = run("check-faithful", "./a.npy", "--baseline", "base.json")
    assert done.status == 1
    *_, unasked, worse = done.err.splitlines()
    assert unasked == "pefourier: 1 of 2 in the baseline were not asked for: 'b.npy'"
    assert worse == "pefourier: ./a.npy has min_distance 0.6598, 1.32 in the baseline"
    (tmp_path / "b.npy").unlink()
    done = run("check-faithful", "./a.npy", "b.npy", "--baseline", "base.json")
    assert "not asked for" not in done.err  # it was, and is refused


def test_strict_fails_on_anything_that_is_not_as_it_was(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5}
    scaled = config | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    (tmp_path / "config.json").write_text(json.dumps(scaled))
    asked = ("check-faithful", "config.json", "-S", "300")
    (tmp_path / "base.json").write_text(run(*asked, "--json").out)
    assert run(*asked, "--baseline", "base.json", "--strict").status == 0
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run(*asked, "--baseline", "base.json")
    assert done.status == 1
    assert (
        "params.scaling 'none' instead of 'linear'; params.factor none instead of 4.0" in done.err
    )
    (tmp_path / "rope.json").write_text(run("check-faithful", "rope", "--rho", 9, "--json").out)
    asked = ("check-faithful", "rope", "--rho", 8)
    assert run(*asked, "--baseline", "rope.json").status == 0
    assert run(*asked, "--baseline", "rope.json", "--strict").status == 1
    asked = ("check-faithful", "a.npy", "--strict", "-q")
    for order, status in (("mae", 0), ("transformers", 1)):
        table = run("encode", f"axial:convention={order},grid=4x5", "--d", 16, "--out", "a.npy")
        assert table.status == 0
        if not status:
            (tmp_path / "table.json").write_text(run(*asked, "--grid", "4x5", "--json").out)
        done = run(*asked, "--grid", "4x5", "--baseline", "table.json")
        assert done.status == status
    assert "'axial:convention=transformers' instead of 'axial:convention=mae'" in done.err
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = ("check-faithful", "config.json", "-S", "300")
    shown = run(*asked, "--baseline", "base.json", "--strict", "--format", "github").out
    assert shown.splitlines()[-1].startswith("::error file=config.json")


def test_what_changed_is_said_beside_what_got_worse(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.json").write_text(run("check-faithful", "rope", "-S", 99, "--json").out)
    done = run("check-faithful", "rope", "-S", 99, "--rho", "5e7", "--baseline", "base.json")
    assert done.status == 1
    assert "params.rho 50000000.0 instead of 10000.0" in done.err.splitlines()[0]


def test_a_baseline_of_none_that_is_asked_compares_nothing_and_is_refused(run, tmp_path):
    stored = tmp_path / "base.json"
    stored.write_text(run("check-faithful", "rope", "-S", 9, "--json").out)
    done = run("check-faithful", "dft", "-S", 9, "--baseline", stored)
    assert (done.status, done.out) == (2, "")
    assert "none of what was asked is in the baseline, which has 'rope'" in done.err


def test_a_model_folder_is_its_config(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    config = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 300}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    (tmp_path / "base.json").write_text(run("check-faithful", "model/config.json", "--json").out)
    done = run("check-faithful", "model", "--baseline", "base.json")
    assert (done.status, done.err) == (0, "")
    done = run("check-faithful", "dft", "--baseline", "base.json")
    assert "in the baseline, which has 'model/config.json'" in done.err


def test_the_command_annotates_for_github(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a,b.npy", with_a_twin(sines()))
    done = run("check-faithful", "a,b.npy", "dft", "nix", "--format", "github")
    lines = done.out.splitlines()
    assert done.status == 2
    assert [line.partition(" ")[0] for line in lines] == [
        "::notice",  # how many were answered
        "::notice",  # the conclusions
        "::notice",
        "::error",  # what was found of each
        "::notice",
        "::error",
    ]
    title = "title=pefourier check-faithful a%2Cb.npy"
    assert "title=pefourier check-faithful::2 of 3 answered, 1 refused" in lines[0]
    assert lines[3].startswith(
        f"::error file=a%2Cb.npy,{title}::1 of 20 rows repeat an earlier one"
    )
    assert lines[5].startswith("::error title=pefourier check-faithful nix::unknown encoding 'nix'")
    (tmp_path / "base.json").write_text(run("check-faithful", "dft", "--json").out)
    asked = ["check-faithful", "dft", "--rho", "10", "--require", "invertible"]
    done = run(*asked, "--d", "64", "--format", "github")
    assert done.status == 1
    assert done.out.splitlines()[-1] == (
        "::error title=pefourier check-faithful dft::dft collides, where invertible is required "
        "[unmet]"
    )


def test_forms_exclude_each_other(run):
    done = run("spectrum", "--json", "--format", "csv")
    assert (done.status, done.out) == (2, "")
    assert done.err == "pefourier: --json and --format csv exclude each other; give one\n"


@pytest.mark.parametrize("form", ["json", "csv", "text"])
def test_a_form_by_name_is_the_form_by_option(run, form):
    option = [] if form == "text" else [f"--{form}"]
    assert run("spectrum", "dft", "--format", form).out == run("spectrum", "dft", *option).out


TAMPERED = {
    "spec": 5,
    "precision": [],
    "findings": [{"code": ["x"], "severity": "note", "message": ""}],
    "min_distance": 10**400,
    "gap": float("nan"),
    "length": True,
    "layers": [{"index": ["x"], "kind": "rotary", "window": None}],
    "params": [],
    "verdict": ["injective"],
}


@pytest.mark.parametrize("key", TAMPERED)
def test_a_tampered_baseline_is_refused(key, run, tmp_path):
    asked = json.loads(run("check-faithful", "rope", "-S", 9, "--json").out)
    asked["results"][0][key] = TAMPERED[key]
    (tmp_path / "base.json").write_text(json.dumps(asked))
    done = run("check-faithful", "rope", "-S", 9, "--baseline", tmp_path / "base.json")
    assert (done.status, done.out) == (2, "")
    assert "is not an answer of check-faithful; write it anew with" in done.err


def test_a_baseline_in_a_pipe_is_read(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = run("check-faithful", "rope", "-S", 9, "--json").out
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writer.start()
    assert run("check-faithful", "rope", "-S", 9, "--baseline", tmp_path / "pipe").status == 0
    writer.join()


MAKERS = ("google", "meta-llama", "Qwen", "deepseek-ai", "openai", "mistralai")
TWENTY = {  # and more
    name.replace("/", "--").replace(",", ""): {"num_hidden_layers": 12, **values}
    for name, values in PUBLISHED.items()
    if name.partition("/")[0]
    in ("google", "meta-llama", "Qwen", "deepseek-ai", "openai", "mistralai")
}
MODERN = {
    **{"model_type": "modernbert", "hidden_size": 768, "num_attention_heads": 12},
    **{"max_position_embeddings": 8192, "num_hidden_layers": 12, "global_attn_every_n_layers": 3},
    **{"global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "local_attention": 128},
}


def test_twenty_published_configs_are_checked_in_one_call(run, tmp_path, monkeypatch):
    """Windows, kinds of layers and factors of logits count; each change has its model's name."""
    monkeypatch.chdir(tmp_path)
    configs = TWENTY | {"answerdotai--ModernBERT-base": MODERN}
    assert len(configs) >= 20
    for name, values in configs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    names = [f"{name}.json" for name in configs]
    asked = ["check-faithful", *names, "-S", "64", "-q"]
    made = run(*asked, "--json")
    assert made.status == 0
    (tmp_path / "base").write_text(made.out)
    specs = [one["spec"] for one in made.results]
    modern = "answerdotai--ModernBERT-base.json"
    assert {f"{modern}#full_attention", f"{modern}#sliding_attention"} <= {*specs}
    assert len(specs) >= len(names) + 3
    assert run(*asked, "--baseline", "base", "--strict").status == 0

    def change(name, **own):
        values = configs[name] | own
        (tmp_path / f"{name}.json").write_text(json.dumps(values))

    change("mistralai--Mistral-7B-v0.1", sliding_window=2048)
    change("answerdotai--ModernBERT-base", global_attn_every_n_layers=4)
    scaling = configs["deepseek-ai--DeepSeek-V3"]["rope_scaling"]
    change("deepseek-ai--DeepSeek-V3", rope_scaling={**scaling, "mscale_all_dim": 0.5})
    (tmp_path / "Qwen--Qwen3-8B.json").write_text("{")
    done = run(*asked, "--baseline", "base", "--strict", "--json")
    reasons = json.loads(done.out)["reasons"]
    told = {one["spec"]: (one["kind"], one["message"]) for one in reversed(reasons)}
    assert done.status == 2
    assert told.pop("Qwen--Qwen3-8B.json")[0] == "refused"
    assert {kind for kind, _ in told.values()} == {"changed"}
    parts = [f"{modern}#full_attention", f"{modern}#sliding_attention"]
    assert sorted(told) == sorted(
        [*parts, "mistralai--Mistral-7B-v0.1.json", "deepseek-ai--DeepSeek-V3.json"]
    )
    window = "layers.0-11.window 2048 instead of 4096"
    assert window in told["mistralai--Mistral-7B-v0.1.json"][1]
    assert "softmax_factor 1.402" in told["deepseek-ai--DeepSeek-V3.json"][1]
    assert "layer" in told[parts[0]][1]


def test_context_has_a_baseline_too(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(MODERN))
    asked = ("context", "config.json", "-S", 300)
    made = run(*asked, "--json").out
    (tmp_path / "base").write_text(made)
    done = run(*asked, "--baseline", "base")
    assert (done.status, done.err) == (0, "")
    changes = {
        "local_attention": (64, "layers.1-2, 4-5, 7-8, 10-11.window 64 instead of 128"),
        "global_attn_every_n_layers": (6, "layers.0, 6.kind 'rotary' instead of none"),
        "global_rope_theta": (1e4, "rotations.full_attention.base 10000.0 instead of 160000.0"),
    }
    for key, (value, said) in changes.items():
        (tmp_path / "config.json").write_text(json.dumps(MODERN | {key: value}))
        done = run(*asked, "--baseline", "base", "--json")
        assert done.status == 1
        assert json.loads(done.out)["reasons"][0]["kind"] == "changed"
        assert said in done.err, done.err
    done = run("context", "config.json", "-S", 400, "--baseline", "base")
    assert "has length 400 instead of 300" in done.err
    known = {"model_type": "qwen2_vl_text", "head_dim": 128, "rope_theta": 1e6}
    by = {sections: {"mrope_section": sections} for sections in ((16, 24, 24), (24, 20, 20))}
    for command in ("context", "check-faithful"):
        for sections, scaling in by.items():
            text = json.dumps(known | {"rope_scaling": scaling})
            (tmp_path / "config.json").write_text(text)
            if sections[0] == 16:
                (tmp_path / "base").write_text(run(command, "config.json", "--json").out)
        done = run(command, "config.json", "--baseline", "base")
        assert done.status == 1
        said = "mrope_section '24 t + 20 y + 20 x' instead of '16 t + 24 y + 24 x'"
        assert said in done.err, done.err
        for share in (0.25, 0.5):
            text = json.dumps({"model_type": "gpt_neox", "head_dim": 96, "rotary_pct": share})
            (tmp_path / "config.json").write_text(text)
            if share == 0.25:
                (tmp_path / "base").write_text(run(command, "config.json", "--json").out)
        done = run(command, "config.json", "--baseline", "base")
        ways = {
            "context": ": rotations.rotated 24 instead of 12",
            "check-faithful": ": params.partial 0.5",
        }
        assert ways[command] in done.err, done.err
        assert done.err.splitlines()[0].count("instead of") == 1
    (tmp_path / "base").write_text(run("context", "rope", "config.json", "--json").out)
    kept = "context", "rope", "--baseline", "base"
    assert [run(*kept).status, run(*kept, "--strict").status] == [0, 1]  # one is gone
    (tmp_path / "base").write_text(run("check-faithful", "rope", "--json").out)
    assert "is not an answer of context" in run(*asked, "--baseline", "base").err


GEMMA = {
    **{"model_type": "gemma3_text", "hidden_size": 64, "head_dim": 32, "num_attention_heads": 2},
    **{"num_hidden_layers": 6, "max_position_embeddings": 512, "sliding_window": 64},
    **{"rope_theta": 1e6, "rope_local_base_freq": 1e4},
}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64},
    **{"low_freq_factor": 1.0, "high_freq_factor": 4.0},
}
LONG = {
    **{"rope_type": "longrope", "factor": 8.0, "original_max_position_embeddings": 64},
    **{"short_factor": [1.0] * 16, "long_factor": [2.0] * 16},
}
DYNAMIC = {"rope_type": "dynamic", "factor": 8.0}
CHANGES = [
    *(
        (GEMMA | {"rope_scaling": scaling}, {"rope_scaling": scaling | change})
        for scaling, changes in (
            ({"rope_type": "linear", "factor": 8.0}, [{"factor": 2.0}]),
            (
                YARN,
                [
                    {"factor": 4.0},
                    {"beta_fast": 16.0},
                    {"beta_slow": 2.0},
                    {"attention_factor": 1.1},
                    {"mscale": 1.0, "mscale_all_dim": 0.5},
                    {"original_max_position_embeddings": 128},
                ],
            ),
            (
                LLAMA3,
                [
                    {"factor": 4.0},
                    {"low_freq_factor": 2.0},
                    {"high_freq_factor": 5.0},
                    {"original_max_position_embeddings": 128},
                ],
            ),
            (
                LONG,
                [
                    {"attention_factor": 1.5},
                    {"short_factor": [1.5] * 16},
                    {"long_factor": [2.0] * 15 + [3.0]},
                ],
            ),
            (DYNAMIC, [{"factor": 2.0}]),
        )
        for change in changes
    ),
    *(
        (GEMMA, change)
        for change in (
            {"rope_theta": 5e5},
            {"rope_local_base_freq": 5e3},
            {"sliding_window": 32},
            {"sliding_window_pattern": 3},
            {"num_hidden_layers": 7},
            {"head_dim": 16},
            {"max_position_embeddings": 1024},
            {"layer_types": ["full_attention"] * 6},
        )
    ),
]


@pytest.mark.parametrize("command", ["context", "check-faithful"])
@pytest.mark.parametrize(("config", "change"), CHANGES)
def test_no_setting_of_any_rotation_changes_unseen(
    command, config, change, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "base").write_text(run(command, "config.json", "--json").out)
    asked = (command, "config.json", "--baseline", "base", "-q")
    assert run(*asked).status == 0
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    done = run(*asked, "--json")
    assert done.status == 1, change
    assert any(one["kind"] == "changed" for one in json.loads(done.out)["reasons"])


def test_a_rotation_that_a_model_did_not_have_is_a_change(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = GEMMA | {"model_type": "llama"}
    for before, after in ((GEMMA, one), (one, GEMMA)):
        (tmp_path / "config.json").write_text(json.dumps(before))
        asked = ("check-faithful", "config.json", "dft", "-S", 64, "-q")
        (tmp_path / "base").write_text(run(*asked, "--json").out)
        (tmp_path / "config.json").write_text(json.dumps(after))
        assert run(*asked, "--baseline", "base").status == 1


@pytest.mark.usefixtures("undrawn")
def test_all_rotations_of_a_config_are_answered(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(MODERN))
    names = [f"config.json#{layer}" for layer in ("full_attention", "sliding_attention")]
    for command in ("check-faithful", "spectrum", "reconstruct"):
        found = run(command, "config.json", "rope", "-S", "90", "--json").results
        assert [one["spec"] for one in found] == [*names, "rope"]
        alone = run(command, names[1], "-S", "90", "--json").results
        assert alone[0]["params"] == found[1]["params"] != found[0]["params"]
    done = run("report", "config.json", "-S", "90", "--out", "r.html", "--json")
    assert [one["spec"] for one in done.results] == names
