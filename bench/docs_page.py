"""Tables that a benchmark writes into a page of docs/, between two lines that mark their place."""

from pathlib import Path


def write_section(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces what stands between the marks by `text`, which brings its own line breaks."""
    before, rest = page.read_text().split(begin, 1)
    _, after = rest.split(end, 1)
    page.write_text(f"{before}{begin}{text}{end}{after}")
