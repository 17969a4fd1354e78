"""Each page is there in both languages: the same code and outputs, the same facts, and no sentence left behind."""

import copy

import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebooks.chinese import RULES, chinese_faults, facts, is_lost, texts
from twins import BOOK, CHINESE, carry, digest, pages, read, speaks, stale, stale_page, words

ROOT = BOOK.parent
PAGES = pages()
NOTEBOOKS = [name for name in PAGES if name.endswith(".ipynb")]


def test_same_pages():
    assert pages(CHINESE) == PAGES
    english, chinese = (yaml.safe_load((ROOT / name).read_text("utf-8")) for name in ("_toc.yml", "_toc_zh.yml"))
    files = [
        [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])] for toc in (english, chinese)
    ]
    assert files[1] == [file.removeprefix("book/") for file in files[0]]
    assert [p.get("numbered") for p in english["parts"]] == [p.get("numbered") for p in chinese["parts"]]


def test_same_settings():
    """The two configs differ in language, in folders and in what runs; nothing else may drift apart."""
    english, chinese = (yaml.safe_load((ROOT / name).read_text("utf-8")) for name in ("_config.yml", "_config_zh.yml"))
    assert chinese["repository"].pop("path_to_book") == "book/zh" and english["repository"].pop("path_to_book") == ""
    assert chinese["html"].pop("baseurl") == english["html"].pop("baseurl") + "zh/"
    for config in (english, chinese):
        for key in ("title", "logo", "exclude_patterns", "execute"):
            config.pop(key, None)
        config["html"].pop("favicon")
        own = ("language", "templates_path", "html_static_path", "html_additional_pages", "numfig_format")
        own += ("togglebutton_hint", "togglebutton_hint_hide", "nb_code_prompt_show", "nb_code_prompt_hide")
        for key in own:
            config["sphinx"]["config"].pop(key, None)
        config["sphinx"]["config"]["html_theme_options"].pop("search_bar_text", None)
        for listed in (config["sphinx"]["config"]["extensions"], config["sphinx"]["local_extensions"]):
            (listed.remove if isinstance(listed, list) else listed.pop)(
                "sphinx_weights" if config is english else "sphinx_chinese"
            )
    assert english == chinese


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_same_cells(name):
    """Ids, code, outputs and counts; of the metadata all but the words. Only an exercise's check answers in Chinese."""
    english, chinese = read(BOOK / name), read(CHINESE / name)
    assert [cell.id for cell in chinese.cells] == [cell.id for cell in english.cells]
    assert chinese.metadata == english.metadata
    for one, other in zip(english.cells, chinese.cells, strict=True):
        assert one.cell_type == other.cell_type
        if one.cell_type == "markdown":
            continue
        assert other.source == one.source and other.execution_count == one.execution_count, one.id
        if speaks(one):
            assert [output.output_type for output in other.outputs] == [output.output_type for output in one.outputs]
        else:
            assert other.outputs == one.outputs, one.id
        plain = [copy.deepcopy(dict(cell.metadata)) for cell in (one, other)]
        for metadata in plain:
            metadata.pop("english", None)
            if words(one):
                metadata["mystnb"]["figure"].pop("caption"), metadata["mystnb"]["image"].pop("alt")
        assert plain[0] == plain[1], one.id


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_checks_speak_chinese(name):
    for cell in read(CHINESE / name).cells:
        for output in cell.get("outputs", []) if speaks(cell) else []:
            assert output.text.startswith(("正确：", "还不对：")), f"{cell.id}: {output.text}"


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_out_of_date(name):
    """A changed English cell asks for its twin; once that is changed too: python tools/twins.py fresh PAGE CELL."""
    assert stale_page(name) == []


@pytest.mark.parametrize("name", PAGES)
def test_same_facts(name):
    """Place by place the same headings, figures, formulas, numbers, code, links and exercises."""
    english, chinese = texts(name, BOOK), texts(name, CHINESE)
    assert list(english) == list(chinese)
    lost = [
        f"{place}: {kind}: {one} in English, {other} in Chinese"
        for place in english
        for (kind, one), other in zip(facts(english[place]).items(), facts(chinese[place]).values(), strict=True)
        if is_lost(kind, one, other)
    ]
    if lost:
        pytest.fail("\n".join(lost), pytrace=False)


