"""Laws of causes: what is planted is named, and only what gives the ids is named."""

from itertools import product

import numpy as np
import pytest
from planted_rows import APPLIED, applied, drawn, is_verdict, reproduces, shard_of

import pefourier

COUNTS = [20, pytest.param(200, marks=pytest.mark.long)]


def causes_of(found):
    """Return the causes of the only document with a fault; the record has the same."""
    (span,) = found.bad
    assert span.explained == 1
    assert {cause["step"] for cause in span.causes} == {"rows"}
    return [{k: v for k, v in cause.items() if k != "step"} for cause in span.causes]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("code", APPLIED)
def test_a_cause_alone_is_named_with_its_parameters(code, count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        n = int(rng.integers(16, 60))
        expected, facts = list(range(n)), drawn(code, rng, n)
        observed = APPLIED[code](expected, **facts)
        found = pefourier.positions(observed, segments=[1] * n)
        assert causes_of(found) == [{"code": code, **facts}]
        assert is_verdict(found, code, observed)


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.long)])
def test_two_causes_are_both_named_or_nothing_is(count):
    rng, outcomes = np.random.default_rng(2), []
    for a, b in product([code for code in APPLIED if code != "divided"], repeat=2):
        for _ in range(count):
            n = int(rng.integers(20, 60))
            expected = list(range(n))
            observed = APPLIED[b](APPLIED[a](expected, **drawn(a, rng, n)), **drawn(b, rng, n))
            found = pefourier.positions(observed, segments=[1] * n).rows[0]
            assert reproduces(found.causes, expected, observed) or found.causes == ()
            assert (found.verdict == "unexplained") == (found.causes == () and observed != expected)
            codes = sorted(cause["code"] for cause in found.causes)
            is_named = codes == sorted([a, b])
            outcomes.append("both" if is_named else ("none", "one", "others")[len(codes)])
    share = {name: outcomes.count(name) / len(outcomes) for name in {*outcomes}}
    assert share["both"] > 0.68
    assert share["one"] < 0.2  # the same ids as of one cause
    assert share["others"] < 0.03  # the same ids as of two others


@pytest.mark.parametrize("count", COUNTS)
def test_causes_within_rows_are_named_with_these(count):
    rng, missed = np.random.default_rng(8), 0
    for _ in range(count):
        for codes in product(("shifted", "reversed", "step", "exchanged"), repeat=2):
            n = int(rng.integers(60, 90))
            cuts = np.r_[3, rng.integers(20, 24), rng.integers(30, 34), rng.integers(54, n - 3)]
            expected, planted = list(range(n)), []
            for code, first, last in zip(
                codes, cuts[::2].tolist(), cuts[1::2].tolist(), strict=True
            ):
                facts = drawn(code, rng, last - first + 1)
                planted.append({"code": code, **facts, "within": {"rows": (first, last)}})
            for causes in ([planted[0]], planted):
                observed = expected
                for cause in causes:
                    observed = applied(cause, observed)
                found = pefourier.positions([observed], segments=[[1] * n]).rows[0].causes
                if not found:
                    missed += 1
                    continue
                assert reproduces(found, expected, observed)
                assert [c["code"] for c in found] == [c["code"] for c in causes]
                for one, other in zip(found, causes, strict=True):
                    rows = other["within"]["rows"]
                    first, last = one.get("within", {"rows": rows})["rows"]  # of a whole cause
                    assert rows[0] - 1 <= first < last <= rows[1]
    assert missed < count  # of 32: two tokens of a part exchanged


