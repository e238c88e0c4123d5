"""Pages that are generated must be those of the sources."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "tools" / "generate_docs.py"

spec = importlib.util.spec_from_file_location("generate_docs", GENERATOR)
generate_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate_docs)


def test_errors_page_is_up_to_date() -> None:
    result = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_row_of_the_table_is_on_the_page() -> None:
    rows = [line for line in (ROOT / "src/base/error_codes.inc").read_text().splitlines() if "HTPIPE_ERROR(k" in line]
    headings = [line for line in (ROOT / "docs/errors.md").read_text().splitlines() if line.startswith("### ")]
    assert len(headings) == len(rows) > 50
    for row in rows:
        assert f"### {row.split(chr(34))[1]}" in headings


def test_quotes_in_a_row_are_unescaped() -> None:
    (row,) = generate_docs.parse_table(r'HTPIPE_ERROR(kX, "x-y", 3, "Say \"a\".", "B.", "C (d).")')
    assert row == generate_docs.ErrorRow("x-y", 3, 'Say "a".', "B.", "C (d).")


@pytest.mark.parametrize("row", ['HTPIPE_ERROR(kX, "x", 1, "A.", "B.")', 'HTPIPE_ERROR(kX, "x", 9, "A.", "B.", "C.")'])
def test_a_broken_row_is_no_silence(row: str) -> None:
    with pytest.raises(ValueError, match=r"error_codes\.inc:2"):
        generate_docs.parse_table(f"// head\n{row}\n")
