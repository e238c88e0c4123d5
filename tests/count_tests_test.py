"""tools/count_tests.py: no failure and no crash may get lost on the way to the last line."""

import json
import subprocess
import sys
from pathlib import Path

COUNTER = Path(__file__).parent.parent / "tools" / "count_tests.py"

PYTEST = """<testsuites><testsuite><testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure/></testcase>
<testcase classname="a" name="broken"><error/></testcase>
<testcase classname="a" name="left"><skipped/></testcase></testsuite></testsuites>"""


def gtest(**cases: dict) -> str:
    rows = [{"name": name, "status": "RUN", "result": "COMPLETED"} | case for name, case in cases.items()]
    failures = sum("failures" in row for row in rows)
    return json.dumps({"failures": failures, "testsuites": [{"name": "Suite", "testsuite": rows}]})


def run(folder: Path) -> tuple[int, str, str]:
    result = subprocess.run([sys.executable, COUNTER, folder], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stdout.splitlines()[-1]


def test_adds_all_kinds_of_results(tmp_path: Path) -> None:
    (tmp_path / "checks.txt").write_text("passed format\nfailed ruff\nexpected one.json\n")
    (tmp_path / "one.json").write_text(
        gtest(A={}, B={"failures": [{}]}, C={"result": "SKIPPED"}, D={"status": "NOTRUN"})
    )
    (tmp_path / "pytest.xml").write_text(PYTEST)
    status, output, last = run(tmp_path)
    assert status == 1
    assert last == "3 passed, 4 failed, 3 skipped"
    assert "FAILED Suite.B" in output
    assert "FAILED ruff" in output


def test_a_crashed_program_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "checks.txt").write_text("passed format\nexpected htpipe_tests.0.json\n")
    status, output, last = run(tmp_path)
    assert (status, last) == (1, "1 passed, 1 failed")
    assert "htpipe_tests.0 ended without a result" in output


def test_all_passed(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(gtest(A={}, B={}))
    assert run(tmp_path)[::2] == (0, "2 passed, 0 failed")


def test_no_test_at_all_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path)[::2] == (1, "0 passed, 0 failed")


def test_programs_count_too(tmp_path: Path) -> None:
    (tmp_path / "checks.txt").write_text("expected htpipe_tests.0.json\nexpected htpipe_tests.1.json\n")
    (tmp_path / "htpipe_tests.0.json").write_text(gtest(A={}))
    (tmp_path / "htpipe_tests.1.json").write_text(gtest(B={"failures": [{}]}))
    (tmp_path / "ctest.xml").write_text(
        """<testsuite><testcase name="htpipe_tests.0" status="fail"/><testcase name="htpipe_tests.1" status="fail"/>
        <testcase name="pt2_fuzz" status="run"/><testcase name="npy_fuzz" status="fail"/></testsuite>"""
    )
    status, output, last = run(tmp_path)
    assert (status, last) == (1, "2 passed, 3 failed")
    assert "FAILED htpipe_tests.0 passed its tests, but failed as a program" in output
    assert "FAILED npy_fuzz" in output
