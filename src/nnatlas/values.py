"""The vocabulary: every value nnatlas knows, what it is, and on which host it hangs.

This is the only place where a value is described; families say *where* it is read, never again *what* it is.
Hosts are `model`, `block` (`model.layers[i]`), and a block's `self_attn`, `mlp` and `linear_attn`.  Where a model takes
images there are `vision` and `projector` too, and the vision tower's blocks carry the values of any block.
"""

from __future__ import annotations

from typing import Final

from nnatlas._record import Record
from nnatlas.layouts import LAYOUTS, Layout


class Value(Record):
    """One named quantity.  `read_only` is empty, or the reason why an assignment cannot reach the model."""

    name: str
    host: str
    layout: Layout
    doc: str
    read_only: str = ""

    @property
    def key(self) -> str:
        """Host and name, as support tables and patterns write it: `self_attn.attention_output`."""
        return self.name if self.host == "model" else f"{self.host}.{self.name}"

    @property
    def typed(self) -> str:
        """The value as it is typed: `model.layers[i].self_attn.attention_output`."""
        return f"{host_path(self.host)}.{self.name}"


HOSTS: Final = {
    "model": "the whole model",
    "block": "one block of the stack, model.layers[i]",
    "self_attn": "a block's attention, model.layers[i].self_attn",
    "linear_attn": "a block's recurrent or convolutional mixer, model.layers[i].linear_attn",
    "mlp": "a block's MLP or mixture of experts, model.layers[i].mlp",
}


VISION_HOSTS: Final = {
    "vision": "the tower that reads images, and where they enter the text model: model.vision",
    "projector": "what makes the tower's patches into tokens of the text model: model.projector",
}


def host_path(host: str) -> str:
    """A host as it is typed: `model`, `model.layers[i]`, `model.layers[i].mlp`, `model.vision`."""
    if host.startswith(tuple(VISION_HOSTS)):
        return f"model.{host}"
    return {"model": "model", "block": "model.layers[i]"}.get(host, f"model.layers[i].{host}")


_DERIVED = "it is computed from other values for you; edit those"

# host | name | layout | what it is | why it is read only
_TABLE = f"""
model | input_ids | Tokens | the token ids the model was called with; an edit before the forward starts reaches it
model | attention_mask | Tokens | the padding mask of the call: 1 for real tokens, 0 for padding
model | input_size | Scalar | [batch, seq] of this call | it is the shape of the input, not a tensor
model | token_embeddings | Residual | the embedding module's output; the first block's layer_input may be scaled, normed or positioned
model | final_norm_output | Residual | the residual stream after the final norm
model | lm_head_output | Logits | the head's output, before any cap or scale
model | logits | Logits | what the model returns
model | next_token_probs | NextTokenProbs | softmax of the logits at each row's last real token | {_DERIVED}
block | layer_input | Residual | the residual stream entering the block
block | attention_norm_output | Residual | the normed stream that the attention or mixer reads
block | layer_mid | Residual | the residual stream after the attention's contribution
block | mlp_norm_output | Residual | the normed stream that the MLP reads
block | mlp_input | Residual | what the MLP is called with
block | layer_output | Residual | the residual stream leaving the block
self_attn | unrotated_queries | Queries | the queries after any query norm, before the rotary
self_attn | unrotated_keys | Keys | the keys after any key norm, before the rotary
self_attn | attention_latent | Own | the compressed vector that keys and values are expanded from
self_attn | attention_queries | Queries | the queries as they enter attention, after norms and rotary
self_attn | attention_keys | Keys | the keys as they enter attention, cached ones included, before kv heads are repeated
self_attn | attention_values | Values | the values as they enter attention, cached ones included, before kv heads are repeated
self_attn | indexer_choice | Own | which keys a sparse indexer let each query attend to
self_attn | attention_scores | Pattern | what enters the softmax, mask added
self_attn | attention_probabilities | Pattern | the weights that the values are mixed with
self_attn | attention_head_outputs | HeadOutputs | each head's mixed values, before any gate or sub-norm
self_attn | attention_gate | Own | the gate on the heads' outputs
self_attn | attention_premix | HeadOutputs | what the output projection receives
self_attn | attention_head_contributions | HeadResidual | each head's part of the attention's output | {_DERIVED}
self_attn | attention_output | Residual | what the attention adds to the residual stream
linear_attn | attention_queries | Own | what reads the state
linear_attn | attention_keys | Own | what addresses the state
linear_attn | attention_values | Own | what is written into the state
linear_attn | conv_output | Own | the short convolution's output
linear_attn | time_steps | Own | a state space model's step sizes, before bias and softplus: they set decays and betas alike
linear_attn | decays | Own | how much of the state each step keeps
linear_attn | betas | Own | how strongly each step writes
linear_attn | state_input | Own | the state this call starts from
linear_attn | state_output | Own | the state this call ends with
linear_attn | states | Own | the state after every token; costs one step of the recurrence a token | {_DERIVED}
linear_attn | attention_head_outputs | Own | what is read from the state, before any norm or gate
linear_attn | attention_gate | Own | the gate on the mixer's output
linear_attn | attention_premix | Own | what the output projection receives
linear_attn | attention_output | Residual | what the mixer adds to the residual stream
mlp | router_logits | Routing | the router's scores
mlp | expert_indices | TopExperts | which experts each token goes to
mlp | expert_weights | TopExperts | the weight of each chosen expert
mlp | mlp_activation | Neurons | the activation function's output
mlp | mlp_neurons | Neurons | what the down projection receives
mlp | expert_neurons | ExpertNeurons | expert e's neurons for the tokens it got: expert_neurons(e) | {_DERIVED}
mlp | routed_output | Residual | the routed experts' part of the output
mlp | shared_expert_output | Residual | the shared experts' part of the output
mlp | mlp_output | Residual | what the MLP adds to the residual stream
"""


