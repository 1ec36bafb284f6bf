"""RWKV-4: a decayed average of values with exponential weights, one decay a channel; both sublayers see the token before."""

from nnatlas.families._mixers import CARRIED, IN_PLACE, MASKLESS, NO_ATTENTION_AT_ALL, NO_STEPS
from nnatlas.families._shapes import LLAMA, absent

_WKV = "linear_attn calls rwkv_linear_attention"

FAMILY = LLAMA.but(
    base="rwkv",
    layers="base.blocks",
    embed_tokens="base.embeddings",
    norm="base.ln_out",
    lm_head="head",
    self_attn=absent(NO_ATTENTION_AT_ALL),
    attention_norm="ln1",
    mlp="feed_forward",
    mlp_norm="ln2",
    up_proj="key",
    down_proj="value",
    mlp_activation="same as mlp_neurons",
    layer_input="attention_norm > in shared",
    linear_attn=dict(
        path="attention",
        attention_queries=absent("a channel's state is read whole; what lets it out is attention_gate"),
        attention_keys=f"{_WKV} > in.key as batch seq channels",
        attention_values=f"{_WKV} > in.value as batch seq channels",
        conv_output=absent("a token is mixed with the one before it, without a convolution"),
        time_steps=absent(NO_STEPS),
        decays="channel_decays(attention_values) as batch seq channels",
        betas=absent("the weight of a token is exp(attention_keys), in proportion to the others"),
        state_input=f"stacked({_WKV} > in.state) as batch parts channels",
        state_output=f"stacked({_WKV} > out[1]) as batch parts channels",
        states="wkv_states(state_input, attention_keys, attention_values, decays) as batch seq parts channels",
        attention_head_outputs=f"{_WKV} > out[0] as batch seq channels",
        attention_gate="linear_attn calls extract_key_value > out[0] as batch seq channels",
        attention_premix="linear_attn.output > in as batch seq channels",
        attention_output="linear_attn > out",
    ),
    breaks=CARRIED
    | MASKLESS
    | IN_PLACE
    | {
        "chain mlp.mlp_output": "the down projection's output is gated by a receptance of the MLP's own",
        "clean numbers": "the model divides weights by rescale_every at its first call in evaluation mode",
        "chain block.layer_input": "the stream is halved between blocks, after every rescale_every of them",
    },
    passes="block.pre_ln",
    notes={
        "layer_input": "on the first block after the norm that the family puts on its embeddings",
        "linear_attn.attention_keys": "each token's weight in the average, before its exponential",
        "linear_attn.decays": "exp(-exp(time_decay)), fixed by channel, the same at every token",
        "linear_attn.state_input": "weighted sum of values, sum of weights, and the exponent both are scaled by",
        "linear_attn.state_output": "weighted sum of values, sum of weights, and the exponent both are scaled by",
        "linear_attn.attention_head_outputs": "the average, in which the present token has a bonus of its own",
        "linear_attn.attention_gate": "the receptance after its sigmoid",
        "layer_output": "halved on the way to the next block after every rescale_every blocks",
        "mlp_output": "gated by a receptance of its own",
    },
)
