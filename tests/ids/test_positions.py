"""Position ids: every verdict planted in random batches, correct batches, and public rules."""

import json
from itertools import pairwise

import numpy as np
import pytest

import pefourier
from pefourier.errors import PefourierError
from pefourier.ids.batch import describe_mask

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "rope_theta": 5e5}
LLAMA |= {"max_position_embeddings": 4096, "num_hidden_layers": 2, "vocab_size": 100}
ROBERTA = {"model_type": "roberta", "hidden_size": 32, "num_attention_heads": 2, "pad_token_id": 1}
ROBERTA |= {"max_position_embeddings": 66, "num_hidden_layers": 1, "vocab_size": 100}
OPT = {"model_type": "opt", "hidden_size": 32, "num_attention_heads": 2, "pad_token_id": 1}
OPT |= {"max_position_embeddings": 64, "num_hidden_layers": 1, "vocab_size": 100}


@pytest.fixture
def config(tmp_path):
    def write(values):
        path = tmp_path / f"{values['model_type']}.json"
        path.write_text(json.dumps(values))
        return str(path)

    return write


def right_batch(rng):
    """Draw rows of packed documents with padding on both sides: ids and segment numbers."""
    rows, tokens = int(rng.integers(1, 5)), int(rng.integers(16, 60))
    ids, segments = np.zeros((rows, tokens), int), np.zeros((rows, tokens), int)
    for row in range(rows):
        left, right = rng.integers(0, 5, 2)
        length = tokens - left - right
        cuts = np.sort(rng.choice(np.arange(2, length - 2), int(rng.integers(0, 3)), replace=False))
        bounds = [0, *cuts, length]
        for k, (start, end) in enumerate(pairwise(bounds)):
            at = slice(left + start, left + end)
            ids[row, at], segments[row, at] = np.arange(end - start), k + 1
    return ids, segments


def document(segments, rng, least=6):
    """Return a row and the tokens of one of its documents with at least `least` tokens."""
    places = [
        (row, np.flatnonzero(segments[row] == k))
        for row in range(len(segments))
        for k in range(1, segments[row].max() + 1)
    ]
    long = [place for place in places if len(place[1]) >= least]
    return long[int(rng.integers(len(long)))]


def plant(kind, ids, segments, rng):
    """Plant a fault of a kind; return row, token, value and the expected id."""
    row, tokens = document(segments, rng)
    at = int(rng.integers(2, len(tokens) - 2))  # for two tokens, a restart is a repeat
    token, step = tokens[at], int(rng.integers(2, 9))
    expected = at
    if kind == "gap":
        ids[row, tokens[at:]] += step
    elif kind == "repeated":
        ids[row, tokens[at:]] -= 1
    elif kind == "restarted":
        ids[row, tokens[at:]] = np.arange(len(tokens) - at)
    elif kind == "negative":
        ids[row, tokens] -= step
        token, expected = tokens[0], 0
    elif kind == "offset":
        ids[row, tokens] += 1000 + step
        token, expected = tokens[0], 0
    elif kind == "backwards":
        at = min(at + 2, len(tokens) - 2)
        token, expected = tokens[at], at
        ids[row, tokens[at:]] = 1 + np.arange(len(tokens) - at)
    return row, token, int(ids[row, token]), expected


@pytest.mark.parametrize(
    "kind", ["gap", "repeated", "restarted", "negative", "offset", "backwards"]
)
def test_a_planted_fault_is_found_with_its_row_token_and_value(kind):
    rng = np.random.default_rng(7)
    for _ in range(40):
        ids, segments = right_batch(rng)
        assert pefourier.positions(ids, segments=segments).verdict == "as expected"
        row, token, value, expected = plant(kind, ids, segments, rng)
        found = pefourier.positions(ids, segments=segments)
        assert found.verdict == kind
        (fault,) = found.findings
        assert (fault.row, fault.token, fault.value) == (row, token, value)
        assert fault.expected == expected
        assert [span.verdict for span in found.rows].count(kind) == 1


def test_padding_that_is_counted_and_documents_that_do_not_restart():
    rng = np.random.default_rng(3)
    for _ in range(40):
        tokens, pads = int(rng.integers(12, 40)), int(rng.integers(1, 8))
        mask = np.ones((3, tokens), int)
        mask[1, :pads] = 0
        right = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
        assert pefourier.positions(right, attention_mask=mask).verdict == "as expected"
        counted = pefourier.positions(np.tile(np.arange(tokens), (3, 1)), attention_mask=mask)
        assert counted.verdict == "padding counted"
        assert [span.verdict == "as expected" for span in counted.rows] == [True, False, True]
        assert (counted.findings[0].row, counted.findings[0].value) == (1, pads)
        cut = int(rng.integers(2, tokens - 2))
        bounds = [0, cut, tokens]
        packed = pefourier.positions(np.arange(tokens), cu_seqlens=bounds)
        assert packed.verdict == "not restarted"
        assert (packed.findings[0].token, packed.findings[0].value) == (cut, cut)
        ids = np.r_[:cut, : tokens - cut]
        assert pefourier.positions(ids, cu_seqlens=bounds).verdict == "as expected"
        assert pefourier.positions(ids).verdict == "undecided"


