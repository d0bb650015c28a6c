"""One self-contained HTML page from the rows of a run: a table, and plots as inline SVG.

  page.py DIR   draws DIR/report.html again from DIR/report.json and DIR/machine.json
"""
import html
import json
import math
import os
import sys

STYLE = """
:root { --ink: #1c1e21; --soft: #6a7079; --line: #dfe2e6; --met: #1a7f4b; --missed: #c2381f; --plain: #4a6fa5;
        --paper: #ffffff; --band: #f6f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa1ab; --line: #363b42; --met: #4cc38a; --missed: #ff7a5c; --plain: #86aee6;
          --paper: #16181b; --band: #1e2125; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2.5rem auto;
       max-width: 1180px; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p, li { max-width: 78ch; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid var(--line); padding: .35rem .6rem .35rem 0; }
td { border-bottom: 1px solid var(--line); padding: .35rem .6rem .35rem 0; vertical-align: top; }
table.rows { table-layout: fixed; } .rows th:nth-child(1) { width: 27%; } .rows th:nth-child(7) { width: 28%; }
.rows th:nth-child(5) { width: 6%; } .rows th:nth-child(6) { width: 6%; }
td.number, th.number { text-align: right; white-space: nowrap; }
td small { color: var(--soft); display: block; }
.met { color: var(--met); font-weight: 600; } .missed { color: var(--missed); font-weight: 600; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg text.soft { fill: var(--soft); font-size: 11px; }
"""

LEFT, RIGHT, WIDTH, STEP = 400, 30, 1120, 24
LABEL_CHARACTERS = 52


def number(value):
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 1000:
        return "%.0f" % value
    return "%.3g" % value


def colour(row):
    return {True: "var(--met)", False: "var(--missed)", None: "var(--plain)"}[row["met"]]


def label(name, y):
    """Left of the plot; a name too long for that is squeezed."""
    fit = ' textLength="%d" lengthAdjust="spacingAndGlyphs"' % (LEFT - 16) if len(name) > LABEL_CHARACTERS else ""
    return '<text x="%d" y="%.1f" text-anchor="end"%s>%s</text>' % (LEFT - 14, y, fit, html.escape(name))


def ratio_rows(rows):
    return [row for row in rows if row["ratio"] is not None]