def _parse(table: str) -> dict[str, Value]:
    rows = ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())
    values = (Value(row[1], row[0], LAYOUTS[row[2]], row[3], row[4] if len(row) > 4 else "") for row in rows)
    return {value.key: value for value in values}


VALUES: Final = _parse(_TABLE)
"""Every value by its key, in the order in which a plain forward computes them."""


RARE: Final = _parse(
    """
model | multi_token_logits | Own | the logits of the heads that read tokens further ahead | they are several tensors, stacked for you
self_attn | attention_groups | Groups | which image, or window of one, each patch attends within: its row of the pattern | it says how the attention was called
vision | attended_features | Own | what the text model's cross-attention reads of the images
block | added_features | ImageTokens | what the image adds to the stream behind this block, at the image's places
block | image_stream | ImageTokens | the stream behind this block at the image's places, with what the image adds to it there
mlp | mlp_gate | Own | the gate that decides for which tokens the MLP counts, before its sigmoid
"""
)
"""Values that hardly any family has: they exist only where a row names them, and are not said to be absent elsewhere."""


VISION: Final = _parse(
    f"""
vision | patch_embeddings | Own | what the patch embedding makes of each patch, before positions and class token
vision | tower_output | Residual | the last block's stream, after the tower's own final norm where it has one
vision | image_token_mask | Tokens | where the image's tokens stand: True at its places | {_DERIVED}
vision | image_features | ImageTokens | what is written into the token stream at the image's places
projector | projector_input | Own | what the projector is called with
projector | projector_output | Own | what the projector makes of it
"""
)
"""What models have that take images."""


OF_IMAGES: Final = frozenset({"block.added_features", "block.image_stream"})
"""Values of the text model's own blocks that a run has only where it was given images."""


CACHED: Final = frozenset({"self_attn.attention_keys", "self_attn.attention_values"})
"""Values whose tensor the key/value cache may hold too: they are handed out as copies, or an edit would outlive its step."""


def on_host(host: str) -> tuple[Value, ...]:
    """The values that hang on one host, in vocabulary order."""
    table = VISION if host in VISION_HOSTS else VALUES
    return tuple(value for value in table.values() if value.host == host)
