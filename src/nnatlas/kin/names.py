"""What other libraries call a value, and where they mean something else by it.

Each line: their name | ours | what differs.  `ours` is a value's key, or empty where there is no such value; then the
third column says what to do instead.  Names without a block in front are per block.
"""

from __future__ import annotations

from typing import Final

_HEAD_AXES = "axes batch seq head width; ours put the head before seq"

TRANSFORMER_LENS: Final = f"""
hook_tokens | input_ids |
hook_embed | token_embeddings | the embedding alone, as ours; the first block's layer_input has positions and scales added
hook_pos_embed | | positions enter between token_embeddings and layers[0].layer_input; their module's own .output is the value
hook_resid_pre | block.layer_input | with fold_ln or center_writing_weights theirs is of rewritten weights, ours of the model as it is
hook_resid_mid | block.layer_mid | absent on parallel blocks, as theirs
hook_resid_post | block.layer_output |
hook_in | block.layer_input | the bridge's name for a block's input
hook_out | block.layer_output | the bridge's name for a block's output; on attn and mlp see hook_attn_out and hook_mlp_out
hook_attn_in | block.layer_input | a copy of the stream for each head, before the norm; edit layer_input, or one head's queries, keys or values
hook_q_input | self_attn.unrotated_queries | the stream that one head's queries are made of, before the norm; edit those queries
hook_k_input | self_attn.unrotated_keys | the stream that one head's keys are made of, before the norm; edit those keys
hook_v_input | self_attn.attention_values | the stream that one head's values are made of, before the norm; edit those values
hook_mlp_in | block.layer_mid | the stream before the MLP's norm; on a parallel block that is layer_input. Our mlp_input is after the norm
ln1.hook_normalized | block.attention_norm_output | with fold_ln theirs lacks the norm's weight and bias
ln2.hook_normalized | block.mlp_norm_output | with fold_ln theirs lacks the norm's weight and bias
ln_final.hook_normalized | final_norm_output | with fold_ln theirs lacks the norm's weight and bias
ln1.hook_scale | | a norm's divisor is no value: compute it from layer_input
ln2.hook_scale | | a norm's divisor is no value: compute it from layer_mid
ln_final.hook_scale | | a norm's divisor is no value: compute it from the last layer_output; project_on_vocab takes it into account
attn.hook_q | self_attn.unrotated_queries | {_HEAD_AXES}; theirs is before a query norm, ours after it
attn.hook_k | self_attn.unrotated_keys | {_HEAD_AXES}; theirs is before a key norm, ours after it
attn.hook_v | self_attn.attention_values | {_HEAD_AXES}; ours include cached positions
attn.hook_rot_q | self_attn.attention_queries | {_HEAD_AXES}
attn.hook_rot_k | self_attn.attention_keys | {_HEAD_AXES}; ours include cached positions
attn.hook_attn_scores | self_attn.attention_scores | masked entries are -inf there, the mask's own large negative number here
attn.hook_pattern | self_attn.attention_probabilities |
attn.hook_z | self_attn.attention_head_outputs | before any gate or norm on the heads; what the output projection receives is attention_premix
attn.hook_result | self_attn.attention_head_contributions | computed when read, no switch to set; without the projection's bias
hook_attn_out | self_attn.attention_output | after a post-norm in both; ours with the family's residual multiplier too
mlp.hook_pre | | what enters the activation: the native gate_proj.output, or up_proj.output of an MLP without a gate
mlp.hook_pre_linear | | what a gated MLP multiplies the activation with: the native up_proj.output
mlp.hook_post | mlp.mlp_neurons | act(gate)·up on a gated MLP in both; the activation alone is mlp_activation
hook_mlp_out | mlp.mlp_output | after a post-norm in both; ours with the family's residual multiplier too
mlp.hook_expert_weights | mlp.expert_weights | theirs may be [.., num_experts] and unnormalized; ours are the chosen experts' weights, batch seq top_k
mlp.hook_expert_indices | mlp.expert_indices | batch seq top_k here
unembed.hook_out | lm_head_output | before caps and scales; logits is after them
"""

