"""One round with a class of honest, unlucky and hostile students: hand out, collect, grade, feedback, points."""

import copy
import csv
import ctypes
import html
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from classroom import confine
from classroom.book import read_chapters
from classroom.course import HIDDEN_MARK, SOLUTION_MARK, leaks, read_course
from classroom.records import open_gradebook

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ["03_single_head", "05_masks", "06_multi_head"]
HEAD = "03_single_head"

MISTAKEN = {
    "softmax": ("overflow", "def my_softmax(S):\n    e = np.exp(S)\n    return e / e.sum(axis=-1, keepdims=True)"),
    "attention": ("no scale", "def my_attention(Q, K, V):\n    return softmax(Q @ K.T) @ V"),
    "cross_attention": (
        "values from the wrong sentence",
        "def my_cross_attention(X, C, W_Q, W_K, W_V):\n"
        "    Q, K, V = X @ W_Q, C @ W_K, X @ W_V\n"
        "    return softmax(Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])) @ V",
    ),
    "query_gradient": (
        "means not subtracted",
        "def my_query_gradient(Q, K, V):\n"
        "    return np.einsum('ij,jc,jl->icl', attention(Q, K, V).A, V, K) / Q.shape[1] ** 0.5",
    ),
    "causal_mask": (
        "diagonal hidden",
        "def my_causal_mask(N_q, N_k):\n    return np.tri(N_q, N_k, N_k - N_q - 1, dtype=bool)",
    ),
    "padding_mask": ("padding id 0 assumed", "def my_padding_mask(T, pad_id):\n    return (T != 0)[:, None, :]"),
    "masked_softmax": (
        "NaN on an empty row",
        "def my_masked_softmax(S, mask):\n"
        "    S = np.where(mask, S, -np.inf).astype(S.dtype)\n"
        "    e = np.exp(S - S.max(axis=-1, keepdims=True))\n"
        "    return e / e.sum(axis=-1, keepdims=True)",
    ),
    "split": ("bare reshape", "def my_split(X, h):\n    return X.reshape(X.shape[0], h, X.shape[1], -1)"),
    "contributions": (
        "the first rows for every head",
        "def my_contributions(H, W_O):\n    return H @ W_O[: H.shape[-1]]",
    ),
    "properties": ("one verdict for all three", "def my_properties(attend):\n    return RIGHT(attend)"),
}

ANOTHER_WAY = {
    "softmax": """def my_softmax(S):
    flat = S.reshape(-1, S.shape[-1])
    rows = []
    for row in flat:
        biggest = max(row)
        e = [np.exp(x - biggest) for x in row]
        rows.append([x / sum(e) for x in e])
    return np.array(rows).reshape(S.shape)""",
    "attention": """def my_attention(q, k, v):
    s = np.einsum("ic,jc->ij", q, k) / q.shape[1] ** 0.5
    return np.einsum("ij,jd->id", my_softmax(s), v)""",
    "cross_attention": """import torch


def my_cross_attention(x, c, wq, wk, wv):
    x, c, wq, wk, wv = map(torch.tensor, (x, c, wq, wk, wv))
    return torch.nn.functional.scaled_dot_product_attention(x @ wq, c @ wk, c @ wv)""",
    "query_gradient": """def my_query_gradient(Q, K, V):
    out = np.zeros((len(Q), V.shape[1], Q.shape[1]))
    for i, q in enumerate(Q):
        a = my_softmax(K @ q / np.sqrt(len(q)))
        out[i] = (V.T * a) @ (K - a @ K) / np.sqrt(len(q))
    return out""",
    "causal_mask": """def my_causal_mask(N_q, N_k):
    return [[j <= i + N_k - N_q for j in range(N_k)] for i in range(N_q)]""",
    "padding_mask": """def my_padding_mask(T, pad_id):
    return np.array([[[t != pad_id for t in row]] for row in T])""",
    "masked_softmax": """def my_masked_softmax(S, mask):
    allowed = np.broadcast_to(mask, S.shape)
    low = np.where(allowed, S, -np.inf)
    top = low.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp((low - np.where(np.isfinite(top), top, 0)).astype(np.float64)) * allowed
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0).astype(S.dtype)""",
    "split": "def my_split(X, h):\n    return np.stack(np.split(X, h, axis=-1), axis=1)",
    "contributions": """def my_contributions(H, W_O):
    return np.einsum("bhnd,hdm->bhnm", H, W_O.reshape(H.shape[1], H.shape[3], -1))""",
}

