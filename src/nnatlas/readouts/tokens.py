"""Token ids as text and back, under the name that readouts have always had for it; see `nnatlas.model.tokens`."""

from nnatlas.model.tokens import token_ids, token_text

__all__ = ["token_ids", "token_text"]
