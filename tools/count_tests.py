"""Adds up the results of ./dev test and prints "N passed, N failed" as the last line.

Usage: count_tests.py FOLDER, with checks.txt ("passed NAME", "failed NAME", "expected FILE"), GoogleTest's *.json,
ctest.xml and pytest.xml. An expected file that is missing counts as one failure: its program crashed. Exit code 1 when
a test failed or none ran.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


class Count:
    """Passed, failed and skipped tests, and the names of those that failed."""

    def __init__(self) -> None:
        self.passed = 0
        self.skipped = 0
        self.failed: list[str] = []
        self.expected: set[str] = set()

    def add_checks(self, folder: Path) -> None:
        checks = folder / "checks.txt"
        for line in checks.read_text().splitlines() if checks.is_file() else []:
            verdict, name = line.split(" ", 1)
            if verdict == "passed":
                self.passed += 1
            elif verdict == "failed":
                self.failed.append(name)
            else:
                self.expected.add(name)
                if not (folder / name).is_file():
                    self.failed.append(f"{Path(name).stem} ended without a result")

    def add_gtest(self, path: Path) -> None:
        for suite in json.loads(path.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                if case.get("failures"):
                    self.failed.append(f"{suite['name']}.{case['name']}")
                elif case["status"] == "NOTRUN" or case["result"] == "SKIPPED":
                    self.skipped += 1
                else:
                    self.passed += 1

    def add_ctest(self, path: Path) -> None:
        """Programs without a file of results of their own, and those that failed although all their tests passed."""
        for program in ElementTree.parse(path).iter("testcase"):
            name = program.get("name", "")
            good = program.get("status") == "run"
            results = path.parent / f"{name}.json"
            if results.is_file():
                if not good and not json.loads(results.read_text())["failures"]:
                    self.failed.append(f"{name} passed its tests, but failed as a program")
            elif f"{name}.json" not in self.expected:
                if good:
                    self.passed += 1
                else:
                    self.failed.append(name)

    def add_pytest(self, path: Path) -> None:
        for case in ElementTree.parse(path).iter("testcase"):
            verdicts = {child.tag for child in case}
            if verdicts & {"failure", "error"}:
                self.failed.append(f"{case.get('classname')}::{case.get('name')}")
            elif "skipped" in verdicts:
                self.skipped += 1
            else:
                self.passed += 1


def main() -> int:
    folder = Path(sys.argv[1])
    count = Count()
    count.add_checks(folder)
    for path in sorted(folder.glob("*.json")):
        count.add_gtest(path)
    if (folder / "ctest.xml").is_file():
        count.add_ctest(folder / "ctest.xml")
    if (folder / "pytest.xml").is_file():
        count.add_pytest(folder / "pytest.xml")
    for name in count.failed:
        print(f"FAILED {name}")
    skipped = f", {count.skipped} skipped" if count.skipped else ""
    print(f"{count.passed} passed, {len(count.failed)} failed{skipped}")
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