def test_padding_within_a_document_is_no_position():
    mask = [[1, 1, 0, 0, 1, 1]]
    assert pefourier.positions([[0, 1, 1, 1, 2, 3]], attention_mask=mask).verdict == "as expected"
    counted = pefourier.positions([[0, 1, 2, 3, 4, 5]], attention_mask=mask)
    assert (counted.verdict, counted.findings[0].token) == ("padding counted", 4)


def test_ids_alone_are_as_expected_in_one_run_from_zero():
    verdicts = {
        "as expected": [[0, 1, 2, 3]],
        "offset": [[20, 21, 22]],
        "repeated": [[0, 1, 2, 2, 3]],
        "gap": [[0, 1, 2, 9, 10]],
        "negative": [[-3, -2, -1, 0]],
        "undecided": [[1, 5, 9, 13]],
    }
    for verdict, ids in verdicts.items():
        assert pefourier.positions(ids).verdict == verdict
    assert pefourier.positions(np.r_[[1] * 5, :7]).verdict == "undecided"  # left padding
    assert pefourier.positions(np.r_[:33, [32] * 11]).verdict == "repeated"  # an evicted cache
    assert pefourier.positions(np.r_[:16, [0] * 8]).verdict == "repeated"  # decoding at 0


@pytest.mark.parametrize("shard", ["every", "block", "zigzag"])
def test_ranks_hold_their_shard(shard):
    for ranks, rank, count in [(4, 1, 8), (2, 1, 12), (8, 5, 6)]:
        token, half = np.arange(count), count // 2
        mirror = (2 * ranks - 1 - rank) * half + token[:half]
        whole = {
            "every": rank + ranks * token,
            "block": rank * count + token,
            "zigzag": np.r_[rank * half + token[:half], mirror],
        }
        of_rank = {"rank": f"{rank}/{ranks}"}
        assert pefourier.positions(whole[shard], **of_rank).verdict == "as expected"
        assert pefourier.positions(whole[shard], **of_rank, shard=shard).verdict == "as expected"
        other = {"every": "block", "block": "zigzag", "zigzag": "every"}[shard]
        assert pefourier.positions(whole[other], **of_rank, shard=shard).verdict == "wrong shard"
        local = pefourier.positions(token, rank=(rank, ranks), shard=shard)
        assert (local.verdict, local.findings[0].expected) == ("local ids", int(whole[shard][0]))


def test_a_tree_has_depths():
    parents = np.array([-1, 0, 0, 1, 1, 2, 5])
    depth = np.array([0, 1, 1, 2, 2, 2, 3])
    assert pefourier.positions(depth, parents=parents).verdict == "as expected"
    found = pefourier.positions(np.arange(7), depth=depth)
    assert (found.verdict, found.findings[0].token) == ("index for depth", 2)


def test_tables_begin_behind_padding(config):
    roberta, opt, llama = map(config, (ROBERTA, OPT, LLAMA))
    ids = np.arange(12)
    assert pefourier.positions(ids + 2, config=roberta).verdict == "as expected"
    assert pefourier.positions(ids, config=roberta).verdict == "table offset"
    assert pefourier.positions(ids, config=opt).verdict == "as expected"
    assert pefourier.positions(ids + 2, config=opt).verdict == "table offset"
    assert pefourier.positions(np.arange(66) + 2, config=roberta).verdict == "beyond"
    assert pefourier.positions(np.arange(64) + 2, config=roberta).verdict == "as expected"
    assert pefourier.positions(np.arange(65), config=opt).verdict == "beyond"
    assert pefourier.positions(np.arange(4097), config=llama).verdict == "beyond"
    assert pefourier.positions(np.arange(10), length=9).findings[0].value == 9


