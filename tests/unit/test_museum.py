"""The museum: shapes catch every bug of the first room, the reference all of both, and no test blames right code."""

import matplotlib
import numpy as np
import pytest
import torch

matplotlib.use("agg")

from matplotlib import pyplot as plt

from attnlib.exercises import CATALOGUE, Mistake, check_museum
from attnlib.exercises.museum import MUSEUM, RIGHT, SHAPE_BREAKING, SHAPE_PRESERVING, Pipeline, attend_by_loops
from attnlib.exercises.shape_check import EXHIBITS, MUSEUM_TEST, judge_museum
from attnlib.plots import show_museum
from attnlib.plots.notebook import to_svg
from attnlib.properties import TESTS, attend_right, outcome, outcomes, padded_right, random_input, why_shapes_disagree
from attnlib.shapes import AXES, BESIDE
from attnlib.training import Lookup, LookupModel, accuracy, train

SIZES = {"B": 2, "N": 5, "d_model": 12, "h": 3}
OTHER_SIZES = {"B": 3, "N": 7, "d_model": 20, "h": 4}
AXIS_NAMES = {axis for axes in (AXES | BESIDE).values() for axis in axes.split()}


def named(bugs):
    return pytest.mark.parametrize("bug", bugs, ids=[bug.name for bug in bugs])


def test_the_museum_is_large_enough_and_names_differ():
    assert len(SHAPE_BREAKING) >= 8
    assert len(SHAPE_PRESERVING) >= 18
    assert len({bug.name for bug in MUSEUM}) == len(MUSEUM)
    assert all(isinstance(bug, Mistake) and bug.hint for bug in MUSEUM)


def test_parts_are_those_of_the_exercises():
    """One list: these mistakes are recognised by the checks of other chapters, and built in here unchanged."""
    known = {mistake.function: mistake.hint for exercise in CATALOGUE.values() for mistake in exercise.mistakes}
    shared = [bug for bug in MUSEUM if known.keys() & set(vars(bug.function).values())]
    assert len(shared) >= 14
    for bug in shared:
        (part,) = known.keys() & set(vars(bug.function).values())
        assert bug.hint == known[part]


# --- The two rooms ---------------------------------------------------------------------------------------------------


@named(SHAPE_BREAKING)
def test_a_broken_shape_is_caught_with_the_axis_named(bug):
    reason = why_shapes_disagree(bug.function)
    assert " has shape [" in reason
    assert "which is" in reason or "needs the axes [" in reason
    assert any(axis in reason for axis in AXIS_NAMES)
    assert outcome(TESTS["shapes"], bug.function) == "caught"  # by the check, not by a crash


@named(SHAPE_PRESERVING)
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"words": padded_right(2, 5)}], ids=["free", "causal", "words"]
)
def test_a_bug_of_room_two_has_right_shapes_throughout(bug, options, rng):
    X, weights = random_input(rng, **SIZES)
    with np.errstate(all="ignore"):
        shapes = bug.function(X, weights, **options).shapes()
        right = Pipeline()(X, weights, **options).shapes()
    assert {**shapes, "mask": right["mask"]} == right if "mask" in right else shapes == right
    if "mask" in right:  # its lengths of 1 may stand elsewhere: broadcasting accepts them
        assert np.broadcast_shapes(shapes["mask"], right["S"]) == right["S"]
    assert why_shapes_disagree(bug.function) is None


@named(MUSEUM)
def test_the_reference_catches_every_bug(bug):
    assert outcome(TESTS["reference"], bug.function) != "passed"


def test_what_each_test_catches_of_room_two():
    caught = outcomes(bug.function for bug in SHAPE_PRESERVING) != "passed"
    assert dict(zip(TESTS, caught.sum(axis=0).tolist(), strict=True)) == {
        "shapes": 0,
        "row sums": 6,
        "permutation": 3,
        "causality": 11,
        "padding": 11,
        "reference": 30,
    }
    assert caught[:, :5].any(axis=1).sum() == 16


