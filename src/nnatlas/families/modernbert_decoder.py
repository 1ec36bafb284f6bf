"""ModernBERT as a decoder: fused gates, sliding and full attention in turn, and a dense layer with a norm before the head."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="modernbert-decoder",
    embed_tokens="base.embeddings.tok_embeddings",
    norm="base.final_norm",
    lm_head="decoder",
    self_attn="attn",
    attention_norm="attn_norm",
    mlp_norm="mlp_norm",
    o_proj="Wo",
    down_proj="Wo",
    attention_norm_output="attention_norm > out copied",
    readout="norm | root.lm_head | lm_head",
    passes="base.embeddings.norm root.lm_head",
)
