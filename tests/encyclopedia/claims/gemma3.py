"""What the notes on Gemma 3 behind an image tower claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import IDS, default, of_block, sandwich_norms, tiny
from tests.encyclopedia.claims.gemma3_text import two_rotaries as rotaries_of_kinds

from nnatlas import families
from nnatlas.check.images import Images


def block_equations(model: Any) -> None:
    sandwich_norms(model)


def the_text_model_is_gemma_3s(model: Any) -> None:
    wrapped, alone = model.layers[1]._module, tiny("gemma3_text", "sdpa").layers[1]._module
    assert type(wrapped) is type(alone)
    assert [name for name, _ in wrapped.named_modules()] == [name for name, _ in alone.named_modules()]


def names_skip_the_wrapper(model: Any) -> None:
    native = model._module
    assert model.layers[0]._module is native.model.language_model.layers[0]
    assert model.embed_tokens._module is native.model.language_model.embed_tokens
    assert model.norm._module is native.model.language_model.norm
    assert model.lm_head._module is native.lm_head


def two_rotaries(model: Any) -> None:
    rotaries_of_kinds(tiny("gemma3_text", "sdpa"))
    kinds = model.config.text_config.layer_types
    assert {"sliding_attention", "full_attention"} == set(kinds)
    queries = [
        of_block(model, kinds.index(kind), "self_attn.unrotated_queries self_attn.attention_queries")
        for kind in set(kinds)
    ]
    assert all((before - after)[:, :, 1:].abs().max() > 0.05 for before, after in queries)


def with_an_image(model: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Ids with an image's tokens after the first, where they stand, and the image itself."""
    images = Images(model._module, model._prepare, film=False)
    soft = IDS.new_full((1, model.config.mm_tokens_per_image), model.config.image_token_id)
    ids = torch.cat((IDS[:, :1], soft, IDS[:, 1:]), 1)
    return ids, ids[0] == model.config.image_token_id, {"pixel_values": images._noise()[None]}


def tower_and_projector(model: Any) -> None:
    assert model.config.vision_config.model_type == "siglip_vision_model"
    assert model.vision._module is model._module.model.vision_tower
    assert model.projector._module is model._module.model.multi_modal_projector


def tokens_of_an_image(model: Any) -> None:
    assert default(model).mm_tokens_per_image == 256
    _, stands, image = with_an_image(model)
    features = model._module.get_image_features(**image).pooler_output
    assert features.shape == (1, model.config.mm_tokens_per_image, model.hidden_size)
    assert stands.sum() == model.config.mm_tokens_per_image


def features_replace_embeddings(model: Any) -> None:
    ids, stands, image = with_an_image(model)
    features = model._module.get_image_features(**image).pooler_output
    with model.trace(ids, **image):
        embedded, entering = model.token_embeddings.clone(), model.layers[0].layer_input.clone()
    assert torch.equal(embedded[:, ~stands], entering[:, ~stands])
    torch.testing.assert_close(entering[:, stands], features)
    assert not torch.allclose(embedded[:, stands], features, atol=1e-2)


def only_embeddings_are_scaled(model: Any) -> None:
    ids, stands, image = with_an_image(model)
    with model.trace(ids, **image):
        entering = model.layers[0].layer_input.clone()
    features = model._module.get_image_features(**image).pooler_output
    torch.testing.assert_close(entering[:, stands], features)
    rows = model.embed_tokens._module.weight[ids[:, ~stands]]
    torch.testing.assert_close(entering[:, ~stands], rows * model.hidden_size**0.5)


def image_tokens_see_each_other(model: Any) -> None:
    ids, stands, image = with_an_image(model)
    for kind in ("sliding_attention", "full_attention"):
        attention = model.layers[model.config.text_config.layer_types.index(kind)].self_attn
        with model.trace(ids, **image, token_type_ids=stands[None].long()):
            marked = attention.attention_probabilities.clone()
        with model.trace(ids, **image):
            unmarked = attention.attention_probabilities.clone()
        assert (marked[:, :, stands][..., stands] > 0).all()
        after = torch.ones(len(stands), len(stands)).triu(1).bool()
        assert marked[..., after & ~stands[:, None]].max() == 0
        assert unmarked.triu(1).max() == 0


def no_flash_attention(model: Any) -> None:
    assert type(model._module)._supports_flash_attn is False
    assert type(tiny("gemma3_text", "sdpa")._module)._supports_flash_attn is True


def never_capped(model: Any) -> None:
    capped = tiny("gemma3", "sdpa", {"text_config.final_logit_softcapping": 0.1})
    raw, given = capped.collect(IDS, ["lm_head_output", "logits"]).values()
    assert torch.equal(raw, given)
    assert raw.abs().max() > 0.1


def tied_head(model: Any) -> None:
    assert default(model).tie_word_embeddings is True
    assert model.lm_head._module.weight is model.embed_tokens._module.weight


def default_image_ids(model: Any) -> None:
    config = default(model)
    assert (config.boi_token_index, config.eoi_token_index, config.image_token_index) == (255_999, 256_000, 262_144)


def what_the_row_covers(model: Any) -> None:
    assert families.find("shieldgemma2").name == families.find("gemma3").name == "gemma3"
