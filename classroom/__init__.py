"""The teacher's kit: hand out the book's exercises, collect, grade and give feedback, beside nbgrader.

One idea a module. `book` reads exercises and solutions, `course` writes them as an nbgrader course. `submission`
reads what a student handed in. `child` runs it apart, under the limits of `confine`; `wire` carries plain values to
it and back; `sandbox` holds the other end. `grading` judges, `batch` does so for a class, `records` writes what came
of it. `copy` makes a class's copy of the book. `python -m classroom` has the commands.
"""
