"""check.py DIR: is the report in DIR well-formed? Says what is not and exits 1."""
import json
import math
import os
import sys
import xml.dom.minidom

FIELDS = {"name": str, "ours": (int, float), "peer": (int, float, type(None)), "ratio": (int, float, type(None)),
          "target": (int, float, type(None)), "unit": str, "met": (bool, type(None)), "benchmark": str}


def problems(directory):
    with open(os.path.join(directory, "report.json")) as file:
        rows = json.load(file)
    if not isinstance(rows, list) or not rows:
        yield "report.json has no rows"
        return
    for row in rows:
        name = row.get("name", "a row")
        for field, kind in FIELDS.items():
            if field not in row or not isinstance(row[field], kind):
                yield "%s: %s is missing or of another kind" % (name, field)
        figures = [row.get("ours"), row.get("peer"), row.get("ratio")]
        if any(value is not None and (not math.isfinite(value) or value <= 0) for value in figures):
            yield "%s: a figure that is none: %s" % (name, figures)
        if (row.get("target") is None) != (row.get("met") is None):
            yield "%s: met without a target, or a target without met" % name
        if (row.get("peer") is None) != (row.get("ratio") is None):
            yield "%s: a ratio without a peer, or a peer without a ratio" % name
    if len({row["name"] for row in rows}) != len(rows):
        yield "two rows have one name"
    with open(os.path.join(directory, "report.html")) as file:
        text = file.read()
    plots = text.split("<svg")[1:]
    if len(plots) < 2:
        yield "report.html has fewer than two plots"
    for plot in plots:
        xml.dom.minidom.parseString("<svg" + plot[:plot.index("</svg>") + len("</svg>")])
    for word in ("http://", "https://", "<script src", "<link"):
        if word in text:
            yield "report.html is not self-contained: %s" % word


if __name__ == "__main__":
    found = list(problems(sys.argv[1]))
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