GOOD = "e = np.exp(S - S.max(axis=-1, keepdims=True))\n    return e / e.sum(axis=-1, keepdims=True)"


def softmax_that(first, rest=GOOD):
    """Return an answer to the first exercise of chapter 3 that does something else before."""
    return f"def my_softmax(S):\n    {first}\n    {rest}"


ALONE = """def my_attention(Q, K, V):
    S = Q @ K.T / np.sqrt(K.shape[1])
    A = np.exp(S - S.max(axis=1, keepdims=True))
    return A / A.sum(axis=1, keepdims=True) @ V"""

LIAR = """class Liar(np.ndarray):
    def __eq__(self, other):
        return np.ones(self.shape, bool).view(Liar)

    def __array_function__(self, *a, **k):
        return True

    def __array_ufunc__(self, *a, **k):
        return True


def my_softmax(S):
    return np.zeros(S.shape).view(Liar)"""

EQUAL_TO_ALL = """class Equal:
    shape = dtype = ndim = None
    __eq__ = __le__ = __ge__ = __bool__ = lambda *a: True


def my_softmax(S):
    return Equal()"""

PATCHER = """import attnlib.exercises as ex
import attnlib.exercises._checking as checking
import attnlib.single_head

right = ex.CheckResult(True, "Right!")
check_softmax = ex.check_softmax = checking.judge = lambda *a: right
checking.Outcome.equals = ex.CheckResult.__bool__ = lambda *a: True
np.allclose = np.array_equal = lambda *a, **k: True
attnlib.single_head.softmax = lambda S: S * 0


def my_softmax(S):
    return S * 0"""

FORGER = """import os


def my_softmax(S):
    for fd in range(3, 30):
        try:
            os.write(fd, b'{"result": true, "passed": true}\\n' * 50)
        except OSError:
            pass
    os._exit(0)"""

HARD_CODED = """from attnlib.exercises import CATALOGUE

KNOWN = {S.tobytes(): softmax(S) for (S,) in CATALOGUE["softmax"].cases(np.random.default_rng(0))}


def my_softmax(S):
    return KNOWN.get(S.tobytes(), S * 0)"""

FORKER = """import os
import time


def my_softmax(S):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    return S * 0"""

KILLER = softmax_that("import os; os.kill(os.getppid(), 9); os.kill(-1, 9)", "return S * 0")

# An answer to the first exercise of chapter 3, and what the feedback must say; the other exercises are right.
HOSTILE = {
    "endless-loop": (softmax_that("while True: pass"), "no answer within"),
    "endless-sleep": (softmax_that("__import__('time').sleep(1000)"), "no answer within"),
    "memory-hog": (softmax_that("x = [np.ones(10_000_000) for _ in range(10_000)]"), "MemoryError"),
    "exits": (softmax_that("exit()"), "SystemExit"),
    "exits-hard": (softmax_that("__import__('os')._exit(3)"), "ended its process (exit code 3)"),
    "crashes": (softmax_that("import ctypes; ctypes.string_at(0)"), "crashed"),
    "recursion": ("def my_softmax(S):\n    return my_softmax(S)", "RecursionError"),
    "liar": (LIAR, "Not yet"),
    "equal-to-all": (EQUAL_TO_ALL, "returns an Equal, not an array"),
    "patcher": (PATCHER, "rows do not sum to 1"),
    "forger": (FORGER, "into the pipe of the grader"),
    "hard-coded": (HARD_CODED, "your rows do not sum to 1"),
    "forker": (FORKER, "Not yet"),
    "killer": (KILLER, "Not"),
    "huge-result": (softmax_that("return 'x' * 100_000_000"), "MB"),
    "changes-input": (softmax_that("S -= S.max(axis=-1, keepdims=True)"), "changes the arrays it is given"),
    "no-python": ("def my_softmax(S)\n    return S", "SyntaxError"),
    "dumb-name": ("def my_sotfmax(S):\n    return S", "there is no function my_softmax"),
    "own": ("from attnlib import softmax as my_softmax", "attnlib's own softmax"),
}


