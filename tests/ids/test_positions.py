"""Position ids: every verdict planted in random batches, correct batches, and public rules."""

import json
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from findings import codes
from planted_rows import APPLIED, OMEGA, drawn
from refusals import refusal

import pefourier

LONE, OVER = "ids-lone-documents", "ids-offset ids-beyond"
BOTH = f"ids-undecided {LONE}"
LATE, LATER = "not-restarted restarted", "ids-not-restarted"
TWICE = "ids-offset ids-offset"
PADS = ("padding counted", "padding-counted", "ids-padding-counted")

CAUSAL = np.tri(8, dtype=bool)
PACKED = np.r_[:4, :3, [0] * 3]
CASES = [  # ids, other arrays, verdict, codes of causes, codes of findings, whether status is 0
    ([20, 21, 22], {}, "offset", "shifted", "ids-offset", False),
    ([20, 21, 22], {"config": "llama"}, "offset", "shifted", "ids-offset", True),
    (np.r_[:16, [0] * 8], {}, "repeated", "restarted repeated", "ids-repeated", False),
    (np.r_[[1] * 5, :7], {}, "undecided", "", "ids-undecided", False),
    ([PACKED], {"segments": [[1] * 4 + [2] * 3 + [0] * 3]}, "as expected", "", LONE, True),
    (
        [PACKED],
        {"attention_mask": [PACKED * 0 + (np.arange(10) < 7)]},
        "undecided",
        "",
        BOTH,
        False,
    ),
    ([*range(60, 70)], {"config": "llama", "length": 64}, "beyond", "shifted beyond", OVER, False),
    ([0, 1, 2, 3, 4, 0, 1, 0, 1, 2], {"cu_seqlens": [0, 4, 7, 10]}, "several", LATE, LATER, False),
    ([[0], [0]], {"attention_mask": np.ones((2, 6))}, "offset", "shifted shifted", TWICE, False),
    ([0, 1, 5, 2], {"depth": [0, 1, 1, 2]}, "gap", "wrong", "ids-gap", False),
    (range(8), {"attention_mask": CAUSAL & (np.arange(8) > 1), "config": "llama"}, *PADS, True),
    (np.arange(66) + 2, {"config": "roberta"}, "beyond", "beyond", "ids-beyond", False),
    ([[254, 255, 0, 1]], {"past": 254}, "stored", "wrapped", "ids-stored", False),
    ([5, 9, 2, 7], {"rank": "1/4"}, "unexplained", "", "ids-unexplained", False),
]


@pytest.mark.parametrize("case", CASES)
def test_a_batch_has_its_verdict_and_causes(case, config):
    ids, given, verdict, causes, found_codes, is_fine = case
    if "config" in given:
        given = given | {"config": config(given["config"])}
    found = pefourier.positions(np.array(ids), **given)
    assert found.verdict == verdict
    assert [c["code"] for row in found.rows for c in row.causes] == causes.split()
    assert codes(found) == found_codes.split()
    assert found.is_fine() == is_fine
    assert found.is_fine(strict=True) == (is_fine and not causes)


@pytest.mark.parametrize("code", ["gap", "repeated", "exchanged", "wrong", "restarted", "reversed"])
def test_scores_change_most_at_the_worst_of_all_pairs(code, config, rng):
    path = config("llama")
    for _ in range(5):
        n = int(rng.integers(16, 60))
        ids = np.array(APPLIED[code](list(range(n)), **drawn(code, rng, n)))
        consequence = pefourier.positions([ids], attention_mask=[[2] * n], config=path).consequence
        query, key = np.tril_indices(n, -1)
        waves = [
            np.exp(1j * np.outer(x[query] - x[key], OMEGA)).mean(1) for x in (ids, np.arange(n))
        ]
        change = np.abs(getattr(waves[0] - waves[1], "imag" if code == "reversed" else "real"))
        assert consequence.largest_change == pytest.approx(change.max(), rel=1e-9)
        assert consequence.scores_change


def test_added_vectors_change_with_every_id(config):
    assert pefourier.positions(np.arange(20) + 7, config="sinusoidal").consequence.scores_change
    gone = pefourier.positions(np.arange(65), config=config("gpt2")).consequence
    assert (gone.scores_change, gone.largest_change) == (True, None)
    packed = pefourier.positions(np.r_[:4, :4], config=config("llama"))
    assert packed.consequence.scores_change is None


