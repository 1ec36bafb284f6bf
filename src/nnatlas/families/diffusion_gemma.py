"""DiffusionGemma: a Gemma 4 that refines a canvas of tokens at once, reading the prompt through an encoder's cache."""

from nnatlas.families._shapes import GEMMA4, GEMMA4_BREAKS, GEMMA4_SPARSE, SANDWICH

_CANVAS = "positions are those of the canvas, which all see each other and the prompt"
_AFTER = "positions of the canvas are counted on from the prompt's"

FAMILY = SANDWICH.but(
    **GEMMA4,
    base="model.decoder",
    kinds=(GEMMA4_SPARSE,),
    notes={
        "token_embeddings": "of the canvas",
        "layer_input": "of the canvas, which is drawn at random unless decoder_input_ids is passed",
        "attention_keys": "the prompt's, from the encoder's cache, and then the canvas's own",
        "attention_values": "the prompt's, from the encoder's cache, and then the canvas's own",
    },
    passes="base.self_conditioning root.model.encoder block.*_feedforward_layernorm_*",
    attention_keys="attention > key as batch num_kv_heads prompt_and_seq qk_head_dim",
    attention_values="attention > value as batch num_kv_heads prompt_and_seq head_dim",
    attention_scores="attention > scores as batch num_heads query prompt_and_seq",
    attention_probabilities="attention > probabilities as batch num_heads query prompt_and_seq",
    breaks=GEMMA4_BREAKS
    | dict.fromkeys(("causal earlier positions", "chain attention_probabilities", "batch"), _CANVAS)
    | {"chain token_embeddings": "of the canvas, not of the prompt"}
    | dict.fromkeys(("chain unrotated_queries", "chain unrotated_keys"), _AFTER),
    tiny={
        "canvas_length": 12,
        "text_config.num_experts": 4,
        "text_config.top_k_experts": 2,
        "text_config.moe_intermediate_size": 48,
        "text_config.head_dim": 8,
        "text_config.per_layer_config": {"3": {"head_dim": 16}},
    },
)
