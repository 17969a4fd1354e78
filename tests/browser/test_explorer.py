"""The explorer alive: it computes what attnlib computes, for every hand, eye and ear, and in every place."""

from itertools import product

import numpy as np
import pytest
from browser.test_pages import TOO_WIDE, violations

from attnlib import attention, causal_mask, example, multi_head_attention, padding_mask, project
from attnlib.explorer import explore

EX = example()
PAGE = """<!doctype html><html lang="{lang}"><head><meta charset="utf-8"><title>Trial</title>
<meta name="viewport" content="width=device-width"></head><body><main><h1>Trial</h1>{body}</main></body></html>"""
PAPER = {"light": "body { background: #fff; color: #000 }", "dark": "body { background: #121212; color: #fff }"}
# What a reader does with the controls that are there, time after time: the weights as numbers, and as they are shown.
OPERATE = """(element, all) => all.map(wanted => {
    const root = element.shadowRoot, range = root.querySelector('[type=range]');
    range.value = wanted.steps;
    range.dispatchEvent(new Event('input'));
    root.querySelectorAll('[name=head]')[wanted.head]?.click();
    for (const box of root.querySelectorAll('[type=checkbox]')) if (box.checked !== wanted[box.name]) box.click();
    const rows = [...root.querySelectorAll('tbody tr')];
    const shown = rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.firstChild.textContent));
    return [element.weights(), shown];
})"""
# As JupyterLab shows a trusted output: HTML through innerHTML, in which scripts do not run, then each script anew.
AS_JUPYTERLAB = """html => {
    const output = document.createElement('div');
    output.innerHTML = html;
    document.querySelector('main').append(output);
    output.querySelectorAll('script').forEach(old => {
        const script = document.createElement('script');
        script.textContent = old.textContent;
        old.replaceWith(script);
    });
}"""