def test_a_dump_beside_ids_documents_or_a_mask_is_judged_by_them(config):
    path = config("llama")
    angles = np.tile(np.outer(np.arange(24), OMEGA), 2)[None]
    waves = {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}
    for beside in (
        {"position_ids": [[*range(10), *range(14)]]},
        {"cu_seqlens": [0, 10, 24]},
        {"attention_mask": [[1] * 10 + [2] * 14]},
    ):
        found = pefourier.positions({**waves, **beside}, config=path)
        assert (found.verdict, found.bad[0].causes[0]["by"]) == ("not restarted", 10)
        assert found.is_fine()
    with refusal(r"16 pairs, as .* has no pairs and numbers up"):
        pefourier.positions(angles[0] + 0.5, config=path)


def test_sizes_are_refused_by_headers(folder, refused):
    with (folder / "ids.npy").open("wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (2**28,)}
        np.lib.format.write_array_header_2_0(file, header)
        file.truncate(file.tell() + 2**31)
    np.savez_compressed(folder / "ids.npz", position_ids=np.zeros((2**13, 2**14), "i1"))
    for name in ("ids.npy", "ids.npz"):
        assert "limit" in refused("positions", folder / name)


def test_wrong_masks_are_named(config):
    lag = np.subtract.outer(np.arange(8), np.arange(8))
    segments = np.array([[0, 0, 1, 1, 1, 2, 2, 2]])
    additive = np.where(lag >= 0, 0.0, -np.inf)[None, None]
    assert pefourier.positions(additive).verdict == "mask read"
    ids = np.r_[0, 0, :3, :3][None]
    found = pefourier.positions(ids, attention_mask=additive, segments=segments)
    assert (found.verdict, found.is_fine()) == ("wrong mask", False)
    mistral = config("mistral", sliding_window=4)
    for width, verdict in ((4, "as expected"), (5, "wrong mask"), (3, "wrong mask")):
        mask = ((lag >= 0) & (lag < width))[None, None]
        found = pefourier.positions([np.arange(8)], attention_mask=mask, config=mistral)
        assert (found.verdict, found.mask.window) == (verdict, width)


@pytest.mark.parametrize(
    ("ids", "others"),
    [
        ([[0.5, 1.0]], {}),
        ([[0, 0]], {"attention_mask": [[0, 0]]}),
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
        ([[0, 1, 2]], {"attention_mask": np.ones((1, 2, 2))}),
        ([[5, 6]], {"past": 5, "attention_mask": np.ones((1, 5))}),
        ([[5, 6]], {"cache_position": [5, 7]}),
        (np.full((9, 64), 1.5), {"config": "rope:d=64"}),
        ([0, 1, 2], {"rank": "1/b"}),
    ],
)
def test_what_cannot_be_ids_is_refused(ids, others):
    with refusal():
        pefourier.positions(ids, **others)


def test_files_of_a_batch_are_read(folder, run, config):
    ids, mask = np.array([[0, 1, 2, 3], [0, 1, 2, 3]]), np.array([[0, 0, 1, 1], [1, 1, 1, 1]])
    np.savez(folder / "batch.npz", position_ids=ids, attention_mask=mask, labels=ids)
    np.save(folder / "ids.npy", ids)
    np.save(folder / "mask.npy", mask)
    (folder / "ids.json").write_text(json.dumps(ids.tolist()))
    for options in (
        ["batch.npz"],
        *([f"ids.{s}", "--mask", "mask.npy"] for s in ("npy", "json")),
    ):
        done = run("positions", *(folder / o if "." in o else o for o in options), "--json")
        (answer,) = done.results
        assert (done.status, answer["verdict"]) == (1, "padding counted")
        assert answer["rows"][0]["expected_first"] == 0
        assert answer["findings"][0]["row"] == 0
    llama = config("llama")
    for options, status in (([], 0), (["--strict"], 1), (["--past", 4], 1)):
        assert run("positions batch.npz", llama, *options).status == status


FAMILIES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl_moe"]


def drawn_tokens(rng, family):
    """Draw token types of a row of text, images and videos, with their grids and seconds."""
    kinds, images, videos, seconds = [0] * int(rng.integers(1, 6)), [], [], []
    for _ in range(int(rng.integers(1, 4))):
        rows, columns = (2 * rng.integers(1, 5, 2)).tolist()
        is_video = rng.random() < 0.5
        frames = int(2 * rng.integers(1, 4)) if is_video else 1
        (videos if is_video else images).append([frames, rows, columns])
        per_frame = rows * columns // 4
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
def test_ids_of_images_and_videos_are_those_of_transformers(family, config, rng):
    module = import_module(f"transformers.models.{family}.modeling_{family}")
    model, *_ = (
        kind
        for name, kind in vars(module).items()
        if name.endswith("Model") and hasattr(kind, "get_rope_index") and "Text" not in name
    )
    vision = {"spatial_merge_size": 2, "tokens_per_second": 2, "temporal_merge_size": 2}
    sizes = {"vision_config": vision, "image_token_id": 8, "video_token_id": 9}
    sections = [6, 6, 4] if family.startswith("ernie") else [4, 6, 6]
    scaling = {"rope_type": "default", "mrope_section": sections}
    text = config.llama | {"model_type": f"{family}_text", "head_dim": 32, "rope_scaling": scaling}
    path = config(family, **sizes, text_config=text)
    shell = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(**vision)))
    shell.get_vision_position_ids = model.get_vision_position_ids.__get__(shell)
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_positions_of_a_dump_are_recovered(dtype, config, folder, rng):
    spec = config("llama", hidden_size=256, max_position_embeddings=131072)
    omega = 5e5 ** (-np.arange(0, 128, 2) / 128)
    for ids in (rng.integers(0, 131072, 200), np.r_[:20, 19:40], np.arange(40) - 3):
        angles = torch.tensor(np.outer(ids, omega))
        table = torch.cat([angles.cos(), angles.sin()], -1).to(getattr(torch, dtype))
        torch.save({"cos_sin": table}, folder / "dump.pt")
        found = pefourier.positions(folder / "dump.pt", config=spec)
        assert (found.positions[0, 0] == ids).all()
        assert found.uncertainty == (0,)
    assert found.verdict == "negative"


