"""A.X K2: DeepSeek 3.2 with a gate on every head, projected together with its queries."""

from nnatlas.families._shapes import INDEXED, LLAMA, absent

FAMILY = LLAMA.but(
    unrotated_queries=absent(
        "one projection gives every head its query and its gate, in turn, so that neither is a plain slice"
    ),
    attention_gate="self_attn ~ sigmoid[0] > out : batch seq (num_heads head_dim) as batch seq num_heads head_dim",
    indexer_choice="self_attn.indexer > out as batch query chosen",
    breaks=INDEXED,
)
