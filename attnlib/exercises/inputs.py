"""The exercises of chapter 1: one-hot vectors, sinusoidal codes, and the rotation that moves a code."""

from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, as_plain_array, check
from attnlib.inputs import embed, sinusoidal_positions


def _one_hot_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [(2, 3, 5), (3, 2, 7), (1, 4, 6), (4, 6, 3), (3, 5, 9), (2, 8, 11)]  # B, N, vocab_size
    cases = [(rng.integers(0, vocab_size, size=(B, N)), vocab_size) for B, N, vocab_size in sizes]
    cases.append((np.array([[0, 1, 1], [2, 0, 1]]), 8))  # nobody says the last words, and the first is said
    return cases


def _one_hot(T: np.ndarray, vocab_size: int) -> np.ndarray:
    one_hot = np.zeros((*T.shape, vocab_size))
    np.put_along_axis(one_hot, T[..., None], 1.0, axis=-1)
    return one_hot


def _one_hot_mark(T: np.ndarray, vocab_size: int) -> np.ndarray:
    marked = np.zeros((*T.shape, vocab_size))
    marked[..., T] = 1
    return marked


ONE_HOT = Exercise(
    arguments=("T", "vocab_size"),
    reference=_one_hot,
    cases=_one_hot_cases,
    own=(embed,),
    success="The product of your result with E is the lookup E[T].",
    symptoms=(
        Symptom(
            "some of your rows hold no 1, or more than one; each token is exactly one word.",
            lambda case, got: not np.array_equal(got.sum(axis=-1), np.ones(got.shape[:-1])),
        ),
    ),
    mistakes=(
        Mistake(
            "words along the wrong axis",
            "your columns are the tokens. Each token needs a row of its own, as long as the vocabulary: the last "
            "axis of the one-hot array meets the first axis of E.",
            lambda T, vocab_size: np.swapaxes(_one_hot(T, vocab_size), -1, -2),
        ),
        Mistake(
            "every word in every row",
            "indexing with a whole array of ids sets all of them for each token. Which ids belong to token 0 alone?",
            _one_hot_mark,
        ),
        Mistake(
            "a bag of words",
            "you count the words of a sentence. Their order is gone, and so is the axis N: one row for each token.",
            lambda T, vocab_size: _one_hot(T, vocab_size).sum(axis=-2),
        ),
        Mistake(
            "as wide as the largest id",
            "the width comes from the ids that occur. A word that this batch does not use still has its row in E.",
            lambda T, vocab_size: _one_hot(T, T.max() + 1),
        ),
        Mistake(
            "ids counted from 1",
            "each 1 stands one place to the left of its word. What is the id of the first word of the vocabulary?",
            lambda T, vocab_size: _one_hot(np.where(T == 0, vocab_size, T) - 1, vocab_size),
        ),
        Mistake(
            "the id instead of a 1",
            "the places are right, but the entry is the id itself, so the product would be id times the row of E.",
            lambda T, vocab_size: _one_hot(T, vocab_size) * T[..., None],
        ),
        Mistake(
            "id 0 left out",
            "rows of id 0 are empty. Padding is a word like the others here: it has a row in E. Hiding it is the "
            "work of a mask (chapter 5).",
            lambda T, vocab_size: _one_hot(T, vocab_size) * (T[..., None] != 0),
        ),
        Mistake(
            "True and False",
            "right, but as booleans. NumPy would multiply them with E, PyTorch would refuse: make them numbers.",
            lambda T, vocab_size: _one_hot(T, vocab_size) == 1,
        ),
    ),
)


def _positions_cases(rng: np.random.Generator) -> list[tuple]:
    return [(2, 4), (5, 6), (7, 12), (9, 8), (3, 10), (20, 16), (1, 2)]


