"""Weights in the order of another pairing: their own inverse, and the same logits."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_models import CONFIG, random_tensors, write_model

from pefourier.errors import PefourierError
from pefourier.weights.convert import convert_weights
from pefourier.weights.usage import use_of_model

WAYS = [("halves", "neighbours"), ("neighbours", "halves")]


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_converting_back_gives_the_same_bytes(tmp_path, source, target):
    path = Path(write_model(tmp_path / "m"), "model.safetensors")
    one, two = tmp_path / "m" / "one.safetensors", tmp_path / "m" / "two.safetensors"
    found = convert_weights(str(path), source, target, str(one))
    assert (found.layers, found.heads, len(found.tensors), found.copied) == (2, 8, 4, 5)
    assert one.read_bytes() != path.read_bytes()
    convert_weights(str(one), target, source, str(two))
    assert two.read_bytes() == path.read_bytes()


def test_rows_stand_where_the_other_pairing_looks_for_them(tmp_path):
    path = Path(write_model(tmp_path), "model.safetensors")
    convert_weights(str(path), "halves", "neighbours", str(tmp_path / "new.safetensors"))
    before, after = (load_file(tmp_path / f"{n}.safetensors") for n in ("model", "new"))
    name = "model.layers.1.self_attn.k_proj.weight"
    own, moved = (t[name].reshape(2, 8, 24) for t in (before, after))
    for i in range(4):
        np.testing.assert_array_equal(moved[:, 2 * i : 2 * i + 2], own[:, [i, i + 4]])
    kept = "model.layers.1.self_attn.v_proj.weight"
    np.testing.assert_array_equal(after[kept], before[kept])


def test_usage_stays_as_it_is(tmp_path):
    path = write_model(tmp_path / "m")
    (tmp_path / "n").mkdir()
    out = tmp_path / "n" / "model.safetensors"
    convert_weights(path, "halves", "neighbours", str(out))
    (tmp_path / "n" / "config.json").write_text(json.dumps({**CONFIG, "model_type": "ernie4_5"}))
    one, two = use_of_model(path), use_of_model(str(tmp_path / "n"))
    assert (one.pairing.name, two.pairing.name) == ("halves", "neighbours")
    for a, b in zip(one.shares, two.shares, strict=True):
        np.testing.assert_allclose(a.product, b.product, rtol=1e-6)


def test_without_a_config_heads_are_given(tmp_path):
    path = Path(write_model(tmp_path / "m"), "model.safetensors")
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes(path.read_bytes())
    for source, out, heads in ((path, "one", None), (alone, "two", (4, 2))):
        convert_weights(
            str(source), "halves", "neighbours", str(tmp_path / f"{out}.safetensors"), heads
        )
    assert (tmp_path / "one.safetensors").read_bytes() == (
        tmp_path / "two.safetensors"
    ).read_bytes()


def test_shards_are_written_beside_their_index(tmp_path):
    folder, out = Path(write_model(tmp_path / "m")), tmp_path / "out"
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index = {}
    for i, names in enumerate((sorted(tensors)[:4], sorted(tensors)[4:])):
        file = f"model-0000{i}.safetensors"
        save_file({name: tensors[name] for name in names}, folder / file)
        index |= dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    with pytest.raises(PefourierError, match="--out must be a folder that is there"):
        convert_weights(str(folder), "halves", "neighbours", str(out))
    out.mkdir()
    found = convert_weights(str(folder), "halves", "neighbours", str(out))
    assert [Path(name).name for name in found.files][-1] == "model.safetensors.index.json"
    assert len(list(out.iterdir())) == 3


EXTRA = "model.layers.0.self_attn."
REFUSED = {
    "may hang on the order of rows": {f"{EXTRA}q_proj.lora_A.weight": np.ones((2, 2), np.float32)},
    "scales rows that would be parted": {
        f"{EXTRA}q_proj.weight_scale_inv": np.ones((8, 1), np.float32)
    },
    "has 5 gains for 4 heads of 8 rows": {f"{EXTRA}q_norm.weight": np.ones(5, np.float32)},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_not_known_is_refused_and_nothing_is_written(tmp_path, words):
    path = write_model(tmp_path / "m", random_tensors() | REFUSED[words])
    out = tmp_path / "new.safetensors"
    with pytest.raises(PefourierError, match=re.escape(words)):
        convert_weights(path, "halves", "neighbours", str(out))
    assert not out.exists()


def test_rows_that_are_values_too_are_not_reordered(tmp_path):
    """DeepSeek V4 turns the last rows of a head, and has one projection for keys and values."""
    path = write_model(tmp_path / "m", model_type="deepseek_v4", qk_rope_head_dim=4)
    with pytest.raises(PefourierError, match=r"reordering it would reorder values$"):
        convert_weights(path, "neighbours", "halves", str(tmp_path / "new.safetensors"))


def test_wrong_requests_are_refused(tmp_path):
    path = write_model(tmp_path / "m")
    same = f"{path}/model.safetensors"
    for words, arguments in {
        "there is nothing to reorder": ("halves", "halves", "x.safetensors"),
        "is the file that is read": ("halves", "neighbours", same),
        "--out must end in .safetensors, or be a folder that is there, for 1 file of": (
            "halves",
            "neighbours",
            "x.npy",
        ),
    }.items():
        with pytest.raises(PefourierError, match=re.escape(words)):
            convert_weights(path, *arguments)


SIZES = {
    **{"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"num_hidden_layers": 2, "intermediate_size": 16, "vocab_size": 60},
    **{"max_position_embeddings": 64, "pad_token_id": 0, "head_dim": 8},
}
LATENT = {
    **{"qk_rope_head_dim": 8, "qk_nope_head_dim": 4, "v_head_dim": 8, "kv_lora_rank": 12},
    **{"q_lora_rank": 20, "first_k_dense_replace": 2, "num_key_value_heads": 4},
}
HALF = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
MODELS = {  # what turns halves, and what turns neighbours in transformers
    "llama": ("halves", {"attention_bias": True}),
    "qwen3": ("halves", {}),
    "olmo2": ("halves", {}),
    "gpt_neox": ("halves", {"rope_parameters": HALF}),
    "glm": ("neighbours", {"attention_bias": True, "partial_rotary_factor": 0.5}),
    "cohere": ("neighbours", {"use_qk_norm": True}),
    "deepseek_v3": ("neighbours", LATENT),
}


def other_rotation(source):
    """A rotation by the angles of given cosines and sines, of the other pairing, partial or not."""
    import torch

    def rotate(x, cosines, sines):
        r = cosines.shape[-1]
        if source == "halves":  # the columns of a table in halves; rows in neighbours now
            c, s = (t[..., : r // 2] for t in (cosines, sines))
            a, b = x[..., 0:r:2], x[..., 1:r:2]
            turned = torch.stack([a * c - b * s, b * c + a * s], dim=-1).flatten(-2)
        else:
            c, s = ANGLES[source](cosines, sines)
            a, b = x[..., : r // 2], x[..., r // 2 : r]
            turned = torch.cat([a * c - b * s, b * c + a * s], dim=-1)
        return torch.cat([turned, x[..., r:]], dim=-1)

    def apply(q, k, cosines, sines, *rest, **more):
        cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
        return rotate(q, cosines, sines), rotate(k, cosines, sines)

    return apply


def table_of_neighbours(cosines, sines):
    """The columns of a table, one for each pair: of GLM's in halves, of Cohere's repeated."""
    import torch

    r = cosines.shape[-1]
    repeated = torch.equal(cosines[..., 0::2], cosines[..., 1::2])
    chosen = slice(0, r, 2) if repeated else slice(0, r // 2)
    return cosines[..., chosen], sines[..., chosen]


ANGLES = {"neighbours": table_of_neighbours}


SHORT = {"llama", "gpt_neox", "glm", "deepseek_v3"}  # of these `make test`


@pytest.mark.parametrize(
    "kind",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in MODELS],
)
def test_logits_are_the_same_with_the_other_pairing(tmp_path, kind, monkeypatch):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    source, own = MODELS[kind]
    target = "neighbours" if source == "halves" else "halves"
    sizes = {**SIZES, **own}
    if kind == "deepseek_v3":
        del sizes["head_dim"]
    config = transformers.CONFIG_MAPPING[kind](**sizes)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    model.requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
    (tmp_path / "m").mkdir()
    model.save_pretrained(tmp_path / "m")
    tokens = torch.randint(1, 60, (1, 40))
    expected = model(tokens).logits
    (tmp_path / "n").mkdir()
    out = tmp_path / "n" / "model.safetensors"
    convert_weights(str(tmp_path / "m"), source, target, str(out))
    moved = load_torch(out)
    model.load_state_dict(moved, strict=False)
    wrong = model(tokens).logits
    assert (wrong - expected).abs().max() > 1e-3 * expected.abs().max()
    room = import_module(type(model).__module__)
    names = [n for n in vars(room) if n.startswith("apply_rotary")]
    assert names
    for name in names:
        monkeypatch.setattr(room, name, other_rotation(source))
    torch.testing.assert_close(model(tokens).logits, expected, rtol=1e-6, atol=1e-6)
    back = tmp_path / "n" / "back.safetensors"
    (tmp_path / "n" / "config.json").write_bytes((tmp_path / "m" / "config.json").read_bytes())
    convert_weights(str(out), target, source, str(back))
    assert back.read_bytes() == (tmp_path / "m" / "model.safetensors").read_bytes()


def load_torch(path):
    from safetensors.torch import load_file as load

    return load(path)