def ratio_plot(rows):
    """Every ratio on one logarithmic axis: a dot for the median, a line from the lowest to the
    highest round, a tick where the target is."""
    values = [v for row in rows for v in [row["ratio"], row["target"] if row["target_of"] == "ratio" else None] +
              list(row["spread"]["ratio"]) if v]
    low, high = min(values + [0.5]), max(values + [2.0])
    low, high = math.log10(low) - 0.05, math.log10(high) + 0.05
    x = lambda value: LEFT + (math.log10(max(value, 1e-9)) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    height = 40 + STEP * len(rows) + 26
    out = ['<svg viewBox="0 0 %d %d" role="img" aria-label="ratios to peers">' % (WIDTH, height)]
    for tick in (0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if low <= math.log10(tick) <= high:
            out.append('<line x1="%.1f" x2="%.1f" y1="30" y2="%d" stroke="%s" stroke-width="1"/>' % (
                x(tick), x(tick), height - 26, "var(--soft)" if tick == 1 else "var(--line)"))
            out.append('<text x="%.1f" y="22" text-anchor="middle" class="soft">%g</text>' % (x(tick), tick))
    for index, row in enumerate(rows):
        y = 40 + STEP * index + STEP / 2
        out.append(label(row["name"], y + 4))
        first, last = row["spread"]["ratio"]
        out.append('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="3" opacity=".4"/>' % (
            x(first), x(last), y, y, colour(row)))
        if row["target"] is not None and row["target_of"] == "ratio":
            at, way = x(row["target"]), -6 if row["target_is"] == "at most" else 6
            out.append('<path d="M%.1f %.1f V%.1f M%.1f %.1f l%d 4 M%.1f %.1f l%d -4" stroke="var(--ink)" '
                       'stroke-width="1.5" fill="none"/>' % (at, y - 9, y + 9, at, y - 9, way, at, y + 9, way))
        out.append('<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s"><title>%s: %s (%s to %s)</title></circle>' % (
            x(row["ratio"]), y, colour(row), html.escape(row["name"]), number(row["ratio"]), number(first),
            number(last)))
    out.append('<text x="%d" y="%d" class="soft">ratio of ours to the peer, logarithmic; the bracket is the target and '
               'opens towards the good side</text></svg>' % (LEFT, height - 6))
    return "".join(out)


def rounds_plot(rows):
    """The figures of every round: ours as dots, the peer's as rings, each row on its own axis from 0."""
    height = STEP * len(rows) + 24
    out = ['<svg viewBox="0 0 %d %d" role="img" aria-label="figures of the rounds">' % (WIDTH, height)]
    for index, row in enumerate(rows):
        y = STEP * index + STEP / 2 + 4
        ours, peer = row["rounds"]["ours"], row["rounds"]["peer"]
        high = max(ours + peer) or 1
        x = lambda value: LEFT + value / high * (WIDTH - LEFT - RIGHT - 190)
        out.append(label(row["name"], y + 4))
        out.append('<line x1="%d" x2="%.1f" y1="%.1f" y2="%.1f" stroke="var(--line)"/>' % (LEFT, x(high), y, y))
        for value in peer:
            out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="none" stroke="var(--soft)"/>' % (x(value), y))
        for value in ours:
            out.append('<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s" opacity=".75"/>' % (x(value), y, colour(row)))
        out.append('<text x="%d" y="%.1f" class="soft">%s %s</text>' % (
            WIDTH - RIGHT - 180, y + 4, number(high), html.escape(row["unit"].split(",")[0][:34])))
    out.append('<text x="%d" y="%d" class="soft">0 at the left, the largest figure at the right; filled: ours, '
               'rings: the peer</text></svg>' % (LEFT, height - 4))
    return "".join(out)


def target(row):
    if row["target"] is None:
        return "–"
    return ("≤ " if row["target_is"] == "at most" else "≥ ") + number(row["target"])


def cell(value, spread):
    between = "<small>%s … %s</small>" % (number(spread[0]), number(spread[1])) if spread else ""
    return '<td class="number">%s%s</td>' % (number(value), between)


def table(rows):
    out = ['<table class="rows"><tr><th>what<th class="number">ours<th class="number">peer<th class="number">ratio'
           '<th class="number">target<th><th>unit, peer and notes</tr>']
    for row in rows:
        verdict = {True: '<span class="met">met</span>', False: '<span class="missed">missed</span>',
                   None: '<span class="soft">informs</span>'}[row["met"]]
        notes = html.escape(row["unit"]) + "<small>against %s%s</small>" % (
            html.escape(row["against"]), "; " + html.escape(row["note"]) if row["note"] else "")
        out.append("<tr><td>%s%s%s%s<td class=number>%s<td>%s<td>%s</tr>" % (
            html.escape(row["name"]), cell(row["ours"], row["spread"]["ours"]), cell(row["peer"], row["spread"]["peer"]),
            cell(row["ratio"], row["spread"]["ratio"]), target(row), verdict, notes))
    return "".join(out) + "</table>"


def render(rows, machine, skipped):
    aimed = [row for row in rows if row["met"] is not None]
    out = ["<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
           "<title>Gyre: benchmarks</title><style>", STYLE, "</style>", "<h1>Gyre: benchmarks</h1>",
           "<p>%d of %d targets met. Every figure is a median of interleaved rounds; a ratio is the median of the "
           "rounds' own ratios, and the small figures are the lowest and the highest round. Ratios carry over to other "
           "machines better than figures do.</p>" % (sum(row["met"] for row in aimed), len(aimed))]
    compared = ratio_rows(rows)
    if compared:
        out += ["<h2>Ratios and targets</h2>", ratio_plot(compared)]
    for name in dict.fromkeys(row["benchmark"] for row in rows):
        group = [row for row in rows if row["benchmark"] == name]
        out += ["<h2>%s</h2><p>%s</p>" % (html.escape(name), html.escape(group[0]["question"])), table(group),
                rounds_plot(group)]
    if skipped:
        out += ["<h2>Not measured</h2><ul>"] + [
            "<li>%s: %s</li>" % (html.escape(s["name"]), html.escape(s["reason"])) for s in skipped] + ["</ul>"]
    out += ["<h2>Machine</h2><table>"] + ["<tr><td>%s<td>%s</tr>" % (html.escape(what), html.escape(str(value)))
                                          for what, value in machine] + ["</table></html>\n"]
    return "".join(out)


if __name__ == "__main__":
    directory = sys.argv[1]
    with open(os.path.join(directory, "report.json")) as report, open(os.path.join(directory, "machine.json")) as about:
        facts = json.load(about)
        content = render(json.load(report), facts["machine"], facts["skipped"])
    with open(os.path.join(directory, "report.html"), "w") as output:
        output.write(content)