def written(tmp_path, *explorers, lang="en"):
    """The address of a page in a folder that holds these explorers."""
    path = tmp_path / "trial.html"
    body = "\n".join(explorer._repr_html_() for explorer in explorers)
    path.write_text(PAGE.format(lang=lang, body=body), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def show(browser, tmp_path):
    """Open a page with some explorers, and hold at the end that nothing went wrong and nobody else was asked."""
    contexts, wrong = [], []

    def show(*explorers, lang="en", **options):
        context = browser.new_context(viewport={"width": options.pop("width", 1280), "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or wrong.append(request.url))
        page.goto(written(tmp_path, *explorers, lang=lang))
        return page

    yield show
    for context in contexts:
        context.close()
    assert wrong == []


def one_head(**options):
    return explore(attention(*(project(EX.X, W) for W in matrices())), EX.tokens, **options)


def matrices():
    return EX.weights.W_Q, EX.weights.W_K, EX.weights.W_V


def status(page):
    return page.get_by_role("status").inner_text()


def lit(page):
    return page.locator("tr.chosen th").inner_text()


# ---------------------------------------------------------------------------------------------------------------------
# The same numbers
# ---------------------------------------------------------------------------------------------------------------------

CASES = [  # h, N_q, N_k, d_h, size of the scores, keys that are words
    (1, 7, 7, 12, 1, 5),
    (3, 7, 7, 4, 1, 7),
    (2, 3, 9, 64, 5, 6),  # fewer queries: the last ones
    (2, 6, 4, 16, 1, 3),  # under a causal mask the first two may read nothing
    (1, 4, 4, 8, 300, 4),  # exponentials that would overflow
    (1, 3, 5, 6, 1, 0),  # nothing but padding
    (1, 1, 1, 2, 1, 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_agrees_with_attnlib(show, case):
    """At every position of the slider, with and without each mask, in every head: to 1e-6, and zeros are exact."""
    h, N_q, N_k, d_h, size, words = case
    rng = np.random.default_rng(sum(case))
    Q, K = size * rng.normal(size=(h, N_q, d_h)), rng.normal(size=(h, N_k, d_h))
    padding = (np.arange(N_k) < words)[None]
    tokens, keys = [f"q{i}" for i in range(N_q)], [f"k{j}" for j in range(N_k)]
    page = show(explore(attention(Q, K, K), tokens, keys=keys, d_h=d_h, causal=False, padding=padding))
    settings = [
        {"head": a, "steps": steps, "causal": causal, "padding": padded}
        for causal, padded in product((False, True), repeat=2)
        for steps in range(-20, 11, 2)
        for a in range(h)
    ]
    found = page.locator("attention-explorer").evaluate(OPERATE, settings)
    for wanted, (weights, shown) in zip(settings, found, strict=True):
        mask = (causal_mask(N_q, N_k) | (not wanted["causal"])) & (padding | (not wanted["padding"]))
        A = attention(Q, K, K, mask=mask, scale=d_h ** (wanted["steps"] / 20)).A[wanted["head"]]
        assert np.abs(np.array(weights) - A).max() < 1e-6, wanted
        assert np.all(np.array(weights)[~mask] == 0), wanted
        assert np.array_equal(np.array(shown) == "0", ~mask), wanted
        assert np.allclose(np.array(shown, dtype=float), A, atol=0.005 + 1e-6), wanted


def test_the_scale_starts_at_the_usual_one(show):
    page = show(one_head(d_h=12))
    A = attention(*(project(EX.X, W) for W in matrices())).A[0]
    assert np.abs(np.array(page.locator("attention-explorer").evaluate("e => e.weights()")) - A).max() < 1e-7
    slider = page.get_by_role("slider", name="Scale")
    assert slider.get_attribute("aria-valuetext") == "1/√d_h = 0.289"
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "√d_h = 3.46"
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1/d_h = 0.0833"
    for _ in range(20):
        slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "1"


def test_a_row_that_may_read_nothing(show):
    page = show(explore(np.zeros((3, 2)), ["a", "b", "c"], keys=["d", "e"], causal=True))
    assert status(page) == "a may read nothing: all its weights are 0."
    assert page.locator("tr.chosen td").all_inner_texts() == ["0\nmay not be read"] * 2
    page.get_by_label("Causal mask").uncheck()
    assert status(page) == "a reads d 0.50, e 0.50. The row sums to 1.00."


# ---------------------------------------------------------------------------------------------------------------------
# Pointing, tapping, keys, ears
# ---------------------------------------------------------------------------------------------------------------------


def test_pointing_lights_a_row(show):
    page = show(one_head())
    assert lit(page) == "the"
    page.locator(".query label").nth(1).hover()
    assert lit(page) == "bank"
    A = attention(*(project(EX.X, W) for W in matrices())).A[0, 1]
    widths = page.locator("path").evaluate_all("lines => lines.map(line => parseFloat(line.style.strokeWidth))")
    assert np.allclose(np.array(widths) / sum(widths), A, atol=1e-4) and np.isclose(sum(widths), 16, atol=0.01)
    assert page.locator(".key b").all_inner_texts() == [f"{weight:.2f}" for weight in A]
    page.locator(".box tbody tr").nth(4).locator("td").nth(2).hover()
    assert lit(page) == "river"


def test_tapping_lights_a_row(show):
    page = show(one_head(), width=360, has_touch=True, is_mobile=True)
    page.locator(".query label").nth(4).tap()
    assert lit(page) == "river"
    page.locator(".box tbody tr").nth(1).tap()
    assert lit(page) == "bank"


def test_the_keyboard_reaches_all(show):
    heads = multi_head_attention(EX.X, EX.weights)
    page = show(explore(heads.S[0], EX.tokens, d_h=4, causal=False, padding=np.arange(7) < 5))
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.shadowRoot.activeElement.name"))
    assert reached == ["head", "scale", "causal", "padding", "query"]
    page.keyboard.press("ArrowRight")
    assert lit(page) == "bank" and status(page).startswith("bank reads")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert lit(page) == "steep"
    before = status(page)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert page.get_by_label("Padding mask").is_checked() and status(page) != before


def test_it_says_what_is_read(show):
    page = show(one_head(query=1))
    said = "bank reads by 0.35, was 0.23, bank 0.16, river 0.07, the (0) 0.07, steep 0.06, the (3) 0.05."
    assert status(page) == f"{said} The row sums to 1.00."
    assert page.get_by_role("radio").count() == 7
    assert page.get_by_role("radio", name="bank", exact=True).is_checked()
    assert page.get_by_role("radio", name="the (3)").count() == 1
    table = page.get_by_role("table", name="Weights A. Rows: queries. Columns: keys.")
    assert table.get_by_role("rowheader").all_inner_texts() == list(EX.tokens)
    assert table.get_by_role("columnheader").all_inner_texts() == list(EX.tokens)


def test_long_rows_are_summed_up(show):
    S = np.arange(20.0)[::-1].reshape(1, 20).repeat(20, axis=0) / 4
    page = show(explore(S, [f"t{i}" for i in range(20)]))
    a = attention(S[:1], np.eye(20), np.eye(20), scale=1.0).A[0]
    assert f"t7 {a[7]:.2f}, the others {a[8:].sum():.2f}. The row sums to 1.00." in status(page)


def test_only_the_controls_that_have_work_are_there(show):
    page = show(one_head())
    assert page.get_by_role("slider").count() == page.get_by_role("checkbox").count() == 0
    assert page.locator("[name=head]").count() == 0
    page = show(explore(multi_head_attention(EX.X, EX.weights), EX.tokens))
    assert page.locator("[name=head]").count() == 3
    page.get_by_role("radio", name="Head 2").check()
    assert "Head 2." in page.locator(".box caption").inner_text()
    assert status(page).startswith("the (0) reads by 0.56")


# ---------------------------------------------------------------------------------------------------------------------
# Places: light, dark, narrow, printed, several on a page, JupyterLab, no script
# ---------------------------------------------------------------------------------------------------------------------


def every_kind():
    heads = multi_head_attention(EX.X, EX.weights)
    return explore(heads, EX.tokens, d_h=4, causal=True, padding=padding_mask(EX.T_pair, 0)[1], query=4)


@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_and_nothing_sticks_out(show, width):
    page = show(every_kind(), one_head(), width=width)
    for theme in ("light", "dark"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        page.add_style_tag(content=PAPER[theme])
        assert page.locator("attention-explorer[dark]").count() == (2 if theme == "dark" else 0)
        assert violations(page, theme) == []
    assert page.evaluate(TOO_WIDE) == []
    matrix = page.locator(".scroll").last
    assert matrix.evaluate("element => element.scrollWidth <= element.clientWidth")  # seven words fit a phone


def test_many_tokens_scroll_inside_themselves(show):
    page = show(explore(np.zeros((12, 12)), [f"token {i}" for i in range(12)]), width=360)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert violations(page, "wide") == []


@pytest.mark.parametrize("says", ["html", "body", "system"])
def test_it_follows_dark_mode(show, says):
    page = show(one_head())
    turn = {
        "html": lambda dark: page.evaluate("d => document.documentElement.dataset.theme = d ? 'dark' : 'light'", dark),
        "body": lambda dark: page.evaluate("d => document.body.dataset.jpThemeLight = String(!d)", dark),
        "system": lambda dark: page.emulate_media(color_scheme="dark" if dark else "light"),
    }[says]
    if says == "html":
        page.emulate_media(color_scheme="dark")  # the page has the last word
    for dark in (False, True, False):
        turn(dark)
        page.wait_for_function("d => document.querySelector('attention-explorer').hasAttribute('dark') === d", arg=dark)
        ground = page.locator(".box").evaluate("box => getComputedStyle(box).backgroundColor")
        assert ground == ("rgb(18, 18, 18)" if dark else "rgb(255, 255, 255)")


def test_on_paper_it_is_light_and_still(show):
    page = show(every_kind(), color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".controls").is_hidden() and page.locator(".box caption").is_visible()
    assert "Head 0. Scale 1/√d_h = 0.5. Causal mask." in page.locator(".box caption").inner_text()
    ground = page.locator(".box").evaluate("box => getComputedStyle(box).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


def test_several_live_on_one_page(show):
    page = show(one_head(query=1), one_head(query=4))
    page.evaluate(AS_JUPYTERLAB, one_head(query=5)._repr_html_())
    page.locator(".box tbody tr").nth(6).click()
    assert page.locator("tr.chosen th").all_inner_texts() == ["steep", "river", "was"]


def test_it_comes_alive_as_jupyterlab_inserts_it(show):
    page = show()
    page.evaluate(AS_JUPYTERLAB, one_head(query=1)._repr_html_())
    assert lit(page) == "bank"
    page.evaluate(
        "() => { const e = document.querySelector('attention-explorer'); e.remove(); document.body.append(e) }"
    )
    page.evaluate("() => document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_selector("attention-explorer[dark]")
    assert lit(page) == "bank"  # moved, as windowed notebooks do, and not built twice
    assert page.locator(".box").count() == 1


def test_without_a_script_there_is_a_table(show):
    page = show(one_head(), java_script_enabled=False)
    assert page.get_by_role("table").count() == 1
    assert page.get_by_role("table").locator("caption").is_visible()
    assert page.get_by_role("rowheader", name="bank").is_visible()
    assert page.get_by_role("cell", name="0.35").first.is_visible()


def test_it_speaks_the_language_of_its_page(show):
    page = show(one_head(query=1), lang="zh-CN")
    assert status(page).startswith("bank 读取 by ") and "、" in status(page)
    assert page.get_by_role("group", name="注意力浏览器").is_visible()


def test_a_language_without_words_reads_english(show):
    assert status(show(one_head(query=1), lang="fr")).startswith("bank reads by")
