"""Series of unequal length: values after their end change nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training import CPU, SIZES, SMALL, injection

from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.train import model
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.saved_models import load_classifier


def drawn(sizes, seed=0):
    return {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), seed).items()}


def injectable():
    """Yield every registered encoding that the small classifier supports."""
    for name in (*sorted(BUILDERS), "shaw:values=true"):
        try:
            yield name, injection(name)
        except PefourierError:
            continue


def shortened(one, tokens):
    """Return an injection limited to the first tokens."""
    n = SIZES.tokens
    if one.act == "bias":
        index = one.index.reshape(n, n)[:tokens, :tokens].ravel()
    elif one.act in ("key", "key-query"):
        index = one.index[n - tokens : n + tokens - 1]
    else:
        index = one.index[:tokens]
    return replace(one, index=index)


@pytest.mark.parametrize("few", [32, 0])  # tokens up to which attention is written out
def test_padding_changes_no_logit_with_any_encoding(rng, monkeypatch, few):
    monkeypatch.setitem(model.FEW_TOKENS, "cpu", few)
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    other = x.clone()
    other[:, 0, 5:], other[:, 1, 2:] = 9.0, -3.0
    lengths, acts = torch.tensor([[5, 2, 8]]), set()
    for name, one in injectable():
        p, vectors = drawn(SIZES), model.stack_vectors([one], CPU, torch.float64)
        got = SIZES.logits(p, vectors, x, None, lengths)
        assert (got - SIZES.logits(p, vectors, other, None, lengths)).abs().max() < 1e-12, name
        for i, n in enumerate(lengths[0].tolist()):
            alone = model.stack_vectors([shortened(one, n)], CPU, torch.float64)
            own = replace(SIZES, length=n).logits(p, alone, x[:, i : i + 1, :n])
            assert (got[:, i] - own[:, 0]).abs().max() < 1e-12, (name, n)
        acts.add(one.act)
    assert acts == {"add", "rotate", "bias", "key", "key-query"}


def test_padding_changes_no_logit_with_any_patch(rng):
    sizes = model.Transformer(12, 2, 3, d=8, heads=2, patch=4, stride=2)
    short, p = replace(sizes, length=8), drawn(sizes)
    x = torch.as_tensor(rng.normal(size=(1, 4, 12, 2)))
    x[:, :, 8:] = 7.0
    vectors = [
        model.stack_vectors([injection("none", sizes=s)], CPU, x.dtype) for s in (sizes, short)
    ]
    got = sizes.logits(p, vectors[0], x, None, torch.full((1, 4), 8))
    assert (got - short.logits(p, vectors[1], x[:, :, :8])).abs().max() < 1e-12
    blind = model.OrderFree(12, 2, 3, 4)
    p = drawn(blind)
    got = blind.logits(p, {}, x, None, torch.full((1, 4), 8))
    assert (got - replace(blind, length=8).logits(p, {}, x[:, :, :8])).abs().max() < 1e-12


def test_what_padding_holds_changes_no_score(tmp_path, rng):
    x, y, lengths = rng.normal(size=(60, 6, 2)), np.arange(60) % 3 == 0, rng.integers(2, 7, 60)
    x[:, 0, 0] += 2 * y
    path, models, found = str(tmp_path / "x.npz"), tmp_path / "m", []
    own = {"dataset": (path,), "seeds": 1, "folds": 1, "save_models": str(models)}
    for fill in (0.0, 99.0):
        x[np.arange(6) >= lengths[:, None]] = fill
        np.savez(path, X=x, y=y.astype(int), lengths=lengths)
        (one,) = run_comparison(Options(**{**SMALL, **own})).datasets
        found.append(one.scores)
    assert repr(found[0]) == repr(found[1])  # intervals of one run are NaN, unequal to itself
    saved = load_classifier(next(models.glob("*none*")))
    other = np.where((np.arange(6) < lengths[:, None])[..., None], x, -5.0)
    np.testing.assert_array_equal(saved.logits(x, lengths), saved.logits(other, lengths))
