#!/usr/bin/env python3
"""Draws what a policy did for one guest, from the JSON of `classes.py --loads guest`: docs/evaluation/policies.svg.

Above: hits of the fast tier by class, after the server was started again. Below: seconds to list the disk and read its small files, before and after that. The row
`even` has the rules of the policy and one priority for all: the tier does what it does without a policy, and says of each
hit which class it had: that of the request's first byte. Medians of the rounds.
"""
import argparse
import json
import statistics
from pathlib import Path
from xml.sax.saxutils import escape

# Of t5: what is shown together.
SHOWN = (("metadata and directories", (0, 2)), ("files from their first byte", (3,)), ("from 4 KiB on", (4, 5)),
         ("from 64 KiB on", (6,)), ("from 256 KiB on", (7,)))
HITS_ROWS = (("even", "without priorities", "#64748b"), ("t5", "t5", "#c2410c"))
WIDTH, LABEL, ROW = 760, 190, 18


def main():
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", help="JSON of classes.py")
    parser.add_argument("--out", default=str(checkout / "docs" / "evaluation" / "policies.svg"))
    args = parser.parse_args()
    records = [r for r in json.loads(Path(args.json).read_text())["records"] if r["load"] == "guest"]
    Path(args.out).write_text(plot(records))
    print(args.out)


def middle(records, row, of):
    return statistics.median(of(r) for r in records if r["row"] == row)


def hits(record, ids):
    return sum(c["tier_hits"] for c in record["classes"] if c["class"] in ids)


def plot(records):
    out, y = [], 10
    y = panel(out, y, "Chunks read from flash after the restart, by class", [
        (title, [(text, middle(records, row, lambda r, i=ids: hits(r, i)), colour) for row, text, colour in HITS_ROWS])
        for title, ids in SHOWN], "{:,.0f}")
    rows = dict.fromkeys(r["row"] for r in records if r["row"] != "even")
    y = panel(out, y + 6, "Seconds", [
        (title, [(row, middle(records, row, lambda r, p=phase: r["seconds"][p]), "#c2410c" if row == "t5" else "#64748b")
                 for row in rows]) for title, phase in (("list, read small files", "looked"), ("the same after a restart", "looks"))], "{:.1f} s")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="12">\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n")


def panel(out, y, title, groups, form):
    """A bar for each value; one scale for the panel."""
    out.append(f'<text x="10" y="{y + 16}" font-weight="bold">{escape(title)}</text>')
    y += 26
    most = max(1e-9, max(value for _, bars in groups for _, value, _ in bars))
    for group, bars in groups:
        out.append(f'<text x="{LABEL - 6}" y="{y + 13}" text-anchor="end">{escape(group)}</text>')
        for text, value, colour in bars:
            long = value * (WIDTH - LABEL - 200) / most
            out.append(f'<rect x="{LABEL}" y="{y + 2}" width="{long:.1f}" height="{ROW - 4}" fill="{colour}"/>'
                       f'<text x="{LABEL + long + 6:.1f}" y="{y + 13}">{form.format(value)} {escape(text)}</text>')
            y += ROW
        y += 6
    return y


if __name__ == "__main__":
    main()
