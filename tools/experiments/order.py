"""Whether what an experiment expected was written down before it was measured, as git's history tells."""
import re
import subprocess

# Their results name no program and five of them came in one commit with what was expected: nobody can tell any more.
# A new run of one of them names its program, and is then held to the rule.
MEASURED_BEFORE_THE_RULE = {"s1_asgd", "s1_consensus", "s1_latency", "s1_messages", "s1_samples", "s1_straggler",
                            "s3_deadline", "s3_rate", "s3_rps"}


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def program_commit(root):
    """What was measured: HEAD, and whether files that git knows differ from it."""
    changed = " with uncommitted changes" if git(root, "status", "--porcelain", "--untracked-files=no").strip() else ""
    return git(root, "rev-parse", "--short=10", "HEAD").strip() + changed


def tables_of(text):
    """What the run wrote; the "Reading" below it is written by hand, and may change later."""
    return text.split("## Reading")[0]


def changes(root, path):
    """Commits that changed the file, newest first."""
    return git(root, "log", "--format=%H", "--", path).split()


def measured_in(root, path):
    """The commit that brought the tables as they stand in HEAD; empty if there is none."""
    brought, now = "", tables_of(git(root, "show", f"HEAD:{path}"))
    for commit in changes(root, path):
        if tables_of(git(root, "show", f"{commit}:{path}")) != now:
            break
        brought = commit
    return brought


def expectation_objections(root, name):
    """What keeps expected.md from standing in a commit of its own."""
    path = f"tools/experiments/{name}/expected.md"
    written = changes(root, path)
    if not written or git(root, "diff", "HEAD", "--name-only", "--", path).strip():
        return [f"{name}: commit expected.md before the run"]
    files = git(root, "show", "--format=", "--name-only", written[0]).split()
    if files != [path]:
        return [f"{name}: expected.md was last changed together with {next(f for f in files if f != path)}; "
                "it needs a commit of its own"]
    return []


def objections(root, name):
    """What is wrong with the order in which expected.md and the tables of result.md came."""
    folder = f"tools/experiments/{name}"
    result = git(root, "show", f"HEAD:{folder}/result.md")
    if not result:
        return []
    if not re.search(r"; program [0-9a-f]{7,40}\b", tables_of(result)):
        return [] if name in MEASURED_BEFORE_THE_RULE else [f"{name}: result.md does not name the program's commit"]
    found = expectation_objections(root, name)
    if found:
        return found
    expected, measured = changes(root, f"{folder}/expected.md")[0], measured_in(root, f"{folder}/result.md")
    ancestor = subprocess.run(["git", "-C", str(root), "merge-base", "--is-ancestor", expected, measured])
    if ancestor.returncode != 0:   # that they are two commits was asked above
        return [f"{name}: expected.md ({expected[:10]}) did not come before the result ({measured[:10]})"]
    return []