def test_scores_of_rotations_change_with_lags_alone(config):
    llama = config(LLAMA)
    omega = 5e5 ** (-np.arange(0, 32, 2) / 32)
    offset = pefourier.positions(np.arange(20) + 7, config=llama)
    assert (offset.verdict, offset.consequence.scores_change) == ("offset", False)
    gap = pefourier.positions(np.r_[:8, 12:20], config=llama)
    lags = np.arange(1, 16)
    change = np.cos(np.outer(lags + 4, omega)).mean(1) - np.cos(np.outer(lags, omega)).mean(1)
    assert gap.consequence.scores_change
    assert (
        0.8 * abs(change[:8]).max() <= gap.consequence.largest_change <= abs(change).max() + 1e-12
    )
    assert pefourier.positions(np.arange(20) + 7, config="sinusoidal").consequence.scores_change
    assert pefourier.positions(np.r_[:4, :4], config=llama).consequence.scores_change is None


def test_masks_are_read():
    lag = np.subtract.outer(np.arange(8), np.arange(8))
    seen = describe_mask((lag >= 0)[None])
    assert (seen.causal, seen.window) == (True, None)
    for width in (2, 3, 7):
        seen = describe_mask(((lag >= 0) & (lag < width))[None])
        assert (seen.causal, seen.window, seen.two_sided) == (True, width, False)
        seen = describe_mask((abs(lag) < width)[None])
        assert (seen.causal, seen.window, seen.two_sided) == (False, width, True)
    segments = np.array([[0, 0, 1, 1, 1, 2, 2, 2]])
    seen = describe_mask((lag >= 0)[None], segments)
    assert (seen.documents_seen, seen.pads_seen) == (True, True)
    own = (lag >= 0) & (segments.T == segments)
    seen = describe_mask(own[None], segments)
    assert (seen.documents_seen, seen.pads_seen) == (False, False)
    additive = np.where(lag >= 0, 0.0, -np.inf)[None, None]
    assert pefourier.positions(additive).mask.causal
    batch = pefourier.positions(
        np.r_[0, 0, :3, :3][None], attention_mask=additive, segments=segments
    )
    assert batch.verdict == "wrong mask"


def test_a_window_is_held_against_the_config(config):
    mistral = config(LLAMA | {"model_type": "mistral", "sliding_window": 4})
    lag = np.subtract.outer(np.arange(9), np.arange(9))
    for width, verdict in ((4, "as expected"), (5, "wrong mask"), (3, "wrong mask")):
        mask = ((lag >= 0) & (lag < width))[None, None]
        found = pefourier.positions([np.arange(9)], attention_mask=mask, config=mistral)
        assert (found.verdict, found.mask.window) == (verdict, width)


@pytest.mark.parametrize(
    ("ids", "others"),
    [
        ([[0.5, 1.0]], {}),
        ([[0, 1, 2]], {"attention_mask": [[1, 1]]}),
        (np.zeros((2, 3, 4), int), {}),
        ([["a"]], {}),
        ([[0, np.nan]], {}),
        ([0, 1, 2], {"cu_seqlens": [1, 3]}),
        ([0, 1, 2], {"cu_seqlens": [0, 9]}),
        ({"labels": [1], "logits": [2]}, {}),
        ([0, 1, 2], {"rank": "4/4"}),
        ([0, 1, 2], {"shard": "every"}),
        ([0, 1, 2], {"parents": [-1, 2, 0]}),
    ],
)
def test_what_cannot_be_ids_is_refused(ids, others):
    with pytest.raises(PefourierError):
        pefourier.positions(ids, **others)


def test_files_of_a_batch_are_read(folder, run):
    ids, mask = np.array([[0, 1, 2, 3], [0, 1, 2, 3]]), np.array([[0, 0, 1, 1], [1, 1, 1, 1]])
    np.savez(folder / "batch.npz", position_ids=ids, attention_mask=mask, labels=ids)
    np.save(folder / "ids.npy", ids)
    np.save(folder / "mask.npy", mask)
    (folder / "ids.json").write_text(json.dumps(ids.tolist()))
    np.savetxt(folder / "ids.csv", ids, fmt="%d", delimiter=",")
    for options in (
        ["batch.npz"],
        *([f"ids.{s}", "--mask", "mask.npy"] for s in ("npy", "json", "csv")),
    ):
        done = run("positions", *(folder / o if "." in o else o for o in options), "--json")
        answer = json.loads(done.out)["results"][0]
        assert (done.status, answer["verdict"]) == (1, "padding counted")
        assert answer["rows"][0]["expected_first"] == 0
        assert answer["findings"][0]["row"] == 0
    done = run("positions", folder / "batch.npz", "--plot", folder / "ids.png")
    assert done.status == 1
    assert (folder / "ids.png").stat().st_size > 1000


FAMILIES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl_moe"]