@pytest.mark.parametrize("name", PAGES)
def test_chinese_is_typeset(name):
    faults = [f"{place}: {fault}" for place, text in texts(name, CHINESE).items() for fault in chinese_faults(text)]
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


# ---------------------------------------------------------------------------------------------------------------------
# That the tests above see what they look for
# ---------------------------------------------------------------------------------------------------------------------


def notebook(*cells):
    return new_notebook(cells=cells)


def markdown(id, source, **metadata):
    return new_markdown_cell(source, id=id, metadata=metadata)


def code(id, source, text="", **metadata):
    return new_code_cell(source, id=id, metadata=metadata, outputs=[new_output("stream", text=text)] if text else [])


def test_a_changed_cell_is_named():
    shown = {"figure": {"caption": "It rises."}, "image": {"alt": "A line."}}
    english = notebook(markdown("one", "First."), code("two", "plot()", mystnb=shown), markdown("three", "Third."))
    chinese = carry(english)
    assert list(stale(english, chinese)) == ["one", "two", "three"], "nothing is written yet"
    for cell in chinese.cells:
        cell.metadata["english"] = digest(words(cell))
    assert list(stale(english, chinese)) == []
    english.cells[0].source = "First, changed."
    english.cells[1].metadata["mystnb"]["figure"]["caption"] = "It falls."
    assert list(stale(english, carry(english, chinese))) == ["one", "two"]


def test_code_is_carried_over_and_words_stay():
    chinese = notebook(
        markdown("one", "第一。", english=digest("First.")),
        code("two", "old()", "old\n"),
        code("three", "check_softmax(mine)", "还不对：…\n"),
        markdown("gone", "多余。"),
    )
    english = notebook(
        markdown("one", "First."), code("two", "new()", "new\n"), code("three", "check_softmax(mine)", "No\n")
    )
    new = carry(english, chinese)
    assert [cell.source for cell in new.cells] == ["第一。", "new()", "check_softmax(mine)"]
    assert [cell.outputs[0].text for cell in new.cells[1:]] == ["new\n", "还不对：…\n"]
    english.cells[2].source = "check_softmax(other)"
    assert carry(english, chinese).cells[2].outputs[0].text == "No\n", "an answer to other code"


@pytest.mark.parametrize(
    "chinese",
    ["见[第 3 章](04.ipynb)，$d_h=64$，得 `S`，约 0.71。", "见[第 3 章](03.ipynb)，$d_h=32$，得 `S`，约 0.71。",
     "见[第 3 章](03.ipynb)，$d_h=64$，得 `A`，约 0.71。", "见[第 3 章](03.ipynb)，$d_h=64$，得 `S`，约 0.70。"],
)  # fmt: skip
def test_a_lost_fact_is_seen(chinese):
    english = "See [chapter 3](03.ipynb), $d_h=64$, gives `S`, about 0.71."
    kinds = [kind for kind, one in facts(english).items() if is_lost(kind, one, facts(chinese)[kind])]
    assert len(kinds) == 1
    whole = "见[第 3 章](03.ipynb)，$d_h=64$，得 `S`，约 0.71。"
    assert not [kind for kind, one in facts(english).items() if is_lost(kind, one, facts(whole)[kind])]


FAULTY = ["查询,键", "**注意：**正文", "一行\n又一行", "用softmax归一化", "查询(query)", '叫做"键"', "只是*之前*"]


@pytest.mark.parametrize("text", FAULTY)
def test_a_fault_of_typesetting_is_seen(text):
    assert list(chinese_faults(text))


def test_good_typesetting_passes():
    assert len(FAULTY) >= len(RULES)
    good = "查询 $q_i$ 与键的[点积](x.md#term-dot-product)，用 softmax 归一化（见 `softmax`）：**注意**，约 1.5 倍。"
    assert list(chinese_faults(good + "\n\n- 一\n- 二")) == []
