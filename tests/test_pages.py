"""The pages in docs/findings are what the docstrings of the findings say, and each says what a reader needs."""

from __future__ import annotations

import importlib.util
import re
import types
from pathlib import Path

import pytest

from speedproof.analyse.findings import pages, slugs_of
from speedproof.report import pages as page_texts
from speedproof.report.pieces import told

DOCS = Path(__file__).parents[1] / "docs"
SECTIONS = ("## What it means", "## How it is found", "## What to do")


def generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages_in(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.md")}


def test_every_page_is_up_to_date_with_its_docstring(tmp_path: Path) -> None:
    generator().main(tmp_path)
    assert pages_in(DOCS / "findings") == pages_in(tmp_path), "run `make pages`"


def test_every_finding_has_a_title_and_the_sections() -> None:
    for page in pages():
        title, text = page_texts.title_of(page), page_texts.text_of(page)
        assert title and not title.startswith("#"), page.__name__
        assert text.partition("\n")[2].startswith("\n"), f"{page.__name__}: an empty line follows the title"
        headings = [line for line in text.splitlines() if line.startswith("#")]
        assert [h for h in headings if h in SECTIONS] == list(SECTIONS), page.__name__


def test_slugs_are_unique_and_fit_for_a_command_line() -> None:
    slugs = [slug for page in pages() for slug in slugs_of(page)]
    assert len(slugs) == len(set(slugs))
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", slug) for slug in slugs), slugs


def page(name: str, text: str, *slugs: str) -> types.ModuleType:
    module = types.ModuleType(f"speedproof.analyse.findings.{name}", text)
    module.SLUGS = slugs  # type: ignore[attr-defined]
    return module


TEXT = """A value is read in the loop.

    ## What it means

    The step ends with ``loss.item()``, and **waits** for it. A long line of words follows, so that it has to be wrapped
    somewhere, `here or there`, in the terminal.

    - one thing
      that goes on
    - another

    ## What to do

    ```python
    if step % 10 == 0:
        print(loss)
    ```

    | a | b |
    |---|---|
    """


def test_old_pages_go_and_foreign_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = generator()
    monkeypatch.setattr(make, "pages", lambda: (page("value_read", TEXT, "value-read", "value-printed"),))
    (tmp_path / "old.md").write_text(f"{make.MARK} from old.py -->\n")
    (tmp_path / "notes.md").write_text("mine\n")
    make.main(tmp_path)
    written = pages_in(tmp_path)
    assert set(written) == {"README.md", "notes.md", "value-read.md"}
    head = "\n# A value is read in the loop\n\n`value-read`, `value-printed`\n\n## What it means\n"
    assert head in written["value-read.md"]
    assert "| [`value-printed`](value-read.md) | A value is read in the loop |" in written["README.md"]


def test_a_page_is_readable_in_a_terminal() -> None:
    module = page("value_read", TEXT, "value-read")
    text = told(page_texts.page_lines(module), color=False)
    lines = text.splitlines()
    assert lines[:3] == ["A value is read in the loop", "", "What it means"]
    assert max(map(len, lines)) <= page_texts.TEXT_WIDTH
    assert "\n- one thing that goes on\n- another\n" in text
    assert "\n    if step % 10 == 0:\n        print(loss)\n" in text and "```" not in text
    assert "with `loss.item()`, and waits for it" in text and "\n| a | b |\n" in text
    coloured = told(page_texts.page_lines(module), color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text


def test_a_page_without_text_is_no_error() -> None:
    module = page("odd", "", "odd")
    assert told(page_texts.page_lines(module), color=False).strip() == ""
