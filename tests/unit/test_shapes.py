"""`check_shapes` names the axis that disagrees: of a trace, of tensors as they are made, against given sizes."""

import numpy as np
import pytest

from attnlib import MultiHeadWeights, check_shapes, multi_head_attention, shape_table
from attnlib.shapes import AXES, BESIDE

SIZES = {"B": 2, "N": 5, "d_model": 12, "h": 3, "d_h": 4, "d_v": 4}


def steps(**tensors):
    """Tensors of some shapes, one after the other."""
    return ((name, np.zeros(shape)) for name, shape in tensors.items())


def self_attention(rng):
    return multi_head_attention(rng.normal(size=(2, 5, 12)), MultiHeadWeights.random(12, 3, seed=0))


def test_right_shapes_pass_with_and_without_sizes(rng):
    trace = self_attention(rng)
    check_shapes(trace)
    check_shapes(trace, **SIZES)
    check_shapes(steps(**trace.shapes()), **SIZES)


def test_cross_attention_passes_with_its_own_lengths_and_widths(rng):
    X, context = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 6))
    weights = MultiHeadWeights(*(rng.normal(size=s) for s in ((8, 4), (6, 4), (6, 10), (10, 8))), 2)
    trace = multi_head_attention(X, weights, context=context)
    check_shapes(trace, N_q=3, N_k=5, d_h=2, d_v=5, h=2)
    matrices = {"context": (2, 5, 6), "W_Q": (8, 4), "W_K": (6, 4), "W_V": (6, 10), "W_O": (10, 8)}
    check_shapes(steps(**matrices, **trace.shapes()))


@pytest.mark.parametrize("name", AXES)
def test_every_axis_of_every_tensor_is_compared_and_named(name):
    table = shape_table(B=2, N=5, d_model=12, h=3)
    for place, axis in enumerate(AXES[name].split()):
        wrong = [*table[name]]
        wrong[place] += 40
        with pytest.raises(ValueError, match=rf"{name} has shape .*: its axis {place} is {axis.replace('*', '.')}, "):
            check_shapes(steps(**table | {name: wrong}), **SIZES)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (
            {"Q": (2, 3, 5, 4), "K_T": (2, 3, 5, 4)},
            "K_T has shape [2, 3, 5, 4]: its axis 2 is d_h, which is 4 by Q, not 5.",
        ),
        ({"W_Q": (12, 12), "Q": (2, 3, 5, 6)}, "Q has shape [2, 3, 5, 6]: h times d_h is 18, but h*d_h is 12 by W_Q."),
        (
            {"Q": (2, 3, 5, 4), "V": (2, 3, 5, 6), "W_O": (12, 12)},
            "W_O has shape [12, 12]: its axis 0 is h*d_v, which is 18 by Q and V, not 12.",
        ),
        (
            {"S": (2, 3, 5, 7), "mask": (2, 1, 1, 6)},
            "mask has shape [2, 1, 1, 6]: its axis 3 is N_k, which is 7 by S, not 6 or 1.",
        ),
        (
            {"S": (2, 3, 5, 7), "mask": (2, 5, 7)},
            "mask has shape [2, 5, 7]: its axis 0 is h, which is 3 by S, not 2 or 1.",
        ),
        ({"S": (2, 3, 5, 7), "mask": (1,) * 5}, "mask has shape [1, 1, 1, 1, 1], but needs the axes [B, h, N_q, N_k]."),
        ({"concat": (2, 3, 5, 4)}, "concat has shape [2, 3, 5, 4], but needs the axes [B, N_q, h*d_v]."),
    ],
)
def test_the_message_names_tensor_axis_and_who_said_otherwise(tensors, message):
    with pytest.raises(ValueError) as error:
        check_shapes(steps(**tensors))
    assert str(error.value) == message


def test_masks_may_repeat_axes():
    for mask in [(5, 7), (1, 7), (5, 1), (2, 1, 1, 7), (2, 3, 5, 7), (7,)]:
        check_shapes(steps(S=(2, 3, 5, 7), mask=mask))


def test_a_size_that_is_given_speaks_first():
    with pytest.raises(ValueError, match=r"its axis 1 is h, which is 4 by the sizes given, not 3\."):
        check_shapes(steps(Q=(2, 3, 5, 4)), h=4)
    with pytest.raises(ValueError, match=r"There is no axis 'heads'; there are N, B, N_k, "):
        check_shapes(steps(), heads=4)
    with pytest.raises(TypeError, match=r"h must be a whole number, not 3\.0"):
        check_shapes(steps(), h=3.0)


def test_each_tensor_is_checked_before_the_next_is_made():
    def broken():
        yield "Q", np.zeros((2, 3, 5, 4))
        yield "K_T", np.zeros((2, 3, 5, 4))
        raise AssertionError("too late")

    with pytest.raises(ValueError, match="K_T"):
        check_shapes(broken())


def test_unknown_tensors_are_refused_with_the_names_of_the_others():
    with pytest.raises(ValueError, match="no tensor 'weights'") as error:
        check_shapes(steps(weights=(2, 2)))
    assert all(name in str(error.value) for name in AXES | BESIDE)