def test_the_figure_of_the_whole_museum_is_drawn_once_a_bug_and_stays_small():
    found = outcomes(bug.function for bug in MUSEUM)
    groups = {"breaks a shape": len(SHAPE_BREAKING), "keeps every shape": len(SHAPE_PRESERVING)}
    ax = show_museum(found, rows=[bug.name for bug in MUSEUM], columns=list(TESTS), groups=groups)
    shown = [text.get_text() for text in ax.texts]
    assert all(shown.count(name) == 1 for name in [*groups, *TESTS, *(bug.name for bug in MUSEUM)])
    dots = [len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o"]
    assert sum(dots) == (found == "caught").sum() + 1  # and one in the legend
    assert len(to_svg(ax.figure)) < 140_000
    plt.close("all")


def test_equal_sizes_hide_broken_shapes():
    hidden = [
        bug.name for bug in SHAPE_BREAKING if why_shapes_disagree(bug.function, B=3, N=4, d_model=12, h=3) is None
    ]
    assert hidden == [
        "keys not transposed",
        "components compared, not tokens",
        "heads in front of the batch",
        "padding mask [B, N]",
    ]


# --- Right code ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [SIZES, OTHER_SIZES, {"B": 1, "N": 4, "d_model": 6, "h": 1}], ids=["page", "other", "one"]
)
@pytest.mark.parametrize("name", RIGHT)
def test_right_implementations_trigger_no_test(name, sizes):
    assert (outcomes([RIGHT[name]], **sizes) == "passed").all()


@pytest.mark.parametrize("name", RIGHT)
def test_right_implementations_agree_on_weights_and_output(name, rng):
    X, weights = random_input(rng, **SIZES)
    left = padded_right(2, 5)[:, ::-1]
    context = rng.normal(size=(2, 8, 12))
    for options in ({}, {"causal": True}, {"words": left, "causal": True}, {"context": context, "causal": True}):
        got, want = RIGHT[name](X, weights, **options), attend_right(X, weights, **options)
        np.testing.assert_allclose(got.A, want.A, rtol=0, atol=1e-12)
        np.testing.assert_allclose(got.output, want.output, rtol=0, atol=1e-12)


def test_the_loops_round_differently():
    X, weights = random_input(np.random.default_rng(0), **SIZES)
    assert not np.array_equal(attend_by_loops(X, weights).output, attend_right(X, weights).output)


# --- Each test, on attentions that it must and must not catch --------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "parts"),
    [
        ("row sums", {"weigh": lambda S, mask: np.where(mask, S, 0)}),
        ("row sums", {"weigh": lambda S, mask: np.where(mask, 1, 0) / mask.sum(-1, keepdims=True) * [2, 0, 2, 0, 1]}),
        ("permutation", {"weigh": lambda S, mask: np.full(S.shape, [0.5, 0.5, 0, 0, 0])}),
        ("causality", {"causal": lambda N_q, N_k: np.tri(N_q, N_k, 2, dtype=bool)}),
        ("causality", {"finish": lambda concat, W_O: 0 * concat}),  # nothing moves at all
        ("padding", {"padding": lambda T, pad_id: np.ones((len(T), 1, T.shape[1]), bool)}),
        ("reference", {"finish": lambda concat, W_O: concat @ W_O + 1e-6}),
    ],
)
def test_a_test_says_no(test, parts):
    assert outcome(TESTS[test], Pipeline(**parts)) == "caught"


def test_an_exception_is_a_crash():
    def broken(*arguments, **options):
        raise RuntimeError

    assert (outcomes([broken]) == "crashed").all()


def test_a_pipeline_says_which_parts_were_replaced():
    assert repr(Pipeline()) == "Pipeline()"
    assert repr(Pipeline(scale=lambda *sizes: 1)) == "Pipeline(scale=...)"


