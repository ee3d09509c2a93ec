"""The work of `febm info`: what the file of a model, and the model in it, say of themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from febm.checks import count
from febm.commands.model_settings import changed_settings
from febm.commands.models import SavedModel

UNKNOWN = "not recorded: the model was saved from Python"


def describe(saved: SavedModel) -> dict[str, Any]:
    """What is known of a model, for a program; None for what its file does not say."""
    process, data, fit = saved.process, saved.notes.get("data", {}), saved.notes.get("fit", {})
    d_x, d_y = saved.widths
    lower, upper = process.domain_  # type: ignore[attr-defined]
    history: Any = getattr(process, "history_", None)
    return {
        "file": saved.path,
        "bytes": saved.path.stat().st_size,
        "model": type(process).__name__,
        "settings": changed_settings(process),
        "inputs": d_x,
        "outputs": d_y,
        "columns": dataclasses.asdict(saved.columns) if "columns" in saved.notes else None,
        "domain": [[float(low), float(high)] for low, high in zip(lower, upper, strict=True)],
        "data": data.get("file"),
        "curves": data.get("curves"),
        "points": data.get("points"),
        "held_out": len(data["held_out"]) if "held_out" in data else None,
        "epochs": int(history["epoch"].max()) if _has(history, "epoch") else None,
        "score": _best(history),
        "seed": fit.get("seed"),
        "seconds": fit.get("seconds"),
        "date": fit.get("date"),
        "versions": {**fit.get("versions", {}), "febm": saved.version},
    }


def as_sentences(found: Mapping[str, Any]) -> dict[str, str]:
    """The same for a person."""
    columns, names = found["columns"], ["x"] * found["inputs"]
    if columns is not None:
        names = list(columns["x"])
    domain = ", ".join(
        f"{name} from {low:.6g} to {high:.6g}" for name, (low, high) in zip(names, found["domain"], strict=True)
    )
    rows = {
        "file": f"{found['file']} ({found['bytes'] / 1000:,.0f} kB)",
        "model": found["model"],
        "settings": ", ".join(f"{name}={value}" for name, value in found["settings"].items()) or "the defaults",
        "functions": f"of {count(found['inputs'], 'input')} with {count(found['outputs'], 'output')}",
        "domain": domain,
        "columns": UNKNOWN,
        "curves": UNKNOWN,
        "training": _training(found),
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    }
    if columns is not None:
        rows["columns"] = "; ".join(
            f"{role} {', '.join(columns[role])}" for role in ("curve", "x", "y", "covariates") if columns[role]
        )
    if found["curves"] is not None:
        held = f", {found['held_out']:,} more held out" if found["held_out"] else ""
        curves, points = count(found["curves"], "curve"), count(found["points"], "point")
        rows["curves"] = f"{curves} with {points}, of {found['data']}{held}"
    return rows


def _training(found: Mapping[str, Any]) -> str:
    parts = []
    if found["epochs"]:
        parts.append(f"{count(found['epochs'], 'epoch')}, best held-out score {found['score']:.4g}")
    if found["seconds"] is not None:
        parts.append(f"{found['seconds']:.1f} s on {found['date']}, seed {found['seed']}")
    return "; ".join(parts) or UNKNOWN


def _has(history: Any, column: str) -> bool:
    return isinstance(history, pd.DataFrame) and column in history and bool(history[column].notna().any())


def _best(history: Any) -> float | None:
    if not _has(history, "score"):
        return None
    best = float(np.nanmax(history["score"].to_numpy(dtype=float)))
    return best if np.isfinite(best) else None