def test_ids_are_never_vectors(folder, run):
    np.savez(folder / "batch.npz", position_ids=[[0, 1, 2, 3]] * 2, attention_mask=[[1] * 4] * 2)
    np.save(folder / "ids.npy", np.tile(np.arange(9), (3, 1, 1)))
    np.save(folder / "shard.npy", 1 + 4 * np.arange(9))
    for name in ("batch.npz", "batch.npz#position_ids", "ids.npy", "shard.npy"):
        for command in ("check-faithful", "spectrum", "relations"):
            done = run(command, str(folder / name))
            assert done.status == 2
            assert "pefourier positions" in done.err


def drawn_mask(rng, n):
    """Draw a mask (n, n) by its rule: its kind, ids that fit, and the number of documents."""
    lag = np.subtract.outer(np.arange(n), np.arange(n))
    kind = str(rng.choice(["causal", "full", "window", "prefix", "documents", "padding"]))
    width, cut = int(rng.integers(2, 5)), int(rng.integers(3, n - 3))
    segments = np.repeat([1, 2], [cut, n - cut])
    rule = {
        "causal": lag >= 0,
        "full": lag < n,
        "window": (lag >= 0) & (lag < width),
        "prefix": (lag >= 0) | (np.arange(n) < width),
        "documents": (lag >= 0) & np.equal.outer(segments, segments),
        "padding": (lag >= 0) & (np.arange(n) >= width),
    }[kind]
    ids = np.arange(n)
    if kind == "documents":
        ids = np.r_[:cut, : n - cut]
    return kind, rule, np.maximum(ids - width, 0) if kind == "padding" else ids


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.long)])
def test_masks_are_read_with_one_fault_and_ids_are_judged_by_them(count, config, rng):
    llama, mistral = config("llama"), config("mistral", sliding_window=3)
    for _ in range(count):
        kind, rule, ids = drawn_mask(rng, n := int(rng.integers(9, 30)))
        hole = rule.copy()
        at = int(rng.integers(n // 2)) + (kind == "padding") * 5
        at -= not rule[at + 1 :, at].any()  # the last token of a document would be padding
        hole[at, at] = False
        for faults, mask in (
            ((), rule),
            (("transposed",), rule.T),
            (("inverted",), ~rule),
            (("diagonal",), hole),
        ):
            if kind == "full" and faults != ("diagonal",) and faults:
                continue  # symmetric, or all hidden
            found = pefourier.positions([ids], attention_mask=np.where(mask, 0.0, -1e9)[None, None])
            assert (found.mask.faults, {row.verdict for row in found.rows}) == (
                faults,
                {"as expected"},
            )
            assert found.mask.kind == ("causal" if kind == "padding" else kind)
            assert codes(found) == [f"ids-mask-{fault}" for fault in faults]
            assert found.is_fine() == (not faults)
            moved = pefourier.positions([ids + 99], attention_mask=mask[None, None])
            assert moved.verdict == ("several" if faults else "offset")
        for path, right in ((llama, ("causal", "documents", "padding")), (mistral, ("window",))):
            found = pefourier.positions([ids], attention_mask=rule[None, None], config=path)
            if kind != "window" or found.mask.window == 3 or path == llama:
                assert found.is_fine() == (kind in right), (kind, path)


def test_an_undecided_id_beyond_the_limit_gets_the_findings_of_both(config):
    found = pefourier.positions([[5000]], config=config("llama", max_position_embeddings=99))
    assert {"ids-undecided", "ids-beyond"} <= {*codes(found)}


def test_what_the_input_leaves_open_is_said_and_passing_it_decides(config):
    llama, qwen = config("llama"), config("qwen2_vl", image_token_id=8)
    packed, flat = np.r_[:5, :7], np.tile(np.arange(12), (3, 1, 1))
    padded, ones = np.r_[[1] * 4, :8], np.ones((1, 12), int)
    cases = [  # ids, given, what is open, and what decides
        (packed[None], {}, "open", {"segments": [[1] * 5 + [2] * 7]}),
        (packed[None], {"attention_mask": ones}, "documents", {"segments": [[1] * 5 + [2] * 7]}),
        (padded[None], {}, "open", {"attention_mask": [[0] * 4 + [1] * 8]}),
        (1 + 4 * np.arange(9)[None], {}, "open", {"rank": "1/4"}),
        ([[9]], {}, "step", {"past": 9}),
        ([[9]], {"config": llama}, "step", {"past": 9}),
        (flat, {"config": qwen}, "text", {"input_ids": 0 * ones}),
        (flat, {"config": qwen, "attention_mask": ones}, "text", {"mm_token_type_ids": 0 * ones}),
        (flat[:, :, :1] + 4, {"config": qwen, "past": 9}, "text", None),
    ]
    for ids, given, doubt, decided in cases:
        found = pefourier.positions(np.array(ids), **given)
        assert (found.verdict, found.rows[0].doubt) == ("undecided", doubt)
        assert "mask" not in found.doubt.lower() or "attention_mask" not in given
        if decided:
            assert pefourier.positions(ids, **{**given, **decided}).verdict == "as expected"
    assert pefourier.positions(flat + 9, config=qwen, past=9).verdict == "as expected"


def test_lengths_that_disagree_are_said_before_ids_are_aligned():
    tokens, ids, documents = np.ones((1, 24), int), np.r_[:9, :8][None], [[1] * 9 + [2] * 8]
    padded = np.pad(documents, ((0, 0), (0, 7)))
    for given, rows, end in (
        ({"attention_mask": padded}, 2, True),
        ({"attention_mask": tokens}, 1, True),
        ({"position_ids": ids + 3, "attention_mask": tokens}, 0, False),
        ({"input_ids": tokens[:, :12]}, 0, False),
    ):
        found = pefourier.positions({"position_ids": ids, "input_ids": tokens} | given)
        assert (found.verdict, len(found.rows), found.is_fine()) == ("lengths differ", rows, False)
        assert found.findings[0].message.endswith("at the end") == end
    late = {"position_ids": [np.arange(20, 24)], "input_ids": tokens, "attention_mask": tokens}
    assert pefourier.positions(late).verdict == "as expected"


def test_advice_that_is_followed_gives_ids_as_expected(config):
    mask = np.array([[0, 0, 1, 1, 1, 1], [1] * 6, [0, 1, 1, 1, 1, 1]])
    past = {"attention_mask": np.pad(mask, ((0, 0), (0, 1)), constant_values=1)}
    found = pefourier.positions(np.full((3, 1), 6), **past)
    starts = [[int(text)] for text in found.starts.rpartition("ids ")[2].split(", ")]
    assert pefourier.positions(starts, **past).verdict == "as expected"
    off = np.arange(12, 24) - 1
    found = pefourier.positions([off], rank="1/2")
    assert found.rows[0].causes == ({"code": "shifted", "step": "rows", "by": -1},)
    assert found.rows[0].expected_first == 12
    near = pefourier.positions([np.arange(6, 18) - 1], rank="1/2")
    assert (near.rows[0].expected_first, near.rows[0].causes[0]["by"]) == (6, -1)
    due = near.ids[0] - near.rows[0].causes[0]["by"]
    assert pefourier.positions(due, rank="1/2").verdict == "as expected"
    qwen, kinds = config("qwen2_vl"), [[0, 0, 0, *[1] * 6, 0, *[1] * 4, 0, 0]]
    batch = {"mm_token_type_ids": kinds, "config": qwen}
    with refusal("6 image tokens from token 3 on"):
        pefourier.positions(np.zeros((3, 1, 16)), image_grid_thw=[[1, 4, 4], [1, 4, 6]], **batch)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "bfloat16", "float16"])
def test_ids_in_a_type_that_does_not_hold_them_are_named(kind):
    past = 2**31 - 9 if kind == "int32" else 3
    ids = torch.arange(past, past + (40000 if kind == "int16" else 2200))
    stored = ids.to(getattr(torch, kind)).to(torch.int64)
    code, name = ("wrapped", "type") if "int" in kind else ("rounded", "form")
    causes = pefourier.positions(stored, past=past).rows[0].causes
    assert causes == ({"code": code, "step": "rows", name: kind},)
