"""`report.html`: one file that shows, for each figure, what the paper states and what we measured.

Law: the file needs nothing but itself: charts are inline SVG, styles are inline, there is no script
and no address. It hides nothing: a claim that does not hold stands beside those that do, with the
reason.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tidegate
from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.configuration import code_version
from tidegate.lab.figures import NumberTable, Shown
from tidegate.lab.report_style import STYLE

PAPERS = {
    "ojewole2006": "Ojewole, Zhu, Hou: Window Join Approximation over Data Streams with Importance "
    "Semantics, CIKM 2006",
    "srivastava2004": "Srivastava, Widom: Memory-Limited Execution of Windowed Stream Joins, VLDB "
    "2004",
    "kang2003": "Kang, Naughton, Viglas: Evaluating Window Joins over Unbounded Streams, ICDE 2003",
    "gedik2005": "Gedik, Wu, Yu, Liu: Adaptive Load Shedding for Windowed Stream Joins, CIKM 2005",
    "kwon2011": "Kwon, Lee, Kim: Load shedding for multi-way stream joins based on arrival order "
    "patterns, JIIS 2011",
    "recorded": "Recorded data",
    "value": "VALUE against every other policy",
}
_MARKS = {True: ("yes", "✓"), False: ("no", "✗"), None: ("open", "?")}


def write_report(
    shown: Sequence[Shown], path: Path, quick: bool, notes: Sequence[str] = ()
) -> None:
    """Write the report; an old one is replaced only by a complete new one."""
    partial = path.with_suffix(".partial")
    partial.write_text(page(shown, quick, notes), encoding="utf-8")
    partial.replace(path)


def page(shown: Sequence[Shown], quick: bool, notes: Sequence[str] = ()) -> str:
    """The report as text."""
    sections = []
    paper = None
    for each in shown:
        if each.figure.paper != paper:
            paper = each.figure.paper
            sections.append(f'<h2 class="paper">{_text(PAPERS.get(paper, paper))}</h2>')
        sections.append(_section(each))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>tidegate: the papers, reproduced</title><style>{STYLE}</style></head><body>"
        f"{_head(shown, quick)}<main>{_summary(shown)}{''.join(sections)}</main>"
        f"{_foot(notes)}</body></html>\n"
    )


def _head(shown: Sequence[Shown], quick: bool) -> str:
    claims = [claim for each in shown for claim in each.findings.claims]
    counts = {kind: sum(claim.holds is kind for claim in claims) for kind in (True, False, None)}
    tiles = [
        _tile(str(len(shown)), "figures, tables and examples"),
        _tile(f"{sum(each.runs for each in shown):,}", "joins run"),
        _tile(str(counts[True]), "claims hold", "yes"),
        _tile(str(counts[False]), "do not", "no"),
        _tile(str(counts[None]), "not measured", "open"),
    ]
    scale = "quick run: fewer seeds and points" if quick else "full run"
    return (
        '<header><div class="wrap"><p class="eyebrow">tidegate '
        f"{_text(tidegate.__version__)} &middot; {scale}</p>"
        "<h1>The papers, reproduced</h1>"
        '<p class="lead">What each figure states, what this version measures on the same setting, '
        "and whether the two agree.</p>"
        f'<div class="tiles">{"".join(tiles)}</div></div></header>'
    )


def _tile(number: str, words: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{number}</b><span>{words}</span></div>'


def _summary(shown: Sequence[Shown]) -> str:
    """All claims in one table; each figure's name leads to its section."""
    if not any(each.findings.claims for each in shown):
        return ""
    rows = []
    for each in shown:
        claims = each.findings.claims
        for number, claim in enumerate(claims):
            where = ""
            if number == 0:
                link = f'<a href="#{each.figure.slug}">{_text(each.figure.name)}</a>'
                paper = f"<small>{_text(each.figure.paper)}</small>"
                where = f'<th rowspan="{len(claims)}" scope="rowgroup">{link}{paper}</th>'
            first = ' class="first"' if number == 0 else ""
            rows.append(f"<tr{first}>{where}{_claim_cells(claim)}</tr>")
    return (
        '<section class="summary"><h2>Claims</h2><div class="scroll"><table><thead><tr><th></th>'
        "<th>claim</th><th>expected</th><th>measured</th><th></th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _claim_cells(claim: Claim) -> str:
    kind, mark = _MARKS[claim.holds]
    ours = '<span class="tag">ours</span>' if claim.ours else ""
    return (
        f"<td>{_text(claim.claim)}{ours}</td><td>{_expected(claim)}</td>"
        f'<td>{_measured(claim)}</td><td class="mark {kind}">{mark}</td>'
    )


def _expected(claim: Claim) -> str:
    if isinstance(claim.expected, tuple):
        return _text(" > ".join(claim.expected))
    words = {"near": "", "at least": "&ge; ", "at most": "&le; ", "order": ""}[claim.relation]
    slack = ""
    if claim.tolerance:
        sign = {"near": "&plusmn; ", "at least": "&minus; ", "at most": "+ "}.get(
            claim.relation, ""
        )
        slack = f" <small>{sign}{claim.tolerance:g}</small>"
    return f"{words}{claim.expected:.4g}{slack}"


def _measured(claim: Claim) -> str:
    if claim.measured is None:
        return "&ndash;"
    if isinstance(claim.measured, dict):
        ranked = sorted(claim.measured, key=lambda name: -claim.measured[name])
        return _text(" > ".join(ranked))
    return f"{claim.measured:.4g}"


def _section(each: Shown) -> str:
    figure, findings = each.figure, each.findings
    drawn = "".join(f"<figure>{charts.svg(chart)}</figure>" for chart in findings.charts)
    settings = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
        for name, value in figure.settings.items()
    )
    spent = f"{each.runs:,} joins, {each.seconds:,.1f} s of computing"
    notes = "".join(f"<p>{_text(note)}</p>" for note in findings.notes)
    numbers = "".join(map(_number_table, findings.tables))
    return (
        f'<section class="figure" id="{figure.slug}">'
        f"<h3><span>{_text(figure.name)}</span> {_text(figure.title)}</h3>"
        f'<p class="states"><b>The paper</b> {_text(figure.states)}</p>'
        f"{f'<div class=drawn>{drawn}</div>' if drawn else ''}"
        f"<aside><h4>Configuration</h4><dl>{settings}</dl>"
        f"{f'<p><small>{spent}</small></p>' if each.runs else ''}</aside>"
        f"{_verdicts(findings.claims)}"
        f"{f'<div class=notes><h4>Notes</h4>{notes}</div>' if notes else ''}"
        f"{f'<details><summary>All numbers</summary>{numbers}</details>' if numbers else ''}"
        "</section>"
    )


def _verdicts(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    rows = []
    for claim in claims:
        reason = ""
        if not claim.holds and claim.reason:
            reason = f'<tr class="reason"><td colspan="4">{_text(claim.reason)}</td></tr>'
        rows.append(f'<tr class="first">{_claim_cells(claim)}</tr>{reason}')
    return (
        '<div class="scroll"><table><thead><tr><th>claim</th><th>expected</th><th>measured</th>'
        f"<th></th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _number_table(table: NumberTable) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    return (
        f'<h4>{_text(table.title)}</h4><div class="scroll"><table class="numbers"><thead><tr>{head}'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _foot(notes: Sequence[str]) -> str:
    made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    said = "".join(f"<li>{_text(note)}</li>" for note in notes)
    return (
        f'<footer><div class="wrap"><ul>{said}</ul><p>Code version {code_version()}, made {made}. '
        "Every result lies beside this file in <code>results/</code>, as Parquet, with its "
        "configuration.</p></div></footer>"
    )


def _text(value: Any) -> str:
    return html.escape(str(value))
