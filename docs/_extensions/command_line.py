"""The directive `commands`: the help of every command, as the installed command line prints it."""

from docutils import nodes
from docutils.parsers.rst import Directive
from typer.main import get_command
from typer.testing import CliRunner

# As wide as a page shows without a scroll bar.
COLUMNS = 88


def commands() -> list[tuple[str, ...]]:
    """The words of every command, in the order in which `febm --help` lists them."""
    from febm.cli import app

    found: list[tuple[str, ...]] = []

    def walk(command, words: tuple[str, ...]) -> None:
        for name, part in getattr(command, "commands", {}).items():
            if not part.hidden:
                found.append((*words, name))
                walk(part, (*words, name))

    walk(get_command(app), ())
    return found


def help_of(words: tuple[str, ...]) -> str:
    """What `febm … --help` prints."""
    from febm.cli import app

    environment = {"COLUMNS": str(COLUMNS), "TERMINAL_WIDTH": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    result = CliRunner(env=environment).invoke(app, [*words, "--help"], prog_name="febm")
    if result.exit_code != 0:
        raise RuntimeError(f"febm {' '.join(words)} --help ended with {result.exit_code}: {result.output}")
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


class Commands(Directive):
    """A section for every command."""

    def run(self) -> list[nodes.Node]:
        sections = []
        for words in commands():
            title = "febm " + " ".join(words)
            section = nodes.section(ids=[nodes.make_id(title)], names=[title])
            section += nodes.title("", "", nodes.literal("", title))
            text = help_of(words)
            section += nodes.literal_block(text, text, language="text")
            self.state.document.note_explicit_target(section)
            sections.append(section)
        return sections


def setup(app):
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
