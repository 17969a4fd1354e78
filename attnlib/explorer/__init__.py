"""The explorer: one HTML element in which a reader points at a token and sees what it reads, without a kernel."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from attnlib._arrays import check_whole
from attnlib.masks import apply_mask, causal_mask
from attnlib.plots._figures import check_length, to_numpy
from attnlib.plots.style import BACKGROUND, FAINT, INK, MASKED_FACE, MASKED_LINES, TENSORS, contrast, text_on, tinted
from attnlib.single_head import softmax

DECIMALS = 8  # of the stored scores
LIGHT = {"paper": BACKGROUND, "ink": INK, "faint": FAINT, "edge": "#c8c8c8"}
LIGHT |= {"masked": MASKED_FACE, "hatch": MASKED_LINES}
DARK = {"paper": "#121212", "ink": "#f2f2f2", "faint": "#b4b4b4", "edge": "#5a5f66"}
DARK |= {"masked": "#2b3036", "hatch": "#8a8f96"}


@dataclass(frozen=True, eq=False, repr=False)
class Explorer:
    """What `explore` returns: shown as HTML at the end of a notebook cell.

    Attributes
    ----------
    S : array, shape (h, N_q, N_k)
        Scores before bias and mask, rounded to 8 decimals.
    queries, keys : tuple of str
        The tokens that read, and those that are read.
    d_h : int or None
        Width of queries and keys, for the slider of the scale.
    causal : bool or None
        The switch of the causal mask as it stands at first.
    padding : tuple of bool or None
        Which keys the switch of the padding mask leaves.
    query : int
        The row that is lit at first.
    """

    S: np.ndarray
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    d_h: int | None
    causal: bool | None
    padding: tuple[bool, ...] | None
    query: int

    def __repr__(self) -> str:
        h, N_q, N_k = self.S.shape
        return f"Explorer(h={h}, N_q={N_q}, N_k={N_k})"

    def _repr_html_(self) -> str:
        data = {name: value for name, value in vars(self).items() if value is not None} | {"S": self.S.tolist()}
        attribute = escape(json.dumps(data, separators=(",", ":")), quote=False).replace("'", "&#39;")
        return (
            # JupyterLab leaves keys that are pressed in the element to the element.
            f"<attention-explorer data-lm-suppress-shortcuts=\"true\" data-explorer='{attribute}'>\n"
            f"{self._tables()}</attention-explorer>\n<script>\n{script()}</script>\n"
        )

    def _tables(self) -> str:
        """Return the weights as plain tables, one a head: what stands there where no script runs."""
        readable = causal_mask(len(self.queries), len(self.keys)) if self.causal else np.array([[True]])
        words = labels()["en"]
        tables = []
        for a, weights in enumerate(softmax(apply_mask(self.S, readable[None]))):
            name = f" {words['head']} {a}." if len(self.S) > 1 else ""
            head = "".join(f'<th scope="col">{escape(key)}</th>' for key in self.keys)
            rows = "".join(
                f'<tr><th scope="row">{escape(query)}</th>{"".join(f"<td>{weight:.2f}</td>" for weight in row)}</tr>\n'
                for query, row in zip(self.queries, weights, strict=True)
            )
            tables.append(
                # The class of pandas' tables, which the themes of the book and of JupyterLab know in light and dark.
                f'<table class="dataframe">\n<caption>{words["weights"]}{name}</caption>\n'
                f"<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
            )
        return "".join(tables)


def explore(
    S: Any,
    tokens: Sequence[str],
    *,
    keys: Sequence[str] | None = None,
    d_h: int | None = None,
    causal: bool | None = None,
    padding: Any = None,
    query: int = 0,
) -> Explorer:
    r"""Show the weights of a sentence as an element that a reader can point at and change, without a kernel.

    The page computes the weights from the stored scores and agrees with `attention` to 1e-6. Only the controls that
    are asked for stand there.

    .. math:: A = \operatorname{softmax}(\tilde S)

    Parameters
    ----------
    S : array, shape (N_q, N_k) or (h, N_q, N_k); or what `attention` or `multi_head_attention` returned
        Scores of one sentence before bias and mask, QKᵀ/√d_h. With more than one head they can be looked at one by one.
        A batch of one sentence in front of the heads is taken away.
    tokens : sequence of str
        The N_q tokens that read.
    keys : sequence of str, optional
        The N_k tokens that are read; the same as `tokens` unless given.
    d_h : int, optional
        Width of queries and keys. Gives a slider for the scale, from 1/d_h over 1/√d_h and 1 to √d_h.
    causal : bool, optional
        Gives a switch for the causal mask, which stands as it is said here.
    padding : boolean array, shape (N_k,) or as `padding_mask` returns it for one sentence, optional
        True means "may be read". Gives a switch for the padding mask, at first off.
    query : int
        The token whose row is lit at first.

    Returns
    -------
    Explorer
        HTML in a notebook and on a page; a table of the weights where no script runs.

    Raises
    ------
    TypeError, ValueError
        What is given does not fit together; the message names it.

    Notes
    -----
    Scores are stored with 8 decimals. An error of e in each score moves no weight by more than e/2 (at the highest
    scale: d_h e/2), so the weights are right to 1e-6 up to d_h = 400. And the HTML is the same on every machine:
    processors differ in the last of 16 digits, and a score would have to lie that close to the middle between two
    steps for it to show.

    Examples
    --------
    >>> import numpy as np
    >>> explore(np.zeros((2, 2)), ["the", "bank"], causal=False)
    Explorer(h=1, N_q=2, N_k=2)
    """
    S = _scores_by_head(S)
    queries = check_length("tokens", tokens, S.shape[1], "queries of S")
    keys = check_length("keys", tokens if keys is None else keys, S.shape[2], "keys of S")
    query = check_whole("query", query, least=0)
    if query >= len(queries):
        raise ValueError(f"query is {query}, but there are {len(queries)} tokens, counted from 0.")
    return Explorer(
        S=S,
        queries=tuple(map(str, queries)),
        keys=tuple(map(str, keys)),
        d_h=None if d_h is None else check_whole("d_h", d_h, least=2),
        causal=None if causal is None else bool(causal),
        padding=None if padding is None else _readable_keys(padding, len(keys)),
        query=query,
    )


def _scores_by_head(S: Any) -> np.ndarray:
    """Return scores as [h, N_q, N_k], rounded."""
    S = getattr(S, "S", S)
    if getattr(S, "ndim", 0) == 4:
        if len(S) > 1:
            raise ValueError(f"S has shape {list(S.shape)}: choose one of its {len(S)} sentences, as in trace.S[0].")
        S = S[0]
    S = to_numpy("S", S[None] if getattr(S, "ndim", 0) == 2 else S, "h N_q N_k").astype(np.float64)
    if not np.isfinite(S).all():
        raise ValueError("S holds values that are not finite: give the scores before the mask, S and not S_masked.")
    return np.round(S, DECIMALS) + 0.0  # no -0.0


def _readable_keys(padding: Any, N_k: int) -> tuple[bool, ...]:
    padding = np.asarray(padding)
    if padding.dtype != bool:
        raise TypeError(f"padding holds {padding.dtype}, but must be boolean, True for what may be read.")
    if padding.size != N_k:
        raise ValueError(
            f"padding has shape {list(padding.shape)}, but must have one entry for each of the {N_k} keys."
        )
    return tuple(padding.ravel().tolist())


@cache
def labels() -> dict[str, dict[str, str]]:
    """Return the words of the element, by language."""
    return json.loads(_packaged("labels.json"))


@cache
def script() -> str:
    """Return the program of the element, with its words, colours and style; one and the same in every cell."""
    style = _colors() + _packaged("explorer.css")
    constants = f"const LABELS = {json.dumps(labels(), ensure_ascii=False)};\nconst STYLE = {json.dumps(style)};\n"
    return f"(() => {{\n{constants}{_packaged('explorer.js')}}})();\n"


def _packaged(name: str) -> str:
    """Return a file of this package without indentation and comments, which each page would carry."""
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def _colors() -> str:
    """Return the visual code of the book as CSS variables, for light and for dark."""
    Q, K, A = (TENSORS[name] for name in "QKA")
    light = LIGHT | {"Q": Q.ink, "on-Q": text_on(Q.ink), "K": K.ink, "A": A.color, "on-A": A.on_color, "most": "100%"}
    blue, orange = (_lightened(style.color, DARK["paper"]) for style in (Q, K))
    # The heaviest weight keeps a fifth of the dark ground: white numbers stay readable on it.
    dark = DARK | {"Q": blue, "on-Q": text_on(blue), "K": orange, "A": A.color, "on-A": "#ffffff", "most": "80%"}
    light, dark = ("".join(f"--{name}: {value}; " for name, value in colors.items()) for colors in (light, dark))
    return f":host {{ {light}}}\n@media screen {{ :host([dark]) {{ {dark}}} }}\n"


def _lightened(color: str, ground: str) -> str:
    """Return the colour, made lighter until text in it reads on the dark ground."""
    shades = (to_hex(tinted(color, 1 - step / 100)) for step in range(100))
    return next(shade for shade in shades if contrast(shade, ground) >= 5)
