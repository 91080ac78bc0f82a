"""The command lines of the tools under test. Nothing here runs anything.

A tool gets a room: repo/ is what is measured, home/ holds its caches and settings, so that no run sees
the cache of another one. Sources are absolute paths. Defaults are kept; each exception says why.
"""
import os
from pathlib import Path

from measure import find_program

PASSWORD = "bench"
IMAGE_NAME = "disk"


class Tool:
    """One row. `ops` is what the row can do; backup and restore give (argv, working directory)."""
    name = program_name = ""
    ops = {"first", "unchanged", "forced", "changed", "restore"}
    version_args = ("--version",)
    note = ""

    def __init__(self, room, program=None):
        self.room = Path(room)
        self.repo = self.room / "repo"
        self.program = program or find_program(self.program_name)
        self.backups = 0

    def env(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.room / "home"), "LANG": "C.UTF-8", **self.own_env()}

    def own_env(self):
        return {}

    def init(self):
        return []

    def backup(self, source, force):
        """Called once per run; counts, because some tools want a new name each time."""
        self.backups += 1
        return self.backup_argv(str(source), force), None

    def restored(self, source, target):
        """Where the restored source is, below the target directory."""
        return Path(target) / str(source).lstrip("/")


class Quintet(Tool):
    name = program_name = "quintet"
    init_args = ()

    def own_env(self):
        return {"QUINTET_REPOSITORY": str(self.repo), "QUINTET_PASSWORD": PASSWORD}

    def init(self):
        return [[self.program, "init", *self.init_args]]

    def backup_argv(self, source, force):
        forced = ["--force"] if force else []
        if Path(source).is_file():
            return [self.program, "import", "-f", "raw", *forced, source, IMAGE_NAME]
        return [self.program, "backup", *forced, source]

    def restore(self, source, target):
        if Path(source).is_file():
            return [self.program, "export", "-f", "raw", IMAGE_NAME + "@latest", f"{target}/{Path(source).name}"], None
        return [self.program, "restore", "latest", "--target", target], None

    def restored(self, source, target):
        return Path(target) / Path(source).name if Path(source).is_file() else super().restored(source, target)


class QuintetOld(Quintet):
    name = "quintet-old"
    note = "an older build"


class QuintetPlain(Quintet):
    name = "quintet-plain"
    init_args = ("--no-encryption",)
    note = "no encryption"


class Restic(Tool):
    name = program_name = "restic"
    version_args = ("version",)

    def own_env(self):
        return {"RESTIC_REPOSITORY": str(self.repo), "RESTIC_PASSWORD": PASSWORD}

    def init(self):
        return [[self.program, "init"]]

    def backup_argv(self, source, force):
        return [self.program, "backup", *(["--force"] if force else []), source]

    def restore(self, source, target):
        sparse = ["--sparse"] if Path(source).is_file() else []
        return [self.program, "restore", "latest", "--target", target, *sparse], None