def _pairs(N: int, d_model: int, *, base: float = 10000, first: int = 0, step: float = 2) -> np.ndarray:
    """Return the angles, one row a position and one column a pair, with what may go wrong as arguments."""
    p = np.arange(first, N + first)[:, None]
    return p / base ** (step * np.arange(d_model // 2) / d_model)


def _interleave(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    return np.stack([even, odd], axis=-1).reshape(len(even), -1)


def _codes(angle: np.ndarray) -> np.ndarray:
    return _interleave(np.sin(angle), np.cos(angle))


def _channel_angles(N: int, d_model: int, step: float) -> np.ndarray:
    """Return an angle for each channel instead of one for each pair."""
    return np.arange(N)[:, None] / 10000 ** (step * np.arange(d_model) / d_model)


def _by_channel(step: float):
    def wrong(N, d_model):
        angle = _channel_angles(N, d_model, step)
        return np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))

    return wrong


def _to_the_end(N: int, d_model: int) -> np.ndarray:
    i = np.arange(d_model // 2)
    return np.arange(N)[:, None] / 10000 ** (i / max(len(i) - 1, 1))


SINUSOIDAL = Exercise(
    arguments=("N", "d_model"),
    reference=lambda N, d_model: sinusoidal_positions(N, d_model)[0],
    cases=_positions_cases,
    own=(sinusoidal_positions,),
    success="Position 0 is 0, 1, 0, 1, …; all codes have the same length.",
    symptoms=(
        Symptom(
            "your codes have different lengths. Each pair holds the sine and the cosine of one angle, and their "
            "squares add up to 1.",
            lambda case, got: not np.allclose((got**2).sum(axis=-1), case[1] / 2, atol=1e-4),
        ),
        Symptom(
            "your code for position 0 is not right. All its angles are 0: what are sin 0 and cos 0?",
            lambda case, got: not np.allclose(got[0], np.arange(case[1]) % 2, atol=1e-4),
        ),
    ),
    mistakes=(
        Mistake(
            "channel index instead of pair index",
            "the exponent doubles the number of the channel. In the formula i counts pairs: channels 2i and 2i+1 "
            "share one frequency. How many values does i take?",
            _by_channel(2),
        ),
        Mistake(
            "a frequency for each channel",
            "your sines are right, but each cosine has a frequency of its own. A pair is the sine and the cosine of "
            "one and the same angle; otherwise no rotation can move it.",
            _by_channel(1),
        ),
        Mistake(
            "the 2 of the exponent forgotten",
            "your frequencies fall too slowly. In the formula the exponents of 10000 come close to 1; yours stop near "
            "one half.",
            lambda N, d_model: _codes(_pairs(N, d_model, step=1)),
        ),
        Mistake(
            "the 2 of the exponent taken twice",
            "your frequencies fall twice as fast as they should. If your loop counts 0, 2, 4, …, it counts channels, "
            "and 2i is there already.",
            lambda N, d_model: _codes(_pairs(N, d_model, step=4)),
        ),
        Mistake(
            "pairs counted from 1",
            "your first pair has the frequency of the second. The formula counts pairs from 0: what is the frequency "
            "of the first?",
            lambda N, d_model: _codes(_pairs(N, d_model) / 10000 ** (2 / d_model)),
        ),
        Mistake(
            "a power without brackets",
            "** comes before * and /: without brackets only the 2 is the exponent. In the formula, how much of it "
            "stands up there?",
            lambda N, d_model: _codes(np.arange(N)[:, None] / 10000**2 * np.arange(d_model // 2) / d_model),
        ),
        Mistake(
            "all sines first",
            "the numbers are right, in the layout of some other libraries: all sines, then all cosines. Here each "
            "sine is followed by its cosine. It is a convention, but the two must not be mixed.",
            lambda N, d_model: np.concatenate([np.sin(_pairs(N, d_model)), np.cos(_pairs(N, d_model))], axis=-1),
        ),
        Mistake(
            "cosine first",
            "in each pair sine and cosine are swapped. Which of the two stands in the even channels?",
            lambda N, d_model: _interleave(np.cos(_pairs(N, d_model)), np.sin(_pairs(N, d_model))),
        ),
        Mistake(
            "base 1000",
            "the base of the frequencies is not the one of the formula. Count its zeros.",
            lambda N, d_model: _codes(_pairs(N, d_model, base=1000)),
        ),
        Mistake(
            "positions from 1",
            "each row is the code of the next position. What is the number of the first one?",
            lambda N, d_model: _codes(_pairs(N, d_model, first=1)),
        ),
        Mistake(
            "degrees",
            "np.sin takes radians, and that is what the formula means. Do not convert.",
            lambda N, d_model: _codes(np.deg2rad(_pairs(N, d_model))),
        ),
        Mistake(
            "multiplied by the power of 10000",
            "your frequencies grow from pair to pair. In the formula the power of 10000 stands below the line.",
            lambda N, d_model: _codes(np.arange(N)[:, None] * 10000 ** (2 * np.arange(d_model // 2) / d_model)),
        ),
        Mistake(
            "integer division",
            "all your pairs have the same frequency: with // the exponent is rounded down to 0.",
            lambda N, d_model: _codes(np.repeat(np.arange(N)[:, None] * 1.0, d_model // 2, axis=1)),
        ),
        Mistake(
            "sine in every channel",
            "both channels of a pair hold the sine. A sine alone cannot tell an angle from its mirror image.",
            lambda N, d_model: _interleave(np.sin(_pairs(N, d_model)), np.sin(_pairs(N, d_model))),
        ),
        Mistake(
            "angles without sine and cosine",
            "these are the angles themselves. They grow without bound; the code takes their sine and cosine.",
            lambda N, d_model: _interleave(_pairs(N, d_model), _pairs(N, d_model)),
        ),
        Mistake(
            "frequencies that end at 1/10000",
            "your last pair has the frequency 1/10000 exactly. Some libraries space them so; the formula divides by "
            "d_model, and its last exponent is a little below 1.",
            lambda N, d_model: _codes(_to_the_end(N, d_model)),
        ),
        Mistake(
            "the layout of tensor2tensor",
            "all sines first, and frequencies that end at 1/10000: the code that the authors published does so. "
            "The formula of their paper does not.",
            lambda N, d_model: np.concatenate(
                [np.sin(_to_the_end(N, d_model)), np.cos(_to_the_end(N, d_model))], axis=-1
            ),
        ),
        Mistake(
            "positions as columns",
            "your rows are channels and your columns positions. A position is a row.",
            lambda N, d_model: _codes(_pairs(N, d_model)).T,
        ),
    ),
)


def _rotation_cases(rng: np.random.Generator) -> list[tuple]:
    return [(0, 10), (1, 4), (3, 6), (-2, 8), (10, 12), (5, 2), (40, 16)]


def _steps(delta: int, d_model: int, *, step: float = 2) -> np.ndarray:
    """Return for each pair the angle by which delta positions turn it."""
    return delta / 10000 ** (step * np.arange(d_model // 2) / d_model)


def _blocks(turn: np.ndarray, *, sign: float = 1, last: float = 1) -> np.ndarray:
    """Return the matrix with a 2-by-2 block for each pair on its diagonal."""
    R = np.zeros((2 * len(turn), 2 * len(turn)))
    even = np.arange(0, 2 * len(turn), 2)
    R[even, even] = np.cos(turn)
    R[even, even + 1] = -np.sin(turn) * sign
    R[even + 1, even] = np.sin(turn)
    R[even + 1, even + 1] = np.cos(turn) * last
    return R


def _one_plane(delta: int, d_model: int) -> np.ndarray:
    R = np.eye(d_model)
    R[:2, :2] = _blocks(np.array([float(delta)]))
    return R


def _halves(delta: int, d_model: int) -> np.ndarray:
    cosines, sines = np.diag(np.cos(_steps(delta, d_model))), np.diag(np.sin(_steps(delta, d_model)))
    return np.block([[cosines, -sines], [sines, cosines]])


def _moved_codes(arguments: tuple, result: Any) -> np.ndarray | None:
    """Return what R does to the codes of as many positions as R has rows, so that the shape stays that of R."""
    d_model, R = arguments[1], as_plain_array(result)
    if R is None or R.shape != (d_model, d_model):
        return R
    return sinusoidal_positions(7 * d_model, d_model)[0, ::7] @ R


ROTATION = Exercise(
    arguments=("delta", "d_model"),
    reference=lambda delta, d_model: _blocks(_steps(delta, d_model)),
    cases=_rotation_cases,
    view=_moved_codes,
    success="One matrix moves the code of every position, forward and back.",
    symptoms=(
        Symptom("a move by 0 should leave every code as it is, and yours does not.", lambda case, got: case[0] == 0),
        Symptom(
            "your matrix changes the length of the codes. A rotation keeps it.",
            lambda case, got: not np.allclose((got**2).sum(axis=-1), case[1] / 2, atol=1e-4),
        ),
    ),
    mistakes=(
        Mistake(
            "the transposed rotation",
            "your matrix moves every code back by delta instead of forward. Codes are rows and stand on the left "
            "of R, and each pair holds the sine first.",
            lambda delta, d_model: _blocks(_steps(delta, d_model)).T,
        ),
        Mistake(
            "the sign of delta lost",
            "right for steps forward, but steps back go forward as well. What became of the sign of delta?",
            lambda delta, d_model: _blocks(_steps(abs(delta), d_model)),
        ),
        Mistake(
            "the same angle in every plane",
            "all pairs turn by the same angle. Each has its own frequency: how far does it turn in delta steps?",
            lambda delta, d_model: _blocks(np.full(d_model // 2, float(delta))),
        ),
        Mistake(
            "one step whatever delta is",
            "your matrix moves every code by one position. Where does delta come in?",
            lambda delta, d_model: _blocks(_steps(1, d_model)),
        ),
        Mistake(
            "only the first plane",
            "the first pair moves, all others stay. There is a block for each pair on the diagonal.",
            _one_plane,
        ),
        Mistake(
            "blocks for the other layout",
            "your matrix fits codes with all sines first. Here the two members of a pair are neighbors, so the "
            "blocks sit on the diagonal.",
            _halves,
        ),
        Mistake(
            "a minus sign is missing",
            "both sines in your blocks have the same sign. Write out sin(a + b) and cos(a + b): one has a minus.",
            lambda delta, d_model: _blocks(_steps(delta, d_model), sign=-1),
        ),
        Mistake(
            "a mirror instead of a rotation",
            "your blocks have determinant −1: they turn each plane over, as a mirror does. A rotation has +1.",
            lambda delta, d_model: _blocks(_steps(delta, d_model), sign=-1, last=-1),
        ),
        Mistake(
            "sine and cosine swapped in the blocks",
            "for a small turn a rotation is close to the identity. Which of sine and cosine is close to 1 there?",
            lambda delta, d_model: _blocks(np.pi / 2 - _steps(delta, d_model)),  # the sine of π/2 − t is cos t
        ),
        Mistake(
            "channels shifted instead of positions",
            "your matrix pushes the numbers of a code to other channels. The next position is not the same numbers "
            "elsewhere, but every angle a little further on.",
            lambda delta, d_model: np.roll(np.eye(d_model), delta, axis=1),
        ),
        Mistake(
            "degrees",
            "the angles of the codes are radians, and np.sin takes radians. Do not convert.",
            lambda delta, d_model: _blocks(np.deg2rad(_steps(delta, d_model))),
        ),
        Mistake(
            "channel index instead of pair index",
            "your frequencies fall twice as fast as those of the codes. Pair i has the exponent 2i/d_model, with "
            "i = 0, 1, 2, …",
            lambda delta, d_model: _blocks(_steps(delta, d_model, step=4)),
        ),
        Mistake(
            "the 2 of the exponent forgotten",
            "your frequencies fall more slowly than those of the codes. Compare the exponents.",
            lambda delta, d_model: _blocks(_steps(delta, d_model, step=1)),
        ),
    ),
)


def check_one_hot(fn: Any) -> CheckResult:
    """Check ``fn(T, vocab_size)``: for each id a row of zeros with a single 1."""
    return check(ONE_HOT, fn)


def check_sinusoidal(fn: Any) -> CheckResult:
    """Check ``fn(N, d_model)``: the sinusoidal codes of positions 0 to N - 1, one row each."""
    return check(SINUSOIDAL, fn)


def check_rotation(fn: Any) -> CheckResult:
    """Check ``fn(delta, d_model)``: one matrix R for which ``codes[p] @ R`` is ``codes[p + delta]`` at every p."""
    return check(ROTATION, fn)
