"""Inline pictures: curves over a parameter, and decision regions in the plane. SVG, without a library."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["curves", "regions"]

_PAPER = "paper: "
_COLOURS = ("var(--accent)", "var(--warn)", "var(--good)", "var(--soft)", "#9467bd", "#8c7a3a", "#d0679d")
#: Far on the side of -1, on the boundary, far on the side of +1; readable in light and dark.
_SHADES = np.array([[231, 154, 112], [245, 243, 238], [126, 165, 218]], dtype=np.float64)


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, x_name: str, y_name: str, log_x: bool = True
) -> str:
    """Return curves, y on a logarithmic scale, as SVG with a legend below.

    Parameters
    ----------
    lines : mapping of str to sequence of (x, y)
        "paper: name" is drawn dashed, in the colour of "name".
    x_name, y_name : str
    log_x : bool, default=True

    Returns
    -------
    str
        Empty where there is nothing to draw.
    """
    lines = {name: [(x, y) for x, y in points if y > 0] for name, points in lines.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    width, height, left, bottom, right = 560, 320, 62, 40, 14
    horizontal = _Axis([x for points in lines.values() for x, _ in points], left, width - right, log_x)
    vertical = _Axis([y for points in lines.values() for _, y in points], height - bottom, 12, True)
    parts = [_frame(width, height, left, right, bottom)]
    parts += [
        f'<text x="{horizontal(t):.1f}" y="{height - bottom + 16}" text-anchor="middle">{_number(t)}</text>'
        for t in horizontal.ticks
    ]
    parts += [
        f'<line x1="{left}" x2="{width - right}" y1="{vertical(t):.1f}" y2="{vertical(t):.1f}" '
        f'stroke="var(--line)"/><text x="{left - 6}" y="{vertical(t) + 4:.1f}" '
        f'text-anchor="end">{_number(t)}</text>'
        for t in vertical.ticks
    ]
    legend = []
    owners = list(dict.fromkeys(name.removeprefix(_PAPER) for name in lines))
    for name, points in lines.items():
        colour = _COLOURS[owners.index(name.removeprefix(_PAPER)) % len(_COLOURS)]
        dash = ' stroke-dasharray="5 4"' if name.startswith(_PAPER) else ""
        path = " ".join(f"{horizontal(x):.1f},{vertical(y):.1f}" for x, y in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [
            f'<circle cx="{horizontal(x):.1f}" cy="{vertical(y):.1f}" r="3" fill="{colour}">'
            f"<title>{html.escape(name)}: {x_name} {x:g}, {y_name} {y:.3g}</title></circle>"
            for x, y in points
        ]
        legend.append(
            f'<span><svg class="key" viewBox="0 0 24 8"><path d="M0 4H24" stroke="{colour}" stroke-width="3"'
            f"{dash}/></svg>{html.escape(name)}</span>"
        )
    parts.append(
        f'<text x="{(left + width) / 2:.0f}" y="{height - 4}" text-anchor="middle">'
        f"{html.escape(x_name)}</text>"
        f'<text transform="rotate(-90)" x="{-(height - bottom) / 2:.0f}" y="12" text-anchor="middle">'
        f"{html.escape(y_name)}</text>"
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(y_name)} over '
        f'{html.escape(x_name)}">{"".join(parts)}</svg><p class="legend">{"".join(legend)}</p>'
    )


class _Axis:
    """From values to places, with a few round ticks."""

    def __init__(self, values: Sequence[float], start: float, end: float, log: bool) -> None:
        self._log = log
        low, high = min(map(self._of, values)), max(map(self._of, values))
        pad = 0.06 * (high - low) or 0.5
        self._low, self._high, self._start, self._end = low - pad, high + pad, start, end
        if log and high - low >= 1:
            step = max(1, round((high - low) / 6))
            self.ticks = [
                10.0**k for k in range(int(np.ceil(low - pad)), int(np.floor(high + pad)) + 1, step)
            ]
        elif log:
            self.ticks = _round_numbers(10.0 ** (low - pad), 10.0 ** (high + pad))
        else:
            self.ticks = _round_numbers(low - pad, high + pad)

    def _of(self, value: float) -> float:
        return float(np.log10(value)) if self._log else float(value)

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def _round_numbers(low: float, high: float) -> list[float]:
    """Return four to nine multiples of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10((high - low) / 4))
    step = next(power * factor for factor in (10, 5, 2, 1) if (high - low) / (power * factor) >= 4)
    return [float(f"{k * step:.6g}") for k in range(int(np.ceil(low / step)), int(high / step) + 1)]


def _number(value: float) -> str:
    exponent = round(np.log10(value)) if value > 0 else 0
    if value > 0 and abs(exponent) >= 3 and abs(value / 10.0**exponent - 1) < 1e-9:
        return f'10<tspan dy="-4" font-size="75%">{exponent}</tspan>'
    return f"{value:g}"


def _frame(width: int, height: int, left: int, right: int, bottom: int) -> str:
    return (
        f'<rect x="{left}" y="12" width="{width - left - right}" height="{height - bottom - 12}" fill="none" '
        'stroke="var(--line)"/>'
    )


def regions(picture: Mapping[str, Any], label: str) -> str:
    """Return decision regions with the points; a point grows with its multiplier, margins are dashed.

    Parameters
    ----------
    picture : mapping
        From `picture_of`.
    label : str
        For those who cannot see it.

    Returns
    -------
    str
    """
    size = 480
    x_low, x_high, y_low, y_high = picture["box"]
    shaded = _shaded(np.array(picture["decision"]), margins=picture.get("margins", False))
    image = base64.b64encode(_png(shaded)).decode("ascii")
    many = len(picture["points"]) > 500
    dots = []
    for (px, py), sign, weight in zip(picture["points"], picture["labels"], picture["sizes"], strict=True):
        x, y = size * (px - x_low) / (x_high - x_low), size * (y_high - py) / (y_high - y_low)
        colour = "#1f4e8c" if sign > 0 else "#a3441c"
        radius = (1.4 if many else 2.2) + (3.0 if many else 6.0) * weight
        fill = "none" if weight > 0.02 and not many else colour
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" stroke="{colour}"/>')
    return (
        f'<svg class="square" viewBox="0 0 {size} {size}" role="img" aria-label="{html.escape(label)}">'
        f'<image width="{size}" height="{size}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{image}"/>{"".join(dots)}</svg>'
    )


def _shaded(decision: FloatArray, *, margins: bool) -> np.ndarray[Any, Any]:
    """Return colours of decision values, with a dark line where the sign changes, dashed at 1 and -1."""
    place = np.clip(decision, -1.0, 1.0)[..., None]
    side = np.where(place > 0, _SHADES[2], _SHADES[0])
    colours = (1 - np.abs(place)) * _SHADES[1] + np.abs(place) * side
    colours[_edge(decision > 0)] = (60, 64, 72)
    if margins:
        dashes = np.arange(decision.shape[1]) // 3 % 2 == 0
        colours[_edge(np.abs(decision) > 1) & dashes] = (60, 64, 72)
    return colours.astype(np.uint8)


def _edge(inside: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    edge = np.zeros(inside.shape, dtype=bool)
    edge[:, 1:] |= inside[:, 1:] != inside[:, :-1]
    edge[1:, :] |= inside[1:, :] != inside[:-1, :]
    return edge


def _png(colours: np.ndarray[Any, Any]) -> bytes:
    """Return an RGB image as PNG: one filter byte a row, compressed."""
    height, width, _ = colours.shape
    raw = b"".join(b"\0" + row.tobytes() for row in colours)

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(raw, 9))
        + chunk(b"IEND", b"")
    )
