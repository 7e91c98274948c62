"""What is injected: the code of each place, and what is trained."""

from dataclasses import replace

import numpy as np
import pytest
from training import SIZES, injection

from pefourier.encodings import build
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.train.injection import load_injection, scale_to_rms


@pytest.mark.parametrize("name", ["t5", "shaw", "erpe"])
def test_a_place_has_the_code_of_its_lag(name):
    """Lag is key - query."""
    one = injection(name)
    enc = build(name, length=8, d=2 if one.act == "bias" else 8)
    table = one.table()
    if one.act == "key":
        np.testing.assert_array_equal(table, enc.table())
        return
    for query, key in ((0, 7), (5, 2), (3, 3)):
        (code,) = enc.codes(np.array([key - query]))
        np.testing.assert_array_equal(table[8 * query + key], code)


def test_what_is_before_training_is_trained():
    """The registry says of some encodings that they stand before training."""
    said = {n for n, b in BUILDERS.items() if "before training" in b.paper or "initial" in b.paper}
    assert said == {n for n, b in BUILDERS.items() if b.untrained}
    assert injection("learned").learn
    assert injection("rope", learn=True).learn
    assert not injection("rope").learn
    assert not injection("sinusoidal").learn


@pytest.mark.parametrize("name", ["dft", "sinusoidal", "learned", "ramp"])
def test_what_varies_of_matched_codes_has_the_root_mean_square_asked_for(name):
    one = scale_to_rms(injection(name), 0.25)
    table, own = one.table(), injection(name).table()
    assert np.sqrt((table**2).mean()) == pytest.approx(0.25)
    assert np.sqrt(table.var(axis=0).mean()) == pytest.approx(0.25)
    np.testing.assert_allclose(table.mean(axis=0), 0, atol=1e-12)
    centred = own - own.mean(axis=0)
    np.testing.assert_allclose(table * centred.max(), centred * table.max(), atol=1e-12)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("t5:causal=true", "which this classifier attends to; leave out causal=true"),
        ("rope:d=32", "rope:d=32 has codes of 32 dimensions for 8 points"),
        ("alibi:d=3", "act 'bias' with d=16 and 2 heads needs 2 dimensions for 8 tokens"),
    ],
)
def test_encodings_that_do_not_fit_are_refused(spec, message):
    with pytest.raises(PefourierError, match=message):
        injection(spec)


def test_positions_of_a_config_are_injected_as_they_are(tmp_path):
    file = tmp_path / "config.json"
    text = '{"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4'
    file.write_text(text + ', "max_position_embeddings": 64, "rope_theta": 500.0}')
    own, named = (
        load_injection(spec, 12, 32, 4, 0).table() for spec in (str(file), "rope:rho=500")
    )
    np.testing.assert_allclose(own, named, atol=1e-12)
    with pytest.raises(PefourierError, match=r"sets a dimension of 8 \(head_dim\), --d 16 an"):
        load_injection(str(file), 12, 64, 4, 0)
    file.write_text('{"model_type": "bloom", "hidden_size": 32, "n_head": 4}')
    with pytest.raises(PefourierError, match="no codes of later keys, which this classifier att"):
        load_injection(str(file), 12, 32, 4, 0)


def test_the_mean_is_over_positions_also_where_some_share_a_code():
    one = injection("dft", sizes=replace(SIZES, length=24))
    assert len(one.codes) < len(one.index)
    np.testing.assert_allclose(scale_to_rms(one, 0.25).table().mean(axis=0), 0, atol=1e-12)
    assert np.sqrt(scale_to_rms(one, 0.25).table().var(axis=0).mean()) == pytest.approx(0.25)