@pytest.mark.parametrize("count", COUNTS)
def test_random_damage_has_no_cause(count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        n = int(rng.integers(36, 90))
        expected = np.arange(n)
        third, permuted = rng.choice(n, n // 3, replace=False), expected.copy()
        permuted[np.sort(third)] = expected[third]
        cuts = np.sort(rng.choice(np.arange(4, n - 4), 5, replace=False))
        packed = np.concatenate([np.arange(x) for x in np.diff([0, *cuts, n])])
        for observed in (
            rng.integers(0, n, n),
            expected + rng.integers(-2, 3, n),
            permuted,
            packed,
        ):
            row = pefourier.positions(observed, segments=[1] * n).rows[0]
            assert (row.verdict in ("unexplained", "negative"), row.causes) == (True, ())
            at = int((observed != expected).argmax())
            first = (row.first.at, row.first.expected, row.first.observed)
            assert first == (at, expected[at], observed[at])
            assert row.explained == pytest.approx((observed == expected).mean())


def in_context(code, rng):
    """Draw ids with a mistake that other arrays show: the input, and the fields of its cause."""
    n, by = 2 * int(rng.integers(6, 20)), int(rng.integers(2, 6))
    ids, seen = np.arange(n), np.tri(n, dtype=bool)
    if code == "padding-counted":
        matrix = (seen & (ids >= by))[None, None]
        masks = [[(ids >= by) * 1], matrix, np.where(matrix, 0.0, -np.inf)]
        return [ids], {"attention_mask": masks[int(rng.integers(3))]}, {"by": by}
    if code == "not-restarted":
        blocks = (seen & np.equal.outer(ids < by, ids < by))[None]
        given = {"cu_seqlens": [0, by, n]} if rng.random() < 0.5 else {"attention_mask": blocks}
        return [ids], given, {"by": by}
    if code == "table-offset":
        model = str(rng.choice(["roberta", "opt"]))
        by = -2 if model == "roberta" else 2
        return ids + max(by, 0), {"config": model}, {"by": by}
    if code == "index-for-depth":
        return ids, {"depth": np.r_[0, np.sort(rng.integers(1, 4, n - 1))]}, {}
    if code == "beyond":
        return ids, {"length": n - by}, {"at": n - by, "limit": n - by}
    rank, ranks = int(rng.integers(2, 4)), 4
    shard = str(rng.choice(["every", "block", "zigzag"]))
    given = {"rank": (rank, ranks), "shard": shard}
    if code == "local-ids":
        return ids, given, {}
    return shard_of(shard, rank - 1, ranks, n), given, {}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "code",
    "padding-counted not-restarted table-offset index-for-depth beyond local-ids "
    "wrong-shard".split(),
)
def test_a_cause_that_other_arrays_show_is_named(code, count, config):
    rng = np.random.default_rng(4)
    for _ in range(count):
        ids, given, facts = in_context(code, rng)
        if "config" in given:
            given["config"] = config(given["config"])
        found = pefourier.positions(ids, **given)
        assert causes_of(found) == [{"code": code, **facts}]
        assert is_verdict(found, code, ids)


def drawn_images(rng):
    """Draw text, an image, text, a video and text: token types, grids, and ids by the rule."""
    kinds, grids, start, ids = [], [], 0, []
    for kind in (0, 1, 0, 2, 0):
        rows, columns = rng.choice([2, 3, 4, 5], 2, replace=False).tolist()
        sides = [1, 1, int(rng.integers(3, 7))]
        if kind:
            sides = [int(rng.integers(2, 4)) if kind == 2 else 1, rows, columns]
            grids.append([[sides[0], 2 * rows, 2 * columns]])
        axes = np.indices(sides).reshape(3, -1) if kind else np.tile(np.arange(sides[2]), (3, 1))
        kinds += [kind] * axes.shape[1]
        ids.append(start + axes)
        start = int(ids[-1].max()) + 1
    given = {"mm_token_type_ids": [kinds], "image_grid_thw": grids[0], "video_grid_thw": grids[1]}
    return np.concatenate(ids, axis=1), given, np.array(kinds)


def planted_on_axes(code, rng, ids, kinds, grids):
    """Plant a mistake in ids on three axes; return the fields of its cause."""
    axis, n = int(rng.integers(3)), ids.shape[1]
    if code.startswith("one-"):
        number = int(rng.integers(2))
        at = np.flatnonzero(kinds == number + 1)
        if code == "one-shifted":
            ids[:, at] += 4
            return {"code": "shifted", "by": 4, "within": {"image": number}}
        if code == "one-axes-exchanged":
            ids[1:, at] = ids[:0:-1, at].copy()
            return {"code": "axes-exchanged", "axes": (1, 2), "within": {"image": number}}
        move = len(at) - 1 - int(ids[:, at].max() - ids[0, at[0]])
        ids[:, at] = ids[0, at[0]] + np.arange(len(at))
        ids[:, at[-1] + 1 :] += move
        return {"code": "text-only", "within": {"image": number}}
    if code in APPLIED:
        facts = drawn(code, rng, n)
        applied = APPLIED[code](ids[axis].tolist(), **facts)
        ids[axis] = applied
        return {**facts, "axis": axis}
    if code == "axes-exchanged":
        ids[1:] = ids[:0:-1].copy()
        return {"axes": (1, 2)}
    if code == "block-start":
        at, by = int((kinds == 2).argmax()), int(rng.choice([-2, 3]))
        ids[:, at:] += by
        return {"at": at, "by": by}
    if code == "text-only":
        ids[:] = np.arange(n)
    if code == "times-shared":
        ids[0, kinds == 2] = ids[0, kinds == 2].min()
        after = int(np.flatnonzero(kinds == 2)[-1]) + 1
        ids[:, after:] += ids[:, kinds == 2].max() + 1 - ids[0, after]
    if code == "column-major":
        for kind, grid in ((1, "image_grid_thw"), (2, "video_grid_thw")):
            frames, rows, columns = np.array(grids[grid][0]) // [1, 2, 2]
            block = ids[:, kinds == kind].reshape(3, frames, rows, columns)
            ids[:, kinds == kind] = block.swapaxes(2, 3).reshape(3, -1)
    return {}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "code",
    "gap backwards wrong shifted reversed axes-exchanged block-start text-only times-shared "
    "column-major one-shifted one-axes-exchanged one-text".split(),
)
def test_a_cause_on_axes_is_named(code, count, config):
    rng, path = np.random.default_rng(5), config("qwen2_vl")
    for _ in range(count):
        ids, given, kinds = drawn_images(rng)
        assert pefourier.positions(ids[:, None], config=path, **given).verdict == "as expected"
        facts = planted_on_axes(code, rng, ids, kinds, given)
        found = pefourier.positions(ids[:, None], config=path, **given)
        (cause,) = found.rows[0].causes
        assert is_verdict(found, cause["code"], ids)
        if "axis" in facts:
            facts["within"] = {"axis": facts["axis"]}
        assert cause == {"code": code, "step": "rows", **facts}


