"""Scores the output of iscsi-test-cu: passed, skipped with reasons, failed. A test that skips counts
as passed for the tool.

score.py LOG [PATTERN REASON]: tests that match the pattern may fail, for the reason."""
import collections, re, sys

text = open(sys.argv[1], errors="replace").read()
tests = collections.OrderedDict()
suite = test = None
for line in text.split("\n"):
    found = re.search(r"Suite: (\S+)", line)
    if found:
        suite = found.group(1)
    found = re.search(r"Test: (\S+) ?\.\.\.", line)
    if found:
        test = f"{suite}.{found.group(1)}"
        tests[test] = ["passed", ""]
    if test is None:
        continue
    skipped = re.search(r"\[SKIPPED\] (.*)", line)
    if skipped and tests[test][0] == "passed":
        tests[test] = ["skipped", skipped.group(1).strip()]
    if re.search(r"\.\.\.\s*FAILED|\bFAILED$", line) and "[FAILED]" not in line:
        tests[test] = ["failed", ""]
for failed in re.findall(r"Suite (\S+), Test (\S+) had failures", text):
    for name in tests:
        if name.endswith(".".join(failed)):
            tests[name] = ["failed", ""]
if len(sys.argv) > 3 and sys.argv[3]:
    for name, of in tests.items():
        if of[0] == "failed" and re.fullmatch(sys.argv[2], name):
            tests[name] = ["skipped", sys.argv[3]]
count = collections.Counter(state for state, _ in tests.values())
print(f"score: {count['passed']} passed, {count['skipped']} skipped, {count['failed']} failed")
for state in ("failed", "skipped"):
    reasons = collections.defaultdict(list)
    for name, (of, reason) in tests.items():
        if of == state:
            reasons[reason].append(name)
    for reason, names in reasons.items():
        print(f"{state}: {reason}: {', '.join(names)}")
sys.exit(bool(count["failed"]) or not count["passed"])
