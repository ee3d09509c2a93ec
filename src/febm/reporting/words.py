"""Numbers and names as a reader wants to see them."""

from __future__ import annotations

import math

# A longer text in a table tells a reader nothing; it is cut.
LONGEST_TEXT = 160


def percent(share: float, digits: int = 0) -> str:
    """`12 %`, or a bound where rounding would claim none or all; the space does not break."""
    if not math.isfinite(share):
        return "–"
    scale = 10.0**-digits
    if 0 < 100 * share < 0.5 * scale:
        return f"<\u00a0{scale:g}\u00a0%"
    if 0 < 100 * (1 - share) < 0.5 * scale:
        return f">\u00a0{100 - scale:g}\u00a0%"
    return f"{100 * share:.{digits}f}\u00a0%"


def short(value: float, digits: int = 3) -> str:
    """Three digits that count, and all before the point."""
    value = float(value)
    if math.isfinite(value) and 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    if math.isfinite(value) and 10**digits <= abs(value) < 1000:
        return f"{value:.0f}".replace("-", "−")
    return "–" if math.isnan(value) else f"{value:.{digits}g}".replace("-", "−")


def with_error(value: float, error: float) -> str:
    """`12.3 ± 0.4`; without an error that none of the digits shown could notice."""
    if not math.isfinite(error) or error < 5e-4 * abs(value):
        return short(value)
    return f"{short(value)} ±\u00a0{short(error, 2)}"


def percent_with_error(share: float, error: float, digits: int = 0) -> str:
    """`12 % ± 1 %`; without the error where the share is a bound or has none."""
    shown = percent(share, digits)
    if not math.isfinite(error) or error == 0 or shown.startswith(("<", ">", "–")):
        return shown
    return f"{shown} ±\u00a0{percent(error, 1)}"


def interval(low: float, high: float) -> str:
    """`[−10, 10]`."""
    return f"[{low:.6g}, {high:.6g}]".replace("-", "−")


def p_value(value: float) -> str:
    """A p-value with the digits that matter."""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def cut(text: object) -> str:
    """The text on one line, cut where it is very long."""
    text = " ".join(str(text).split())
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def in_a_sentence(error: BaseException) -> str:
    """The kind of error and the first line of its text, ended by a full stop."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."


def share_name(p: float) -> str:
    """`1/4`, or `0.3` where no small fraction is meant."""
    for bottom in range(2, 17):
        if math.isclose(p * bottom, round(p * bottom), rel_tol=1e-9):
            return f"{round(p * bottom)}/{bottom}"
    return f"{p:g}"


def split_name(kind: str, p: float) -> str:
    """Which points of a curve are seen, such as `a random 1/4 seen`."""
    share = share_name(p)
    names = {"middle": f"{share} seen, at the ends", "random": f"a random {share} seen"}
    if kind == "downsample" and share.startswith("1/"):
        step = int(share[2:])
        ordinal = {2: "2nd", 3: "3rd"}.get(step, f"{step}th")
        return f"every {ordinal} point seen"
    return names.get(kind, f"{kind} {share}")
