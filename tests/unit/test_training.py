"""The tasks ask what they say, the models are attnlib's own attention, and training is deterministic and works."""

import pytest
import torch

from attnlib import MultiHeadWeights, Vocabulary, embed, encode, example, layer_norm, multi_head_attention, padding_mask
from attnlib.training import Lookup, LookupModel, Senses, SensesModel, accuracy, count_parameters, train

TWO_KEYS = Lookup(asked=2)
BAT = {"word": "bat", "clues": (("cave", "wings"), ("ball", "hit")), "fillers": ("a", "the", "saw")}
BAT["vocabulary"] = Vocabulary(["saw", "the", "bat", "hit", "ball", "[PAD]", "cave", "wings", "a", "and more"])


def batch(task, size=50, seed=0):
    return task.batch(size, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("task", [Lookup(), TWO_KEYS, Lookup(keys=5, values=3, items=4, asked=4)])
def test_answers_are_the_values_of_the_keys_asked_for(task):
    (asked, keys, values), answers = batch(task)
    for b in range(50):
        pairs = dict(zip(keys[b].tolist(), values[b].tolist(), strict=True))
        assert len(pairs) == task.items, "keys of one list all differ"
        assert [pairs[key] for key in asked[b].tolist()] == answers[b].tolist()
        assert len(set(asked[b].tolist())) == task.asked


@pytest.mark.parametrize("sizes", [{"items": 17}, {"asked": 9}, {"items": 0}])
def test_impossible_task_is_refused(sizes):
    with pytest.raises(ValueError, match="asked"):
        Lookup(**sizes)


def test_forward_pass_is_multi_head_attention():
    model = LookupModel(TWO_KEYS, h=2, seed=0)
    inputs, _ = batch(TWO_KEYS)
    asked, keys, values = inputs
    question = (model.E_asked[0, asked[:, 0]] + model.E_asked[1, asked[:, 1]])[:, None]
    items = model.E_key[keys] + model.E_value[values]
    weights = MultiHeadWeights(model.W_Q, model.W_K, model.W_V, model.W_O, 2)
    logits = multi_head_attention(question, weights, context=items).output[:, 0] @ model.W_read
    assert torch.equal(model(*inputs), logits.reshape(50, 2, 8))


def test_number_of_parameters_does_not_depend_on_the_heads():
    assert {count_parameters(LookupModel(TWO_KEYS, h=h, seed=0)) for h in (1, 2, 4)} == {6400}


def test_training_is_deterministic_and_depends_on_its_seeds():
    def losses(model_seed, data_seed):
        return train(LookupModel(Lookup(), seed=model_seed), Lookup(), steps=5, seed=data_seed)

    assert losses(0, 0) == losses(0, 0)
    assert losses(0, 0) != losses(1, 0)
    assert losses(0, 0) != losses(0, 1)


def learned(task, seed, steps, **sizes):
    model = LookupModel(task, seed=seed, **sizes)
    train(model, task, steps=steps, seed=100 + seed)
    return accuracy(model, task, seed=1000), model


def test_lookup_is_learned_and_read_from_the_right_item():
    score, model = learned(Lookup(), seed=0, steps=100)
    assert score > 0.99
    (asked, keys, values), _ = batch(Lookup())
    A = model.trace(asked, keys, values).A[:, 0, 0]
    assert A[keys == asked].mean() > 0.9


@pytest.mark.slow
def test_two_heads_solve_what_one_cannot_at_the_same_number_of_parameters():
    one = [learned(TWO_KEYS, seed, steps=300, h=1)[0] for seed in range(10)]
    two = [learned(TWO_KEYS, seed, steps=300, h=2)[0] for seed in range(10)]
    guess = (1 + 1 / 8) / 2  # one of the two keys looked up, the other guessed
    assert max(one) < guess + 0.05
    assert sum(score > 0.99 for score in two) >= 9


@pytest.mark.slow
def test_wide_head_learns_only_with_the_scale():
    scaled = [learned(Lookup(), seed, steps=100, d_h=256)[0] for seed in range(10)]
    unscaled = [learned(Lookup(), seed, steps=100, d_h=256, scale=1.0)[0] for seed in range(10)]
    assert sum(score > 0.99 for score in scaled) >= 9
    assert sum(score > 0.99 for score in unscaled) <= 5


# --- One word, two senses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [Senses(), Senses(shortest=2, longest=4), Senses(**BAT)])
def test_a_sentence_holds_one_bank_and_clues_to_its_sense_only(task):
    (T,), sense = batch(task, size=200)
    lengths = set()
    for ids, (right,) in zip(T.numpy(), sense.tolist(), strict=True):
        words = [word for word in task.vocabulary.decode(ids) if word != "[PAD]"]
        lengths.add(len(words))
        assert task.vocabulary.decode(ids)[: len(words)] == words, "padding stands on the right"
        assert words.count(task.word) == 1
        assert set(words) & set(task.clues[right])
        assert not set(words) & set(task.clues[1 - right])
    assert lengths == set(range(task.shortest, task.longest + 1))
    assert sense.double().mean().item() == pytest.approx(0.5, abs=0.15)


def test_bank_and_its_clues_stand_at_every_place():
    (T,), _ = batch(Senses(), size=500)
    words = Senses.vocabulary.words
    for word in ("bank", "river", "loan", "the"):
        assert (T == words.index(word)).any(dim=0).all()


def test_the_running_sentences_are_sentences_of_the_task():
    sentences = [example().vocabulary.decode(ids) for ids in example().T_pair]
    assert (Senses.vocabulary.encode_batch(sentences) == example().T_pair).all()


def test_impossible_sentence_is_refused():
    with pytest.raises(ValueError, match="shortest"):
        Senses(shortest=1)
    with pytest.raises(ValueError, match="longest"):
        Senses(shortest=5, longest=4)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"word": "shore"}, KeyError, "'shore' is not in the vocabulary"),
        ({"word": "river"}, ValueError, "'river' stands twice"),
        ({"clues": (("river", "rate"), ("rate",))}, ValueError, "'rate' stands twice"),
        ({"fillers": ("the", "loan")}, ValueError, "'loan' stands twice"),
    ],
)
def test_words_that_make_no_task_are_refused(words, error, message):
    with pytest.raises(error, match=message):
        Senses(**words)


