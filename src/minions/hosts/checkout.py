"""A commit on a host: brought over the connection, only what is missing, and checked out in a worktree of its own."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minions.hosts import project
from minions.hosts.connection import Connection, Run
from minions.hosts.faults import CheckoutRefused, HostNotReady, RequestFailed
from minions.hosts.project import Patch
from minions.hosts.transfer import put_file

_GIT_SECONDS = 1800.0
# The settings of the host's user must not change what a commit looks like.
_PLAIN: Final[dict[str, str | None]] = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
    "GIT_DIR": None,
    "GIT_WORK_TREE": None,
    "GIT_INDEX_FILE": None,
}


@dataclass(frozen=True, slots=True)
class Checkout:
    """A worktree on a host. sent_bytes: what was brought for it. restored: tracked files that were not as committed.

    Whoever runs something in it holds a shared lock on `lock`; then it is neither pruned nor restored.
    """

    directory: str
    lock: str
    commit: str
    made: bool
    sent_bytes: int
    restored: tuple[str, ...]


async def check_out(connection: Connection, root: Path, commit: str, *, patch: Patch | None = None) -> Checkout:
    """Let the host have a worktree of the commit, with the patch applied, each verified by its hash.

    root: the project here. Raises CheckoutRefused for what cannot be brought or does not verify, HostNotReady when git
    is missing there.
    """
    if reasons := await project.objections(root, commit, whole_history=not connection.host.is_local):
        raise CheckoutRefused(f"commit {commit[:12]} cannot be brought to {connection.host.name}: {'; '.join(reasons)}")
    worktrees = _Worktrees(connection, await _home(connection, root, commit))
    sent = await worktrees.bring(root, commit)
    name = f"{commit}-{patch.sha256[:12]}" if patch else commit
    made = not await worktrees.has(name)
    if made:
        await worktrees.make(name, commit, patch)
    restored = () if made else await worktrees.verify(name, commit, patch)
    directory = worktrees.directory(name)
    await connection.request("touch", {"path": directory})
    return Checkout(directory, f"{directory}.lock", commit, made, sent, restored)


async def _home(connection: Connection, root: Path, commit: str) -> str:
    state = connection.host.state
    if state.startswith("~"):
        state = connection.greeting.home + state[1:]
    return f"{state}/projects/{await project.project_key(root, commit)}"


class _Worktrees:
    """The repository of one project on one host, and its worktrees."""

    def __init__(self, connection: Connection, home: str) -> None:
        self._connection = connection
        self._home = home
        self._repository = f"{home}/repository.git"

    def directory(self, name: str) -> str:
        return f"{self._home}/worktrees/{name}"

    async def has(self, name: str) -> bool:
        reply, _ = await self._connection.request("describe", {"paths": [self.directory(name)]})
        return reply["found"][0] is not None

    async def bring(self, root: Path, commit: str) -> int:
        """Let the repository have the commit, under a name that keeps its history; how many bytes that took."""
        await self._must("~", "init", "--quiet", "--bare", "--template=", self._repository)
        if self._connection.host.is_local:
            await self._borrow(root)
        name = f"refs/minions/{commit}"
        sent = 0
        if await self._commit(name) != commit:
            if self._connection.host.is_local or await self._known("--contains", commit):
                await self._must(self._repository, "update-ref", name, commit)
            else:
                sent = await self._send(root, commit, await project.present(root, await self._known()))
        found = await self._commit(name)
        if found != commit:
            raise CheckoutRefused(f"{self._connection.host.name}: has {found or 'nothing'} where {commit} should be")
        return sent

    async def make(self, name: str, commit: str, patch: Patch | None) -> None:
        """Under another name until all is verified: a worktree that has its name is whole."""
        # Somebody may have removed the directory alone.
        await self._forget(name)
        await self._must(self._repository, "worktree", "prune")
        new = self.directory(f".new-{secrets.token_hex(6)}")
        await self._must(self._repository, "worktree", "add", "--quiet", "--detach", "--force", new, commit)
        try:
            if patch is not None:
                await self._apply(new, patch)
            await self._verify_ids(new, commit, patch)
            await self._must(self._repository, "worktree", "move", new, self.directory(name))
        except CheckoutRefused:
            await self._run(self._repository, "worktree", "remove", "--force", "--force", new)
            if not await self.has(name):  # another coordinator may have made the same
                raise

    async def verify(self, name: str, commit: str, patch: Patch | None) -> tuple[str, ...]:
        """That it still is what it was; tracked files that were changed are put back, unless something runs there."""
        directory = self.directory(name)
        await self._verify_ids(directory, commit, patch)
        await self._run(directory, "update-index", "--refresh", "-q")
        listed = (await self._must(directory, "diff-files", "--name-only", "-z")).stdout
        if not listed or await self._in_use(directory):
            return ()
        await self._must(directory, "checkout-index", "--force", "--quiet", "-z", "--stdin", body=listed)
        return tuple(path.decode(errors="replace") for path in listed.split(b"\0") if path)

    async def _forget(self, name: str) -> None:
        """The logs and marks beside a worktree that is not there."""
        reply, _ = await self._connection.request("entries", {"path": f"{self._home}/worktrees"})
        beside = [self.directory(entry) for entry in reply["entries"] if entry.startswith(f"{name}.")]
        await self._connection.request("remove", {"paths": beside})

    async def _send(self, root: Path, commit: str, have: list[str]) -> int:
        with tempfile.TemporaryDirectory(prefix="minions-") as scratch:
            bundle = Path(scratch) / f"{commit}.bundle"
            await project.write_bundle(root, commit, have, bundle)
            target = f"{self._home}/bundles/{commit}-{secrets.token_hex(4)}.bundle"
            await put_file(self._connection, bundle, target)
            size = (await asyncio.to_thread(bundle.stat)).st_size
        try:
            name = f"refs/minions/{commit}"
            await self._must(self._repository, "fetch", "--quiet", "--no-tags", target, f"{name}:{name}")
        finally:
            await self._connection.request("remove", {"paths": [target]})
        return size

    async def _known(self, *which: str) -> list[str]:
        """The commits that were brought before; all of their history is there, too."""
        words = ("for-each-ref", "--format=%(objectname)", *which, "refs/minions/")
        return (await self._run(self._repository, *words)).stdout.decode().split()

    async def _borrow(self, root: Path) -> None:
        """This machine has the objects already."""
        words = ("rev-parse", "--path-format=absolute", "--git-path", "objects")
        objects = (await project.must(root, *words)).decode().strip()
        path = f"{self._repository}/objects/info/alternates"
        await self._connection.request("write", {"path": path, "mode": 0o644}, f"{objects}\n".encode())

    async def _apply(self, directory: str, patch: Patch) -> None:
        path = f"{directory}.patch"
        with tempfile.NamedTemporaryFile(prefix="minions-") as source:
            source.write(patch.content)
            source.flush()
            await put_file(self._connection, Path(source.name), path, sha256=patch.sha256)
        try:
            await self._must(directory, "apply", "--index", "--binary", "--whitespace=nowarn", path)
        finally:
            await self._connection.request("remove", {"paths": [path]})

    async def _verify_ids(self, directory: str, commit: str, patch: Patch | None) -> None:
        head = await self._must(directory, "rev-parse", "--verify", "HEAD^{commit}")
        tree = await self._must(directory, "write-tree")
        wanted = patch.tree if patch else await self._commit(f"{commit}^{{tree}}", "")
        for what, done, right in (("commit", head, commit), ("tree", tree, wanted)):
            found = done.stdout.decode().strip()
            if found != right:
                raise CheckoutRefused(
                    f"{self._connection.host.name}: {directory} has {what} {found}, not {right}",
                    hint="Remove it there; it is made again.",
                )

    async def _commit(self, name: str, kind: str = "^{commit}") -> str:
        done = await self._run(self._repository, "rev-parse", "--verify", "--quiet", f"{name}{kind}")
        return done.stdout.decode().strip()

    async def _in_use(self, directory: str) -> bool:
        reply, _ = await self._connection.request("lock", {"path": f"{directory}.lock"})
        return bool(reply["held"])

    async def _must(self, directory: str, *words: str, body: bytes = b"") -> Run:
        done = await self._run(directory, *words, body=body)
        if done.code:
            said = done.stderr.strip().splitlines()
            why = "its time was over" if done.late else said[-1] if said else f"code {done.code}"
            raise CheckoutRefused(f"{self._connection.host.name}: git {words[0]} failed in {directory}: {why}")
        return done

    async def _run(self, directory: str, *words: str, body: bytes = b"") -> Run:
        try:
            return await self._connection.run(
                ["git", *words], directory=directory, environment=_PLAIN, body=body, timeout_seconds=_GIT_SECONDS
            )
        except RequestFailed as error:
            if error.kind == "no_program":
                raise HostNotReady(error.message, hint=f"Install git on {self._connection.host.name}.") from None
            raise
