"""The search finds words and symbols, from a server and from a folder without one."""

import pytest

QUERIES = {
    "softmax": "book/03_single_head.html",
    "W_O": "book/06_multi_head.html",
    "d_h": "book/04_scaling.html",
    "causal_mask": "book/reference/pipeline.html",
    "museum of bugs": "book/09_shape_check.html",
    "词元": "book/glossary.html",
}
CHINESE = {  # words, phrases of several, one character, English among Chinese
    "权重": "zh/03_single_head.html",
    "因果掩码": "zh/05_masks.html",
    "行内公式": "zh/notation.html",
    "多头注意力的输出投影": "zh/06_multi_head.html",
    "熵": "zh/10_learned_attention.html",
    "softmax": "zh/03_single_head.html",
    "softmax归一化": "zh/03_single_head.html",
    "W_O": "zh/06_multi_head.html",
}


def results(browser, address, query):
    page = browser.new_page()
    page.goto(f"{address}search.html?q={query}")
    page.wait_for_function("/found|did not|搜索完成|没有/.test(document.querySelector('.search-summary')?.textContent)")
    links = page.locator("#search-results li a").evaluate_all("links => links.map(link => link.href)")
    page.close()
    return [link.removeprefix(address).split("#")[0].split("?")[0] for link in links]


@pytest.mark.parametrize("query", QUERIES)
def test_search_finds(browser, site, query):
    assert QUERIES[query] in results(browser, site, query)


@pytest.mark.parametrize("query", CHINESE)
def test_search_finds_chinese(browser, site, query):
    assert CHINESE[query].removeprefix("zh/") in results(browser, site + "zh/", query)


def test_search_finds_nothing_in_chinese(browser, site):
    assert results(browser, site + "zh/", "龘龘") == []


def test_search_finds_without_a_server(browser, built):
    assert QUERIES["W_O"] in results(browser, built.as_uri() + "/", "W_O")


def test_search_finds_nothing(browser, site):
    assert results(browser, site, "qwertzuiop") == []


def test_the_field_on_a_page_leads_to_the_results(browser, site):
    page = browser.new_page()
    page.goto(f"{site}book/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("entropy")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=entropy*")
    page.close()