class Borg(Tool):
    name = program_name = "borg"
    encryption = "repokey"  # with SHA instructions faster than repokey-blake2
    create_args = ()
    note = "repokey, lz4 (its default compression)"

    def own_env(self):
        return {"BORG_REPO": str(self.repo), "BORG_PASSPHRASE": PASSWORD, "BORG_BASE_DIR": str(self.room / "home"),
                "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}

    def init(self):
        return [[self.program, "init", "-e", self.encryption]]

    def backup_argv(self, source, force):
        forced = ["--files-cache=disabled"] if force else []
        return [self.program, "create", *self.create_args, *forced, f"::b{self.backups}", source]

    def restore(self, source, target):
        sparse = ["--sparse"] if Path(source).is_file() else []
        return [self.program, "extract", *sparse, f"::b{self.backups}"], target  # extracts into its directory


class BorgZstd(Borg):
    name = "borg-zstd"
    create_args = ("--compression", "zstd,1")
    note = "repokey, --compression zstd,1"


class BorgPlain(Borg):
    name = "borg-plain"
    encryption = "none"
    note = "no encryption, lz4"


class Kopia(Tool):
    name = program_name = "kopia"
    note = "--compression zstd-fastest: it does not compress by default; the image in a directory of its own"

    def own_env(self):
        home = self.room / "home"
        return {"KOPIA_PASSWORD": PASSWORD, "KOPIA_CONFIG_PATH": str(home / "kopia.config"),
                "KOPIA_LOG_DIR": str(home / "log"), "KOPIA_CHECK_FOR_UPDATES": "false"}

    def init(self):
        return [[self.program, "repository", "create", "filesystem", "--path", self.repo,
                 "--cache-directory", self.room / "home" / "cache"],
                [self.program, "policy", "set", "--global", "--compression", "zstd-fastest"]]

    def directory(self, source):
        """Kopia reads a source again if it is a single file, changed or not, and only recognises files
        inside directories. So it gets a directory with nothing but a link to the image."""
        if not Path(source).is_file():
            return source
        folder = self.room / "image"
        if not folder.exists():
            folder.mkdir()
            os.link(source, folder / Path(source).name)
        return folder

    def backup_argv(self, source, force):
        forced = ["--force-hash=100"] if force else []
        return [self.program, "snapshot", "create", "--no-progress", *forced, self.directory(source)]

    def restore(self, source, target):
        sparse = ["--write-sparse-files"] if Path(source).is_file() else []
        return [self.program, "restore", "--no-progress", "--snapshot-time=latest", *sparse, self.directory(source),
                Path(target) / Path(self.directory(source)).name], None

    def restored(self, source, target):
        folder = Path(target) / Path(self.directory(source)).name
        return folder / Path(source).name if Path(source).is_file() else folder


class Rustic(Tool):
    name = program_name = "rustic"

    def own_env(self):
        return {"RUSTIC_REPOSITORY": str(self.repo), "RUSTIC_PASSWORD": PASSWORD, "RUSTIC_NO_PROGRESS": "true"}

    def init(self):
        return [[self.program, "init"]]

    def backup_argv(self, source, force):
        return [self.program, "backup", *(["--force"] if force else []), source]

    def restore(self, source, target):
        sparse = ["--sparse", "by-content"] if Path(source).is_file() else []
        return [self.program, "restore", *sparse, "latest", target], None


class TarZstd(Tool):
    """What a careful administrator does without any of the tools: no deduplication, no encryption."""
    name, program_name = "tar-zstd", "tar"
    ops = {"first", "restore"}
    note = "tar c | zstd -1, one thread"
    pack = 'tar {sparse} -C "$2" -cf - "$3" | zstd -q -1 -o "$1/archive"'

    def backup_argv(self, source, force):
        base = Path(source)
        script = 'mkdir -p "$1" && ' + self.pack.format(sparse="-S" if base.is_file() else "")
        return ["sh", "-c", script, "sh", self.repo, base.parent, base.name]

    def restore(self, source, target):
        return ["sh", "-c", 'zstd -q -d -c "$1/archive" | tar -xf -', "sh", self.repo], target

    def restored(self, source, target):
        return Path(target) / Path(source).name


class Tar(TarZstd):
    name = "tar"
    note = "uncompressed"
    pack = 'tar {sparse} -C "$2" -cf "$1/archive" "$3"'

    def restore(self, source, target):
        return ["tar", "-xf", self.repo / "archive"], target


class Copy(TarZstd):
    """`cp -a` of the source: its restore is the copy."""
    name, program_name = "cp", "cp"
    ops = {"restore"}
    note = "cp -a"

    def restore(self, source, target):
        return ["cp", "-a", source, target], None


TOOLS = {tool.name: tool for tool in (
    Quintet, QuintetOld, QuintetPlain, Restic, Borg, BorgZstd, BorgPlain, Kopia, Rustic, TarZstd, Tar, Copy)}