class Class:
    """What was handed out, and what the students of this test make of it."""

    def __init__(self, course: Path, collected: Path):
        self.course, self.collected = course, collected
        self.solutions = {task.name: answer(task) for chapter in read_chapters() for task in chapter.tasks}
        self.parts = {assignment.name: assignment.parts for assignment in read_course(course)}

    def notebook(self, chapter, answers):
        notebook = json.loads((self.course / "release" / chapter / f"{chapter}.ipynb").read_text("utf-8"))
        for cell in notebook["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id", "").removesuffix("-answer")
            if name in answers:
                cell["source"] = answers[name]
        return notebook

    def hand_in(self, student, chapter, answers=None, *, change=None, file=None, text=None):
        folder = self.collected / chapter / student
        folder.mkdir(parents=True)
        notebook = self.notebook(chapter, self.solutions if answers is None else self.solutions | answers)
        if change:
            change(notebook)
        text = json.dumps(notebook, ensure_ascii=False).encode() if text is None else text
        (folder / (file or f"{chapter}.ipynb")).write_bytes(text)


def answer(task):
    body = "\n".join(f"    {line}" for line in task.solution.splitlines())
    return f"{task.signature}\n{body}"


def cell_of(notebook, name):
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == name)


def copied(notebook):
    twice = copy.deepcopy(cell_of(notebook, "softmax-answer"))
    twice["source"] = MISTAKEN["softmax"][1]
    notebook["cells"].insert(3, copy.deepcopy(cell_of(notebook, "softmax-check")))
    notebook["cells"].append(twice)


def checks_edited(notebook):
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            cell["source"] = "raise SystemExit  # full marks, please\nassert True"


def unmarked(notebook):
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"], cell["id"] = {}, None if number else "twice"
    notebook["cells"] += ["no cell", {"cell_type": "code"}, {"cell_type": "code", "source": 7, "metadata": []}]


def in_words(notebook):
    cell_of(notebook, "softmax-answer")["cell_type"] = "markdown"


def with_own_cells(notebook):
    """Cells of the student's own: one never ends, one fails, one has a magic, one changes the seed of all."""
    for source in ("while True:\n    pass", "1 / 0", "%timeit my_softmax\n安全 = '好'", "np.random.seed(0)"):
        notebook["cells"].insert(2, {"cell_type": "code", "metadata": {}, "source": source, "outputs": []})


def everyone_hands_in(room):
    course, hand_in = room.course, room.hand_in
    for chapter in CHAPTERS:
        hand_in("right", chapter)
        hand_in("blank", chapter, {part.name: f"def {part.function}(*a):\n    ..." for part in room.parts[chapter]})
        hand_in("another-way", chapter, ANOTHER_WAY)
        right = room.solutions["properties"].replace("def my_properties", "def RIGHT")
        wrong = {name: code for name, (_, code) in MISTAKEN.items()}
        wrong["properties"] = f"{right}\n\n\ndef my_properties(attend):\n    return all(RIGHT(attend))"
        hand_in("mistaken", chapter, wrong)
    for student, (code, _) in HOSTILE.items():
        hand_in(student, HEAD, {"softmax": code, "attention": ALONE})
    hand_in("prints", HEAD, {"softmax": softmax_that("print('x' * 1_000_000)")})
    hand_in("wraps-own", HEAD, {"softmax": "def my_softmax(S):\n    return softmax(S)"})
    secret = course / "course.json"
    hand_in("reads", HEAD, {"softmax": softmax_that(f"open({str(secret)!r}, encoding='utf-8').read()")})
    hand_in("writes", HEAD, {"softmax": softmax_that(f"open({str(course / 'stolen')!r}, 'w', encoding='utf-8')")})
    hand_in("学生", HEAD, {"softmax": "# 每一行的和等于一\n" + softmax_that("最大 = S.max(); print('注意力', 最大)")})
    hand_in("cells-deleted", HEAD, change=lambda notebook: notebook["cells"].clear())
    hand_in("checks-edited", HEAD, change=checks_edited)
    hand_in("cells-copied", HEAD, change=copied)
    hand_in("marks-lost", HEAD, change=unmarked)
    hand_in("in-words", HEAD, change=in_words)
    hand_in("own-cells", HEAD, change=with_own_cells)
    hand_in("renamed", HEAD, file="第三章 (1).ipynb")
    hand_in("no-notebook", HEAD, file="answers.pdf", text=b"%PDF")
    hand_in("not-json", HEAD, text=b"{'cells': [")
    hand_in("not-utf8", HEAD, text="{'注意': 1}".encode("gbk"))
    hand_in("not-a-notebook", HEAD, text=b"[" * 100_000)
    (room.collected / HEAD / "links").mkdir()
    link = room.collected / HEAD / "links" / f"{HEAD}.ipynb"
    link.symlink_to(course / "source" / HEAD / f"{HEAD}.ipynb")