NNTERP: Final = """
token_embeddings | token_embeddings |
layers_input | block.layer_input | model.layers_input[i] there, model.layers[i].layer_input here, and so for every name below
layers_mid | block.layer_mid |
layers_output | block.layer_output |
attentions_input | block.attention_norm_output | what the attention module is called with
attentions_output | self_attn.attention_output | theirs is the module's output; ours what is added to the stream, after a post-norm or multiplier
attentions_premix | self_attn.attention_premix |
mlps_input | block.mlp_input |
mlps_output | mlp.mlp_output | theirs is the module's output; ours what is added to the stream, after a post-norm or multiplier
mlps_activation | mlp.mlp_activation |
mlps_neurons | mlp.mlp_neurons |
ln_final | final_norm_output | the module is model.norm here
input_size | input_size |
logits | logits |
next_token_probs | next_token_probs |
"""

CAUSALAB: Final = """
embeddings | token_embeddings |
block_input | block.layer_input |
block_mid | block.layer_mid |
block_output | block.layer_output |
attention_input_norm | block.attention_norm_output |
attention_query_pre_rope | self_attn.unrotated_queries | heads side by side in one axis there
attention_key_pre_rope | self_attn.unrotated_keys | heads side by side in one axis there
attention_value_states | self_attn.attention_values | the projection's output there; ours include cached positions
attention_query | self_attn.attention_queries |
attention_key | self_attn.attention_keys |
attention_probs | self_attn.attention_probabilities |
attention_z | self_attn.attention_head_outputs |
attention_result | self_attn.attention_head_contributions |
mlp_input_norm | block.mlp_norm_output |
mlp_neuron_output | | one neuron's part of the output: its mlp_neurons entry times its column of down_proj
router_scores | mlp.expert_weights | the scores after the router's softmax or top-k
expert_idx | mlp.expert_indices |
expert_gate_proj | | one expert's pre-activation: computed from its weights and mlp_input; expert_neurons(e) is after the product
expert_up_proj | | one expert's up projection: see expert_gate_proj
expert_activation | mlp.expert_neurons | theirs is act(gate)·up or the activation; ours what the expert's down projection receives
delta_query | linear_attn.attention_queries | before or after the normalization that the kernel does: the family's page says
delta_key | linear_attn.attention_keys | before or after the normalization that the kernel does: the family's page says
delta_value | linear_attn.attention_values |
delta_conv | linear_attn.conv_output |
delta_gate | linear_attn.attention_gate |
delta_beta | linear_attn.betas |
delta_decay | linear_attn.decays | theirs is the logarithm
delta_state | linear_attn.states |
delta_premix | linear_attn.attention_premix |
lm_head | lm_head_output |
"""

PYVENE: Final = """
block_input | block.layer_input |
block_output | block.layer_output |
attention_input | block.attention_norm_output |
attention_output | self_attn.attention_output | theirs is the module's output; ours what is added to the stream, after a post-norm or multiplier
attention_value_output | self_attn.attention_premix | heads side by side in one axis there
head_attention_value_output | self_attn.attention_premix | one head of it
query_output | self_attn.unrotated_queries | the projection's output, before any query norm
head_query_output | self_attn.unrotated_queries | one head of it, before any query norm
key_output | self_attn.unrotated_keys | the projection's output, before any key norm
head_key_output | self_attn.unrotated_keys | one head of it, before any key norm
value_output | self_attn.attention_values | the projection's output; ours include cached positions
head_value_output | self_attn.attention_values | one head of it
mlp_activation | mlp.mlp_activation |
mlp_output | mlp.mlp_output | theirs is the module's output; ours what is added to the stream, after a post-norm or multiplier
"""

TRANSFORMERS: Final = """
hidden_states[i] | block.layer_input | output_hidden_states: entry i is block i's input, so block i's output is entry i + 1
hidden_states[-1] | final_norm_output | the last entry is after the final norm on most models; the last block's own output is not among them
last_hidden_state | final_norm_output |
attentions[i] | self_attn.attention_probabilities | output_attentions: needs an eager load there, any load here
inputs_embeds | token_embeddings |
past_key_values.layers[i].keys | self_attn.attention_keys | the same tensor, once the block has run
past_key_values.layers[i].values | self_attn.attention_values | the same tensor, once the block has run
router_logits[i] | mlp.router_logits | output_router_logits: batch and seq in one axis there
logits | logits |
"""

LIBRARIES: Final = {
    "TransformerLens": TRANSFORMER_LENS,
    "nnterp": NNTERP,
    "causalab": CAUSALAB,
    "pyvene": PYVENE,
    "transformers": TRANSFORMERS,
}
