"""DiffLlama: the attention runs twice over one pattern, for two halves of the values, and pairs of heads are subtracted."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    attention_queries="self_attn calls apply_rotary_pos_emb > out[0]",
    attention_keys="self_attn calls apply_rotary_pos_emb > out[1]",
    attention_values="v_proj > out : batch seq (num_kv_heads head_dim)",
    attention_head_outputs="self_attn.groupnorm > in as batch seq head_pairs pair_width",
    notes={
        "attention_keys": "of this call alone: cached ones join them afterwards",
        "attention_values": "of this call alone; the first half of the heads is mixed by the first call, the second by the second",
        "attention_scores": "of the first of two calls; the second computes the same ones anew, so an edit reaches half the values",
        "attention_probabilities": "of the first of two calls; the second computes the same ones anew",
        "attention_head_outputs": "the difference of the two heads of each pair, before its norm",
        "attention_premix": "a pair's difference, normed and scaled, lies in two heads' places side by side",
    },
    breaks={
        "chain attention_head_outputs": "the two heads of a pair are subtracted, in two halves of their width",
        "chain attention_premix": "pairs of heads are subtracted, normed and scaled before they are projected",
    },
)
