"""One page of HTML that needs no other file: pictures are part of it. It reads on a telephone, in the dark and on paper."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import Any

from cede._base import check
from cede._base.extras import need

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #5a5a5a; --paper: #fff; --line: #ddd; --card: #f5f5f5; --note: #FBF6EA; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --soft: #a8a8a8; --paper: #16181b; --line: #3a3d42; --card: #212429; --note: #2b2618; }
}
* { box-sizing: border-box; }
body { font: 17px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; line-height: 1.2; margin-bottom: .3rem; }
h2 { margin-top: 2.6rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
p.lead { font-size: 1.15rem; color: var(--soft); }
p.main { font-size: 1.25rem; line-height: 1.4; }
small, .soft { color: var(--soft); font-size: .85rem; }
img { max-width: 100%; height: auto; display: block; margin: 1rem 0; background: #fff; border-radius: 6px; }
blockquote, .note { margin: 1rem 0; padding: .6rem 1rem; border-left: .3rem solid #E69F00; background: var(--note); }
.note ul { margin: 0; padding-left: 1.1rem; }
pre { background: var(--card); padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); font-size: .85rem; }
th:first-child, td:first-child, td.text, th.text { text-align: left; padding-left: 0; }
.bars { display: grid; grid-template-columns: minmax(9rem, 18rem) 1fr; gap: .7rem 1.2rem; align-items: center; }
.bar { display: flex; height: 1.1rem; border-radius: 3px; overflow: hidden; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .8rem 0 1.2rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
@media (max-width: 600px) {
  body { font-size: 16px; margin-top: 1rem; }
  .bars { grid-template-columns: 1fr; gap: .15rem; }
  .bars > :nth-child(even) { margin-bottom: .8rem; }
  th, td { padding: .35rem .35rem; }
}
@media print {
  :root { --ink: #000; --soft: #444; --paper: #fff; --line: #ccc; --card: #f5f5f5; --note: #fff; }
  body { font-size: 11pt; max-width: none; margin: 0; padding: 0; }
  h2 { break-after: avoid; margin-top: 1.4rem; } img, .bars > *, tr, blockquote, .note { break-inside: avoid; }
}
"""


def page(title: str, lead: str, *parts: str) -> str:
    """Return a page. title, lead: texts. parts: HTML, as the other functions here return it."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{shown(title)}</title><style>{STYLE}</style></head><body>
<h1>{shown(title)}</h1>
<p class="lead">{shown(lead)}</p>
{"".join(parts)}
</body></html>
"""


def shown(text: object) -> str:
    """Return a text, which may be a name from outside, as HTML."""
    return escape(check.printable(text))


def shown_lines(text: str) -> str:
    """Return a text of several lines as HTML."""
    return "\n".join(map(shown, text.split("\n")))


def section(title: str, *parts: str) -> str:
    """Return a section with a heading. parts: HTML."""
    return f"<h2>{shown(title)}</h2>{''.join(parts)}"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text; empty if there is no text. kind: a class of STYLE, such as "main"."""
    return f"<p{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{shown(text)}</p>" if text else ""


def notes(texts: Sequence[str]) -> str:
    """Return texts in a box, as a list; empty if there are none."""
    return f'<div class="note"><ul>{"".join(f"<li>{shown(text)}</li>" for text in texts)}</ul></div>' if texts else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table. left: how many of the first columns hold texts; all others hold numbers."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = [' class="text"' if i < left else "" for i in range(len(texts))]
        return "".join(f"<{tag}{kind}>{shown(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", columns)}</tr></thead><tbody>{body}</tbody></table></div>'


def bars(names: Sequence[str], colours: Sequence[str], rows: Sequence[tuple[str, str, Sequence[float]]]) -> str:
    """Return stacked bars of shares, with a legend, and with the shares as text for readers without colours.

    names, colours: of the parts. rows: a name, a remark, and the share of each part, which sum to 1.
    """
    marks = zip(names, colours, strict=True)
    legend = "".join(f'<span><i style="background:{colour}"></i>{shown(name)}</span>' for name, colour in marks)
    lines = []
    for title, remark, shares in rows:
        texts = [f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True) if share >= 0.005]
        parts = [
            f'<span style="flex:{share:.4f} 0 0;background:{colour}"></span>' for colour, share in zip(colours, shares, strict=True)
        ]
        lines.append(f"<div>{shown(title)}<br><small>{shown(remark)}</small></div>")
        lines.append(
            f'<div><div class="bar" aria-hidden="true">{"".join(parts)}</div><small>{shown(", ".join(texts))}</small></div>'
        )
    return f'<div class="legend">{legend}</div><div class="bars">{"".join(lines)}</div>'


def picture(title: str, figure: Any, width: str = "") -> str:
    """Return a picture as a part of the page. figure: a Matplotlib figure, or the bytes of a PNG. width: of it, as in "40rem"."""
    kind, data = "png", figure
    if not isinstance(figure, bytes):
        with BytesIO() as file, need("matplotlib", "plots").rc_context({"svg.hashsalt": "cede"}):  # the same bytes again
            figure.savefig(file, format="svg", metadata={"Date": None})
            kind, data = "svg+xml", file.getvalue()
    style = f' style="width:{width}"' if width else ""
    return f'<img{style} alt="{shown(title)}" src="data:image/{kind};base64,{b64encode(data).decode()}">'