def drawn_tokens(rng, family, merge=2):
    """Draw token types of a row of text, images and videos, with their grids and seconds."""
    kinds, images, videos, seconds = [0] * int(rng.integers(1, 6)), [], [], []
    for _ in range(int(rng.integers(1, 4))):
        rows, columns = (merge * rng.integers(1, 5, 2)).tolist()
        is_video = rng.random() < 0.5
        frames = int(2 * rng.integers(1, 4)) if is_video else 1
        (videos if is_video else images).append([frames, rows, columns])
        per_frame = rows * columns // merge**2
        if is_video and family in ("qwen3_vl", "glm4v"):
            for _ in range(frames):
                kinds += [2] * per_frame + [0] * int(rng.integers(1, 4))
        else:
            count = frames // 2 if is_video and family.startswith("ernie") else frames
            kinds += [2 if is_video else 1] * (count * per_frame)
        if is_video:
            seconds.append(float(rng.choice([0.5, 1.0, 2.0])))
        kinds += [0] * int(rng.integers(1, 6))
    return kinds, images, videos, seconds


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_of_images_and_videos_are_those_of_transformers(family, tmp_path):
    import importlib
    from types import SimpleNamespace

    torch = pytest.importorskip("torch")
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    model, *_ = (
        kind
        for name, kind in vars(module).items()
        if name.endswith("Model") and hasattr(kind, "get_rope_index") and "Text" not in name
    )
    vision = {"spatial_merge_size": 2, "tokens_per_second": 2, "temporal_merge_size": 2}
    config = {"model_type": family, "vision_config": vision}
    config |= {"image_token_id": 8, "video_token_id": 9}
    config["text_config"] = LLAMA | {
        "model_type": f"{family}_text",
        "head_dim": 32,
        "rope_scaling": {
            "rope_type": "default",
            "mrope_section": [6, 6, 4] if family.startswith("ernie") else [4, 6, 6],
        },
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    shell = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(**vision)))
    shell.get_vision_position_ids = model.get_vision_position_ids.__get__(shell)
    rng = np.random.default_rng(5)
    for _ in range(8):
        rows = [drawn_tokens(rng, family) for _ in range(2)]
        longest = max(len(row[0]) for row in rows)
        kinds, mask = np.zeros((2, longest), int), np.zeros((2, longest), int)
        for i, (types, *_) in enumerate(rows):
            kinds[i, longest - len(types) :], mask[i, longest - len(types) :] = types, 1
        grids = {
            name: torch.tensor([grid for row in rows for grid in row[k]])
            for k, name in ((1, "image_grid_thw"), (2, "video_grid_thw"))
            if any(row[k] for row in rows)
        }
        if family == "qwen2_5_vl" and "video_grid_thw" in grids:
            grids["second_per_grid_ts"] = torch.tensor(
                [second for row in rows for second in row[3]]
            )
        tensors = {"mm_token_type_ids": torch.tensor(kinds), "attention_mask": torch.tensor(mask)}
        ids, _ = model.get_rope_index(shell, torch.zeros(2, longest, dtype=int), **tensors, **grids)
        batch = {"position_ids": ids, **tensors, **grids}
        assert pefourier.positions(batch, config=path).verdict == "as expected"
        named = {name: array for name, array in batch.items() if name != "mm_token_type_ids"}
        named["input_ids"] = torch.tensor([7, 8, 9])[torch.tensor(kinds)]
        assert pefourier.positions(named, config=path).verdict == "as expected"
        flat = np.maximum(mask.cumsum(1) - 1, 0)
        wrong = pefourier.positions(batch | {"position_ids": np.stack([flat] * 3)}, config=path)
        assert wrong.verdict == "text only" or (flat == ids.numpy()).all(), wrong.verdict
        assert wrong.consequence.scores_change
        late = batch | {"position_ids": ids + 1000 * torch.tensor(mask)}
        assert pefourier.positions(late, config=path).verdict == "offset"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["half", "full"])
def test_positions_of_a_dump_are_recovered(layout, dtype, config, folder):
    torch = pytest.importorskip("torch")
    spec = config(LLAMA | {"hidden_size": 256, "max_position_embeddings": 131072})
    omega = 5e5 ** (-np.arange(0, 128, 2) / 128)
    rng = np.random.default_rng(2)
    for ids in (rng.integers(0, 131072, 200), np.r_[:20, 19:40], np.arange(40) - 3):
        angles = torch.tensor(np.outer(ids, omega))
        angles = torch.cat([angles] * (2 if layout == "full" else 1), -1)
        table = torch.cat([angles.cos(), angles.sin()], -1).to(getattr(torch, dtype))
        torch.save({"cos_sin": table}, folder / "dump.pt")
        found = pefourier.positions(folder / "dump.pt", config=spec)
        assert (found.positions[0, 0] == ids).all()
        assert found.uncertainty == (0,)
    assert found.verdict == "negative"


