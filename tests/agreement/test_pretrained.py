"""The real encoder in NumPy equals transformers' BertModel, in every layer; its package is read, checked, never run."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from attnlib import pretrained
from attnlib.data import pronouns, senses
from attnlib.pretrained import PACKAGE, load

try:
    load()
except ModuleNotFoundError as error:
    if os.environ.get("CI"):
        raise
    pytest.skip(str(error), allow_module_level=True)

WORDS = " ".join(row.sentence for row in senses()).split()
LENGTHS = [3, 4, 5, 7, 9, 12, 15, 16, 17, 23, 31, 32, 33, 48, 64, 65, 100, 128, 200, 256]


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def bert():
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    folder = pretrained.model_folder()
    bert = transformers.BertModel.from_pretrained(folder, local_files_only=True, attn_implementation="eager")
    return bert.eval().double()  # in float32 the reference itself is off by up to 6e-6


@pytest.fixture(scope="module")
def sentences(model):
    """Twenty sentences of 3 to 256 tokens, [CLS] and [SEP] included."""
    made = []
    for n, length in enumerate(LENGTHS):
        ids = model.tokenizer.encode(" ".join(WORDS[20 * n :]), add_special_tokens=False).ids[: length - 2]
        made.append(model.tokenizer.decode(ids))
    return made


def reference(bert, T, mask):
    """Return the hidden states, bare ones first, and the weights of every layer."""
    with torch.inference_mode():
        out = bert(
            input_ids=torch.from_numpy(T),
            attention_mask=torch.from_numpy(mask[:, 0]).long(),
            output_hidden_states=True,
            output_attentions=True,
        )
    return [h.numpy() for h in out.hidden_states], [A.numpy() for A in out.attentions]


def test_sentences_have_the_lengths_they_should(model, sentences):
    assert [model.tokenize([sentence])[0].shape[1] for sentence in sentences] == LENGTHS


@pytest.mark.parametrize("batch", [slice(0, 8), slice(8, 16), slice(16, 19), slice(19, 20)], ids=str)
def test_every_layer_equals_transformers(model, bert, sentences, batch):
    T, mask = model.tokenize(sentences[batch])
    assert (batch == slice(19, 20)) == mask.all()  # all but the last batch are padded
    traces = model.traces(T, mask)
    states, weights = reference(bert, T, mask)
    real = mask[:, 0]
    assert len(traces) == len(weights) == 6
    assert np.abs(traces[0].X - states[0]).max() < 1e-5
    for trace, state, A in zip(traces, states[1:], weights, strict=True):
        assert trace.output.dtype == trace.attention.A.dtype == np.float32
        assert np.abs(trace.output - state)[real].max() < 1e-5
        rows = real[:, None, :, None]
        assert np.abs(np.where(rows, trace.attention.A - A, 0)).max() < 1e-5


def test_sentence_vectors_equal_the_pooled_ones(model, bert, sentences):
    T, mask = model.tokenize(sentences[:12])
    real = torch.from_numpy(mask[:, 0, :, None])
    last = torch.from_numpy(reference(bert, T, mask)[0][-1])
    pooled = torch.nn.functional.normalize((last * real).sum(1) / real.sum(1), dim=-1)
    ours = model.sentence_vectors(sentences[:12])
    assert ours.dtype == np.float32
    assert np.abs(ours - pooled.numpy()).max() < 1e-6


def test_padding_changes_nothing(model):
    short, long = "The bank was steep.", "She keeps her savings in a small bank near the station, and has for years."
    alone, together = model.sentence_vectors([short]), model.sentence_vectors([short, long])
    assert np.abs(alone[0] - together[0]).max() < 1e-6


def test_tokenize_pads_and_never_cuts(model):
    T, mask = model.tokenize(["bank", "a bank " * 150])
    assert T.shape == (2, 302)
    assert mask.shape == (2, 1, 302)
    assert mask.sum(axis=(1, 2)).tolist() == [3, 302]
    assert model.tokens(T[0, :4]) == ["[CLS]", "bank", "[SEP]", "[PAD]"]


def test_loading_runs_no_code_of_the_package_and_needs_neither_torch_nor_a_network():
    code = (
        "import socket, sys\n"
        "def refuse(*arguments, **options): raise RuntimeError('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from attnlib.pretrained import load\n"
        "load().sentence_vectors(['The bank was steep.'])\n"
        f"print([name for name in ('torch', 'transformers', 'huggingface_hub', '{PACKAGE}') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_sentences_are_what_their_tables_say(model):
    rows = senses()
    assert len({row.sentence for row in rows}) == len(rows) == 128
    groups = [[(row.word, row.sense) for row in rows[n : n + 8]] for n in range(0, 128, 8)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0] for group in groups}) == 16
    for row in rows:
        assert model.tokens(model.tokenize([row.sentence])[0][0]).count(row.word) == 1


def test_two_sentences_of_a_pair_differ_in_one_word_and_in_the_answer(model):
    rows = pronouns()
    assert len(rows) == 48
    for a, b in zip(rows[::2], rows[1::2], strict=True):
        assert a.pair == b.pair
        assert (a.right, a.other) == (b.other, b.right)
        assert sum(x != y for x, y in zip(a.sentence.split(), b.sentence.split(), strict=True)) == 1
        tokens = model.tokens(model.tokenize([a.sentence])[0][0])
        assert [tokens.count(word) for word in (a.right, a.other, "it")] == [1, 1, 1]
        assert tokens.index(a.right) < tokens.index(a.other)
