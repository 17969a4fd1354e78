"""The checks speak the language of the notebook, and all of it: no message is left in English."""

import gettext
import itertools
import re
from dataclasses import replace

import messages
import numpy as np
import pytest

from attnlib.exercises import CATALOGUE, CheckResult, check_softmax
from attnlib.exercises._checking import judge
from attnlib.exercises._language import _, language
from attnlib.exercises.museum import MUSEUM
from attnlib.exercises.shape_check import MUSEUM_TEST, judge_museum
from attnlib.properties import TESTS, outcome

HAN = r"\u4e00-\u9fff"
ENGLISH_SENTENCE = r"[A-Za-z']{2,}(?: [A-Za-z']{2,}){2,}"
HALF_WIDTH = rf"[{HAN}][,;:?!.()]|[,;:?!()][{HAN}]"  # punctuation beside Chinese
GLUED = rf"[{HAN}][A-Za-z0-9{{]|[A-Za-z0-9}}][{HAN}]"  # no blank between Chinese and Latin
SPACED = r" [，。：；？！、（）”]|[，。：；？！、（）“] "
WITHOUT_CHINESE = {", ", "; ", "an {noun}", "a {noun}", "“{name}”"}
PO = messages.read()


def faults(text):
    """Return what in a text is not Chinese as the book writes it."""
    return [
        found[0] for pattern in (ENGLISH_SENTENCE, HALF_WIDTH, GLUED, SPACED) for found in re.finditer(pattern, text)
    ]


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setenv("ATTNLIB_LANGUAGE", "zh")


# --- The catalogue ---------------------------------------------------------------------------------------------------


def test_every_message_is_translated():
    translated = {message.id: message.string for message in PO if message.id}
    assert [message for message in messages.collect() if not translated.get(message)] == []
    assert translated.keys() - messages.collect().keys() == set(), "run tools/messages.py: these are gone"
    assert [m for m, zh in translated.items() if not re.search(f"[{HAN}]", zh)] == [
        m for m in translated if m in WITHOUT_CHINESE
    ]


def test_translations_keep_the_placeholders():
    def placeholders(text):
        return set(re.findall(r"\{.*?\}", text))

    assert [m.id for m in PO if m.id and placeholders(m.id) != placeholders(m.string)] == []


def test_teachers_read_the_names_that_students_see():
    """The Chinese page on teaching names each mistake as the Chinese check does, and not in other words."""
    pages = [(messages.ROOT / book / "teaching.md").read_text(encoding="utf-8") for book in ("book", "book/zh")]
    quoted = [" ".join(name.split()) for name in re.findall("“([^”]+)”", pages[0])]
    chinese = {name: PO[name].string for name in quoted if name in PO}
    assert len(chinese) > 60
    assert {name: zh for name, zh in chinese.items() if f"“{zh}”" not in pages[1]} == {}


def test_translations_are_set_in_chinese_type():
    assert {m.id: faults(m.string) for m in PO if m.id and faults(m.string)} == {}


def test_the_compiled_catalogue_is_that_of_the_source():
    assert messages.PO.with_suffix(".mo").read_bytes() == messages.compiled(PO)


def test_merging_again_changes_nothing():
    before = [(m.id, m.string, m.auto_comments) for m in PO]
    again = messages.read()
    messages.merge(again, messages.collect())
    assert [(m.id, m.string, m.auto_comments) for m in again] == before


def test_a_vanished_message_goes_and_a_new_one_comes_in():
    catalogue = messages.read()
    kept = "your rows do not sum to 1."
    messages.merge(catalogue, {kept: ["softmax"], "your rows sum to 3.": ["softmax"]})
    assert {m.id: m.string or "" for m in catalogue if m.id} == {
        kept: "你的各行之和不是 1。",
        "your rows sum to 3.": "",
    }
    assert "no scale" in catalogue.obsolete


# --- The switch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("book", "en"),
        ("book/solutions", "en"),
        ("book/zh", "zh"),
        ("book/zh/solutions", "zh"),
        ("zh", "en"),
        ("zh/book", "en"),
        ("zh/solutions", "en"),
        ("book/zh/attention/book", "en"),
        ("home/zh/notebooks", "en"),
    ],
)
def test_the_folder_of_the_notebook_decides(folder, expected, tmp_path, monkeypatch):
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / folder)
    assert language() == expected


def test_the_environment_overrules_the_folder(tmp_path, monkeypatch):
    (tmp_path / "book/zh").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "book/zh")
    for chosen, expected in {"en": "en", "zh": "zh", "": "zh"}.items():
        monkeypatch.setenv("ATTNLIB_LANGUAGE", chosen)
        assert language() == expected
    monkeypatch.setenv("ATTNLIB_LANGUAGE", "en")
    monkeypatch.chdir(tmp_path)
    assert language() == "en"


def test_an_unknown_language_is_refused(monkeypatch):
    monkeypatch.setenv("ATTNLIB_LANGUAGE", "de")
    with pytest.raises(ValueError, match="ATTNLIB_LANGUAGE is 'de', but must be one of: en, zh"):
        language()


def test_english_is_the_default():
    assert language() == "en"
    assert _("your rows do not sum to 1.") == "your rows do not sum to 1."


def test_a_catalogue_that_is_not_there_is_an_error(chinese, monkeypatch, tmp_path):
    from attnlib.exercises import _language

    monkeypatch.setattr(_language, "LOCALE", tmp_path)
    _language.catalogue_of.cache_clear()
    with pytest.raises(FileNotFoundError):
        _("your rows do not sum to 1.")
    _language.catalogue_of.cache_clear()


