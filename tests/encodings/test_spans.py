"""Position ids of text, images and videos, and the rotations by them, against transformers."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from pefourier.analysis.compare import compare
from pefourier.analysis.faithful import assess
from pefourier.answers.compare import conclude_comparison
from pefourier.encodings import load
from pefourier.encodings.spans import read_spans
from pefourier.errors import PefourierError

TEXT = "axial-rope:convention=qwen2-vl-text"
VIDEO = "text:3 video:8x4x4 text:9"


def ids(text, **own):
    return np.hstack([span.ids for span in read_spans(text, **own)])


def test_ids_of_an_image_between_texts():
    """As the library gives them for 3 tokens, a grid (1, 4, 6) merged by 2, and 2 tokens."""
    np.testing.assert_array_equal(
        ids("text:3 image:4x6 text:2"),
        [
            [0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7],
            [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7],
            [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7],
        ],
    )


CASES = ["text:3 image:4x6 text:2", VIDEO, "image:6x4 text:5 image:2x8 text:1", "text:4"]


@pytest.mark.parametrize("text", CASES)
def test_ids_are_those_of_transformers(text):
    torch = pytest.importorskip("torch")
    qwen2 = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl")
    spans = read_spans(text)
    kinds = [k for s in spans for k in [("text", "image", "video").index(s.kind)] * s.ids.shape[1]]
    grids = {
        kind: torch.tensor([(1, *s.sides)[-3:] for s in spans if s.kind == kind]).reshape(-1, 3)
        for kind in ("image", "video")
    }
    vision = SimpleNamespace(spatial_merge_size=2, temporal_patch_size=2)
    stub = SimpleNamespace(
        config=SimpleNamespace(vision_config=vision),
        get_vision_position_ids=lambda *a, **k: qwen2.Qwen2VLModel.get_vision_position_ids(
            None, *a, **k
        ),
    )
    made, _ = qwen2.Qwen2VLModel.get_rope_index(
        stub,
        torch.zeros(1, len(kinds), dtype=torch.long),
        torch.tensor([kinds]),
        grids["image"],
        grids["video"],
    )
    np.testing.assert_array_equal(ids(text), made[:, 0])


def test_text_after_a_video_in_two_versions():
    assert (ids(VIDEO)[:, -9] == 5).all()  # within the ids 3 … 10 of the frames
    assert (ids(VIDEO, ids="4.57")[:, -9] == 11).all()
    (found,) = (f for f in load(TEXT, d=128, spans=VIDEO).findings if "overlap" in f.code)
    assert "text:9 begins at id 5, within the ids of video:8x4x4, which reach 10" in found.message
    assert load(TEXT, d=128, spans=VIDEO, ids="4.57").findings == ()
    assert load(TEXT, d=128, spans="text:3 image:4x6 text:2").findings == ()


@pytest.mark.parametrize("text", CASES)
def test_no_two_tokens_share_all_ids(text):
    """Rows and columns end before what follows begins: codes are near, but not the same."""
    found = ids(text)
    assert len(np.unique(found, axis=1).T) == found.shape[1]
    assert assess(load(TEXT, d=128, spans=text)).verdict != "collides"


@pytest.mark.parametrize(
    ("name", "module", "section"),
    [
        ("qwen2-vl-text", "qwen2_vl", [16, 24, 24]),
        ("qwen3-vl-text,rho=1e6", "qwen3_vl", [24, 20, 20]),
    ],
)
def test_tokens_are_turned_as_in_transformers(name, module, section):
    public = pytest.importorskip("public_axes")
    enc = load(f"axial-rope:convention={name}", d=128, spans="text:3 image:4x6 text:2")
    own = getattr(public, module.replace("_vl", ""))
    kind = {"qwen2_vl": "Qwen2VL", "qwen3_vl": "Qwen3VLText"}[module]
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": section}
    text = {"qwen2_vl": "Qwen2VLTextConfig", "qwen3_vl": "Qwen3VLTextConfig"}[module]
    config = getattr(own, text)(hidden_size=128, num_attention_heads=1, rope_parameters=rope)
    places = public.torch.tensor(enc.params["position_ids"])[:, None]
    made = getattr(own, f"{kind}RotaryEmbedding")(config)(public.torch.zeros(1), places)
    cos, sin = (part[0, :, :64].numpy() for part in made)
    np.testing.assert_allclose(enc.table(), np.hstack([cos, sin]), atol=2e-6)


@pytest.fixture
def config(tmp_path):
    def write(kind, **own):
        text = {"model_type": f"{kind}_text", "hidden_size": 128, "num_attention_heads": 1, **own}
        values = {"model_type": kind, "text_config": text}
        values["vision_config"] = {"model_type": f"{kind}_vision", "spatial_merge_size": 2}
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values))
        return str(path)

    return write


def test_codes_of_tokens_are_counted_as_torch_computes_them():
    torch = pytest.importorskip("torch")
    enc = load(TEXT, d=128, spans="text:300 image:32x48 text:2000")
    found = assess(enc)
    waves, places = enc.walk
    axis, omega = waves.frequencies.argmax(axis=1), torch.tensor(waves.frequencies.max(axis=1))
    assert sorted(omega.tolist(), reverse=True) == pytest.approx(1e6 ** (-np.arange(64) / 64))
    for name in ("float32", "float16", "bfloat16"):
        form = getattr(torch, name)
        phases = (torch.tensor(places[:, axis]).to(form) * omega.to(form)).double()
        made = torch.cat([phases.cos().to(form), phases.sin().to(form)], 1).float()
        assert found.precision[name].distinct_phase == len(np.unique(made, axis=0))
    assert found.formats_kept_computed == "float32"


@pytest.mark.parametrize(("kind", "rho"), [("qwen2_vl", 1e6), ("qwen3_vl", 5e6)])
def test_a_config_turns_tokens_by_its_sections(config, kind, rho):
    rope = {"rope_type": "default", "rope_theta": rho}
    enc = load(config(kind, rope_parameters=rope), spans="text:3 image:4x6 text:2")
    named = load(
        f"axial-rope:convention={kind.replace('_', '-')}-text",
        d=128,
        spans="text:3 image:4x6 text:2",
    )
    np.testing.assert_allclose(enc.table(), named.table(), atol=1e-12)


def test_sections_of_the_config_win(config):
    rope = {"rope_theta": 1e6, "mrope_section": [32, 16, 16], "mrope_interleaved": True}
    enc = load(config("qwen2_vl", rope_parameters=rope), spans="image:4x6")
    named = load(
        "axial-rope:convention=qwen3-vl-text,rho=1e6,share=32;16;16", d=128, spans="image:4x6"
    )
    np.testing.assert_allclose(enc.table(), named.table(), atol=1e-12)


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl"])
def test_other_ways_to_count_frames_are_said(config, kind):
    codes = [f.code for f in load(config(kind), spans=VIDEO).findings]
    assert "position-ids-video" in codes
    assert "position-ids-video" not in [f.code for f in load(config(kind), spans="text:3").findings]


REFUSED = {
    "text": "'text' is not a span; write text:3, image:4x6",
    "text:3 image:4": "'image:4' is not a span",
    "video:4x4": "'video:4x4' is not a span",
    "text:0": "a side of text:0 must be a whole number from 1 on; got 0",
    "image:5x6": "'image:5x6' has a side of 5 patches, which merges of 2 x 2 do not divide; take 4 "
    "or 6",
    "image:1x6": "take 2 or 2",
    "text:99999999999": "tokens of --spans must be a whole number up to",
    " ": "--spans names no span",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=str)
def test_what_is_no_span_is_refused(text, said):
    with pytest.raises(PefourierError) as caught:
        load(TEXT, d=128, spans=text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["sinusoidal", "axial", "axial-rope:convention=llama4", "table.npy"]
)
def test_what_has_not_three_axes_is_refused(spec):
    with pytest.raises(PefourierError, match=r"--spans suits configs|must name each of the axes"):
        load(spec, d=128, spans="text:3")


def test_a_grid_beside_spans_is_refused():
    with pytest.raises(PefourierError, match="leave out --grid and --length"):
        load(TEXT, d=128, spans="text:3", grid=(2, 2))


def test_sections_that_do_not_sum_are_refused(config):
    rope = {"rope_theta": 1e6, "mrope_section": [16, 16, 16]}
    with pytest.raises(PefourierError, match="that sum to 64"):
        load(config("qwen2_vl", rope_parameters=rope), spans="text:3")


def test_the_command_takes_spans(run):
    (result,) = run("check-faithful", TEXT, "--d", 128, "--spans", VIDEO, "--json").results
    assert result["length"] == 44
    assert result["params"]["position_ids"][0][-9:] == list(range(5, 14))
    assert "position-ids-overlap" in [f["code"] for f in result["findings"]]


def test_tokens_of_spans_are_named_and_none_is_left_out(run, config):
    """Without spans a config is answered for text alone, which a note says; with them for all."""
    path = config("qwen2_vl", rope_parameters={"rope_theta": 1e6, "mrope_section": [16, 24, 24]})
    arguments = "check-faithful", path, "--spans", "text:5 image:4x6 text:3"
    asked = (
        run("check-faithful", path, "--json").results,
        run(*arguments, "--json").results,
    )
    notes = [[one["code"] for one in results[0]["findings"]] for results in asked]
    assert ("rope-axes" in notes[0], "rope-axes" in notes[1]) == (True, False)
    assert "token 5 at (5,5,5) and token 6 at (5,5,6)" in run(*arguments).out


QWEN = {
    "model_type": "qwen2_vl",
    "hidden_size": 256,
    "num_attention_heads": 2,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}
ON_AXES = [
    ["check-faithful", "c.json", "--grid", "6x4"],
    ["spectrum", "c.json", "--grid", "6x4"],
    ["encode", "c.json", "--grid", "6x4", "--out", "codes.npy"],
    ["resize", "c.json", "--from", "6x4", "--to", "9x4"],
]


@pytest.mark.parametrize("arguments", ON_AXES, ids=lambda one: one[0])
@pytest.mark.parametrize(("merge", "span"), [(2, "image:12x8"), (3, "image:18x12")])
def test_text_is_not_laid_out_as_an_image(run, tmp_path, monkeypatch, arguments, merge, span):
    """Text on 6 x 4 was answered as if it were an image, whose codes are others."""
    monkeypatch.chdir(tmp_path)
    config = QWEN | {"vision_config": {"spatial_merge_size": merge}}
    (tmp_path / "c.json").write_text(json.dumps(config))
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert "'c.json' turns images by frames, rows and columns (M-RoPE); 6x4 tokens" in done.err
    assert (
        f"Give --spans {span} in place of a grid (patches, {merge} x {merge} of which" in done.err
    )
    assert done.err.count("\n") == 1
    assert run("check-faithful", "c.json", "--spans", span, "--json").results[0]["length"] == 24
    assert run("check-faithful", "c.json", "--grid", "24", "--json").results[0]["length"] == 24


def test_a_video_is_asked_for_by_spans_too(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps(QWEN))
    assert "--spans video:5x12x8" in run("check-faithful", "c.json", "--grid", "5x6x4").err


@pytest.mark.parametrize("other", [{"mrope_section": [24, 20, 20]}, {"mrope_interleaved": True}])
@pytest.mark.parametrize("spans", [{}, {"spans": "text:3 image:6x8"}])
def test_rotations_that_read_text_alike_and_images_by_other_axes_are_not_the_same(
    config, other, spans
):
    """Codes of text agree to the bit, those of an image from its first rows on."""
    known = {"rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    both = ({"rope_parameters": known | more} for more in ({}, other))
    one, two = (load(config("qwen2_vl", **rope), **spans) for rope in both)
    assert compare(one, one).same
    found = compare(one, two)
    assert (np.array_equal(one.table(), two.table()), found.same) == (not spans, False)
    assert found.cause.changes["mrope_section"][0] == "16 t + 24 y + 24 x"
    verdict = conclude_comparison(found).verdict
    assert verdict == ("DIFFERENT" if spans else "DIFFERENT FOR IMAGES")