@pytest.mark.parametrize("count", COUNTS)
def test_right_ids_are_as_expected(count, config):
    rng = np.random.default_rng(6)
    roberta, llama, qwen = map(config, ("roberta", "llama", "qwen2_vl"))
    for _ in range(count):
        n, pads = 2 * int(rng.integers(8, 30)), int(rng.integers(1, 6))
        cut, past, rank = (
            int(rng.integers(2, n - 1)),
            int(rng.integers(6, 40)),
            int(rng.integers(4)),
        )
        mask = np.arange(n) >= pads
        padded, packed = np.maximum(np.arange(n) - pads, 0), np.r_[:cut, : n - cut]
        causal, segments = np.tri(n, dtype=bool), np.r_[[1] * cut, [2] * (n - cut)]
        blocks = (causal & np.equal.outer(segments, segments))[None, None]
        cached = np.ones((2, past + n), int)
        cached[1, :pads] = 0
        omega = 5e5 ** (-np.arange(0, 32, 2) / 32)
        angles = np.tile(np.outer(np.arange(n), omega), (2, 1)).reshape(2, n, -1)
        waves = {"cos": np.cos(angles), "sin": np.sin(angles).astype("f4")}
        turned = drawn_images(rng)[0][np.repeat([0, 1, 2], [4, 6, 6])].T * omega
        parents = [-1, *(int(rng.integers(i)) for i in range(1, n))]
        depth, tree = [0], np.eye(n, dtype=bool)
        for node, parent in enumerate(parents[1:], 1):
            depth.append(depth[parent] + 1)
            tree[node] |= tree[parent]
        shards = [shard_of(shard, rank, 4, n) for shard in ("every", "block", "zigzag")]
        for ids, given in (
            (np.arange(n), {}),
            ([packed], {"cu_seqlens": [0, cut, n]}),
            ([packed], {"seq_idx": [segments - 1]}),
            ([packed], {"attention_mask": [segments]}),
            ([packed], {"attention_mask": np.where(blocks, 0, np.finfo("f4").min)}),
            ([padded], {"attention_mask": [mask * 1]}),
            ([padded], {"attention_mask": [mask]}),
            ([[past + n - 1], [past + n - 1 - pads]], {"attention_mask": cached}),
            (past + np.arange(n) - [[0], [pads]], {"attention_mask": cached}),
            (past + np.arange(n), {"cache_position": past + np.arange(n)}),
            (past + np.arange(n), {"past": past}),
            (2 + np.arange(n), {"config": roberta}),
            (depth, {"parents": parents}),
            ([depth], {"attention_mask": tree[None, None], "depth": depth}),
            *((ids, {"rank": (rank, 4)}) for ids in shards),
            (np.hstack([np.cos(turned), np.sin(turned)]), {"config": qwen}),
            ({**waves, "attention_mask": np.ones((2, n))}, {"config": llama}),
        ):
            found = pefourier.positions(ids, **given)
            assert (found.verdict, found.is_fine(strict=True)) == ("as expected", True), given
