"""Sparse dictionaries: autoencoders and transcoders that others trained, at any value by name.

sae = load_dictionary("gpt2-small-res-jb/blocks.8.hook_resid_pre")
sae.features(model, "The cat sat on the mat")         # which features fire where
with model.trace(prompt):
    code = sae.read(model)                            # inside a run: read, edit, write back
    code.features[..., 123] = 0
    code.write(error=True)
with sae.splice(model, error=False):                  # every forward goes through the dictionary
    model.generate(...)
"""

from nnatlas.dictionaries.dictionary import Dictionary
from nnatlas.dictionaries.features import FeatureActivations
from nnatlas.dictionaries.loading import load_dictionary
from nnatlas.dictionaries.places import Place
from nnatlas.dictionaries.splicing import Code, Splice

__all__ = ["Code", "Dictionary", "FeatureActivations", "Place", "Splice", "load_dictionary"]
