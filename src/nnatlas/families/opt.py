"""OPT: learned positions, and an MLP whose layers hang on the block itself."""

from nnatlas.families._shapes import FAIRSEQ, LLAMA, NO_ROTARY, NORMED_ATTENTION, absent, kind

_FLAT = ": (batch seq)"

FAMILY = LLAMA.but(
    **FAIRSEQ,
    **NO_ROTARY,
    base=("model.decoder", "language_model.model.decoder"),
    mlp="block",
    act_fn="activation_fn",
    passes="base.embed_positions base.project_in base.project_out",
    token_embeddings=("base.project_in > in as batch seq word_embed_proj_dim", "embed_tokens > out"),
    readout="maybe norm | maybe base.project_out | lm_head",
    norm=("base.final_layer_norm", absent("this checkpoint has no final norm")),
    layer_mid=f"mlp_norm > in {_FLAT} hidden_size shared",
    mlp_norm_output=f"mlp_norm > out {_FLAT} hidden_size",
    mlp_input=f"up_proj > in {_FLAT} hidden_size",
    mlp_activation=f"act_fn > out {_FLAT} intermediate_size",
    mlp_neurons=f"down_proj > in {_FLAT} intermediate_size",
    mlp_output=f"down_proj > out {_FLAT} hidden_size",
    kinds=(
        kind(
            "post-norm",
            "not config.do_layer_norm_before",
            identity=absent("the stream itself is normed after every sum"),
            layer_mid=f"up_proj > in {_FLAT} hidden_size shared",
            mlp_input=f"up_proj > in {_FLAT} hidden_size copied",
            attention_norm_output=absent(NORMED_ATTENTION),
            mlp_norm_output=absent("the MLP reads the normed stream; the norm comes after the sum"),
        ),
    ),
)
