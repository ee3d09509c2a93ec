"""The checkpoint that a fit leaves beside its model, so that a fit that was killed can go on."""

from __future__ import annotations

from pathlib import Path


def checkpoint_beside(model: Path) -> Path:
    """Where the training of a model is saved until the model is there."""
    return model.with_name(f"{model.name}.checkpoint")


def files_of(checkpoint: Path) -> list[Path]:
    """What there is of a checkpoint: several trainings have files that are numbered after the first."""
    beside = checkpoint.absolute().parent.iterdir()
    mark = f"{checkpoint.name}-"
    return sorted(
        path
        for path in beside
        if path.name == checkpoint.name or (path.name.startswith(mark) and path.name[len(mark) :].isdecimal())
    )


def goes_on(checkpoint: Path, *, resume: bool, force: bool) -> bool:
    """Whether there is a checkpoint to go on from; one that nobody asked for is explained, unless `force` is given."""
    there = bool(files_of(checkpoint))
    if there and not (resume or force):
        raise ValueError(
            f"{str(checkpoint)!r} is left from a fit that was stopped; go on from it with --resume, "
            "or begin anew with --force."
        )
    return there and resume


def way_on(checkpoint: Path) -> str:
    """What to do after a fit was stopped."""
    if not files_of(checkpoint):
        return "It had nothing to keep yet; the same command begins anew."
    return f"What was trained is kept in {str(checkpoint)!r}; the same command with --resume goes on."


def remove(checkpoint: Path) -> None:
    """Remove the files of a checkpoint."""
    for path in files_of(checkpoint):
        path.unlink(missing_ok=True)
