"""BLT: bytes gathered into patches by a small encoder, a large model over patches, a small decoder over bytes; `layers` are the decoder's."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    layers="base.local_decoder.layers",
    embed_tokens="base.local_encoder.embed_tokens",
    norm="base.local_decoder.norm",
    sizes={"hidden_size": "config.decoder_config.hidden_size"},
    passes="base.local_encoder base.global_transformer base.patcher base.encoder_hash_tok_embedding"
    " base.local_decoder.patch_embedding_projection base.local_decoder.cross_attn_layers",
    token_embeddings="embed_tokens > out copied",
    notes={
        "layer_input": "a byte's stream in the decoder, after it has read the patches; the model over patches is global_transformer",
        "token_embeddings": "of single bytes; embeddings of hashed groups of bytes are added to them",
    },
    breaks={
        "batch padding": "padding is cut into patches like any other byte",
        "batch cache": "a cached step makes a patch of the new byte alone, in transformers itself",
        "chain block.layer_input": "a cross attention to the patches may stand before each block of the decoder",
    },
    tiny={
        "num_hidden_layers": 4,
        "*.hidden_size_global": 128,
        "global_config.hidden_size": 128,
        "global_config.head_dim": 32,
        "global_config.num_hidden_layers": 4,
        "decoder_config.num_hidden_layers": 4,
    },
)
