"""Write ``docs/findings``: a page for each finding, from the docstring of its file, and an index.

    python docs/make_pages.py [FOLDER]

The docstring is the one source: ``speedproof explain RUN SLUG`` shows the same text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from speedproof.analyse.findings import pages, slugs_of
from speedproof.report.pages import body_of, file_name, title_of

INDEX = "README.md"
MARK = "<!-- written by docs/make_pages.py"


def written_pages() -> dict[str, str]:
    """The text of every page, by the name of its file; the index among them."""
    texts = {file_name(page): _page(page) for page in pages()}
    return {**texts, INDEX: "\n".join(_index()) + "\n"}


def _page(page: ModuleType) -> str:
    source = f"src/{page.__name__.replace('.', '/')}.py"
    slugs = ", ".join(f"`{slug}`" for slug in slugs_of(page))
    return f"{MARK} from {source} -->\n\n# {title_of(page)}\n\n{slugs}\n\n{body_of(page)}\n"


def _index() -> Iterator[str]:
    yield f"{MARK} -->"
    yield from ("", "# Findings", "")
    yield "What `speedproof run` may find in a script, and what `speedproof explain RUN SLUG` tells about it."
    yield from ("", "| slug | what it is |", "|---|---|")
    rows = [(slug, page) for page in pages() for slug in slugs_of(page)]
    for slug, page in sorted(rows, key=lambda row: row[0]):
        yield f"| [`{slug}`]({file_name(page)}) | {title_of(page).replace('|', chr(92) + '|')} |"


def main(folder: Path) -> None:
    """Write all pages, and remove those of findings that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = written_pages()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for file in folder.glob("*.md"):
        if file.name not in texts and file.read_text(encoding="utf-8").startswith(MARK):
            file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "findings")