def test_axes_of_a_dump_are_recovered_each_by_its_pairs(config):
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24], "type": "mrope"}
    text = LLAMA | {"model_type": "qwen2_vl_text", "hidden_size": 256, "rope_scaling": rope}
    spec = config({"model_type": "qwen2_vl", "text_config": text})
    omega = 5e5 ** (-np.arange(0, 128, 2) / 128)
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    ids = np.array([[0, 1, 2, 2, 2, 2, 4], [0, 1, 2, 2, 3, 3, 4], [0, 1, 2, 3, 2, 3, 4]])
    for given, verdict in ((ids, "as expected"), (np.tile(np.arange(7), (3, 1)), "text only")):
        angles = given[axis].T * omega
        found = pefourier.positions(np.hstack([np.cos(angles), np.sin(angles)]), config=spec)
        assert (found.positions[:, 0] == given).all()
        assert found.verdict == verdict


@pytest.mark.usefixtures("config")
def test_rows_of_a_learned_table_are_matched(folder):
    safetensors = pytest.importorskip("safetensors.numpy")
    table = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    gpt2 = {"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 64}
    (folder / "config.json").write_text(json.dumps(gpt2))
    safetensors.save_file({"transformer.wpe.weight": table}, folder / "model.safetensors")
    found = pefourier.positions(table[np.r_[:16, [0] * 8]], config=folder / "config.json")
    assert (found.verdict, found.findings[0].token) == ("repeated", 16)
    with pytest.raises(PefourierError, match="is not in the table"):
        pefourier.positions(table[:8] + 0.1, config=folder / "config.json")


def test_a_mask_of_queries_and_keys_has_the_size_of_the_ids():
    with pytest.raises(PefourierError, match=r"mask \(1, 3, 3\) does not fit position ids"):
        pefourier.positions([[0, 1, 2, 3]], attention_mask=np.tril(np.ones((1, 3, 3))))


def test_ids_are_never_vectors(folder, run):
    np.savez(folder / "batch.npz", position_ids=[[0, 1, 2, 3]] * 2, attention_mask=[[1] * 4] * 2)
    np.save(folder / "ids.npy", np.tile(np.arange(9), (3, 1, 1)))
    np.save(folder / "shard.npy", 1 + 4 * np.arange(9))
    for name in ("batch.npz", "batch.npz#position_ids", "ids.npy", "shard.npy"):
        for command in ("check-faithful", "spectrum", "relations"):
            done = run(command, str(folder / name))
            assert done.status == 2
            assert "pefourier positions" in done.err


def test_a_sequence_within_the_window_shows_no_window(config):
    mistral = config(LLAMA | {"model_type": "mistral", "sliding_window": 4})
    for n, verdict in ((3, "as expected"), (4, "as expected"), (5, "wrong mask")):
        causal = np.tri(n, dtype=bool)[None, None]
        found = pefourier.positions([np.arange(n)], attention_mask=causal, config=mistral)
        assert found.verdict == verdict


def test_local_ids_change_scores_with_the_tokens_of_other_ranks(config):
    for shard in ("every", "block", "zigzag"):
        local = pefourier.positions(np.arange(8), config=config(LLAMA), rank="1/4", shard=shard)
        assert local.consequence.scores_change
        assert local.consequence.largest_change > 0.01


def test_biases_by_distance_have_no_last_id(config):
    bloom = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "seq_length": 2048}
    assert pefourier.positions(np.arange(5000), config=config(bloom)).verdict == "as expected"


def test_additive_masks_hide_by_any_large_number():
    for hidden in (-1e9, float(np.finfo(np.float32).min), -65504.0):
        mask = np.where(np.tri(6, dtype=bool), 0.0, hidden)[None, None]
        assert pefourier.positions([np.arange(6)], attention_mask=mask).mask.causal


def test_depths_that_no_index_explains_are_larger_or_smaller():
    depth = [0, 1, 1, 2]
    assert pefourier.positions([0, 1, 5, 2], depth=depth).verdict == "gap"
    assert pefourier.positions([0, 1, 0, 2], depth=depth).verdict == "backwards"


@pytest.mark.parametrize("rank", ["4/4", "1", "a/4", "1/b"])
def test_a_rank_is_one_of_several(rank, run, folder):
    np.save(folder / "ids.npy", np.arange(8))
    done = run("positions", folder / "ids.npy", "--rank", rank)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "--rank must be R/N" in done.err