def test_another_word_is_learned_as_well():
    task = Senses(**BAT)
    model = SensesModel(task, layers=1, seed=0)
    assert len(model.E) == 10
    train(model, task, steps=40, seed=100)
    assert accuracy(model, task, size=500, seed=1000) > 0.95


def test_forward_pass_is_encode_and_reads_the_bank_alone():
    task, model = Senses(), SensesModel(Senses(), seed=0)
    (T,), _ = batch(task)
    traces = encode(embed(T, model.E) + model.X_pos, model.layers, mask=padding_mask(T, 0))
    logits = layer_norm(traces[-1].output)[T == model.bank] @ model.W_read
    assert torch.equal(model(T), logits[:, None])


def test_padding_does_not_change_an_answer():
    model = SensesModel(Senses(), seed=0)
    short = torch.from_numpy(Senses.vocabulary.encode_batch(["the bank raised the rate"]))
    padded = torch.nn.functional.pad(short, (0, 2))
    assert torch.allclose(model(short), model(padded), rtol=0, atol=1e-12)


def test_every_parameter_of_every_layer_is_trained():
    model = SensesModel(Senses(), d_model=6, h=2, d_ff=9, layers=2, seed=0)
    in_a_layer = 4 * 36 + 2 * 6 * 9 + 9 + 5 * 6  # attention; W_1, W_2, b_1; b_2, gains, shifts
    assert count_parameters(model) == 2 * in_a_layer + len(Senses.vocabulary) * 6 + 12
    before = [p.detach().clone() for p in model.parameters()]
    train(model, Senses(), steps=2, seed=0)
    assert all((p != q).any() for p, q in zip(model.parameters(), before, strict=True))
    assert any(model.layers[0].W_1 is p for p in model.parameters())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_senses_are_learned_and_part_the_banks(seed):
    task, model = Senses(), SensesModel(Senses(), seed=seed)
    train(model, task, steps=40, seed=100 + seed)
    assert accuracy(model, task, size=500, seed=1000) > 0.99
    with torch.no_grad():
        first, second = model.trace(torch.from_numpy(example().T_pair))[-1].output[:, 1]
    assert torch.cosine_similarity(first, second, dim=0) < -0.3
