"""Configs of real models as they are published on the Hugging Face hub: the keys that matter.

Each is named by its repository; keys that say nothing of positions are left out.
"""

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def sized(kind, width, heads, length, **own):
    """A config with the keys that nearly all have."""
    return {
        "model_type": kind,
        "hidden_size": width,
        "num_attention_heads": heads,
        "max_position_embeddings": length,
        **own,
    }


def yarn(factor, original, **own):
    return {"type": "yarn", "factor": factor, "original_max_position_embeddings": original, **own}


DEEPSEEK_YARN = yarn(40, 4096, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)
LITE_YARN = yarn(40, 4096, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=0.707)
GPT_OSS_YARN = {
    **{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0},
    **{"original_max_position_embeddings": 4096, "truncate": False},
}
FACTORS = [1 + i / 64 for i in range(48)]  # stands for lists too long to write down
LONGROPE = {"type": "longrope", "short_factor": FACTORS, "long_factor": [2 * f for f in FACTORS]}
GEMMA3_TEXT = {
    **{"model_type": "gemma3_text", "hidden_size": 2560, "sliding_window": 1024},
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}

PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": sized("llama", 4096, 32, 4096, rope_scaling=None),
    "meta-llama/Llama-2-70b-hf": sized("llama", 8192, 64, 4096, rope_scaling=None),
    "codellama/CodeLlama-7b-hf": sized("llama", 4096, 32, 16384, rope_theta=1000000),
    "meta-llama/Meta-Llama-3-8B": sized("llama", 4096, 32, 8192, rope_theta=500000.0),
    "meta-llama/Llama-3.1-8B": sized(
        "llama", 4096, 32, 131072, rope_theta=500000.0, rope_scaling=LLAMA3
    ),
    "meta-llama/Llama-3.2-1B": sized(
        *("llama", 2048, 32, 131072),
        **{"head_dim": 64, "rope_theta": 500000.0, "rope_scaling": {**LLAMA3, "factor": 32.0}},
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": sized("llama", 2048, 32, 2048, rope_theta=10000.0),
    "HuggingFaceTB/SmolLM2-1.7B": sized("llama", 2048, 32, 8192, rope_theta=130000),
    "01-ai/Yi-34B": sized("llama", 7168, 56, 4096, rope_theta=5000000.0),
    "deepseek-ai/deepseek-coder-6.7b-base": sized(
        *("llama", 4096, 32, 16384),
        **{"rope_theta": 100000, "rope_scaling": {"factor": 4.0, "type": "linear"}},
    ),
    "mistralai/Mistral-7B-v0.1": sized(
        "mistral", 4096, 32, 32768, rope_theta=10000.0, sliding_window=4096
    ),
    "mistralai/Mistral-7B-Instruct-v0.3": sized(
        "mistral", 4096, 32, 32768, rope_theta=1000000.0, sliding_window=None
    ),
    "mistralai/Mistral-Nemo-Base-2407": sized(
        *("mistral", 5120, 32, 128000),
        **{"rope_theta": 1000000.0, "head_dim": 128, "sliding_window": None},
    ),
    "mistralai/Mixtral-8x7B-v0.1": sized("mixtral", 4096, 32, 32768, rope_theta=1000000.0),
    "Qwen/Qwen1.5-7B": sized("qwen2", 4096, 32, 32768, rope_theta=1000000.0),
    "Qwen/Qwen2-7B": sized("qwen2", 3584, 28, 131072, rope_theta=1000000.0),
    "Qwen/Qwen2.5-7B-Instruct": sized("qwen2", 3584, 28, 32768, rope_theta=1000000.0),
    "Qwen/Qwen2.5-7B-Instruct, with its YaRN": sized(
        "qwen2", 3584, 28, 32768, rope_theta=1000000.0, rope_scaling=yarn(4.0, 32768)
    ),
    "Qwen/Qwen2.5-0.5B": sized("qwen2", 896, 14, 32768, rope_theta=1000000.0),
    "Qwen/Qwen3-8B": sized(
        "qwen3", 4096, 32, 40960, rope_theta=1000000, head_dim=128, rope_scaling=None
    ),
    "Qwen/Qwen3-0.6B": sized("qwen3", 1024, 16, 40960, rope_theta=1000000, head_dim=128),
    "Qwen/Qwen3-30B-A3B": sized("qwen3_moe", 2048, 32, 40960, rope_theta=1000000.0, head_dim=128),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": sized(
        *("qwen3_next", 2048, 16, 262144),
        **{"rope_theta": 10000000, "head_dim": 256, "partial_rotary_factor": 0.25},
    ),
    "Qwen/Qwen2-VL-7B-Instruct": sized(
        *("qwen2_vl", 3584, 28, 32768),
        **{"rope_theta": 1000000.0, "vision_config": {"depth": 32, "embed_dim": 1280}},
        rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
    ),
    "Qwen/Qwen2.5-VL-7B-Instruct": sized(
        *("qwen2_5_vl", 3584, 28, 128000),
        **{"rope_theta": 1000000.0, "vision_config": {"depth": 32, "hidden_size": 1280}},
        rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
    ),
    "microsoft/phi-2": sized("phi", 2560, 32, 2048, rope_theta=10000.0, partial_rotary_factor=0.4),
    "microsoft/phi-1_5": sized(
        "phi", 2048, 32, 2048, rope_theta=10000.0, partial_rotary_factor=0.5
    ),
    "microsoft/Phi-3-mini-4k-instruct": sized(
        *("phi3", 3072, 32, 4096),
        **{"original_max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": None},
    ),
    "microsoft/Phi-3-mini-128k-instruct": sized(
        *("phi3", 3072, 32, 131072),
        **{"original_max_position_embeddings": 4096, "rope_theta": 10000.0},
        rope_scaling=LONGROPE,
    ),
    "microsoft/Phi-4-mini-instruct": sized(
        *("phi3", 3072, 24, 131072),
        **{"original_max_position_embeddings": 4096, "rope_theta": 10000.0},
        **{"partial_rotary_factor": 0.75, "rope_scaling": LONGROPE},
    ),
    "microsoft/phi-4": sized("phi3", 5120, 40, 16384, rope_theta=250000, rope_scaling=None),
    "google/gemma-2b": sized("gemma", 2048, 8, 8192, rope_theta=10000.0, head_dim=256),
    "google/gemma-7b": sized("gemma", 3072, 16, 8192, rope_theta=10000.0, head_dim=256),
    "google/gemma-2-9b": sized("gemma2", 3584, 16, 8192, rope_theta=10000.0, head_dim=256),
    "google/gemma-2-27b": sized("gemma2", 4608, 32, 8192, rope_theta=10000.0, head_dim=128),
    "google/gemma-3-1b-it": sized(
        *("gemma3_text", 1152, 4, 32768),
        **{"head_dim": 256, "rope_theta": 1000000, "rope_local_base_freq": 10000},
        **{"rope_scaling": None, "sliding_window": 512, "sliding_window_pattern": 6},
    ),
    "google/gemma-3-4b-it": {"model_type": "gemma3", "text_config": GEMMA3_TEXT},
    "deepseek-ai/DeepSeek-V2-Lite": sized(
        *("deepseek_v2", 2048, 16, 163840),
        **{"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
        **{"rope_theta": 10000, "rope_scaling": LITE_YARN},
    ),
    "deepseek-ai/DeepSeek-V3": sized(
        *("deepseek_v3", 7168, 128, 163840),
        **{"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
        **{"rope_theta": 10000, "rope_scaling": DEEPSEEK_YARN},
    ),
    "openai/gpt-oss-20b": sized(
        *("gpt_oss", 2880, 64, 131072),
        **{"head_dim": 64, "rope_theta": 150000, "rope_scaling": GPT_OSS_YARN},
    ),
    "EleutherAI/gpt-neox-20b": sized(
        "gpt_neox", 6144, 64, 2048, rotary_pct=0.25, rotary_emb_base=10000
    ),
    "EleutherAI/pythia-1.4b": sized(
        "gpt_neox", 2048, 16, 2048, rotary_pct=0.25, rotary_emb_base=10000
    ),
    "tiiuae/falcon-7b": {
        **{"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71},
        **{"alibi": False, "multi_query": True, "new_decoder_architecture": False},
    },
    "tiiuae/falcon-180B": sized("falcon", 14848, 232, 2048, alibi=False, rope_theta=10000.0),
    "stabilityai/stablelm-3b-4e1t": sized(
        "stablelm", 2560, 32, 4096, rope_theta=10000, partial_rotary_factor=0.25
    ),
    "CohereForAI/c4ai-command-r-v01": sized("cohere", 8192, 64, 8192, rope_theta=8000000.0),
    "CohereForAI/c4ai-command-r7b-12-2024": sized(
        *("cohere2", 4096, 32, 8192),
        **{"rope_theta": 50000, "head_dim": 128, "sliding_window": 4096},
    ),
    "bigcode/starcoder2-7b": sized("starcoder2", 4608, 36, 16384, rope_theta=1000000),
    "allenai/OLMo-7B-hf": sized("olmo", 4096, 32, 2048, rope_theta=10000.0),
    "allenai/OLMo-2-1124-7B": sized("olmo2", 4096, 32, 4096, rope_theta=500000),
    "allenai/Olmo-3-1025-7B": sized(
        *("olmo3", 4096, 32, 65536),
        **{"rope_theta": 500000, "sliding_window": 4096},
        rope_scaling={
            **{"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192},
            **{"attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1},
        },
    ),
    "THUDM/glm-4-9b-chat-hf": sized(
        *("glm", 4096, 32, 131072),
        **{"head_dim": 128, "partial_rotary_factor": 0.5, "rope_theta": 10000.0},
    ),
    "zai-org/GLM-4.5-Air": sized(
        *("glm4_moe", 4096, 96, 131072),
        **{"head_dim": 128, "partial_rotary_factor": 0.5, "rope_theta": 1000000},
    ),
    "nvidia/Minitron-8B-Base": sized(
        "nemotron", 4096, 48, 4096, head_dim=128, rope_percent=0.5, rope_theta=10000.0
    ),
    "ibm-granite/granite-3.0-8b-base": sized("granite", 4096, 32, 4096, rope_theta=10000.0),
    "HuggingFaceTB/SmolLM3-3B": sized("smollm3", 2048, 16, 65536, rope_theta=5000000.0),
    "answerdotai/ModernBERT-base": sized(
        *("modernbert", 768, 12, 8192),
        **{"global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
    ),
    "nomic-ai/nomic-embed-text-v1.5, its own keys": {
        **{"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_positions": 8192},
        **{"rotary_emb_base": 1000, "rotary_emb_fraction": 1.0},
    },
    "MiniMaxAI/MiniMax-M2": sized(
        *("minimax_m2", 3072, 48, 196608),
        **{"head_dim": 128, "rotary_dim": 64, "rope_theta": 5000000},
    ),
    "moonshotai/Moonlight-16B-A3B": sized(
        *("deepseek_v3", 2048, 16, 8192),
        **{"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rope_theta": 50000.0},
    ),
    "tencent/Hunyuan-7B-Instruct": sized(
        *("hunyuan_v1_dense", 4096, 32, 262144),
        **{"head_dim": 128, "rope_theta": 10000.0},
        rope_scaling={
            **{"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0},
            **{"mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"},
        },
    ),
    "baidu/ERNIE-4.5-0.3B-PT": sized(
        "ernie4_5", 1024, 16, 131072, head_dim=128, rope_theta=500000.0
    ),
    "llava-hf/llava-1.5-7b-hf": {
        "model_type": "llava",
        "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
        "vision_config": {
            **{"model_type": "clip_vision_model", "hidden_size": 1024, "num_attention_heads": 16}
        },
    },
    "meta-llama/Llama-4-Scout-17B-16E": {
        "model_type": "llama4",
        "text_config": sized(
            *("llama4_text", 5120, 40, 10485760),
            **{"head_dim": 128, "rope_theta": 500000.0},
            rope_scaling={**LLAMA3, "factor": 16.0, "high_freq_factor": 1.0},
        ),
    },
}
