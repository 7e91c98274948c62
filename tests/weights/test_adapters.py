"""The merged weights of adapters equal those of peft."""

import json
from pathlib import Path

import peft
import pytest
import torch
import transformers
from numpy.testing import assert_allclose
from refusals import refusal

from pefourier.questions.usage import use_of_model
from pefourier.weights.model import open_model_weights

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
SETTINGS = {
    "plain": {},
    "rank-stabilised": {"use_rslora": True},
    "patterns": {"rank_pattern": {"k_proj": 2}},
    "queries": {"target_modules": ["q_proj"], "modules_to_save": ["k_proj"]},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return the folder of a small random model."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **{"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 8},
    )
    path = str(tmp_path_factory.mktemp("base"))
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


def adapt(base, path, **settings):
    """Save a random adapter of a base, and the model that peft merges."""
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    settings = {"target_modules": ["q_proj", "k_proj", "v_proj"], "lora_alpha": 16} | settings
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, **settings))
    for name, weights in model.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            weights.data += 0.1 * torch.randn_like(weights)
    model.save_pretrained(str(path / "adapter"))
    model.merge_and_unload().save_pretrained(str(path / "merged"))
    return str(path / "adapter"), str(path / "merged")


@pytest.mark.parametrize("name", SETTINGS)
def test_merged_weights_are_those_of_peft(name, base, tmp_path):
    adapter, merged = adapt(base, tmp_path, **SETTINGS[name])
    ours, expected = (open_model_weights(path).tensors for path in (adapter, merged))
    assert ours.keys() == expected.keys()
    for key in (key for key in ours if "self_attn" in key):
        rows = [tensors[key].rows(3, 20) for tensors in (ours, expected)]
        assert_allclose(*rows, rtol=1e-5, atol=1e-6, err_msg=key)
    first, second = use_of_model(adapter, base=base), use_of_model(merged)
    assert_allclose(first.shares[1].product, second.shares[1].product, rtol=1e-4)
    moved = use_of_model(adapter, against=base).against
    assert moved.moved > 0.01


REFUSED = [
    ({"base_model_name_or_path": "meta-llama/Llama-3.1-8B"}, "--base DIR, or merge"),
    ({"peft_type": "IA3"}, "peft_type IA3"),
    ({"use_dora": True}, "use_dora"),
    ({"alpha_pattern": {"k_proj": 3}}, "alpha_pattern"),
]


@pytest.mark.parametrize(("changes", "named"), REFUSED)
def test_adapters_that_merge_otherwise_are_refused(changes, named, base, tmp_path):
    adapter, _ = adapt(base, tmp_path)
    path = Path(adapter, "adapter_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with refusal(named):
        use_of_model(adapter)
    with refusal("no PEFT adapter"):
        use_of_model(base, base=base)
