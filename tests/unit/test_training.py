"""The tasks ask what they say, the models are attnlib's own attention, and training is deterministic and works."""

import pytest
import torch

from attnlib import MultiHeadWeights, multi_head_attention
from attnlib.training import Lookup, LookupModel, accuracy, count_parameters, train

TWO_KEYS = Lookup(asked=2)


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
    guess = 1 / 8 + 7 / 8 / 2  # both values known, their order not
    assert max(one) < guess + 0.05
    assert sum(score > 0.99 for score in two) >= 9


@pytest.mark.slow
def test_wide_head_learns_only_with_the_scale():
    scaled = [learned(Lookup(), seed, steps=100, d_h=256)[0] for seed in range(10)]
    unscaled = [learned(Lookup(), seed, steps=100, d_h=256, scale=1.0)[0] for seed in range(10)]
    assert sum(score > 0.99 for score in scaled) >= 9
    assert sum(score > 0.99 for score in unscaled) <= 5
