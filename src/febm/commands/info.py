"""`febm info`: what a saved model is, and where it comes from."""

from __future__ import annotations

from febm.commands import options
from febm.commands.targets import check_model
from febm.commands.terminal import speaking


def info(
    model: options.Model,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> None:
    """Say what a model is: settings, training, curves, domain, columns and versions."""
    with speaking("info", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        check_model(model)

        from febm.commands.models import SavedModel

        saved = SavedModel(model)

        from febm.commands.describing import as_sentences, describe
        from febm.commands.tabulating import as_facts

        found = describe(saved)
        terminal.show(found, as_facts(as_sentences(found)))