def test_the_switch_is_read_at_every_check(monkeypatch, capsys):
    def overflows(S):
        return np.exp(S) / np.exp(S).sum(axis=-1, keepdims=True)

    said = []
    for chosen in ("en", "zh", "en"):
        monkeypatch.setenv("ATTNLIB_LANGUAGE", chosen)
        result = check_softmax(overflows)
        assert capsys.readouterr().out == f"{result.message}\n"
        assert result.mistake == "overflow"
        said.append(result.message)
    assert said[0] == said[2]
    assert said[:2] == [
        "Not yet: on S [3, 4] your result holds NaN.\n"
        "This looks like “overflow”: right for small scores, but e^1000 is too large for a float. What may be "
        "subtracted from a row without changing its weights?",
        "还不对：给定 S [3, 4]，你的结果里有 NaN。\n"
        "这看起来像是“溢出”：打分小时是对的，但 e^1000 大得浮点数装不下。"
        "从一行里减去什么，权重不变？",
    ]


# --- What is said ----------------------------------------------------------------------------------------------------


def boom(*arguments):
    raise RuntimeError


def spoil(*arguments):
    for x in arguments:
        if isinstance(x, np.ndarray):
            x[...] = 0
    return 0


ONES = np.ones((2, 2))
ODD = {
    "no attempt": None,
    "dots": ...,
    "text": "0.5",
    "ragged": [[1], [1, 2]],
    "dict": {"A": 1},
    "object": itertools.count(),
    "NaN": np.full((3, 3), np.nan),
    "a number": 1.0,
    "a verdict": True,
    "complex": ONES * 1j,
    "three axes": np.ones((3, 3, 3)),
    "two": (ONES, ONES),
    "two of other widths": (np.ones((8, 3)), np.ones((8, 4))),
    "two with one vector": (ONES, ONES[0]),
    "two of no numbers": ("a", {}),
    "two of complex numbers": (ONES * 1j, ONES),
    "three": (ONES, ONES, ONES),
    "three of unequal shapes": (ONES, ONES[0], ONES),
    "three of no numbers": (ONES, "a", ONES),
    "shapes of five axes": dict.fromkeys(("X", "Q", "S", "H", "concat"), (1, 2, 3, 4, 5)),
    "an axis": "N_q",
}
ODD_FUNCTIONS = [boom, spoil, lambda: 1, ONES, *(lambda *arguments, x=x: x for x in ODD.values())]


def bent(exercise):
    """Yield the right function, and what is nearly right."""
    right, turns = exercise.reference, itertools.count()
    yield lambda *case: right(*case)
    yield lambda *case: right(*case) if next(turns) % 2 else None
    yield lambda *case: right(*case) + 1e-7
    yield lambda *case: np.asarray(right(*case)).astype(int)
    yield lambda *case: np.asarray(right(*case))[..., :-1]
    yield lambda *case: np.logical_not(right(*case))


def without_quotes(message):
    """Drop what is quoted and is nobody's to translate: the text of an exception, a value that came back."""
    return re.sub(r"(?<=抛出了 )\w+：.*|(?<=返回的是：)'.*?'(?=，)|(?<=shapes = )\{.*?\}", "x", message)


def assert_chinese(results: list[CheckResult], says: str = ""):
    for result in results:
        assert re.match("正确：|还不对：|这可不算：", result.message)
        assert faults(without_quotes(result.message)) == [], result.message
        assert says in result.message


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mistake_is_named_in_chinese(name, chinese):
    exercise = CATALOGUE[name]
    for mistake in exercise.mistakes:
        result = judge(replace(exercise, mistakes=(mistake,)), mistake.function)
        assert result.mistake == mistake.name, "the name by which it is looked up stays"
        assert_chinese([result], f"\n这看起来像是“{_(mistake.name)}”：{_(mistake.hint)}")


@pytest.mark.parametrize("name", CATALOGUE)
def test_all_else_is_said_in_chinese(name, chinese):
    exercise = CATALOGUE[name]
    assert_chinese([judge(exercise, fn) for fn in (*ODD_FUNCTIONS, *bent(exercise), *exercise.own)])
    for symptom in exercise.symptoms:  # as they would be shown, whether or not something above shows them
        always = replace(symptom, shows=lambda case, got: True)
        shown = judge(replace(exercise, symptoms=(always,), mistakes=()), exercise.mistakes[0].function)
        assert_chinese([shown])


def test_the_museum_speaks_chinese(chinese):
    reference = TESTS["reference"]
    tests = [
        *ODD_FUNCTIONS,
        *(mistake.function for mistake in MUSEUM_TEST.mistakes),
        lambda fn: outcome(reference, fn) == "passed",
        lambda fn: fn.name == "W_O transposed" or outcome(reference, fn) == "passed",
        lambda fn: fn.name == "plain steps",
        lambda fn: str(fn),
    ]
    results = [judge_museum(test) for test in tests]
    assert_chinese(results)
    assert "正确：42 个错误抓住 42 个，4 个正确的实现冤枉 0 个。" in [result.message for result in results]
    assert any("漏网的：W_O 转置了。\n第一个是“W_O 转置了”" in result.message for result in results)


def test_python_reads_the_catalogue():
    chinese = gettext.translation("attnlib", messages.PO.parents[2], ["zh_CN"])
    assert all(chinese.gettext(bug.name) != bug.name for bug in MUSEUM)