@pytest.mark.parametrize(
    "name", ["W_O transposed", "queries and keys swapped", "keys and values swapped", "scaled twice"]
)
def test_bugs_that_learn_and_bugs_that_move(name):
    """The pipeline carries gradients; what it learns with a bug is right only with the bug."""
    bug = next(bug.function for bug in MUSEUM if bug.name == name)
    model = LookupModel(Lookup(), h=2, attend=bug, seed=1)
    train(model, Lookup(), steps=60, seed=100)
    assert accuracy(model, Lookup(), size=500, seed=1000) >= 0.98
    model.attend = attend_right
    moved = accuracy(model, Lookup(), size=500, seed=1000)
    assert moved >= 0.95 if name == "scaled twice" else moved < 0.6


def test_plain_steps_are_differentiable_and_equal_to_attnlib():
    inputs, _ = Lookup().batch(20, torch.Generator().manual_seed(0))
    right, steps = (LookupModel(Lookup(), h=2, attend=attend, seed=0) for attend in (attend_right, Pipeline()))
    assert torch.allclose(right(*inputs), steps(*inputs), rtol=0, atol=1e-5)
    steps(*inputs).sum().backward()
    assert all(p.grad is not None for name, p in steps.named_parameters() if name.startswith("W"))


# --- Beat the museum -------------------------------------------------------------------------------------------------


def test_full_marks_need_every_bug_and_no_false_alarm():
    result = judge_museum(lambda attention_fn: outcome(TESTS["reference"], attention_fn) == "passed")
    assert result
    assert result.message == f"Right: {len(MUSEUM)} of {len(MUSEUM)} bugs caught, 0 of 4 right implementations blamed."


@named(MUSEUM_TEST.mistakes)
def test_a_weak_test_is_recognised_and_never_passes(bug):
    result = judge_museum(bug.function)
    assert not result
    assert result.mistake == bug.name
    assert bug.hint in result.message


def test_survivors_are_named_with_a_hint():
    def no_transposed_output(attention_fn):
        return attention_fn.name == "W_O transposed" or outcome(TESTS["reference"], attention_fn) == "passed"

    message = judge_museum(no_transposed_output).message
    assert message.startswith("Not yet: 41 of 42 bugs caught, 0 of 4 right implementations blamed.\n")
    assert "Survivors: W_O transposed." in message
    assert "PyTorch stores it as [out, in]" in message


def test_blamed_code_is_named():
    message = judge_museum(lambda attention_fn: attention_fn.name == "plain steps").message
    assert "3 of 4 right implementations blamed" in message
    assert "Blamed, though right: attnlib's multi_head_attention, loops" in message


def test_a_random_test_that_is_sometimes_wrong_is_found_out():
    turns = iter([True, True, False] * 100)
    assert "right implementations blamed" in judge_museum(lambda attention_fn: next(turns)).message
    assert not judge_museum(lambda attention_fn: next(turns))


def test_an_exception_on_a_bug_counts_as_caught_and_on_right_code_does_not():
    def asserts(attention_fn):
        assert outcome(TESTS["reference"], attention_fn) == "passed"
        return True

    def fails(attention_fn):
        raise ValueError("my own fault")

    assert judge_museum(asserts)
    assert "your function raised ValueError: my own fault" in judge_museum(fails).message


@pytest.mark.parametrize("answer", [1, 0.5, "yes", np.array([True]), {}])
def test_an_answer_that_is_no_verdict_is_refused(answer):
    result = judge_museum(lambda attention_fn: answer)
    assert not result
    assert "True or False" in result.message or "not an array of numbers" in result.message


def test_the_check_prints_what_it_returns(capsys):
    result = check_museum(lambda attention_fn: True)
    assert capsys.readouterr().out.strip() == result.message
    assert len(EXHIBITS) == len(RIGHT) + len(MUSEUM)
