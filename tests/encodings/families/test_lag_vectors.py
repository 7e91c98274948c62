"""Vectors of lags equal those of transformers: xl and deberta."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pefourier.encodings import build, load
from pefourier.encodings.families.relative import deberta_buckets
from pefourier.errors import PefourierError
from pefourier.questions.compare import compare
from pefourier.questions.context import describe_context
from pefourier.questions.spectrum import spectrum


@pytest.mark.parametrize(("attention", "causal"), [("bi", False), ("uni", True)])
@pytest.mark.parametrize("clamp", [0, 4])
def test_xlnets_rows_are_those_of_xl(attention, causal, clamp):
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    settings = {"d_model": 8, "attn_type": attention, "bi_data": False, "clamp_len": clamp or -1}
    model = SimpleNamespace(**settings, positional_embedding=XLNetModel.positional_embedding)
    rows = XLNetModel.relative_positional_encoding(model, 9, 9)[1:, 0]  # the first row is cut off
    table = build("xl", length=9, d=8, clamp=clamp, causal=causal).table()
    np.testing.assert_allclose(table, rows.numpy(), atol=1e-6)


def test_xlnets_attention_looks_up_query_minus_key(rng):
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    enc, q = build("xl", length=5, d=4), rng.normal(size=(5, 4))
    rows = np.vstack([np.zeros(4), enc.table()])  # R of lag 5, which no query uses
    shifted = XLNetRelativeAttention.rel_shift_bnij(torch.tensor(q @ rows.T)[None, None], 5)
    for i, j in np.ndindex(5, 5):
        assert float(shifted[0, 0, i, j]) == pytest.approx(q[i] @ enc.vectors(np.array([j - i]))[0])


def test_clamped_sinusoids_declare_no_frequencies():
    assert build("xl", length=9, d=8, clamp=8).measure
    clamped = build("xl", length=9, d=8, clamp=7)
    assert not clamped.measure
    assert spectrum(clamped).method == "periodogram"
    np.testing.assert_array_equal(*clamped.vectors(np.array([-7, -8])))


def test_lags_beyond_the_length_are_not_clamped():
    short, longer = (build("xl", length=n, d=8) for n in (4, 40))
    lags = np.array([-30, -5, 3, 5, 30])
    np.testing.assert_array_equal(short.vectors(lags), longer.vectors(lags))


def test_context_of_relative_sinusoids():
    assert describe_context("xl", 300, d=8)[1].verdict == "any length"
    clamped = describe_context("Transformer-XL:clamp=12", 300, d=8)[1]
    assert (clamped.verdict, clamped.far) == ("limited distance", 12)


@pytest.mark.parametrize("sizes", [(256, 512), (32, 64), (8, 100), (7, 31)])
def test_buckets_are_those_of_debertas_code(sizes):
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    distance = np.arange(-sizes[1] + 1, sizes[1])
    rows = make_log_bucket_position(torch.tensor(distance), *sizes).long().numpy()
    np.testing.assert_array_equal(deberta_buckets(distance, *sizes), rows)
    assert all(a <= b for a, b in pairwise(rows))


def test_the_row_of_a_lag_is_that_of_query_minus_key():
    enc = load("deberta:buckets=4,max=8,scale=1", 20, 3)
    vectors = np.random.RandomState(0).normal(size=(8, 3))  # rows of buckets -4 … 3
    # a key 1 before the query: bucket 1; 5 before: 2 + ceil(ln(5/2) / ln(7/2)) = 3
    expected = vectors[[4 + 1, 4 + 3, 4 - 1, 4 - 3, 4, 7, 0]]
    np.testing.assert_array_equal(enc.vectors(np.array([-1, -5, 1, 5, 0, -19, 19])), expected)
    assert len(np.unique(load("deberta:buckets=0,max=6", 20, 3).table(), axis=0)) == 12


def test_terms_of_scores_are_a_difference_of_use():
    found = compare(load("deberta", 12, 4), load("deberta:p2c=false", 12, 4))
    assert found.verdict == "used differently"
    assert compare(load("deberta", 12, 4), load("deberta", 12, 4)).verdict == "the same"


REFUSED = [
    ("xl", 7, "even d"),
    ("xl:clamp=-1", 8, "clamp"),
    ("xl:divisor=d/2-1", 2, "at least 4"),
    ("xl:layout=pairs", 8, "layout"),
    ("deberta:buckets=1", 8, "max_distance above 1; got 1 and 512"),
    ("deberta:buckets=256,max=129", 8, "max_distance above 129; got 256 and 129"),
    ("deberta:buckets=-2", 8, "buckets"),
    ("deberta:scale=0", 8, "scale"),
    ("deberta:buckets=4000000000", 8, "numbers"),
]


@pytest.mark.parametrize(("spec", "d", "words"), REFUSED)
def test_parameters_out_of_range_are_refused_in_a_line(spec, d, words):
    with pytest.raises(PefourierError) as error:
        load(spec, 8, d)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