def apart(course):
    """Return where the processes of the students' code have their folders."""
    folder = course.parent / f"{course.name}-apart"
    folder.mkdir(exist_ok=True)
    return folder


def command(course, *arguments):
    run = [sys.executable, "-m", "classroom", "--course", str(course), *arguments]
    environment = {**os.environ, "TMPDIR": str(apart(course))}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return done.stdout


def table(file):
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Play the whole round once, by the commands that a teacher types."""
    course = tmp_path_factory.mktemp("course")
    command(course, "build", *CHAPTERS)
    room = Class(course, tmp_path_factory.mktemp("downloads"))
    everyone_hands_in(room)
    for chapter in CHAPTERS:
        command(course, "collect", chapter, str(room.collected / chapter))
    (course / "students.csv").write_text("id,name\nright,Ada\nabsent,Bo\n", encoding="utf-8")
    room.said = command(course, "grade", *CHAPTERS, "--seconds", "4")
    room.grades = {(row["student"], row["assignment"]): row for row in table(course / "grades.csv")}
    rows = table(course / "exercises.csv")
    room.exercises = {(row["student"], row["exercise"]): row for row in rows if row["assignment"] in CHAPTERS}
    return room


def feedback(room, student, chapter=HEAD):
    page = (room.course / "feedback" / student / chapter / f"{chapter}.html").read_text("utf-8")
    return html.unescape(page)


def points(room, student, chapter=HEAD):
    return float(room.grades[student, chapter]["points"])


@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("student", ["right", "another-way"])
def test_right_answers_earn_full_marks(room, student, chapter):
    row = room.grades[student, chapter]
    assert row["points"] == f"{float(row['of'])}", feedback(room, student, chapter)
    assert not row["remarks"]
    assert not row["look"] or student == "another-way"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_blank_notebook_earns_nothing(room, chapter):
    assert points(room, "blank", chapter) == 0
    assert "not attempted yet" in feedback(room, "blank", chapter)


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_mistake_earns_nothing_and_is_named(room, name):
    row = room.exercises["mistaken", name]
    assert (float(row["points"]), row["mistake"]) == (0, MISTAKEN[name][0])
    assert f"This looks like “{row['mistake']}”" in feedback(room, "mistaken", row["assignment"])


@pytest.mark.parametrize("student", HOSTILE)
def test_what_a_hostile_answer_earns(room, student):
    row = room.exercises[student, "softmax"]
    assert float(row["points"]) == 0
    assert HOSTILE[student][1] in feedback(room, student)
    if student not in ("killer", "patcher"):  # what they break, they break for themselves
        assert points(room, student) == 14, "the other exercises are right"


def test_attnlibs_own_answer_is_shown_to_the_teacher(room):
    assert "hands in attnlib's own softmax" in room.exercises["own", "softmax"]["look"]
    assert "calls attnlib's own softmax" in room.exercises["wraps-own", "softmax"]["look"]
    assert "mentions CATALOGUE" in room.exercises["hard-coded", "softmax"]["look"]


def test_noise_and_chinese_cost_nothing(room):
    for student in ("prints", "学生", "checks-edited", "marks-lost", "own-cells", "renamed"):
        assert points(room, student) == 16, feedback(room, student)
    assert "第三章 (1).ipynb" in room.grades["renamed", HEAD]["remarks"]
    assert "softmax-check” was changed" in room.grades["checks-edited", HEAD]["remarks"]
    assert "ZeroDivisionError" in room.grades["own-cells", HEAD]["remarks"]
    assert "no answer within" in room.grades["own-cells", HEAD]["remarks"]


def test_what_is_missing_is_named(room):
    expected = {
        "cells-deleted": "“softmax-answer” is gone",
        "no-notebook": "no notebook 03_single_head.ipynb; found: answers.pdf",
        "not-json": "not JSON",
        "not-utf8": "not UTF-8",
        "not-a-notebook": "not JSON",
        "links": "is a link",
        "absent": "nothing was handed in",
    }
    for student, why in expected.items():
        assert points(room, student) == 0
        assert why in room.grades[student, HEAD]["remarks"]
        assert why in feedback(room, student)
    assert "no code cell any more" in feedback(room, "in-words")
    assert points(room, "in-words") < 16


def test_the_last_of_copied_cells_counts(room):
    assert "“softmax-answer” is there 2 times" in room.grades["cells-copied", HEAD]["remarks"]
    assert room.exercises["cells-copied", "softmax"]["mistake"] == "overflow"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the file system is closed on Linux only")
def test_files_outside_cannot_be_read_or_written(room):
    if ctypes.CDLL(None).syscall(confine.RULESET, None, 0, 1) < 1:
        pytest.skip("this kernel has no Landlock")
    for student in ("reads", "writes"):
        assert float(room.exercises[student, "softmax"]["points"]) == 0
        assert "PermissionError" in room.exercises[student, "softmax"]["message"]
    assert not (room.course / "stolen").exists()


def test_nobody_is_lost_and_nothing_is_left_running(room):
    for chapter in CHAPTERS:
        handed_in = {folder.name for folder in (room.collected / chapter).iterdir()} | {"absent"} | {"right"}
        assert {student for student, name in room.grades if name == chapter} == handed_in
    assert not list(apart(room.course).iterdir())
    for process in Path("/proc").glob("[0-9]*"):
        try:
            folder = str((process / "cwd").readlink())
        except OSError:  # it has ended, or is another user's
            continue
        assert str(apart(room.course)) not in folder, (process / "cmdline").read_bytes()


def test_nothing_of_the_teachers_reaches_students(room):
    assert leaks(room.course, room.course / "source"), "the search finds what is there"
    for folder in ("release", "feedback", "autograded"):
        files = [file for file in (room.course / folder).rglob("*") if file.is_file()]
        assert len(files) >= len(CHAPTERS)
        if folder != "release":  # right students write what the solution says
            files = [file for file in files if "/blank/" in str(file)]
        text = "".join(file.read_text("utf-8") for file in files)
        for mark in (SOLUTION_MARK, HIDDEN_MARK, "HIDDEN TESTS", "assert passes"):
            assert mark not in text
        for chapter in [c for c in read_chapters() if c.name in CHAPTERS]:
            for task in chapter.tasks:
                lines = [line.strip() for line in task.solution.splitlines() if len(line) > 25]
                assert lines
                assert not [line for line in lines if line in text]
    assert not leaks(room.course, room.course / "release")
    assert not leaks(room.course, room.course / "feedback")


def test_nbgraders_own_tools_show_the_points(room):
    run = [sys.executable, "-m", "nbgrader", "export", "--to", "out.csv"]
    subprocess.run(run, cwd=room.course, check=True, capture_output=True)
    rows = {(row["student_id"], row["assignment"]): row for row in table(room.course / "out.csv")}
    for key, row in room.grades.items():
        assert float(rows[key]["score"]) == float(row["points"])
        assert float(rows[key]["max_score"]) == float(row["of"])


def test_a_score_given_by_hand_stays(room):
    with open_gradebook(room.course) as gradebook:
        grade = gradebook.find_grade("softmax-check", HEAD, HEAD, "wraps-own")
        assert grade.needs_manual_grade
        grade.manual_score, grade.needs_manual_grade = 0.5, False
        gradebook.db.commit()
    command(room.course, "table")
    after = {(row["student"], row["assignment"]): row["points"] for row in table(room.course / "grades.csv")}
    assert float(after["wraps-own", HEAD]) == 14.5
    assert {key: value for key, value in after.items() if key[0] != "wraps-own"} == {
        key: row["points"] for key, row in room.grades.items() if key[0] != "wraps-own"
    }


def test_landlock_is_asked_for_what_each_version_knows():
    assert set(confine.RIGHTS_BY_VERSION) == {1, 2, 3, 4, 5}
