"""Whether what an experiment expected was written down before it was measured, as git's history tells."""

import json
import re
import subprocess

# Their results name no program and five of them came in one commit with what was expected: nobody can tell any more.
# A new run of one of them names its program, and is then held to the rule.
MEASURED_BEFORE_THE_RULE = {
  "s1_asgd",
  "s1_consensus",
  "s1_latency",
  "s1_messages",
  "s1_samples",
  "s1_straggler",
  "s3_deadline",
  "s3_rate",
  "s3_rps",
}

PAGE = "result" + ".md"  # of a folder, in commits that figures were copied from


def git(root, *arguments):
  done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
  return done.stdout if done.returncode == 0 else ""


def program_commit(root):
  """What was measured: HEAD, and whether files that git knows differ from it."""
  changed = " with uncommitted changes" if git(root, "status", "--porcelain", "--untracked-files=no").strip() else ""
  return git(root, "rev-parse", "--short=10", "HEAD").strip() + changed


def measured_part(text):
  """Of result.json what runs wrote here: the runs that were not copied from a page, and their figures. Labels and goals
  are written by hand, and may change later."""
  if not text:
    return []
  data = json.loads(text)
  own = [run for run, about in data["runs"].items() if "copied" not in about]
  fields = ("table", "setting", "what", "value", "interval", "range", "run")
  cells = [[cell.get(field) for field in fields] for cell in data["cells"] if cell["run"] in own]
  return [[run, data["runs"][run]["program"]] for run in own] + cells


def tables_of(text):
  """What the run wrote of the page that figures were copied from."""
  return text.split("## Reading")[0]


def changes(root, path, tip="HEAD"):
  """Commits up to `tip` that changed the file, newest first."""
  return git(root, "log", "--format=%H", tip, "--", path).split()


def measured_in(root, path, part, tip="HEAD"):
  """The commit that brought the figures as they stand in `tip`; empty if there is none."""
  brought, now = "", part(git(root, "show", f"{tip}:{path}"))
  for commit in changes(root, path, tip):
    if part(git(root, "show", f"{commit}:{path}")) != now:
      break
    brought = commit
  return brought


def expectation_objections(root, name, tip="HEAD"):
  """What keeps expected.md from standing in a commit of its own, or of such pages alone."""
  path = f"tools/experiments/{name}/expected.md"
  written = changes(root, path, tip)
  if not written or (tip == "HEAD" and git(root, "diff", "HEAD", "--name-only", "--", path).strip()):
    return [f"{name}: commit expected.md before the run"]
  files = git(root, "show", "--format=", "--name-only", written[0]).split()
  others = [file for file in files if not file.endswith("/expected.md")]
  if others:
    return [f"{name}: expected.md was last changed together with {others[0]}; it needs a commit of its own"]
  return []


def order_objections(root, name, file, part, tip="HEAD"):
  """Whether expected.md, as it stood in `tip`, came in a commit of its own before the figures did."""
  found = expectation_objections(root, name, tip)
  if found:
    return found
  folder = f"tools/experiments/{name}"
  expected = changes(root, f"{folder}/expected.md", tip)[0]
  measured = measured_in(root, f"{folder}/{file}", part, tip)
  ancestor = subprocess.run(["git", "-C", str(root), "merge-base", "--is-ancestor", expected, measured])
  if ancestor.returncode != 0:  # that they are two commits was asked above
    return [f"{name}: expected.md ({expected[:10]}) did not come before the result ({measured[:10]})"]
  return []


def objections(root, name):
  """What is wrong with the order in which expected.md and the figures came. Figures that were copied from a page are
  judged by the history of that page: expected.md was shortened since, and a summary of an expectation is none."""
  text = git(root, "show", f"HEAD:tools/experiments/{name}/result.json")
  if not text:
    return []
  runs = json.loads(text)["runs"].values()
  found = []
  for run in runs:
    if not re.match(r"[0-9a-f]{7,40}\b", run["program"]) and not ("copied" in run and name in MEASURED_BEFORE_THE_RULE):
      found.append(f"{name}: result.json does not name the program's commit")
  if any("copied" not in run for run in runs):
    found += order_objections(root, name, "result.json", measured_part)
  copied = {run["copied"] for run in runs if "copied" in run}
  for tip in copied if name not in MEASURED_BEFORE_THE_RULE else ():
    found += order_objections(root, name, PAGE, tables_of, tip)
  return found
