"""Edits: changes that stand on a model inside `with`, around any run, one method a file, over `model.editing` alone.

    from nnatlas.edits import steer, steering_vector

    vector = steering_vector(model, ["I love it"], ["I hate it"])
    with steer(model, vector, layers=9, scale=4):
        with model.generate("I think that this film", max_new_tokens=20) as run:
            pass

Every edit can be saved (`edit.save(path)`, `load(path, model)`), says what it does when printed, and is listed by
`model.edits()` while it stands; however its `with` is left, the model is as before.
"""

from nnatlas.edits.ablation import Ablation, ablate
from nnatlas.edits.continuations import Continuations, continuations
from nnatlas.edits.contrast import SteeringVector, steering_vector
from nnatlas.edits.edit import Edit
from nnatlas.edits.experts import ExpertAblation, ablate_experts
from nnatlas.edits.heads import ablate_heads
from nnatlas.edits.knockout import Knockout, knock_out_attention
from nnatlas.edits.layers import ablate_layers, ablate_positions
from nnatlas.edits.neurons import ablate_neurons
from nnatlas.edits.routing import ForcedRouting, force_routing
from nnatlas.edits.skipping import LayerSkip, skip_layers
from nnatlas.edits.steering import Steering, steer
from nnatlas.edits.store import load
from nnatlas.edits.where import Where

__all__ = [
    "Ablation",
    "Continuations",
    "Edit",
    "ExpertAblation",
    "ForcedRouting",
    "Knockout",
    "LayerSkip",
    "Steering",
    "SteeringVector",
    "Where",
    "ablate",
    "ablate_experts",
    "ablate_heads",
    "ablate_layers",
    "ablate_neurons",
    "ablate_positions",
    "continuations",
    "force_routing",
    "knock_out_attention",
    "load",
    "skip_layers",
    "steer",
    "steering_vector",
]
